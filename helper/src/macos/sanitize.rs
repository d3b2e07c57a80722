//! Step 1: what the caller left lying around is put away before anything else happens.

use super::sys;
use crate::cli::{Caller, PolicyFrom};
use crate::error::{Context, Hint, Result, failure, policy};
use crate::input::Source;
use crate::report::Reporter;
use agentkit_protocol::FailureKind;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
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
/// The last of the signals, see signal(3).
const LAST_SIGNAL: i32 = 31;

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
    reset_signals().context(STEP, "sigprocmask")?;
    // A caller that went away must not kill the supervisor half-way.
    sys::ignore_signal(libc::SIGPIPE);
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

/// A set-user-id program would be steered by an ordinary caller.
fn refuse_borrowed_privilege() -> Result<()> {
    let changed = Uid::current() != Uid::effective() || Gid::current() != Gid::effective();
    if changed || sys::started_with_privilege() {
        let message = "started set-user-id or set-group-id; it is not made for that";
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
    let open: Vec<i32> = std::fs::read_dir("/dev/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The list's own descriptor is in the list, and closed by now.
    open.into_iter().filter(|fd| *fd >= FIRST && !kept.contains(fd)).for_each(sys::close);
    Ok(())
}

/// Nothing is ignored and nothing is blocked any more.
pub(super) fn reset_signals() -> io::Result<()> {
    (1..=LAST_SIGNAL).for_each(sys::reset_signal);
    Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?)
}
