//! From what was tried out to what may be claimed.

use crate::error::Result;
use crate::promises;
use crate::validate::Plan;
use agentkit_protocol::{Access, Capabilities, Control, Level, Mechanism, Net, WorkDir};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the profile must deliver, with the exceptions that are stated.
const PROMISED: [Control; 5] = [
    Control::NetworkBlocked,
    Control::FilesystemConfined,
    Control::ProcessesIsolated,
    Control::PrivilegesDropped,
    Control::KilledAsATree,
];

/// What the profile does, tried out by the process that becomes the command, before it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// The kernel refused to open the canary.
    pub(crate) outside_unreadable: bool,
    /// It refused to make a file beside it.
    pub(crate) outside_unwritable: bool,
    /// It refused to connect to the listener.
    pub(crate) network_unreachable: bool,
    /// It refused a signal to the supervisor.
    pub(crate) others_unreachable: bool,
    /// Limits in force.
    pub(crate) rlimits: BTreeMap<String, u64>,
}

/// Everything that the claims rest on.
pub(super) struct Evidence<'a> {
    pub(super) found: &'a Found,
    /// The kernel told the supervisor that this process has a profile.
    pub(super) is_confined: bool,
    /// The kernel told the supervisor that this process is in the jail, and that the supervisor is not.
    pub(super) is_marked: bool,
    pub(super) workdir_read_only: bool,
}

/// Claims what was found to hold, with what is known not to.
pub(super) fn derive(evidence: &Evidence, plan: &Plan) -> Capabilities {
    let controls =
        Control::ALL.into_iter().map(|control| (control, level(control, evidence, plan))).collect();
    Capabilities { mechanism: Some(Mechanism::Seatbelt), controls, failure: None }
}

fn level(control: Control, evidence: &Evidence, plan: &Plan) -> Level {
    let Evidence { found, is_confined, is_marked, workdir_read_only } = *evidence;
    let partial = |why: &str| Level::Partial(why.to_owned());
    let polled = |why: &str| Level::Polled(why.to_owned());
    let none = |why: &str| Level::None(why.to_owned());
    match control {
        Control::NetworkBlocked if plan.net == Net::Host => {
            none("the policy shares the host's network (net: host)")
        }
        Control::NetworkBlocked if !(is_confined && found.network_unreachable) => {
            none("a listener on the host's loopback could be connected to")
        }
        Control::NetworkBlocked if shows_host_files(plan) => {
            partial("all but named pipes of host programs that lie in the work dir or in what the rules show")
        }
        Control::NetworkBlocked => Level::Full,
        Control::FilesystemConfined
            if is_confined && found.outside_unreadable && found.outside_unwritable =>
        {
            Level::Full
        }
        Control::FilesystemConfined => none("a file outside the view could be opened or made"),
        Control::ProcessesIsolated if !found.others_unreachable => {
            none("a signal to the supervisor was not refused")
        }
        Control::ProcessesIsolated => partial(
            "others cannot be signalled or inspected, but whether a process exists can be told, and the arguments and \
             variables of those of the same user can be read by their number (sysctl kern.procargs2), which no profile \
             forbids",
        ),
        Control::ProcessesContained => partial(
            "RLIMIT_NPROC counts all processes of the user: it is set to those alive at the start and the limit more, and \
             what others start or end counts too; threads are not counted",
        ),
        Control::MemoryLimited => polled(
            "macOS has no limit that binds; the supervisor adds up the physical footprint of each process every 10 ms or \
             more, not shared memory that nobody has mapped, nor what the kernel holds for pipes and sockets",
        ),
        Control::DiskLimited => disk(plan, workdir_read_only),
        Control::CpuLimited => polled(
            "each process by RLIMIT_CPU; the supervisor adds up the tree every 10 ms or more, without what was used by \
             processes that launchd waited for; the wall clock bounds that",
        ),
        Control::SyscallsFiltered => none(
            "the profile judges operations; of the system calls only ptrace and setpriority are refused as such",
        ),
        Control::PrivilegesDropped if !is_confined => none("there is no profile in force"),
        Control::PrivilegesDropped => partial(
            "the user is an ordinary one, and the kernel refuses set-user-id programs to whoever has a profile, which is \
             not tried at each launch",
        ),
        Control::EnvironmentScrubbed => partial(
            "the command inherits no variable and no descriptor, but can read the variables that other processes of the \
             user were started with, its launcher among them (sysctl kern.procargs2); to prevent it, run the launcher as \
             another user than the one whose secrets are to be kept",
        ),
        Control::KilledAsATree if !is_marked => none("the kernel does not tell who is in the jail"),
        Control::KilledAsATree => polled(
            "the supervisor kills whatever has the jail's profile, which no process can leave, until a look at all \
             processes of the user finds nothing more; if there is no end to it the run has failed",
        ),
    }
}

fn shows_host_files(plan: &Plan) -> bool {
    let shown = plan.rules.iter().any(|(_, access)| matches!(access, Access::Ro | Access::Rw));
    shown || plan.workdir != WorkDir::Scratch
}

fn disk(plan: &Plan, workdir_read_only: bool) -> Level {
    let writes_host_files = plan.rules.iter().any(|(_, access)| *access == Access::Rw)
        || (plan.writes_to_bound_workdir() && !workdir_read_only);
    let private = "what the private directories hold is added up every 50 ms or more, without files that have no name any more";
    if writes_host_files {
        return Level::Partial(format!("{private}; what is written elsewhere is only bounded per file"));
    }
    Level::Polled(private.to_owned())
}

/// See [`promises::check`].
pub(super) fn check(capabilities: &Capabilities, plan: &Plan) -> Result<()> {
    promises::check(capabilities, &PROMISED, plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;
    use agentkit_protocol::{FailureKind, Policy, Rule};

    fn all_refused() -> Found {
        Found {
            outside_unreadable: true,
            outside_unwritable: true,
            network_unreachable: true,
            others_unreachable: true,
            rlimits: BTreeMap::new(),
        }
    }

    fn claimed(
        found: &Found,
        is_marked: bool,
        change: impl FnOnce(&mut Policy),
    ) -> (Capabilities, Result<()>) {
        let mut asked = Policy::new(["true"]);
        change(&mut asked);
        let plan = validate::plan(asked).unwrap();
        let capabilities =
            derive(&Evidence { found, is_confined: is_marked, is_marked, workdir_read_only: false }, &plan);
        let checked = check(&capabilities, &plan);
        (capabilities, checked)
    }

    #[test]
    fn network_and_files_are_full_and_nothing_is_that_was_not_tried() {
        let (capabilities, checked) = claimed(&all_refused(), true, |_| ());
        checked.unwrap();
        let full = Control::ALL.into_iter().filter(|control| capabilities.level(*control).is_full());
        assert!(full.eq([Control::NetworkBlocked, Control::FilesystemConfined]));
        assert_eq!(capabilities.controls.len(), Control::ALL.len());
    }

    #[test]
    fn what_was_not_refused_costs_its_control_and_the_launch() {
        let lost = |change: fn(&mut Found), is_marked| {
            let mut found = all_refused();
            change(&mut found);
            claimed(&found, is_marked, |_| ()).1.unwrap_err().message
        };
        assert!(lost(|found| found.network_unreachable = false, true).contains("network_blocked is none"));
        assert!(lost(|found| found.outside_unreadable = false, true).contains("filesystem_confined is none"));
        assert!(lost(|found| found.outside_unwritable = false, true).contains("filesystem_confined is none"));
        assert!(lost(|found| found.others_unreachable = false, true).contains("processes_isolated is none"));
        // Without a profile there is no mark either.
        let unconfined = lost(|_| (), false);
        for control in ["network_blocked", "filesystem_confined", "privileges_dropped", "killed_as_a_tree"] {
            assert!(unconfined.contains(control), "{unconfined}");
        }
    }

    #[test]
    fn a_shared_network_is_none_and_no_broken_promise() {
        let found = Found { network_unreachable: false, ..all_refused() };
        let (capabilities, checked) = claimed(&found, true, |policy| policy.net = Net::Host);
        checked.unwrap();
        assert!(matches!(capabilities.level(Control::NetworkBlocked), Level::None(_)));
        let strict = |policy: &mut Policy| {
            (policy.net, policy.require) = (Net::Host, [Control::NetworkBlocked].into());
        };
        assert_eq!(claimed(&found, true, strict).1.unwrap_err().kind, FailureKind::Required);
    }

    #[test]
    fn host_files_cost_what_cannot_be_bounded_there() {
        let level = |access, control| {
            let show = |policy: &mut Policy| policy.rules = vec![Rule { path: "/srv".into(), access }];
            claimed(&all_refused(), true, show).0.level(control)
        };
        assert!(matches!(level(Access::Ro, Control::NetworkBlocked), Level::Partial(_)));
        assert!(matches!(level(Access::Ro, Control::DiskLimited), Level::Polled(_)));
        assert!(matches!(level(Access::Rw, Control::DiskLimited), Level::Partial(_)));
        assert!(level(Access::Hide, Control::NetworkBlocked).is_full());
    }

    #[test]
    fn what_is_required_must_be_full() {
        for control in Control::ALL {
            let (capabilities, checked) =
                claimed(&all_refused(), true, |policy| policy.require = [control].into());
            assert_eq!(checked.is_ok(), capabilities.level(control).is_full(), "{control}");
        }
    }
}
