//! What a run may leave behind on the host: mounts and directory entries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The host's mounts and the entries of some directories, to be compared with a later look. Tests of one suite run in
/// parallel: watch directories of the test's own (a `TMPDIR` handed to the program under test), not `/tmp`.
#[derive(Debug)]
pub(crate) struct Snapshot {
    directories: Vec<PathBuf>,
    found: BTreeSet<String>,
}

impl Snapshot {
    /// Looks now.
    pub(crate) fn take(directories: &[&Path]) -> io::Result<Snapshot> {
        let directories: Vec<PathBuf> = directories.iter().map(|path| path.to_path_buf()).collect();
        let found = look(&directories)?;
        Ok(Snapshot { directories, found })
    }

    /// What is there now and was not then, one line each.
    pub(crate) fn added(&self) -> io::Result<Vec<String>> {
        Ok(look(&self.directories)?.difference(&self.found).cloned().collect())
    }
}

fn look(directories: &[PathBuf]) -> io::Result<BTreeSet<String>> {
    let mut found = mounts(&mount_table()?);
    for directory in directories {
        for entry in fs::read_dir(directory)? {
            found.insert(format!("file {}", entry?.path().display()));
        }
    }
    Ok(found)
}

/// Empty where there is no such table, or none to be seen: in a jail without namespaces.
fn mount_table() -> io::Result<String> {
    use io::ErrorKind::{NotFound, PermissionDenied};
    match fs::read_to_string("/proc/self/mountinfo") {
        Err(error) if matches!(error.kind(), NotFound | PermissionDenied) => Ok(String::new()),
        table => table,
    }
}

/// Mount id and mount point of each line of a mountinfo table: the id tells a second mount at the same place.
pub(crate) fn mounts(table: &str) -> BTreeSet<String> {
    let describe = |line: &str| {
        let mut fields = line.split(' ');
        Some(format!("mount {} {}", fields.next()?, fields.nth(3)?))
    };
    table.lines().filter_map(describe).collect()
}
