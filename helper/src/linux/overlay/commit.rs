//! What a commit does on the host, one name at a time. Each file, link and directory appears complete or not at all.

use super::entry::{kind, unlock};
use crate::linux::tree::{self, Bounds, Kind, Step, Trail, open_directory};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, fchmod, fchmodat, fstatat, futimens};
use nix::sys::time::TimeSpec;
use nix::unistd::{Whence, linkat, lseek};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Lent privileges and the sticky bit are never taken over.
pub(super) const PERMISSIONS: u32 = 0o777;

/// Makes a copy of `source` under a name that is free.
pub(super) fn make_file(source: File, stat: &FileStat, directory: BorrowedFd, name: &CStr) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = openat(directory, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
    fill(source, &File::from(file), stat)
}

/// The same for a file of several names: all of them become names of one copy, which `shared` has from the first on.
/// Otherwise a few bytes of the run's disk limit would be many on the host.
pub(super) fn make_shared_file(
    source: File,
    stat: &FileStat,
    shared: BorrowedFd,
    directory: BorrowedFd,
    name: &CStr,
) -> io::Result<()> {
    let number = CString::new(stat.st_ino.to_string())?;
    match make_file(source, stat, shared, &number) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    Ok(linkat(shared, &*number, directory, name, AtFlags::empty())?)
}

/// Whether there is a name in a directory, at any depth, for which `keep` says so, by the way to it.
pub(super) fn holds(
    host: BorrowedFd,
    name: &CStr,
    deadline: Instant,
    keep: impl Fn(&Trail, &CStr) -> bool,
) -> io::Result<bool> {
    let mut walk = tree::Walk::new(open_directory(host, name)?.as_fd(), Bounds::until(deadline))?;
    while let Some(step) = walk.next()? {
        match step {
            Step::Entry(name, _) | Step::Directory(name) if keep(walk.trail(), &name) => return Ok(true),
            Step::Closed(_, error) => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}

/// Gives `name` in `staged` the place of whatever `host` has there, which is in `staged` afterwards if either is a
/// directory. Whatever fails, the host has the one or the other.
pub(super) fn move_in(
    staged: BorrowedFd,
    host: BorrowedFd,
    name: &CStr,
    above: &FileStat,
    below: Option<&FileStat>,
    spare: &CStr,
) -> io::Result<()> {
    let is_directory = |stat: &&FileStat| kind(stat) == Kind::Directory;
    match below {
        Some(below) if is_directory(&below) || is_directory(&above) => {
            if is_directory(&below) {
                // To get another parent, a directory has to be writable.
                unlock(host, name, below, 0o700)?;
            }
            exchange(staged, host, name, spare)?;
        }
        _ => renameat(staged, name, host, name)?,
    }
    if is_directory(&above) {
        let now = fstatat(host, name, AtFlags::AT_SYMLINK_NOFOLLOW)?.st_mode & 0o7777;
        let wanted = Mode::from_bits_truncate(now & !PERMISSIONS | above.st_mode & PERMISSIONS);
        if wanted.bits() != now {
            fchmodat(host, name, wanted, FchmodatFlags::NoFollowSymlink)?;
        }
    }
    Ok(())
}

/// By plain renames: not every file system can do it in one step.
fn exchange(staged: BorrowedFd, host: BorrowedFd, name: &CStr, spare: &CStr) -> nix::Result<()> {
    renameat(staged, name, host, spare)?;
    let exchanged = renameat(host, name, staged, name).and_then(|()| {
        renameat(host, spare, host, name).inspect_err(|_| {
            let _ = renameat(staged, name, host, name);
        })
    });
    exchanged.inspect_err(|_| {
        // The first error is the one to tell.
        let _ = renameat(host, spare, staged, name);
    })
}

fn fill(mut source: File, target: &File, stat: &FileStat) -> io::Result<()> {
    copy_data(&mut source, target, stat.st_size)?;
    fchmod(target, Mode::from_bits_truncate(stat.st_mode & PERMISSIONS))?;
    Ok(futimens(target, &TimeSpec::UTIME_OMIT, &TimeSpec::new(stat.st_mtime, stat.st_mtime_nsec))?)
}

/// Copies what is written and leaves out what is not: a sparse file may be larger than any disk.
fn copy_data(source: &mut File, mut target: &File, size: i64) -> io::Result<()> {
    target.set_len(size.unsigned_abs())?;
    let mut end = 0;
    loop {
        let begin = match lseek(&*source, end, Whence::SeekData) {
            Err(Errno::ENXIO) => return Ok(()),
            begin => begin?,
        };
        end = lseek(&*source, begin, Whence::SeekHole)?;
        lseek(&*source, begin, Whence::SeekSet)?;
        lseek(target, begin, Whence::SeekSet)?;
        io::copy(&mut Read::by_ref(source).take(end.saturating_sub(begin).unsigned_abs()), &mut target)?;
    }
}

/// Gives a directory the permissions of `wanted`, and its owner all of them for as long as we work in it; `now` is its
/// mode. Returns the mode to be set at the end, if that is another one.
pub(super) fn open_up(directory: BorrowedFd, now: u32, wanted: u32) -> io::Result<Option<Mode>> {
    // The bit by which new files get the directory's group, for one, is the host's own.
    let wanted = now & 0o7777 & !PERMISSIONS | wanted & PERMISSIONS;
    if now & 0o7777 != wanted | 0o700 {
        fchmod(directory, Mode::from_bits_truncate(wanted | 0o700))?;
    }
    Ok((wanted & 0o700 != 0o700).then(|| Mode::from_bits_truncate(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::overlay::entry::look;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const NAMES: [&str; 4] = ["file", "link", "directory", "nothing"];

    fn make(path: &std::path::Path, what: &str, content: &str) {
        match what {
            "file" => fs::write(path, content).unwrap(),
            "link" => symlink(content, path).unwrap(),
            "directory" => {
                fs::create_dir(path).unwrap();
                fs::write(path.join(content), "").unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            _ => {}
        }
    }

    /// What tells one of them from another.
    fn content(path: &std::path::Path) -> String {
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        match path.symlink_metadata() {
            Ok(meta) if meta.is_file() => fs::read_to_string(path).unwrap(),
            Ok(meta) if meta.is_symlink() => text(&fs::read_link(path).unwrap()),
            Ok(_) => {
                fs::read_dir(path).unwrap().map(|entry| text(entry.unwrap().file_name().as_ref())).collect()
            }
            Err(_) => "nothing".to_owned(),
        }
    }

    #[test]
    fn anything_takes_the_place_of_anything() {
        for (new, old) in NAMES[..3].iter().flat_map(|new| NAMES.map(|old| (*new, old))) {
            let root = tempfile::tempdir().unwrap();
            let staged = root.path().join("staged");
            fs::create_dir(&staged).unwrap();
            make(&staged.join("x"), new, "new");
            make(&root.path().join("x"), old, "old");
            let (host, from) = (File::open(root.path()).unwrap(), File::open(&staged).unwrap());
            let stat = |directory: &File| look(directory.as_fd(), c"x").unwrap();
            let mut above = stat(&from).unwrap();
            above.st_mode = above.st_mode & !0o777 | 0o711;
            move_in(from.as_fd(), host.as_fd(), c"x", &above, stat(&host).as_ref(), c"spare").unwrap();
            assert_eq!(content(&root.path().join("x")), "new", "{new} for {old}");
            let has_old = [new, old].contains(&"directory") && old != "nothing";
            assert_eq!(
                content(&staged.join("x")),
                if has_old { "old" } else { "nothing" },
                "{new} for {old}"
            );
            assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
            if new == "directory" {
                assert_eq!(stat(&host).unwrap().st_mode & 0o7777, 0o711);
            }
        }
    }

    #[test]
    fn an_exchange_that_fails_leaves_everything_where_it_was() {
        let root = tempfile::tempdir().unwrap();
        let staged = root.path().join("staged");
        fs::create_dir(&staged).unwrap();
        make(&staged.join("x"), "directory", "new");
        let (host, from) = (File::open(root.path()).unwrap(), File::open(&staged).unwrap());
        let absent = exchange(from.as_fd(), host.as_fd(), c"x", c"spare");
        assert_eq!(absent, Err(Errno::ENOENT));
        assert_eq!(
            (content(&staged.join("x")), fs::read_dir(root.path()).unwrap().count()),
            ("new".to_owned(), 1)
        );
    }

    #[test]
    fn a_file_of_several_names_is_copied_once() {
        let root = tempfile::tempdir().unwrap();
        make(&root.path().join("source"), "file", "content");
        let here = File::open(root.path()).unwrap();
        let stat = look(here.as_fd(), c"source").unwrap().unwrap();
        fs::create_dir(root.path().join("shared")).unwrap();
        let shared = File::open(root.path().join("shared")).unwrap();
        for name in [c"one", c"other"] {
            let source = File::open(root.path().join("source")).unwrap();
            make_shared_file(source, &stat, shared.as_fd(), here.as_fd(), name).unwrap();
            assert_eq!(content(&root.path().join(name.to_str().unwrap())), "content");
        }
        let look = |name| look(here.as_fd(), name).unwrap().unwrap();
        assert_eq!((look(c"one").st_ino, look(c"one").st_nlink), (look(c"other").st_ino, 3));
    }
}
