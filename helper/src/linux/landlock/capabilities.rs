//! From what was tried and read back to what may be claimed.

use crate::linux::claims::{FILTER_MODE, held, is_unprivileged, privileges, shared_place};
use crate::linux::layers::claim;
use crate::linux::without_namespaces::{cpu, memory, polled_disk, process_limit};
use crate::validate::Plan;
use agentkit_protocol::{Attack, Capabilities, Control, Domain, Level, Mechanism, Net, ReadBack};

/// See [`Wall::promised`](crate::linux::without_namespaces::Wall::promised).
pub(super) const PROMISED: [Control; 5] = [
    Control::NetworkBlocked,
    Control::FilesystemConfined,
    Control::SyscallsFiltered,
    Control::PrivilegesDropped,
    Control::EnvironmentScrubbed,
];

/// Claims exactly what was refused, and what the kernel confirmed.
pub(super) fn derive(state: &ReadBack, plan: &Plan) -> Capabilities {
    let none = Domain::default();
    let domain = state.domain.as_ref().unwrap_or(&none);
    let filtered = state.seccomp_mode == FILTER_MODE;
    let unprivileged = is_unprivileged(state);
    let controls = [
        (Control::NetworkBlocked, network(domain, filtered && unprivileged, state, plan)),
        (Control::FilesystemConfined, filesystem(domain, filtered && unprivileged)),
        (Control::ProcessesIsolated, processes(domain)),
        (Control::ProcessesContained, process_limit(domain, state, plan)),
        (Control::MemoryLimited, memory(domain, state, plan)),
        (Control::DiskLimited, polled_disk(domain, plan)),
        (Control::CpuLimited, cpu(domain)),
        (Control::SyscallsFiltered, held(filtered, "seccomp is not in filter mode")),
        (Control::PrivilegesDropped, privileges(unprivileged)),
        (Control::EnvironmentScrubbed, environment()),
        (Control::KilledAsATree, tree(domain)),
    ];
    Capabilities {
        mechanism: Some(Mechanism::Landlock),
        controls: controls.into_iter().map(|(control, level)| (control, claim(level))).collect(),
        failure: None,
    }
}

fn network(domain: &Domain, holds: bool, state: &ReadBack, plan: &Plan) -> Level {
    if plan.net == Net::Host {
        return Level::None("the policy shares the host's network (net: host)".to_owned());
    }
    if !holds || !domain.refused.contains(&Attack::Socket) {
        return Level::None("a socket could still be had".to_owned());
    }
    match shared_place(state, plan) {
        Some(place) => Level::Partial(format!("all but named pipes of host programs that lie in {place}")),
        None => Level::Full,
    }
}

fn filesystem(domain: &Domain, holds: bool) -> Level {
    use Attack::{ChangeOwner, Empty, List, Read, Remove, Write};
    let all = [Read, Write, Empty, List, Remove, ChangeOwner];
    // Who has no files outside can change the owner of none.
    let counts = |attack: &Attack| !(domain.exclusive_user && *attack == ChangeOwner);
    if !holds || !all.iter().filter(|it| counts(it)).all(|attack| domain.refused.contains(attack)) {
        return Level::None("a file outside could still be used".to_owned());
    }
    let emptied = if domain.version < 3 {
        " A file that is shown to be read can be emptied if the launcher's user may write it: Landlock knows that since \
         Linux 6.2."
    } else {
        ""
    };
    Level::Partial(format!(
        "of what is not shown nothing can be opened or changed, but whoever knows or guesses a path learns what stat(2) \
         says of it (that it exists, size, owner, times), where a link leads, and its extended attributes{emptied}"
    ))
}

fn processes(domain: &Domain) -> Level {
    // Whose user nobody else is can signal nobody else.
    if !domain.refused.contains(&Attack::Signal) && !domain.exclusive_user {
        let why = "processes of the same user can be signalled: Landlock forbids that since Linux 6.12";
        return Level::None(why.to_owned());
    }
    Level::Partial(
        "processes of the host can be neither signalled nor traced, nor read in /proc; but whoever tries a number learns \
         whether there is such a process, its parent, users, groups, session, capabilities, priority, processors, and \
         processor time"
            .to_owned(),
    )
}

/// By construction: the environment and the descriptors of the command are made from nothing.
fn environment() -> Level {
    Level::Partial("all but the host's name, which uname(2) tells".to_owned())
}

fn tree(domain: &Domain) -> Level {
    if domain.refused.contains(&Attack::Signal) {
        return Level::Full;
    }
    let why = "before Linux 6.12 Landlock cannot keep the command from killing those who would end what it leaves behind";
    Level::Partial(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;
    use agentkit_protocol::Policy;

    fn confirmed() -> ReadBack {
        use Attack::*;
        let refused = [Read, Write, Empty, List, Remove, ChangeOwner, Signal, Socket].into();
        ReadBack {
            no_new_privs: true,
            seccomp_mode: 2,
            uid: 1000,
            outer_uid: 1000,
            limits_bind: true,
            rlimits: [("nproc".to_owned(), 70)].into(),
            domain: Some(Domain { version: 7, refused, exclusive_user: true, others: 6, hidden: false }),
            ..ReadBack::default()
        }
    }

    fn levels(change: impl FnOnce(&mut ReadBack, &mut Domain)) -> Capabilities {
        let plan = validate::plan(Policy::new(["true"])).unwrap();
        let mut state = confirmed();
        let mut domain = state.domain.take().unwrap();
        change(&mut state, &mut domain);
        derive(&ReadBack { domain: Some(domain), ..state }, &plan)
    }

    fn none(capabilities: &Capabilities) -> Vec<Control> {
        let levels = capabilities.controls.iter();
        levels.filter(|(_, level)| matches!(level, Level::None(_))).map(|(control, _)| *control).collect()
    }

    #[test]
    fn the_network_is_full_and_files_never_are() {
        let all = levels(|_, _| ());
        let full: Vec<_> = Control::ALL.into_iter().filter(|it| all.level(*it).is_full()).collect();
        use Control::*;
        let expected =
            [NetworkBlocked, ProcessesContained, SyscallsFiltered, PrivilegesDropped, KilledAsATree];
        assert_eq!((full, none(&all)), (expected.to_vec(), Vec::new()));
    }

    #[test]
    fn each_unconfirmed_fact_costs_its_controls() {
        use Control::*;
        let lost = |change: fn(&mut ReadBack, &mut Domain)| none(&levels(change));
        let unless = |attack| none(&levels(|_, domain| domain.refused.retain(|refused| *refused != attack)));
        assert_eq!(unless(Attack::Socket), [NetworkBlocked]);
        assert_eq!(unless(Attack::Read), [FilesystemConfined]);
        assert_eq!(unless(Attack::ChangeOwner), []);
        let shared = |_: &mut ReadBack, domain: &mut Domain| {
            domain.exclusive_user = false;
            domain.refused.remove(&Attack::ChangeOwner);
            domain.refused.remove(&Attack::Signal);
        };
        assert_eq!(lost(shared), [FilesystemConfined, ProcessesIsolated]);
        assert_eq!(unless(Attack::Signal), []);
        assert_eq!(lost(|_, domain| domain.hidden = true), [MemoryLimited, DiskLimited]);
        assert_eq!(lost(|_, domain| domain.others = 0), [ProcessesContained]);
        let privileged = [NetworkBlocked, FilesystemConfined, PrivilegesDropped];
        assert_eq!(lost(|state, _| state.no_new_privs = false), privileged);
        // Root to the kernel, who is bound by no limit.
        let root = [NetworkBlocked, FilesystemConfined, ProcessesContained, PrivilegesDropped];
        assert_eq!(lost(|state, _| state.limits_bind = false), root);
    }

    #[test]
    fn old_versions_say_what_they_lack() {
        let old = levels(|_, domain| {
            domain.refused.remove(&Attack::Signal);
            domain.version = 2;
        });
        let says = |control, what: &str| old.level(control).reason().is_some_and(|why| why.contains(what));
        for control in [Control::MemoryLimited, Control::DiskLimited, Control::CpuLimited] {
            let level = old.level(control);
            assert!(matches!(level, Level::Partial(_)) && says(control, "stops or kills"), "{level}");
        }
        assert!(!old.level(Control::ProcessesContained).is_full());
        assert!(says(Control::FilesystemConfined, "6.2") && says(Control::KilledAsATree, "6.12"), "{old:?}");
    }

    #[test]
    fn a_shared_user_shares_its_process_limit() {
        let shared = levels(|_, domain| domain.exclusive_user = false);
        assert!(matches!(shared.level(Control::ProcessesContained), Level::Partial(_)));
    }
}
