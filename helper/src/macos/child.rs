//! The process that becomes the command.

use super::capabilities::Found;
use super::relay::Streams;
use super::{limits, sanitize, sys};
use crate::error::{Context, Result, failure};
use agentkit_protocol::{Failure, FailureKind, Limits, frame};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::kill;
use nix::unistd::{Pid, chdir, execve, getppid, setsid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::Duration;

const STEP: &str = "seatbelt";
/// How long set-up may take before it counts as hung. Compiling a profile takes milliseconds.
const SET_UP_MS: u16 = 10_000;
const A_MOMENT: Duration = Duration::from_millis(500);

/// Everything that is needed, made before the fork.
pub(super) struct Task {
    pub(super) profile: CString,
    /// Nothing for a probe.
    pub(super) command: Option<Command>,
    pub(super) directory: PathBuf,
    pub(super) streams: Streams,
    pub(super) limits: Limits,
    /// See [`limits::apply`].
    pub(super) present: u64,
    /// A file that is not granted.
    pub(super) canary: PathBuf,
    /// A listener of ours.
    pub(super) listener: SocketAddr,
}

/// What execve takes.
pub(super) struct Command {
    pub(super) path: CString,
    pub(super) argv: Vec<CString>,
    pub(super) env: Vec<CString>,
}

/// What the child says before it is the command.
#[derive(Serialize, Deserialize)]
enum Said {
    Ready(Found),
    Failed(Failure),
}

/// The child, as seen by the supervisor.
pub(super) struct Child {
    pub(super) pid: i32,
    said: PipeReader,
    go: PipeWriter,
}

/// Forks. The child waits for [`Child::go`] when it is confined.
pub(super) fn start(task: &Task) -> Result<Child> {
    let (said, tell) = pipe().context(STEP, "pipe")?;
    let (wait, go) = pipe().context(STEP, "pipe")?;
    match sys::fork().context(STEP, "fork")? {
        Some(pid) => Ok(Child { pid, said, go }),
        None => {
            drop((said, go));
            let Err(failure) = task.run(&tell, wait);
            // Where it cannot be told, the supervisor finds that nothing was.
            drop(send(&tell, &Said::Failed(failure)));
            sys::exit_now(1)
        }
    }
}

impl Child {
    /// Waits until it is confined.
    pub(super) fn ready(&mut self) -> Result<Found> {
        let mut source = [PollFd::new(self.said.as_fd(), PollFlags::POLLIN)];
        match poll(&mut source, PollTimeout::from(SET_UP_MS))
            .map_err(io::Error::from)
            .context(STEP, "poll")?
        {
            0 => Err(failure(
                FailureKind::Host,
                STEP,
                format_args!("set-up did not end within {SET_UP_MS} ms"),
            )),
            _ => match self.hear()? {
                Some(found) => Ok(found),
                None => Err(failure(FailureKind::Host, STEP, "the process died during set-up")),
            },
        }
    }

    /// Lets it become the command, and comes back when it has.
    pub(super) fn go(mut self) -> Result<()> {
        // If it is dead, nothing comes, and the supervisor sees that.
        drop(self.go.write_all(b"."));
        self.hear().map(drop)
    }

    /// Nothing at the end: the pipe closes by exec.
    fn hear(&mut self) -> Result<Option<Found>> {
        match frame::read(&mut self.said) {
            Ok(None) => Ok(None),
            Ok(Some(Said::Ready(found))) => Ok(Some(found)),
            Ok(Some(Said::Failed(failure))) => Err(failure),
            Err(error) => {
                Err(failure(FailureKind::Host, STEP, format_args!("what the new process says is {error}")))
            }
        }
    }
}

fn send(mut to: &PipeWriter, said: &Said) -> io::Result<()> {
    to.write_all(&frame::encode(said).map_err(io::Error::other)?)
}

impl Task {
    /// In the child, in an order that matters: what opens files comes before the profile, and the limits after it, since
    /// making one takes more than a command may have.
    fn run(&self, tell: &PipeWriter, mut wait: PipeReader) -> Result<Infallible> {
        let plain = |result: nix::Result<()>, what: &str| result.map_err(io::Error::from).context(STEP, what);
        // A session of its own: no controlling terminal, and a group that the caller's signals do not reach.
        plain(setsid().map(drop), "setsid")?;
        sanitize::use_defaults().context(STEP, "sigprocmask")?;
        self.streams.take_over().context(STEP, "dup2")?;
        sanitize::close_all_but_streams_and(&[tell.as_raw_fd(), wait.as_raw_fd()])
            .context(STEP, "close descriptors")?;
        plain(chdir(&self.directory), "chdir to the work dir")?;
        sys::confine(&self.profile).map_err(|message| Failure {
            hint: Some("a process that is in a sandbox already cannot have another".to_owned()),
            ..failure(FailureKind::Host, STEP, format_args!("sandbox_init: {message}"))
        })?;
        let mut found = self.try_out();
        found.rlimits = limits::apply(&self.limits, self.present)?;
        send(tell, &Said::Ready(found)).context(STEP, "say that all is ready")?;
        match (wait.read(&mut [0]), &self.command) {
            (Ok(1), Some(command)) => Err(command.execute(&self.directory)),
            // A probe, or the supervisor has seen enough, or is dead.
            _ => sys::exit_now(0),
        }
    }

    /// Errors other than the profile's own prove nothing.
    fn try_out(&self) -> Found {
        let refused = |error: io::Error| matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
        let beside = self.canary.with_file_name("planted");
        Found {
            outside_unreadable: File::open(&self.canary).is_err_and(refused),
            outside_unwritable: File::create_new(beside).is_err_and(refused),
            network_unreachable: TcpStream::connect_timeout(&self.listener, A_MOMENT).is_err_and(refused),
            others_unreachable: kill(Pid::from_raw(getppid().as_raw()), None) == Err(Errno::EPERM),
            rlimits: BTreeMap::new(),
        }
    }
}

impl Command {
    /// Comes back only with why it could not be executed.
    fn execute(&self, directory: &std::path::Path) -> Failure {
        let Err(errno) = execve(&self.path, &self.argv, &self.env);
        let kind = match errno {
            Errno::ENOENT | Errno::ENOTDIR => FailureKind::NotFound,
            _ => FailureKind::NotExecutable,
        };
        let hint = match errno {
            Errno::ENOENT => {
                Some("the file, or the interpreter that it names, does not exist inside the jail")
            }
            Errno::ENOEXEC => Some(
                "it is neither a program for this machine nor a script whose first line names its interpreter, such as \
                 #!/bin/sh",
            ),
            Errno::EPERM | Errno::EACCES => Some(
                "nothing shows it or its interpreter to the jail (a rule can), it is not executable, or it is a \
                 set-user-id program, which no sandbox may execute",
            ),
            _ => None,
        };
        let message = format_args!("execute {:?} in {directory:?}: {}", self.path, errno.desc());
        Failure { errno: Some(errno as i32), hint: hint.map(str::to_owned), ..failure(kind, "exec", message) }
    }
}
