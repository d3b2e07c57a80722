//! Step 4: what the jail will see, decided outside and in the order in which it is mounted.

use super::identity::Identity;
use super::owner_map::map_owner;
use super::sys;
use super::workdir::WorkPath;
use crate::error::{Context, Hint, Result, policy};
use nix::libc;
use std::ffi::CString;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const STEP: &str = "view";

/// The private home.
pub(crate) const HOME: &str = "/home/jail";

/// Readable for everyone on every system, and without secrets. Where one is a link on the host (a merged `/usr`), the
/// link is made anew.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// The parts of `/etc` that programs need to start: links of `/usr` that lead there, the loader's cache, certificates,
/// names and types. No accounts, no host names, no keys.
const ETC: [&str; 7] =
    ["alternatives", "ld.so.cache", "localtime", "mime.types", "protocols", "services", "timezone"];
/// The same, by the start of a name that goes on with a version: `python3.13`, `java-21-openjdk`.
const ETC_VERSIONED: [&str; 2] = ["python3", "java-"];
/// The same, from directories that hold secrets too.
const ETC_NESTED: [&str; 3] = ["ssl/certs", "ssl/openssl.cnf", "pki/tls/certs"];

/// A device node cannot be made in a user namespace, so the host's harmless ones are borrowed.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

const CLOSED: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = CLOSED | libc::MOUNT_ATTR_RDONLY;
/// Writing to a device is no write to its file system: the node's mode and times stay what they are.
const DEVICE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_RDONLY;

/// Whether a path lies in a system directory and so needs no grant.
pub(crate) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// What is mounted from the host, in order.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// Links that are made anew: where, and what they say.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Host directories and files, read-only.
    pub(crate) binds: Vec<Bind>,
    /// Host directories of which only some entries are shown.
    pub(crate) excerpts: Vec<Excerpt>,
    /// The host directory to work in.
    pub(crate) workdir: Option<Bind>,
}

/// A host directory or file under its own path.
#[derive(Debug)]
pub(crate) struct Bind {
    pub(crate) path: PathBuf,
    pub(crate) is_dir: bool,
    /// `MOUNT_ATTR_*` that are added to what the host's mount has.
    attributes: u64,
    /// Device and inode that it must have, where its path was judged before.
    expected: Option<(u64, u64)>,
    mount: Option<OwnedFd>,
}

/// Entries of one host directory. It is opened once, which spares opening each of them.
#[derive(Debug)]
pub(crate) struct Excerpt {
    pub(crate) whole: Bind,
    /// Path below the directory, and whether it is a directory.
    pub(crate) entries: Vec<(PathBuf, bool)>,
}

impl View {
    /// Decides what is seen; mounts nothing yet.
    pub(crate) fn new(workdir: &WorkPath, grants: &[PathBuf]) -> Result<Self> {
        let mut view = View::default();
        for path in SYSTEM.map(Path::new) {
            match path.symlink_metadata() {
                Ok(meta) => view.add(path, &meta, None)?,
                Err(error) => left_out(error).context(STEP, format_args!("stat {path:?}"))?,
            }
        }
        view.add_configuration().context(STEP, "look through /etc")?;
        let devices = DEVICES.map(|name| (PathBuf::from(name), false)).to_vec();
        view.excerpts.push(Excerpt { whole: Bind::new("/dev", true, DEVICE), entries: devices });
        for path in grants {
            let meta = path.symlink_metadata().context(STEP, format_args!("stat {path:?}"))?;
            view.add(path, &meta, Some((meta.dev(), meta.ino())))?;
        }
        if let WorkPath::Bind { path, device, inode } = workdir {
            let bind = Bind::new(path, true, CLOSED);
            view.workdir = Some(Bind { expected: Some((*device, *inode)), ..bind });
        }
        Ok(view)
    }

    fn add(&mut self, path: &Path, meta: &Metadata, expected: Option<(u64, u64)>) -> Result<()> {
        if meta.is_symlink() {
            let says = std::fs::read_link(path).context(STEP, format_args!("read the link {path:?}"))?;
            self.links.push((path.to_path_buf(), says));
        } else {
            self.binds.push(Bind { expected, ..Bind::new(path, meta.is_dir(), READ_ONLY) });
        }
        Ok(())
    }

    fn add_configuration(&mut self) -> io::Result<()> {
        let etc = Path::new("/etc");
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(etc)? {
            let entry = entry?;
            if is_configuration(entry.file_name().as_bytes()) {
                self.add_entry(&mut entries, etc, entry.file_name().into(), entry.file_type()?)?;
            }
        }
        for name in ETC_NESTED.map(PathBuf::from) {
            match etc.join(&name).symlink_metadata() {
                Ok(meta) => self.add_entry(&mut entries, etc, name, meta.file_type())?,
                Err(error) => left_out(error)?,
            }
        }
        self.excerpts.push(Excerpt { whole: Bind::new(etc, true, READ_ONLY), entries });
        Ok(())
    }

    /// A link becomes a link of the jail's own: followed here, it could lead anywhere.
    fn add_entry(
        &mut self,
        entries: &mut Vec<(PathBuf, bool)>,
        parent: &Path,
        name: PathBuf,
        kind: FileType,
    ) -> io::Result<()> {
        if kind.is_symlink() {
            let path = parent.join(name);
            self.links.push((path.clone(), std::fs::read_link(path)?));
        } else {
            entries.push((name, kind.is_dir()));
        }
        Ok(())
    }

    /// Opens every source. Root does so before it gives up root, a user in the mount namespace that init has made.
    pub(crate) fn open(&mut self, identity: &Identity) -> Result<()> {
        let whole = self.excerpts.iter_mut().map(|excerpt| &mut excerpt.whole);
        for bind in self.binds.iter_mut().chain(whole).filter(|bind| bind.mount.is_none()) {
            bind.mount = Some(bind.open()?);
        }
        let Some(workdir) = self.workdir.as_mut().filter(|workdir| workdir.mount.is_none()) else {
            return Ok(());
        };
        let mount = workdir.open()?;
        if identity.gives_up_root() {
            map_owner(&mount, &workdir.path, identity)?;
        }
        workdir.mount = Some(mount);
        Ok(())
    }
}

fn is_configuration(name: &[u8]) -> bool {
    ETC.iter().any(|wanted| wanted.as_bytes() == name)
        || ETC_VERSIONED.iter().any(|start| name.starts_with(start.as_bytes()))
}

/// What a host does not have is left out of the view.
fn left_out(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(()),
        _ => Err(error),
    }
}

impl Bind {
    fn new(path: impl Into<PathBuf>, is_dir: bool, attributes: u64) -> Self {
        Bind { path: path.into(), is_dir, attributes, expected: None, mount: None }
    }

    fn open(&self) -> Result<OwnedFd> {
        let path = c_path(&self.path)?;
        let mount = sys::clone_mount(&path)
            .context(STEP, format_args!("open_tree {:?}", self.path))
            .hint("the launcher must be able to reach it, and the kernel must be 5.12 or newer")?;
        self.check_identity(&mount)?;
        sys::set_mount_attributes(mount.as_fd(), self.attributes, None)
            .context(STEP, format_args!("mount_setattr {:?}", self.path))?;
        Ok(mount)
    }

    /// The path was judged by its name; whoever swapped it since then gets nothing.
    fn check_identity(&self, mount: &OwnedFd) -> Result<()> {
        let Some(expected) = self.expected else { return Ok(()) };
        let stat = nix::sys::stat::fstat(mount)
            .map_err(io::Error::from)
            .context(STEP, format_args!("stat {:?}", self.path))?;
        if expected == (stat.st_dev, stat.st_ino) {
            return Ok(());
        }
        Err(policy(format_args!("{:?} was replaced while the jail was being set up", self.path)))
    }

    /// Attaches the opened source at `target`, relative to the current directory.
    pub(crate) fn attach(&self, target: &Path) -> Result<()> {
        let operation = format_args!("move_mount {:?} to {target:?}", self.path).to_string();
        let mount = self
            .mount
            .as_ref()
            .ok_or_else(|| io::Error::other("it was not opened"))
            .context(STEP, &operation)?;
        sys::attach_mount(mount.as_fd(), &c_path(target)?).context(STEP, operation)
    }
}

/// An absolute path relative to its root.
pub(crate) fn below_root(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_path_buf()
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| policy(format_args!("{path:?} holds a zero byte")))
}
