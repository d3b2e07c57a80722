//! What every jail's init does all the time: it waits for whoever ends.

use super::sys;
use crate::error::{Context, Result};
use agentkit_protocol::EndedBy;
use nix::libc;

const STEP: &str = "init";

/// How many are taken before init looks at its clock again: processes can end as fast as they are taken.
const AT_ONCE: u32 = 64;

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
