//! The `namespaces` mechanism of Linux, one file a step.

mod asked;
mod capabilities;
mod cgroup;
mod client_socket;
mod cpu;
mod detached;
mod disk;
mod exec;
mod forks;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod git;
mod identity;
mod init;
mod kernel_files;
mod landlock;
mod layers;
mod limits;
mod look;
mod memory;
mod message;
mod modes;
mod mount_table;
mod mounts;
mod namespaces;
mod network;
mod overlay;
mod owner_map;
mod pace;
mod privileges;
mod proc_files;
mod program;
mod pty;
mod read_back;
mod relay;
mod resolve;
mod root;
mod sanitize;
mod seccomp;
mod shared;
mod signals;
mod sockets;
mod supervise;
mod sys;
mod tree;
mod usage;
mod vfork;
mod view;
mod watch;
mod workdir;

pub(crate) use crate::sanitize::{client_reporter, sanitize};
pub(crate) use client_socket::ClientSocket;
pub(crate) use sanitize::{close_all_but_streams_and, reset_signals};
pub(crate) use sys::{adopt, started_with_privilege};

use crate::deadline;
use crate::error::Result;
use crate::input::Stdin;
use crate::report::Reporter;
use crate::validate::{self, Plan};
use agentkit_protocol::{Capabilities, Control, Ended, GitNames, Policy};
use cgroup::Group;
use git::Guards;
use identity::Identity;
use layers::Layer;
use namespaces::Jail;
use program::{Program, Surroundings};
use pty::Terminal;
use relay::Relays;
use view::{Found, View};
use workdir::WorkPath;

/// Runs the command of a plan; returns when it and everything it left behind is dead.
pub(crate) fn launch(plan: &Plan, stdin: Stdin, reporter: &mut Reporter) -> Result<Ended> {
    let workdir = WorkPath::find(plan)?;
    let rules = view::find_all(&plan.rules, &workdir)?;
    let around = Surroundings::of_this_process(&workdir, &rules, plan)?;
    let program = Program::find(&plan.argv, &around)?;
    let terminal = if plan.tty { Some(Terminal::of_caller()?) } else { None };
    let from_client = matches!(reporter, Reporter::Client(_));
    let command = Command { program: &program, stdin, from_client, terminal };
    let jail = enter(plan, &workdir, rules, Some(command))?;
    supervise::run(jail, plan, reporter)
}

/// Goes the whole way of [`launch`] for an empty policy, up to the point where the command would be executed.
pub(crate) fn probe() -> Capabilities {
    let asked = Policy::new(["true"]);
    let outcome = validate::plan(asked).and_then(|plan| {
        let workdir = WorkPath::find(&plan)?;
        supervise::probe(enter(&plan, &workdir, Vec::new(), None)?)
    });
    outcome.unwrap_or_else(Capabilities::unavailable)
}

/// What is to run in the jail. A probe has none.
struct Command<'a> {
    program: &'a Program,
    stdin: Stdin,
    /// Whether standard output and error are a client's pipes.
    from_client: bool,
    /// The caller's, if the command is to have one of its own.
    terminal: Option<Terminal>,
}

/// What happens outside, in an order that matters: what needs the launcher's privileges comes first, then they are
/// given up, and the new process has none to begin with.
fn enter(plan: &Plan, workdir: &WorkPath, rules: Vec<Found>, command: Option<Command>) -> Result<Jail> {
    let identity = Identity::choose()?;
    let grants = command.as_ref().map_or(&[][..], |command| &command.program.grants);
    let mut view = View::new(workdir, grants, rules, plan.net)?;
    let guarded = plan.git == GitNames::Protect && !Layer::Git.is_off();
    if identity.gives_up_root() {
        view.open_as_root(&identity, guarded)?;
        if let Some(command) = command.as_ref().filter(|command| command.from_client) {
            relay::give_pipes_to(identity.uid, identity.gid, &command.stdin)?;
        }
    }
    // The kernel's own limit costs more than it is worth to most, and takes root or a delegated subtree.
    let required = plan.require.contains(&Control::MemoryLimited);
    let group = if required { Some(Group::join(&plan.limits)?) } else { None };
    identity.assume()?;
    let guards = if guarded { Guards::new(&mut view)? } else { Guards::default() };
    signals::block()?;
    let (program, relays, terminal) = match command {
        None => (None, Relays::default(), None),
        Some(Command { program, terminal: Some(terminal), .. }) => {
            (Some(program), Relays::to_nothing()?, Some(terminal))
        }
        Some(Command { program, stdin, from_client, terminal: None }) => {
            (Some(program), Relays::start(stdin, from_client, plan.limits.output)?, None)
        }
    };
    let directory = workdir.inside().to_path_buf();
    let spelling = workdir.spelling().to_path_buf();
    let memory_group = group.as_ref().map(|group| group.limit);
    let task = init::Task {
        plan,
        view,
        directory,
        spelling,
        program,
        relays,
        terminal,
        identity,
        memory_group,
        guards,
    };
    let jail = namespaces::enter(task)?;
    Ok(Jail { group: group.map(Group::leave), ..jail })
}
