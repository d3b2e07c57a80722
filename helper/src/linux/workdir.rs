//! Step 3: the directory that the command works in, found once.

use super::resolve::{links_between, look, plain};
use super::view::entry::Access;
use crate::error::{Context, Hint, Result, policy};
use crate::validate::Plan;
use agentkit_protocol::{Failure, FailureKind, WorkDir};
use nix::libc;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

const STEP: &str = "work dir";

/// Where the command works in a scratch work dir.
pub(crate) const SCRATCH: &str = "/work";
/// Directories whose writer has the host, each as such and where marked with everything below, by the reason.
const RESERVED: [(&str, &[(&str, bool)]); 5] = [
    (
        "programs and libraries of the host are taken from there",
        &[
            ("/bin", true),
            ("/gnu/store", true),
            ("/lib", true),
            ("/lib32", true),
            ("/lib64", true),
            ("/libx32", true),
            ("/nix", true),
            // What lies below is a project's or a package's own.
            ("/opt", false),
            ("/sbin", true),
            ("/snap", true),
            ("/usr", false),
            ("/usr/bin", true),
            ("/usr/games", true),
            ("/usr/include", true),
            ("/usr/lib", true),
            ("/usr/lib32", true),
            ("/usr/lib64", true),
            ("/usr/libexec", true),
            ("/usr/libx32", true),
            ("/usr/local/bin", true),
            ("/usr/local/games", true),
            ("/usr/local/include", true),
            ("/usr/local/lib", true),
            ("/usr/local/lib64", true),
            ("/usr/local/libexec", true),
            ("/usr/local/sbin", true),
            ("/usr/local/share", true),
            ("/usr/sbin", true),
            ("/usr/share", true),
        ],
    ),
    (
        "settings there say what the host executes",
        &[("/boot", true), ("/efi", true), ("/etc", true), ("/usr/etc", true), ("/usr/local/etc", true)],
    ),
    (
        "the host's services keep there what they act on",
        &[
            ("/var", false),
            ("/var/cache", false),
            ("/var/cache/apt", true),
            ("/var/lib", false),
            ("/var/lib/dpkg", true),
            ("/var/lib/systemd", true),
            ("/var/log", false),
            ("/var/spool", true),
        ],
    ),
    (
        "it is the kernel's, or holds sockets",
        &[("/dev", true), ("/proc", true), ("/run", true), ("/sys", true)],
    ),
    (
        "it holds what belongs to many",
        &[("/", false), ("/home", false), ("/root", false), ("/tmp", false), ("/var/tmp", false)],
    ),
];

/// The work dir as it is on the host.
#[derive(Debug)]
pub(crate) enum WorkPath {
    /// Private and in memory.
    Scratch,
    /// The same by a rule, in place of this host directory.
    ScratchAt(PathBuf),
    /// A host directory, to be read, to be written or below an overlay: its real path, device and inode when it was found,
    /// its path as it was asked for, and that if it says by itself where it is.
    Host { path: PathBuf, identity: (u64, u64), access: Access, asked: PathBuf, spelling: PathBuf },
}

impl WorkPath {
    /// Resolves the work dir once; what is mounted later must be the same directory.
    pub(crate) fn find(plan: &Plan) -> Result<Self> {
        let (bytes, access) = match &plan.workdir {
            WorkDir::Scratch => return Ok(WorkPath::Scratch),
            WorkDir::ScratchAt(bytes) => (bytes, Access::Private),
            WorkDir::Bind(bytes) if plan.workdir_read_only => (bytes, Access::Readable),
            WorkDir::Bind(bytes) => (bytes, Access::Writable),
            WorkDir::Overlay { path, commit } => (path, Access::Overlaid(*commit)),
        };
        let asked = Path::new(OsStr::from_bytes(&bytes.0));
        let found = look(asked)
            .context(STEP, format_args!("resolve the work dir {asked:?}"))
            .map_err(if_it_is_missing)?;
        if !found.is_dir() {
            return Err(policy(format_args!("the work dir {asked:?} is not a directory")));
        }
        let (identity, path) = (found.identity(), found.real);
        if access == Access::Private {
            return Ok(WorkPath::ScratchAt(path));
        }
        if let Some(why) = hands_over_the_host(&path) {
            return Err(policy(format_args!("the work dir {path:?} would hand the host to the jail: {why}")))
                .hint("use a directory of its own");
        }
        let spelling = spelling(asked).unwrap_or_else(|| path.clone());
        Ok(WorkPath::Host { path, identity, access, asked: asked.to_path_buf(), spelling })
    }

    /// Where the command starts, as the jail sees it.
    pub(crate) fn inside(&self) -> &Path {
        match self {
            WorkPath::Scratch => Path::new(SCRATCH),
            WorkPath::ScratchAt(path) => path,
            WorkPath::Host { path, .. } => path,
        }
    }

    /// The same as the caller spelled it.
    pub(crate) fn spelling(&self) -> &Path {
        match self {
            WorkPath::Scratch => Path::new(SCRATCH),
            WorkPath::ScratchAt(path) => path,
            WorkPath::Host { spelling, .. } => spelling,
        }
    }

    /// The links on the way from what was asked for to the real path.
    pub(crate) fn links_followed(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let WorkPath::Host { path, asked, .. } = self else { return Ok(Vec::new()) };
        let asked = std::path::absolute(asked).context(STEP, "find out the current directory")?;
        if asked == *path { Ok(Vec::new()) } else { links_between(&asked, path) }
    }

    /// The links on the way from the spelling to the real path.
    pub(crate) fn links(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        match self {
            WorkPath::Host { path, spelling, .. } if path != spelling => links_between(spelling, path),
            _ => Ok(Vec::new()),
        }
    }

    /// Whether it is a host directory that a rule makes read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, WorkPath::Host { access: Access::Readable, .. })
    }

    pub(crate) fn is_scratch(&self) -> bool {
        matches!(self, WorkPath::Scratch)
    }

    /// The host directory that it is, if it is one. As a rule the jail can write it, be it by a commit.
    pub(crate) fn on_host(&self) -> Option<&Path> {
        match self {
            WorkPath::Scratch | WorkPath::ScratchAt(_) => None,
            WorkPath::Host { path, .. } => Some(path),
        }
    }
}

/// Why a writable `path` would hand over the host, if it would. Links among the reserved names (a merged `/usr`, `/var/run`)
/// were followed in it, so a name alone would not do. What holds one of them hands it over too.
pub(crate) fn hands_over_the_host(path: &Path) -> Option<&'static str> {
    // For each of many rules, but found out once.
    static REAL: OnceLock<Vec<(PathBuf, bool, &str)>> = OnceLock::new();
    let real = |path: &str| Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    let reserved = REAL.get_or_init(|| {
        let all = RESERVED.iter().flat_map(|(why, names)| names.iter().map(move |name| (name, *why)));
        all.map(|((root, below), why)| (real(root), *below, why)).collect()
    });
    let found = reserved
        .iter()
        .filter(|(root, below, _)| root.starts_with(path) || (*below && path.starts_with(root)));
    // The nearest reason: above all of them is the root.
    found.max_by_key(|(root, ..)| (path.starts_with(root), root.as_os_str().len())).map(|(.., why)| *why)
}

/// To name one that does not exist is the caller's mistake.
fn if_it_is_missing(failure: Failure) -> Failure {
    match failure.errno {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG) => {
            Failure { kind: FailureKind::Policy, ..failure }
        }
        _ => failure,
    }
}

/// An absolute path that says where it is by itself.
fn spelling(asked: &Path) -> Option<PathBuf> {
    let fixed = asked.is_absolute() && !asked.components().any(|part| part == Component::ParentDir);
    fixed.then(|| plain(asked))
}
