//! What this mechanism cannot do is refused by name, as something that this host lacks: another one may do it.

use super::STEP;
use super::names::{OWN_PROGRAM, PRIVATE};
use crate::error::{Hint, Result, failure};
use crate::linux::git::HOW_TO_DO_WITHOUT;
use crate::linux::task::Task;
use crate::linux::view::{Access, Entry, View};
use agentkit_protocol::{Failure, FailureKind, WorkDir};
use std::path::Path;

const HINT: &str =
    "that takes the mechanism `namespaces`, and so a host where every program may make user namespaces";

/// Refuses a task that asks for it.
pub(super) fn what_it_cannot(task: &Task, view: &View) -> Result<()> {
    let plan = task.plan;
    let refused = [
        (matches!(plan.workdir, WorkDir::Overlay { .. }), "keep the changes to a work dir apart (overlay)"),
        (task.terminal.is_some(), "give a terminal (tty)"),
        (!plan.watched_paths.is_empty(), "record attempts on paths (watch.paths)"),
        (!plan.watched_ports.is_empty(), "watch the ports of the loopback (watch.tcp_ports)"),
    ];
    if let Some((_, what)) = refused.into_iter().find(|(asks, _)| *asks) {
        return Err(cannot(what)).hint(HINT);
    }
    if let Some(name) = task.guards.first() {
        let what =
            format!("protect names that git executes in a repository that may be written, as {name:?}");
        return Err(cannot(&what)).hint(HOW_TO_DO_WITHOUT);
    }
    if task.identity.gives_up_root() {
        owners(view)?;
    }
    entries(view)
}

/// Root's other uid cannot use what is its owner's unless it was opened before, and nothing of the user's ever changes
/// hands.
fn owners(view: &View) -> Result<()> {
    let mut owned = view.entries.iter().filter(|it| it.access.is_owned() && it.stands_at().is_none());
    match owned.find(|entry| entry.access.is_writable() || !entry.can_be_read()) {
        None => Ok(()),
        Some(entry) => Err(cannot(&format!("give {:?} to the user that root becomes", entry.path))).hint(
            "start it as the owner of the directory, use a scratch work dir, or name this mechanism (--mechanism bubblewrap)",
        ),
    }
}

/// Bubblewrap follows a place by its name. In the jail's own root nobody can put a link there, and in the system directories
/// only root can; but in what else is shown of the host somebody could, another jail for one, and so have something
/// shown that no policy names.
fn entries(view: &View) -> Result<()> {
    let mut around: Vec<&Entry> = Vec::new();
    for entry in &view.entries {
        while around.pop_if(|above| !entry.path.starts_with(&above.path)).is_some() {}
        let path = &entry.path;
        if [PRIVATE, OWN_PROGRAM].iter().any(|own| path.starts_with(own)) {
            return Err(cannot(&format!("show {path:?}, where its own files are"))).hint(HINT);
        }
        let above = around.last().map(|above| above.access);
        let is_shown = matches!(above, Some(Access::Sealed)) || above.is_some_and(Access::has_source);
        let is_sealed = entry.access == Access::Sealed && above != Some(Access::Writable);
        if is_shown && !is_sealed {
            let message = format!("treat {path:?} in another way than what is shown around it");
            return Err(cannot(&message)).hint(HINT);
        }
        if entry.access == Access::Private && path.ancestors().any(|above| view.system.shows(above)) {
            return Err(tmpfs(path));
        }
        around.push(entry);
    }
    Ok(())
}

/// What stands in the jail's own root is made once, and never covered: that would not be bounded with the rest.
pub(super) fn tmpfs(path: &Path) -> Failure {
    Failure { hint: Some(HINT.to_owned()), ..cannot(&format!("put an empty directory at {path:?} (tmpfs)")) }
}

fn cannot(what: &str) -> Failure {
    failure(FailureKind::Host, STEP, format_args!("the mechanism {STEP} cannot {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: &[(&str, Access)]) -> Option<String> {
        super::entries(&View::of(list)).err().map(|failure| failure.message)
    }

    #[test]
    fn what_stands_in_its_own_root_is_shown() {
        for list in [
            &[("/a", Access::ReadOnly), ("/ab", Access::Writable), ("/b", Access::Private)][..],
            &[("/a", Access::Hidden), ("/a/b", Access::ReadOnly), ("/a/b/c", Access::Sealed)],
            &[("/a", Access::Readable), ("/a/b", Access::Sealed), ("/a/b/c", Access::Sealed)],
            &[("/usr/share/a", Access::Hidden), ("/usr/share/b", Access::Writable)],
        ] {
            assert_eq!(refused(list), None, "{list:?}");
        }
    }

    #[test]
    fn what_stands_in_something_shown_is_refused_by_name() {
        for access in [Access::ReadOnly, Access::Writable, Access::Hidden, Access::Private, Access::Pin] {
            for around in [Access::Writable, Access::ReadOnly, Access::Readable, Access::Sealed] {
                let list = [("/a", around), ("/a/x", access)];
                assert!(refused(&list).is_some_and(|message| message.contains("/a/x")), "{list:?}");
            }
        }
        assert!(refused(&[("/a", Access::Writable), ("/a/x", Access::Sealed)]).is_some());
        assert!(refused(&[("/usr/share/a", Access::Private)]).is_some());
    }

    #[test]
    fn its_own_files_are_not_covered() {
        for path in ["/private", "/private/tmp", "/agentkit-jail"] {
            assert!(refused(&[(path, Access::Writable)]).is_some(), "{path}");
        }
    }
}
