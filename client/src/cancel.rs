//! Ending a run from another thread.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ends the runs it was given to: [`Command::cancel`](crate::Command::cancel).
///
/// Clones share one state, and cancelling is for good: a command given an already cancelled handle is not started.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    cancelled: bool,
    next_id: u64,
    /// One pipe for each run under way.
    waiting: BTreeMap<u64, PipeWriter>,
}

impl Cancel {
    /// A handle that was not cancelled yet.
    pub fn new() -> Self {
        Cancel::default()
    }

    /// Kills the whole process tree of every run that has this handle, and wakes the calls that wait for them.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.cancelled = true;
        for (_, mut pipe) in std::mem::take(&mut state.waiting) {
            // Closing alone would do, were it not for hosts where another thread's child can inherit the pipe.
            let _ = pipe.write(&[0]);
        }
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.state().cancelled
    }

    /// A descriptor that becomes and stays readable on cancellation.
    pub(crate) fn subscribe(&self) -> io::Result<Subscription> {
        let (reader, writer) = io::pipe()?;
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        if !state.cancelled {
            state.waiting.insert(id, writer);
        }
        drop(state);
        Ok(Subscription { cancel: self.clone(), id, reader })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run's interest in a [`Cancel`].
pub(crate) struct Subscription {
    cancel: Cancel,
    id: u64,
    reader: PipeReader,
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.cancel.state().waiting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, poll};

    fn readable(subscription: &Subscription) -> bool {
        let mut fds = [PollFd::new(subscription.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, 0u8).expect("poll") == 1
    }

    #[test]
    fn every_subscription_hears_it_and_so_does_a_later_one() {
        let cancel = Cancel::new();
        let (one, two) = (cancel.subscribe().expect("pipe"), cancel.clone().subscribe().expect("pipe"));
        assert!(!readable(&one) && !readable(&two) && !cancel.is_cancelled());
        cancel.clone().cancel();
        assert!(readable(&one) && readable(&two) && cancel.is_cancelled());
        assert!(readable(&cancel.subscribe().expect("pipe")));
    }

    #[test]
    fn a_finished_run_leaves_nothing_behind() {
        let cancel = Cancel::new();
        drop(cancel.subscribe().expect("pipe"));
        assert!(cancel.state().waiting.is_empty());
    }
}
