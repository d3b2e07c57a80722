//! Step 8: capabilities and the ways to get new ones.

use super::layers::Layer;
use super::proc_files::{self, Stat};
use super::sys;
use crate::error::{Context, Result};
use caps::CapSet;
use nix::sys::prctl;
use std::io;

const STEP: &str = "privileges";

/// Gives up every capability for good. The bounding set goes first: dropping from it needs a capability.
pub(crate) fn drop_all() -> Result<()> {
    if Layer::Privileges.is_off() {
        return keep_all();
    }
    // By number until the kernel knows no more: it may have some that no library has a name for.
    for capability in 0.. {
        match sys::drop_from_bounding_set(capability) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) && capability > 0 => break,
            Err(error) => return Err(error).context(STEP, format_args!("PR_CAPBSET_DROP {capability}")),
        }
    }
    // The other two are empty in a new user namespace, which is read back.
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set)
            .map_err(io::Error::other)
            .context(STEP, format_args!("clear the set {set:?}"))?;
    }
    // No execve can raise anything any more; also what seccomp(2) asks of an unprivileged caller.
    prctl::set_no_new_privs().map_err(io::Error::from).context(STEP, "prctl PR_SET_NO_NEW_PRIVS")
}

/// The same for this process alone, whoever it is: the bounding set is only root's to drop, and without new privileges it
/// bounds nothing.
#[cfg(any(feature = "bubblewrap", without_namespaces))]
pub(crate) fn drop_held() -> Result<()> {
    let mut capabilities = 0..;
    while capabilities.next().is_some_and(|it| sys::drop_from_bounding_set(it).is_ok()) {}
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::clear(None, set)
            .map_err(io::Error::other)
            .context(STEP, format_args!("clear the set {set:?}"))?;
    }
    prctl::set_no_new_privs().map_err(io::Error::from).context(STEP, "prctl PR_SET_NO_NEW_PRIVS")
}

/// Otherwise they would go with the first execve, since the user inside is no root.
fn keep_all() -> Result<()> {
    let keep = || {
        let all = caps::read(None, CapSet::Permitted)?;
        caps::set(None, CapSet::Inheritable, &all)?;
        all.into_iter().try_for_each(|capability| caps::raise(None, CapSet::Ambient, capability))
    };
    keep().map_err(io::Error::other).context(STEP, "keep the capabilities")
}

/// Overwrites the launcher's arguments and variables, which this process has inherited: everybody in the jail can read
/// its command line, and what is not there cannot be read in any other way either.
pub(crate) fn forget_launcher() -> Result<()> {
    // What is wiped cannot be handed on.
    if Layer::LaunchersText.is_off() || Layer::Environment.is_off() {
        return Ok(());
    }
    let text = proc_files::read("/proc/self/stat").context(STEP, "read /proc/self/stat")?;
    let stat = Stat::parse(&text);
    // 48 to 51 are the bounds of both.
    let field = |number: usize| {
        let value = stat.as_ref().and_then(|stat| stat.number(number));
        value
            .ok_or_else(|| io::Error::other("it is not there"))
            .context(STEP, format_args!("field {number} of /proc/self/stat"))
    };
    for (begin, end) in [(field(48)?, field(49)?), (field(50)?, field(51)?)] {
        sys::wipe_start_up_text(begin, end);
    }
    Ok(())
}

/// When the host runs out of memory, the jail is to go first; see proc_pid_oom_score_adj(5).
pub(crate) fn be_killed_first() -> Result<()> {
    std::fs::write("/proc/self/oom_score_adj", "1000").context(STEP, "write /proc/self/oom_score_adj")
}

/// Opens this process to its equals, and its own `/proc/self` to itself.
#[cfg(any(feature = "bubblewrap", without_namespaces))]
pub(crate) fn show_to_equals() -> Result<()> {
    prctl::set_dumpable(true).map_err(io::Error::from).context(STEP, "prctl PR_SET_DUMPABLE")
}

/// Closes this process to its children, which have the same uid: no ptrace, no `/proc/1/environ`, `mem` or `fd`.
pub(crate) fn hide_from_equals() -> Result<()> {
    if Layer::Dumpable.is_off() {
        return Ok(());
    }
    prctl::set_dumpable(false).map_err(io::Error::from).context(STEP, "prctl PR_SET_DUMPABLE")
}
