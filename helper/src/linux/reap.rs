//! What every jail's init does all the time: it waits for whoever ends.

use super::sys;
use crate::error::{Context, Result};
use agentkit_protocol::EndedBy;
use nix::libc;

const STEP: &str = "init";

/// Takes every child that has ended; returns how the command ended, if it is one of them.
pub(crate) fn bury_the_dead(command: libc::pid_t) -> Result<Option<EndedBy>> {
    loop {
        match sys::take_ended_child() {
            Ok(Some((pid, status))) if pid == command => {
                return Ok(Some(match libc::WIFSIGNALED(status) {
                    true => EndedBy::Signal(libc::WTERMSIG(status)),
                    false => EndedBy::Exit(libc::WEXITSTATUS(status)),
                }));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(error) => return Err(error).context(STEP, "wait"),
        }
    }
}
