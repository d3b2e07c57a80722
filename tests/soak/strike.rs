//! Ends a launch from outside, at a moment that was chosen.

use crate::drive::End;
use agentkit_client::Cancel;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

/// What is done to a launch of the main thread, unless that is over before: its end is that of the channel.
pub(crate) fn strike(end: End, moment: Duration, cancel: &Cancel, over: &Receiver<()>) {
    let Some(child) = seen(over, child) else { return };
    let hit = |victim: i32, signal| {
        // Nothing is waited for: the moment is what was chosen. A launch that is over has nobody left to hit.
        if over.recv_timeout(moment) == Err(RecvTimeoutError::Timeout) {
            let _ = kill(Pid::from_raw(victim), signal);
        }
    };
    match end {
        End::Itself => {}
        End::Helper | End::Caller => hit(child, Signal::SIGKILL),
        End::Term => hit(child, Signal::SIGTERM),
        // It may have died by itself, of a set-up that failed.
        End::Init => seen(over, || children(child, child).into_iter().find(|pid| is_init(*pid)))
            .map_or((), |init| hit(init, Signal::SIGKILL)),
        End::Cancel => {
            if over.recv_timeout(moment) == Err(RecvTimeoutError::Timeout) {
                cancel.cancel();
            }
        }
    }
}

/// What `look` sees first. None if the launch is over before.
fn seen<T>(over: &Receiver<()>, look: impl Fn() -> Option<T>) -> Option<T> {
    while over.try_recv() == Err(TryRecvError::Empty) {
        let found = look();
        if found.is_some() {
            return found;
        }
        std::thread::yield_now();
    }
    None
}

/// The main thread's only child: the helper, or whoever calls it.
fn child() -> Option<i32> {
    let this = i32::try_from(std::process::id()).ok()?;
    children(this, this).first().copied()
}

fn children(pid: i32, thread: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// It has a process id of its own inside.
fn is_init(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("1"))
}
