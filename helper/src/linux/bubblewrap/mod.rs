//! The mechanism `bubblewrap`, for hosts where of all programs only the distribution's bubblewrap may make namespaces that
//! are worth something, as where AppArmor has a profile for it alone. It makes them and mounts the view; the rest is ours.
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
mod guard;
mod handover;
mod init;
mod monitor;
mod mounts;
mod names;
mod proc;
mod program;
mod refuse;
mod sources;

pub(crate) use init::go_on_inside;
pub(crate) use sources::open_as_root;

use super::enclosed::{self, Gap};
use super::jail::{HeldBy, Jail};
use super::message::{self, Outside};
use super::modes;
use super::mount_table::MountTable;
use super::sys;
use super::task::{Entrance, Task};
use super::view::View;
use crate::error::{Context, Result};
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Mechanism, ReadBack};
use arguments::Arguments;
use guard::Guard;
use handover::Handover;
use monitor::Monitor;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::sys::signal::Signal;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

const STEP: &str = "bubblewrap";
const FIRST_AFTER_STREAMS: i32 = 3;

/// Starts bubblewrap and waits until init answers from inside.
pub(crate) fn enter(task: &Task, entrance: &mut Entrance) -> Result<Jail> {
    let program = program::find(&entrance.view)?;
    let outside = Outside::look()?;
    entrance.view.hide_host_proc(&outside.processes);
    refuse::what_it_cannot(task, &entrance.view)?;
    let program =
        CString::new(program.as_os_str().as_bytes()).map_err(io::Error::from).context(STEP, "its path")?;
    let gap = gap(&entrance.view)?;
    let (ours, theirs) = message::channel()?;
    let arguments = Arguments::of(task, &entrance.view, theirs.as_fd())?;
    Handover::new(task, &entrance.view, outside.namespaces, gap).send(ours.as_fd(), &entrance.relays)?;
    let guard = Guard::start()?;
    let (said, words) = io::pipe().context(STEP, "pipe")?;
    match sys::fork_with_pidfd().context(STEP, "fork")? {
        None => {
            drop((ours, said));
            become_bubblewrap(&guard, &program, &arguments, &theirs, words)
        }
        Some((pid, pidfd)) => {
            drop((arguments, theirs, words));
            let monitor = Monitor { pid, pidfd };
            let init = monitor.wait_for_init(guard, &ours, said)?;
            Ok(Jail {
                pid,
                pidfd: init,
                messages: ours,
                directory: task.directory.clone(),
                held_by: Box::new(Enclosed { monitor, gap }),
            })
        }
    }
}

/// By the kernel too, but it was bubblewrap that asked for it.
struct Enclosed {
    monitor: Monitor,
    /// What keeps its view from being held.
    gap: Gap,
}

impl HeldBy for Enclosed {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Bubblewrap
    }

    fn capabilities(&self, state: &ReadBack, plan: &Plan) -> Capabilities {
        enclosed::derive(self.mechanism(), state, plan, Some(self.gap))
    }

    fn change_attributes(&self, question: &libc::seccomp_notif, waits: &dyn Fn() -> bool) -> nix::Result<()> {
        modes::change(question, waits)
    }

    fn bury(&self, jail: &Jail) -> Result<(libc::c_int, Duration)> {
        self.monitor.bury(&jail.pidfd)
    }
}

/// Bubblewrap leaves its mounts the followers of the host's, where those tell others of what comes on or below them. (Below
/// the system directories only root can mount, who owns them anyway.)
fn gap(view: &View) -> Result<Gap> {
    if view.entries.iter().any(|entry| entry.access.has_source())
        && MountTable::of_this_process(STEP)?.spreads()
    {
        return Ok(Gap::MountsArrive);
    }
    // It mounts devices writable or not at all.
    Ok(if view.can_be_uncovered { Gap::Uncoverable } else { Gap::DevicesWritable })
}

/// In the new process, which takes nothing along but what the arguments name. What bubblewrap says goes to the supervisor,
/// since the command's error stream is for the command.
fn become_bubblewrap(
    guard: &Guard,
    program: &CString,
    arguments: &Arguments,
    channel: &OwnedFd,
    mut words: PipeWriter,
) -> ! {
    let prepare = || -> io::Result<()> {
        guard.admit(0)?;
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&nothing)?;
        dup2_stdout(&nothing)?;
        dup2_stderr(&words)?;
        sys::close_on_exec(FIRST_AFTER_STREAMS)?;
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
