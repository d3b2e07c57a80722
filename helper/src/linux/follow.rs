//! Where a path of the command's leads, for the supervisor.
//!
//! Whoever does something for the command must not wait for a file system that does not answer, a dead sshfs or NFS: nothing
//! else is done meanwhile, not even the limits are looked at. So a path is followed name by name, and on to another mount
//! only where the supervisor has been before, or where the kernel has the file system to itself.

use super::mount_table::{MountTable, plain};
use super::proc_files;
use super::resolve::names;
use super::tree::FileId;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, fstat};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// As many as the kernel follows in one path, see path_resolution(7).
const MOST_LINKS: usize = 40;
/// Beyond that the supervisor has other things to do.
const MOST_STEPS: usize = 1024;

/// A directory or a file that the command may write.
pub(crate) struct Root {
    /// Its real path, as the command sees it.
    pub(crate) path: PathBuf,
    /// The place itself, where it is known outside.
    pub(crate) place: Option<OwnedFd>,
}

/// What paths are followed in.
pub(super) struct Follower<'a> {
    /// What the command calls `/`.
    pub(super) top: BorrowedFd<'a>,
    pub(super) roots: &'a [Root],
    /// What is mounted there; seldom needed.
    pub(super) mounts: &'a dyn Fn() -> Option<MountTable>,
}

/// How far it has come.
pub(super) struct Place {
    /// Without links.
    path: PathBuf,
    pub(super) file: OwnedFd,
    stat: FileStat,
    /// In one of the roots, which it came to from above.
    pub(super) is_inside: bool,
}

impl Place {
    fn is_link(&self) -> bool {
        self.stat.st_mode & libc::S_IFMT == libc::S_IFLNK
    }
}

impl Follower<'_> {
    /// Opens what an absolute path leads to, through every link but, unless it is followed, the last one. Nothing that it comes
    /// by has to be as it was when it is there; but whatever is said to be inside was found by names alone, from a root
    /// downwards.
    pub(super) fn follow(&self, path: &Path, is_followed: bool) -> nix::Result<Place> {
        let mut ahead: VecDeque<OsString> = names(path).collect();
        let (mut at, mut steps, mut links) = (self.start()?, 0_usize, 0_usize);
        while let Some(name) = ahead.pop_front() {
            steps = steps.saturating_add(1);
            if steps > MOST_STEPS || links > MOST_LINKS {
                return Err(Errno::ELOOP);
            }
            if name == ".." {
                // From the top, by which it is known where that is.
                prepend(&mut ahead, at.path.parent().unwrap_or(Path::new("/")));
                at = self.start()?;
                continue;
            }
            let next = self.step(&at, &name)?;
            if next.is_link() && (is_followed || !ahead.is_empty()) {
                links = links.saturating_add(1);
                let says = PathBuf::from(readlinkat(&next.file, "")?);
                prepend(&mut ahead, &says);
                if says.is_absolute() {
                    at = self.start()?;
                }
                continue;
            }
            at = next;
        }
        Ok(at)
    }

    fn start(&self) -> nix::Result<Place> {
        let file = self.top.try_clone_to_owned().map_err(|_| Errno::EMFILE)?;
        Ok(Place { path: "/".into(), stat: fstat(&file)?, file, is_inside: false })
    }

    /// What has that name in a directory.
    fn step(&self, at: &Place, name: &OsStr) -> nix::Result<Place> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let resolve = ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS;
        let path = at.path.join(name);
        let root = self.roots.iter().find(|root| root.path == path);
        let own = root.and_then(|root| root.place.as_ref());
        let (file, is_root) =
            match (openat2(&at.file, name, OpenHow::new().flags(flags).resolve(resolve)), own) {
                // What is mounted there is not looked at: the root is what it was when it was judged.
                (Err(Errno::EXDEV), Some(own)) => (duplicate(own)?, true),
                (Err(Errno::EXDEV), None) if self.may_cross(at, name, &path) => {
                    (openat(&at.file, name, flags, Mode::empty())?, root.is_some())
                }
                (Err(Errno::EXDEV), None) => return Err(Errno::EPERM),
                // Another file may have that name by now.
                (Ok(found), Some(own)) if FileId::of(&fstat(&found)?) != FileId::of(&fstat(own)?) => {
                    (found, false)
                }
                (Ok(_), Some(own)) => (duplicate(own)?, true),
                (opened, None) => (opened?, root.is_some()),
                (Err(error), _) => return Err(error),
            };
        Ok(Place { path, stat: fstat(&file)?, file, is_inside: at.is_inside || is_root })
    }

    /// Whether what is mounted on this name answers. The command can move in its roots what lies above a mount, but not what
    /// it is mounted on: there the name alone says which one it may be.
    fn may_cross(&self, at: &Place, name: &OsStr, path: &Path) -> bool {
        if !at.is_inside && self.roots.iter().any(|root| root.path.starts_with(path)) {
            return true;
        }
        let Some(table) = (self.mounts)() else { return false };
        let mut here = table.lines().filter(|line| plain(line.point).file_name() == Some(name)).peekable();
        here.peek().is_some() && here.all(|line| line.is_the_kernels_own())
    }
}

fn prepend(ahead: &mut VecDeque<OsString>, path: &Path) {
    names(path).collect::<Vec<_>>().into_iter().rev().for_each(|name| ahead.push_front(name));
}

pub(super) fn duplicate(place: &OwnedFd) -> nix::Result<OwnedFd> {
    place.try_clone().map_err(|_| Errno::EMFILE)
}

/// Whether a process has open under a number what `place` is, without a question to its file system. Before Linux 5.14 only
/// the mount is known.
pub(super) fn is_open_as(task: BorrowedFd, number: i32, place: BorrowedFd) -> bool {
    let which = |directory: BorrowedFd, path: String| {
        let file =
            openat(directory, path.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
        let text = proc_files::read_all(File::from(file)).ok()?;
        let field = |name| proc_files::status_field(&text, name).map(str::to_owned);
        Some((field("mnt_id")?, field("ino")))
    };
    let own = format!("/proc/self/fdinfo/{}", place.as_raw_fd());
    let theirs = which(task, format!("fdinfo/{number}"));
    theirs.is_some() && theirs == which(place, own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_that_lead_nowhere_come_to_an_end() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        symlink("loop", top.join("loop")).unwrap();
        std::fs::create_dir(top.join("d")).unwrap();
        let slash = File::open("/").unwrap();
        let follower = Follower {
            top: slash.as_fd(),
            roots: &[],
            mounts: &|| MountTable::read("/proc/self/mountinfo", "test").ok(),
        };
        let fails = |path: PathBuf| follower.follow(&path, true).map(drop).unwrap_err();
        assert_eq!(fails(top.join("loop")), Errno::ELOOP);
        assert_eq!(fails(top.join("d/../".repeat(500))), Errno::ELOOP);
        assert_eq!(fails(top.join("none/..")), Errno::ENOENT);
        assert!(follower.follow(&top.join("loop"), false).unwrap().is_link());
    }

    #[test]
    fn only_to_mounts_that_answer() {
        let slash = File::open("/").unwrap();
        let of = |kind: &str, others: &str| {
            let table = format!("9 1 0:9 / /proc rw - {kind} x rw\n{others}");
            let mounts = || Some(MountTable::from(table.clone()));
            Follower { top: slash.as_fd(), roots: &[], mounts: &mounts }
                .follow(Path::new("/proc/version"), true)
                .map(drop)
        };
        assert_eq!(of("tmpfs", ""), Ok(()));
        assert_eq!(of("fuse.sshfs", ""), Err(Errno::EPERM));
        // It can come to be in the place of the other.
        assert_eq!(of("tmpfs", "8 1 0:8 / /srv/proc rw - nfs4 x rw\n"), Err(Errno::EPERM));
        let root = Root { path: "/proc/version".into(), place: None };
        let known = Follower { top: slash.as_fd(), roots: &[root], mounts: &|| None };
        assert!(known.follow(Path::new("/proc/version"), true).unwrap().is_inside);
        assert!(!known.follow(Path::new("/proc/version/.."), true).is_ok_and(|place| place.is_inside));
    }

    #[test]
    fn what_is_open_is_known_by_its_number() {
        let (one, other) = (File::open("/").unwrap(), File::open("/proc").unwrap());
        let task = File::open("/proc/self").unwrap();
        let is_open = |place: &File| is_open_as(task.as_fd(), one.as_raw_fd(), place.as_fd());
        assert!(is_open(&File::open("/").unwrap()) && !is_open(&other));
    }
}
