//! What every mechanism without namespaces may claim.

use crate::linux::claims::polled_memory;
use crate::validate::Plan;
use agentkit_protocol::{Access, Domain, Level, ReadBack};

pub(crate) fn memory(state: &ReadBack, plan: &Plan) -> Level {
    match state.memory_group {
        Some(limit) if limit <= plan.limits.memory.saturating_add(plan.limits.disk) => Level::Full,
        _ => polled_memory("queues of sockets (54 MiB for each process at 256 open files), "),
    }
}

pub(crate) fn process_limit(domain: &Domain, state: &ReadBack, plan: &Plan) -> Level {
    let allowed = plan.limits.processes.saturating_add(domain.others);
    let is_set = state.rlimits.get("nproc").is_some_and(|&limit| limit <= allowed);
    if !(state.limits_bind && is_set) {
        return Level::None("RLIMIT_NPROC is not in force, or does not bind this user".to_owned());
    }
    if domain.exclusive_user {
        return Level::Full;
    }
    Level::Partial(
        "the kernel counts all processes of the launcher's user: as many as ended elsewhere since the start can be more \
         here, and those that began elsewhere are missing"
            .to_owned(),
    )
}

/// Of what lies in the private directories and in the work dir.
pub(crate) fn polled_disk(plan: &Plan) -> Level {
    if plan.rules.iter().any(|(_, access)| *access == Access::Rw) {
        let why = "all but what the rules make writable, which is only bounded per file";
        return Level::Partial(why.to_owned());
    }
    Level::Polled(
        "the supervisor looks every 10 ms at what the file systems of the private directories and of the work dir lost, and \
         counts what was added to files in each, as a whole those that changed before it had come to them; without files \
         that are left in mappings or messages alone, and what comes within the last look is only reported"
            .to_owned(),
    )
}
