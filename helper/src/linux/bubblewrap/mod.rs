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
mod words;

pub(crate) use init::go_on_inside;
pub(crate) use sources::open_as_root;

use super::closed;
use super::enclosed::{self, Gap};
use super::follow::Root;
use super::jail::{HeldBy, Jail};
use super::message::{self, Message, Outside};
use super::modes;
use super::mount_table::MountTable;
use super::sys;
use super::task::{Entrance, Task};
use super::view::View;
use crate::error::{Context, Result};
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Mechanism, ReadBack};
use arguments::Arguments;
use caps::CapSet;
use guard::Guard;
use handover::Handover;
use monitor::{Caller, Monitor};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::sys::signal::Signal;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

const STEP: &str = "bubblewrap";
const FIRST_AFTER_STREAMS: i32 = 3;

/// Starts bubblewrap and waits until init answers from inside. If the caller asks for the end before that, the jail is a dead
/// one.
pub(crate) fn enter(task: &Task, entrance: &mut Entrance, lifeline: Option<&OwnedFd>) -> Result<Jail> {
    let mounts = MountTable::of_this_process(STEP)?;
    let program = program::find(&entrance.view, &mounts)?;
    let outside = Outside::look()?;
    entrance.view.hide_host_proc(&outside.processes);
    // What was not mounted before: bubblewrap was not the first to be tried then.
    closed::leave_out(task, &mut entrance.view, |entry| entry.stands_at().is_some())?;
    refuse::what_it_cannot(task, &entrance.view)?;
    let program =
        CString::new(program.as_os_str().as_bytes()).map_err(io::Error::from).context(STEP, "its path")?;
    let gap = gap(&entrance.view, &mounts);
    let (ours, theirs) = message::channel()?;
    let arguments = Arguments::of(task, &entrance.view, theirs.as_fd())?;
    Handover::new(task, &entrance.view, outside.namespaces, gap, &arguments.writable)
        .send(ours.as_fd(), &entrance.relays)?;
    let caller = Caller::new(lifeline)?;
    let guard = Guard::start()?;
    let (said, words) = io::pipe().context(STEP, "pipe")?;
    match sys::fork_with_pidfd().context(STEP, "fork")? {
        None => {
            drop((ours, said));
            become_bubblewrap(&guard, &program, &arguments, &theirs, &words)
        }
        Some((pid, pidfd)) => {
            drop((arguments, theirs, words));
            // Here too: whoever ends the group has it in there. Once it is bubblewrap, it has joined itself.
            drop(guard.admit(pid));
            let monitor = Monitor { pid, pidfd };
            let init = monitor.wait_for_init(guard, &ours, said, &caller)?;
            let of_bubblewrap = || monitor.pidfd.try_clone().context(STEP, "duplicate a pidfd");
            Ok(Jail {
                pid,
                pidfd: init.map_or_else(of_bubblewrap, Ok)?,
                messages: ours,
                directory: task.directory.clone(),
                held_by: Box::new(Enclosed { monitor, roots: modes::roots(&entrance.view), gap }),
            })
        }
    }
}

/// By the kernel too, but it was bubblewrap that asked for it.
struct Enclosed {
    monitor: Monitor,
    /// Where the command may write what is the host's.
    roots: Vec<Root>,
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
        modes::change(question, &self.roots, waits)
    }

    fn bury(&self, jail: &Jail) -> Result<(libc::c_int, Duration)> {
        self.monitor.bury(&jail.pidfd)
    }
}

/// Bubblewrap leaves its mounts the followers of the host's, where those tell others of what comes on or below them. (Below
/// the system directories only root can mount, who owns them anyway.)
fn gap(view: &View, mounts: &MountTable) -> Gap {
    if view.entries.iter().any(|entry| entry.access.has_source()) && mounts.spreads() {
        return Gap::MountsArrive;
    }
    // It mounts devices writable or not at all.
    if view.can_be_uncovered { Gap::Uncoverable } else { Gap::DevicesWritable }
}

/// In the new process, which takes nothing along but what the arguments name. What bubblewrap says goes to the supervisor,
/// since the command's error stream is for the command.
fn become_bubblewrap(
    guard: &Guard,
    program: &CString,
    arguments: &Arguments,
    channel: &OwnedFd,
    words: &PipeWriter,
) -> ! {
    let prepare = || -> io::Result<()> {
        // It takes any as a sign that it is set-user-id.
        for set in [CapSet::Ambient, CapSet::Inheritable] {
            caps::clear(None, set).map_err(io::Error::other)?;
        }
        guard.admit(0)?;
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&nothing)?;
        dup2_stdout(&nothing)?;
        dup2_stderr(words)?;
        sys::close_on_exec(FIRST_AFTER_STREAMS)?;
        arguments.files.iter().chain([channel]).try_for_each(|file| keep_open(file.as_fd()))
    };
    let error = match prepare() {
        Ok(()) => sys::execute(program, &arguments.words, &[]),
        Err(error) => error,
    };
    let failed: Result<()> = Err(error).context(STEP, format_args!("execute {program:?}"));
    // In init's place. If the supervisor is gone, nobody is left to tell.
    drop(failed.map_err(|failure| message::send(channel.as_fd(), &Message::NotStarted(failure), &[])));
    std::process::exit(crate::exit_code::FAILED)
}

fn keep_open(file: BorrowedFd) -> io::Result<()> {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}
