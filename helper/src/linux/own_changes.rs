//! What this process changes itself of directories: whoever opens one that is closed, and gives its mode back, moves the time
//! at which it was last changed. That must not be taken for another's doing.

use super::tree::FileId;
use nix::libc;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// When an inode was last changed in any way: seconds and nanoseconds.
pub(crate) type Time = (i64, i64);

/// Those that were opened first, which is before a command starts, are what it is for: a command can close any number.
const MOST: usize = 4096;

/// When this process changed it last, and when others had before.
static OWN: Mutex<BTreeMap<FileId, (Time, Time)>> = Mutex::new(BTreeMap::new());

fn changed(stat: &libc::stat) -> Time {
    (stat.st_ctime, stat.st_ctime_nsec)
}

/// When anybody else has changed it last.
pub(crate) fn changed_by_others(stat: &libc::stat) -> Time {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    match own.get(&FileId::of(stat)) {
        Some((when, before)) if *when == changed(stat) => *before,
        _ => changed(stat),
    }
}

/// Takes down a change of its own, by what it was `before` and is `after` it.
pub(crate) fn note(before: &libc::stat, after: &libc::stat) {
    let others = changed_by_others(before);
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let id = FileId::of(after);
    if own.len() < MOST || own.contains_key(&id) {
        own.insert(id, (changed(after), others));
    }
}
