//! What of `/proc` a policy shows.

use super::STEP;
use crate::error::{Context, Result, failure};
use crate::linux::own_files::{SETTINGS, SHOWN};
use agentkit_protocol::{FailureKind, ProcFiles};
use nix::sys::statvfs::{FsFlags, statvfs};
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether it is a process's, or to be seen all the same. Of the kernel's own files, those that lead to what each process
/// has of its own always are.
pub(super) fn is_shown(files: ProcFiles, name: &OsStr) -> bool {
    let is_process = name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
    is_process || (files == ProcFiles::Full && (name == SETTINGS || SHOWN.iter().any(|shown| name == *shown)))
}

/// Whether all else is covered, as seen from inside: the launcher may have seen a part of it only.
pub(super) fn check(files: ProcFiles) -> Result<()> {
    let proc = Path::new("/proc");
    let own = proc.metadata().context(STEP, "stat /proc")?.dev();
    let settings = proc.join(SETTINGS);
    if files == ProcFiles::Full && settings.exists() {
        let found = statvfs(&settings).map_err(io::Error::from).context(STEP, "statvfs /proc/sys")?;
        if !found.flags().contains(FsFlags::ST_RDONLY) {
            return Err(failure(FailureKind::Host, STEP, "/proc/sys can be written"));
        }
    }
    for entry in std::fs::read_dir(proc).context(STEP, "list /proc")? {
        let entry = entry.context(STEP, "list /proc")?;
        if is_shown(files, &entry.file_name()) {
            continue;
        }
        let found = entry.metadata().context(STEP, format_args!("stat {:?}", entry.path()))?;
        if found.dev() == own && !found.is_symlink() {
            let message = format_args!("{:?} could not be hidden", entry.path());
            return Err(failure(FailureKind::Host, STEP, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_shown;
    use agentkit_protocol::ProcFiles::{Full, Processes};
    use std::ffi::OsStr;

    #[test]
    fn only_processes_are_always_shown() {
        let shown = |name: &str| [Processes, Full].map(|files| is_shown(files, OsStr::new(name)));
        assert_eq!([shown("1"), shown("4711")], [[true, true]; 2]);
        assert_eq!([shown("cpuinfo"), shown("sys")], [[false, true]; 2]);
        assert_eq!([shown("kcore"), shown("sysrq-trigger"), shown("keys")], [[false, false]; 3]);
    }
}
