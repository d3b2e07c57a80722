//! What every jail's init does all the time: it waits for whoever ends. One that has a pid namespace takes everything down
//! with it.

use super::layers::Layer;
use super::signals::{self, ForInit};
use super::{deadline, proc_files, sys};
use crate::error::{Context, Result};
use agentkit_protocol::EndedBy;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

const STEP: &str = "init";
/// The wall clock is the supervisor's. But it looks at the jail's memory too, which a jail can make it wait for; so init,
/// which looks at nothing, ends the run if it still goes on this long after its time.
const SPARE: Duration = Duration::from_millis(500);

/// How many are taken before init looks at its clock again: processes can end as fast as they are taken.
const AT_ONCE: u32 = 64;

/// How the command ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) by: EndedBy,
    /// How many processes it left, each a child of init by then, without what is below those.
    pub(crate) left: u64,
}

impl End {
    /// Whatever was left is still there.
    pub(crate) fn of(by: EndedBy) -> Self {
        let this = std::process::id();
        let children = || proc_files::read(&format!("/proc/self/task/{this}/children")).ok();
        // As after most commands, and one call.
        let children = if has_no_child() { None } else { children() };
        End { by, left: children.map_or(0, |text| text.split_whitespace().count() as u64) }
    }
}

/// The kernel's own word for it.
pub(crate) fn has_no_child() -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, flags) == Err(Errno::ECHILD)
}

/// What was found among the children that have ended.
pub(crate) enum Dead {
    Command(EndedBy),
    /// There may be more.
    Many,
    NoMore,
}

/// Takes children that have ended, up to a number, or to the command.
pub(crate) fn bury_the_dead(command: libc::pid_t) -> Result<Dead> {
    for _ in 0..AT_ONCE {
        match sys::take_ended_child() {
            Ok(Some((pid, status))) if pid == command => {
                return Ok(Dead::Command(match libc::WIFSIGNALED(status) {
                    true => EndedBy::Signal(libc::WTERMSIG(status)),
                    false => EndedBy::Exit(libc::WEXITSTATUS(status)),
                }));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Dead::NoMore),
            Err(error) => return Err(error).context(STEP, "wait"),
        }
    }
    Ok(Dead::Many)
}

/// The kernel kills init when the supervisor dies, and the jail with it. If that happened already, the channel is
/// closed: the parent's pid cannot tell, it is always 0 from inside.
pub(crate) fn die_with_supervisor(channel: &OwnedFd) -> Result<()> {
    let signal = (!Layer::DeathSignal.is_off()).then_some(Signal::SIGKILL);
    nix::sys::prctl::set_pdeathsig(signal)
        .map_err(io::Error::from)
        .context(STEP, "prctl PR_SET_PDEATHSIG")?;
    let mut ends = [PollFd::new(channel.as_fd(), PollFlags::empty())];
    poll(&mut ends, PollTimeout::ZERO).map_err(io::Error::from).context(STEP, "poll the channel")?;
    if ends.iter().any(|end| end.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))) {
        std::process::exit(crate::exit_code::FAILED);
    }
    Ok(())
}

/// Waits for the command, passes on what asks it to end, and buries the orphans that come to pid 1 meanwhile.
pub(crate) fn reap_until_gone(command: libc::pid_t, wall: Duration) -> Result<End> {
    let deadline = deadline::after(Instant::now(), wall.saturating_add(SPARE));
    loop {
        match signals::wait_as_init(deadline)? {
            ForInit::Child => loop {
                match bury_the_dead(command)? {
                    Dead::Command(by) => return Ok(End::of(by)),
                    Dead::Many if Instant::now() < deadline => {}
                    Dead::Many | Dead::NoMore => break,
                }
            },
            // The command was not waited for yet, so that the number is still that of the group it leads. A dead group
            // needs no signal.
            ForInit::PassOn(signal) => drop(sys::signal_group(command, signal)),
            ForInit::Late => return Ok(End::of(EndedBy::WallClock)),
        }
    }
}
