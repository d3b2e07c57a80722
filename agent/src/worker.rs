//! Makes calls on threads of their own, so that one that never comes back cannot hold the run.

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

/// Makes one call and waits for it: a [`Batch`] of one.
pub(crate) fn call<T: Send + 'static>(
    context: &Context,
    grace: Duration,
    work: impl FnOnce(&Context) -> T + Send + 'static,
) -> Result<T, NoResult> {
    let mut batch = Batch::new(context, grace);
    let call = batch.start(work)?;
    batch.wait(call).0
}

/// Calls side by side. They are waited for until `grace` after the deadline or the cancellation, whichever comes first:
/// that much is for calls that heed them to come back with what they have. Then they are told to stop, and left alone.
pub(crate) struct Batch<'a> {
    context: &'a Context,
    /// A flag of its own: giving up a call must not cancel whatever else has the flag of the run.
    own: Cancel,
    grace: Duration,
    /// Since when it has been time to stop, and which of the two it was. Real time, also under a clock that stands
    /// still.
    over: Option<(Instant, Over)>,
}

#[derive(Clone, Copy)]
enum Over {
    Late,
    Cancelled,
}

/// A call under way.
pub(crate) struct Call<T> {
    started: Instant,
    receiver: Receiver<(Result<T, Option<String>>, Instant)>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(context: &'a Context, grace: Duration) -> Self {
        let own = Cancel::new();
        follow(context.cancel(), &own);
        Batch { context, own, grace, over: None }
    }

    /// Starts a call on a thread of its own.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Context) -> T + Send + 'static,
    ) -> Result<Call<T>, NoResult> {
        silence_workers();
        let of_call = self.context.with_cancel(self.own.clone());
        let (sender, receiver) = sync_channel(1);
        let started = self.context.now();
        let body = move || {
            IS_WORKER.set(true);
            let clock = of_call.clone();
            // What the call left half-changed when it panicked is the part of its owner.
            let outcome = catch_unwind(AssertUnwindSafe(move || work(&of_call)));
            // Nobody may be waiting any more.
            let _ = sender.send((outcome.map_err(|payload| message(&*payload)), clock.now()));
        };
        thread::Builder::new().name("agentkit-call".to_owned()).spawn(body).map_err(NoResult::NoThread)?;
        Ok(Call { started, receiver })
    }

    /// Waits for one of the calls. Also says how long it took, or was waited for.
    pub(crate) fn wait<T>(&mut self, call: Call<T>) -> (Result<T, NoResult>, Duration) {
        let since = |end: Instant| end.saturating_duration_since(call.started);
        loop {
            let received = call.receiver.recv_timeout(LOOK);
            // A call may raise its flag itself, to end the run. Later it was us.
            if self.over.is_none() {
                follow(&self.own, self.context.cancel());
            }
            match received {
                Ok((outcome, end)) => return (outcome.map_err(NoResult::Panicked), since(end)),
                Err(RecvTimeoutError::Disconnected) => {
                    return (Err(NoResult::Panicked(None)), since(self.context.now()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            follow(self.context.cancel(), &self.own);
            if let Some(why) = self.given_up() {
                return (Err(why), since(self.context.now()));
            }
        }
    }

    /// Why the calls are no longer waited for, if it is so.
    fn given_up(&mut self) -> Option<NoResult> {
        let over = match self.context.remaining() {
            _ if self.over.is_some() => None,
            _ if self.own.is_cancelled() => Some(Over::Cancelled),
            Some(left) if left.is_zero() => Some(Over::Late),
            _ => None,
        };
        self.over = self.over.or_else(|| over.map(|over| (Instant::now(), over)));
        let (since, over) = self.over?;
        if since.elapsed() < self.grace {
            return None;
        }
        self.own.cancel();
        Some(match over {
            Over::Late => NoResult::Late,
            Over::Cancelled => NoResult::Cancelled,
        })
    }
}

/// Raises the second flag if the first is up.
fn follow(first: &Cancel, second: &Cancel) {
    if first.is_cancelled() && !second.is_cancelled() {
        second.cancel();
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
    use crate::event::NoEvents;
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
