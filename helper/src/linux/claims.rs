//! What every mechanism of Linux may claim.

use agentkit_protocol::{Level, ReadBack};
#[cfg(any(with_namespaces, feature = "landlock"))]
use {
    crate::validate::Plan,
    agentkit_protocol::{Access, WorkDir},
    std::path::PathBuf,
};

/// `SECCOMP_MODE_FILTER`.
pub(crate) const FILTER_MODE: u8 = 2;

/// Whether the kernel confirms that the command has no privilege and can get none.
pub(crate) fn is_unprivileged(state: &ReadBack) -> bool {
    state.capabilities == 0 && state.no_new_privs && state.limits_bind
}

/// What the command has of privileges, by what the kernel confirms.
pub(crate) fn privileges(unprivileged: bool) -> Level {
    held(unprivileged, "capabilities, a way to new ones, or root's uid are left")
}

/// Full, or the reason why not.
pub(crate) fn held(holds: bool, reason: &str) -> Level {
    if holds { Level::Full } else { Level::None(reason.to_owned()) }
}

/// Where the command sees files of the host among which host programs can have sockets and pipes, if it sees any.
#[cfg(any(with_namespaces, feature = "landlock"))]
pub(crate) fn shared_place(state: &ReadBack, plan: &Plan) -> Option<&'static str> {
    let shows = |(_, access): &(PathBuf, Access)| matches!(access, Access::Ro | Access::Rw);
    match plan.workdir {
        _ if plan.rules.iter().any(shows) => Some("the work dir or in what the rules show"),
        WorkDir::Bind(_) => Some("the work dir itself"),
        _ if state.installations_as_on_host => Some("the installation of a program (see `PATH`)"),
        WorkDir::Scratch | WorkDir::ScratchAt(_) | WorkDir::Overlay { .. } => None,
    }
}

/// What no look at a work dir counts.
pub(crate) const UNCOUNTED: &str = "without what lies in other file systems that are mounted in it, and without files that \
    are left in mappings or messages alone, or to processes that each end before a look comes to them, and whatever the number \
    of files; what comes within the last look is only reported";

/// What adding up tells of processor time.
pub(crate) fn cpu() -> Level {
    let claim = "each process by RLIMIT_CPU; the supervisor adds up the tree every 10 ms, without what a process, and those it \
                 waited for, used after the last look at it if nobody waits for it; the wall clock bounds that";
    Level::Polled(claim.to_owned())
}

/// What adding up tells of memory: whether it sees what sockets queue, and what it does not see, with a comma and a space.
pub(crate) fn polled_memory(sees_sockets: bool, unseen: &str) -> Level {
    let queues = if sees_sockets { "what sockets queue, " } else { "" };
    let claim = format!(
        "the supervisor adds up every 10 ms what is resident, page tables, swapped pages, {queues}and shared \
         memory up to where it was seen mapped; not {unseen}shared memory that was unmapped but for a part between two \
         looks, what only processes hold that each end before a look comes to them and pass it on, pipes (64 MiB for each user), and the kernel's own small objects such as file locks and mappings; files in memory count \
         toward disk. Whoever keeps a process's mappings locked can delay a look, and with it signals, for seconds, and \
         the wall clock for half a second. If it is required, a cgroup is made for it where the launcher may"
    );
    Level::Polled(claim)
}
