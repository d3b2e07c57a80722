//! The `namespaces` mechanism of Linux, one file a step.

mod capabilities;
mod client_socket;
mod exec;
mod forks;
mod identity;
mod init;
mod limits;
mod message;
mod mounts;
mod namespaces;
mod network;
mod privileges;
mod program;
mod read_back;
mod relay;
mod sanitize;
mod seccomp;
mod supervise;
mod sys;
mod usage;
mod view;
mod watch;

pub(crate) use client_socket::ClientSocket;
pub(crate) use sanitize::{client_reporter, sanitize};

use crate::error::Result;
use crate::report::Reporter;
use crate::validate::{self, Plan};
use agentkit_protocol::{Capabilities, Ended, Policy};
use identity::Identity;
use namespaces::Jail;
use program::{Program, Surroundings};
use relay::Relays;
use std::os::fd::OwnedFd;
use view::{View, WorkPath};

/// Runs the command of a plan; returns when it and everything it left behind is dead.
pub(crate) fn launch(plan: &Plan, stdin: Option<OwnedFd>, reporter: &mut Reporter) -> Result<Ended> {
    let workdir = WorkPath::find(&plan.workdir)?;
    let program = Program::find(&plan.argv, &Surroundings::of_this_process(&workdir))?;
    let mut relays = Relays::start()?;
    let jail = enter(plan, &workdir, Some(&program), stdin, &relays)?;
    relays.let_go();
    supervise::run(jail, plan, reporter)
}

/// Goes the whole way of [`launch`] for an empty policy, up to the point where the command would be executed.
pub(crate) fn probe() -> Capabilities {
    let asked = Policy::new(["true"]);
    let outcome = validate::plan(asked).and_then(|plan| {
        let workdir = WorkPath::find(&plan.workdir)?;
        supervise::probe(enter(&plan, &workdir, None, None, &Relays::default())?)
    });
    outcome.unwrap_or_else(Capabilities::unavailable)
}

/// What happens outside, in an order that matters: what needs the launcher's privileges comes first, then they are
/// given up, and the new process has none to begin with.
fn enter(
    plan: &Plan,
    workdir: &WorkPath,
    program: Option<&Program>,
    stdin: Option<OwnedFd>,
    relays: &Relays,
) -> Result<Jail> {
    let launcher = read_back::Namespaces::of_this_process()?;
    let identity = Identity::choose()?;
    let mut view = View::new(workdir, program)?;
    if identity.gives_up_root() {
        // The mapped user can neither traverse root's directories nor map the owner of a work dir.
        view.open(&identity)?;
        relays.belong_to(identity.uid, identity.gid)?;
    }
    identity.assume()?;
    let directory = workdir.inside().to_path_buf();
    let task = init::Task { plan, view, directory, program, stdin, relays, identity, launcher };
    namespaces::enter(task)
}
