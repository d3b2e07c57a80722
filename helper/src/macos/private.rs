//! The jail's own directories: a home, one for temporary files, and one to work in where the policy names none.
//!
//! macOS has nothing that would bound them, so what they hold is added up from time to time.

use crate::error::{Context, Result};
use nix::unistd::mkdtemp;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const STEP: &str = "private directories";
/// The unit of `st_blocks`, see stat(2).
const BLOCK: u64 = 512;

/// Removed when dropped.
pub(super) struct Private {
    /// Real, so that a profile can name it. Nothing in it is granted but the directories below.
    pub(super) base: PathBuf,
    pub(super) home: PathBuf,
    pub(super) tmp: PathBuf,
    pub(super) work: PathBuf,
    /// What no jail may read, to see that it cannot.
    pub(super) canary: PathBuf,
}

impl Private {
    /// In the launcher's directory for temporary files, for nobody but its user.
    pub(super) fn make(files: &[(PathBuf, Vec<u8>)]) -> Result<Self> {
        let parent = std::env::temp_dir();
        let parent = parent.canonicalize().context(STEP, format_args!("resolve {parent:?}"))?;
        let template = parent.join("agentkit-jail-XXXXXX");
        let base = mkdtemp(&template).context(STEP, format_args!("mkdtemp {template:?}"))?;
        let [home, tmp, work, canary] = ["home", "tmp", "work", "canary"].map(|name| base.join(name));
        let private = Private { base, home, tmp, work, canary };
        for directory in [&private.home, &private.tmp, &private.work] {
            fs::create_dir(directory).context(STEP, format_args!("make {directory:?}"))?;
        }
        for (name, content) in files {
            let path = private.tmp.join(name);
            fs::write(&path, content).context(STEP, format_args!("write {path:?}"))?;
        }
        fs::write(&private.canary, "canary").context(STEP, "write the canary")?;
        Ok(private)
    }

    /// Bytes that its files take on the volume. A directory that cannot be looked into is an error: it could hold anything.
    pub(super) fn size(&self) -> io::Result<u64> {
        let mut size = 0_u64;
        walk(&self.base, &mut |_, metadata| {
            size = size.saturating_add(metadata.blocks().saturating_mul(BLOCK));
            Ok(())
        })?;
        Ok(size)
    }

    /// Once everything in the jail is dead.
    pub(super) fn remove(&self) -> io::Result<()> {
        // Modes are the command's own, and so can be ones that forbid it.
        let open = |path: &Path, metadata: &Metadata| match metadata.is_dir() {
            true => fs::set_permissions(path, Permissions::from_mode(0o700)),
            false => Ok(()),
        };
        let removed = fs::remove_dir_all(&self.base);
        if removed.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            // So can be flags, which only macOS has, and its program for them.
            drop(
                Command::new("/usr/bin/chflags")
                    .args(["-R", "-h", "0"])
                    .arg(&self.base)
                    .stdin(Stdio::null())
                    .status(),
            );
        }
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(_) => walk(&self.base, &mut |path, metadata| open(path, metadata))
                .and_then(|()| fs::remove_dir_all(&self.base)),
            Ok(()) => Ok(()),
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // Whoever wants to know why it is still there has called it before.
        drop(self.remove());
    }
}

/// Shows everything at and below `path`, directories before what is in them, and follows no links. What vanishes
/// meanwhile was not there.
fn walk(path: &Path, visit: &mut impl FnMut(&Path, &Metadata) -> io::Result<()>) -> io::Result<()> {
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let Some(metadata) = unless_gone(fs::symlink_metadata(&path))? else { continue };
        let Some(()) = unless_gone(visit(&path, &metadata))? else { continue };
        if metadata.is_dir() {
            for entry in unless_gone(fs::read_dir(&path))?.into_iter().flatten() {
                left.push(entry?.path());
            }
        }
    }
    Ok(())
}

fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Private {
        Private::make(&[("main.py".into(), b"print(1)".to_vec())]).unwrap()
    }

    #[test]
    fn it_is_there_for_its_user_alone_and_goes_in_the_end() {
        let private = made();
        let base = private.base.clone();
        assert_eq!(fs::metadata(&base).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read(private.tmp.join("main.py")).unwrap(), b"print(1)");
        drop(private);
        assert!(!base.exists());
    }

    #[test]
    fn what_files_take_is_added_up() {
        let private = made();
        let before = private.size().unwrap();
        fs::create_dir_all(private.work.join("a/b")).unwrap();
        fs::write(private.work.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink("/usr", private.home.join("link")).unwrap();
        let added = private.size().unwrap() - before;
        assert!((1 << 20..(1 << 20) + (64 << 10)).contains(&added), "{added}");
    }

    #[test]
    fn modes_that_forbid_it_do_not_keep_it() {
        let private = made();
        let closed = private.tmp.join("closed");
        fs::create_dir_all(closed.join("inner")).unwrap();
        fs::write(closed.join("inner/file"), "").unwrap();
        for path in [closed.join("inner"), closed.clone(), private.tmp.clone()] {
            fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
        }
        // Root looks everywhere.
        assert!(private.size().is_err() || nix::unistd::getuid().is_root());
        private.remove().unwrap();
        assert!(!private.base.exists());
        private.remove().unwrap();
    }
}
