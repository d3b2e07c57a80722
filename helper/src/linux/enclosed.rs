//! From what was read back to what may be claimed of a jail that has namespaces of its own, whoever made them.

use crate::error::Result;
use crate::linux::claims::{
    FILTER_MODE, UNCOUNTED, cpu, held, is_unprivileged, polled_memory, privileges, shared_place,
};
use crate::linux::layers::claim;
use crate::promises;
use crate::validate::Plan;
use agentkit_protocol::{Access, Capabilities, Control, Level, Mechanism, Net, ReadBack, WorkDir};
use serde::{Deserialize, Serialize};

/// What this mechanism must deliver whenever it works at all.
const PROMISED: [Control; 8] = [
    Control::NetworkBlocked,
    Control::FilesystemConfined,
    Control::ProcessesIsolated,
    Control::ProcessesContained,
    Control::SyscallsFiltered,
    Control::PrivilegesDropped,
    Control::EnvironmentScrubbed,
    Control::KilledAsATree,
];

/// What keeps a view from holding whatever happens on the host meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Gap {
    /// See [`View::can_be_uncovered`](crate::linux::view::View::can_be_uncovered).
    Uncoverable,
    /// What the host mounts on or below something that is shown arrives inside, as writable as there.
    MountsArrive,
    /// The host's devices are mounted as they are there.
    DevicesWritable,
}

/// Claims exactly what the kernel confirmed.
pub(crate) fn derive(mechanism: Mechanism, state: &ReadBack, plan: &Plan, gap: Option<Gap>) -> Capabilities {
    let own = |name: &str| state.own_namespaces.iter().any(|own| own == name);
    let filtered = state.seccomp_mode == FILTER_MODE;
    let unprivileged = is_unprivileged(state);
    let confined = own("user") && own("mnt") && unprivileged;
    let process_limit = state.rlimits.get("nproc").is_some_and(|&limit| limit <= plan.limits.processes);
    let controls = [
        (Control::NetworkBlocked, network(own("net") && filtered && confined, state, plan)),
        (Control::FilesystemConfined, filesystem(confined, gap)),
        (Control::ProcessesIsolated, held(own("pid") && own("ipc"), "no pid or ipc namespace of its own")),
        (
            Control::ProcessesContained,
            held(
                process_limit && own("user") && unprivileged,
                "RLIMIT_NPROC is not in force, or does not bind this user",
            ),
        ),
        (Control::MemoryLimited, memory(mechanism, state, plan)),
        (Control::DiskLimited, disk(mechanism, state, plan)),
        (Control::CpuLimited, cpu()),
        (Control::SyscallsFiltered, held(filtered, "seccomp is not in filter mode")),
        (Control::PrivilegesDropped, privileges(unprivileged)),
        // By construction: the environment and the descriptors of the command are made from nothing.
        (Control::EnvironmentScrubbed, Level::Full),
        (Control::KilledAsATree, held(own("pid"), "no pid namespace of its own")),
    ];
    Capabilities {
        mechanism: Some(mechanism),
        controls: controls.into_iter().map(|(control, level)| (control, claim(level))).collect(),
        failure: None,
    }
}

fn filesystem(holds: bool, gap: Option<Gap>) -> Level {
    match (holds, gap) {
        (false, _) => {
            Level::None("no mount namespace of its own, or privileges left to change it".to_owned())
        }
        // A mount goes with the name that it is on, in every mount namespace but that of whoever takes the name away.
        (true, Some(Gap::Uncoverable)) => Level::Partial(
            "all but what a rule hides or protects in a host directory that the jail sees, once a program of the host \
             puts another file in its place, as editors and git do"
                .to_owned(),
        ),
        (true, Some(Gap::MountsArrive)) => Level::Partial(
            "all but what the host mounts, while this runs, on or below what the policy shows of it: it is shown as well, and \
             can be written as on the host; and the times of the host's /dev/null, zero, full and urandom can be set"
                .to_owned(),
        ),
        (true, Some(Gap::DevicesWritable)) => Level::Partial(
            "all but the times of the host's /dev/null, zero, full and urandom, which can be set to the present".to_owned(),
        ),
        (true, None) => Level::Full,
    }
}

fn network(holds: bool, state: &ReadBack, plan: &Plan) -> Level {
    if plan.net == Net::Host {
        return Level::None("the policy shares the host's network (net: host)".to_owned());
    }
    if !holds {
        let reason = "no network namespace of its own, or no filter on socket families";
        return Level::None(reason.to_owned());
    }
    // A file system knows no network namespaces, and a socket can be connected to where nothing can be written.
    match shared_place(state, plan) {
        Some(place) => {
            Level::Partial(format!("all but sockets and pipes of host programs that lie in {place}"))
        }
        None => Level::Full,
    }
}

fn memory(mechanism: Mechanism, state: &ReadBack, plan: &Plan) -> Level {
    let most = plan.limits.memory.saturating_add(plan.limits.disk);
    if state.memory_group.is_some_and(|limit| limit <= most) {
        return Level::Full;
    }
    match mechanism {
        // Its file systems have a size, but as many files as the kernel likes.
        Mechanism::Bubblewrap => {
            polled_memory(false, "queues of sockets, what the kernel keeps of each file (about 1 KiB), ")
        }
        _ if state.sockets_tell => polled_memory(true, ""),
        _ => polled_memory(false, "queues of sockets, "),
    }
}

fn disk(mechanism: Mechanism, state: &ReadBack, plan: &Plan) -> Level {
    match plan.workdir {
        _ if plan.rules.iter().any(|(_, access)| *access == Access::Rw) => {
            Level::Partial("all but what the rules make writable, which is only bounded per file".to_owned())
        }
        WorkDir::Scratch | WorkDir::ScratchAt(_) if mechanism == Mechanism::Bubblewrap => Level::Partial(
            "the private directories are bounded together by the kernel, but for how many files are in them, each of which \
             takes about 1 KiB of the host's memory"
                .to_owned(),
        ),
        WorkDir::Scratch | WorkDir::ScratchAt(_) | WorkDir::Overlay { .. } => Level::Full,
        WorkDir::Bind(_) if mechanism != Mechanism::Bubblewrap && plan.workdir_read_only && state.workdir_read_only => Level::Full,
        WorkDir::Bind(_) => Level::Polled(format!(
            "the private directories are bounded together by the kernel; in the work dir the supervisor looks every 10 ms at \
             what its file system lost and counts what was added to files, as a whole those that changed before it had come \
             to them; {UNCOUNTED}"
        )),
    }
}

/// See [`promises::check`].
pub(crate) fn check(capabilities: &Capabilities, plan: &Plan) -> Result<()> {
    promises::check(capabilities, &PROMISED, plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;
    use agentkit_protocol::{FailureKind, Policy};

    fn confirmed() -> ReadBack {
        ReadBack {
            no_new_privs: true,
            seccomp_mode: 2,
            own_namespaces: ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"].map(str::to_owned).to_vec(),
            uid: 1000,
            outer_uid: 1000,
            limits_bind: true,
            rlimits: [("nproc".to_owned(), 64)].into(),
            ..ReadBack::default()
        }
    }

    fn lost(change: impl FnOnce(&mut ReadBack)) -> Vec<Control> {
        let plan = validate::plan(Policy::new(["true"])).unwrap();
        let mut state = confirmed();
        change(&mut state);
        let capabilities = derive(Mechanism::Namespaces, &state, &plan, None);
        assert_eq!(check(&capabilities, &plan).is_err(), !capabilities.missing(PROMISED).is_empty());
        capabilities.missing(PROMISED).into_iter().map(|(control, _)| control).collect()
    }

    #[test]
    fn all_is_claimed_when_all_is_confirmed() {
        assert_eq!(lost(|_| ()), []);
    }

    #[test]
    fn of_bubblewraps_file_systems_nobody_bounds_the_number_of_files() {
        let plan = validate::plan(Policy::new(["true"])).unwrap();
        let of = |mechanism| {
            derive(mechanism, &confirmed(), &plan, None).controls[&Control::DiskLimited].is_full()
        };
        assert!(of(Mechanism::Namespaces) && !of(Mechanism::Bubblewrap));
    }

    #[test]
    fn what_rules_show_of_the_host_can_hold_its_sockets() {
        let level = |access| {
            let mut asked = Policy::new(["true"]);
            asked.rules = vec![agentkit_protocol::Rule { path: "/srv".into(), access }];
            let found = derive(Mechanism::Namespaces, &confirmed(), &validate::plan(asked).unwrap(), None);
            [NetworkBlocked, DiskLimited].map(|control| found.controls[&control] == Level::Full)
        };
        use Control::*;
        assert_eq!([level(Access::Ro), level(Access::Rw)], [[false, true], [false, false]]);
        assert_eq!([level(Access::Hide), level(Access::Tmpfs)], [[true, true], [true, true]]);
    }

    #[test]
    fn a_work_dir_that_cannot_be_written_needs_no_limit() {
        let level = |access, workdir_read_only| {
            let mut asked = Policy::new(["true"]);
            asked.workdir = WorkDir::Bind("/srv".into());
            asked.rules = vec![agentkit_protocol::Rule { path: "/srv".into(), access }];
            let state = ReadBack { workdir_read_only, ..confirmed() };
            derive(Mechanism::Namespaces, &state, &validate::plan(asked).unwrap(), None).controls
                [&Control::DiskLimited]
                .clone()
        };
        assert_eq!(level(Access::Ro, true), Level::Full);
        // Of a file system that is read-only, a part that is mounted in it can be writable.
        assert!(level(Access::Ro, false) != Level::Full && level(Access::Rw, true) != Level::Full);
    }

    #[test]
    fn each_unconfirmed_fact_costs_its_controls() {
        use Control::*;
        assert_eq!(lost(|s| s.own_namespaces.retain(|n| n != "net")), [NetworkBlocked]);
        assert_eq!(lost(|s| s.own_namespaces.retain(|n| n != "pid")), [ProcessesIsolated, KilledAsATree]);
        assert_eq!(lost(|s| s.seccomp_mode = 0), [NetworkBlocked, SyscallsFiltered]);
        let privileged = [NetworkBlocked, FilesystemConfined, ProcessesContained, PrivilegesDropped];
        assert_eq!(lost(|s| s.capabilities = 1 << 21), privileged);
        assert_eq!(lost(|s| s.no_new_privs = false), privileged);
        assert_eq!(lost(|s| s.limits_bind = false), privileged);
        let unlimited = ("nproc".to_owned(), u64::MAX);
        assert_eq!(lost(|s| s.rlimits.extend([unlimited])), [ProcessesContained]);
    }

    #[test]
    fn a_requirement_that_is_only_polled_is_refused_by_name() {
        let mut asked = Policy::new(["true"]);
        asked.require.insert(Control::MemoryLimited);
        let plan = validate::plan(asked).unwrap();
        let failure = check(&derive(Mechanism::Namespaces, &confirmed(), &plan, None), &plan).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Required);
        assert!(failure.message.contains("memory_limited is required, but here it is polled"), "{failure}");
    }
}
