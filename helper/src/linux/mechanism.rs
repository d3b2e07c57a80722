//! Which mechanism confines: the launch is its own trial, and what one fails at leads to the next.

#[cfg(feature = "bubblewrap")]
use super::bubblewrap;
use super::descriptors;
use super::identity::Identity;
use super::jail::Jail;
#[cfg(feature = "landlock")]
use super::landlock;
#[cfg(feature = "namespaces")]
use super::namespaces;
use super::program::Program;
#[cfg(feature = "rlimits")]
use super::rlimits;
use super::supervise::{self, Failed};
use super::task::{self, Command, Entrance, Task};
use super::view::{Found, View};
#[cfg(feature = "rlimits")]
use super::without_namespaces;
use super::workdir::WorkPath;
use crate::Outcome;
use crate::error::{Result, failure, of_each};
use crate::validate::Plan;
use agentkit_protocol::{Choice, Failure, FailureKind, Mechanism, PassedOver, Started};
use nix::libc;
use std::os::fd::OwnedFd;

const STEP: &str = "mechanism";

/// Those that this build has, best first.
pub(super) const BUILT: &[Mechanism] = &[
    #[cfg(feature = "namespaces")]
    Mechanism::Namespaces,
    #[cfg(feature = "bubblewrap")]
    Mechanism::Bubblewrap,
    #[cfg(feature = "landlock")]
    Mechanism::Landlock,
    #[cfg(feature = "rlimits")]
    Mechanism::Rlimits,
];

/// Sets up the best jail that this host gives, and watches over it until nothing of it is left. A probe shows what its program
/// would need, and has no command.
pub(crate) fn run(
    plan: &Plan,
    workdir: &WorkPath,
    rules: Vec<Found>,
    program: Option<&Program>,
    command: Option<Command>,
    lifeline: Option<&OwnedFd>,
    mut on_start: impl FnMut(Started),
) -> Result<Outcome> {
    let mut choice = Candidates::of(plan.mechanism)?;
    descriptors::make_room(descriptors::of(choice.first)).map_err(with_hint)?;
    let prepared = task::prepare(plan, workdir, rules, program, command, |view, identity, guarded| {
        while let Err(failure) = open_as_root(choice.first, view, identity, guarded) {
            choice.pass_over(failure)?;
        }
        Ok(())
    });
    let (task, mut entrance) = prepared.map_err(with_hint)?;
    loop {
        let entered = enter(choice.first, &task, &mut entrance, lifeline);
        let run = entered.map_err(Failed::BeforeStart).and_then(|jail| {
            let on_start = |started| on_start(Started { passed_over: choice.passed_over.clone(), ..started });
            supervise::run(&jail, &task, &mut entrance, lifeline, on_start)
        });
        match run {
            Ok(ended) => return Ok(Outcome::Ended(Box::new(ended))),
            Err(Failed::Stopped(signal, failure)) => return Ok(Outcome::Stopped(signal, failure)),
            Err(Failed::BeforeStart(failure)) => choice.pass_over(failure)?,
            Err(Failed::Finally(failure)) => return Err(with_hint(failure)),
        }
    }
}

fn open_as_root(mechanism: Mechanism, view: &mut View, identity: &Identity, guarded: bool) -> Result<()> {
    descriptors::make_room(descriptors::of(mechanism).saturating_add(view.descriptors(guarded)))?;
    match mechanism {
        #[cfg(feature = "namespaces")]
        Mechanism::Namespaces => view.open_as_root(identity, guarded),
        #[cfg(feature = "bubblewrap")]
        Mechanism::Bubblewrap => bubblewrap::open_as_root(view, identity, guarded),
        #[cfg(feature = "landlock")]
        Mechanism::Landlock => landlock::open_as_root(view, identity, guarded),
        #[cfg(feature = "rlimits")]
        Mechanism::Rlimits => without_namespaces::open_as_root(view, identity, guarded, mechanism),
        _ => Err(not_built(mechanism)),
    }
}

fn enter(
    mechanism: Mechanism,
    task: &Task,
    entrance: &mut Entrance,
    #[cfg_attr(not(feature = "bubblewrap"), expect(unused, reason = "the others are set up in no time"))]
    lifeline: Option<&OwnedFd>,
) -> Result<Jail> {
    descriptors::make_room(descriptors::of(mechanism))?;
    match mechanism {
        #[cfg(feature = "namespaces")]
        Mechanism::Namespaces => namespaces::enter(task, entrance),
        #[cfg(feature = "bubblewrap")]
        Mechanism::Bubblewrap => bubblewrap::enter(task, entrance, lifeline),
        #[cfg(feature = "landlock")]
        Mechanism::Landlock => landlock::enter(task, entrance),
        #[cfg(feature = "rlimits")]
        Mechanism::Rlimits => rlimits::enter(task, entrance),
        _ => Err(not_built(mechanism)),
    }
}

fn not_built(mechanism: Mechanism) -> Failure {
    failure(FailureKind::Host, STEP, format_args!("this build has no {mechanism}"))
}

/// What is left to be tried.
struct Candidates {
    /// What is to be tried next.
    first: Mechanism,
    others: std::vec::IntoIter<Mechanism>,
    passed_over: Vec<PassedOver>,
}

impl Candidates {
    fn of(choice: Choice) -> Result<Self> {
        let allowed: Vec<_> = BUILT.iter().copied().filter(|it| choice.allows(*it)).collect();
        let mut others = allowed.into_iter();
        let first = others.next().ok_or_else(|| {
            let built: Vec<_> = BUILT.iter().map(Mechanism::to_string).collect();
            let message =
                format_args!("this build has {}, and nothing else for {}", built.join(", "), choice.name());
            failure(FailureKind::Host, STEP, message)
        })?;
        Ok(Candidates { first, others, passed_over: Vec::new() })
    }

    /// Goes on to the next one, if it was this host that failed and there is one. Otherwise that is the failure of all.
    fn pass_over(&mut self, failure: Failure) -> Result<()> {
        let passed_over = &mut self.passed_over;
        let failure = with_hint(failure);
        let is_hosts = leads_on(&failure);
        if passed_over.is_empty() && !is_hosts {
            return Err(failure);
        }
        passed_over.push(PassedOver { mechanism: self.first, failure });
        if let Some(next) = self.others.next().filter(|_| is_hosts) {
            self.first = next;
            return Ok(());
        }
        let all = std::mem::take(passed_over);
        Err(of_all(all.into_iter().map(|it| (it.mechanism, it.failure)).collect()))
    }
}

/// Whether the next mechanism is to be tried. Not if something was used up that is there at other times: by the launcher's own
/// limits, or by others, who must not be able to bring about a lesser jail.
pub(super) fn leads_on(failure: &Failure) -> bool {
    failure.kind == FailureKind::Host && in_a_shortage(failure).is_none()
}

/// What was used up says more than what the call is otherwise refused for.
pub(super) fn with_hint(failure: Failure) -> Failure {
    let hint = in_a_shortage(&failure).map(str::to_owned);
    Failure { hint: hint.or(failure.hint), ..failure }
}

/// What a person can do, if something was used up. (A user has no namespaces left mostly because there are none to have, of users or of networks.)
fn in_a_shortage(failure: &Failure) -> Option<&'static str> {
    Some(match failure.errno? {
        libc::EMFILE => "raise the launcher's limit of open files (ulimit -n)",
        libc::EFBIG => "raise the launcher's limit of the size of files (ulimit -f)",
        libc::EAGAIN => "raise the limit of processes of the launcher's user (ulimit -u), or end some",
        libc::ENOMEM => "free memory, or raise the launcher's limit of address space (ulimit -v)",
        libc::ENFILE => "the host has too many open files: see sysctl fs.file-max",
        libc::EDQUOT => "a quota of the launcher's user is used up",
        libc::ENOSPC if !["namespaces", "network"].contains(&&*failure.step) => {
            "no room is left: on a disk, or of what the kernel keeps for this user"
        }
        libc::EBUSY | libc::EINTR | libc::EIO | libc::ENOBUFS | libc::ETIMEDOUT | libc::ETOOMANYREFS => {
            "try again"
        }
        _ => return None,
    })
}

/// One failure that tells of each. Whose move it is says the last one, unless it could not do what the policy asks for: the
/// host is to blame that nothing better was left.
pub(super) fn of_all(mut all: Vec<(Mechanism, Failure)>) -> Failure {
    let Some((_, last)) = all.last() else { return failure(FailureKind::Host, STEP, "none was tried") };
    if all.len() == 1 || matches!(last.kind, FailureKind::NotFound | FailureKind::NotExecutable) {
        return all.swap_remove(all.len().saturating_sub(1)).1;
    }
    let kind = if last.kind == FailureKind::Policy { FailureKind::Host } else { last.kind };
    let each = of_each(all.iter().map(|(mechanism, failure)| (*mechanism, failure)));
    // The best one's: if that worked, nothing else would be needed.
    let errno = all.first().and_then(|(_, best)| best.errno);
    Failure { errno, ..failure(kind, STEP, format_args!("no mechanism works here: {each}")) }
}

#[cfg(all(test, feature = "namespaces", feature = "landlock"))]
mod tests {
    use super::*;

    fn of(kind: FailureKind, message: &str) -> Failure {
        Failure { errno: Some(7), hint: Some("do this".into()), ..failure(kind, "step", message) }
    }

    #[test]
    fn only_what_the_host_fails_at_leads_on() {
        for kind in [FailureKind::Policy, FailureKind::Required, FailureKind::NotFound] {
            let mut choice = Candidates::of(Choice::Auto).unwrap();
            assert_eq!(choice.pass_over(of(kind, "no")), Err(of(kind, "no")));
        }
        let mut choice = Candidates::of(Choice::Auto).unwrap();
        let best = choice.first;
        choice.pass_over(of(FailureKind::Host, "refused")).unwrap();
        assert!(choice.first != best && choice.passed_over[0].mechanism == best);
    }

    #[test]
    fn nobody_gets_a_lesser_jail_by_using_something_up() {
        let falls = |errno, step: &str| {
            let failure = Failure { errno: Some(errno), ..failure(FailureKind::Host, step, "no") };
            Candidates::of(Choice::Auto).unwrap().pass_over(failure).is_ok()
        };
        for errno in [libc::EMFILE, libc::ENOMEM, libc::EAGAIN, libc::EFBIG, libc::ENOSPC] {
            assert!(!falls(errno, "mounts"), "{errno}");
        }
        let short = with_hint(Failure { errno: Some(libc::EMFILE), ..of(FailureKind::Host, "no") });
        assert!(short.hint.is_some_and(|hint| hint.contains("ulimit -n")));
        assert!(
            falls(libc::ENOSPC, "namespaces") && falls(libc::EPERM, "mounts") && falls(libc::ENOSYS, "x")
        );
    }

    #[test]
    fn a_choice_leaves_no_other() {
        for (choice, mechanism) in
            [(Choice::Namespaces, Mechanism::Namespaces), (Choice::Landlock, Mechanism::Landlock)]
        {
            let mut choice = Candidates::of(choice).unwrap();
            assert_eq!(choice.first, mechanism);
            let failure = of(FailureKind::Host, "refused");
            assert_eq!(choice.pass_over(failure.clone()), Err(failure));
        }
    }

    #[test]
    fn the_failure_of_all_tells_of_each() {
        let after = |kind| {
            let mut choice = Candidates::of(Choice::Auto).unwrap();
            while choice.others.len() > 0 {
                choice.pass_over(of(FailureKind::Host, "first")).unwrap();
            }
            choice.pass_over(of(kind, "second")).unwrap_err()
        };
        let failure = after(FailureKind::Host);
        assert_eq!((failure.kind, failure.errno), (FailureKind::Host, Some(7)));
        for part in ["here: namespaces", ": step: first (do this); ", "landlock: step: second (do this)"] {
            assert!(failure.message.contains(part), "{failure}");
        }
        assert_eq!(after(FailureKind::Required).kind, FailureKind::Required);
        assert_eq!(after(FailureKind::Policy).kind, FailureKind::Host);
        assert_eq!(after(FailureKind::NotFound), of(FailureKind::NotFound, "second"));
    }
}
