//! One name in a directory, which is never followed if it is a link.

use crate::linux::tree::{Kind, kind_of};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::libc;
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, fchmodat, fstatat};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

pub(super) fn kind(stat: &FileStat) -> Kind {
    kind_of(stat.st_mode)
}

pub(super) fn is_directory(stat: Option<&FileStat>) -> bool {
    stat.is_some_and(|stat| kind(stat) == Kind::Directory)
}

/// What overlayfs puts where something below was deleted: the device 0:0.
pub(super) fn is_whiteout(stat: &FileStat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFCHR && stat.st_rdev == 0
}

/// What is there under a name.
pub(super) fn look(directory: BorrowedFd, name: &CStr) -> io::Result<Option<FileStat>> {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file for reading. What took its place meanwhile, a FIFO for one, does not hold us up.
pub(super) fn open_file(directory: BorrowedFd, name: &CStr) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    Ok(File::from(openat(directory, name, flags, Mode::empty())?))
}

/// Gives the owner, which is us, the permissions of `bits` that it may have taken from itself.
pub(super) fn unlock(directory: BorrowedFd, name: &CStr, stat: &FileStat, bits: u32) -> io::Result<()> {
    if stat.st_mode & bits == bits {
        return Ok(());
    }
    let mode = Mode::from_bits_truncate(stat.st_mode & 0o7777 | bits);
    Ok(fchmodat(directory, name, mode, FchmodatFlags::NoFollowSymlink)?)
}
