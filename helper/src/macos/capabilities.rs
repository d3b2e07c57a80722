//! From what was tried out to what may be claimed.

use super::child::Found;
use crate::error::{Result, failure};
use crate::validate::Plan;
use agentkit_protocol::{Access, Capabilities, Control, FailureKind, Level, Mechanism, Net, WorkDir};

const STEP: &str = "capabilities";

/// Everything that the claims rest on.
pub(super) struct Evidence<'a> {
    pub(super) found: &'a Found,
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
    let Evidence { found, is_marked, workdir_read_only } = *evidence;
    let partial = |why: &str| Level::Partial(why.to_owned());
    let polled = |why: &str| Level::Polled(why.to_owned());
    let none = |why: &str| Level::None(why.to_owned());
    match control {
        Control::NetworkBlocked if plan.net == Net::Host => {
            none("the policy shares the host's network (net: host)")
        }
        Control::NetworkBlocked if !(found.confined && found.network_unreachable) => {
            none("a listener on the host's loopback could be connected to")
        }
        Control::NetworkBlocked if shows_host_files(plan) => {
            partial("all but named pipes of host programs that lie in the work dir or in what the rules show")
        }
        Control::NetworkBlocked => Level::Full,
        Control::FilesystemConfined
            if found.confined && found.outside_unreadable && found.outside_unwritable =>
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
        Control::SyscallsFiltered => none("macOS lets no program filter the system calls of another"),
        Control::PrivilegesDropped if !found.confined => none("there is no profile in force"),
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

/// Stops a launch that would deliver less than the mechanism promises or the policy requires.
pub(super) fn check(capabilities: &Capabilities, plan: &Plan) -> Result<()> {
    let promised = [
        Control::NetworkBlocked,
        Control::FilesystemConfined,
        Control::ProcessesIsolated,
        Control::PrivilegesDropped,
        Control::KilledAsATree,
    ];
    let mut broken = capabilities.missing(promised);
    broken.retain(|(control, level)| {
        let as_asked = *control == Control::NetworkBlocked && plan.net == Net::Host;
        matches!(level, Level::None(_)) && !as_asked
    });
    if !broken.is_empty() {
        let message = format!("the profile is in force, but {}", list("is", &broken));
        return Err(failure(FailureKind::Host, STEP, message));
    }
    let missing = capabilities.missing(plan.require.iter().copied());
    if !missing.is_empty() {
        return Err(failure(FailureKind::Required, STEP, list("is required, but here it is", &missing)));
    }
    Ok(())
}

fn list(is: &str, controls: &[(Control, Level)]) -> String {
    let each: Vec<String> =
        controls.iter().map(|(control, level)| format!("{control} {is} {level}")).collect();
    each.join("; ")
}
