//! Step 3: which file is the command, and what else it needs to be readable.
//!
//! Interpreters often live under a home directory that the jail hides (pyenv, venv, conda, uv). Their prefix is
//! granted read-only. Nothing is executed to find it, and nothing that a jail could have written widens the view:
//! whatever lies in the work dir grants nothing.

use super::view::is_system;
use super::workdir::WorkPath;
use crate::error::{Result, failure};
use agentkit_protocol::FailureKind;
use nix::unistd::{AccessFlags, access};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

const STEP: &str = "program";
/// As many as the kernel follows in one path, see path_resolution(7).
const MOST_LINKS: usize = 40;
/// More names than a path of the longest kind has, with its links.
const MOST_NAMES: usize = 8192;

/// What the lookup depends on beside the file system.
pub(crate) struct Surroundings {
    /// Directories to look in, the launcher's `PATH`.
    path: OsString,
    /// What must not be granted as a whole.
    homes: Vec<PathBuf>,
    /// The version that pyenv's own variable chooses.
    pyenv_version: Option<String>,
    /// Where a jail can write.
    workdir: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn of_this_process(workdir: &WorkPath) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let real_home = home.as_ref().and_then(|home| home.canonicalize().ok());
        Surroundings {
            path: std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()),
            homes: [home, real_home].into_iter().flatten().collect(),
            pyenv_version: std::env::var("PYENV_VERSION").ok(),
            workdir: workdir.on_host().map(Path::to_path_buf),
        }
    }

    /// Whether resolving `path` leads into the work dir at any point, be it out of it again. Everything in there can be a
    /// link that a jail has made.
    fn leads_through_workdir(&self, path: &Path) -> bool {
        let Some(workdir) = &self.workdir else { return false };
        let mut resolved = PathBuf::from("/");
        let mut ahead: Vec<PathBuf> = vec![path.to_path_buf()];
        for _ in 0..MOST_NAMES {
            let Some(next) = ahead.pop() else { return false };
            let mut components = next.components();
            let first = match components.next() {
                None | Some(Component::CurDir | Component::Prefix(_)) => None,
                Some(Component::RootDir) => {
                    resolved = PathBuf::from("/");
                    None
                }
                Some(Component::ParentDir) => {
                    resolved.pop();
                    None
                }
                Some(Component::Normal(name)) => Some(resolved.join(name)),
            };
            if !components.as_path().as_os_str().is_empty() {
                ahead.push(components.as_path().to_path_buf());
            }
            let Some(first) = first else { continue };
            if first.starts_with(workdir) {
                return true;
            }
            match std::fs::read_link(&first) {
                Ok(target) => ahead.push(target),
                Err(_) => resolved = first,
            }
        }
        // Longer than any honest path: nothing is granted for it.
        true
    }

    /// Granting a prefix must not grant a home, or what the work dir lies in.
    fn is_narrow(&self, prefix: &Path) -> bool {
        let holds = |path: &PathBuf| path.starts_with(prefix);
        let is_a_home =
            prefix.parent().is_some_and(|parent| [Path::new("/home"), Path::new("/Users")].contains(&parent));
        !self.homes.iter().chain(&self.workdir).any(holds) && !is_a_home && prefix.components().count() > 2
    }
}

/// The command and what it needs.
#[derive(Debug)]
pub(crate) struct Program {
    /// What is executed, as the jail sees it.
    pub(crate) path: PathBuf,
    /// Directories and files outside the system directories that become readable under their own path.
    pub(crate) grants: Vec<PathBuf>,
}

impl Program {
    /// Looks up `argv[0]` the way a shell does.
    pub(crate) fn find(argv: &[CString], around: &Surroundings) -> Result<Self> {
        let name = Path::new(OsStr::from_bytes(argv.first().map_or(b"", |name| name.to_bytes())));
        if name.is_relative() && name.components().count() > 1 {
            // Relative to the work dir, which only exists inside.
            return Ok(Program { path: name.to_path_buf(), grants: Vec::new() });
        }
        if name.is_absolute() {
            let found = Some(name)
                .filter(|name| !around.leads_through_workdir(name) && is_executable(name))
                .and_then(real_parent);
            // A file that only exists inside, such as one of the policy's own, needs no grant, and one that the work dir
            // leads to gets none.
            return Ok(found.map_or_else(
                || Program { path: name.to_path_buf(), grants: Vec::new() },
                |path| Program { grants: grants(&path, around), path },
            ));
        }
        std::env::split_paths(&around.path)
            .filter(|dir| dir.is_absolute())
            .find_map(|dir| candidate(&dir, name, around))
            .map(|path| Program { grants: grants(&path, around), path })
            .ok_or_else(|| {
                failure(FailureKind::NotFound, STEP, format_args!("{name:?} is in no directory of PATH"))
            })
    }
}

/// The file called `name` in one directory of `PATH`, if it is a program.
fn candidate(dir: &Path, name: &Path, around: &Surroundings) -> Option<PathBuf> {
    let path = dir.join(name);
    if around.leads_through_workdir(&path) {
        return None;
    }
    let path = real_parent(&path).filter(|path| is_executable(path))?;
    let root =
        path.parent().filter(|dir| dir.file_name() == Some(OsStr::new("shims"))).and_then(Path::parent);
    match root {
        Some(root) if root.join("versions").is_dir() => pyenv_version(root, name, around),
        _ => Some(path),
    }
}

/// pyenv puts a script in front of each interpreter that picks a version and runs it. The choice is read from where
/// the script reads it, except for a `.python-version` near the work dir, which a jail may have written.
fn pyenv_version(root: &Path, name: &Path, around: &Surroundings) -> Option<PathBuf> {
    let chosen =
        around.pyenv_version.clone().or_else(|| std::fs::read_to_string(root.join("version")).ok())?;
    let version = chosen.split([':', '\n']).map(str::trim).find(|version| !version.is_empty())?;
    let plain = !version.contains('/') && version != "..";
    let program = root.join("versions").join(version).join("bin").join(name);
    let usable = plain && !around.leads_through_workdir(&program);
    real_parent(&program).filter(|program| usable && is_executable(program))
}

/// The path with all links but a last one resolved: what has to exist inside under that name.
fn real_parent(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?.canonicalize().ok()?;
    Some(parent.join(path.file_name()?))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

/// What `program` needs beside the system directories: for each link on the way to the real file, the prefix that the
/// link is in.
fn grants(program: &Path, around: &Surroundings) -> Vec<PathBuf> {
    let mut grants: Vec<PathBuf> = Vec::new();
    let mut at = program.to_path_buf();
    for _ in 0..MOST_LINKS {
        grants.extend(grant(&at, around));
        let Ok(target) = std::fs::read_link(&at) else { break };
        let next = at.parent().map(|parent| parent.join(target));
        let next = next.filter(|next| !around.leads_through_workdir(next)).as_deref().and_then(real_parent);
        let Some(next) = next else { break };
        at = next;
    }
    outermost(grants)
}

fn grant(file: &Path, around: &Surroundings) -> Vec<PathBuf> {
    if is_system(file) {
        return Vec::new();
    }
    let bin = file.parent().filter(|parent| parent.file_name() == Some(OsStr::new("bin")));
    let prefix = bin.and_then(Path::parent).filter(|prefix| around.is_narrow(prefix));
    match prefix {
        Some(venv) if venv.join("pyvenv.cfg").is_file() => {
            std::iter::once(venv.to_path_buf()).chain(venv_base(venv, around)).collect()
        }
        Some(prefix) if has_python_library(prefix) => vec![prefix.to_path_buf()],
        _ if is_program_file(file) => vec![file.to_path_buf()],
        _ => Vec::new(),
    }
}

/// The installation that a virtual environment was made from: `home` in `pyvenv.cfg` is its `bin`
/// (<https://docs.python.org/3/library/venv.html>). Links usually lead there too, copies do not.
fn venv_base(venv: &Path, around: &Surroundings) -> Option<PathBuf> {
    let config = std::fs::read_to_string(venv.join("pyvenv.cfg")).ok()?;
    let home = config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| PathBuf::from(value.trim()))
    })?;
    if around.leads_through_workdir(&home) {
        return None;
    }
    let base = home.canonicalize().ok()?.parent()?.to_path_buf();
    let wanted = !is_system(&base) && around.is_narrow(&base) && has_python_library(&base);
    wanted.then_some(base)
}

/// The landmark by which Python itself finds its prefix.
fn has_python_library(prefix: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(prefix.join("lib")) else { return false };
    entries.filter_map(std::result::Result::ok).any(|entry| {
        entry.file_name().as_bytes().starts_with(b"python3") && entry.path().join("os.py").is_file()
    })
}

/// A regular file with an execute bit: what a link leads to is no secret by accident then.
fn is_program_file(file: &Path) -> bool {
    std::fs::symlink_metadata(file)
        .is_ok_and(|meta| meta.is_symlink() || (meta.is_file() && meta.permissions().mode() & 0o111 != 0))
}

/// Drops duplicates and what another entry already holds.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    let all = paths.clone();
    paths.retain(|path| !all.iter().any(|other| other != path && path.starts_with(other)));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A home with a pyenv and a virtual environment in it, somewhere that is not a system directory.
    struct Host {
        root: tempfile::TempDir,
    }

    impl Host {
        fn new() -> Self {
            let host = Host { root: tempfile::tempdir().unwrap() };
            for version in ["3.11.7", "3.12.0"] {
                host.program(&format!("home/.pyenv/versions/{version}/bin/python3"));
                fs::create_dir_all(host.path(&format!("home/.pyenv/versions/{version}/lib/python3.11")))
                    .unwrap();
                fs::write(host.path(&format!("home/.pyenv/versions/{version}/lib/python3.11/os.py")), "")
                    .unwrap();
            }
            host.program("home/.pyenv/shims/python3");
            fs::write(host.path("home/.pyenv/version"), "3.11.7\n").unwrap();
            fs::create_dir_all(host.path("home/.v/bin")).unwrap();
            fs::write(
                host.path("home/.v/pyvenv.cfg"),
                format!("home = {}\n", host.path("home/.pyenv/versions/3.12.0/bin").display()),
            )
            .unwrap();
            symlink(host.path("home/.pyenv/versions/3.12.0/bin/python3"), host.path("home/.v/bin/python3"))
                .unwrap();
            fs::create_dir_all(host.path("work")).unwrap();
            host
        }

        fn path(&self, below: &str) -> PathBuf {
            self.root.path().canonicalize().unwrap().join(below)
        }

        fn program(&self, below: &str) {
            let path = self.path(below);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn around(&self, path: &str) -> Surroundings {
            Surroundings {
                path: self.path(path).into(),
                homes: vec![self.path("home")],
                pyenv_version: None,
                workdir: Some(self.path("work")),
            }
        }

        fn find(&self, name: impl AsRef<OsStr>, path: &str) -> Result<Program> {
            Program::find(&[CString::new(name.as_ref().as_bytes()).unwrap()], &self.around(path))
        }
    }

    #[test]
    fn a_pyenv_shim_leads_to_the_chosen_version_and_grants_only_that() {
        let host = Host::new();
        let program = host.find("python3", "home/.pyenv/shims").unwrap();
        assert_eq!(program.path, host.path("home/.pyenv/versions/3.11.7/bin/python3"));
        assert_eq!(program.grants, [host.path("home/.pyenv/versions/3.11.7")]);

        let mut around = host.around("home/.pyenv/shims");
        around.pyenv_version = Some("3.12.0:system".to_owned());
        assert_eq!(
            Program::find(&[c"python3".to_owned()], &around).unwrap().path,
            host.path("home/.pyenv/versions/3.12.0/bin/python3")
        );
        for hostile in ["../../..", "..", "/etc"] {
            around.pyenv_version = Some(hostile.to_owned());
            assert!(Program::find(&[c"python3".to_owned()], &around).is_err(), "{hostile}");
        }
    }

    #[test]
    fn a_virtual_environment_brings_its_base_along() {
        let host = Host::new();
        let program = host.find(host.path("home/.v/bin/python3"), "nowhere").unwrap();
        assert_eq!(program.path, host.path("home/.v/bin/python3"));
        assert_eq!(program.grants, [host.path("home/.pyenv/versions/3.12.0"), host.path("home/.v")]);
    }

    #[test]
    fn a_program_beside_secrets_is_granted_alone() {
        let host = Host::new();
        host.program("home/bin/tool");
        fs::create_dir_all(host.path("home/lib/python3.11")).unwrap();
        fs::write(host.path("home/lib/python3.11/os.py"), "").unwrap();
        let program = host.find("tool", "home/bin").unwrap();
        assert_eq!(
            program.grants,
            [host.path("home/bin/tool")],
            "a home is never a prefix, whatever lies in it"
        );
    }

    #[test]
    fn nothing_in_the_work_dir_grants_anything() {
        let host = Host::new();
        fs::write(host.path("home/secret"), "key").unwrap();
        // What a jail could have left behind in an earlier run.
        fs::create_dir_all(host.path("work/v/bin")).unwrap();
        fs::write(
            host.path("work/v/pyvenv.cfg"),
            format!("home = {}\n", host.path("home/.pyenv/versions/3.12.0/bin").display()),
        )
        .unwrap();
        symlink(host.path("home/.pyenv/versions/3.12.0/bin/python3"), host.path("work/v/bin/python3"))
            .unwrap();
        symlink(host.path("home/secret"), host.path("work/v/bin/secret")).unwrap();
        assert_eq!(host.find(host.path("work/v/bin/python3"), "nowhere").unwrap().grants, [] as [PathBuf; 0]);
        assert_eq!(host.find(host.path("work/v/bin/secret"), "nowhere").unwrap().grants, [] as [PathBuf; 0]);
        assert_eq!(host.find("python3", "work/v/bin").unwrap_err().kind, FailureKind::NotFound);
    }

    /// What a run can prepare for the next one: a directory of the work dir replaced by a link to a neighbour.
    #[test]
    fn no_way_through_the_work_dir_grants_anything() {
        let host = Host::new();
        symlink(host.path("home/.v"), host.path("work/.venv")).unwrap();
        symlink("../home/.v/bin", host.path("work/bin")).unwrap();
        symlink(host.path("work"), host.path("alias")).unwrap();
        symlink(host.path("work/.venv/bin/python3"), host.path("home/bin3")).unwrap();
        let none = [] as [PathBuf; 0];
        for name in
            ["work/.venv/bin/python3", "work/../work/.venv/bin/python3", "alias/bin/python3", "home/bin3"]
        {
            let grants = host.find(host.path(name), "nowhere").map(|program| program.grants);
            assert_eq!(grants.unwrap(), none, "{name}");
        }
        for path in ["work/.venv/bin", "alias/.venv/bin", "alias/bin", "home/../work/bin"] {
            assert_eq!(host.find("python3", path).unwrap_err().kind, FailureKind::NotFound, "{path}");
        }
        fs::write(host.path("home/.v/pyvenv.cfg"), format!("home = {}\n", host.path("alias/bin").display()))
            .unwrap();
        let grants = host.find(host.path("home/.v/bin/python3"), "nowhere").unwrap().grants;
        assert_eq!(grants, [host.path("home/.pyenv/versions/3.12.0"), host.path("home/.v")]);
    }

    #[test]
    fn a_link_to_a_secret_outside_grants_no_secret() {
        let host = Host::new();
        fs::write(host.path("home/secret"), "key").unwrap();
        fs::set_permissions(host.path("home/secret"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir_all(host.path("other/bin")).unwrap();
        symlink(host.path("home/secret"), host.path("other/bin/x")).unwrap();
        let grants = host.find(host.path("other/bin/x"), "nowhere").unwrap().grants;
        assert!(!grants.contains(&host.path("home/secret")), "{grants:?}");
    }

    #[test]
    fn system_programs_need_no_grant() {
        let host = Host::new();
        let program = Program::find(&[c"/bin/sh".to_owned()], &host.around("nowhere")).unwrap();
        assert_eq!(program.grants, [] as [PathBuf; 0]);
    }
}
