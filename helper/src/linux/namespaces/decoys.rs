//! What stands at a watched path: an empty file that can be opened in every way, which is an attempt. There is nothing in it to
//! read, and its file system has no room for what is written.

use super::root::{Root, front};
use crate::error::{Context, Result, policy};
use crate::linux::watch;
use nix::mount::{MsFlags, mount};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const STEP: &str = "mounts";
/// Of any architecture.
const LARGEST_PAGE: usize = 64 << 10;

/// Shows one at each path. Returns who listens, see [`watch::listen_for_opening`].
pub(super) fn show(root: &mut Root, paths: &[PathBuf]) -> Result<Vec<OwnedFd>> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let full = root.directory_apart(0o700)?;
    // A page, and names for itself, for what fills the page, and for each path.
    let options = format!("mode=0700,size=1,nr_inodes={}", paths.len().saturating_add(2));
    let private = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), &full, Some("tmpfs"), private, Some(options.as_str()))
        .map_err(io::Error::from)
        .context(STEP, format_args!("mount tmpfs ({options})"))?;
    let files: Vec<_> = (0..paths.len()).map(|number| full.join(number.to_string())).collect();
    for (path, file) in paths.iter().zip(&files) {
        if root.has(path) || !root.owns(path) {
            return Err(policy(format_args!("watch.paths: {path:?} lies in what the jail can see anyway")));
        }
        File::create(file).context(STEP, format_args!("make {file:?}"))?;
        root.target(path, false)?;
        mount(Some(file), front(path), None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(io::Error::from)
            .context(STEP, format_args!("bind {file:?} at {path:?}"))?;
    }
    fill(&full.join("full")).context(STEP, "fill a page")?;
    watch::listen_for_opening(&files).map(Vec::from)
}

fn fill(file: &Path) -> io::Result<()> {
    match File::create(file)?.write_all(&[0; LARGEST_PAGE]) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        written => written,
    }
}
