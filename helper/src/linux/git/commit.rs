//! What a commit of an overlay must leave alone. It is looked for after the run: the host has what it had before, since
//! everything that the run wrote is above it.

use super::find::Known;
use super::index::{is_dangerous, is_index};
use super::inside::Inside;
use super::names::{COVERED, HEAD, NESTING, WATCHED, is_branch, is_git};
use crate::linux::tree::Kind;
use nix::fcntl::readlinkat;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Paths of the host that git executes something from, or looks at to find out from where.
#[derive(Default)]
pub(crate) struct HostExecuted {
    /// Without regard to case, as some file systems take them. A directory that holds a repository ends in a slash: it
    /// has to stay where it is, but there is more in it.
    paths: BTreeSet<Vec<u8>>,
    /// Those of repositories that call files by the longer kind of hash.
    long_hashes: BTreeSet<PathBuf>,
}

impl HostExecuted {
    /// Looks through the host's directory, all of it. `path` is how it is called, for absolute paths in settings.
    pub(crate) fn find(directory: BorrowedFd, path: &Path, deadline: Instant) -> io::Result<Self> {
        let Known { covers, elsewhere, .. } = Known::find_all(directory, path, deadline)?;
        let inside = Inside { root: directory, name: path };
        let mut long_hashes = BTreeSet::new();
        for (git, _) in covers.iter().filter(|(_, is_covered)| !**is_covered) {
            if inside.has_long_hashes(&path.join(git))? {
                long_hashes.insert(git.clone());
            }
        }
        let covers = covers.iter().map(|(path, is_covered)| key(path, if *is_covered { "" } else { "/" }));
        let elsewhere = elsewhere.keys().map(|path| key(path, ""));
        Ok(HostExecuted { paths: covers.chain(elsewhere).collect(), long_hashes })
    }

    /// Whether a change of `path` has to stay out, after which something of this kind is there, or nothing.
    pub(crate) fn forbids(&self, path: &[u8], becomes: Option<Kind>) -> bool {
        match becomes {
            Some(Kind::Directory) => self.paths.contains(&lower(path, b"")),
            // A link on the way would lead git elsewhere.
            Some(_) => self.stays(path) || self.leads_to_one(path),
            None => self.stays(path),
        }
    }

    /// Whether what is new in a git directory by `name` is something that git would write through, or to where it says.
    pub(crate) fn misleads(&self, path: &[u8], here: BorrowedFd, name: &CStr, kind: Kind) -> bool {
        let git = Path::new(OsStr::from_bytes(path)).parent().unwrap_or(Path::new(""));
        match kind {
            Kind::Link => readlinkat(here, name).map_or(true, |says| !is_branch(says.as_bytes())),
            Kind::File if is_index(name.to_bytes()) => {
                is_dangerous(here, name, self.long_hashes.contains(git))
            }
            _ => false,
        }
    }

    /// Whether it must not be removed.
    pub(crate) fn stays(&self, path: &[u8]) -> bool {
        [&b""[..], b"/"].iter().any(|end| self.paths.contains(&lower(path, end)))
    }

    /// Whether one of them lies below `path`, or would.
    pub(crate) fn leads_to_one(&self, path: &[u8]) -> bool {
        let start = lower(path, b"/");
        self.paths.range(start.clone()..).next().is_some_and(|path| path.starts_with(&start))
    }
}

fn key(path: &Path, end: &str) -> Vec<u8> {
    // Each has one spelling then: without a slash at its end.
    let path: PathBuf = path.components().collect();
    lower(path.as_os_str().as_bytes(), end.as_bytes())
}

fn lower(path: &[u8], end: &[u8]) -> Vec<u8> {
    [path, end].concat().to_ascii_lowercase()
}

/// Whether a changed name has to stay out whatever the host has.
///
/// `path` is the name with what leads to it: from the git directory that holds it, or else from anywhere. `merged`
/// means that it is a directory before and after.
pub(crate) fn is_host_executed(path: &[u8], in_git_directory: bool, merged: bool) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    if is_git(name) {
        return !merged;
    }
    let executed = |first: &[u8]| {
        let mut known = COVERED.iter().chain(&WATCHED).chain(&NESTING);
        known.any(|known| first.eq_ignore_ascii_case(known.to_bytes()))
    };
    if in_git_directory && executed(first(path)) {
        return true;
    }
    // Any directory with a `HEAD` can be a repository of its own, with a configuration beside it.
    let has_heads = in_git_directory && (path == name || holds_heads(path));
    name.eq_ignore_ascii_case(HEAD.to_bytes()) && !has_heads
}

/// Whether a `HEAD` below this path in a git directory is one of its branches.
pub(crate) fn holds_heads(path: &[u8]) -> bool {
    [&b"logs"[..], b"refs"].contains(&first(path))
}

fn first(path: &[u8]) -> &[u8] {
    path.split(|&byte| byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tree::Kind::{Directory, File, Link};
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    #[test]
    fn new_git_directories_and_repositories_stay_out() {
        for path in [".git", "a/.git", "a/.GIT", "HEAD", "a/b/HEAD", "a/head"] {
            assert!(is_host_executed(path.as_bytes(), false, false), "{path}");
        }
        for path in ["git", "a.git", ".gitignore", ".github", "HEADS", "config", "hooks", "a/config"] {
            assert!(!is_host_executed(path.as_bytes(), false, false), "{path}");
        }
        assert!(!is_host_executed(b"a/.git", false, true), "one that exists is looked into");
    }

    #[test]
    fn in_a_git_directory_commits_pass_and_programs_do_not() {
        for path in
            ["hooks", "hooks/pre-commit", "config", "Config", "config.worktree", "modules/x/config", "x/HEAD"]
        {
            assert!(is_host_executed(path.as_bytes(), true, false), "{path}");
        }
        for path in
            ["HEAD", "index", "objects/ab/cd", "refs/heads/config", "logs/HEAD", "refs/remotes/o/HEAD"]
        {
            assert!(!is_host_executed(path.as_bytes(), true, false), "{path}");
        }
        assert!(is_host_executed(b"hooks", true, true), "not even by way of a directory that exists");
    }

    #[test]
    fn what_settings_and_links_lead_to_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let path = |below: &str| root.path().join(below);
        let deep = "node_modules/1/2/3/4/5/6/7/8/9";
        for directory in ["a/.git", "hk", "data/objects", "data/refs", &format!("{deep}/.git")] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        fs::write(path("a/.git/config"), "[core]\nhooksPath = Tools/hooks\n[include]\npath = ../../inc\n")
            .unwrap();
        fs::write(path("data/HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(path(&format!("{deep}/.git/config")), "[core]\nhooksPath = cfg").unwrap();
        symlink("../../hk", path("a/.git/hooks")).unwrap();
        let open = fs::File::open(root.path()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let found = HostExecuted::find(open.as_fd(), root.path(), deadline).unwrap();
        let forbids = |path: &str, becomes| found.forbids(path.as_bytes(), becomes);
        for path in ["a/tools/hooks", "a/TOOLS/Hooks", "inc", "hk", &format!("{deep}/cfg")] {
            for becomes in [Some(Directory), Some(File), Some(Link), None] {
                assert!(forbids(path, becomes), "{path} {becomes:?}");
            }
        }
        for path in ["a", "a/tools", "data", "node_modules"] {
            assert!(forbids(path, Some(Link)) && forbids(path, Some(File)), "{path}");
            assert!(!forbids(path, Some(Directory)), "{path}");
            assert!(found.leads_to_one(path.as_bytes()), "{path}");
        }
        assert!(forbids("data", None) && !forbids("a/tools", None));
        for path in ["b", "tools", "a/too", "a/tools/h", "in", "inc2", "hk2"] {
            assert!(!forbids(path, Some(File)) && !forbids(path, None), "{path}");
        }
    }
}
