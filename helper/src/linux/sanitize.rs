//! Step 1: what the caller left lying around is put away before anything else happens.

use super::layers::Layer;
use super::{proc_files, sys};
use crate::cli::{Caller, PolicyFrom};
use crate::error::{Context, Hint, Result, failure, policy};
use crate::input::Source;
use crate::report::Reporter;
use agentkit_protocol::FailureKind;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Gid, Uid};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;

const STEP: &str = "sanitize";
/// The first descriptor that is not a standard stream.
const FIRST: i32 = 3;

/// Refuses borrowed privileges, closes inherited descriptors, undoes inherited signal settings. Returns where to report to
/// and where the policy comes from.
pub(crate) fn sanitize(caller: Caller) -> Result<(Reporter, Source)> {
    refuse_borrowed_privilege()?;
    fill_streams()?;
    let answer = match caller {
        Caller::Client => {
            close_all_but_streams_and(&[]).context(STEP, "close inherited descriptors")?;
            (client_reporter()?, Source::Client)
        }
        Caller::Script { report_fd, policy, tty } => {
            let policy_fd = if let PolicyFrom::Descriptor(fd) = policy { Some(fd) } else { None };
            let kept: Vec<i32> = report_fd.into_iter().chain(policy_fd).collect();
            close_all_but_streams_and(&kept).context(STEP, "close inherited descriptors")?;
            let report =
                report_fd.map(|fd| keep(fd, "--report-fd", "writing, for instance with 3>report.json"));
            let source = match policy {
                PolicyFrom::Stdin => Source::Stdin,
                PolicyFrom::Flags(policy) => Source::Flags(policy),
                PolicyFrom::Descriptor(fd) => {
                    let file = keep(fd, "--policy-fd", "reading, for instance with 4<policy.json")?;
                    Source::File { file, tty }
                }
            };
            (Reporter::script(report.transpose()?), source)
        }
    };
    reset_signals()?;
    Ok(answer)
}

/// Frames to the client whose socket is standard input.
pub(crate) fn client_reporter() -> Result<Reporter> {
    let stat = fstat(io::stdin()).map_err(io::Error::from).context(STEP, "stat standard input")?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFSOCK {
        return Err(policy("--client: standard input is no socket"));
    }
    Ok(Reporter::client(sys::adopt(0)))
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

/// Where the caller left a gap, whatever is opened next would be taken for a stream.
fn fill_streams() -> Result<()> {
    for fd in 0..FIRST {
        let named = ManuallyDrop::new(sys::adopt(fd));
        if fcntl(named.as_fd(), FcntlArg::F_GETFD) == Err(Errno::EBADF) {
            let nothing = OpenOptions::new().read(true).write(true).open("/dev/null");
            // The lowest free number is this one.
            let _ = ManuallyDrop::new(nothing.context(STEP, "open /dev/null")?);
        }
    }
    Ok(())
}

/// A descriptor that the caller named on the command line.
fn keep(fd: i32, flag: &str, how: &str) -> Result<File> {
    let named = ManuallyDrop::new(sys::adopt(fd));
    // Also finds out whether it is open at all.
    fcntl(named.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
        .map_err(io::Error::from)
        .context(STEP, format_args!("{flag} {fd}: use descriptor {fd}"))
        .hint(&format!("open it for {how}"))?;
    Ok(File::from(ManuallyDrop::into_inner(named)))
}

/// Closes every descriptor from 3 up but these.
pub(super) fn close_all_but_streams_and(kept: &[i32]) -> io::Result<()> {
    if Layer::Descriptors.is_off() {
        return Ok(());
    }
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    let mut first = FIRST;
    for fd in kept {
        sys::close_range(first, fd.saturating_sub(1))?;
        first = fd.saturating_add(1);
    }
    sys::close_range(first, i32::MAX)
}

/// A caller that ignores SIGCHLD would take the exit status away from us, and a blocked or ignored signal would be
/// inherited by the command.
fn reset_signals() -> Result<()> {
    for number in ignored_signals().context(STEP, "read /proc/self/status")? {
        // 32 up to SIGRTMIN are the C library's own: its posix_spawn ignores them in the child, its sigaction refuses.
        if number != nix::libc::SIGPIPE && !(32..nix::libc::SIGRTMIN()).contains(&number) {
            sys::reset_signal(number).context(STEP, format_args!("reset signal {number}"))?;
        }
    }
    // A caller that went away must not kill the supervisor half-way.
    sys::ignore_signal(nix::libc::SIGPIPE).context(STEP, "ignore SIGPIPE")?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
        .map_err(io::Error::from)
        .context(STEP, "sigprocmask")
}

/// The signals that this process ignores.
pub(super) fn ignored_signals() -> io::Result<Vec<i32>> {
    let status = proc_files::read("/proc/self/status")?;
    let mask = proc_files::status_field(&status, "SigIgn").unwrap_or("0");
    let mask = u64::from_str_radix(mask, 16).map_err(io::Error::other)?;
    let numbers = (1..=64).zip(0..).filter(|(_, bit)| mask.unbounded_shr(*bit) & 1 == 1);
    Ok(numbers.map(|(number, _)| number).collect())
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
