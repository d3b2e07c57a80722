//! Step 4: what is decided and prepared outside, whichever mechanism it is for.

use super::cgroup::Group;
use super::git::Guards;
use super::identity::Identity;
use super::layers::Layer;
use super::program::Program;
use super::pty::Terminal;
use super::relay::{self, Relays};
use super::signals;
use super::view::{Found, View};
use super::workdir::WorkPath;
use crate::error::Result;
use crate::input::Stdin;
use crate::validate::Plan;
use agentkit_protocol::{Choice, Control, GitNames};
#[cfg(any(feature = "landlock", with_namespaces))]
use std::path::Path;
use std::path::PathBuf;

/// What a command is to have of the caller's. A probe, which executes none, has none of it.
pub(crate) struct Command {
    pub(crate) stdin: Stdin,
    /// Whether standard output and error are a client's pipes.
    pub(crate) from_client: bool,
    /// The caller's, if the command is to have one of its own.
    pub(crate) terminal: Option<Terminal>,
}

/// What a jail is to be.
pub(crate) struct Task<'a> {
    pub(crate) plan: &'a Plan,
    /// Where the command starts, in a view of the jail's own.
    pub(crate) directory: PathBuf,
    /// The same as the caller spelled it.
    pub(crate) spelling: PathBuf,
    /// Missing in a probe, which ends where the command would start.
    pub(crate) program: Option<&'a Program>,
    /// What a program needs of the host, in a probe too.
    #[cfg_attr(
        not(any(feature = "landlock", with_namespaces)),
        expect(dead_code, reason = "rlimits confines no file")
    )]
    grants: &'a [PathBuf],
    /// The caller's terminal, if the command is to have one of its own.
    pub(crate) terminal: Option<Terminal>,
    /// Whoever holds the identity's claim keeps it from being used twice.
    pub(crate) identity: Identity,
    /// The memory of the whole tree is to be in it. Removed last, when nobody is left who was born there.
    pub(crate) group: Option<Group>,
    /// Knows what the jail must not have changed in the end.
    pub(crate) guards: Guards,
}

impl Task<'_> {
    /// Whether a program alone asks for this place. It helps nobody where it is closed to whom root becomes, as below root's
    /// home.
    #[cfg(any(feature = "landlock", with_namespaces))]
    pub(crate) fn is_programs(&self, path: &Path) -> bool {
        self.grants.iter().any(|grant| grant == path)
    }
}

/// What goes into the jail. Outside it is only kept until there is one.
pub(crate) struct Entrance {
    pub(crate) view: View,
    /// The last output is copied when this is finished or dropped, and then the run is over.
    pub(crate) relays: Relays,
}

impl Entrance {
    /// Once the jail has it all. As long as we held its ends of the pipes too, the copiers would wait for us, and as long as
    /// we held its mounts, the kernel could not take them down with it.
    pub(crate) fn let_go(&mut self, group: Option<&Group>) {
        self.view.entries.clear();
        self.relays.let_go();
        if let Some(group) = group {
            group.leave();
        }
    }
}

/// What happens outside, in an order that matters: what needs the launcher's privileges comes first, then they are
/// given up, and the new process has none to begin with. `open_as_root` opens what a root launcher shows.
pub(crate) fn prepare<'a>(
    plan: &'a Plan,
    workdir: &WorkPath,
    rules: Vec<Found>,
    program: Option<&'a Program>,
    command: Option<Command>,
    mut open_as_root: impl FnMut(&mut View, &Identity, bool) -> Result<()>,
) -> Result<(Task<'a>, Entrance)> {
    let identity = Identity::choose()?;
    let grants = program.map_or(&[][..], |program| &program.grants);
    let mut view = View::new(workdir, grants, rules, plan.net)?;
    let guarded = plan.git == GitNames::Protect && !Layer::Git.is_off();
    if identity.gives_up_root() {
        open_as_root(&mut view, &identity, guarded)?;
        if let Some(command) = command.as_ref().filter(|command| command.from_client) {
            relay::give_pipes_to(identity.uid, identity.gid, &command.stdin)?;
        }
    }
    // The kernel's own limit costs more than it is worth to most, and takes root or a delegated subtree.
    let required = plan.require.contains(&Control::MemoryLimited);
    let group = if required { Some(Group::join(&plan.limits)?) } else { None };
    // Under rlimits nothing but this keeps the command out of the supervisor and its copiers, which are of the same user.
    identity.assume(plan.mechanism == Choice::Rlimits)?;
    let guards = if guarded { Guards::new(&mut view)? } else { Guards::default() };
    signals::block()?;
    let (program, relays, terminal) = match command {
        None => (None, Relays::default(), None),
        Some(Command { terminal: Some(terminal), .. }) => (program, Relays::to_nothing()?, Some(terminal)),
        Some(Command { stdin, from_client, terminal: None }) => {
            (program, Relays::start(stdin, from_client, plan.limits.output)?, None)
        }
    };
    let directory = workdir.inside().to_path_buf();
    let spelling = workdir.spelling().to_path_buf();
    let task = Task { plan, directory, spelling, program, grants, terminal, identity, group, guards };
    Ok((task, Entrance { view, relays }))
}
