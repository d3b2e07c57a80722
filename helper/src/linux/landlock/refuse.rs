//! What only mounts can do is refused by name: rules of Landlock allow, they cannot take away from what lies around them.

use crate::error::Result;
use crate::linux::message::Outside;
use crate::linux::task::Task;
use crate::linux::view::{Access, Entry, View};
use crate::linux::without_namespaces::{self, HINT, what_takes_namespaces};
use agentkit_protocol::{Failure, Mechanism};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Refuses a task that asks for it.
pub(super) fn what_takes_mounts(task: &Task, view: &View, outside: &Outside) -> Result<()> {
    what_takes_namespaces(task, Mechanism::Landlock)?;
    rules(view)?;
    processes_of_the_host(view, outside)
}

/// By the entry around each. Parents come first.
fn rules(view: &View) -> Result<()> {
    let mut around: Vec<&Entry> = Vec::new();
    for entry in view.entries.iter().filter(|entry| entry.access != Access::Pin) {
        while around.pop_if(|above| !entry.path.starts_with(&above.path)).is_some() {}
        let in_system = || entry.path.ancestors().any(|above| view.system.shows(above));
        let above = around.last().map(|above| above.access);
        let is_shown = above.map_or_else(in_system, |above| above != Access::Hidden);
        let path = &entry.path;
        match entry.access {
            Access::Private => return Err(cannot(&format!("put an empty directory at {path:?} (tmpfs)"))),
            Access::Hidden if is_shown => {
                return Err(cannot(&format!("hide {path:?} in something that is shown")));
            }
            Access::Hidden if view.system.binds.iter().any(|(shown, _)| shown.starts_with(path)) => {
                return Err(cannot(&format!("hide {path:?}, with what every jail sees in it")));
            }
            Access::ReadOnly | Access::Readable | Access::Sealed if above == Some(Access::Writable) => {
                return Err(cannot(&format!("protect {path:?} in something that can be written")));
            }
            _ => {}
        }
        around.push(entry);
    }
    Ok(())
}

/// They cannot be taken out of what holds them.
fn processes_of_the_host(view: &View, outside: &Outside) -> Result<()> {
    let granted = |above: &Path| view.entries.iter().any(|it| it.path == above && it.access.has_source());
    let places = outside.processes.iter().map(|place| Path::new(OsStr::from_bytes(&place.0)));
    let mut shown =
        places.filter(|place| place.ancestors().any(|above| view.system.shows(above) || granted(above)));
    match shown.next() {
        Some(place) => Err(cannot(&format!("hide the host's processes, which show at {place:?}"))),
        None => Ok(()),
    }
}

fn cannot(what: &str) -> Failure {
    Failure { hint: Some(HINT.to_owned()), ..without_namespaces::cannot(Mechanism::Landlock, what) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: &[(&str, Access)]) -> Option<String> {
        let mut view = View::of(list);
        view.system.binds.push(("/x/shown".into(), true));
        rules(&view).err().map(|failure| failure.message)
    }

    #[test]
    fn what_adds_to_its_surroundings_is_allowed() {
        for list in [
            &[("/a", Access::ReadOnly), ("/a/b", Access::Writable)][..],
            &[("/a", Access::Hidden), ("/a/b", Access::ReadOnly), ("/a/b/c", Access::Sealed)],
            &[("/a", Access::Writable), ("/ab", Access::ReadOnly), ("/ac", Access::Hidden)],
        ] {
            assert_eq!(refused(list), None, "{list:?}");
        }
    }

    #[test]
    fn what_would_take_away_is_refused_by_name() {
        for list in [
            &[("/usr/share/x", Access::Hidden)][..],
            &[("/x", Access::Hidden)],
            &[("/a", Access::ReadOnly), ("/a/x", Access::Hidden)],
            &[("/a", Access::Writable), ("/a/x", Access::Hidden)],
            &[("/a", Access::Writable), ("/a/b", Access::Pin), ("/a/b/x", Access::Sealed)],
            &[("/a", Access::Writable), ("/a/x", Access::ReadOnly)],
            &[("/x", Access::Private)],
        ] {
            assert!(refused(list).is_some_and(|message| message.contains("/x")), "{list:?}");
        }
    }
}
