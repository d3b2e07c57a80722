//! Step 8: a second wall behind capabilities and filter, where the kernel has Landlock; see landlock(7).

use super::sys;
use crate::error::{Context, Result};
use nix::errno::Errno;
use nix::libc;
use nix::mount::{MntFlags, umount2};
use std::io;
use std::os::fd::AsFd;

const STEP: &str = "landlock";
/// `LANDLOCK_ACCESS_FS_MAKE_CHAR` and `LANDLOCK_ACCESS_FS_MAKE_BLOCK` of linux/landlock.h.
const MAKE_DEVICES: u64 = 1 << 6 | 1 << 11;

/// Forbids device nodes and, as any such domain does, changes of mounts. The view itself needs no rules: what is not to be
/// seen is not mounted. Returns whether it is in force, which was tried; the kernel does not show it.
pub(crate) fn restrict() -> Result<bool> {
    let rules = match sys::forbid_accesses(MAKE_DEVICES) {
        // Not built in, or not switched on.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => {
            return Ok(false);
        }
        rules => rules.context(STEP, "landlock_create_ruleset")?,
    };
    sys::restrict_self(rules.as_fd()).context(STEP, "landlock_restrict_self")?;
    match umount2("/tmp", MntFlags::MNT_EXPIRE) {
        Err(Errno::EPERM) => Ok(true),
        // Whoever may change mounts would have to ask twice.
        other => Err(io::Error::other(format!("a mount could still be changed: {other:?}")))
            .context(STEP, "try umount2 with MNT_EXPIRE"),
    }
}
