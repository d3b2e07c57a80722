//! Mounts that are not attached yet, and the places that they are attached to.

use super::root::front;
use crate::error::{Context, Result};
use crate::linux::sys;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const STEP: &str = "mounts";

/// A detached copy of what is mounted at a path, or at `directory` itself for an empty one.
pub(super) fn clone(directory: BorrowedFd, path: &Path) -> Result<OwnedFd> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(io::Error::from)
        .and_then(|path| sys::clone_mount(directory, &path))
        .context(STEP, format_args!("open_tree {path:?}"))
}

/// Exactly the place that a path names in the jail: a link on the way there would mean that it was put there since the
/// path was resolved.
pub(super) fn open_inside(path: &Path) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS);
    Ok(openat2(AT_FDCWD, front(path), how)?)
}
