//! A place that every user of this machine can reach and that no jail sees.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// Not `/tmp`: there a file would be out of a jail's sight only because the jail has a `/tmp` of its own.
const BASE: &str = "/var/tmp";

/// A bound on the disk that others do not reach. Where all can take room, a run that closes a directory to the count is
/// held to have taken what is missing.
pub(crate) const ROOM_FOR_ALL: u64 = 1 << 40;

static HELPER: OnceLock<PathBuf> = OnceLock::new();

/// A copy of the helper that every user can execute, for as long as this exists: the target directory may lie in a
/// home that is closed to others.
pub(crate) struct Stage {
    _directory: TempDir,
}

impl Stage {
    /// Runs a suite on a stage.
    pub(crate) fn run(suite: impl FnOnce() -> ExitCode) -> ExitCode {
        match Stage::set() {
            Ok(_stage) => suite(),
            Err(error) => {
                eprintln!("cannot set the stage: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn set() -> io::Result<Stage> {
        let directory = open_directory()?;
        let helper = directory.path().join("agentkit-jail");
        std::fs::copy(built_helper(), &helper)?;
        HELPER.get_or_init(|| helper);
        Ok(Stage { _directory: directory })
    }
}

/// The helper under test.
pub(crate) fn helper() -> &'static Path {
    HELPER.get().map_or(built_helper(), PathBuf::as_path)
}

fn built_helper() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_agentkit-jail"))
}

/// A directory of this test's own that others can look into; removed when dropped.
pub(crate) fn open_directory() -> io::Result<TempDir> {
    let open = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("agentkit-test-").permissions(open).tempdir_in(BASE)
}

/// A word that nothing else on this machine contains.
pub(crate) fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}-{}-", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
