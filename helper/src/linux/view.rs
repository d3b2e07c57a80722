//! Step 4: what the jail will see, decided outside and in the order in which it is mounted.

use super::identity::Identity;
use super::program::Program;
use super::sys;
use crate::error::{Context, Hint, Result, policy};
use agentkit_protocol::WorkDir;
use nix::libc;
use std::ffi::{CString, OsStr};
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const STEP: &str = "view";

/// Where the command works in a scratch work dir.
pub(crate) const SCRATCH: &str = "/work";
/// The private home.
pub(crate) const HOME: &str = "/home/jail";

/// Readable for everyone on every system, and without secrets. Where one is a link on the host (a merged `/usr`), the
/// link is made anew.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// The parts of `/etc` that programs need to start: links of /usr that lead there, the loader's cache, certificates,
/// names and types. No accounts, no host names, no keys.
const ETC: [&str; 13] = [
    "/etc/alternatives",
    "/etc/ca-certificates.conf",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
];

/// The same, by the start of a name that goes on with a version: `python3.13`, `java-21-openjdk`.
const ETC_VERSIONED: [&str; 2] = ["python3", "java-"];

/// A device node cannot be made in a user namespace, so the host's harmless ones are borrowed.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

const CLOSED: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = CLOSED | libc::MOUNT_ATTR_RDONLY;
/// Writing to a device is no write to its file system: the node's mode and times stay what they are.
const DEVICE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_RDONLY;

/// Work dirs that would hand over the host: each as such, and where marked with everything below.
const RESERVED: [(&str, bool); 17] = [
    ("/", false),
    ("/bin", true),
    ("/boot", true),
    ("/dev", true),
    ("/etc", true),
    ("/home", false),
    ("/lib", true),
    ("/lib64", true),
    ("/nix/store", true),
    ("/proc", true),
    ("/root", false),
    ("/run", true),
    ("/sbin", true),
    ("/sys", true),
    ("/tmp", false),
    ("/usr", false),
    ("/var", false),
];

/// Whether a path lies in a system directory and so needs no grant.
pub(crate) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// The work dir as it is on the host.
#[derive(Debug)]
pub(crate) enum WorkPath {
    /// Private and in memory.
    Scratch,
    /// A host directory: its real path, and which directory it was when it was found.
    Bind { path: PathBuf, device: u64, inode: u64 },
}

impl WorkPath {
    /// Resolves the work dir once; what is mounted later must be the same directory.
    pub(crate) fn find(workdir: &WorkDir) -> Result<Self> {
        let WorkDir::Bind(bytes) = workdir else { return Ok(WorkPath::Scratch) };
        let asked = Path::new(OsStr::from_bytes(&bytes.0));
        let path = asked.canonicalize().context(STEP, format_args!("resolve the work dir {asked:?}"))?;
        let meta = path.metadata().context(STEP, format_args!("stat the work dir {path:?}"))?;
        if !meta.is_dir() {
            return Err(policy(format_args!("the work dir {asked:?} is not a directory")));
        }
        let reserved =
            |&(root, below): &(&str, bool)| path == Path::new(root) || (below && path.starts_with(root));
        if RESERVED.iter().any(reserved) {
            return Err(policy(format_args!("the work dir {path:?} would hand the host to the jail")))
                .hint("use a directory of its own");
        }
        Ok(WorkPath::Bind { device: meta.dev(), inode: meta.ino(), path })
    }

    /// Where the command starts, as the jail sees it.
    pub(crate) fn inside(&self) -> &Path {
        match self {
            WorkPath::Scratch => Path::new(SCRATCH),
            WorkPath::Bind { path, .. } => path,
        }
    }

    /// The host directory that the jail can write, if there is one.
    pub(crate) fn on_host(&self) -> Option<&Path> {
        match self {
            WorkPath::Scratch => None,
            WorkPath::Bind { path, .. } => Some(path),
        }
    }
}

/// What is mounted from the host, in order.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// Links that are made anew: where, and what they say.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Host directories and files, read-only.
    pub(crate) binds: Vec<Bind>,
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
    /// Device and inode that it must have.
    expected: Option<(u64, u64)>,
    mount: Option<OwnedFd>,
}

impl View {
    /// Decides what is seen; mounts nothing yet.
    pub(crate) fn new(workdir: &WorkPath, program: Option<&Program>) -> Result<Self> {
        let mut view = View::default();
        for path in SYSTEM.iter().chain(&ETC).map(Path::new) {
            view.add_if_there(path, READ_ONLY)?;
        }
        for path in versioned_configuration().context(STEP, "list /etc")? {
            view.add_if_there(&path, READ_ONLY)?;
        }
        for path in DEVICES.iter().map(Path::new) {
            view.add_if_there(path, DEVICE)?;
        }
        for path in program.map_or(&[][..], |program| &program.grants) {
            let meta = path.symlink_metadata().context(STEP, format_args!("stat {path:?}"))?;
            view.add(path, &meta, READ_ONLY)?;
        }
        if let WorkPath::Bind { path, device, inode } = workdir {
            let expected = Some((*device, *inode));
            view.workdir =
                Some(Bind { path: path.clone(), is_dir: true, attributes: CLOSED, expected, mount: None });
        }
        Ok(view)
    }

    fn add_if_there(&mut self, path: &Path, attributes: u64) -> Result<()> {
        match path.symlink_metadata() {
            Ok(meta) => self.add(path, &meta, attributes),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    || error.kind() == io::ErrorKind::NotADirectory =>
            {
                Ok(())
            }
            Err(error) => Err(error).context(STEP, format_args!("stat {path:?}")),
        }
    }

    fn add(&mut self, path: &Path, meta: &Metadata, attributes: u64) -> Result<()> {
        if meta.is_symlink() {
            let says = std::fs::read_link(path).context(STEP, format_args!("read the link {path:?}"))?;
            self.links.push((path.to_path_buf(), says));
        } else {
            let expected = Some((meta.dev(), meta.ino()));
            let path = path.to_path_buf();
            self.binds.push(Bind { path, is_dir: meta.is_dir(), attributes, expected, mount: None });
        }
        Ok(())
    }

    /// Opens every source. Root does so before it gives up root, a user in the mount namespace that init has made.
    pub(crate) fn open(&mut self, identity: &Identity) -> Result<()> {
        for bind in self.binds.iter_mut().filter(|bind| bind.mount.is_none()) {
            bind.mount = Some(bind.open()?);
        }
        let Some(workdir) = self.workdir.as_mut().filter(|workdir| workdir.mount.is_none()) else {
            return Ok(());
        };
        let mount = workdir.open()?;
        if identity.gives_up_root() {
            super::namespaces::map_owner(&mount, &workdir.path, identity)?;
        }
        workdir.mount = Some(mount);
        Ok(())
    }
}

fn versioned_configuration() -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/etc")? {
        let path = entry?.path();
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        if ETC_VERSIONED.iter().any(|start| name.starts_with(start.as_bytes())) {
            found.push(path);
        }
    }
    Ok(found)
}

impl Bind {
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
        let stat = nix::sys::stat::fstat(mount)
            .map_err(io::Error::from)
            .context(STEP, format_args!("stat {:?}", self.path))?;
        match self.expected {
            Some(expected) if expected != (stat.st_dev, stat.st_ino) => {
                Err(policy(format_args!("{:?} was replaced while the jail was being set up", self.path)))
            }
            _ => Ok(()),
        }
    }

    /// Attaches the opened source at its own path below the current directory.
    pub(crate) fn attach(&self) -> Result<()> {
        let operation = format_args!("move_mount to {:?}", self.path).to_string();
        let mount = self
            .mount
            .as_ref()
            .ok_or_else(|| io::Error::other("it was not opened"))
            .context(STEP, &operation)?;
        sys::attach_mount(mount.as_fd(), &c_path(&below_root(&self.path))?).context(STEP, operation)
    }
}

/// An absolute path relative to its root.
pub(crate) fn below_root(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_path_buf()
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| policy(format_args!("{path:?} holds a zero byte")))
}
