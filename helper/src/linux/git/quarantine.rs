//! Where it is moved to: a directory of the work dir that git takes nothing in for a repository.

use super::names::{HEAD, QUARANTINE};
use crate::linux::tree::{Bounds, Kind, Opened, Step, Walk, kind_of, open_directory};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat, fstat, fstatat, mkdirat};
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// In what was moved, so that git takes no part of it for a repository. A number follows if there is one already.
const DISARMED: &str = "HEAD.quarantined";
/// How many names are tried for one thing.
const MOST_TRIES: usize = 1000;

/// The list of what was moved, and how it begins.
const README: &CStr = c"README";
const LONGEST_README: usize = 1 << 20;
const ABOUT: &str = "\
What a run in agentkit-jail made or changed, and programs of the host, git for one, could have executed.
Each line says where it was and where it is, from the work dir. To take something back, look at it, move
it to where it was, and in a directory give each HEAD.quarantined the name HEAD again.

";

/// Where things are moved to.
pub(super) struct Quarantine {
    /// In the work dir.
    name: CString,
    directory: OwnedFd,
    /// Says what came from where, also to whoever did not ask for a report. None where it cannot be made, for the report
    /// says it too, or when it is full: the command must not fill the host's disk by it.
    readme: Option<File>,
    room: usize,
}

impl Quarantine {
    /// A directory that only its owner can enter. It is always a new one: the command may have made one by that name.
    pub(super) fn make(root: BorrowedFd, deadline: Instant) -> io::Result<Self> {
        for number in 0_u64.. {
            let name = if number == 0 { QUARANTINE.to_owned() } else { format!("{QUARANTINE}-{number}") };
            let name = CString::new(name)?;
            match writing(root, || mkdirat(root, name.as_c_str(), Mode::S_IRWXU)) {
                Err(Errno::EEXIST) if Instant::now() < deadline => {}
                result => {
                    result?;
                    let directory = open_directory(root, &name)?;
                    return Ok(Quarantine::at(name, directory));
                }
            }
        }
        Err(Errno::EEXIST.into())
    }

    fn at(name: CString, directory: OwnedFd) -> Self {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let readme = openat(&directory, README, flags, Mode::S_IRUSR | Mode::S_IWUSR).ok().map(File::from);
        let mut quarantine = Quarantine { name, directory, readme, room: LONGEST_README };
        quarantine.note(ABOUT);
        quarantine
    }

    /// Moves a thing here; with the directory that it is in then, and its path.
    pub(super) fn take(&self, from: BorrowedFd, name: &CStr, aside: &CStr) -> io::Result<(OwnedFd, PathBuf)> {
        rename(from, name, self.directory.as_fd(), aside)?;
        let place = Path::new(OsStr::from_bytes(self.name.to_bytes()));
        Ok((self.directory.try_clone()?, place.join(OsStr::from_bytes(aside.to_bytes()))))
    }

    pub(super) fn name(&self) -> &CStr {
        &self.name
    }

    /// Adds to the list of what was moved.
    pub(super) fn note(&mut self, text: &str) {
        let Some(readme) = &mut self.readme else { return };
        let left = self.room.checked_sub(text.len());
        let written = readme.write_all(if left.is_some() { text.as_bytes() } else { b"And more.\n" });
        self.room = left.unwrap_or(0);
        if left.is_none() || written.is_err() {
            self.readme = None;
        }
    }
}

/// Renames without replacing anything, whatever modes the command has left.
fn rename(from: BorrowedFd, name: &CStr, to: BorrowedFd, aside: &CStr) -> nix::Result<()> {
    let rename = || renameat2(from, name, to, aside, RenameFlags::RENAME_NOREPLACE);
    match writing(from, rename) {
        Err(Errno::EACCES) => {
            // A directory itself has to be writable to get another parent.
            fchmodat(from, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)?;
            writing(from, rename)
        }
        result => result,
    }
}

/// Does something that takes the permission to write in a directory of our own.
fn writing(directory: BorrowedFd, act: impl Fn() -> nix::Result<()>) -> nix::Result<()> {
    match act() {
        Err(Errno::EACCES) => {
            let mode = Mode::from_bits_truncate(fstat(directory)?.st_mode);
            fchmod(directory, mode | Mode::S_IRWXU)?;
            let result = act();
            fchmod(directory, mode)?;
            result
        }
        result => result,
    }
}

/// Renames to the first of a few names that is free; which one that was.
pub(super) fn rename_in_place(here: BorrowedFd, name: &CStr, wanted: &[u8]) -> io::Result<CString> {
    for number in 0..MOST_TRIES {
        let tail = if number == 0 { String::new() } else { format!("-{number}") };
        let free = CString::new([wanted, tail.as_bytes()].concat())?;
        match rename(here, name, here, &free) {
            Err(Errno::EEXIST) => {}
            result => return Ok(result.map(|()| free)?),
        }
    }
    Err(Errno::EEXIST.into())
}

/// Where whoever looks at it works in it, git would take what was moved for a bare repository.
pub(super) fn disarm(parent: BorrowedFd, name: &CStr, deadline: Instant) -> io::Result<()> {
    let stat = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    if kind_of(stat.st_mode) != Kind::Directory {
        return Ok(());
    }
    let directory = Opened::new(parent, name)?;
    let mut walk = Walk::new(directory.as_fd(), Bounds::until(deadline))?;
    let mut all = Ok(());
    while let Some(step) = walk.next()? {
        if let Step::Entry(head, _) = step
            && head.to_bytes().eq_ignore_ascii_case(HEAD.to_bytes())
        {
            all = all.and(rename_in_place(walk.here(), &head, DISARMED.as_bytes()).map(drop));
        }
    }
    all
}
