//! A report file that is either whole or untouched.

use crate::interrupt::Removable;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file that takes the place of `path` when it is finished, and is gone if it never is.
#[derive(Debug)]
pub(crate) struct ReportFile {
    path: PathBuf,
    draft: NamedTempFile,
    _removable: Removable,
}

impl ReportFile {
    /// Opens a draft beside `path`, so that a path that cannot be written is known before anything runs.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let elsewhere = path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file());
        if elsewhere || path == Path::new("-") {
            return Err(io::Error::other("it must be a regular file, or the name of a new one"));
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // As any program would create it; the umask takes away what the user wants taken away.
        let mode = std::fs::Permissions::from_mode(0o666);
        let mut builder = tempfile::Builder::new();
        builder.prefix(".agentkit-evals-").permissions(mode);
        let made = Removable::make(|| builder.tempfile_in(directory), |draft| draft.path());
        let (draft, _removable) = made.map_err(|why| {
            io::Error::other(format!("{why}; choose a directory that exists and is writable"))
        })?;
        Ok(ReportFile { path: path.to_owned(), draft, _removable })
    }

    /// Writes the content and puts it in place.
    pub(crate) fn finish(mut self, content: &str) -> io::Result<()> {
        self.draft.write_all(content.as_bytes())?;
        self.draft.as_file().sync_all()?;
        self.draft.persist(&self.path).map(drop).map_err(|failed| failed.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_report_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        std::fs::write(&path, "old").unwrap();
        drop(ReportFile::open(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        ReportFile::open(&path).unwrap().finish("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_or_a_link_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        assert!(ReportFile::open(directory.path()).is_err());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert!(ReportFile::open(&link).is_err());
        assert!(ReportFile::open(Path::new("-")).is_err());
        assert!(ReportFile::open(&directory.path().join("missing/report.json")).is_err());
    }
}
