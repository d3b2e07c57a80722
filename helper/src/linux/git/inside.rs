//! Where a path leads within a directory, followed by hand: it must not lead out, and every link on the way counts.

use crate::linux::tree::Trail;
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

/// A path below a directory, followed to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Followed {
    /// The links on the way.
    pub(super) links: Vec<PathBuf>,
    /// What it leads to, which need not exist, and no part of which is a link. `None` if it leads out or in circles.
    pub(super) target: Option<PathBuf>,
}

/// Follows `path` from `root` as the kernel would. `name` is what `root` is called in absolute paths.
pub(super) fn follow(root: BorrowedFd, name: &Path, path: &Path) -> io::Result<Followed> {
    let mut links = Vec::new();
    let mut target = PathBuf::new();
    let mut rest: VecDeque<OsString> = VecDeque::new();
    let mut is_inside = prepend(&mut rest, &mut target, name, path);
    while is_inside && let Some(part) = rest.pop_front() {
        if part == ".." {
            is_inside = target.pop();
            continue;
        }
        let here = target.join(&part);
        match read_link(root, &here)? {
            Some(says) => {
                is_inside = links.len() < MOST_LINKS && prepend(&mut rest, &mut target, name, &says);
                links.push(here);
            }
            None => target = here,
        }
    }
    Ok(Followed { links, target: Some(target).filter(|_| is_inside) })
}

/// Puts the parts of `path` before `rest`. An absolute one begins anew; `false` if it begins elsewhere.
fn prepend(rest: &mut VecDeque<OsString>, from: &mut PathBuf, name: &Path, path: &Path) -> bool {
    let below = match path.strip_prefix(name) {
        Ok(below) => below,
        Err(_) if path.is_absolute() => return false,
        Err(_) => path,
    };
    if path.is_absolute() {
        *from = PathBuf::new();
    }
    for part in below.components().rev() {
        match part {
            Component::Normal(part) => rest.push_front(part.to_owned()),
            Component::ParentDir => rest.push_front("..".into()),
            _ => {}
        }
    }
    true
}

/// What the link at `path` says; `None` for anything else, also for nothing.
fn read_link(root: BorrowedFd, path: &Path) -> io::Result<Option<PathBuf>> {
    let read = || -> io::Result<OsString> {
        let (trail, name) = reach(root, path)?;
        Ok(readlinkat(trail.here(), name.as_c_str())?)
    };
    match read() {
        Ok(says) => Ok(Some(says.into())),
        Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            Errno::EINVAL | Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES => Ok(None),
            _ => Err(error),
        },
    }
}

/// Goes down to the directory that holds `path`, through no link; with the last name of it.
pub(super) fn reach(root: BorrowedFd, path: &Path) -> io::Result<(Trail, CString)> {
    let mut trail = Trail::new(root)?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        trail.enter(&plain(part.as_os_str())?)?;
    }
    Ok((trail, plain(path.file_name().unwrap_or_default())?))
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
    fn links_are_followed_within_and_not_beyond() {
        let root = tempfile::tempdir().unwrap();
        let name = root.path();
        fs::create_dir_all(name.join("a/b")).unwrap();
        symlink("../c", name.join("a/up")).unwrap();
        symlink(name.join("a"), name.join("absolute")).unwrap();
        symlink("/etc", name.join("out")).unwrap();
        symlink("circle", name.join("circle")).unwrap();
        let open = fs::File::open(name).unwrap();
        let find = |path: &Path| follow(open.as_fd(), name, path).unwrap();
        let target = |path: &str| find(Path::new(path)).target.map(|it| it.to_str().unwrap().to_owned());
        assert_eq!(target("a/b/./x").as_deref(), Some("a/b/x"));
        assert_eq!(target("a/../absent/x").as_deref(), Some("absent/x"));
        assert_eq!(target("absolute/up/x").as_deref(), Some("c/x"));
        assert_eq!(find(&name.join("a/b")).target.as_deref(), Some(Path::new("a/b")));
        assert_eq!(find(Path::new("absolute/up")).links, [Path::new("absolute"), Path::new("a/up")]);
        assert_eq!(find(Path::new("out/passwd")).links, [Path::new("out")]);
        for path in ["..", "a/../../x", "/etc/passwd", "out", "out/passwd", "circle", "circle/x"] {
            assert_eq!(target(path), None, "{path}");
        }
    }
}
