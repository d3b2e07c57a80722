//! The mechanism `bubblewrap`, for hosts where of all programs only the distribution's bubblewrap may make namespaces that
//! are worth something (by AppArmor, or by a setuid bit). It makes them and mounts the view; the rest is ours.
//!
//! ```text
//! supervisor ──> bwrap (outside: waits)
//!                  └─> init (pid 1 inside: this very program once more; limits, capabilities, filter; reaps)
//!                        └─> the command
//! ```
//!
//! There is one file a step. The network namespace is bubblewrap's, who raises its loopback whenever it makes one: on the hosts
//! this is for, its children have no capability left to make another. What the policy does not want of it, the filter
//! forbids. Root has become another user before bubblewrap runs, which would keep uid 0 whatever it is told.

mod arguments;
mod handover;
mod init;
mod program;
mod refuse;
mod sources;

pub(crate) use init::go_on_inside;
pub(crate) use sources::open_as_root;

use super::jail::{HeldBy, Jail};
use super::message::{self, Outside};
use super::sys::{self, Forked};
use super::task::{Entrance, Task};
use super::{deadline, supervise};
use crate::error::{Context, Hint, Result, failure};
use agentkit_protocol::FailureKind;
use arguments::Arguments;
use handover::{Handover, Ready};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

const STEP: &str = "bubblewrap";
const HINT: &str = "bubblewrap must be 0.8 or newer, and allowed to make user namespaces: see sysctl user.max_user_namespaces and \
    kernel.apparmor_restrict_unprivileged_userns, and the profile that the distribution has for it";
/// Of what bubblewrap says when it fails.
const MOST_WORDS: u64 = 4096;

/// Starts bubblewrap and waits until init answers from inside.
pub(crate) fn enter(task: &Task, entrance: &mut Entrance) -> Result<Jail> {
    refuse::what_it_cannot(task, &entrance.view)?;
    let program = program::find(&entrance.view)?;
    let program =
        CString::new(program.as_os_str().as_bytes()).map_err(io::Error::from).context(STEP, "its path")?;
    let outside = Outside::look()?;
    entrance.view.hide_host_proc(&outside.processes);
    let (ours, theirs) = message::channel()?;
    let arguments = Arguments::of(task, &entrance.view, theirs.as_fd())?;
    Handover::new(task, &entrance.view, outside.namespaces).send(ours.as_fd(), &entrance.relays)?;
    let (said, words) = io::pipe().context(STEP, "pipe")?;
    match sys::clone_process(0).or_else(|_| sys::fork()).context(STEP, "fork")? {
        Forked::Child => {
            drop((ours, said));
            become_bubblewrap(&program, &arguments, &theirs, words)
        }
        Forked::Parent { pid, pidfd } => {
            let pidfd = match pidfd {
                Some(pidfd) => pidfd,
                None => sys::open_pidfd(pid).context(STEP, "pidfd_open")?,
            };
            drop((arguments, theirs, words));
            let monitor = Monitor { pid, pidfd };
            let init = monitor.wait_for_init(&ours).map_err(|silence| monitor.give_up(silence, said))?;
            Ok(Jail {
                pid,
                pidfd: init,
                messages: ours,
                directory: task.directory.clone(),
                held_by: HeldBy::Bubblewrap(monitor),
            })
        }
    }
}

/// In the new process. What it says goes to the supervisor, since the command's error stream is for the command.
fn become_bubblewrap(
    program: &CString,
    arguments: &Arguments,
    channel: &OwnedFd,
    mut words: PipeWriter,
) -> ! {
    let prepare = || -> io::Result<()> {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&nothing)?;
        dup2_stdout(&nothing)?;
        dup2_stderr(&words)?;
        arguments.files.iter().chain([channel]).try_for_each(|file| keep_open(file.as_fd()))
    };
    let error = match prepare() {
        Ok(()) => sys::execute(program, &arguments.words, &[]),
        Err(error) => error,
    };
    // If the supervisor is gone, nobody is left to tell.
    drop(write!(words, "execute {}: {error}", program.to_string_lossy()));
    std::process::exit(crate::exit_code::FAILED)
}

fn keep_open(file: BorrowedFd) -> io::Result<()> {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// The bubblewrap outside, which waits for the jail's init and dies with the supervisor.
pub(crate) struct Monitor {
    pid: libc::pid_t,
    pidfd: OwnedFd,
}

impl Monitor {
    /// Init's pidfd, unless bubblewrap ends before it comes to that.
    fn wait_for_init(&self, channel: &OwnedFd) -> Result<OwnedFd> {
        let end = deadline::after(Instant::now(), supervise::SET_UP);
        let mut sources = [channel, &self.pidfd].map(|source| PollFd::new(source.as_fd(), PollFlags::POLLIN));
        loop {
            let left = PollTimeout::try_from(end.saturating_duration_since(Instant::now()));
            match poll(&mut sources, left.unwrap_or(PollTimeout::MAX)) {
                Ok(0) => {
                    let late = format_args!("it was not done within {:?}", supervise::SET_UP);
                    return Err(failure(FailureKind::Host, STEP, late));
                }
                Ok(_) => break,
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(io::Error::from(error)).context(STEP, "poll"),
            }
        }
        let ready = if sources.first().is_some_and(|channel| channel.any().unwrap_or(false)) {
            message::receive::<Ready>(channel.as_fd()).context(STEP, "receive from init")?
        } else {
            None
        };
        ready
            .and_then(|(_, descriptors)| descriptors.into_iter().next())
            .ok_or_else(|| failure(FailureKind::Host, STEP, "it ended before the jail was made"))
    }

    /// Takes it down, and makes what it said the reason.
    fn give_up(&self, silence: agentkit_protocol::Failure, said: PipeReader) -> agentkit_protocol::Failure {
        drop(sys::signal_process(self.pidfd.as_fd(), libc::SIGKILL));
        drop(sys::wait_with_usage(self.pid));
        let mut words = Vec::new();
        // What it has started dies with it, so that there is an end.
        drop(said.take(MOST_WORDS).read_to_end(&mut words));
        let words = String::from_utf8_lossy(&words);
        let words = words.trim();
        let failed = if words.is_empty() { silence } else { failure(FailureKind::Host, STEP, words) };
        Err::<(), _>(failed)
            .hint(HINT)
            .map_or_else(|failure| failure, |()| failure(FailureKind::Host, STEP, ""))
    }

    /// Waits for init, by whose end everything in the jail is dead, and for bubblewrap, who has waited for it.
    pub(crate) fn bury(&self, init: &OwnedFd) -> Result<(libc::c_int, Duration)> {
        while let Err(error) = poll(&mut [PollFd::new(init.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE) {
            if error != nix::errno::Errno::EINTR {
                return Err(io::Error::from(error)).context(STEP, "wait for init");
            }
        }
        let (status, cpu) = sys::wait_with_usage(self.pid).context(STEP, "wait for bubblewrap")?;
        // It says as a shell does that init was killed.
        let killed = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status).checked_sub(128)).flatten();
        Ok((killed.filter(|signal| *signal > 0).unwrap_or(status), cpu))
    }
}
