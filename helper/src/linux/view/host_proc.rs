//! The host's `/proc`, where it is mounted in what a jail is shown: in a chroot, for instance.

use super::STEP;
use super::entry::{Access, Entry, Kind};
use crate::error::{Context, Result};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Hides it: it would show the host's processes, whoever owns the directory.
pub(super) fn hide(entries: &mut BTreeMap<PathBuf, Entry>) -> Result<()> {
    let shows_directories = |entry: &Entry| entry.is_dir() && entry.access.has_source();
    if !entries.values().any(shows_directories) {
        return Ok(());
    }
    let table = std::fs::read("/proc/self/mountinfo").context(STEP, "read /proc/self/mountinfo")?;
    for path in mounted(&table) {
        let holds = |above: &Path| entries.get(above).is_some_and(shows_directories);
        if path.ancestors().any(holds) {
            let kind = if path.is_dir() { Kind::Directory } else { Kind::File };
            entries.insert(path.clone(), Entry::new(&path, kind, Access::Hidden, (0, 0)));
        }
    }
    Ok(())
}

/// Where a table of mounts says that a file system of processes is mounted, whole or in part; see proc_pid_mountinfo(5).
fn mounted(table: &[u8]) -> Vec<PathBuf> {
    let mount_point = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ');
        let path = plain(fields.nth(4)?);
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        (kind == b"proc").then_some(path)
    };
    table.split(|byte| *byte == b'\n').filter_map(mount_point).collect()
}

/// A path without the octal numbers that stand for blanks and backslashes.
fn plain(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let number = after
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        path.push(number.unwrap_or(*first));
        rest = if number.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn every_mount_of_processes_is_found() {
        let table = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                      27 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      30 27 0:21 /sys /srv/a\\040b\\134\\012c ro shared:1 master:2 - proc none rw\n\
                      31 27 0:22 / /srv/x\xff rw - proc - rw\n\
                      32 27 0:22 / /srv/proc rw - tmpfs proc rw\nbroken -\n";
        let found = mounted(table);
        let paths: Vec<_> = found.iter().map(|path| path.as_os_str().as_bytes()).collect();
        assert_eq!(paths, [&b"/proc"[..], b"/srv/a b\\\nc", b"/srv/x\xff"]);
    }
}
