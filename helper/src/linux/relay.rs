//! Step 5: output reaches the caller through a pipe of the jail's own.
//!
//! What is on descriptor 1 or 2 is more than a place to write to: through `/proc/self/fd/1` the command could open a file
//! again and read it, listen to what is typed on a terminal, or take what other programs write to the same pipe. So it
//! gets the end of another pipe, and a small process outside copies. A client's pipes are private already.

use super::sanitize;
use super::sys::{self, Forked};
use crate::error::{Context, Result};
use nix::fcntl::OFlag;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::stat::{FileStat, SFlag, fstat, major, minor};
use nix::sys::statfs::{FsType, fstatfs};
use nix::unistd::{Gid, Uid, dup2_stderr, dup2_stdout, fchown, pipe2};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

const STEP: &str = "relay";
/// What a caller gets to take the last output, at most the content of a pipe, once the jail is dead.
const GRACE: Duration = Duration::from_secs(2);
/// Major and minor number of `/dev/null`, see null(4).
const DEV_NULL: (u64, u64) = (1, 3);
/// Where anonymous pipes live, see statfs(2). A named one could be opened by others too.
const PIPEFS: FsType = FsType(0x5049_5045);

/// The pipes in place of the caller's streams, and the processes that copy.
#[derive(Default)]
pub(crate) struct Relays {
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    copiers: Vec<Copier>,
}

/// A process that copies.
struct Copier {
    pid: libc::pid_t,
    pidfd: OwnedFd,
}

/// As root, before it gives up root: a client's anonymous pipes become the jail's user's, or that user could not open
/// `/dev/stdout`. Nothing that has a name changes hands.
pub(crate) fn give_pipes_to(uid: u32, gid: u32) -> Result<()> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    for stream in [stdout.as_fd(), stderr.as_fd()] {
        if Stream::of(stream)?.is_pipe() {
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            fchown(stream, uid, gid).map_err(io::Error::from).context(STEP, "fchown a pipe")?;
        }
    }
    Ok(())
}

impl Relays {
    /// Starts a copier for each stream that needs one; one for both where they are the same file, which keeps the order
    /// of what is written.
    pub(crate) fn start(from_client: bool) -> Result<Self> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let (out, err) = (Stream::of(stdout.as_fd())?, Stream::of(stderr.as_fd())?);
        let mut relays = Relays::default();
        if !out.is_harmless(from_client) {
            relays.stdout = Some(relays.copy_to(stdout.as_fd())?);
        }
        if !err.is_harmless(from_client) {
            relays.stderr = Some(match &relays.stdout {
                Some(shared) if out.is_same_file(&err) => {
                    shared.try_clone().context(STEP, "duplicate a pipe")?
                }
                _ => relays.copy_to(stderr.as_fd())?,
            });
        }
        Ok(relays)
    }

    fn copy_to(&mut self, stream: BorrowedFd) -> Result<OwnedFd> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from).context(STEP, "pipe2")?;
        match sys::fork().context(STEP, "fork")? {
            Forked::Child => copy_until_end(reader, stream),
            Forked::Parent { pid, .. } => {
                let pidfd = sys::open_pidfd(pid).context(STEP, "pidfd_open")?;
                self.copiers.push(Copier { pid, pidfd });
            }
        }
        Ok(writer)
    }

    /// In the jail: the pipes take the streams' places.
    pub(crate) fn take_over(&self) -> io::Result<()> {
        if let Some(stdout) = &self.stdout {
            dup2_stdout(stdout)?;
        }
        if let Some(stderr) = &self.stderr {
            dup2_stderr(stderr)?;
        }
        Ok(())
    }

    /// Outside, once the jail exists: as long as we held these ends, the copiers would wait for us.
    pub(crate) fn let_go(&mut self) {
        self.stdout = None;
        self.stderr = None;
    }
}

impl Drop for Relays {
    /// Waits until everything is copied, but for no caller that takes nothing: the jail is dead, and the run has to end.
    fn drop(&mut self) {
        self.let_go();
        let deadline = Instant::now() + GRACE;
        for Copier { pid, pidfd } in self.copiers.drain(..) {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            // Readable once the copier is dead. Where it is not, or nobody can tell, it is now.
            let _ = poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], timeout);
            drop(sys::signal_process(pidfd.as_fd(), libc::SIGKILL));
            // Whatever became of it, there is nothing left to wait for.
            drop(sys::wait_with_usage(pid));
        }
    }
}

/// Ends with the last writer, and so with the jail, or when the caller does not take any more.
fn copy_until_end(reader: OwnedFd, stream: BorrowedFd) -> ! {
    let copy_all = || -> io::Result<()> {
        // Stuck, it would outlive a supervisor that was killed.
        set_pdeathsig(Signal::SIGKILL)?;
        // What stops the supervisor must not cut off what the command has already written.
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
        sanitize::close_all_but_streams_and(Some(reader.as_raw_fd()))?;
        copy(File::from(reader), File::from(stream.try_clone_to_owned()?))
    };
    // Nobody is left to tell; the command notices by SIGPIPE.
    std::process::exit(if copy_all().is_ok() { 0 } else { 1 })
}

/// By a buffer. `std::io::copy` would splice, which keeps the pipe locked for as long as the caller takes nothing: a
/// command that writes to it then waits for the lock, and not even SIGKILL ends that.
fn copy(mut from: File, mut to: File) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(&buffer[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What a descriptor refers to.
struct Stream {
    stat: FileStat,
    file_system: FsType,
}

impl Stream {
    fn of(stream: BorrowedFd) -> Result<Self> {
        let stat = fstat(stream).map_err(io::Error::from).context(STEP, "stat a standard stream")?;
        let system = fstatfs(stream).map_err(io::Error::from).context(STEP, "statfs a standard stream")?;
        Ok(Stream { stat, file_system: system.filesystem_type() })
    }

    /// A client's anonymous pipe has no other users, and `/dev/null` carries nothing.
    fn is_harmless(&self, from_client: bool) -> bool {
        let device = (major(self.stat.st_rdev), minor(self.stat.st_rdev));
        (from_client && self.is_pipe()) || (self.kind() == SFlag::S_IFCHR && device == DEV_NULL)
    }

    fn is_pipe(&self) -> bool {
        self.kind() == SFlag::S_IFIFO && self.file_system == PIPEFS
    }

    fn kind(&self) -> SFlag {
        SFlag::from_bits_truncate(self.stat.st_mode) & SFlag::S_IFMT
    }

    fn is_same_file(&self, other: &Stream) -> bool {
        (self.stat.st_dev, self.stat.st_ino) == (other.stat.st_dev, other.stat.st_ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_pipes_and_dev_null_are_passed_on() {
        let kind = |file: &File| Stream::of(file.as_fd()).unwrap().is_harmless(true);
        let (reader, writer) = io::pipe().unwrap();
        assert!(!Stream::of(writer.as_fd()).unwrap().is_harmless(false));
        assert!(kind(&File::from(OwnedFd::from(reader))) && kind(&File::from(OwnedFd::from(writer))));
        assert!(kind(&File::open("/dev/null").unwrap()));
        assert!(!kind(&File::open("/dev/zero").unwrap()));
        assert!(!kind(&tempfile::tempfile().unwrap()));
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!kind(&File::from(OwnedFd::from(socket))));
        let dir = tempfile::tempdir().unwrap();
        let named = dir.path().join("fifo");
        nix::unistd::mkfifo(&named, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(!kind(&std::fs::OpenOptions::new().read(true).write(true).open(named).unwrap()));
    }
}
