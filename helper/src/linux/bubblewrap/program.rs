//! Which bubblewrap: one that nobody but root can have put there.

use super::STEP;
use crate::error::{Hint, Result, failure};
use crate::linux::mount_table::MountTable;
use crate::linux::view::View;
use agentkit_protocol::FailureKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where distributions have it, and where a profile of AppArmor expects it.
const USUAL: &str = "/usr/bin/bwrap";
const NAME: &str = "bwrap";
const WRITABLE_BY_OTHERS: u32 = 0o022;
const EXECUTABLE_BY_ALL: u32 = 0o111;
const WITH_PRIVILEGE: u32 = 0o6000;

/// The distribution's, or the first in `PATH` that is root's alone. Never one that this jail could have changed.
pub(super) fn find(view: &View, mounts: &MountTable) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named =
        std::env::split_paths(&path).filter(|above| above.is_absolute()).map(|above| above.join(NAME));
    let writable = view.entries.iter().filter(|entry| entry.access.is_writable());
    let mut writable: Vec<_> = writable.map(|entry| entry.path.clone()).collect();
    // By whichever name it is found.
    writable.extend(mounts.other_names(&writable));
    let is_in_reach = |real: &Path| writable.iter().any(|place| real.starts_with(place));
    let mut passed_over: Vec<(PathBuf, &str)> = Vec::new();
    for candidate in std::iter::once(PathBuf::from(USUAL)).chain(named) {
        let Ok(real) = candidate.canonicalize() else { continue };
        let why = if is_in_reach(&real) { Some(CHANGEABLE) } else { why_not(&real) };
        let Some(why) = why else { return Ok(real) };
        // Once, by whichever names it can be had.
        if !passed_over.iter().any(|(other, _)| *other == real) {
            passed_over.push((real, why));
        }
    }
    let hint = match &passed_over[..] {
        [] => INSTALL,
        [(_, PRIVILEGED), ..] => UNPRIVILEGED,
        _ => OWN,
    };
    let passed_over: String =
        passed_over.iter().map(|(real, why)| format!("; {real:?} is not used, since {why}")).collect();
    let message = format!("there is no {NAME} to use, neither {USUAL} nor one in PATH{passed_over}");
    Err(failure(FailureKind::Host, STEP, message)).hint(hint)
}

const INSTALL: &str = "install the distribution's package `bubblewrap`";
const OWN: &str = "have one that root owns and nobody else may write, and so with all directories above it; in a user namespace \
    where root's files belong to nobody, none can be told to be so";
const PRIVILEGED: &str = "it is set-user-id: a jail is to need no privilege";
const UNPRIVILEGED: &str = "take the privilege away, which it does not need where user namespaces are allowed (chmod u-s), or have \
    another one in PATH that root owns";
const CHANGEABLE: &str = "somebody else than root could have changed it";

/// Why it is not to be run. Everything above it counts as well. The path is a real one.
fn why_not(program: &Path) -> Option<&'static str> {
    let is_roots = |path: &Path| {
        path.symlink_metadata().is_ok_and(|meta| meta.uid() == 0 && meta.mode() & WRITABLE_BY_OTHERS == 0)
    };
    let Ok(meta) = program.metadata() else { return Some("it cannot be reached") };
    if !program.ancestors().all(is_roots) {
        Some(CHANGEABLE)
    } else if !meta.is_file() || meta.mode() & EXECUTABLE_BY_ALL != EXECUTABLE_BY_ALL {
        Some("not everybody may execute it")
    } else if meta.mode() & WITH_PRIVILEGE != 0 {
        // It forgets with whom it is to die, and makes root's namespaces.
        Some(PRIVILEGED)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{CHANGEABLE, why_not};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    #[test]
    fn only_what_root_alone_can_change_is_run() {
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        assert_eq!(why_not(&shell), None);
        // Whoever owns it, the directory for temporary files is everybody's.
        let place = tempfile::tempdir().unwrap();
        let copy = place.path().join("bwrap");
        std::fs::write(&copy, "").unwrap();
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(why_not(&copy), Some(CHANGEABLE));
        for no_program in ["/etc", "/etc/passwd", "/none"] {
            assert!(why_not(Path::new(no_program)).is_some(), "{no_program}");
        }
    }

    #[test]
    fn none_that_gives_privilege_is_run() {
        for path in ["/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount"].map(Path::new) {
            if path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o6000 != 0) {
                assert!(
                    why_not(&path.canonicalize().unwrap()).is_some_and(|why| why.contains("set-user-id"))
                );
            }
        }
    }
}
