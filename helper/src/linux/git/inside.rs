//! Where a path leads on the host, followed by hand, since every link on the way counts that lies in the directory.

use crate::linux::tree::{Opened, Trail};
use nix::errno::Errno;
use nix::fcntl::readlinkat;
use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// A directory that the jail can write.
#[derive(Clone, Copy)]
pub(super) struct Inside<'a> {
    pub(super) root: BorrowedFd<'a>,
    /// Its real path.
    pub(super) name: &'a Path,
}

/// A path followed to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Followed {
    /// The links on the way that lie in the directory, by their paths below it.
    pub(super) links: Vec<PathBuf>,
    /// What it leads to, which need not exist, and no part of which is a link. `None` if it leads in circles.
    pub(super) target: Option<PathBuf>,
}

impl<'a> Inside<'a> {
    /// What an absolute path is called below the directory; `None` if it lies elsewhere.
    pub(super) fn below(self, path: &Path) -> Option<&Path> {
        path.strip_prefix(self.name).ok()
    }

    /// Follows an absolute path as the kernel would.
    pub(super) fn follow(self, path: &Path) -> io::Result<Followed> {
        let (mut links, mut count) = (Vec::new(), 0_usize);
        let mut target = PathBuf::from("/");
        let mut rest: VecDeque<OsString> = VecDeque::new();
        prepend(&mut rest, &mut target, path);
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                target.pop();
                continue;
            }
            let here = target.join(&part);
            let Some(says) = self.read_link(&here)? else {
                target = here;
                continue;
            };
            links.extend(self.below(&here).map(Path::to_path_buf));
            count = count.saturating_add(1);
            if count > MOST_LINKS {
                return Ok(Followed { links, target: None });
            }
            prepend(&mut rest, &mut target, &says);
        }
        Ok(Followed { links, target: Some(target) })
    }

    /// What the link at an absolute path says; `None` for anything else, also for nothing.
    pub(super) fn read_link(self, path: &Path) -> io::Result<Option<PathBuf>> {
        let read = || -> io::Result<PathBuf> {
            match self.below(path).filter(|below| !below.as_os_str().is_empty()) {
                Some(below) => {
                    let (trail, name) = reach(self.root, below)?;
                    Ok(readlinkat(trail.here(), name.as_c_str())?.into())
                }
                None => std::fs::read_link(path),
            }
        };
        match read() {
            Ok(says) => Ok(Some(says)),
            Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                Errno::EINVAL
                | Errno::ENOENT
                | Errno::ENOTDIR
                | Errno::EACCES
                | Errno::EPERM
                | Errno::ELOOP
                | Errno::ENAMETOOLONG => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// Puts the parts of `path` before `rest`. An absolute one begins anew.
fn prepend(rest: &mut VecDeque<OsString>, from: &mut PathBuf, path: &Path) {
    if path.is_absolute() {
        *from = PathBuf::from("/");
    }
    for part in path.components().rev() {
        match part {
            Component::Normal(part) => rest.push_front(part.to_owned()),
            Component::ParentDir => rest.push_front("..".into()),
            _ => {}
        }
    }
}

/// Goes down to the directory that holds `path`, through no link; with the last name of it.
pub(super) fn reach(root: BorrowedFd, path: &Path) -> io::Result<(Trail, CString)> {
    let mut trail = Trail::new(root)?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        trail.enter_ours(&plain(part.as_os_str())?)?;
    }
    Ok((trail, plain(path.file_name().unwrap_or_default())?))
}

/// The directory at `path`, and what gives modes back on the way there once it is no longer needed.
pub(super) fn open_below(root: BorrowedFd, path: &Path) -> io::Result<(Opened, Option<Trail>)> {
    if path.as_os_str().is_empty() {
        return Ok((Opened::new(root, c".")?, None));
    }
    let (trail, name) = reach(root, path)?;
    Ok((Opened::new(trail.here(), &name)?, Some(trail)))
}

pub(super) fn plain(name: &OsStr) -> io::Result<CString> {
    Ok(CString::new(name.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_within_and_beyond() {
        let outer = tempfile::tempdir().unwrap();
        let outer = outer.path().canonicalize().unwrap();
        let name = outer.join("root");
        fs::create_dir_all(name.join("a/b")).unwrap();
        symlink("../c", name.join("a/up")).unwrap();
        symlink(name.join("a"), name.join("absolute")).unwrap();
        symlink("..", name.join("out")).unwrap();
        symlink("circle", name.join("circle")).unwrap();
        symlink("root", outer.join("alias")).unwrap();
        let open = fs::File::open(&name).unwrap();
        let inside = Inside { root: open.as_fd(), name: &name };
        let target = |path: &str| {
            let target = inside.follow(&name.join(path)).unwrap().target?;
            Some(target.strip_prefix(&outer).unwrap().to_str().unwrap().to_owned())
        };
        assert_eq!(target("a/b/./x").as_deref(), Some("root/a/b/x"));
        assert_eq!(target("a/../absent/x").as_deref(), Some("root/absent/x"));
        assert_eq!(target("absolute/up/x").as_deref(), Some("root/c/x"));
        // Out and in again, by whatever name.
        assert_eq!(target("../root/a/b").as_deref(), Some("root/a/b"));
        assert_eq!(target("out/alias/a/b").as_deref(), Some("root/a/b"));
        assert_eq!(target("out/x").as_deref(), Some("x"));
        assert_eq!(target("circle/x"), None);
        let links = |path: &Path| inside.follow(path).unwrap().links;
        assert_eq!(links(&name.join("absolute/up")), [Path::new("absolute"), Path::new("a/up")]);
        assert_eq!(links(&outer.join("alias/out/x")), [Path::new("out")]);
    }
}
