//! Where a path of the host leads. It is followed once, and what is there is judged by one descriptor: a neighbour can put
//! a link in the place of a directory at any time.

use super::proc_files;
use crate::error::{Result, policy};
use agentkit_protocol::Failure;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat, openat2, readlink};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, fstat};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows in one path, see path_resolution(7).
const MOST_LINKS: usize = 40;

/// What a path led to, in one moment.
pub(crate) struct Sight {
    /// Its path without links.
    pub(crate) real: PathBuf,
    stat: FileStat,
}

impl Sight {
    pub(crate) fn is_dir(&self) -> bool {
        self.kind() == libc::S_IFDIR
    }

    /// A regular file with an execute bit. Who may use it is seen inside, where its user is another.
    pub(crate) fn is_program(&self) -> bool {
        self.kind() == libc::S_IFREG && self.stat.st_mode & 0o111 != 0
    }

    /// Device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.stat.st_dev, self.stat.st_ino)
    }

    fn kind(&self) -> libc::mode_t {
        self.stat.st_mode & libc::S_IFMT
    }
}

/// Follows a path as the kernel does, for three calls.
pub(crate) fn look(path: &Path) -> io::Result<Sight> {
    let file = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let stat = fstat(&file)?;
    let real = readlink(proc_files::of_descriptor(file.as_fd()).as_str())?;
    // What the kernel says of a current directory, for instance, that was removed.
    if stat.st_nlink == 0 && real.as_bytes().ends_with(b" (deleted)") {
        return Err(Errno::ENOENT.into());
    }
    Ok(Sight { real: real.into(), stat })
}

/// Opens what stands at a real path, which may be a link itself. `ELOOP` means that one was put on the way there since.
pub(crate) fn open_real(path: &Path) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    match openat2(AT_FDCWD, path, how) {
        Err(Errno::ENOSYS) => open_step_by_step(path),
        opened => Ok(opened?),
    }
}

/// The same by older calls: before Linux 5.6, and inside of a jail, whose filter cannot look at what openat2(2) is asked
/// for.
fn open_step_by_step(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let mut place = open("/", flags, Mode::empty())?;
    for name in names(path) {
        place = match openat(&place, name.as_os_str(), flags, Mode::empty()) {
            Err(Errno::ENOTDIR) if is_link(&place)? => return Err(Errno::ELOOP.into()),
            opened => opened?,
        };
    }
    Ok(place)
}

fn is_link(place: &OwnedFd) -> io::Result<bool> {
    Ok(fstat(place)?.st_mode & libc::S_IFMT == libc::S_IFLNK)
}

/// An error at a path that was judged before tells of whoever can change what leads there, and nothing of this host: it must
/// bring about no lesser jail.
pub(crate) fn judged<T>(path: &Path, result: io::Result<T>) -> Result<io::Result<T>> {
    match result {
        Err(error) if is_change(&error) => Err(replaced(path)),
        result => Ok(result),
    }
}

/// Whether what was there need only have been renamed or replaced.
pub(crate) fn is_change(error: &io::Error) -> bool {
    let changes = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::ESTALE];
    error.raw_os_error().is_some_and(|errno| changes.contains(&errno))
}

/// Somebody was faster.
pub(crate) fn replaced(path: &Path) -> Failure {
    policy(format_args!("{path:?} was replaced while the jail was being set up"))
}

/// Whether an error says nothing about what was looked at, but that the host has too little to look.
pub(crate) fn is_scarcity(error: &io::Error) -> bool {
    let scarce = [libc::EAGAIN, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    error.raw_os_error().is_some_and(|errno| scarce.contains(&errno))
}

/// An absolute path without empty parts or a slash at its end.
pub(crate) fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// The links on the way from an absolute path to the `real` one that was found for it: where, and what they say.
pub(crate) fn links_between(path: &Path, real: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let (links, end) = links_on(path);
    if end == real { Ok(links) } else { Err(replaced(path)) }
}

/// The links that resolving an absolute path goes through, by their real places, and where it ends.
fn links_on(path: &Path) -> (Vec<(PathBuf, PathBuf)>, PathBuf) {
    let mut links = Vec::new();
    let mut resolved = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(path).collect();
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&name);
        let Ok(says) = std::fs::read_link(&next) else {
            resolved = next;
            continue;
        };
        if links.len() == MOST_LINKS {
            break;
        }
        if says.is_absolute() {
            resolved = PathBuf::from("/");
        }
        for name in names(&says).collect::<Vec<_>>().into_iter().rev() {
            ahead.push_front(name);
        }
        links.push((next, says));
    }
    (links, resolved)
}

/// The parts of a path, each a plain name or `..`.
pub(crate) fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir_all;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_found_at_its_real_place() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        create_dir_all(root.join("a/b/c")).unwrap();
        symlink("b", root.join("a/first")).unwrap();
        symlink(root.join("a/first/../first"), root.join("second")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let (found, end) = links_on(&root.join("second/c/nothing"));
        let first = (root.join("a/first"), PathBuf::from("b"));
        assert_eq!(found, [(root.join("second"), root.join("a/first/../first")), first.clone(), first]);
        assert_eq!(end, root.join("a/b/c/nothing"));
        assert_eq!(links_on(&root.join("a/b/c")).0, []);
        assert_eq!(links_on(&root.join("loop/x")).0.len(), MOST_LINKS);
    }

    #[test]
    fn older_calls_open_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        create_dir_all(root.join("a/b")).unwrap();
        symlink("a", root.join("link")).unwrap();
        let id = |opened: io::Result<OwnedFd>| {
            opened.and_then(|place| Ok(fstat(place)?.st_ino)).map_err(|error| error.raw_os_error())
        };
        for path in ["a", "a/b", "link", "link/b", "a/none", "none/b"] {
            let path = root.join(path);
            assert_eq!(id(open_step_by_step(&path)), id(open_real(&path)), "{path:?}");
        }
        assert_eq!(id(open_step_by_step(&root.join("link/b"))), Err(Some(libc::ELOOP)));
    }

    /// What was judged is the one directory and its path; whatever a name leads to afterwards is neither.
    #[test]
    fn a_name_is_followed_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        create_dir_all(root.join("own/sub")).unwrap();
        create_dir_all(root.join("other/sub")).unwrap();
        symlink("own", root.join("link")).unwrap();
        let sight = look(&root.join("link/sub")).unwrap();
        assert_eq!((&sight.real, sight.is_dir(), sight.is_program()), (&root.join("own/sub"), true, false));
        assert_eq!(links_between(&root.join("link/sub"), &sight.real).unwrap().len(), 1);
        assert_eq!(fstat(open_real(&sight.real).unwrap()).unwrap().st_ino, sight.identity().1);

        std::fs::rename(root.join("own"), root.join("moved")).unwrap();
        symlink("other", root.join("own")).unwrap();
        assert_eq!(open_real(&sight.real).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert!(links_between(&root.join("link/sub"), &sight.real).is_err());
        // A link in the last place is opened as such: some are shown.
        assert_eq!(
            fstat(open_real(&root.join("own")).unwrap()).unwrap().st_mode & libc::S_IFMT,
            libc::S_IFLNK
        );
    }
}
