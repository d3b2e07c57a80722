//! The jail's own files and directories: one file system in memory for the root and for everything private, so that one
//! size bounds them together.
//!
//! It is mounted twice. The *back* is writable and vanishes with the host's tree; `root` in it is mounted again as the
//! *front*, which becomes the jail's root and is soon read-only. The front is the current directory, and `..` from there
//! is its back.

use crate::error::{Context, Hint, Result};
use crate::linux::layers::Layer;
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{chdir, mkdir};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
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
/// As many of the jail's own names come out of the bound on private files; what many rules need is added.
const FEW_NAMES: u64 = 256;
const SEALED: MsFlags = MsFlags::MS_REMOUNT
    .union(MsFlags::MS_BIND)
    .union(MsFlags::MS_RDONLY)
    .union(MsFlags::MS_NOSUID)
    .union(MsFlags::MS_NODEV)
    .union(MsFlags::MS_NOEXEC);

/// What is shown empty is bound from here.
const NO_DIRECTORY: &str = "../../no-directory";
const NO_FILE: &str = "../../no-file";

/// What a path stands on.
#[derive(Debug)]
enum Ground {
    /// The host's files: nothing is ever made there.
    Host,
    /// The jail's own, by a path that is writable whatever the jail sees.
    Own { back: PathBuf, writable: bool },
}

/// Knows what it has made and what is shown where, which spares asking. Paths are absolute, as the jail sees them.
pub(crate) struct Root {
    // Not hash tables: those would ask the kernel for randomness, and do not know what lies below what.
    made: BTreeSet<Key>,
    grounds: BTreeMap<Key, Ground>,
    /// How many directories outside the front were made.
    apart: usize,
    hides: bool,
}

impl Root {
    /// Makes it, with room for `size` bytes and for `names` beside the private ones, and enters it.
    pub(crate) fn new(size: u64, names: u64) -> Result<Self> {
        // A file costs the kernel about a kilobyte that no size limit counts.
        let files = (size >> 12).clamp(1024, 1 << 20).saturating_add(names.saturating_sub(FEW_NAMES));
        let (size, files) = if Layer::Sizes.is_off() { (0, 0) } else { (size, files) };
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
        let own = Ground::Own { back: PathBuf::from(".."), writable: false };
        let [root, proc] = ["/", "/proc"].map(|path| key(Path::new(path)));
        let grounds = [(root.clone(), own), (proc.clone(), Ground::Host)].into();
        Ok(Root { made: [root, proc].into(), grounds, apart: 0, hides: false })
    }

    /// Whether something that the jail has made stands there.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.made.contains(&key(path))
    }

    /// Whether the place is the jail's own, and not the host's.
    pub(crate) fn owns(&self, path: &Path) -> bool {
        matches!(self.ground(&key(path)), (_, Ground::Own { .. }))
    }

    /// Whether the command could make something there.
    pub(crate) fn is_private(&self, path: &Path) -> bool {
        matches!(self.ground(&key(path)), (_, Ground::Own { writable: true, .. }))
    }

    /// From here on the host's files are shown at `path`.
    pub(crate) fn covered_by_host(&mut self, path: &Path) {
        self.cover(path, Ground::Host);
    }

    /// From here on a directory of the jail's own is shown at `path`.
    pub(crate) fn covered_by_own(&mut self, path: &Path, back: PathBuf, writable: bool) {
        self.cover(path, Ground::Own { back, writable });
    }

    fn cover(&mut self, path: &Path, ground: Ground) {
        // What is covered is out of sight. Whatever lies below a path follows it in the order of keys.
        let top = key(path);
        let made = self.made.range(top.clone()..).take_while(|other| is_below(other, &top));
        for made in made.cloned().collect::<Vec<_>>() {
            self.made.remove(&made);
        }
        let grounds = self.grounds.range(top.clone()..).map(|(other, _)| other);
        for ground in grounds.take_while(|other| is_below(other, &top)).cloned().collect::<Vec<_>>() {
            self.grounds.remove(&ground);
        }
        self.made.insert(top.clone());
        self.grounds.insert(top, ground);
    }

    /// What a path stands on, and the length of the key from where on it does.
    fn ground(&self, path: &[u8]) -> (usize, &Ground) {
        let mut above = Some(path);
        while let Some(at) = above {
            if let Some(ground) = self.grounds.get(at) {
                return (at.len(), ground);
            }
            above = parent(at);
        }
        (0, &Ground::Host)
    }

    /// Where a path of the jail's own can be written.
    pub(crate) fn back(&self, path: &Path) -> PathBuf {
        match self.ground(&key(path)) {
            (top, Ground::Own { back, .. }) => {
                // A key is as long as its path, or empty.
                let rest = front(path).as_os_str().as_bytes().get(top..).unwrap_or_default();
                match rest.strip_prefix(b"/").unwrap_or(rest) {
                    [] | b"." => back.clone(),
                    rest => back.join(OsStr::from_bytes(rest)),
                }
            }
            (_, Ground::Host) => path.to_path_buf(),
        }
    }

    /// A directory that is not in the jail's view until it is bound there.
    pub(crate) fn directory_apart(&mut self, mode: u32) -> Result<PathBuf> {
        let path = PathBuf::from(format!("../../{}", self.apart));
        self.apart = self.apart.saturating_add(1);
        make(mkdir(&path, Mode::from_bits_truncate(mode)), &path)?;
        Ok(path)
    }

    /// An empty directory or file that nobody may read, on a mount that nobody may write.
    pub(crate) fn nothing(&mut self, is_dir: bool) -> Result<&'static Path> {
        if !self.hides {
            make(mkdir(NO_DIRECTORY, Mode::empty()), Path::new(NO_DIRECTORY))?;
            make(mknod(NO_FILE, SFlag::S_IFREG, Mode::empty(), 0), Path::new(NO_FILE))?;
            for path in [NO_DIRECTORY, NO_FILE] {
                mount(Some(path), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                    .and_then(|()| mount(None::<&str>, path, None::<&str>, SEALED, None::<&str>))
                    .map_err(io::Error::from)
                    .context(STEP, format_args!("seal {path}"))?;
            }
            self.hides = true;
        }
        Ok(Path::new(if is_dir { NO_DIRECTORY } else { NO_FILE }))
    }

    /// Makes a directory unless there is one, and its parents.
    pub(crate) fn directory(&mut self, path: &Path, mode: u32) -> Result<()> {
        self.once(path, |path| mkdir(path, Mode::from_bits_truncate(mode)))
    }

    /// Makes what a mount needs to be attached to, where it is not the host that has it.
    pub(crate) fn target(&mut self, path: &Path, is_dir: bool) -> Result<()> {
        if !self.owns(path) {
            return Ok(());
        }
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
        self.made.remove(&key(path));
        let back = self.back(path);
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
        make(create(&self.back(path)), path)?;
        self.made.insert(key(path));
        Ok(())
    }
}

fn make<E: Into<io::Error>>(made: std::result::Result<(), E>, path: &Path) -> Result<()> {
    made.context(STEP, format_args!("make {path:?}"))
}

/// A path as bytes that sort like its names, a parent right before all that lies below it: comparing paths name by name
/// took a twentieth of a launch. The root is empty, and a zero byte, which no name holds, ends each name but the last.
type Key = Vec<u8>;

fn key(path: &Path) -> Key {
    match front(path).as_os_str().as_bytes() {
        b"." => Vec::new(),
        names => names.iter().map(|&byte| if byte == b'/' { 0 } else { byte }).collect(),
    }
}

fn is_below(path: &[u8], top: &[u8]) -> bool {
    top.is_empty() || path.strip_prefix(top).is_some_and(|rest| matches!(rest.first(), None | Some(0)))
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    match path.iter().rposition(|&byte| byte == 0) {
        Some(end) => path.get(..end),
        None => (!path.is_empty()).then_some(&[]),
    }
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
    let names = path.as_os_str().as_bytes().strip_prefix(b"/").filter(|names| !names.is_empty());
    Path::new(OsStr::from_bytes(names.unwrap_or(b".")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path() -> impl Strategy<Value = PathBuf> {
        proptest::collection::vec("[a\u{1}-]{1,2}", 0..4)
            .prop_map(|names| Path::new("/").join(names.join("/")))
    }

    proptest! {
        #[test]
        fn keys_are_ordered_and_nested_as_paths_are(one in path(), other in path()) {
            prop_assert_eq!(key(&one).cmp(&key(&other)), one.cmp(&other));
            prop_assert_eq!(is_below(&key(&one), &key(&other)), one.starts_with(&other));
            prop_assert_eq!(parent(&key(&one)).map(<[u8]>::to_vec), one.parent().map(key));
        }
    }
}
