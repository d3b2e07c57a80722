//! Step 6: `/proc`.

use super::detached::{clone, open_inside};
use super::root::Root;
use crate::error::{Context, Hint, Result};
use crate::linux::layers::Layer;
use crate::linux::own_files::{IDENTITY, SETTINGS, SHOWN};
use crate::linux::sys;
use agentkit_protocol::ProcFiles;
use nix::fcntl::{AT_FDCWD, OFlag, open};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

const STEP: &str = "mounts";

/// Whether there is one of the jail's own: the kernel mounts none without its pid namespace.
pub(crate) fn is_own() -> bool {
    !(Layer::Proc.is_off() || Layer::PidNamespace.is_off())
}

/// The host's, which no jail shows unless its own is switched off.
pub(crate) fn of_host() -> Result<Option<OwnedFd>> {
    (!is_own()).then(|| clone(AT_FDCWD, Path::new("/proc"))).transpose()
}

/// Mounts it and returns a handle on it. It shows the jail's processes alone, in any case.
pub(crate) fn show(root: &mut Root, files: ProcFiles, hosts: Option<&OwnedFd>) -> Result<OwnedFd> {
    match hosts {
        Some(hosts) => attach(hosts, Path::new("/proc"))?,
        None => mount_own(files)?,
    }
    if files == ProcFiles::Full && !Layer::KernelFiles.is_off() {
        restrict(root)?;
    }
    open("proc", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .context(STEP, "open /proc")
}

fn mount_own(files: ProcFiles) -> Result<()> {
    // Without the kernel's own files since Linux 5.8.
    let options = match files {
        ProcFiles::Processes => Some("subset=pid"),
        ProcFiles::Full => None,
    };
    let private = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "proc", Some("proc"), private, options)
        .map_err(io::Error::from)
        .context(STEP, "mount /proc")
        .hint("the kernel refuses a fresh /proc where the launcher's own is partly covered, as in most containers")
}

fn restrict(root: &mut Root) -> Result<()> {
    let proc = Path::new("/proc");
    for entry in std::fs::read_dir("proc").context(STEP, "list /proc")? {
        let entry = entry.context(STEP, "list /proc")?;
        let name = entry.file_name();
        let is_process = name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
        if is_process || SHOWN.iter().any(|shown| name == *shown) {
            continue;
        }
        let is_dir = entry.file_type().context(STEP, "list /proc")?.is_dir();
        let cover = if name == SETTINGS {
            read_only(Path::new("proc/sys"))?
        } else {
            clone(AT_FDCWD, root.nothing(is_dir)?)?
        };
        attach(&cover, &proc.join(&name))?;
    }
    if Path::new("proc").join(IDENTITY).exists() {
        attach(&clone(AT_FDCWD, root.nothing(false)?)?, &proc.join(IDENTITY))?;
    }
    Ok(())
}

fn attach(cover: &OwnedFd, path: &Path) -> Result<()> {
    let target = open_inside(path).context(STEP, format_args!("open {path:?}"))?;
    sys::attach_mount(cover.as_fd(), target.as_fd()).context(STEP, format_args!("move_mount to {path:?}"))
}

fn read_only(path: &Path) -> Result<OwnedFd> {
    let mount = clone(AT_FDCWD, path)?;
    let attributes =
        libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
    sys::restrict_mount(mount.as_fd(), attributes).context(STEP, format_args!("mount_setattr {path:?}"))?;
    Ok(mount)
}
