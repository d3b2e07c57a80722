//! From what was tried and read back to what may be claimed.

use crate::linux::claims::{self, FILTER_MODE, held, is_unprivileged};
use crate::linux::layers::claim;
use crate::linux::without_namespaces::{cpu, memory, polled_disk, process_limit, while_watched};
use crate::validate::Plan;
use agentkit_protocol::{Attack, Capabilities, Control, Domain, Level, Mechanism, Net, ReadBack};

/// See [`Wall::derive`](crate::linux::without_namespaces::Wall::derive).
pub(super) fn derive(state: &ReadBack, plan: &Plan, why_unfiltered: Option<&str>) -> Capabilities {
    let none = Domain::default();
    let found = state.domain.as_ref().unwrap_or(&none);
    let unprivileged = is_unprivileged(state);
    let filtered = state.seccomp_mode == FILTER_MODE && why_unfiltered.is_none();
    let why_unfiltered = why_unfiltered.unwrap_or("seccomp is not in filter mode");
    let controls = [
        (Control::NetworkBlocked, network(found, filtered && unprivileged, plan, why_unfiltered)),
        (Control::FilesystemConfined, not_confined("files: the command may do with each what its user may")),
        (Control::ProcessesIsolated, processes(found)),
        (Control::ProcessesContained, process_limit(found, state, plan)),
        (Control::MemoryLimited, memory_limit(found, state, plan)),
        (Control::DiskLimited, disk(found, plan)),
        (Control::CpuLimited, cpu(found)),
        (Control::SyscallsFiltered, held(filtered, why_unfiltered)),
        (Control::PrivilegesDropped, privileges(unprivileged, filtered)),
        (Control::EnvironmentScrubbed, environment(found)),
        (
            Control::KilledAsATree,
            while_watched(
                found,
                Level::Partial("the jail's init, or else the supervisor, ends what is left".to_owned()),
            ),
        ),
    ];
    Capabilities {
        mechanism: Some(Mechanism::Rlimits),
        controls: controls.into_iter().map(|(control, level)| (control, claim(level))).collect(),
        failure: None,
    }
}

fn not_confined(what: &str) -> Level {
    Level::None(format!(
        "rlimits confine no {what}; where the host has one, take the mechanism namespaces or landlock"
    ))
}

fn processes(found: &Domain) -> Level {
    if found.exclusive_user {
        let seen = "no process of the host is the command's user's, so that none can be signalled, traced or changed; but \
                    all are seen in /proc";
        return Level::Partial(seen.to_owned());
    }
    not_confined(
        "processes: those of the host are seen, and those of the same user can be signalled and changed",
    )
}

fn network(found: &Domain, holds: bool, plan: &Plan, why_unfiltered: &str) -> Level {
    if plan.net == Net::Host {
        return Level::None("the policy shares the host's network (net: host)".to_owned());
    }
    if !holds || !found.refused.contains(&Attack::Socket) {
        return Level::None(format!("a socket could still be had ({why_unfiltered})"));
    }
    Level::Partial(
        "no socket can be had; but /proc lists those of the host, and the network can be reached through programs of the \
         host whose files, named pipes or, as the same user, memory the command can write"
            .to_owned(),
    )
}

fn privileges(unprivileged: bool, filtered: bool) -> Level {
    match claims::privileges(unprivileged) {
        Level::Full if !filtered => Level::Partial(
            "no capability is left, but nothing keeps the command from making a user namespace, where the host lets it, \
             and having them all in there"
                .to_owned(),
        ),
        level => level,
    }
}

/// A cgroup that the launcher's user made can be changed by whoever is that user.
fn memory_limit(found: &Domain, state: &ReadBack, plan: &Plan) -> Level {
    match memory(found, state, plan) {
        Level::Full if !found.exclusive_user => Level::Partial(
            "a cgroup limits it that the command, as the same user, can change or leave".to_owned(),
        ),
        other => other,
    }
}

fn disk(found: &Domain, plan: &Plan) -> Level {
    match polled_disk(found, plan) {
        Level::Polled(how) | Level::Partial(how) => {
            Level::Partial(format!("{how}; what the command writes elsewhere is only bounded for each file"))
        }
        other => other,
    }
}

/// The environment and the descriptors of the command are made from nothing.
fn environment(found: &Domain) -> Level {
    Level::Partial(match found.exclusive_user {
        true => "all but the host's name, which uname(2) tells".to_owned(),
        false => "the command inherits nothing, but finds the environment of the user's other programs, the caller's among \
                  them, in /proc"
            .to_owned(),
    })
}
