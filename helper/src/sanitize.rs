//! Step 1: what the caller left lying around is put away before anything else happens.

use crate::cli::{Caller, PolicyFrom};
use crate::error::{Context, Hint, Result, failure, policy};
use crate::input::Source;
use crate::platform;
use crate::report::Reporter;
use agentkit_protocol::FailureKind;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Gid, Uid};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;

const STEP: &str = "sanitize";
/// The first descriptor that is not a standard stream.
const FIRST: i32 = 3;

/// Refuses borrowed privileges and closes inherited descriptors. Returns where to report to and where the policy comes from.
pub(crate) fn sanitize(caller: Caller) -> Result<(Reporter, Source)> {
    refuse_borrowed_privilege()?;
    fill_streams()?;
    Ok(match caller {
        Caller::Client => {
            platform::close_all_but_streams_and(&[]).context(STEP, "close inherited descriptors")?;
            (client_reporter()?, Source::Client)
        }
        Caller::Script { report_fd, policy, tty } => {
            let policy_fd = if let PolicyFrom::Descriptor(fd) = policy { Some(fd) } else { None };
            let kept: Vec<i32> = report_fd.into_iter().chain(policy_fd).collect();
            platform::close_all_but_streams_and(&kept).context(STEP, "close inherited descriptors")?;
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
    })
}

/// Frames to the client whose socket is standard input.
pub(crate) fn client_reporter() -> Result<Reporter> {
    let stat = fstat(io::stdin()).map_err(io::Error::from).context(STEP, "stat standard input")?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFSOCK {
        return Err(policy("--client: standard input is no socket"));
    }
    Ok(Reporter::client(platform::adopt(0)))
}

/// Set-user-id or file capabilities would let an ordinary caller steer a privileged process.
fn refuse_borrowed_privilege() -> Result<()> {
    let changed = Uid::current() != Uid::effective() || Gid::current() != Gid::effective();
    if changed || platform::started_with_privilege() {
        let message = "started set-user-id, set-group-id or with file capabilities; it is not made for that";
        return Err(failure(FailureKind::Host, STEP, message))
            .hint("take the bits away (chmod ug-s, setcap -r): an ordinary user's own rights are enough");
    }
    Ok(())
}

/// Where the caller left a gap, whatever is opened next would be taken for a stream.
fn fill_streams() -> Result<()> {
    for fd in 0..FIRST {
        let named = ManuallyDrop::new(platform::adopt(fd));
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
    let named = ManuallyDrop::new(platform::adopt(fd));
    // Also finds out whether it is open at all.
    fcntl(named.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
        .map_err(io::Error::from)
        .context(STEP, format_args!("{flag} {fd}: use descriptor {fd}"))
        .hint(&format!("open it for {how}"))?;
    Ok(File::from(ManuallyDrop::into_inner(named)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_privilege_is_not_seen_where_there_is_none() {
        refuse_borrowed_privilege().unwrap();
    }
}
