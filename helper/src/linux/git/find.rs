//! What repositories there are before the command starts.

use super::inside::{follow, reach};
use super::names::{COVERED, HEAD, NESTING, State, WATCHED, is_git, is_quarantine, is_repository};
use super::{Time, config};
use crate::linux::tree::{Bounds, FileId, Kind, Step, Walk, open_directory};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the search may take, and how deep it goes. A repository beyond is not covered, and moved aside if it changes.
const LONGEST: Duration = Duration::from_millis(200);
const DEEPEST: usize = 8;
/// A mount costs the kernel memory, and every name takes one.
const MOST_REPOSITORIES: usize = 500;
/// Directories that hold most of a project's directories and hardly ever a repository.
const NOT_SEARCHED: [&CStr; 3] = [c"node_modules", c"site-packages", c"target"];
/// A larger file of settings is not read.
const LARGEST_CONFIG: u64 = 1 << 20;

/// The states of [`COVERED`] and [`WATCHED`] in one repository.
pub(super) type Names = [Option<State>; COVERED.len() + WATCHED.len()];

/// What was found.
#[derive(Default)]
pub(super) struct Known {
    pub(super) repositories: HashMap<FileId, Names>,
    /// Files and links that are called `.git`: when they were last changed.
    pub(super) links: HashMap<FileId, Time>,
    /// Other paths that git executes something from, because a setting or a link says so.
    pub(super) elsewhere: BTreeMap<PathBuf, Option<State>>,
    /// What earlier runs have put aside.
    pub(super) quarantines: HashMap<FileId, PathBuf>,
    /// Where a mount has to be, parents first, and whether it is read-only. The others are only held in their places.
    pub(super) covers: BTreeMap<PathBuf, bool>,
}

impl Known {
    /// Looks through a directory, as far as a launch can wait for it. `path` is how it is called, for absolute paths in
    /// settings.
    pub(super) fn find(directory: BorrowedFd, path: &Path) -> io::Result<Self> {
        let deadline = Instant::now() + LONGEST;
        let mut search = Search { root: directory, path, deadline, known: Known::default(), is_brief: true };
        let bounds = Bounds { depth: DEEPEST, opens_closed: false, ..Bounds::until(deadline) };
        match search.run(bounds) {
            // It was looked for as long as it may take.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            result => result?,
        }
        Ok(search.known)
    }

    /// Looks through all of it.
    pub(super) fn find_all(directory: BorrowedFd, path: &Path, deadline: Instant) -> io::Result<Self> {
        let mut search = Search { root: directory, path, deadline, known: Known::default(), is_brief: false };
        search.run(Bounds::until(deadline))?;
        Ok(search.known)
    }
}

/// The states of all names in a repository.
pub(super) fn names_of(repository: BorrowedFd, deadline: Instant) -> io::Result<Names> {
    let mut names = Names::default();
    for (state, name) in names.iter_mut().zip(COVERED.iter().chain(&WATCHED)) {
        *state = State::of(repository, name, deadline)?;
    }
    Ok(names)
}

struct Search<'a> {
    root: BorrowedFd<'a>,
    path: &'a Path,
    deadline: Instant,
    known: Known,
    /// Whether it leaves out what takes long.
    is_brief: bool,
}

impl Search<'_> {
    fn run(&mut self, bounds: Bounds) -> io::Result<()> {
        let mut walk = Walk::new(self.root, bounds)?;
        while let Some(step) = walk.next()?
            && (!self.is_brief || self.known.repositories.len() < MOST_REPOSITORIES)
        {
            match step {
                Step::Entry(name, _) if name.as_c_str() == HEAD && is_repository(walk.here()) => {
                    let path = walk.trail().path_of(c"");
                    self.repository(walk.trail().id(), walk.here(), &path)?;
                }
                Step::Entry(name, kind) if is_git(name.to_bytes()) => {
                    self.git_link(walk.here(), &name, walk.trail().path_of(&name), kind)?;
                }
                Step::Directory(name) if !self.enters(&walk, &name)? => walk.skip(),
                _ => {}
            }
        }
        Ok(())
    }

    fn enters(&mut self, walk: &Walk, name: &CStr) -> io::Result<bool> {
        let path = || walk.trail().path_of(name);
        if self.known.repositories.contains_key(&walk.trail().id()) {
            return Ok(NESTING.contains(&name));
        }
        if walk.trail().depth() == 0 && is_quarantine(name) {
            if let Some(state) = State::of(walk.here(), name, self.deadline)? {
                self.known.quarantines.insert(state.id, path());
                self.known.covers.insert(path(), true);
            }
            return Ok(false);
        }
        // Closed to us, or gone meanwhile: the walk finds out itself.
        if is_git(name.to_bytes())
            && let Ok(directory) = open_directory(walk.here(), name)
        {
            let id = FileId::of(&nix::sys::stat::fstat(&directory)?);
            self.repository(id, directory.as_fd(), &path())?;
        }
        Ok(!self.is_brief || !NOT_SEARCHED.contains(&name))
    }

    /// A `.git` that is no directory: a worktree's, a submodule's, or a link.
    fn git_link(&mut self, here: BorrowedFd, name: &CStr, path: PathBuf, kind: Kind) -> io::Result<()> {
        let Some(state) = State::of(here, name, self.deadline)? else { return Ok(()) };
        self.known.links.insert(state.id, state.changed);
        self.known.covers.insert(path.clone(), true);
        if kind == Kind::Link {
            // A repository elsewhere in the directory is found by itself, whatever it is called.
            self.follow(&path, Path::new(""), false)?;
        }
        Ok(())
    }

    fn repository(&mut self, id: FileId, directory: BorrowedFd, path: &Path) -> io::Result<()> {
        if self.known.repositories.contains_key(&id) {
            return Ok(());
        }
        let names = names_of(directory, self.deadline)?;
        self.known.repositories.insert(id, names);
        if !path.as_os_str().is_empty() {
            self.known.covers.entry(path.to_path_buf()).or_insert(false);
        }
        for (name, state) in COVERED.iter().zip(&names) {
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            match state.map(|state| state.kind) {
                Some(Kind::Link) => self.follow(&below, path, true)?,
                Some(_) => _ = self.known.covers.insert(below, true),
                None => {}
            }
        }
        self.settings(&path.join("config"), path, &mut 0)?;
        self.settings(&path.join("config.worktree"), path, &mut 0)
    }

    /// Follows what a file of settings says about other files.
    fn settings(&mut self, file: &Path, repository: &Path, files: &mut usize) -> io::Result<()> {
        *files += 1;
        let Some(text) = self.read(file)?.filter(|_| *files <= 10) else { return Ok(()) };
        let config::Paths { hooks, included } = config::paths(&text);
        for hooks in hooks.iter().map(|path| Path::new(OsStr::from_bytes(path))) {
            // Relative to where hooks run: the working tree, or a bare repository itself.
            let is_git = repository.file_name().is_some_and(|name| is_git(name.as_bytes()));
            let base = repository.parent().filter(|_| is_git).unwrap_or(repository);
            // One common tool keeps generated hooks in `_`, and beside it the scripts that they execute.
            let hooks = if hooks.ends_with("_") { hooks.parent().unwrap_or(hooks) } else { hooks };
            self.follow(&base.join(hooks), repository, true)?;
        }
        for included in included.iter().map(|path| Path::new(OsStr::from_bytes(path))) {
            let from = file.parent().unwrap_or(Path::new(""));
            self.follow(&from.join(included), repository, true)?;
            if let Some(target) = follow(self.root, self.path, &from.join(included))?.target {
                self.settings(&target, repository, files)?;
            }
        }
        Ok(())
    }

    fn read(&self, file: &Path) -> io::Result<Option<Vec<u8>>> {
        let open = || -> io::Result<File> {
            let (trail, name) = reach(self.root, file)?;
            // Not waiting for the writer of a FIFO.
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            Ok(File::from(openat(trail.here(), name.as_c_str(), flags, Mode::empty())?))
        };
        let Ok(file) = open() else { return Ok(None) };
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(LARGEST_CONFIG).read_to_end(&mut text)?;
        Ok(Some(text))
    }

    /// Covers the links of a path and, if it is `executed`, what it leads to.
    fn follow(&mut self, path: &Path, repository: &Path, executed: bool) -> io::Result<()> {
        let followed = follow(self.root, self.path, path)?;
        for link in followed.links {
            self.watch(link)?;
        }
        match followed.target {
            // The whole working tree as a place for hooks cannot be taken from the command.
            Some(target) if executed && !repository.starts_with(&target) => self.watch(target),
            _ => Ok(()),
        }
    }

    fn watch(&mut self, path: PathBuf) -> io::Result<()> {
        let state = match reach(self.root, &path) {
            Ok((trail, name)) => State::of(trail.here(), &name, self.deadline)?,
            Err(_) => None,
        };
        if state.is_some() {
            self.known.covers.insert(path.clone(), true);
        }
        self.known.elsewhere.insert(path, state);
        Ok(())
    }
}
