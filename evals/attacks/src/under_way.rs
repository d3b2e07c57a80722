//! What was started and has not ended, for whoever is interrupted: guards do nothing for a process that exits.

use crate::processes;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static UNDER_WAY: Mutex<Vec<Started>> = Mutex::new(Vec::new());

/// How long what was killed may take to be gone.
const LONGEST: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(3);

struct Started {
    pid: u32,
    /// What else belongs to it carries this, or is in its group. Nothing does if there is none.
    marker: Option<OsString>,
}

/// A process is known to be under way until this is dropped.
pub(crate) struct Noted(u32);

impl Drop for Noted {
    fn drop(&mut self) {
        under_way().retain(|started| started.pid != self.0);
    }
}

/// Starts a process, or one that leads a group if a marker is given. No interrupt can come between that and the note of
/// it.
pub(crate) fn spawn(command: &mut Command, marker: Option<&OsStr>) -> io::Result<(Child, Noted)> {
    let mut under_way = under_way();
    let child = command.spawn()?;
    let pid = child.id();
    under_way.push(Started { pid, marker: marker.map(OsStr::to_owned) });
    Ok((child, Noted(pid)))
}

/// Ends every attack and victim under way, and lets none be started any more: for a process that is about to exit.
pub fn end_all() {
    let under_way = under_way();
    for started in under_way.iter() {
        end(started);
    }
    std::mem::forget(under_way);
}

/// What multiplies is killed until there is no more of it.
fn end(started: &Started) {
    let begin = Instant::now();
    let Some(marker) = &started.marker else {
        signal(started.pid);
        return;
    };
    loop {
        let left = processes::of(marker);
        end_group(started.pid, &left);
        if left.is_empty() || begin.elapsed() > LONGEST {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Kills a group, and processes that may have left it.
pub(crate) fn end_group(leader: u32, others: &[u32]) {
    // No such group, no such process: it is dead already.
    let _ = killpg(id(leader), Signal::SIGKILL);
    others.iter().copied().for_each(signal);
}

fn signal(pid: u32) {
    let _ = kill(id(pid), Signal::SIGKILL);
}

fn id(pid: u32) -> Pid {
    Pid::from_raw(pid.try_into().unwrap_or(i32::MAX))
}

fn under_way() -> MutexGuard<'static, Vec<Started>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}
