//! What this mechanism cannot do is refused by name, as something that this host lacks: another one may do it.

use super::STEP;
use crate::error::{Hint, Result, failure};
use crate::linux::task::Task;
use crate::linux::view::{Access, Kind, View};
use agentkit_protocol::{Failure, FailureKind, WorkDir};

const HINT: &str =
    "that takes the mechanism `namespaces`, and so a host where every program may make user namespaces";

/// Root's other uid cannot use what is its owner's unless it was opened before, and nothing of the user's ever changes
/// hands.
fn owners(view: &View) -> Result<()> {
    match view.entries.iter().find(|entry| entry.access.is_owned() && entry.stands_at().is_none()) {
        None => Ok(()),
        Some(entry) => Err(cannot(&format!("give {:?} to the user that root becomes", entry.path)))
            .hint(
                "start it as the owner of the directory, use a scratch work dir, or name this mechanism (--mechanism bubblewrap)",
            ),
    }
}

/// Refuses a task that asks for it.
pub(super) fn what_it_cannot(task: &Task, view: &View) -> Result<()> {
    let plan = task.plan;
    if task.identity.gives_up_root() {
        owners(view)?;
    }
    let refused = [
        (matches!(plan.workdir, WorkDir::Overlay { .. }), "keep the changes to a work dir apart (overlay)"),
        (task.terminal.is_some(), "give a terminal (tty)"),
        (!plan.watched_paths.is_empty(), "record attempts on paths (watch.paths)"),
        (!plan.watched_ports.is_empty(), "watch the ports of the loopback (watch.tcp_ports)"),
    ];
    if let Some((_, what)) = refused.into_iter().find(|(asks, _)| *asks) {
        return Err(cannot(what)).hint(HINT);
    }
    if task.guards.protect_something() {
        return Err(cannot("protect names that git executes in a repository that may be written"))
            .hint("`git` can be `off` in the policy (--git off), for a repository whose hooks and settings you look at before you use it");
    }
    entries(view)
}

/// What takes a second look at a mount that stands already, or a name that host programs can take away.
fn entries(view: &View) -> Result<()> {
    for entry in &view.entries {
        let path = &entry.path;
        match entry.access {
            Access::Sealed | Access::Pin => {
                return Err(cannot(&format!("protect {path:?} in something that can be written"))).hint(HINT);
            }
            _ if entry.kind == Kind::Link => {
                return Err(cannot(&format!("cover the link {path:?}"))).hint(HINT);
            }
            _ => {}
        }
    }
    if view.can_be_uncovered {
        return Err(cannot(
            "hide or protect something where host programs can put another file in its place",
        ))
        .hint(HINT);
    }
    Ok(())
}

fn cannot(what: &str) -> Failure {
    failure(FailureKind::Host, STEP, format_args!("the mechanism {STEP} cannot {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::view::{Entry, System};
    use std::path::Path;

    fn refused(access: Access, kind: Kind, can_be_uncovered: bool) -> bool {
        let entries = vec![Entry::new(Path::new("/a"), kind, access, (0, 0))];
        let view = View {
            system: System::default(),
            entries,
            spellings: Vec::new(),
            workdir: None,
            can_be_uncovered,
        };
        super::entries(&view).is_err()
    }

    #[test]
    fn what_covers_a_part_of_what_is_written_is_refused() {
        for access in [Access::ReadOnly, Access::Writable, Access::Hidden, Access::Private] {
            assert!(!refused(access, Kind::Directory, false), "{access:?}");
            assert!(
                refused(access, Kind::Directory, true) && refused(access, Kind::Link, false),
                "{access:?}"
            );
        }
        assert!(refused(Access::Sealed, Kind::File, false) && refused(Access::Pin, Kind::File, false));
    }
}
