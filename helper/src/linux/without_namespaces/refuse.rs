//! What only namespaces can do is refused by name.

use super::STEP;
use crate::error::{Context, Hint, Result, failure, policy};
use crate::linux::git::HOW_TO_DO_WITHOUT;
use crate::linux::task::Task;
use crate::linux::view::View;
use agentkit_protocol::{Failure, FailureKind, Mechanism, WorkDir};
use std::ffi::OsStr;

const HINT: &str = "that takes the mechanism `namespaces`, and so a host that allows user namespaces";

/// Refuses a task that asks for it.
pub(crate) fn what_takes_namespaces(task: &Task, mechanism: Mechanism) -> Result<()> {
    let cannot = |what: &str| Err(cannot(mechanism, what));
    if matches!(task.plan.workdir, WorkDir::Overlay { .. }) {
        return cannot("keep the changes to a work dir apart (overlay)");
    }
    if !task.plan.watched_paths.is_empty() {
        return cannot("record attempts on paths (watch.paths)");
    }
    if !task.plan.watched_ports.is_empty() {
        return cannot("give a loopback whose ports are watched (watch.tcp_ports)");
    }
    if task.guards.protect_something() {
        return cannot("protect names that git executes in a repository that may be written")
            .hint(HOW_TO_DO_WITHOUT);
    }
    Ok(())
}

/// Root's other uid cannot use what is its owner's, and nothing of the user's ever changes hands.
pub(super) fn unmapped_owners(task: &Task, view: &View, mechanism: Mechanism) -> Result<()> {
    let mut owned = view.entries.iter().filter(|entry| entry.access.is_owned());
    match owned.find(|entry| task.identity.gives_up_root() && entry.stands_at().is_none()) {
        None => Ok(()),
        Some(entry) => {
            let message = format_args!(
                "{:?} can only be given to the user that root becomes by a mount that maps its owner",
                entry.path
            );
            let hint = format!(
                "start it as the owner of the directory, use a scratch work dir, or name this mechanism (--mechanism \
                 {mechanism}): it then makes such a mount before root is given up, where CAP_SYS_ADMIN and user namespaces \
                 allow it"
            );
            Err(Failure { hint: Some(hint), ..failure(FailureKind::Host, &mechanism.to_string(), message) })
        }
    }
}

/// In a `/proc` of another pid namespace this process's descendants have other numbers, or are not to be found.
pub(super) fn another_proc() -> Result<()> {
    let own = std::fs::read_link("/proc/self").context(STEP, "read the link /proc/self")?;
    if own.as_os_str() == OsStr::new(&std::process::id().to_string()) {
        return Ok(());
    }
    let message = format_args!("/proc is of another pid namespace: this process is {own:?} in there");
    Err(failure(FailureKind::Host, STEP, message))
        .hint("mount a /proc of this one (unshare --mount-proc does), or take the mechanism namespaces, which makes its own")
}

/// A policy that this mechanism cannot keep.
pub(crate) fn cannot(mechanism: Mechanism, what: &str) -> Failure {
    let failure = policy(format_args!("the mechanism {mechanism} cannot {what}"));
    Failure { step: mechanism.to_string(), hint: Some(HINT.to_owned()), ..failure }
}
