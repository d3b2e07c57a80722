//! Modes and times of files, in a jail without namespaces that runs as an ordinary user.
//!
//! Landlock does not know them, so that the command could change those of every file of the user's. The kernel asks before
//! it does, and the supervisor does what was asked, by a descriptor of a file that the command may write, or that it has found
//! below such a directory: no path leads out of there, and none to a file system that may not answer. It never lets the call
//! itself go on: by then a path or a number could stand for something else.

use super::follow::{Follower, Root, is_open_as};
use super::modes::{Task, own_descriptor};
use super::mount_table::MountTable;
use super::{proc_files, tree};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::libc::{self, c_long, seccomp_notif};
use nix::sys::stat::{Mode, UtimensatFlags, fstat, utimensat};
use nix::sys::time::TimeSpec;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

const STEP: &str = "attributes";

/// The calls. Older ones for times are refused: C libraries use this one.
#[cfg(target_arch = "x86_64")]
pub(super) const CALLS: &[c_long] =
    &[libc::SYS_chmod, libc::SYS_fchmod, libc::SYS_fchmodat, SYS_FCHMODAT2, libc::SYS_utimensat];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const CALLS: &[c_long] =
    &[libc::SYS_fchmod, libc::SYS_fchmodat, SYS_FCHMODAT2, libc::SYS_utimensat];
/// The same number on every architecture (Linux 6.6).
const SYS_FCHMODAT2: c_long = 452;

/// What is to be changed.
enum Change {
    Mode(Mode),
    /// Of the last access and of the last modification.
    Times([TimeSpec; 2]),
}

/// Does what `question` asks for, if it is about something below one of `roots`. `waits` tells whether whoever asks still
/// does.
pub(super) fn change(question: &seccomp_notif, roots: &[Root], waits: impl Fn() -> bool) -> nix::Result<()> {
    let task = Task::open(question, waits)?;
    let call = c_long::from(question.data.nr);
    let [first, second, third, fourth, ..] = question.data.args;
    let change = match call {
        libc::SYS_utimensat => Change::Times(times(&task, third)?),
        libc::SYS_fchmodat | SYS_FCHMODAT2 => Change::Mode(Mode::from_bits_truncate(third as u32)),
        // chmod(2) and fchmod(2).
        _ => Change::Mode(Mode::from_bits_truncate(second as u32)),
    };
    // The kernel takes the lower half of descriptors and flags.
    let (number, flags) = (first as i32, fourth as i32);
    let place = match call {
        libc::SYS_fchmod => of_descriptor(&task, roots, number)?,
        // futimens(3)
        libc::SYS_utimensat if second == 0 => of_descriptor(&task, roots, number)?,
        libc::SYS_fchmodat => of_path(&task, roots, number, &task.text(second)?, 0)?,
        SYS_FCHMODAT2 | libc::SYS_utimensat => of_path(&task, roots, number, &task.text(second)?, flags)?,
        // Only chmod(2) is left.
        _ => of_path(&task, roots, libc::AT_FDCWD, &task.text(first)?, 0)?,
    };
    apply(&place, &change)
}

fn apply(place: &OwnedFd, change: &Change) -> nix::Result<()> {
    match change {
        Change::Mode(mode) => {
            let is_directory = fstat(place)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
            // On a directory the group's bit is harmless, and programs that copy or unpack one set it.
            if mode.contains(Mode::S_ISUID) || (mode.contains(Mode::S_ISGID) && !is_directory) {
                return Err(Errno::EPERM);
            }
            tree::change_mode(place.as_fd(), *mode)
        }
        Change::Times([access, modification]) => {
            let path = proc_files::of_descriptor(place.as_fd());
            utimensat(AT_FDCWD, path.as_str(), access, modification, UtimensatFlags::FollowSymlink)
        }
    }
}

/// Two of `struct timespec` in its memory, or now.
fn times(task: &Task, address: u64) -> nix::Result<[TimeSpec; 2]> {
    if address == 0 {
        return Ok([TimeSpec::UTIME_NOW; 2]);
    }
    let mut bytes = [0; 32];
    if task.read(address, &mut bytes)? < bytes.len() {
        return Err(Errno::EFAULT);
    }
    match *bytes.as_chunks::<8>().0 {
        [access, access_nanos, modification, modification_nanos] => {
            let time = |seconds, nanos| TimeSpec::new(i64::from_ne_bytes(seconds), i64::from_ne_bytes(nanos));
            Ok([time(access, access_nanos), time(modification, modification_nanos)])
        }
        _ => Err(Errno::EFAULT),
    }
}

/// What it has open under a number, found once more by its path: of what file system that is, is up to the command.
fn of_descriptor(task: &Task, roots: &[Root], number: i32) -> nix::Result<OwnedFd> {
    let place = beneath(roots, &task.path_of(number)?, libc::AT_SYMLINK_NOFOLLOW)?;
    // Another file may have that name by now.
    if is_open_as(task.as_fd(), number, place.as_fd()) { Ok(place) } else { Err(Errno::EPERM) }
}

fn of_path(task: &Task, roots: &[Root], from: i32, path: &Path, flags: i32) -> nix::Result<OwnedFd> {
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    if path.as_os_str().is_empty() {
        return match flags & libc::AT_EMPTY_PATH {
            0 => Err(Errno::ENOENT),
            _ if from == libc::AT_FDCWD => of_path(task, roots, from, Path::new("."), 0),
            _ => of_descriptor(task, roots, from),
        };
    }
    if let Some(number) = own_descriptor(path) {
        return of_descriptor(task, roots, number);
    }
    let path = if path.is_absolute() { path.to_path_buf() } else { task.start(from)?.join(path) };
    beneath(roots, &path, flags)
}

/// Mostly the path says itself that it is below a root, and then the kernel sees to it that nothing leads out of there or to
/// another file system. Otherwise it is followed step by step.
fn beneath(roots: &[Root], path: &Path, flags: i32) -> nix::Result<OwnedFd> {
    let is_followed = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    let mut open_flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    open_flags.set(OFlag::O_NOFOLLOW, !is_followed);
    let resolve =
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(open_flags).resolve(resolve);
    let below = |root: &'_ Root| {
        let below = path.strip_prefix(&root.path).ok().filter(|below| !below.as_os_str().is_empty())?;
        Some(openat2(root.place.as_ref()?, below, how))
    };
    match roots.iter().find_map(below) {
        // Out of there, or in the middle of being renamed.
        None | Some(Err(Errno::EXDEV | Errno::EAGAIN)) => {}
        Some(opened) => return opened,
    }
    let top = open("/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let mounts = || MountTable::of_this_process(STEP).ok();
    let reached = Follower { top: top.as_fd(), roots, mounts: &mounts }.follow(path, is_followed)?;
    if reached.is_inside { Ok(reached.file) } else { Err(Errno::EPERM) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_leads_out_of_a_root() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("root/a")).unwrap();
        fs::create_dir(top.join("rooted")).unwrap();
        for file in ["root/a/inside", "outside", "rooted/beside"] {
            fs::write(top.join(file), "").unwrap();
        }
        symlink("../outside", top.join("root/out")).unwrap();
        symlink(top.join("outside"), top.join("root/absolute")).unwrap();
        symlink("a/inside", top.join("root/in")).unwrap();
        symlink("..", top.join("root/up")).unwrap();
        symlink("root", top.join("spelling")).unwrap();
        symlink("../shown", top.join("root/shown")).unwrap();
        fs::write(top.join("shown"), "").unwrap();
        fs::write(top.join("replaced"), "").unwrap();
        let root = |name| {
            let path = top.join(name);
            Root { place: Some(File::open(&path).unwrap().into()), path }
        };
        let roots = ["root", "shown", "replaced"].map(root);
        fs::rename(top.join("outside"), top.join("replaced")).unwrap();
        fs::write(top.join("outside"), "").unwrap();
        let found = |path: &str, flags| beneath(&roots, &top.join(path), flags).map(drop);
        for inside in [
            "root",
            "root/.",
            "root/a",
            "root/a/inside",
            "root/in",
            "spelling/a/inside",
            "root/a/../in",
            "shown",
            "root/shown",
        ] {
            assert_eq!(found(inside, 0), Ok(()), "{inside}");
        }
        for outside in [
            "outside",
            "root/../outside",
            "root/up/outside",
            "root/out",
            "root/absolute",
            "root/up",
            "rooted/beside",
            "replaced",
        ] {
            assert_eq!(found(outside, 0), Err(Errno::EPERM), "{outside}");
        }
        // A link itself is in there, wherever it leads.
        assert_eq!(found("root/out", libc::AT_SYMLINK_NOFOLLOW), Ok(()));
        assert_eq!(found("root/none", 0), Err(Errno::ENOENT));
    }

    #[test]
    fn no_mode_lends_an_identity() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let place = |path: &Path| OwnedFd::from(File::open(path).unwrap());
        let set = |path: &Path, mode| apply(&place(path), &Change::Mode(Mode::from_bits_truncate(mode)));
        assert_eq!(set(&file, 0o755), Ok(()));
        assert_eq!((set(&file, 0o4755), set(&file, 0o2755)), (Err(Errno::EPERM), Err(Errno::EPERM)));
        assert_eq!(
            (set(directory.path(), 0o2755), set(directory.path(), 0o4755)),
            (Ok(()), Err(Errno::EPERM))
        );
    }
}
