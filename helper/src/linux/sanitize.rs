//! Of step 1, what Linux has its own ways for: inherited descriptors and signal settings.

use super::layers::Layer;
use super::{proc_files, sys};
use crate::error::{Context, Hint, Result, failure};
use agentkit_protocol::FailureKind;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use std::io;

const STEP: &str = "sanitize";
/// The first descriptor that is not a standard stream.
const FIRST: i32 = 3;
/// More than twice what is used in a build without optimisation.
const STACK: u64 = 128 << 10;
const NO_PROC: &str = "a launch needs /proc: mount it; in a jail of the mechanism landlock there is none to be read, so no other jail \
    can be started there";

/// Closes every descriptor from 3 up but these.
pub(crate) fn close_all_but_streams_and(kept: &[i32]) -> io::Result<()> {
    if Layer::Descriptors.is_off() {
        return Ok(());
    }
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    let mut first = FIRST;
    for fd in kept {
        sys::close_range(first, fd.saturating_sub(1))?;
        first = fd.saturating_add(1);
    }
    sys::close_range(first, i32::MAX)
}

/// What a launch needs of its own process, whoever started it.
pub(crate) fn prepare_process() -> Result<()> {
    check_stack()?;
    reset_signals()
}

/// Whoever has too little of it dies of that anywhere, and would leave behind what it has just made.
fn check_stack() -> Result<()> {
    let (limit, _) =
        getrlimit(Resource::RLIMIT_STACK).map_err(io::Error::from).context(STEP, "getrlimit RLIMIT_STACK")?;
    // What is in use is more than that where it is the stack of a thread, which has its own limit.
    match limit.checked_sub(sys::stack_in_use()).filter(|left| *left < STACK) {
        None => Ok(()),
        Some(left) => {
            let message =
                format_args!("{} KiB of stack are left, and a launch takes {}", left >> 10, STACK >> 10);
            Err(failure(FailureKind::Host, STEP, message))
                .hint("raise the launcher's limit of the stack (ulimit -s), or give it a smaller environment")
        }
    }
}

/// A caller that ignores SIGCHLD would take the exit status away from us, and a blocked or ignored signal would be
/// inherited by the command.
fn reset_signals() -> Result<()> {
    for number in ignored_signals().context(STEP, "read /proc/self/status").hint(NO_PROC)? {
        // 32 up to SIGRTMIN are the C library's own: its posix_spawn ignores them in the child, its sigaction refuses.
        if number != nix::libc::SIGPIPE && !(32..nix::libc::SIGRTMIN()).contains(&number) {
            sys::reset_signal(number).context(STEP, format_args!("reset signal {number}"))?;
        }
    }
    // A caller that went away must not kill the supervisor half-way.
    sys::ignore_signal(nix::libc::SIGPIPE).context(STEP, "ignore SIGPIPE")?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
        .map_err(io::Error::from)
        .context(STEP, "sigprocmask")
}

/// The signals that this process ignores.
pub(super) fn ignored_signals() -> io::Result<Vec<i32>> {
    let status = proc_files::read("/proc/self/status")?;
    let mask = proc_files::status_field(&status, "SigIgn").unwrap_or("0");
    let mask = u64::from_str_radix(mask, 16).map_err(io::Error::other)?;
    let numbers = (1..=64).zip(0..).filter(|(_, bit)| mask.unbounded_shr(*bit) & 1 == 1);
    Ok(numbers.map(|(number, _)| number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_of_a_rust_program_are_read() {
        // std ignores SIGPIPE at start.
        assert!(ignored_signals().unwrap().contains(&nix::libc::SIGPIPE));
    }
}
