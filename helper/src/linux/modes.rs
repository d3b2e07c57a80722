//! The set-group-id bit, where the jail can write files of the host.
//!
//! On a file it would lend the launcher's group to whoever runs it. On a directory it is harmless, and programs that copy
//! or unpack one set it. A filter cannot tell one from the other, so the kernel asks, and the supervisor does what was
//! asked, by a descriptor that can be of nothing but a directory. It never lets the call itself go on: by then a path or
//! a number could stand for something else. It does so as the jail's user and through the jail's mounts, so that whatever
//! the jail makes of paths and descriptors meanwhile, it only gets what it could do itself to one of its directories.

use super::follow::{Follower, Root, is_open_as};
use super::mount_table::MountTable;
use super::tree;
use super::view::{Access, View};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat};
use nix::libc::{self, c_long, seccomp_notif};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::Uid;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The calls that change a mode, and which of their arguments it is.
#[cfg(target_arch = "x86_64")]
pub(super) const CALLS: [(c_long, usize); 4] =
    [(libc::SYS_chmod, 1), (libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (SYS_FCHMODAT2, 2)];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const CALLS: [(c_long, usize); 3] =
    [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (SYS_FCHMODAT2, 2)];
/// The same number on every architecture (Linux 6.6).
const SYS_FCHMODAT2: c_long = 452;

/// Where the command may write what is the host's, as its own paths.
pub(super) fn roots(view: &View) -> Vec<Root> {
    let writable = view.entries.iter().filter(|entry| entry.access == Access::Writable);
    writable.map(|entry| Root { path: entry.path.clone(), place: None }).collect()
}

/// Does what `question` asks for, if it is about a directory. `waits` tells whether whoever asks still does.
pub(super) fn change(question: &seccomp_notif, roots: &[Root], waits: impl Fn() -> bool) -> nix::Result<()> {
    let task = Task::open(question, waits)?;
    let call = c_long::from(question.data.nr);
    let mode = CALLS.iter().find(|(known, _)| *known == call).and_then(|(_, at)| question.data.args.get(*at));
    let mode = Mode::from_bits_truncate(*mode.ok_or(Errno::EPERM)? as u32 & !libc::S_ISUID);
    let directory = task.directory(call, &question.data.args, roots)?;
    let stat = fstat(&directory)?;
    // The kernel says the same of its owner, unless the launcher has privileges over others' files.
    if stat.st_mode & libc::S_IFMT != libc::S_IFDIR || stat.st_uid != Uid::effective().as_raw() {
        return Err(Errno::EPERM);
    }
    tree::change_mode(directory.as_fd(), mode)
}

/// The `/proc` directory of whoever asks.
pub(super) struct Task(OwnedFd);

impl AsFd for Task {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Task {
    /// `waits` tells whether whoever asks still does.
    pub(super) fn open(question: &seccomp_notif, waits: impl Fn() -> bool) -> nix::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let task = open(format!("/proc/{}", question.pid).as_str(), flags, Mode::empty()).map_err(unknown)?;
        // Its number may have gone to another one before it was opened; now that cannot happen any more.
        if waits() { Ok(Task(task)) } else { Err(Errno::ESRCH) }
    }

    fn directory(&self, call: c_long, arguments: &[u64; 6], roots: &[Root]) -> nix::Result<OwnedFd> {
        // The kernel takes the lower half of descriptors and flags.
        let [first, third] = [arguments[0] as i32, arguments[3] as i32];
        match call {
            libc::SYS_fchmod => self.descriptor(first, roots),
            libc::SYS_fchmodat => self.path(first, &self.text(arguments[1])?, 0, roots),
            SYS_FCHMODAT2 => self.path(first, &self.text(arguments[1])?, third, roots),
            // Only chmod(2) is left.
            _ => self.path(libc::AT_FDCWD, &self.text(arguments[0])?, 0, roots),
        }
    }

    /// What it has open under a number, found once more by its path: of what file system that is, is up to the command.
    fn descriptor(&self, number: i32, roots: &[Root]) -> nix::Result<OwnedFd> {
        let place = self.follow(&self.path_of(number)?, false, roots)?;
        // Another directory may have that name by now.
        if is_open_as(self.as_fd(), number, place.as_fd()) { Ok(place) } else { Err(Errno::EPERM) }
    }

    /// The path of what it has open under a number.
    pub(super) fn path_of(&self, number: i32) -> nix::Result<PathBuf> {
        match self.start(number) {
            Err(Errno::ENOTDIR) => Err(Errno::EPERM),
            path => path,
        }
    }

    /// Looks a path up as whoever asks would, but never out of its root.
    fn path(&self, from: i32, path: &Path, flags: i32, roots: &[Root]) -> nix::Result<OwnedFd> {
        if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(Errno::EINVAL);
        }
        if path.as_os_str().is_empty() {
            return match flags & libc::AT_EMPTY_PATH {
                0 => Err(Errno::ENOENT),
                _ if from == libc::AT_FDCWD => self.path(from, Path::new("."), 0, roots),
                _ => self.descriptor(from, roots),
            };
        }
        if let Some(number) = own_descriptor(path) {
            return self.descriptor(number, roots);
        }
        let path = if path.is_absolute() { path.to_path_buf() } else { self.start(from)?.join(path) };
        self.follow(&path, flags & libc::AT_SYMLINK_NOFOLLOW == 0, roots)
    }

    fn follow(&self, path: &Path, is_followed: bool, roots: &[Root]) -> nix::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let top = openat(&self.0, "root", flags, Mode::empty()).map_err(unknown)?;
        let follower = Follower { top: top.as_fd(), roots, mounts: &|| self.mounts() };
        follower.follow(path, is_followed).map(|reached| reached.file).map_err(no_directory)
    }

    fn mounts(&self) -> Option<MountTable> {
        let table = openat(&self.0, "mountinfo", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
        MountTable::of(File::from(table)).ok()
    }

    /// Where relative paths begin, as a path from its root. If that is renamed meanwhile, it is another directory of the
    /// jail.
    pub(super) fn start(&self, from: i32) -> nix::Result<PathBuf> {
        let link = if from == libc::AT_FDCWD { "cwd".to_owned() } else { format!("fd/{from}") };
        let path = readlinkat(&self.0, link.as_str()).map_err(|error| match error {
            Errno::ENOENT => Errno::EBADF,
            other => unknown(other),
        })?;
        // Of a pipe, say, it is no path.
        Some(PathBuf::from(path)).filter(|path| path.is_absolute()).ok_or(Errno::ENOTDIR)
    }

    /// Bytes of its memory, as many as there are.
    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> nix::Result<usize> {
        let memory = openat(&self.0, "mem", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
        File::from(memory.map_err(unknown)?).read_at(bytes, address).map_err(|_| Errno::EFAULT)
    }

    /// A path in its memory.
    pub(super) fn text(&self, address: u64) -> nix::Result<PathBuf> {
        let mut bytes = [0; libc::PATH_MAX as usize];
        let length = self.read(address, &mut bytes)?;
        match CStr::from_bytes_until_nul(bytes.get(..length).unwrap_or_default()) {
            Ok(text) => Ok(PathBuf::from(OsStr::from_bytes(text.to_bytes()))),
            Err(_) if length == bytes.len() => Err(Errno::ENAMETOOLONG),
            Err(_) => Err(Errno::EFAULT),
        }
    }
}

/// The number in `/proc/self/fd/NUMBER`, by which C libraries change modes without following links. For the supervisor
/// `self` is another.
pub(super) fn own_descriptor(path: &Path) -> Option<i32> {
    let number = path.to_str()?.strip_prefix("/proc/self/fd/")?;
    number.parse().ok().filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Anything but a directory is refused as by a filter.
fn no_directory(error: Errno) -> Errno {
    match error {
        Errno::ENOTDIR | Errno::EXDEV => Errno::EPERM,
        other => other,
    }
}

/// What cannot be found out, because the host does not let the supervisor look or whoever asks is gone.
fn unknown(_: Errno) -> Errno {
    Errno::EPERM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_descriptors_are_plain_numbers() {
        for (path, number) in [("/proc/self/fd/0", Some(0)), ("/proc/self/fd/12", Some(12))] {
            assert_eq!(own_descriptor(Path::new(path)), number, "{path}");
        }
        for path in [
            "/proc/self/fd/",
            "/proc/self/fd/-1",
            "/proc/self/fd/+1",
            "/proc/self/fd/1/x",
            "fd/1",
            "/proc/self/fd/99999999999",
        ] {
            assert_eq!(own_descriptor(Path::new(path)), None, "{path}");
        }
    }
}
