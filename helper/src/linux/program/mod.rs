//! Step 3: which file is the command, and what else it needs to be readable.
//!
//! Interpreters often live under a home directory that the jail hides (pyenv, venv, conda, uv, nvm, rustup). Those that
//! `argv` or `PATH` lead to are granted read-only. Nothing is executed to find them, and nothing that this jail can write
//! widens its view: whatever lies there grants nothing. What another jail wrote where this one cannot is like any other
//! file of the host: who names a program there trusts it.

mod prefix;
mod script;
mod versions;
mod walk;

use super::mount_table::MountTable;
use super::resolve::{Sight, is_scarcity, look};
use super::view::{self, Found, HOME, is_system};
use super::workdir::{SCRATCH, WorkPath};
use crate::error::{Context, Hint, Result, failure};
use crate::validate::Plan;
use agentkit_protocol::{Bytes, Failure, FailureKind};
use script::Interpreter;
use std::cell::RefCell;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use versions::StandIns;
use walk::Walk;
#[cfg(any(test, fuzzing))]
pub(crate) use {
    prefix::home_in,
    script::{Interpreter as AnyInterpreter, parse as parse_script},
    versions::{tool_in, toolchain_in},
};

const STEP: &str = "program";
/// Where programs are if nothing else is said.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// More interpreters of interpreters the kernel does not start (`ELOOP`).
const MOST_SCRIPTS: u8 = 5;

/// Values by name.
type Variables<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// What the lookup depends on beside the file system.
pub(crate) struct Surroundings<'a> {
    /// The launcher's variables.
    own: Box<Variables<'a>>,
    /// The policy's variables.
    asked: &'a [(String, Bytes)],
    /// Where this jail can write, as real paths, and by every name that a bind mount gives it.
    writable: Vec<PathBuf>,
    /// The host directory that the command starts in.
    start: Option<PathBuf>,
    /// Why something could not be looked at that may be there.
    scarcity: RefCell<Option<io::Error>>,
}

impl<'a> Surroundings<'a> {
    /// Those of this process.
    pub(crate) fn of_this_process(workdir: &WorkPath, rules: &[Found], plan: &'a Plan) -> Result<Self> {
        let start = workdir.on_host().map(Path::to_path_buf);
        let mut writable: Vec<_> =
            workdir.on_host().into_iter().chain(view::writable(rules)).map(Path::to_path_buf).collect();
        if !writable.is_empty() {
            writable.extend(MountTable::of_this_process(STEP)?.other_names(&writable));
        }
        let own = Box::new(|name: &str| std::env::var_os(name));
        Ok(Surroundings { own, asked: &plan.env, writable, start, scarcity: RefCell::default() })
    }

    fn asked(&self, name: &str) -> Option<OsString> {
        let (_, value) = self.asked.iter().find(|(asked, _)| asked == name)?;
        Some(OsStr::from_bytes(&value.0).to_owned())
    }

    /// Where the command itself is looked for.
    fn path(&self) -> OsString {
        (self.own)("PATH").unwrap_or_else(|| USUAL_PATH.into())
    }

    fn walk(&self, from: impl AsRef<Path>, path: impl AsRef<Path>) -> Option<Walk> {
        self.seen(walk::walk(from.as_ref(), path.as_ref(), &self.writable)).flatten()
    }

    /// What is at a path, if it is a program.
    fn program_at(&self, path: &Path) -> Option<Sight> {
        self.seen(look(path)).filter(Sight::is_program)
    }

    /// Most that is looked for need not be there. For want of descriptors, say, another program would be taken for the
    /// one that is meant.
    fn seen<T>(&self, what: io::Result<T>) -> Option<T> {
        what.map_err(|error| is_scarcity(&error).then(|| self.scarcity.replace(Some(error)))).ok()
    }
}

/// The command and what it needs.
#[derive(Debug)]
pub(crate) struct Program {
    /// What is executed, as the jail sees it.
    pub(crate) path: PathBuf,
    /// Its arguments, the first one included.
    pub(crate) argv: Vec<CString>,
    /// Directories, files and links outside the system directories that become visible under their own path.
    pub(crate) grants: Vec<PathBuf>,
    /// Where the command looks for programs, unless the policy says so.
    pub(crate) search_path: OsString,
    /// Where cargo finds what was downloaded, if that is granted.
    pub(crate) cargo_home: Option<PathBuf>,
}

impl Program {
    /// Looks up `argv[0]` the way a shell does.
    pub(crate) fn find(argv: &[CString], around: &Surroundings) -> Result<Self> {
        let found = Program::look_up(argv, around);
        match around.scarcity.take() {
            Some(error) => Err(error).context(STEP, "look for the command"),
            None => found,
        }
    }

    fn look_up(argv: &[CString], around: &Surroundings) -> Result<Self> {
        let name = Path::new(OsStr::from_bytes(argv.first().map_or(b"", |name| name.to_bytes())));
        let mut search = Search::new(around, argv.get(1).map_or(b"", |word| word.to_bytes()));
        let path = if name.is_absolute() {
            match search.program(name) {
                Some(found) => found,
                // A file that only exists inside, such as one of the policy's own, needs no grant, and one that is found
                // by way of a place where a jail can write gets none.
                None => search.stands_for_something().map(|()| name.to_path_buf())?,
            }
        } else if name.components().count() > 1 {
            // Relative to the work dir, which only exists inside.
            name.to_path_buf()
        } else if let Some(found) = search.look_in(&around.path(), name) {
            found
        } else {
            search.stands_for_something()?;
            return Err(not_found(format_args!("{name:?} is in no directory of the launcher's PATH")));
        };
        // Meant for rustup, which is not asked.
        let is_rustups = |at| at == 1 && search.toolchain.is_some();
        let kept = argv.iter().enumerate().filter(|(at, _)| !is_rustups(*at));
        let argv = kept.map(|(_, word)| word.clone()).collect();
        Ok(search.into_program(path, argv))
    }
}

/// What has been found so far.
struct Search<'a> {
    around: &'a Surroundings<'a>,
    grants: Vec<PathBuf>,
    /// Directories of interpreters that scripts look for, which are not known as installations.
    dirs: Vec<PathBuf>,
    /// A first argument that only rustup understands, without its `+`.
    plus: Option<&'a OsStr>,
    /// The same once it is known that the command is one of rustup's.
    toolchain: Option<&'a OsStr>,
    scripts_left: u8,
    /// A stand-in that stands for nothing.
    idle_stand_in: Option<PathBuf>,
}

impl<'a> Search<'a> {
    fn new(around: &'a Surroundings<'a>, first_argument: &'a [u8]) -> Self {
        Search {
            around,
            grants: Vec::new(),
            dirs: Vec::new(),
            plus: first_argument.strip_prefix(b"+").map(OsStr::from_bytes),
            toolchain: None,
            scripts_left: MOST_SCRIPTS,
            idle_stand_in: None,
        }
    }

    /// The first program of that name.
    fn look_in(&mut self, path: &OsStr, name: &Path) -> Option<PathBuf> {
        std::env::split_paths(path)
            .filter(|dir| dir.is_absolute())
            .find_map(|dir| self.program(&dir.join(name)))
    }

    /// The path under which a program can be started inside, with all that it needs granted. None if there is none, or
    /// if a jail may have made that path.
    fn program(&mut self, path: &Path) -> Option<PathBuf> {
        let sight = self.around.program_at(path)?;
        if is_system(path) && is_system(&sight.real) && !sight.real.ends_with("rustup") {
            // What a distribution installs names the interpreters of the distribution.
            if sight.real.starts_with("/usr/local") && self.around.walk("/", path).is_some() {
                self.follow_script(&sight.real);
            }
            return Some(path.to_path_buf());
        }
        // Links among the parents are resolved here, a last one is kept: to many programs their name means something.
        let dir = self.around.walk("/", path.parent()?)?.real;
        let path = self.stood_for(&dir, path.file_name()?)?;
        let walk = self.around.walk("/", &path)?;
        self.grant_all(&walk);
        self.follow_script(&walk.real);
        Some(path)
    }

    /// The program itself, or the one that it is a stand-in for.
    fn stood_for(&mut self, dir: &Path, name: &OsStr) -> Option<PathBuf> {
        let itself = dir.join(name);
        let (dirs, toolchain) = match self.around.stand_ins(dir, self.plus) {
            Some(StandIns::Rustup(dirs)) if self.around.is_rustup(dir, name) => (dirs, self.plus),
            Some(StandIns::Shims(dirs)) => (dirs, None),
            _ => return Some(itself),
        };
        let found = self.around.first(&dirs, name);
        match found {
            Some(_) => self.toolchain = self.toolchain.or(toolchain),
            None => self.idle_stand_in = Some(itself),
        }
        found
    }

    /// Every link on the way to a program, and the program. Where one is in an installation, the installation.
    fn grant_all(&mut self, walk: &Walk) {
        for path in walk.links.iter().chain([&walk.real]).filter(|path| !is_system(path)) {
            let installation = path.parent().and_then(|dir| self.around.installation(dir));
            self.grants.extend(installation.unwrap_or_else(|| vec![path.clone()]));
        }
    }

    /// What the kernel starts for a script, and what is started for that.
    fn follow_script(&mut self, file: &Path) {
        let Some(left) = self.scripts_left.checked_sub(1) else { return };
        self.scripts_left = left;
        // The arguments are the script's.
        self.plus = None;
        match self.around.seen(script::interpreter_of(file)).flatten() {
            None => {}
            Some(Interpreter::At(path)) => self.need(&path),
            Some(Interpreter::Named { env, name }) => {
                self.need(&env);
                let path = self.around.asked("PATH").unwrap_or_else(|| self.around.path());
                let found = self.look_in(&path, Path::new(&name));
                self.dirs.extend(found.and_then(|found| Some(found.parent()?.to_path_buf())));
            }
        }
    }

    /// A program that will be started by exactly this path.
    fn need(&mut self, path: &Path) {
        let Some(sight) = self.around.program_at(path) else { return };
        if is_system(path) && is_system(&sight.real) {
            return;
        }
        let Some(walk) = self.around.walk("/", path) else { return };
        self.grant_all(&walk);
        self.follow_script(&walk.real);
    }

    /// Programs that the command starts by name: of `PATH`, the system directories and the installations outside.
    fn search_path(&mut self) -> Vec<PathBuf> {
        let asked = self.around.asked("PATH");
        let mut kept = Vec::new();
        let mut seen = Vec::new();
        for entry in std::env::split_paths(asked.as_ref().unwrap_or(&self.around.path())) {
            if is_system(&entry) {
                kept.push(entry);
            } else if entry.is_absolute() && !seen.contains(&entry) {
                let Some(walk) = self.around.walk("/", &entry) else { continue };
                if asked.is_some() {
                    // It is looked into under that name.
                    self.grants.extend(walk.links);
                }
                kept.extend(self.installations_in_force(&walk.real));
                seen.push(entry);
            }
        }
        kept
    }

    /// The directories of programs that an entry of `PATH` stands for, with their installations granted.
    fn installations_in_force(&mut self, dir: &Path) -> Vec<PathBuf> {
        let mut dirs = match self.around.stand_ins(dir, self.toolchain) {
            Some(StandIns::Shims(dirs) | StandIns::Rustup(dirs)) => dirs,
            None => vec![dir.to_path_buf()],
        };
        dirs.retain(|dir| {
            let installation = self.around.installation(dir);
            let is_kept = is_system(dir) || installation.is_some();
            self.grants.extend(installation.into_iter().flatten());
            is_kept
        });
        dirs
    }

    fn into_program(mut self, path: PathBuf, argv: Vec<CString>) -> Program {
        let kept = self.search_path();
        let own = path.parent().filter(|dir| dir.is_absolute() && !is_system(dir)).map(Path::to_path_buf);
        let found =
            std::mem::take(&mut self.dirs).into_iter().filter(|dir| !is_system(dir) && !kept.contains(dir));
        let mut dirs: Vec<PathBuf> = Vec::new();
        let all = own.into_iter().chain(found).chain(kept.iter().cloned());
        for dir in all.chain(std::env::split_paths(USUAL_PATH)) {
            if !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        let cargo_home = self.cargo_home(&dirs);
        // Each came out of a colon-separated list, or can do without.
        dirs.retain(|dir| !dir.as_os_str().as_bytes().contains(&b':'));
        let search_path = std::env::join_paths(dirs).unwrap_or_else(|_| USUAL_PATH.into());
        Program { path, argv, grants: outermost(self.grants), search_path, cargo_home }
    }

    /// Where there is a toolchain and a project to build, what was downloaded for it is granted too.
    fn cargo_home(&mut self, dirs: &[PathBuf]) -> Option<PathBuf> {
        self.around.start.as_ref()?;
        let has_cargo = |dir: &PathBuf| self.around.walk("/", dir.join("cargo")).is_some();
        dirs.iter().find(|dir| !is_system(dir) && has_cargo(dir))?;
        let home = (self.around.own)("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(&(self.around.own)("HOME")?).join(".cargo")))?;
        let home = self.around.walk("/", home).map(|walk| walk.real)?;
        let registry = self.around.public_registry(&home);
        self.grants.extend(registry.iter().cloned());
        (!registry.is_empty()).then_some(home)
    }

    /// Fails if the command could only have been a stand-in's.
    fn stands_for_something(&self) -> Result<()> {
        let Some(stand_in) = &self.idle_stand_in else { return Ok(()) };
        Err(not_found(format_args!("{stand_in:?} stands for a program of a version that is not installed"))).hint(
            "choose an installed version with the version manager's own variable or file, which does not count where a \
             jail can write",
        )
    }
}

fn not_found(message: std::fmt::Arguments) -> Failure {
    failure(FailureKind::NotFound, STEP, message)
}

/// What a file inside leads to, be it a link or a script: for the reason why it could not be started.
pub(crate) fn leads_to(file: &Path) -> Option<PathBuf> {
    std::fs::read_link(file).ok().or_else(|| match script::interpreter_of(file).ok()?? {
        Interpreter::At(path) | Interpreter::Named { env: path, .. } => Some(path),
    })
}

/// Drops duplicates, what another entry already holds, what is visible anyway, and links where the jail has a directory of
/// its own: `/home` is one on some systems.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_taken = |path: &Path| [HOME, SCRATCH, "/tmp"].iter().any(|own| Path::new(own).starts_with(path));
    paths.retain(|path| !is_system(path) && !path.starts_with("/etc/alternatives") && !is_taken(path));
    // Whatever lies below a path comes right after it.
    paths.sort();
    paths.dedup_by(|next, kept| next.starts_with(kept));
    paths
}

#[cfg(test)]
mod tests;
