//! Of step 1, what macOS has its own ways for: inherited descriptors and signal settings.

use super::sys;
use crate::error::{Context, Result};
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use std::io;

const STEP: &str = "sanitize";
/// The first descriptor that is not a standard stream.
const FIRST: i32 = 3;
/// The last of the signals, see signal(3).
const LAST_SIGNAL: i32 = 31;

/// Closes every descriptor from 3 up but these.
pub(crate) fn close_all_but_streams_and(kept: &[i32]) -> io::Result<()> {
    let open: Vec<i32> = std::fs::read_dir("/dev/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The list's own descriptor is in the list, and closed by now.
    open.into_iter().filter(|fd| *fd >= FIRST && !kept.contains(fd)).for_each(sys::close);
    Ok(())
}

/// What a launch needs of its own process: what the caller ignores or blocks would be inherited by the command.
pub(crate) fn prepare_process() -> Result<()> {
    use_defaults().context(STEP, "sigprocmask")?;
    // A caller that went away must not kill the supervisor half-way.
    sys::ignore_signal(libc::SIGPIPE);
    Ok(())
}

/// Nothing is ignored and nothing is blocked any more.
pub(super) fn use_defaults() -> io::Result<()> {
    (1..=LAST_SIGNAL).for_each(sys::reset_signal);
    Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?)
}
