//! Where a path leads, one name at a time, and whether a jail could have had a say in it.

use crate::linux::resolve::is_scarcity;
use nix::errno::Errno;
use nix::fcntl::readlink;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

/// More names than a path of the longest kind has, with its links.
const MOST_NAMES: usize = 8192;

/// A path that was followed to its end.
#[derive(Debug)]
pub(super) struct Walk {
    /// The links on the way, the real directory and the name of each.
    pub(super) links: Vec<PathBuf>,
    /// What is there, without any link.
    pub(super) real: PathBuf,
}

/// Follows `path` from a real directory. Nothing comes of one that does not exist, or that leads through a writable
/// place at any point, be it out of it again: everything in there can be a link that a jail has made. Links in `/proc`
/// mean something else to each process.
pub(super) fn walk(from: &Path, path: &Path, writable: &[PathBuf]) -> io::Result<Option<Walk>> {
    let mut walk = Walk { links: Vec::new(), real: from.to_path_buf() };
    let mut ahead = names_backwards(path);
    for _ in 0..MOST_NAMES {
        let Some(name) = ahead.pop() else { return Ok(Some(walk)) };
        let at = walk.real.join(&name);
        match name.as_encoded_bytes() {
            b"/" => walk.real = at,
            b"." => {}
            b".." => drop(walk.real.pop()),
            _ if at.starts_with("/proc") || writable.iter().any(|place| at.starts_with(place)) => {
                return Ok(None);
            }
            _ => match readlink(&at) {
                Ok(target) => {
                    ahead.extend(names_backwards(Path::new(&target)));
                    walk.links.push(at);
                }
                // It is there and no link.
                Err(Errno::EINVAL) => walk.real = at,
                Err(error) => return if is_scarcity(&error.into()) { Err(error.into()) } else { Ok(None) },
            },
        }
    }
    Ok(None)
}

fn names_backwards(path: &Path) -> Vec<OsString> {
    path.components().rev().map(Component::as_os_str).map(OsStr::to_os_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    fn canonical(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().canonicalize().unwrap()
    }

    #[test]
    fn loops_and_missing_names_lead_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(&directory);
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        symlink("../../../../../../../../..", root.join("up")).unwrap();
        assert!(walk(&root, Path::new("a"), &[]).unwrap().is_none());
        assert!(walk(&root, Path::new("missing/x"), &[]).unwrap().is_none());
        assert!(walk(Path::new("/"), Path::new("/proc/self/exe"), &[]).unwrap().is_none());
        assert_eq!(walk(&root, Path::new("up"), &[]).unwrap().unwrap().real, Path::new("/"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever links there are, the end is where the kernel says, and no place that is writable was touched.
        #[test]
        fn the_end_is_where_the_kernel_says(
            links in proptest::collection::vec((0..6usize, "(\\.\\./|d[0-2]/|l[0-5]/){0,3}(d[0-2]|l[0-5]|\\.)"), 0..6),
            path in "(d[0-2]/|l[0-5]/|\\.\\./){0,4}(d[0-2]|l[0-5])",
        ) {
            let directory = tempfile::tempdir().unwrap();
            let root = canonical(&directory).join("r");
            for name in ["d0/d1/d2", "d1/d0", "d2"] {
                std::fs::create_dir_all(root.join(name)).unwrap();
            }
            for (at, (inside, target)) in links.iter().enumerate() {
                let _ = symlink(target, root.join(["", "d0", "d1", "d2", "d0/d1", "d1/d0"][*inside]).join(format!("l{at}")));
            }
            let expected = root.join(&path).canonicalize().ok();
            let walked = walk(&root, Path::new(&path), &[]).unwrap();
            prop_assert_eq!(walked.as_ref().map(|walk| &walk.real), expected.as_ref());
            let guarded = walk(&root, Path::new(&path), &[root.join("d0")]).unwrap();
            if let Some(guarded) = guarded {
                prop_assert!(!guarded.real.starts_with(root.join("d0")));
                prop_assert!(guarded.links.iter().all(|link| !link.starts_with(root.join("d0"))));
            }
        }
    }
}
