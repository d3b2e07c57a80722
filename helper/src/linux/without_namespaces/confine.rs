//! What happens in the process that becomes the command: limits, privileges, the domain, the filter, and then the proof.

use super::STEP;
use super::private::{CANARY, Private};
use super::wall::Wall;
use crate::error::{Context, Result, failure};
use crate::linux::exec::{Command, Executed, Places, Streams};
use crate::linux::limits::{self, InForce};
use crate::linux::message::Outside;
use crate::linux::seccomp;
use crate::linux::task::{Entrance, Task};
use crate::linux::view::View;
use crate::linux::{privileges, read_back, sys, usage};
use crate::promises;
use agentkit_protocol::{Attack, Domain, FailureKind, ReadBack};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::signal::kill;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket, socketpair};
use nix::sys::stat::Mode;
use nix::sys::stat::umask;
use nix::unistd::{Pid, chown, truncate, unlink};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Git takes a file that it can see and not read, such as the host's settings, for broken.
const VARIABLES: &[(&str, &str)] = &[("GIT_CONFIG_NOSYSTEM", "1")];

/// What is to be in force.
pub(super) struct Confinement<'a> {
    pub(super) wall: &'a dyn Wall,
    exclusive_user: bool,
    /// See [`Domain::others`].
    others: u64,
    /// See [`ReadBack::installations_as_on_host`].
    installations: bool,
    /// See [`Domain::hidden`].
    hidden: bool,
    /// Whether uids are those that the kernel goes by, and so whether the process limit binds this one.
    first_users: bool,
    limits_bind: bool,
    /// What nobody in the jail may open.
    canary: PathBuf,
}

impl<'a> Confinement<'a> {
    pub(super) fn new(
        wall: &'a dyn Wall,
        task: &Task,
        view: &View,
        private: &Private,
        outside: &Outside,
    ) -> Self {
        Confinement {
            wall,
            exclusive_user: task.identity.is_exclusive(),
            others: 0,
            installations: view.has_installations(),
            hidden: outside.hidden,
            first_users: outside.namespaces.are_the_first_users(),
            limits_bind: false,
            canary: private.path.join(OsStr::from_bytes(CANARY.to_bytes())),
        }
    }

    /// As init, while it can still read all of `/proc`.
    pub(super) fn look_around(&mut self) -> Result<()> {
        let proc = OwnedFd::from(File::open("/proc").context(STEP, "open /proc")?);
        let uid = nix::unistd::getuid().as_raw();
        // Of a user that is nobody else's there are only the supervisor and what it has started.
        let tasks = match self.exclusive_user {
            true => usage::descendants(&proc, nix::unistd::getppid().as_raw().unsigned_abs())
                .map(|all| all.iter().fold(0_u64, |sum, process| sum.saturating_add(process.tasks))),
            false => usage::tasks_of(&proc, uid),
        };
        let tasks = tasks.context(STEP, "count the user's processes")?;
        // This process is part of the run; the supervisor is one of the two that the limit allows for.
        self.others = tasks.saturating_sub(1);
        self.limits_bind = if self.first_users { uid != 0 } else { limits::bind_this_user()? };
        Ok(())
    }

    /// Starts the command, confined. Returns its number, unless this is a probe, and what was found in force in the very
    /// process.
    pub(super) fn start(
        &self,
        task: &Task,
        entrance: &mut Entrance,
        private: &Private,
        terminal: Option<BorrowedFd>,
        domain: Option<BorrowedFd>,
        channel: &OwnedFd,
    ) -> Result<(Option<libc::pid_t>, ReadBack)> {
        // It works in the memory of this one until it is another program.
        let found: RefCell<Option<Result<ReadBack>>> = RefCell::new(None);
        let init = nix::unistd::getpid();
        let confine = || {
            let result = self.enter(task, domain, init);
            let told = result.as_ref().map(drop).map_err(Clone::clone);
            found.replace(Some(result));
            told
        };
        let started = match task.program {
            None => {
                let rehearse = || confine().err();
                sys::spawn(&rehearse).context(STEP, "clone").map(|_| None)
            }
            Some(program) => {
                let streams = match (&task.terminal, terminal) {
                    (Some(callers), Some(own)) => Streams::Terminal { own, kind: &callers.kind },
                    _ => Streams::Input(entrance.relays.take_stdin()),
                };
                let directory = private.directory_of(task);
                let spelling = if directory == private.work { directory } else { &task.spelling };
                let places = Places {
                    directory,
                    spelling,
                    home: &private.home,
                    temporary: &private.temporary,
                    variables: VARIABLES,
                };
                umask(Mode::from_bits_truncate(0o022));
                let topics = self.wall.topics(task.plan);
                let command = Command::new(task.plan, program, places, streams, topics)?;
                command.start(channel, &confine).map(Some)
            }
        };
        match (found.into_inner(), started) {
            // What it failed at says more than that it did not start.
            (Some(Err(failure)), _) | (_, Err(failure)) => Err(failure),
            (Some(Ok(read_back)), Ok(None)) => Ok((None, read_back)),
            (Some(Ok(read_back)), Ok(Some(Executed { pid, attributes_refused }))) => {
                Ok((Some(pid), ReadBack { attributes_refused, ..read_back }))
            }
            (None, Ok(_)) => Err(failure(FailureKind::Host, STEP, "the command was not confined")),
        }
    }

    /// In the process that becomes the command.
    fn enter(&self, task: &Task, domain: Option<BorrowedFd>, init: Pid) -> Result<ReadBack> {
        let status = File::open("/proc/self/status").context(STEP, "open /proc/self/status")?;
        let limits_of_launcher = limits::apply(&task.plan.limits, self.others)?;
        let in_force = InForce::read(&task.plan.limits)?;
        privileges::drop_held()?;
        if let Some(domain) = domain {
            sys::restrict_self(domain).context(STEP, "landlock_restrict_self")?;
        }
        if let Some(more) = self.wall.filter(task.plan) {
            seccomp::load_without_namespaces(&more)?;
        }
        let found = Domain {
            version: self.wall.version(),
            refused: self.attack(init),
            exclusive_user: self.exclusive_user,
            others: self.others,
            hidden: self.hidden,
        };
        let mut state = ReadBack {
            domain: Some(found),
            limits_bind: self.limits_bind,
            // Whatever domain it is; there is no way to ask.
            landlock: domain.is_some(),
            memory_group: task.group.as_ref().map(|group| group.limit),
            workdir_read_only: task.plan.workdir_read_only,
            installations_as_on_host: self.installations,
            ..read_back::read_open(status, in_force)?
        };
        state.launchers_limits.extend(limits_of_launcher);
        promises::check(&self.wall.derive(&state, task.plan), self.wall.promised(), task.plan)?;
        Ok(state)
    }

    /// Tries what must not work, on a file of this user's beside the private directories; returns what did not.
    fn attack(&self, init: Pid) -> BTreeSet<Attack> {
        let canary = self.canary.as_path();
        let parent = canary.parent().unwrap_or(Path::new("/"));
        let open = |path: &Path, flags| open(path, flags | OFlag::O_CLOEXEC, Mode::empty()).map(drop);
        let everybody = |number: i32| {
            [AddressFamily::Unix, AddressFamily::Inet, AddressFamily::Inet6]
                .into_iter()
                .map(move |family| (family, number))
        };
        let sockets = || {
            let single = everybody(0)
                .all(|(family, _)| socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).is_err());
            let pair = socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::SOCK_CLOEXEC);
            if single && pair.is_err() { Err(Errno::EAFNOSUPPORT) } else { Ok(()) }
        };
        let attempts: [(Attack, nix::Result<()>); 8] = [
            (Attack::Read, open(canary, OFlag::O_RDONLY)),
            (Attack::Write, open(canary, OFlag::O_WRONLY)),
            (Attack::Empty, truncate(canary, 0)),
            (Attack::List, open(parent, OFlag::O_RDONLY | OFlag::O_DIRECTORY)),
            // For modes and times the supervisor is asked, from when the command runs; all else is refused already.
            (Attack::ChangeOwner, chown(canary, Some(nix::unistd::getuid()), None)),
            (Attack::Signal, kill(init, None)),
            (Attack::Socket, sockets()),
            (Attack::Remove, unlink(canary)),
        ];
        attempts.into_iter().filter(|(_, result)| result.is_err()).map(|(attack, _)| attack).collect()
    }
}
