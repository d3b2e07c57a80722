//! Makes a call on a thread of its own, so that one that never comes back cannot hold the run.

use crate::context::{Cancel, Context};
use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often deadline and cancellation are looked at while a call is under way. A result is taken at once.
const LOOK: Duration = Duration::from_millis(10);

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum NoResult {
    /// It was still under way at the deadline.
    Late,
    /// It was still under way when the run was cancelled.
    Cancelled,
    /// It panicked with this message.
    Panicked(Option<String>),
    /// There was no thread for it, so it was not made.
    NoThread(io::Error),
}

/// Makes the call and waits for it until `grace` after the deadline or the cancellation, whichever comes first: that
/// much is for a call that heeds them to come back with what it has. Then it is told to stop, and left alone.
pub(crate) fn call<T: Send + 'static>(
    context: &Context,
    grace: Duration,
    work: impl FnOnce(&Context) -> T + Send + 'static,
) -> Result<T, NoResult> {
    silence_workers();
    // A flag of its own: giving up one call must not cancel whatever else has the flag of the run.
    let own = Cancel::new();
    let of_call = context.with_cancel(own.clone());
    follow(context.cancel(), &own);
    let (sender, receiver) = sync_channel(1);
    let body = move || {
        IS_WORKER.set(true);
        // What the call left half-changed when it panicked is the part of its owner.
        let outcome = catch_unwind(AssertUnwindSafe(move || work(&of_call)));
        // Nobody may be waiting any more.
        let _ = sender.send(outcome.map_err(|payload| message(&*payload)));
    };
    thread::Builder::new().name("agentkit-call".to_owned()).spawn(body).map_err(NoResult::NoThread)?;
    wait(context, &own, grace, &receiver)
}

/// Raises the second flag if the first is up.
fn follow(first: &Cancel, second: &Cancel) {
    if first.is_cancelled() && !second.is_cancelled() {
        second.cancel();
    }
}

fn wait<T>(
    context: &Context,
    own: &Cancel,
    grace: Duration,
    receiver: &Receiver<Result<T, Option<String>>>,
) -> Result<T, NoResult> {
    let mut over_since = None;
    loop {
        let received = receiver.recv_timeout(LOOK);
        // The call may raise its flag itself, to end the run.
        follow(own, context.cancel());
        match received {
            Ok(outcome) => return outcome.map_err(NoResult::Panicked),
            Err(RecvTimeoutError::Disconnected) => return Err(NoResult::Panicked(None)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        follow(context.cancel(), own);
        let why = match context.remaining() {
            _ if own.is_cancelled() => NoResult::Cancelled,
            Some(left) if left.is_zero() => NoResult::Late,
            _ => continue,
        };
        // Real time, also under a clock that stands still.
        if over_since.get_or_insert_with(Instant::now).elapsed() >= grace {
            own.cancel();
            return Err(why);
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> Option<String> {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
}

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// A panic of a call is its result. The default hook would also print its message, which may hold a model's words with
/// any escape sequence, to the terminal. Other threads keep the hook they have.
fn silence_workers() {
    static ONCE: Once = Once::new();
    // The hook cannot be changed by a panicking thread; the next call does it.
    if thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_WORKER.get() {
                others(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::NoEvents;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    fn due_in(time: Duration) -> Context {
        Context::new(Some(Instant::now() + time), Cancel::new(), Arc::new(NoEvents))
    }

    #[test]
    fn a_result_comes_back() {
        let thread = call(&Context::detached(), Duration::ZERO, |_| thread::current().id());
        assert_ne!(thread.expect("a result"), thread::current().id());
    }

    #[test]
    fn a_panic_is_no_result() {
        let panicked = |work: fn(&Context)| match call(&Context::detached(), Duration::ZERO, work) {
            Err(NoResult::Panicked(message)) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(panicked(|_| panic!("plain")).as_deref(), Some("plain"));
        assert_eq!(panicked(|_| panic!("{}", 1 + 1)).as_deref(), Some("2"));
        assert_eq!(panicked(|_| std::panic::panic_any(7)), None);
    }

    #[test]
    fn a_late_call_is_left_alone_and_told_to_stop() {
        let (release, parked) = channel::<()>();
        let (tell, told) = channel();
        let context = due_in(Duration::from_millis(20));
        let result = call(&context, Duration::ZERO, move |context| {
            let _ = parked.recv();
            let _ = tell.send(context.cancel().is_cancelled());
        });
        assert!(matches!(result, Err(NoResult::Late)), "{result:?}");
        assert!(!context.cancel().is_cancelled(), "the flag of the run is not the call's to raise");
        drop(release);
        assert!(told.recv().expect("the call goes on"));
    }

    #[test]
    fn a_call_that_heeds_the_cancellation_still_has_a_result() {
        let context = Context::detached();
        let (start, started) = channel();
        let cancel = context.cancel().clone();
        let other = thread::spawn(move || {
            started.recv().expect("the call");
            cancel.cancel();
        });
        let result = call(&context, Duration::from_secs(600), move |context| {
            start.send(()).expect("the other thread");
            while !context.cancel().is_cancelled() {
                thread::yield_now();
            }
            "stopped"
        });
        other.join().expect("no panic");
        assert!(matches!(result, Ok("stopped")), "{result:?}");
    }

    #[test]
    fn a_call_can_end_the_run() {
        let context = Context::detached();
        assert!(call(&context, Duration::ZERO, |context| context.cancel().cancel()).is_ok());
        assert!(context.cancel().is_cancelled());
    }
}
