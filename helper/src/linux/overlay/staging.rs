//! Where a commit puts together what is new before it takes the place of anything: a directory of our own in each host
//! directory that gets something. There, files get the group, the quota and the access lists that they would get beside
//! it, and a rename is all that is left to do.

use super::entry::look;
use crate::linux::tree::{self, open_directory};
use nix::errno::Errno;
use nix::sys::stat::{Mode, mkdirat};
use std::ffi::{CStr, CString};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// The names of these directories.
pub(super) struct Staging {
    /// Holds finished files, links and directories under the names that they will have.
    units: CString,
    /// In the work dir alone: one name, its inode number above, for each file that has several.
    shared: CString,
    /// Neither of the two: for a moment, something of `units` on its way.
    pub(super) spare: CString,
}

impl Staging {
    /// By names that nobody could know beforehand.
    pub(super) fn new() -> io::Result<Self> {
        let number = RandomState::new().hash_one(std::process::id());
        let name = |end| CString::new(format!(".agentkit-commit-{number:016x}{end}"));
        Ok(Staging { units: name("")?, shared: name("-shared")?, spare: name("-spare")? })
    }

    pub(super) fn is_ours(&self, name: &CStr) -> bool {
        [&self.units, &self.shared, &self.spare].iter().any(|ours| ours.as_c_str() == name)
    }

    /// The directory for what is new in `host`, which is made if it is not there.
    pub(super) fn make(&self, host: BorrowedFd) -> io::Result<OwnedFd> {
        make(host, &self.units)
    }

    /// The same for the files of several names; `host` is the work dir.
    pub(super) fn make_shared(&self, host: BorrowedFd) -> io::Result<OwnedFd> {
        make(host, &self.shared)
    }

    /// The directory of `host` if `name` is in it.
    pub(super) fn find(&self, host: BorrowedFd, name: &CStr) -> io::Result<Option<OwnedFd>> {
        let units = match open_directory(host, &self.units) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            units => units?,
        };
        Ok(look(units.as_fd(), name)?.map(|_| units))
    }

    /// Removes all that is left in `host` of this.
    pub(super) fn remove(&self, host: BorrowedFd, deadline: Instant) -> io::Result<()> {
        for name in [&self.units, &self.shared] {
            match tree::remove(host, name, deadline) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

fn make(host: BorrowedFd, name: &CStr) -> io::Result<OwnedFd> {
    match mkdirat(host, name, Mode::S_IRWXU) {
        Ok(()) | Err(Errno::EEXIST) => open_directory(host, name),
        Err(error) => Err(error.into()),
    }
}
