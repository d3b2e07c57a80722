//! What only namespaces can do is refused by name.

use super::STEP;
use crate::error::{Context, Hint, Result, failure, policy};
use crate::linux::git::HOW_TO_DO_WITHOUT;
use crate::linux::task::Task;
use crate::linux::view::{Entry, View};
use agentkit_protocol::{Failure, FailureKind, Mechanism, WorkDir};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;

pub(crate) const HINT: &str =
    "that takes the mechanism `namespaces`, and so a host that allows user namespaces";

/// Refuses a task that asks for it.
pub(crate) fn what_takes_namespaces(task: &Task, mechanism: Mechanism) -> Result<()> {
    let cannot = |what: &str| Err(cannot(mechanism, what)).hint(HINT);
    if matches!(task.plan.workdir, WorkDir::Overlay { .. }) {
        return cannot("keep the changes to a work dir apart (overlay)");
    }
    if let WorkDir::ScratchAt(path) = &task.plan.workdir {
        return cannot(&format!("put an empty directory at {path:?} (tmpfs)"));
    }
    if !task.plan.watched_paths.is_empty() {
        return cannot("record attempts on paths (watch.paths)");
    }
    if !task.plan.watched_ports.is_empty() {
        return cannot("give a loopback whose ports are watched (watch.tcp_ports)");
    }
    if let Some(name) = task.guards.first() {
        let what =
            format!("protect names that git executes in a repository that may be written, as {name:?}");
        return Err(self::cannot(mechanism, &what)).hint(&format!("{HOW_TO_DO_WITHOUT}; {HINT}"));
    }
    Ok(())
}

/// Root's other uid cannot use what is its owner's, and nothing of the user's ever changes hands.
pub(super) fn unmapped_owners(task: &Task, view: &View, mechanism: Mechanism) -> Result<()> {
    if !task.identity.gives_up_root() {
        return Ok(());
    }
    let mut owned = view.entries.iter().filter(|it| it.access.is_owned() && it.stands_at().is_none());
    match owned.find(|entry| entry.access.is_writable() || !entry.can_be_read()) {
        None => Ok(()),
        Some(entry) => Err(cannot_be_given(
            entry,
            mechanism,
            "there is none, since it was not this mechanism that was named",
        )),
    }
}

/// Why the jail's user does not get a directory of another's.
pub(super) fn cannot_be_given(entry: &Entry, mechanism: Mechanism, why: &str) -> Failure {
    let message = format!(
        "{:?} can only be given to the user that root becomes by a mount that maps its owner: {why}",
        entry.path
    );
    let owner = match entry.path.metadata() {
        Ok(meta) if meta.uid() != 0 => format!(
            "start it as the owner of the directory, by su or `setpriv --reuid={} --regid={} --clear-groups agentkit-jail ...`",
            meta.uid(),
            meta.gid()
        ),
        _ => "give the directory to an ordinary user and start it as that one, by su or `setpriv --reuid=ID --regid=ID \
              --clear-groups agentkit-jail ...`"
            .to_owned(),
    };
    let hint = format!(
        "{owner}, or use a scratch work dir; --mechanism {mechanism} makes such a mount where root has CAP_SYS_ADMIN, the \
         host user namespaces, and the file system maps ids"
    );
    Failure { hint: Some(hint), ..failure(FailureKind::Host, &mechanism.to_string(), message) }
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
    Failure { step: mechanism.to_string(), ..failure }
}
