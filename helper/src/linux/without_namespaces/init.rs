//! The jail's init: confines and starts the command, reaps, and in the end takes down all that is left and removes what was
//! private. It stays out of the command's domain of Landlock, if there is one, whose processes can then neither signal nor
//! trace it.

use super::confine::Confinement;
use super::private::Private;
use super::{STEP, end};
use crate::error::{Context, Result};
use crate::linux::message::{self, Message, Order};
use crate::linux::reap::{Dead, End, bury_the_dead};
use crate::linux::signals::{self, SOON};
use crate::linux::task::{Entrance, Task};
use crate::linux::{deadline, privileges, pty, sys};
use agentkit_protocol::EndedBy;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, getppid, setpgid};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The wall clock is the supervisor's. This is for when that is held up by its looks.
const SPARE: Duration = Duration::from_millis(500);

/// Does the task, and ends this process when no other one of the jail is alive.
pub(super) fn main(
    task: &Task,
    entrance: &mut Entrance,
    private: &Private,
    confinement: Confinement,
    channel: &OwnedFd,
) -> ! {
    // If the supervisor is gone, nobody is left to tell.
    let version = confinement.wall.version();
    let say = |message: Message| drop(message::send(channel.as_fd(), &message, &[]));
    if let Some(ended) = run(task, entrance, private, confinement, channel)
        .unwrap_or_else(|failure| Some(Message::NotStarted(failure)))
    {
        say(ended);
    }
    let ended = end::everything(version);
    let status = i32::from(ended.is_err());
    say(ended.map_or_else(Message::Broke, |()| Message::Gone));
    // It has a last look at what is private before that is removed.
    while let Ok(Some(_)) = message::receive::<Order>(channel.as_fd()) {}
    drop(private.remove());
    std::process::exit(status)
}

/// The set-up as a list of steps. An error is one before the command was started; nothing is said of an end that the
/// supervisor has asked for.
fn run(
    task: &Task,
    entrance: &mut Entrance,
    private: &Private,
    mut confinement: Confinement,
    channel: &OwnedFd,
) -> Result<Option<Message>> {
    let supervisor = getppid();
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(io::Error::from)
        .context(STEP, "prctl PR_SET_CHILD_SUBREAPER")?;
    // The supervisor may have closed itself already, and with that what this has to write in /proc.
    privileges::show_to_equals()?;
    privileges::forget_launcher()?;
    privileges::be_killed_first()?;
    confinement.look_around()?;
    privileges::hide_from_equals()?;
    end::keep_signals_inside(confinement.wall.version())?;
    leave_caller(entrance)?;
    let terminal = task.terminal.as_ref().map(pty::Pair::open).transpose()?;
    let slave = terminal.as_ref().map(|terminal| terminal.slave.as_fd());
    let domain = confinement.wall.domain(&entrance.view, task, private, slave)?;
    let domain = domain.as_ref().map(AsFd::as_fd);
    let proc = open_directory(Path::new("/proc"))?;
    let directory = private.directory_of(task);
    let workdir = task.plan.writes_to_bound_workdir().then(|| open_directory(directory)).transpose()?;
    let (command, read_back) = confinement.start(task, entrance, private, slave, domain, channel)?;
    let handles: Vec<_> = [proc.as_fd(), private.directory.as_fd()]
        .into_iter()
        .chain(workdir.as_ref().map(AsFd::as_fd))
        .chain(terminal.as_ref().map(|terminal| terminal.master.as_fd()))
        .collect();
    let told = message::send(channel.as_fd(), &Message::Started { read_back }, &handles)
        .context(STEP, "report the start");
    let Some(pid) = command else { return told.map(|()| Some(Message::Ended(End::of(EndedBy::Exit(0))))) };
    let time = Duration::from_millis(task.plan.limits.wall_ms).saturating_add(SPARE);
    let deadline = deadline::after(Instant::now(), time);
    let ended = told.and_then(|()| follow(pid, supervisor, channel, deadline));
    Ok(ended.map_or_else(|failure| Some(Message::Broke(failure)), |ended| ended.map(Message::Ended)))
}

fn open_directory(path: &Path) -> Result<OwnedFd> {
    open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .context(STEP, format_args!("open {path:?}"))
}

/// Leaves the caller's process group, its session keyring and its streams.
fn leave_caller(entrance: &Entrance) -> Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0)).map_err(io::Error::from).context(STEP, "setpgid")?;
    match sys::join_new_session_keyring() {
        // Kernels without keyrings have none to leave, and a filter around this process may keep it from any.
        Err(error) if !matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            return Err(error).context(STEP, "join a new session keyring");
        }
        _ => {}
    }
    umask(Mode::empty());
    entrance.relays.take_over().context(STEP, "replace standard output and error")?;
    let nothing = File::open("/dev/null").context(STEP, "open /dev/null")?;
    nix::unistd::dup2_stdin(&nothing).map_err(io::Error::from).context(STEP, "replace standard input")
}

/// Waits for the command, passes on what asks it to end, and buries the orphans that come here meanwhile. Nothing if the
/// supervisor asks for the end, or is gone.
fn follow(
    command: libc::pid_t,
    supervisor: Pid,
    channel: &OwnedFd,
    deadline: Instant,
) -> Result<Option<End>> {
    let signals = signals::open_as_init()?;
    let mut is_small = false;
    loop {
        let dead = bury_the_dead(command)?;
        if let Dead::Command(by) = dead {
            return Ok(Some(End::of(by)));
        }
        let is_busy = matches!(dead, Dead::Many);
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Some(End::of(EndedBy::WallClock)));
        }
        let time = if is_small { left } else { left.min(SOON) };
        let timeout = match is_busy {
            true => PollTimeout::ZERO,
            false => PollTimeout::try_from(time.saturating_add(Duration::from_micros(999)))
                .unwrap_or(PollTimeout::MAX),
        };
        let mut sources = [&signals.as_fd(), &channel.as_fd()].map(|it| PollFd::new(*it, PollFlags::POLLIN));
        match poll(&mut sources, timeout) {
            Ok(0) if !is_small && !is_busy => {
                is_small = true;
                sys::give_memory_back();
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(io::Error::from(error)).context(STEP, "poll"),
        }
        if sources.last().is_some_and(|channel| channel.any().unwrap_or(false)) {
            return Ok(None);
        }
        pass_on(&signals, supervisor, command)?;
    }
}

/// Only what the supervisor sends. The command was not waited for yet, so that the number is still that of the group it
/// leads.
fn pass_on(signals: &SignalFd, supervisor: Pid, command: libc::pid_t) -> Result<()> {
    while let Some(signal) = signals.read_signal().map_err(io::Error::from).context(STEP, "read a signal")? {
        let number = signal.ssi_signo.cast_signed();
        if number != libc::SIGCHLD && signal.ssi_pid == supervisor.as_raw().unsigned_abs() {
            drop(sys::signal_group(command, number));
        }
    }
    Ok(())
}
