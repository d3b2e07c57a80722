//! Kills the jail if its supervisor is killed: macOS has no signal for that.
//!
//! A process of its own waits for the end of a pipe. What the supervisor writes there before it ends says that all is
//! done; without it, whatever is in the jail dies and the private directories go.

use super::mark::Mark;
use super::private::Private;
use super::{sanitize, sys};
use crate::error::{Context, Result};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, setsid};
use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;

const STEP: &str = "keeper";

/// Dropped, it has the keeper clean up, and waits for that.
pub(super) struct Keeper {
    pid: i32,
    line: Option<PipeWriter>,
}

impl Keeper {
    /// Before there is anything in the jail, and with signals ignored: those of a terminal must not end it.
    pub(super) fn start(mark: &Mark, private: &Private) -> Result<Self> {
        let (reader, writer) = pipe().context(STEP, "pipe")?;
        match sys::fork().context(STEP, "fork")? {
            Some(pid) => Ok(Keeper { pid, line: Some(writer) }),
            None => {
                drop(writer);
                sys::exit_now(if keep(reader, mark, private).is_ok() { 0 } else { 1 })
            }
        }
    }

    /// Everything is dead and removed.
    pub(super) fn dismiss(mut self) {
        // Without it the keeper looks once more, which does no harm.
        drop(self.line.take().map(|mut line| line.write_all(b".")));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.line = None;
        drop(sys::wait_with_usage(self.pid));
    }
}

fn keep(mut line: PipeReader, mark: &Mark, private: &Private) -> io::Result<()> {
    setsid()?;
    // As long as it held the caller's streams, whoever reads them would wait for their end.
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    drop(nothing);
    sanitize::close_all_but_streams_and(&[line.as_raw_fd()])?;
    if line.read(&mut [0])? == 0 {
        mark.kill_all().map_err(io::Error::other)?;
        private.remove()?;
    }
    Ok(())
}
