//! What every mechanism without namespaces may claim.

use crate::linux::claims::{self, UNCOUNTED, polled_memory};
use crate::validate::Plan;
use agentkit_protocol::{Access, Attack, Domain, Level, ReadBack};

/// Of processes that the supervisor may not see.
const HIDDEN: &str = "the host's /proc shows processes only to whoever may trace them (hidepid), so one that forbids that is \
                      not counted";

pub(crate) fn memory(domain: &Domain, state: &ReadBack, plan: &Plan) -> Level {
    match state.memory_group {
        Some(limit) if limit <= plan.limits.memory.saturating_add(plan.limits.disk) => Level::Full,
        _ if domain.hidden => Level::None(HIDDEN.to_owned()),
        _ => while_watched(
            domain,
            polled_memory(
                false,
                "queues of sockets (54 MiB for each process at 256 open files), what the kernel keeps of each file where the \
                 private directories are in memory (about 1 KiB), ",
            ),
        ),
    }
}

/// What adding up tells of processor time.
pub(crate) fn cpu(domain: &Domain) -> Level {
    match domain.hidden {
        true => Level::Partial(format!("each process by RLIMIT_CPU; but {HIDDEN}")),
        false => while_watched(domain, claims::cpu()),
    }
}

/// What depends on the supervisor and init, where the command can signal them.
pub(crate) fn while_watched(domain: &Domain, level: Level) -> Level {
    match level {
        Level::Polled(how) | Level::Partial(how) if !domain.refused.contains(&Attack::Signal) => {
            Level::Partial(format!(
                "{how}; all this only until the command stops or kills the supervisor or init, which it can"
            ))
        }
        other => other,
    }
}

pub(crate) fn process_limit(domain: &Domain, state: &ReadBack, plan: &Plan) -> Level {
    let allowed = plan.limits.processes.saturating_add(domain.others);
    let is_set = state.rlimits.get("nproc").is_some_and(|&limit| limit <= allowed);
    if !(state.limits_bind && is_set) {
        return Level::None("RLIMIT_NPROC is not in force, or does not bind this user".to_owned());
    }
    if domain.exclusive_user && domain.refused.contains(&Attack::Signal) {
        return Level::Full;
    }
    if domain.exclusive_user {
        let why =
            "the supervisor and the copiers have places of their own, which the command gets by killing them";
        return Level::Partial(why.to_owned());
    }
    Level::Partial(
        "the kernel counts all processes of the launcher's user: as many as ended elsewhere since the start can be more \
         here, and those that began elsewhere are missing"
            .to_owned(),
    )
}

/// Of what lies in the private directories and in the work dir.
pub(crate) fn polled_disk(domain: &Domain, plan: &Plan) -> Level {
    if plan.rules.iter().any(|(_, access)| *access == Access::Rw) {
        let why = "all but what the rules make writable, which is only bounded per file";
        return Level::Partial(why.to_owned());
    }
    if domain.hidden {
        return Level::None(format!("files without a name are not counted: {HIDDEN}"));
    }
    let how = format!(
        "the supervisor looks every 10 ms at what the file systems of the private directories and of the work dir lost, and \
         counts what was added to files in each, as a whole those that changed before it had come to them; {UNCOUNTED}"
    );
    while_watched(domain, Level::Polled(how))
}
