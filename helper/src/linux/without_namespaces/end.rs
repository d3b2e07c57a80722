//! Ends every process of a jail. None can leave the tree, since whoever loses its parent becomes a child of the nearest
//! process above that takes such children (`PR_SET_CHILD_SUBREAPER`), and that is the jail's init, or the supervisor if that
//! is dead. But one by one they are not to be caught: each can have left a child and be gone before it is looked at.
//! So supervisor and init each keep their signals to what they start, and signal all at once.

use super::STEP;
use crate::error::{Context, Result, failure};
use crate::linux::deadline;
use crate::linux::reap::has_no_child;
use crate::linux::sys::{self, Handled};
use crate::linux::usage::{self, Process};
use agentkit_protocol::FailureKind;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// `LANDLOCK_SCOPE_SIGNAL`.
pub(crate) const SIGNALS: u64 = 2;
/// The first version of Landlock that knows this scope, and that of abstract sockets.
pub(crate) const KNOWS_SIGNALS: u32 = 6;
/// SIGKILL is not instant: who writes to a slow disk has to finish first.
const LONGEST: Duration = Duration::from_secs(15);
/// How long to wait for news between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// What this process starts from here on, and nobody else any more, hears its signals. Landlock knows that since Linux
/// 6.12; before, and without it, nothing changes.
pub(super) fn keep_signals_inside(version: u32) -> Result<()> {
    if version < KNOWS_SIGNALS {
        return Ok(());
    }
    let only_signals = Handled { scopes: SIGNALS, ..Handled::default() };
    let rules = sys::create_ruleset(&only_signals).context(STEP, "landlock_create_ruleset for signals")?;
    nix::sys::prctl::set_no_new_privs()
        .map_err(io::Error::from)
        .context(STEP, "prctl PR_SET_NO_NEW_PRIVS")?;
    sys::restrict_self(rules.as_fd()).context(STEP, "landlock_restrict_self for signals")
}

/// Kills all who hear this process, if those are its own: the kernel lets nobody fork meanwhile.
fn kill_at_once(version: u32) {
    if version >= KNOWS_SIGNALS {
        // That there is nobody is no failure, and the looks find out whether it was enough.
        let _ = nix::sys::signal::kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
}

/// Ends all that descends from this process, which has no other children.
pub(super) fn everything(version: u32) -> Result<()> {
    if has_no_child() {
        // As after most commands, and much faster than to look through /proc.
        return Ok(());
    }
    kill_at_once(version);
    until(|_| true, has_no_child)
}

/// Ends the children of this process that `is_ours` names, with all below them.
pub(super) fn strays(version: u32, is_ours: impl Fn(&Process) -> bool) -> Result<()> {
    kill_at_once(version);
    until(is_ours, || true)
}

/// Ended children are waited for.
fn until(is_ours: impl Fn(&Process) -> bool, is_done: impl Fn() -> bool) -> Result<()> {
    let proc = OwnedFd::from(File::open("/proc").context(STEP, "open /proc")?);
    let end = deadline::after(Instant::now(), LONGEST);
    loop {
        let found = look(&proc, &is_ours).context(STEP, "look for processes that are left")?;
        for process in &found {
            kill(&proc, process);
        }
        let children = found.iter().filter(|process| process.parent == std::process::id());
        children.for_each(|process| sys::take_this_child(process.pid.cast_signed()));
        if found.is_empty() && is_done() {
            return Ok(());
        }
        if Instant::now() > end {
            let message = format!("{} processes are alive {LONGEST:?} after they were killed", found.len());
            return Err(failure(FailureKind::Host, STEP, message));
        }
        let mut news = SigSet::empty();
        news.add(Signal::SIGCHLD);
        // Whatever it says, the next look will tell.
        drop(sys::wait_for_signal(&news, PAUSE));
    }
}

/// What one look finds. Whoever forks and ends meanwhile hides others from it, but then has new children of ours to show.
fn look(proc: &OwnedFd, is_ours: &impl Fn(&Process) -> bool) -> io::Result<Vec<Process>> {
    let this = std::process::id();
    let mut all = usage::processes(proc)?;
    // Those that a host shows to nobody (hidepid=2) it still counts among the children.
    let known: HashSet<u32> = all.iter().map(|it| it.pid).collect();
    let hidden = usage::children(proc, this).into_iter().filter(|pid| !known.contains(pid));
    all.extend(hidden.map(|pid| Process { pid, parent: this, ..Process::default() }));
    let parents: HashMap<u32, u32> = usage::parents(&all);
    let ours = all.iter().filter(|it| it.parent == this && is_ours(it));
    let ours: HashSet<u32> = ours.map(|it| it.pid).collect();
    all.retain(|process| usage::way_up(process.pid, &parents).any(|pid| ours.contains(&pid)));
    Ok(all)
}

/// A number can go to a process of somebody else's as soon as its own has been waited for, so each is looked at again once
/// a descriptor keeps it.
fn kill(proc: &OwnedFd, process: &Process) {
    let pid = process.pid.cast_signed();
    let Ok(pidfd) = sys::open_pidfd(pid) else { return };
    let is_same = || process.started == 0 || usage::starts(proc, process.pid) == Some(process.started);
    if !is_same() {
        return;
    }
    // A tree that forks as fast as it is killed would never end. In a jail within a jail the filter refuses this.
    let forbidden = sys::forbid_forks(pid);
    if sys::signal_process(pidfd.as_fd(), libc::SIGKILL).is_err()
        && let Ok(before) = forbidden
    {
        // It was gone; if the number has gone to another, that one gets back what it had.
        drop(sys::allow_forks(pid, &before));
    }
}
