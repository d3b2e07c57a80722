//! Step 8: capabilities and the ways to get new ones.

use crate::error::{Context, Result};
use caps::CapSet;
use nix::sys::prctl;
use std::io;

const STEP: &str = "privileges";

/// Gives up every capability for good. The bounding set goes first: dropping from it needs a capability.
pub(crate) fn drop_all() -> Result<()> {
    for set in [CapSet::Bounding, CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted]
    {
        caps::clear(None, set)
            .map_err(io::Error::other)
            .context(STEP, format_args!("clear the set {set:?}"))?;
    }
    // No execve can raise anything any more; also what seccomp(2) asks of an unprivileged caller.
    prctl::set_no_new_privs().map_err(io::Error::from).context(STEP, "prctl PR_SET_NO_NEW_PRIVS")
}

/// Closes this process to its children, which have the same uid: no ptrace, no `/proc/1/environ`, `mem` or `fd`.
pub(crate) fn hide_from_equals() -> Result<()> {
    prctl::set_dumpable(false).map_err(io::Error::from).context(STEP, "prctl PR_SET_DUMPABLE")
}
