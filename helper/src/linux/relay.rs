//! Step 5: the command's streams are pipes of the jail's own.
//!
//! What is on descriptors 0 to 2 is more than a place to read from or to write to: through `/proc/self/fd` the command
//! could open a file again and change it, listen to what is typed on a terminal, take what other programs write to the
//! same pipe, or write to those who read from it. So it gets the end of another pipe, and a small process outside copies.
//! A client's pipes are private already.
//!
//! A copier of input reads ahead: what the command leaves unread is lost to whoever reads the caller's stream next.

use super::deadline;
use super::layers::Layer;
use super::sys::{self, Forked};
use crate::copy::copy;
use crate::error::{Context, Result};
use crate::input::Stdin;
use nix::errno::Errno;
#[cfg(without_namespaces)]
use nix::fcntl::{FcntlArg, fcntl};
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, major, minor};
use nix::sys::statfs::{FsType, fstatfs};
use nix::unistd::{Gid, Uid, dup2_stderr, dup2_stdin, dup2_stdout, fchown, getppid, pipe2};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

const STEP: &str = "relay";
/// What a caller gets to take the last output, at most the content of a pipe, once the jail is dead.
const GRACE: Duration = Duration::from_secs(2);
/// Major and minor number of `/dev/null`, see null(4).
const DEV_NULL: (u64, u64) = (1, 3);
/// Where anonymous pipes live, see statfs(2). A named one could be opened by others too.
const PIPEFS: FsType = FsType(0x5049_5045);

/// As root, before it gives up root: a client's anonymous pipes become the jail's user's, or that user could not open
/// `/dev/stdout`. Nothing that has a name changes hands.
pub(crate) fn give_pipes_to(uid: u32, gid: u32, stdin: &Stdin) -> Result<()> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let stdin = match stdin {
        Stdin::Passed(stdin) => Some(stdin.as_fd()),
        Stdin::Nothing | Stdin::Callers => None,
    };
    for stream in [stdout.as_fd(), stderr.as_fd()].into_iter().chain(stdin) {
        if is_anonymous_pipe(stream, &stat(stream)?)? {
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            fchown(stream, uid, gid).map_err(io::Error::from).context(STEP, "fchown a pipe")?;
        }
    }
    Ok(())
}

/// What takes the place of the caller's streams, and the processes that copy.
#[derive(Default)]
pub(crate) struct Relays {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    copiers: Copiers,
}

impl Relays {
    /// Starts a copier for each stream that needs one; one for both outputs where they are the same file, which keeps
    /// the order of what is written.
    pub(crate) fn start(stdin: Stdin, from_client: bool, most: Option<u64>) -> Result<Self> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let (out, err) = (stat(stdout.as_fd())?, stat(stderr.as_fd())?);
        let is_one = (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino);
        let mut relays = Relays::default();
        relays.start_input(stdin, from_client)?;
        // Somebody has to count.
        let from_client = from_client && most.is_none();
        if !is_harmless(stdout.as_fd(), &out, from_client)? {
            let name = if is_one { "standard output and error" } else { "standard output" };
            relays.stdout = Some(relays.output_to(stdout.as_fd(), name, most)?);
        }
        if !is_harmless(stderr.as_fd(), &err, from_client)? {
            relays.stderr = Some(match &relays.stdout {
                Some(shared) if is_one => shared.try_clone().context(STEP, "duplicate a pipe")?,
                _ => relays.output_to(stderr.as_fd(), "standard error", most)?,
            });
        }
        Ok(relays)
    }

    /// For a command that gets a terminal: the caller's streams are not even init's.
    pub(crate) fn to_nothing() -> Result<Self> {
        let nothing = || {
            open("/dev/null", OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())
                .map_err(io::Error::from)
                .context(STEP, "open /dev/null")
        };
        Ok(Relays { stdout: Some(nothing()?), stderr: Some(nothing()?), ..Relays::default() })
    }

    fn start_input(&mut self, stdin: Stdin, from_client: bool) -> Result<()> {
        match stdin {
            Stdin::Nothing => {}
            Stdin::Passed(passed) if is_harmless(passed.as_fd(), &stat(passed.as_fd())?, from_client)? => {
                self.stdin = Some(passed);
            }
            Stdin::Passed(passed) => self.stdin = Some(self.input_from(passed.as_fd())?),
            Stdin::Callers => {
                let callers = io::stdin();
                if Layer::Streams.is_off() {
                    let same = callers.as_fd().try_clone_to_owned();
                    self.stdin = Some(same.context(STEP, "duplicate standard input")?);
                // Of nothing the command gets the jail's own.
                } else if !is_harmless(callers.as_fd(), &stat(callers.as_fd())?, false)? {
                    self.stdin = Some(self.input_from(callers.as_fd())?);
                }
            }
        }
        Ok(())
    }

    fn input_from(&mut self, stream: BorrowedFd) -> Result<OwnedFd> {
        let (reader, writer) = pipe()?;
        self.copiers.copy_input(stream, writer.as_fd())?;
        Ok(reader)
    }

    fn output_to(&mut self, stream: BorrowedFd, name: &'static str, most: Option<u64>) -> Result<OwnedFd> {
        let (reader, writer) = pipe()?;
        self.copiers.copy_output(reader.as_fd(), stream, name, most)?;
        Ok(writer)
    }

    /// In the jail: where the command reads, unless it is nothing.
    pub(crate) fn take_stdin(&mut self) -> Option<OwnedFd> {
        self.stdin.take()
    }

    /// In the jail: the pipes take the output streams' places.
    pub(crate) fn take_over(&self) -> io::Result<()> {
        if let Some(stdout) = &self.stdout {
            dup2_stdout(stdout)?;
        }
        if let Some(stderr) = &self.stderr {
            dup2_stderr(stderr)?;
        }
        Ok(())
    }

    /// What takes the place of the caller's output, error and, unless the command reads nothing, input: for an init that is
    /// another program.
    #[cfg(feature = "bubblewrap")]
    pub(crate) fn ends(&self) -> io::Result<Vec<OwnedFd>> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let output = self.stdout.as_ref().map_or_else(|| stdout.as_fd(), AsFd::as_fd);
        let error = self.stderr.as_ref().map_or_else(|| stderr.as_fd(), AsFd::as_fd);
        [Some(output), Some(error), self.stdin.as_ref().map(AsFd::as_fd)]
            .into_iter()
            .flatten()
            .map(|end| end.try_clone_to_owned())
            .collect()
    }

    /// See [`Copiers::arm`].
    #[cfg(without_namespaces)]
    pub(crate) fn arm(&mut self) -> Result<()> {
        self.copiers.arm()
    }

    /// Outside, once the jail exists: as long as we held these ends, the copiers would wait for us.
    pub(crate) fn let_go(&mut self) {
        self.stdin = None;
        self.stdout = None;
        self.stderr = None;
    }

    /// See [`Copiers::finish`].
    pub(crate) fn finish(&mut self) -> Finished {
        self.let_go();
        self.copiers.finish()
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from).context(STEP, "pipe2")
}

/// Processes that copy. When they are finished, the jail is dead and nobody holds its ends of the pipes any more.
#[derive(Default)]
pub(crate) struct Copiers {
    input: Vec<Copier>,
    /// Each with the name of the stream that it writes to.
    output: Vec<(Copier, &'static str)>,
}

struct Copier {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    /// Where it says how much it threw away, if it may.
    cut: Option<OwnedFd>,
    /// Ends it where signals do not reach it any more.
    #[cfg(without_namespaces)]
    trigger: Option<Trigger>,
}

/// A pipe of whose content the kernel tells a process by SIGKILL, with the rights of whoever made it, at that time.
#[cfg(without_namespaces)]
struct Trigger {
    _reader: OwnedFd,
    writer: OwnedFd,
}

#[cfg(without_namespaces)]
impl Trigger {
    fn on(pid: libc::pid_t) -> Result<Self> {
        let (reader, writer) = pipe()?;
        sys::set_event_signal(reader.as_fd(), libc::SIGKILL).context(STEP, "fcntl F_SETSIG")?;
        sys::set_owner(reader.as_fd(), pid).context(STEP, "fcntl F_SETOWN")?;
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_ASYNC))
            .map_err(io::Error::from)
            .context(STEP, "fcntl O_ASYNC")?;
        Ok(Trigger { _reader: reader, writer })
    }

    fn pull(&self) {
        // Somebody reads, and there is room for a byte.
        let _ = nix::unistd::write(&self.writer, &[0]);
    }
}

/// What became of the output.
#[derive(Default)]
pub(crate) struct Finished {
    /// What did not arrive, and why.
    pub(crate) unwritten: Vec<String>,
    /// What was more than may pass.
    pub(crate) cut: Vec<String>,
}

impl Copiers {
    /// Starts a copier that is not waited for: what it has not copied, nobody reads any more.
    pub(crate) fn copy_input(&mut self, from: BorrowedFd, to: BorrowedFd) -> Result<()> {
        self.input.push(Copier::start(from, to, None)?);
        Ok(())
    }

    /// Starts a copier that is waited for.
    pub(crate) fn copy_output(
        &mut self,
        from: BorrowedFd,
        to: BorrowedFd,
        name: &'static str,
        most: Option<u64>,
    ) -> Result<()> {
        self.output.push((Copier::start(from, to, most)?, name));
        Ok(())
    }

    /// Before this process keeps its signals to the jail: it has to be able to end a copier that somebody has stopped, be that
    /// before it could ask for its own end ([`copy_until_end`]). That way nobody waits for it to come so far.
    #[cfg(without_namespaces)]
    fn arm(&mut self) -> Result<()> {
        let output = self.output.iter_mut().map(|(copier, _)| copier);
        for copier in self.input.iter_mut().chain(output) {
            copier.trigger = Some(Trigger::on(copier.pid)?);
        }
        Ok(())
    }

    /// Waits until everything is copied, but for no caller that takes nothing: the run has to end.
    pub(crate) fn finish(&mut self) -> Finished {
        self.input.drain(..).for_each(|copier| drop(copier.end()));
        let deadline = deadline::after(Instant::now(), GRACE);
        let mut finished = Finished::default();
        for (copier, name) in self.output.drain(..) {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            // Readable once the copier is dead. Where it is not, or nobody can tell, it is now.
            let _ = poll(&mut [PollFd::new(copier.pidfd.as_fd(), PollFlags::POLLIN)], timeout);
            let (why, cut) = copier.end();
            finished.unwritten.extend(why.map(|why| format!("{name}: {why}")));
            finished.cut.extend(cut.map(|cut| format!("{name}: {cut} bytes more than may pass")));
        }
        finished
    }
}

impl Drop for Copiers {
    fn drop(&mut self) {
        // Only where the run failed anyway.
        drop(self.finish());
    }
}

impl Copier {
    fn start(from: BorrowedFd, to: BorrowedFd, most: Option<u64>) -> Result<Self> {
        let parent = nix::unistd::getpid();
        let (cut, tell) = most.map(|_| pipe()).transpose()?.unzip();
        match sys::fork().context(STEP, "fork")? {
            // The command notices by SIGPIPE, and the supervisor by this.
            Forked::Child => {
                let limit = most.zip(tell.as_ref().map(AsFd::as_fd));
                std::process::exit(code_of(copy_until_end(parent, from, to, limit)))
            }
            Forked::Parent { pid, .. } => {
                let pidfd = sys::open_pidfd(pid).context(STEP, "pidfd_open")?;
                Ok(Copier {
                    pid,
                    pidfd,
                    cut,
                    #[cfg(without_namespaces)]
                    trigger: None,
                })
            }
        }
    }

    /// Returns why it did not copy everything, if so, and how many bytes were more than may pass.
    fn end(self) -> (Option<String>, Option<u64>) {
        #[cfg_attr(not(without_namespaces), expect(unused, reason = "then every signal reaches it"))]
        let killed = sys::signal_process(self.pidfd.as_fd(), libc::SIGKILL);
        #[cfg(without_namespaces)]
        if let (Err(_), Some(trigger)) = (killed, &self.trigger) {
            trigger.pull();
        }
        let why = sys::wait_with_usage(self.pid).ok().and_then(|(status, _)| Self::why(status));
        let mut cut = [0; 8];
        // One that was killed before it could say has cut nothing that anybody took.
        let told = self.cut.and_then(|told| File::from(told).read_exact(&mut cut).ok());
        (why, told.map(|()| u64::from_ne_bytes(cut)))
    }

    fn why(status: libc::c_int) -> Option<String> {
        match status {
            0 => None,
            status if libc::WIFEXITED(status) => {
                Some(Errno::from_raw(libc::WEXITSTATUS(status)).desc().into())
            }
            _ => Some(not_read()),
        }
    }
}

fn not_read() -> String {
    format!("it was not read for {} s after the end", GRACE.as_secs())
}

/// A copier's exit code: the errno, if output was lost. To a reader that went away nothing is: it has seen enough.
fn code_of(copied: io::Result<()>) -> i32 {
    match copied.map_err(|error| error.raw_os_error()) {
        Ok(()) | Err(Some(libc::EPIPE | libc::ECONNRESET)) => 0,
        Err(errno) => errno.unwrap_or(libc::EIO),
    }
}

/// Ends with the last writer, and so with the jail, or with an error when the reader does not take any more.
fn copy_until_end(
    parent: nix::unistd::Pid,
    from: BorrowedFd,
    to: BorrowedFd,
    limit: Option<(u64, BorrowedFd)>,
) -> io::Result<()> {
    // Stuck, it would outlive a supervisor that was killed.
    set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(io::Error::other("the supervisor died before this process could notice"));
    }
    // What stops the supervisor must not cut off what the command has already written. Nor may a terminal suspend this
    // process for reading in the background: it gets an error, and the command an end of input.
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    // It holds these and nothing else. (`to` is never 0, and where it says how much it threw away is a pipe above 2, so that
    // none is overwritten first.)
    dup2_stdin(from)?;
    dup2_stdout(to)?;
    let copy_up_to = |most| copy(&mut File::from(sys::adopt(0)), &mut File::from(sys::adopt(1)), most);
    let Some((most, tell)) = limit else {
        sys::close_range(2, i32::MAX)?;
        return copy_up_to(u64::MAX).map(drop);
    };
    dup2_stderr(tell)?;
    sys::close_range(3, i32::MAX)?;
    match copy_up_to(most)? {
        0 => Ok(()),
        cut => File::from(sys::adopt(2)).write_all(&cut.to_ne_bytes()),
    }
}

fn stat(stream: BorrowedFd) -> Result<FileStat> {
    fstat(stream).map_err(io::Error::from).context(STEP, "stat a standard stream")
}

/// A client's anonymous pipe has no other users, and `/dev/null` carries nothing.
fn is_harmless(stream: BorrowedFd, stat: &FileStat, from_client: bool) -> Result<bool> {
    let is_null = kind(stat) == SFlag::S_IFCHR && (major(stat.st_rdev), minor(stat.st_rdev)) == DEV_NULL;
    Ok(is_null || Layer::Streams.is_off() || (from_client && is_anonymous_pipe(stream, stat)?))
}

fn is_anonymous_pipe(stream: BorrowedFd, stat: &FileStat) -> Result<bool> {
    if kind(stat) != SFlag::S_IFIFO {
        return Ok(false);
    }
    let system = fstatfs(stream).map_err(io::Error::from).context(STEP, "statfs a standard stream")?;
    Ok(system.filesystem_type() == PIPEFS)
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_went_away_loses_nothing() {
        assert_eq!(code_of(Ok(())), 0);
        for (errno, code) in [(libc::EPIPE, 0), (libc::ECONNRESET, 0), (libc::ENOSPC, 28), (libc::EFBIG, 27)]
        {
            assert_eq!(code_of(Err(io::Error::from_raw_os_error(errno))), code);
        }
        assert_eq!(code_of(Err(io::ErrorKind::WriteZero.into())), libc::EIO);
    }

    #[test]
    fn only_private_pipes_and_dev_null_are_passed_on() {
        let passes = |stream: BorrowedFd, from_client| {
            is_harmless(stream, &stat(stream).unwrap(), from_client).unwrap()
        };
        let kind = |file: &File| passes(file.as_fd(), true);
        let (reader, writer) = io::pipe().unwrap();
        assert!(!passes(writer.as_fd(), false));
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
