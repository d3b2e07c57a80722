//! What a commit does on the host, one name at a time. Each file, link and directory appears complete or not at all.

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, futimens};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, Whence, lseek, symlinkat, unlinkat};
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

/// More than anybody leaves behind.
const MOST_TRIES: u32 = 1000;
/// Lent privileges and the sticky bit are never taken over.
pub(super) const PERMISSIONS: u32 = 0o777;

/// Puts a copy of `source` in the place of whatever but a directory has that name.
pub(super) fn put_file(source: File, stat: &FileStat, host: BorrowedFd, name: &CStr) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let make = |name: &CStr| openat(host, name, flags, Mode::S_IRUSR | Mode::S_IWUSR);
    put(host, name, make, |fd| fill(source, &File::from(fd), stat))
}

/// Puts a link that says `target` there.
pub(super) fn put_link(target: &OsStr, host: BorrowedFd, name: &CStr) -> io::Result<()> {
    put(host, name, |name| symlinkat(target, host, name), |()| Ok(()))
}

/// Makes it under another name, finishes it, and only then gives it its own.
fn put<T>(
    host: BorrowedFd,
    name: &CStr,
    make: impl Fn(&CStr) -> nix::Result<T>,
    finish: impl FnOnce(T) -> io::Result<()>,
) -> io::Result<()> {
    let (temporary, made) = make_temporary(make)?;
    let put = finish(made).and_then(|()| Ok(renameat(host, &*temporary, host, name)?));
    put.inspect_err(|_| {
        // The first error is the one to tell.
        let _ = unlinkat(host, &*temporary, UnlinkatFlags::NoRemoveDir);
    })
}

fn make_temporary<T>(make: impl Fn(&CStr) -> nix::Result<T>) -> io::Result<(CString, T)> {
    for number in 0..MOST_TRIES {
        let name = CString::new(format!(".agentkit-commit-{}-{number}", std::process::id()))?;
        match make(&name) {
            Err(Errno::EEXIST) => {}
            made => return Ok((name, made?)),
        }
    }
    Err(Errno::EEXIST.into())
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
        io::copy(&mut Read::by_ref(source).take((end - begin).unsigned_abs()), &mut target)?;
    }
}

/// Gives the directory the permissions of `stat`, and its owner all of them for as long as we work in it. Returns the
/// mode to be set at the end, if that is another one.
pub(super) fn open_up(directory: BorrowedFd, stat: &FileStat) -> io::Result<Option<Mode>> {
    let now = fstat(directory)?.st_mode & 0o7777;
    // The bit by which new files get the directory's group, for one, is the host's own.
    let wanted = now & !PERMISSIONS | stat.st_mode & PERMISSIONS;
    if now != wanted | 0o700 {
        fchmod(directory, Mode::from_bits_truncate(wanted | 0o700))?;
    }
    Ok((wanted & 0o700 != 0o700).then(|| Mode::from_bits_truncate(wanted)))
}
