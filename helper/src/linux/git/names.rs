//! Which names those are.

use super::{Time, changed};
use crate::linux::tree::{FileId, Kind, Listing, Opened, kind_of};
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
/// The same, but work goes on there: the steps of what was interrupted, and the options that it goes on with. Both can be
/// commands.
pub(super) const WATCHED: [&CStr; 3] = [c"rebase-merge", c"rebase-apply", c"sequencer"];
/// Directories of a repository that hold further ones.
pub(super) const NESTING: [&CStr; 2] = [c"modules", WORKTREES];
pub(super) const WORKTREES: &CStr = c"worktrees";
/// What puts a directory beside them under git's rule.
pub(super) const HEAD: &CStr = c"HEAD";
/// Directories that were put aside by earlier runs, in the work dir itself.
pub(super) const QUARANTINE: &str = ".agentkit-quarantine";
/// So many of them are protected from later runs. Each takes a mount, and a command can make any number by that name.
const MOST_QUARANTINES: usize = 32;

/// `.git`, however a file system that ignores case may spell it.
pub(crate) fn is_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

pub(super) fn is_quarantine(name: &CStr) -> bool {
    let Some(rest) = name.to_bytes().strip_prefix(QUARANTINE.as_bytes()) else { return false };
    let number =
        rest.strip_prefix(b"-").and_then(|number| str::from_utf8(number).ok()?.parse::<usize>().ok());
    rest.is_empty() || number.is_some_and(|number| number < MOST_QUARANTINES)
}

/// Whether git takes a directory with a `HEAD` for a repository: a bare one, a submodule's, or what a worktree has of
/// its own. It can have any name.
pub(super) fn is_repository(directory: BorrowedFd) -> bool {
    let has = |name: &CStr| fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok();
    has(c"commondir") || (has(c"objects") && has(c"refs"))
}

/// Whether a link in a repository is one that git itself makes: it names a branch. Through every other one git would
/// write to what it leads to.
pub(super) fn is_branch(says: &[u8]) -> bool {
    says.starts_with(b"refs/") && !says.windows(2).any(|it| it == b"..")
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
        let stat = || fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        let mut before = match stat() {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut newest = Time::default();
        if kind_of(before.st_mode) == Kind::Directory {
            // Without being listed it can be executed from. If it can't be opened, it isn't ours, and then not the jail's.
            if let Ok(opened) = Opened::new(directory, name) {
                newest = newest_in(opened.as_fd(), deadline)?;
            }
            // Opening it may have taken a change of its mode.
            before = stat()?;
        }
        let kind = kind_of(before.st_mode);
        Ok(Some(State { id: FileId::of(&before), kind, changed: changed(&before).max(newest) }))
    }
}

fn newest_in(directory: BorrowedFd, deadline: Instant) -> io::Result<Time> {
    let mut listing = Listing::new(directory)?;
    let mut newest = Time::default();
    while let Some((name, _)) = listing.next()? {
        in_time(deadline)?;
        if let Ok(stat) = fstatat(directory, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            newest = newest.max(changed(&stat));
        }
    }
    Ok(newest)
}

/// Fails once it is too late.
pub(super) fn in_time(deadline: Instant) -> io::Result<()> {
    if Instant::now() < deadline {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "there is more than the time there is allows to look at"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_are_taken_for_quarantines() {
        for name in [c".agentkit-quarantine", c".agentkit-quarantine-1", c".agentkit-quarantine-31"] {
            assert!(is_quarantine(name), "{name:?}");
        }
        for name in [c".agentkit-quarantine-32", c".agentkit-quarantine-", c".agentkit-quarantine-1-1", c"x"]
        {
            assert!(!is_quarantine(name), "{name:?}");
        }
    }
}
