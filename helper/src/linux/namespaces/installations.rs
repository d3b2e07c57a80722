//! A program's installation is shown through an overlay of nothing but itself: files are the host's, but who connects to a
//! socket in it or opens a named pipe meets nobody outside, since overlayfs has nodes of its own for these.

use super::detached::clone;
use super::root::{Root, hidden};
use crate::error::{Context, Result};
use crate::linux::sys;
use nix::fcntl::AT_FDCWD;
use nix::libc;
use nix::sys::statvfs::{FsFlags, fstatvfs};
use std::ffi::CString;
use std::fs::DirBuilder;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

const STEP: &str = "mounts";

/// What is mounted in place of a detached mount of one, and whether that is cut off from the host. It is not where this
/// host lets nobody have overlays (before Linux 5.11, or of an overlay on an overlay): it is then shown as it is.
pub(super) fn show(root: &mut Root, installation: OwnedFd, number: usize) -> Result<(OwnedFd, bool)> {
    let stage = hidden(&format!("installation{number}"));
    DirBuilder::new()
        .mode(0o700)
        .create(&stage)
        .context(STEP, format_args!("make the directory {stage:?}"))?;
    let place = File::open(&stage).context(STEP, format_args!("open the directory {stage:?}"))?;
    sys::attach_mount(installation.as_fd(), place.as_fd())
        .context(STEP, format_args!("move_mount to {stage:?}"))?;
    // An overlay without a layer to write has to have two.
    match cut_off(&installation, &stage, root.nothing(true)?) {
        Ok(overlay) => Ok((overlay, true)),
        Err(_) => Ok((clone(AT_FDCWD, &stage)?, false)),
    }
}

fn cut_off(installation: &OwnedFd, stage: &Path, nothing: &Path) -> io::Result<OwnedFd> {
    let layers = [stage.as_os_str().as_bytes(), nothing.as_os_str().as_bytes()].join(&b':');
    let overlay = sys::open_filesystem(c"overlay")?;
    for (name, value) in [(c"lowerdir", CString::new(layers)?), (c"source", c"overlay".to_owned())] {
        sys::set_option(overlay.as_fd(), name, Some(&value))?;
    }
    let closed = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    // What the host's mount forbids, the overlay has to forbid anew.
    let forbids_programs = fstatvfs(installation)?.flags().contains(FsFlags::ST_NOEXEC);
    let noexec = if forbids_programs { libc::MOUNT_ATTR_NOEXEC } else { 0 };
    sys::make_mount(overlay.as_fd(), closed | noexec)
}
