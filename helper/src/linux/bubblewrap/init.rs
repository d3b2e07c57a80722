//! Pid 1 of the jail, this program once more: checks what bubblewrap made, limits and filters, starts the command, reaps.

use super::STEP;
use super::handover::Handover;
use super::names::{AS_INIT, PRIVATE};
use super::{mounts, proc};
use crate::error::{Context, Hint, Result, failure};
use crate::linux::asked::Topics;
use crate::linux::enclosed;
use crate::linux::exec::{Command, Executed, Places, Streams, TEMPORARY};
use crate::linux::message::{self, Message};
use crate::linux::mount_table::MountTable;
use crate::linux::reap::{End, die_with_supervisor, reap_until_gone};
use crate::linux::resolve::replaced;
use crate::linux::view::HOME;
use crate::linux::{limits, privileges, read_back, sanitize, seccomp, second_wall, signals, sys};
use crate::validate::{self, Plan};
use agentkit_protocol::{EndedBy, FailureKind, Mechanism, Net, ReadBack};
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, lstat, umask};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

const PAGE: u64 = 4096;

/// Does what an init does if the arguments say that this is one; returns its exit code.
pub(crate) fn go_on_inside(arguments: &[OsString]) -> Option<i32> {
    let [first, number] = arguments else { return None };
    let number: i32 = number.to_str().filter(|_| first == AS_INIT)?.parse().ok()?;
    // Until it has what it needs of `/proc`: it is closed to a program whose file can be executed and not read.
    drop(privileges::show_to_equals());
    // Whoever started this program gave it away.
    let is_open = Path::new("/proc/self/fd").join(number.to_string()).symlink_metadata().is_ok();
    (number > libc::STDERR_FILENO && is_open).then(|| main(number))
}

fn main(channel: i32) -> i32 {
    // This program's own file first of all, by which a script of the command's could have it executed.
    let closed = sanitize::close_all_but_streams_and(&[channel]).context(STEP, "close inherited descriptors");
    let channel = sys::adopt(channel);
    let ended = closed.and_then(|()| run(&channel)).unwrap_or_else(Message::NotStarted);
    // If the supervisor is gone, nobody is left to tell.
    match message::send(channel.as_fd(), &ended, &[]) {
        Ok(()) => 0,
        Err(_) => crate::exit_code::FAILED,
    }
}

/// The set-up as a list of steps. An error is one before the command was started.
fn run(channel: &OwnedFd) -> Result<Message> {
    signals::block()?;
    die_with_supervisor(channel)?;
    let (handover, streams) = Handover::receive(channel.as_fd())?;
    answer(channel)?;
    privileges::forget_launcher()?;
    privileges::be_killed_first()?;
    privileges::hide_from_equals()?;
    let input = take_streams(streams)?;
    let plan = validate::plan(handover.policy.clone())?;
    check_view(&handover, &plan)?;
    let workdir_read_only =
        handover.workdir().map_or(Ok(false), |path| has_flag(path, FsFlags::ST_RDONLY))?;
    write_files(&plan)?;
    let loopback = plan.net != Net::None && TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).is_ok();
    let processes = open_directory(Path::new("/proc"))?;
    let private = open_directory(Path::new(TEMPORARY))?;
    let workdir = plan.writes_to_bound_workdir().then(|| open_directory(handover.directory())).transpose()?;
    let launchers_limits = limits::apply(&plan.limits, 0)?;
    privileges::drop_held()?;
    let landlock = second_wall::restrict()?;
    seccomp::load(loopback, plan.writes_host_files())?;
    let mut read_back = ReadBack {
        landlock,
        loopback,
        memory_group: handover.memory_group,
        installations_as_on_host: handover.installations_as_on_host,
        workdir_read_only,
        ..read_back::read(&plan.limits, &handover.launcher)?
    };
    read_back.launchers_limits.extend(launchers_limits);
    enclosed::check(&enclosed::derive(Mechanism::Bubblewrap, &read_back, &plan, Some(handover.gap)), &plan)?;
    let command = start(&handover, &plan, input, channel)?;
    read_back.attributes_refused = command.as_ref().is_some_and(|command| command.attributes_refused);
    let handles: Vec<_> = [&processes, &private].into_iter().chain(&workdir).map(AsFd::as_fd).collect();
    let told = message::send(channel.as_fd(), &Message::Started { read_back }, &handles)
        .context(STEP, "report the start");
    let Some(pid) = command.map(|command| command.pid) else {
        return told.map(|()| Message::Ended(End::of(EndedBy::Exit(0))));
    };
    let wall = Duration::from_millis(plan.limits.wall_ms);
    Ok(told.and_then(|()| reap_until_gone(pid, wall)).map_or_else(Message::Broke, Message::Ended))
}

/// With what the supervisor watches and ends this process by: its number outside is not known in here.
fn answer(channel: &OwnedFd) -> Result<()> {
    let own = std::process::id();
    if own != 1 {
        return Err(failure(
            FailureKind::Host,
            STEP,
            format_args!("init is process {own} of its namespace, not the first"),
        ));
    }
    let own = sys::open_pidfd(own.cast_signed()).context(STEP, "pidfd_open")?;
    message::send(channel.as_fd(), &Message::Ready, &[own.as_fd()]).context(STEP, "answer the supervisor")
}

/// The command's, for this process until there is one. Returns the command's input, if it has any.
fn take_streams(streams: Vec<OwnedFd>) -> Result<Option<OwnedFd>> {
    match sys::join_new_session_keyring() {
        // Kernels without keyrings have none to leave.
        Err(error) if error.raw_os_error() != Some(libc::ENOSYS) => {
            return Err(error).context(STEP, "join a new session keyring");
        }
        _ => {}
    }
    let mut streams = streams.into_iter();
    let mut take = || -> io::Result<()> {
        let missing = || io::Error::other("it did not come with the task");
        dup2_stdin(File::open("/dev/null")?)?;
        dup2_stdout(streams.next().ok_or_else(missing)?)?;
        Ok(dup2_stderr(streams.next().ok_or_else(missing)?)?)
    };
    take().context(STEP, "take the command's streams")?;
    Ok(streams.next())
}

/// Bubblewrap looks paths up by their names once more, and nobody has said yet what it made of them.
fn check_view(handover: &Handover, plan: &Plan) -> Result<()> {
    for (path, identity) in handover.shown() {
        let found = lstat(path).map_err(io::Error::from).context(STEP, format_args!("look at {path:?}"))?;
        if (found.st_dev, found.st_ino) != identity {
            return Err(replaced(path));
        }
    }
    proc::check(plan.proc)?;
    mounts::check(&MountTable::of_this_process(STEP)?, &handover.writable())?;
    let private =
        statvfs(PRIVATE).map_err(io::Error::from).context(STEP, "statvfs the private directories")?;
    let size = private.blocks().saturating_mul(private.fragment_size());
    if size == 0 || size > plan.limits.disk.saturating_add(PAGE) {
        let message =
            format_args!("the private directories may hold {size} bytes, and not {}", plan.limits.disk);
        return Err(failure(FailureKind::Host, STEP, message));
    }
    Ok(())
}

fn has_flag(path: &Path, flag: FsFlags) -> Result<bool> {
    let found = statvfs(path).map_err(io::Error::from).context(STEP, format_args!("statvfs {path:?}"))?;
    Ok(found.flags().contains(flag))
}

fn write_files(plan: &Plan) -> Result<()> {
    umask(Mode::from_bits_truncate(0o022));
    for (name, content) in &plan.files {
        let path = Path::new(TEMPORARY).join(name);
        File::create_new(&path)
            .and_then(|mut file| file.write_all(content))
            .context(STEP, format_args!("write {path:?}"))
            .hint("limits.disk bounds the policy's files too")?;
    }
    Ok(())
}

fn open_directory(path: &Path) -> Result<OwnedFd> {
    open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .context(STEP, format_args!("open {path:?}"))
}

/// Nothing, if this is a probe.
fn start(
    handover: &Handover,
    plan: &Plan,
    input: Option<OwnedFd>,
    channel: &OwnedFd,
) -> Result<Option<Executed>> {
    let Some(program) = handover.program()? else { return Ok(None) };
    // The private directories by their own names, and not by the links to them: whatever walks a tree follows none where it
    // begins, and whoever copies one would copy the link. What lies in one is found by either.
    let real = |path: &Path| path.canonicalize().context(STEP, format_args!("resolve {path:?}"));
    let (directory, home, temporary) =
        (real(handover.directory())?, real(Path::new(HOME))?, real(Path::new(TEMPORARY))?);
    let spelling = if handover.directory().is_symlink() { &directory } else { handover.spelling() };
    let places =
        Places { directory: &directory, spelling, home: &home, temporary: &temporary, variables: &[] };
    // All of it is inherited.
    let nothing_more = || Ok(());
    Command::new(plan, &program, places, Streams::Input(input), Topics::of(plan))?
        .start(channel, &nothing_more)
        .map(Some)
}
