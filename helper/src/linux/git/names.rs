//! Which names those are.

use super::{Time, changed};
use crate::linux::tree::{Bounds, FileId, Kind, Step, Walk, kind_of, open_directory};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// In a repository, what makes git execute something: hooks and settings, where they are looked for instead (`commondir`,
/// `gitdir`), and whom git talks to.
pub(super) const COVERED: [&CStr; 7] =
    [c"hooks", c"config", c"config.worktree", c"commondir", c"gitdir", c"remotes", c"branches"];
/// The same, but work goes on there: the steps of a rebase that was interrupted, which can be commands.
pub(super) const WATCHED: [&CStr; 1] = [c"rebase-merge"];
/// Directories of a repository that hold further ones.
pub(super) const NESTING: [&CStr; 2] = [c"modules", WORKTREES];
pub(super) const WORKTREES: &CStr = c"worktrees";
/// What puts a directory beside them under git's rule.
pub(super) const HEAD: &CStr = c"HEAD";
/// Directories that were put aside by earlier runs, in the work dir itself.
pub(super) const QUARANTINE: &str = ".agentkit-quarantine";

/// `.git`, however a file system that ignores case may spell it.
pub(crate) fn is_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

pub(super) fn is_quarantine(name: &CStr) -> bool {
    name.to_bytes().starts_with(QUARANTINE.as_bytes())
}

/// Whether git takes a directory with a `HEAD` for a repository: a bare one, a submodule's, or what a worktree has of
/// its own. It can have any name.
pub(super) fn is_repository(directory: BorrowedFd) -> bool {
    let has = |name: &CStr| fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok();
    has(c"commondir") || (has(c"objects") && has(c"refs"))
}

/// What stands under a name: another state means that it was made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) id: FileId,
    pub(super) kind: Kind,
    /// Of a directory, also of what is directly in it.
    pub(super) changed: Time,
}

impl State {
    /// `None` if there is nothing by that name.
    pub(super) fn of(directory: BorrowedFd, name: &CStr, deadline: Instant) -> io::Result<Option<State>> {
        let stat = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut state = State { id: FileId::of(&stat), kind: kind_of(stat.st_mode), changed: changed(&stat) };
        if state.kind == Kind::Directory {
            // Where it cannot be opened, what is in it cannot be executed.
            if let Ok(directory) = open_directory(directory, name) {
                state.changed = state.changed.max(newest_in(directory.as_fd(), deadline)?);
            }
        }
        Ok(Some(state))
    }
}

fn newest_in(directory: BorrowedFd, deadline: Instant) -> io::Result<Time> {
    let mut walk = Walk::new(directory, Bounds { depth: 0, ..Bounds::until(deadline) })?;
    let mut newest = Time::default();
    while let Some(step) = walk.next()? {
        if let Step::Entry(name, _) | Step::Directory(name) = step
            && let Ok(stat) = fstatat(walk.here(), name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
        {
            newest = newest.max(changed(&stat));
        }
    }
    Ok(newest)
}
