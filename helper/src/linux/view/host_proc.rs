//! The host's `/proc`, where it is mounted in what a jail is shown: in a chroot, for instance.

use super::View;
use super::entry::{Access, Entry, Kind};
use std::path::Path;

/// Hides it, if it is shown: with the host's processes, whoever owns the directory.
pub(super) fn hide(view: &mut View, path: &Path) {
    let shown = |above: &Path| {
        let found = view.entries.binary_search_by(|entry| entry.path.as_path().cmp(above));
        let entry = found.ok().and_then(|at| view.entries.get(at));
        view.system.shows(above) || entry.is_some_and(|entry| entry.is_dir() && entry.access.has_source())
    };
    if !path.ancestors().any(shown) {
        return;
    }
    let kind = if path.is_dir() { Kind::Directory } else { Kind::File };
    let hidden = Entry::new(path, kind, Access::Hidden, (0, 0));
    view.entries.retain(|entry| entry.path != path);
    view.entries.insert(view.entries.partition_point(|entry| entry.path.as_path() < path), hidden);
}
