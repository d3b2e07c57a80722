//! Step 8: a second wall behind capabilities and filter, where the kernel has Landlock; see landlock(7).

use crate::error::{Context, Result};
use crate::linux::layers::Layer;
use crate::linux::sys::{self, Handled};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, SFlag, mknod};
use std::io;
use std::os::fd::AsFd;

const STEP: &str = "landlock";
/// `LANDLOCK_ACCESS_FS_*` of linux/landlock.h.
const EXECUTE: u64 = 1 << 0;
const MAKE_CHARACTER_DEVICE: u64 = 1 << 6;
const MAKE_BLOCK_DEVICE: u64 = 1 << 11;
const REFER: u64 = 1 << 13;
/// The first version that can allow to rename and link between directories. Before Linux 5.19 it forbids that to whoever
/// uses it at all, which few programs can do without.
const USEFUL: usize = 2;
/// Where the command may write, and no rule can show anything.
const TRIED: &str = "/dev/shm/device";

/// Forbids device nodes, to execute what is not in the view and, as any such domain does, changes of mounts. The view
/// itself needs no rules: what is not to be seen is not mounted. But until the command is executed, one file of the host
/// has a name in there, `/proc/self/exe`: the helper's own. A script with it in the first line would run the helper
/// inside, as an ordinary process of the jail through which its file can be reached. Returns whether it is in force,
/// which was tried; the kernel does not show it.
pub(crate) fn restrict() -> Result<bool> {
    if Layer::Landlock.is_off() {
        return Ok(false);
    }
    match sys::landlock_version() {
        Ok(version) if version < USEFUL => return Ok(false),
        // Not built in, or not switched on.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => {
            return Ok(false);
        }
        version => version.context(STEP, "ask for the version of landlock_create_ruleset")?,
    };
    let files = EXECUTE | MAKE_CHARACTER_DEVICE | MAKE_BLOCK_DEVICE | REFER;
    let rules = sys::create_ruleset(&Handled { files, ..Handled::default() })
        .context(STEP, "landlock_create_ruleset")?;
    let root = open("/", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .context(STEP, "open /")?;
    sys::allow_below(rules.as_fd(), root.as_fd(), EXECUTE | REFER).context(STEP, "landlock_add_rule")?;
    sys::restrict_self(rules.as_fd()).context(STEP, "landlock_restrict_self")?;
    // One that takes no privilege, see mknod(2): so nothing else is in its way.
    match mknod(TRIED, SFlag::S_IFCHR, Mode::empty(), 0) {
        Err(Errno::EACCES) => Ok(true),
        other => Err(io::Error::other(format!("a device node could still be made: {other:?}")))
            .context(STEP, format_args!("try to make {TRIED}")),
    }
}
