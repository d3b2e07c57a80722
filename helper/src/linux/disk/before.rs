//! What files took before the run changed them. It is found out bit by bit while the run goes on, since most runs are over
//! before it would be needed: what the run has changed by then counts as a whole.

use super::{changed, size, tree_of};
use crate::linux::deadline;
use crate::linux::tree::{FileId, Step, Walk};
use nix::fcntl::AtFlags;
use nix::libc;
use nix::sys::stat::fstatat;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long each look may go on with it.
const SLICE: Duration = Duration::from_millis(2);
/// So many files are known at most, in three megabytes; all others count as a whole.
const MOST_KNOWN: usize = 1 << 16;

/// What is known so far.
#[derive(Default)]
pub(super) struct Before {
    taken: HashMap<FileId, u64>,
    progress: Progress,
}

#[derive(Default)]
enum Progress {
    #[default]
    NotBegun,
    In(Box<Walk>),
    Over,
}

impl Before {
    /// Goes on for a moment. `since` is when the run began.
    pub(super) fn go_on(&mut self, workdir: &OwnedFd, since: Duration) {
        if matches!(self.progress, Progress::NotBegun) {
            self.progress = tree_of(workdir).map_or(Progress::Over, |walk| Progress::In(Box::new(walk)));
        }
        let Progress::In(walk) = &mut self.progress else { return };
        let end = deadline::after(Instant::now(), SLICE);
        while Instant::now() < end {
            match walk.next() {
                Ok(Some(Step::Entry(name, _))) if self.taken.len() < MOST_KNOWN => {
                    let stat = fstatat(walk.here(), &*name, AtFlags::AT_SYMLINK_NOFOLLOW);
                    // What was changed since then may have grown.
                    let old = stat.ok().filter(|stat| changed(stat) < since && size(stat) > 0);
                    self.taken.extend(old.map(|stat| (FileId::of(&stat), size(&stat))));
                }
                Ok(Some(Step::Directory(_) | Step::Closed(..) | Step::Left(_))) => {}
                Ok(Some(Step::Entry(..)) | None) | Err(_) => {
                    self.progress = Progress::Over;
                    return;
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.progress, Progress::Over)
    }

    /// What a file takes more than it did.
    pub(super) fn added(&self, stat: &libc::stat) -> u64 {
        size(stat).saturating_sub(self.taken.get(&FileId::of(stat)).copied().unwrap_or(0))
    }
}
