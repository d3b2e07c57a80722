//! The host's `/proc`, where it is mounted in what a jail is shown: in a chroot, for instance.

use super::System;
use super::entry::{Access, Entry, Kind};
use crate::linux::mount_table::MountTable;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Hides it: it would show the host's processes, whoever owns the directory.
pub(super) fn hide(entries: &mut BTreeMap<PathBuf, Entry>, system: &System, mounts: &MountTable) {
    let shown = |above: &Path| {
        system.shows(above)
            || entries.get(above).is_some_and(|entry| entry.is_dir() && entry.access.has_source())
    };
    let found: Vec<_> = mounts.of_processes().filter(|path| path.ancestors().any(shown)).collect();
    for path in found {
        let kind = if path.is_dir() { Kind::Directory } else { Kind::File };
        entries.insert(path.clone(), Entry::new(&path, kind, Access::Hidden, (0, 0)));
    }
}
