//! Which bubblewrap: one that nobody but root can have put there.

use super::STEP;
use crate::error::{Hint, Result, failure};
use crate::linux::view::View;
use agentkit_protocol::FailureKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where distributions have it, and where a profile of AppArmor expects it.
const USUAL: &str = "/usr/bin/bwrap";
const NAME: &str = "bwrap";
const WRITABLE_BY_OTHERS: u32 = 0o022;
const EXECUTABLE_BY_ALL: u32 = 0o111;

/// The distribution's, or the first in `PATH` that is root's alone. Never one that this jail could have changed.
pub(super) fn find(view: &View) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named =
        std::env::split_paths(&path).filter(|above| above.is_absolute()).map(|above| above.join(NAME));
    let mut passed_over = Vec::new();
    for candidate in std::iter::once(PathBuf::from(USUAL)).chain(named) {
        let Ok(real) = candidate.canonicalize() else { continue };
        if is_roots_alone(&real)
            && !view.entries.iter().any(|it| it.access.is_writable() && real.starts_with(&it.path))
        {
            return Ok(real);
        }
        passed_over
            .push(format!("{candidate:?} is not used, since somebody else than root could have changed it"));
    }
    let message = format!(
        "there is no {NAME}: neither {USUAL} nor one in PATH that only root can write. {}",
        passed_over.join(". ")
    );
    Err(failure(FailureKind::Host, STEP, message.trim_end()))
        .hint("install the distribution's package `bubblewrap`")
}

/// It and everything above it. Paths are real ones.
fn is_roots_alone(program: &Path) -> bool {
    let is_roots = |path: &Path| {
        path.symlink_metadata().is_ok_and(|meta| meta.uid() == 0 && meta.mode() & WRITABLE_BY_OTHERS == 0)
    };
    let runs = program
        .metadata()
        .is_ok_and(|meta| meta.is_file() && meta.mode() & EXECUTABLE_BY_ALL == EXECUTABLE_BY_ALL);
    runs && program.ancestors().all(is_roots)
}

#[cfg(test)]
mod tests {
    use super::is_roots_alone;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    #[test]
    fn only_what_root_alone_can_change_is_run() {
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        assert!(is_roots_alone(&shell));
        // Whoever owns it, the directory for temporary files is everybody's.
        let place = tempfile::tempdir().unwrap();
        let copy = place.path().join("bwrap");
        std::fs::write(&copy, "").unwrap();
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(
            !is_roots_alone(&copy)
                && !is_roots_alone(Path::new("/etc"))
                && !is_roots_alone(Path::new("/none"))
        );
    }
}
