//! What the jail sees of the host: the system, what the policy shows, and the private directories.

use super::private::Private;
use super::profile::{Access, Grant};
use crate::error::{Context, Hint, Result, failure, policy};
use crate::validate::Plan;
use agentkit_protocol::{Access as Asked, Failure, FailureKind, WorkDir};
#[cfg(target_os = "macos")]
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
#[cfg(target_os = "macos")]
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const STEP: &str = "view";

/// What every jail sees, as far as it exists. Nothing that holds settings or data of services, which can be secrets: so
/// not all of Homebrew, and nothing of the data volume under its second name, below `/System/Volumes`.
const SYSTEM: [(&str, Access); 22] = [
    ("/Library/Apple", Access::Readable),
    ("/Library/Developer/CommandLineTools", Access::Readable),
    ("/Library/Frameworks", Access::Readable),
    ("/System", Access::Readable),
    ("/System/Volumes", Access::Hidden),
    ("/System/Volumes/Preboot/Cryptexes", Access::Readable),
    ("/bin", Access::Readable),
    ("/private/etc/hosts", Access::Readable),
    ("/private/etc/localtime", Access::Readable),
    ("/private/etc/paths", Access::Readable),
    ("/private/etc/paths.d", Access::Readable),
    ("/private/etc/protocols", Access::Readable),
    ("/private/etc/services", Access::Readable),
    ("/private/etc/shells", Access::Readable),
    ("/private/etc/ssl/cert.pem", Access::Readable),
    // Two places of the loader: releases differ.
    ("/private/preboot/Cryptexes", Access::Readable),
    ("/private/var/db/dyld", Access::Readable),
    ("/private/var/db/timezone", Access::Readable),
    // Says which shell /bin/sh is.
    ("/private/var/select", Access::Readable),
    ("/sbin", Access::Readable),
    ("/usr", Access::Readable),
    ("/usr/local", Access::Hidden),
];
/// Where package managers install.
const PREFIXES: [&str; 3] = ["/opt/homebrew", "/opt/local", "/usr/local"];
const PARTS: [&str; 12] = [
    "Caskroom",
    "Cellar",
    "Frameworks",
    "bin",
    "etc/ca-certificates",
    "etc/openssl@3",
    "include",
    "lib",
    "libexec",
    "opt",
    "sbin",
    "share",
];
/// The link to the developer tools in use, which the stand-ins in `/usr/bin` for git, cc and others follow.
const DEVELOPER: &str = "/private/var/db/xcode_select_link";

/// Directories whose writer has the host, each as such and where marked with everything below.
const RESERVED: [(&str, bool); 19] = [
    ("/", false),
    ("/Applications", true),
    ("/Library", true),
    ("/System", true),
    ("/Users", false),
    ("/Users/Shared", false),
    ("/Volumes", false),
    ("/bin", true),
    ("/dev", true),
    ("/opt", false),
    ("/opt/homebrew", true),
    ("/private", false),
    ("/private/etc", true),
    ("/private/tmp", false),
    ("/private/var", false),
    ("/private/var/db", true),
    ("/private/var/tmp", false),
    ("/sbin", true),
    ("/usr", true),
];

/// See the module.
pub(super) struct View {
    pub(super) grants: BTreeMap<PathBuf, Grant>,
    pub(super) spellings: BTreeSet<PathBuf>,
    /// Where the command starts, and how the caller calls it.
    pub(super) workdir: PathBuf,
    pub(super) workdir_spelling: PathBuf,
}

impl View {
    pub(super) fn of(plan: &Plan, private: &Private) -> Result<Self> {
        let mut view = View {
            grants: BTreeMap::new(),
            spellings: BTreeSet::from([PathBuf::from(DEVELOPER)]),
            workdir: private.work.clone(),
            workdir_spelling: private.work.clone(),
        };
        for (path, access) in SYSTEM {
            view.show_system(Path::new(path), access);
        }
        for prefix in PREFIXES.map(Path::new) {
            PARTS.iter().for_each(|part| view.show_system(&prefix.join(part), Access::Readable));
        }
        if let Some(tools) = developer_tools() {
            view.show_system(&tools, Access::Readable);
        }
        // Also where a rule or the work dir shows what is around it.
        view.grants.insert(private.base.clone(), Grant { access: Access::Hidden, is_directory: true });
        for path in [&private.home, &private.tmp, &private.work] {
            view.grants.insert(path.clone(), Grant { access: Access::Writable, is_directory: true });
        }
        if let WorkDir::Bind(bytes) = &plan.workdir {
            view.show_workdir(Path::new(OsStr::from_bytes(&bytes.0)), plan.workdir_read_only)?;
        }
        view.apply_rules(plan)?;
        Ok(view)
    }

    /// The access of the longest granted path that holds this one.
    pub(super) fn access(&self, path: &Path) -> Option<Access> {
        path.ancestors().find_map(|path| self.grants.get(path)).map(|grant| grant.access)
    }

    fn show_system(&mut self, path: &Path, access: Access) {
        if let Ok(metadata) = fs::metadata(path) {
            // The name itself can be a link, as that of the time zone is.
            self.spellings.insert(path.to_owned());
            let real = real(path).unwrap_or_else(|_| path.to_owned());
            self.grants.insert(real, Grant { access, is_directory: metadata.is_dir() });
        }
    }

    fn show_workdir(&mut self, asked: &Path, read_only: bool) -> Result<()> {
        let path = real(asked).context(STEP, format_args!("resolve the work dir {asked:?}"));
        // To name one that does not exist is the caller's mistake.
        let path = path.map_err(|failure| match failure.errno {
            Some(libc::ENOENT | libc::ENOTDIR) => Failure { kind: FailureKind::Policy, ..failure },
            _ => failure,
        })?;
        if !path.is_dir() {
            return Err(policy(format_args!("the work dir {asked:?} is not a directory")));
        }
        refuse_reserved(&path)?;
        let access = if read_only { Access::Readable } else { Access::Writable };
        self.grants.insert(path.clone(), Grant { access, is_directory: true });
        self.workdir_spelling = if asked.is_absolute() { asked.to_owned() } else { path.clone() };
        self.spellings.insert(self.workdir_spelling.clone());
        self.workdir = path;
        Ok(())
    }

    fn apply_rules(&mut self, plan: &Plan) -> Result<()> {
        let mut known: BTreeMap<PathBuf, Asked> = BTreeMap::new();
        for (path, asked) in &plan.rules {
            let access = match asked {
                Asked::Ro => Access::Readable,
                Asked::Rw => Access::Writable,
                Asked::Hide => Access::Hidden,
                Asked::Tmpfs => {
                    let message = format_args!(
                        "rules: {path:?}: macOS cannot put an empty directory in the place of another"
                    );
                    return Err(failure(FailureKind::Host, STEP, message)).hint("hide it instead");
                }
            };
            // What does not exist grants nothing, and stays hidden if it comes to be.
            let Some((real, is_directory)) = find(path, access)? else { continue };
            if access == Access::Writable {
                refuse_reserved(&real)?;
            }
            if known.insert(real.clone(), *asked).is_some_and(|before| before != *asked) {
                let message = format_args!("rules: {real:?} is there by two names, with different accesses");
                return Err(policy(message));
            }
            self.spellings.extend((access != Access::Hidden).then(|| path.clone()));
            self.grants.insert(real, Grant { access, is_directory });
        }
        Ok(())
    }
}

/// Without links, and in the letters that the volume has: the kernel judges by these, and opens a file by others too.
fn real(path: &Path) -> io::Result<PathBuf> {
    let path = path.canonicalize()?;
    Ok(stored(&path).unwrap_or(path))
}

/// Nothing for what cannot be opened by this user, in whatever letters.
#[cfg(target_os = "macos")]
fn stored(path: &Path) -> Option<PathBuf> {
    let waits_for_nobody = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = fs::OpenOptions::new().read(true).custom_flags(waits_for_nobody).open(path).ok()?;
    let mut stored = PathBuf::new();
    fcntl(&file, FcntlArg::F_GETPATH(&mut stored)).ok()?;
    Some(stored)
}

/// Elsewhere this file is only tested.
#[cfg(not(target_os = "macos"))]
fn stored(_path: &Path) -> Option<PathBuf> {
    None
}

/// The real path, and whether it is a directory.
fn find(path: &Path, access: Access) -> Result<Option<(PathBuf, bool)>> {
    match real(path) {
        Ok(real) => {
            let is_directory = real.is_dir();
            Ok(Some((real, is_directory)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && access == Access::Hidden => {
            let existing = path.ancestors().find_map(|above| Some((above, real(above).ok()?)));
            let hidden = existing.map(|(above, real)| real.join(path.strip_prefix(above).unwrap_or(path)));
            Ok(hidden.map(|path| (path, true)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(STEP, format_args!("resolve {path:?}")),
    }
}

fn refuse_reserved(path: &Path) -> Result<()> {
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    let reserved = RESERVED.iter().map(|(root, below)| (Path::new(root), *below));
    let reserved = reserved.chain(home.as_deref().map(|home| (home, false)));
    let holds = |(root, below): (&Path, bool)| root.starts_with(path) || (below && path.starts_with(root));
    if reserved.into_iter().any(holds) {
        let message = format_args!("{path:?} would hand the host to the jail, which could write there");
        return Err(policy(message)).hint("use a directory of its own");
    }
    Ok(())
}

/// Of Xcode, all of the application but what lies beside: its tools load libraries from there.
fn developer_tools() -> Option<PathBuf> {
    let tools = Path::new(DEVELOPER).canonicalize().ok()?;
    let is_xcode = tools.ends_with("Contents/Developer");
    if is_xcode { tools.parent().map(Path::to_owned) } else { Some(tools) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;
    use agentkit_protocol::{Bytes, Policy, Rule};
    use std::os::unix::fs::symlink;

    /// A host directory with `real/a`, a link to `real`, and a file.
    fn host() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/a")).unwrap();
        symlink("real", root.join("link")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        (directory, root)
    }

    fn view(workdir: Option<PathBuf>, rules: Vec<(PathBuf, Asked)>) -> Result<View> {
        let mut policy = Policy::new(["true"]);
        policy.workdir = workdir.map_or(WorkDir::Scratch, |path| WorkDir::Bind(Bytes::from(path)));
        let rule = |(path, access)| Rule { path: Bytes::from(path), access };
        policy.rules = rules.into_iter().map(rule).collect();
        let plan = validate::plan(policy)?;
        View::of(&plan, &Private::make(&[])?)
    }

    #[test]
    fn paths_are_resolved_and_their_spelling_leads_to_them() {
        let (_kept, root) = host();
        let view = view(Some(root.join("link")), vec![(root.join("link/a"), Asked::Ro)]).unwrap();
        assert_eq!(view.workdir, root.join("real"));
        assert_eq!(view.workdir_spelling, root.join("link"));
        assert!(view.spellings.contains(&root.join("link")) && view.spellings.contains(&root.join("link/a")));
        assert_eq!(view.access(&root.join("real/x")), Some(Access::Writable));
        assert_eq!(view.access(&root.join("real/a/x")), Some(Access::Readable));
        assert_eq!(view.access(&root.join("file")), None);
    }

    #[test]
    fn what_does_not_exist_is_hidden_and_not_shown() {
        let (_kept, root) = host();
        let missing = root.join("link/new/er");
        let view = view(None, vec![(missing.clone(), Asked::Hide), (root.join("other"), Asked::Rw)]).unwrap();
        assert_eq!(view.access(&root.join("real/new/er/x")), Some(Access::Hidden));
        assert_eq!(view.access(&root.join("other")), None);
    }

    #[test]
    fn private_directories_are_that_wherever_they_lie() {
        let (_kept, root) = host();
        let mut policy = Policy::new(["true"]);
        let around = std::env::temp_dir().canonicalize().unwrap();
        policy.rules = vec![Rule { path: Bytes::from(around.clone()), access: Asked::Ro }];
        let private = Private::make(&[]).unwrap();
        let view = View::of(&validate::plan(policy).unwrap(), &private).unwrap();
        assert_eq!(view.access(&private.canary), Some(Access::Hidden));
        assert_eq!(view.access(&private.tmp.join("x")), Some(Access::Writable));
        assert!(!root.starts_with(&around) || view.access(&root) == Some(Access::Readable));
    }

    #[test]
    fn a_file_is_granted_as_one() {
        let (_kept, root) = host();
        let view = view(None, vec![(root.join("file"), Asked::Rw)]).unwrap();
        let grant = Grant { access: Access::Writable, is_directory: false };
        assert_eq!(view.grants.get(&root.join("file")), Some(&grant));
    }

    #[test]
    fn what_contradicts_itself_or_hands_over_the_host_is_refused() {
        let (_kept, root) = host();
        let refusal = |workdir: Option<PathBuf>, rules: Vec<(PathBuf, Asked)>| match view(workdir, rules) {
            Err(failure) => failure,
            Ok(_) => panic!("not refused"),
        };
        let twice = vec![(root.join("real"), Asked::Ro), (root.join("link"), Asked::Hide)];
        assert!(refusal(None, twice).message.contains("two names"));
        let tmpfs = refusal(None, vec![(root.join("real"), Asked::Tmpfs)]);
        assert!(tmpfs.kind == FailureKind::Host && tmpfs.hint.is_some(), "{tmpfs}");
        for path in ["/", "/usr/bin"] {
            assert!(refusal(Some(path.into()), vec![]).message.contains("hand the host"), "{path}");
            assert!(
                refusal(None, vec![(path.into(), Asked::Rw)]).message.contains("hand the host"),
                "{path}"
            );
        }
        assert_eq!(refusal(Some(root.join("missing")), vec![]).kind, FailureKind::Policy);
        assert!(refusal(Some(root.join("file")), vec![]).message.contains("not a directory"));
    }
}
