//! What every mechanism may claim, and the check of what it claims.

use crate::error::{Result, failure};
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Control, FailureKind, Level, Net};

const STEP: &str = "capabilities";
/// `SECCOMP_MODE_FILTER`.
pub(crate) const FILTER_MODE: u8 = 2;

/// Full, or the reason why not.
pub(crate) fn held(holds: bool, reason: &str) -> Level {
    if holds { Level::Full } else { Level::None(reason.to_owned()) }
}

/// What adding up tells of processor time.
pub(crate) fn cpu() -> Level {
    let claim = "each process by RLIMIT_CPU; the supervisor adds up the tree every 10 ms, without what a process, and those it \
                 waited for, used after the last look at it if nobody waits for it; the wall clock bounds that";
    Level::Polled(claim.to_owned())
}

/// What adding up tells of memory. `unseen` names queues that it does not see, with a comma and a space.
pub(crate) fn polled_memory(unseen: &str) -> Level {
    let claim = format!(
        "the supervisor adds up every 10 ms what is resident, page tables, swapped pages, what sockets queue, and shared \
         memory up to where it was seen mapped; not {unseen}shared memory that was unmapped but for a part between two \
         looks, pipes (64 MiB for each user), and the kernel's own small objects such as file locks and mappings; files in memory count \
         toward disk. Whoever keeps a process's mappings locked can delay a look, and with it signals, for seconds, and \
         the wall clock for half a second. If it is required, a cgroup is made for it where the launcher may"
    );
    Level::Polled(claim)
}

/// Stops a launch that would deliver less than the mechanism promises whenever it works at all, or than the policy
/// requires.
pub(crate) fn check(capabilities: &Capabilities, promised: &[Control], plan: &Plan) -> Result<()> {
    let mut broken = capabilities.missing(promised.iter().copied());
    // A stated exception is no broken promise.
    broken.retain(|(_, level)| matches!(level, Level::None(_)));
    broken.retain(|(control, _)| *control != Control::NetworkBlocked || plan.net != Net::Host);
    if !broken.is_empty() && !cfg!(feature = "mutants") {
        return Err(failure(
            FailureKind::Host,
            STEP,
            format_args!("set-up succeeded, but {}", list("is", &broken)),
        ));
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
