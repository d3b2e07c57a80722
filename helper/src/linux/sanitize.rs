//! Step 1: what the caller left lying around is put away before anything else happens.

use super::{proc_files, sys};
use crate::cli::Caller;
use crate::error::{Context, Hint, Result, failure};
use crate::report::Reporter;
use agentkit_protocol::FailureKind;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::unistd::{Gid, Uid};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;

const STEP: &str = "sanitize";
/// The first descriptor that is not a standard stream. (std has already filled 0 to 2 where the caller left a gap.)
const FIRST: i32 = 3;

/// Refuses borrowed privileges, closes inherited descriptors, undoes inherited signal settings.
pub(crate) fn sanitize(caller: &Caller) -> Result<Reporter> {
    refuse_borrowed_privilege()?;
    let reporter = match caller {
        Caller::Client => {
            close_all_but_streams_and(None).context(STEP, "close inherited descriptors")?;
            client_reporter()
        }
        Caller::Script { report_fd } => Reporter::Script(keep_only(*report_fd)?),
    };
    reset_signals()?;
    Ok(reporter)
}

/// Frames to the client whose socket is standard input.
pub(crate) fn client_reporter() -> Reporter {
    Reporter::client(sys::adopt(0))
}

/// Set-user-id or file capabilities would let an ordinary caller steer a privileged process.
fn refuse_borrowed_privilege() -> Result<()> {
    let changed = Uid::current() != Uid::effective() || Gid::current() != Gid::effective();
    if changed || sys::started_with_privilege() {
        let message = "started set-user-id, set-group-id or with file capabilities; it is not made for that";
        return Err(failure(FailureKind::Host, STEP, message));
    }
    Ok(())
}

/// Closes every descriptor from 3 up but the one for the report.
fn keep_only(report_fd: Option<i32>) -> Result<Option<File>> {
    close_all_but_streams_and(report_fd).context(STEP, "close inherited descriptors")?;
    let Some(fd) = report_fd else { return Ok(None) };
    let report = ManuallyDrop::new(sys::adopt(fd));
    // Also finds out whether it is open at all.
    fcntl(report.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
        .map_err(io::Error::from)
        .context(STEP, format_args!("--report-fd {fd}: use descriptor {fd}"))
        .hint("open it for writing, for instance with 3>report.json")?;
    Ok(Some(File::from(ManuallyDrop::into_inner(report))))
}

/// Closes every descriptor from 3 up but one.
pub(super) fn close_all_but_streams_and(kept: Option<i32>) -> io::Result<()> {
    match kept {
        Some(kept) => {
            sys::close_range(FIRST, kept - 1)?;
            sys::close_range(kept + 1, i32::MAX)
        }
        None => sys::close_range(FIRST, i32::MAX),
    }
}

/// A caller that ignores SIGCHLD would take the exit status away from us, and a blocked or ignored signal would be
/// inherited by the command.
fn reset_signals() -> Result<()> {
    for number in ignored_signals().context(STEP, "read /proc/self/status")? {
        // SIGPIPE stays ignored here (std does that): a caller that went away must not kill the supervisor half-way.
        // 32 up to SIGRTMIN are the C library's own: its posix_spawn ignores them in the child, its sigaction refuses.
        if number != nix::libc::SIGPIPE && !(32..nix::libc::SIGRTMIN()).contains(&number) {
            sys::reset_signal(number).context(STEP, format_args!("reset signal {number}"))?;
        }
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
        .map_err(io::Error::from)
        .context(STEP, "sigprocmask")
}

/// The signals that this process ignores.
pub(super) fn ignored_signals() -> io::Result<Vec<i32>> {
    let status = proc_files::read("/proc/self/status")?;
    let mask = proc_files::status_field(&status, "SigIgn").unwrap_or("0");
    let mask = u64::from_str_radix(mask, 16).map_err(io::Error::other)?;
    Ok((1..=64).filter(|number| mask & (1 << (number - 1)) != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_of_a_rust_program_are_read() {
        // std ignores SIGPIPE at start.
        assert!(ignored_signals().unwrap().contains(&nix::libc::SIGPIPE));
    }

    #[test]
    fn borrowed_privilege_is_not_seen_where_there_is_none() {
        refuse_borrowed_privilege().unwrap();
    }
}
