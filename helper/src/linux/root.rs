//! The jail's own files and directories: one file system in memory for the root and for everything private, so that one
//! size bounds them together.
//!
//! It is mounted twice. The *back* is writable and vanishes with the host's tree; `root` in it is mounted again as the
//! *front*, which becomes the jail's root and is soon read-only. The front is the current directory, and `..` from there
//! is its back.

use crate::error::{Context, Hint, Result};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{chdir, mkdir};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

const STEP: &str = "mounts";

/// A directory that certainly exists and that nothing is taken from. Not the root: whoever detaches the host's tree would
/// meet what is mounted over it first, and leave the host where `/..` leads. To cover `/proc` ourselves does not keep the
/// kernel from mounting a fresh one.
const BACK: &str = "/proc";
const BACK_OF_ROOT: &str = "/proc/root";
/// The front must be mounted somewhere. Seen from the front, this is an empty directory all the same.
const FRONT: &str = "/proc/root/proc";

/// Knows what it has made, which spares asking. Paths are absolute, as the jail sees them.
pub(crate) struct Root {
    // Not a hash set: that would ask the kernel for randomness.
    made: BTreeSet<PathBuf>,
}

impl Root {
    /// Makes it, with room for `size` bytes, and enters it. A few pages and names are the jail's own.
    pub(crate) fn new(size: u64) -> Result<Self> {
        // A file costs the kernel about a kilobyte that no size limit counts.
        let files = (size >> 12).clamp(1024, 1 << 20);
        let options = format!("mode=0755,size={size},nr_inodes={files}");
        let private = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), BACK, Some("tmpfs"), private, Some(options.as_str()))
            .map_err(io::Error::from)
            .context(STEP, format_args!("mount tmpfs ({options})"))
            .hint(
                "the distribution may allow user namespaces but no mounts in them, for instance by AppArmor",
            )?;
        for (path, mode) in [(BACK_OF_ROOT, 0o755), (FRONT, 0o555)] {
            make(mkdir(path, Mode::from_bits_truncate(mode)), Path::new(path))?;
        }
        mount(Some(BACK_OF_ROOT), FRONT, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(io::Error::from)
            .context(STEP, "mount the new root")?;
        chdir(FRONT).map_err(io::Error::from).context(STEP, "enter the new root")?;
        Ok(Root { made: ["/", "/proc"].map(PathBuf::from).into() })
    }

    /// Whether something of the jail's own stands there.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.made.contains(path)
    }

    /// Makes a directory unless there is one, and its parents.
    pub(crate) fn directory(&mut self, path: &Path, mode: u32) -> Result<()> {
        self.once(path, |path| mkdir(path, Mode::from_bits_truncate(mode)))
    }

    /// Makes what a mount needs to be attached to.
    pub(crate) fn target(&mut self, path: &Path, is_dir: bool) -> Result<()> {
        if is_dir {
            return self.directory(path, 0o755);
        }
        self.once(path, |path| mknod(path, SFlag::S_IFREG, Mode::from_bits_truncate(0o444), 0))
    }

    pub(crate) fn link(&mut self, path: &Path, says: &Path) -> Result<()> {
        self.once(path, |path| symlink(says, path))
    }

    pub(crate) fn file(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        self.once(path, |path| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
            file.write_all(content)
        })
    }

    /// Takes away a target that nothing was attached to.
    pub(crate) fn remove(&mut self, path: &Path, is_dir: bool) -> Result<()> {
        self.made.remove(path);
        let back = back(path);
        let removed = if is_dir { std::fs::remove_dir(back) } else { std::fs::remove_file(back) };
        removed.context(STEP, format_args!("remove {path:?}"))
    }

    fn once<E: Into<io::Error>>(
        &mut self,
        path: &Path,
        create: impl FnOnce(&Path) -> std::result::Result<(), E>,
    ) -> Result<()> {
        if self.has(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.directory(parent, 0o755)?;
        }
        make(create(&back(path)), path)?;
        self.made.insert(path.to_path_buf());
        Ok(())
    }
}

fn make<E: Into<io::Error>>(made: std::result::Result<(), E>, path: &Path) -> Result<()> {
    made.context(STEP, format_args!("make {path:?}"))
}

/// A path of the tree, writable whatever is mounted over it in the jail.
pub(crate) fn back(path: &Path) -> PathBuf {
    Path::new("..").join(front(path))
}

/// A name of the same file system that the jail never sees.
pub(crate) fn hidden(name: &str) -> PathBuf {
    Path::new("../..").join(name)
}

/// The same as it stands in `mountinfo` before the root is switched.
pub(crate) fn hidden_on_host(name: &str) -> PathBuf {
    Path::new(BACK).join(name)
}

/// A path as the jail will see it.
pub(crate) fn front(path: &Path) -> &Path {
    path.strip_prefix("/").ok().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
