//! Pid 1 of the jail: sets everything up, starts the command, reaps, and takes all that is left down with it.

use super::mounts;
use super::network::{self, Network};
use crate::error::{Context, Hint, Result};
use crate::linux::asked::Topics;
use crate::linux::enclosed::{self, Gap};
use crate::linux::exec::{Command, Executed, Places, Streams, TEMPORARY};
use crate::linux::identity::{INNER_ID, Identity};
use crate::linux::layers::Layer;
use crate::linux::message::{self, Message, Outside};
use crate::linux::mount_table::keep_apart;
use crate::linux::pty;
use crate::linux::reap::{End, die_with_supervisor, reap_until_gone};
use crate::linux::relay::Relays;
use crate::linux::task::{Entrance, Task};
use crate::linux::view::HOME;
use crate::linux::{limits, privileges, read_back, seccomp, second_wall, sys};
use agentkit_protocol::{EndedBy, Mechanism, ReadBack};
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, setpgid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

const STEP: &str = "init";
/// Does the task and ends the process, and with it every other one in the jail.
pub(crate) fn main(task: &Task<'_>, entrance: &mut Entrance, channel: OwnedFd) -> ! {
    let ended = run(task, entrance, &channel).unwrap_or_else(Message::NotStarted);
    // If the supervisor is gone, nobody is left to tell.
    drop(message::send(channel.as_fd(), &ended, &[]));
    std::process::exit(0)
}

/// The set-up as a list of steps. Each comes after what it needs and before what forbids it. An error is one before the
/// command was started.
fn run(task: &Task<'_>, entrance: &mut Entrance, channel: &OwnedFd) -> Result<Message> {
    die_with_supervisor(channel)?;
    let network = network::begin(task.plan)?;
    map_ids(&task.identity)?;
    privileges::forget_launcher()?;
    privileges::be_killed_first()?;
    // These were the last things that needed an open /proc/self.
    privileges::hide_from_equals()?;
    leave_caller(&entrance.relays)?;
    // Before the launcher's /proc is gone.
    forbid_nested_namespaces()?;
    let own = !Layer::View.is_off();
    let view = own.then(|| mounts::begin(&entrance.view, task.plan)).transpose()?;
    let outside = outside(channel)?;
    entrance.view.hide_host_proc(&outside.processes);
    let finish = |view| mounts::finish(view, &mut entrance.view, task.plan, &task.guards);
    let mounted = view.map_or_else(mounts::launchers, finish)?;
    let Network { loopback, sockets, connections } = network.enter()?;
    let workdir = hosts_work_dir(task)?;
    read_nothing()?;
    let terminal = task.terminal.as_ref().map(pty::Pair::open).transpose()?;
    let launchers_limits = limits::apply(&task.plan.limits, 0)?;
    let landlock = second_wall::restrict()?;
    privileges::drop_all()?;
    seccomp::load(loopback.is_ok(), task.plan.writes_host_files())?;
    let mut read_back = ReadBack {
        landlock,
        loopback: loopback.is_ok(),
        sockets_tell: sockets.is_some(),
        memory_group: task.group.as_ref().map(|group| group.limit),
        workdir_read_only: mounted.workdir_read_only,
        installations_as_on_host: mounted.installations_as_on_host,
        ..read_back::read(&task.plan.limits, &outside.namespaces)?
    };
    read_back.launchers_limits.extend(launchers_limits);
    let gap = entrance.view.can_be_uncovered.then_some(Gap::Uncoverable);
    let capabilities = enclosed::derive(Mechanism::Namespaces, &read_back, task.plan, gap);
    enclosed::check(&capabilities, task.plan)?;
    let command = start(task, &mut entrance.relays, terminal.as_ref(), channel)?;
    read_back.attributes_refused = command.as_ref().is_some_and(|command| command.attributes_refused);
    let layers = mounted.overlay.iter().flat_map(|layers| [layers.upper.as_fd(), layers.host.as_fd()]);
    let handles = [mounted.proc.as_fd(), mounted.private.as_fd()]
        .into_iter()
        .chain(sockets.as_ref().map(AsFd::as_fd))
        .chain(workdir.as_ref().map(AsFd::as_fd))
        .chain(terminal.as_ref().map(|terminal| terminal.master.as_fd()))
        .chain(layers)
        .chain(connections.as_ref().map(AsFd::as_fd));
    let handles: Vec<_> = handles.chain(mounted.watched.iter().map(AsFd::as_fd)).collect();
    let told = message::send(channel.as_fd(), &Message::Started { read_back }, &handles)
        .context(STEP, "report the start");
    let Some(pid) = command.map(|command| command.pid) else {
        return told.map(|()| Message::Ended(End::of(EndedBy::Exit(0))));
    };
    let wall = Duration::from_millis(task.plan.limits.wall_ms);
    Ok(told.and_then(|()| reap_until_gone(pid, wall)).map_or_else(Message::Broke, Message::Ended))
}

/// The supervisor has looked meanwhile.
fn outside(channel: &OwnedFd) -> Result<Outside> {
    let message = message::receive(channel.as_fd()).context(STEP, "receive what is outside")?;
    let gone = || io::Error::other("the supervisor is gone");
    message.map(|(outside, _)| outside).ok_or_else(gone).context(STEP, "receive what is outside")
}

/// For the supervisor, who can look at it only with the eyes of the jail: through the mount that maps its owner.
fn hosts_work_dir(task: &Task<'_>) -> Result<Option<OwnedFd>> {
    if !task.plan.writes_to_bound_workdir() {
        return Ok(None);
    }
    open(&task.directory, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .context(STEP, format_args!("open the work dir {:?}", task.directory))
        .map(Some)
}

fn start(
    task: &Task<'_>,
    relays: &mut Relays,
    terminal: Option<&pty::Pair>,
    channel: &OwnedFd,
) -> Result<Option<Executed>> {
    let Some(program) = task.program else { return Ok(None) };
    umask(Mode::from_bits_truncate(0o022));
    let streams = match (&task.terminal, terminal) {
        (Some(callers), Some(own)) => Streams::Terminal { own: own.slave.as_fd(), kind: &callers.kind },
        _ => Streams::Input(relays.take_stdin()),
    };
    let places = Places {
        directory: &task.directory,
        spelling: &task.spelling,
        home: Path::new(HOME),
        temporary: Path::new(TEMPORARY),
        variables: &[],
    };
    // All of it is inherited.
    let nothing_more = || Ok(());
    Command::new(task.plan, program, places, streams, Topics::of(task.plan))?
        .start(channel, &nothing_more)
        .map(Some)
}

/// Exactly one user and one group: with several, each would have a process limit of its own.
fn map_ids(identity: &Identity) -> Result<()> {
    if Layer::UserNamespace.is_off() {
        return keep_apart();
    }
    let write = |path: &str, text: String| {
        std::fs::write(path, &text).context(STEP, format_args!("write {text:?} to {path}")).hint(
            "the distribution may take all privileges from new user namespaces, for instance by AppArmor",
        )
    };
    // Without this an unprivileged process may not map its group, see user_namespaces(7).
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{INNER_ID} {} 1", identity.uid))?;
    write("/proc/self/gid_map", format!("{INNER_ID} {} 1", identity.gid))
}

/// Leaves the caller's process group, its session keyring and its output streams.
fn leave_caller(relays: &Relays) -> Result<()> {
    // Of the caller's process group, that is, so that no terminal or caller signals it; the command has a session of its
    // own, and init's would only cost a scheduling group.
    if !Layer::Session.is_off() {
        setpgid(Pid::from_raw(0), Pid::from_raw(0)).map_err(io::Error::from).context(STEP, "setpgid")?;
    }
    // Kernels without keyrings have none to leave.
    let joined = if Layer::Keyring.is_off() { Ok(()) } else { sys::join_new_session_keyring() };
    match joined {
        Err(error) if error.raw_os_error() != Some(libc::ENOSYS) => {
            return Err(error).context(STEP, "join a new session keyring");
        }
        _ => {}
    }
    if !Layer::UtsNamespace.is_off() {
        nix::unistd::sethostname("jail").map_err(io::Error::from).context(STEP, "sethostname")?;
    }
    // What init makes gets exactly the mode it asks for; the command gets the usual mask.
    umask(Mode::empty());
    relays.take_over().context(STEP, "replace standard output and error")
}

/// Leaves the caller's standard input, which may be a client's socket or the policy, for the jail's own /dev/null: the
/// host's would be on a mount that is not read-only.
fn read_nothing() -> Result<()> {
    let nothing = std::fs::File::open("/dev/null").context(STEP, "open /dev/null")?;
    nix::unistd::dup2_stdin(&nothing).map_err(io::Error::from).context(STEP, "replace standard input")
}

/// The jail gets no further user namespace: it would give capabilities back, without which there are no other new
/// namespaces either. Also caught by the filter.
fn forbid_nested_namespaces() -> Result<()> {
    // Without a user namespace of the jail's own it would be the launcher's count.
    if Layer::NestedNamespaces.is_off() || Layer::UserNamespace.is_off() {
        return Ok(());
    }
    let path = "/proc/sys/user/max_user_namespaces";
    match std::fs::write(path, "0") {
        // The filter alone has to do where /proc/sys is read-only or covered, as in many containers.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EROFS | libc::ENOENT)) => Ok(()),
        result => result.context(STEP, format_args!("write 0 to {path}")),
    }
}
