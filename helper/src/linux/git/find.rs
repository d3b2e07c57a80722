//! What repositories there are before the command starts.

use super::Time;
use super::inside::{Inside, open_below, reach};
use super::names::{COVERED, HEAD, NESTING, State, WATCHED, in_time, is_git, is_quarantine, is_repository};
use crate::linux::tree::{FileId, Kind, Listing, Opened, kind_of};
use crate::linux::{deadline, pace};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{fstat, fstatat};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the search may take, and how deep it goes. A repository beyond is not covered, and moved aside if it changes.
const LONGEST: Duration = Duration::from_millis(200);
/// So often it begins anew if it had the processor for less than half of that: others had it, or the disk is slow and more is
/// in memory now.
const TRIES: usize = 5;
const DEEPEST: usize = 8;
/// A mount costs the kernel memory, and every name takes one.
const MOST_REPOSITORIES: usize = 500;
/// Directories that hold most of a project's directories and hardly ever a repository.
const NOT_SEARCHED: [&CStr; 3] = [c"node_modules", c"site-packages", c"target"];
/// Directories of a repository that hold any number of files and none that git executes.
const DATA: [&CStr; 3] = [c"objects", c"refs", c"logs"];

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
    /// Whether there was time for all of it.
    pub(super) complete: bool,
}

impl Known {
    /// Looks through a directory, as far as a launch can wait for it. `path` is its real one.
    pub(super) fn find(directory: BorrowedFd, path: &Path) -> io::Result<Self> {
        for _ in 1..TRIES {
            let began = pace::time_spent();
            let found = Known::find_once(directory, path);
            let late = match &found {
                Ok(known) => !known.complete,
                Err(error) => error.kind() == io::ErrorKind::TimedOut,
            };
            if !late || pace::time_spent().saturating_sub(began).saturating_mul(2) >= LONGEST {
                return found;
            }
        }
        Known::find_once(directory, path)
    }

    fn find_once(directory: BorrowedFd, path: &Path) -> io::Result<Self> {
        let mut search = Search::new(directory, path, deadline::after(Instant::now(), LONGEST), true);
        match search.run() {
            // It was looked for as long as it may take.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            result => {
                result?;
                search.known.complete = true;
            }
        }
        search.deadline = deadline::after(Instant::now(), LONGEST);
        search.watch()?;
        Ok(search.known)
    }

    /// Looks through all of it.
    pub(super) fn find_all(directory: BorrowedFd, path: &Path, deadline: Instant) -> io::Result<Self> {
        let mut search = Search::new(directory, path, deadline, false);
        search.run()?;
        search.watch()?;
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
    inside: Inside<'a>,
    deadline: Instant,
    known: Known,
    /// What [`Known::elsewhere`] is to hold.
    elsewhere: BTreeSet<PathBuf>,
    /// Directories to look at, those further up first: nobody can hide a project's repository behind a heap of others.
    waiting: VecDeque<PathBuf>,
    /// Whether it leaves out what takes long.
    is_brief: bool,
}

impl<'a> Search<'a> {
    fn new(root: BorrowedFd<'a>, name: &'a Path, deadline: Instant, is_brief: bool) -> Self {
        Search {
            inside: Inside { root, name },
            deadline,
            known: Known::default(),
            elsewhere: BTreeSet::new(),
            waiting: VecDeque::from([PathBuf::new()]),
            is_brief,
        }
    }

    fn run(&mut self) -> io::Result<()> {
        self.holders()?;
        // Before what else there may be beside it.
        match fstatat(self.inside.root, c".git", AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                self.named_git(self.inside.root, c".git", Path::new(".git"), kind_of(stat.st_mode))?
            }
            Err(Errno::ENOENT | Errno::EACCES) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(path) = self.waiting.pop_front()
            && (!self.is_brief || self.known.repositories.len() < MOST_REPOSITORIES)
        {
            in_time(self.deadline)?;
            // Closed to us, or gone meanwhile.
            if let Ok((directory, _way)) = open_below(self.inside.root, &path) {
                self.directory(directory.as_fd(), &path)?;
            }
        }
        Ok(())
    }

    /// Repositories that the directory lies in. Their own names are out of the jail's reach, but not what they lead to.
    fn holders(&mut self) -> io::Result<()> {
        for holder in self.inside.name.ancestors().skip(1) {
            let git = holder.join(".git");
            let git = if git.is_dir() { Some(git) } else { self.inside.led_to(&git)? };
            let bare = || ["HEAD", "objects", "refs"].iter().all(|name| holder.join(name).exists());
            if let Some(git) = git.or_else(|| bare().then(|| holder.to_path_buf())) {
                self.elsewhere.extend(self.inside.executed_by(&git, holder, self.deadline)?);
            }
        }
        Ok(())
    }

    fn directory(&mut self, here: BorrowedFd, path: &Path) -> io::Result<()> {
        let id = FileId::of(&fstat(here)?);
        let mut is_known = self.known.repositories.contains_key(&id);
        if !is_known && fstatat(here, HEAD, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok() && is_repository(here) {
            self.repository(here, path, &self.inside.name.join(path))?;
            is_known = true;
        }
        let mut listing = Listing::new(here)?;
        while let Some((name, kind)) = listing.next()? {
            in_time(self.deadline)?;
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            if is_git(name.to_bytes()) {
                self.named_git(here, &name, &below, kind)?;
            }
            if kind == Kind::Directory && self.enters(here, &name, &below, is_known)? {
                self.waiting.push_back(below);
            }
        }
        Ok(())
    }

    fn enters(&mut self, here: BorrowedFd, name: &CStr, path: &Path, is_known: bool) -> io::Result<bool> {
        let depth = path.components().count();
        if depth == 1 && is_quarantine(name) {
            if let Some(state) = State::of(here, name, self.deadline)? {
                self.known.quarantines.insert(state.id, path.to_path_buf());
                self.known.covers.insert(path.to_path_buf(), true);
            }
            return Ok(false);
        }
        let holds_none = |name: &CStr| [&COVERED[..], &WATCHED, &DATA].iter().any(|all| all.contains(&name));
        let takes_long = depth > DEEPEST || NOT_SEARCHED.contains(&name);
        let is_left_out = (self.is_brief && takes_long) || (is_known && holds_none(name));
        Ok(!is_left_out)
    }

    /// Something called `.git`: a repository, or what leads to one, as worktrees and submodules have it.
    fn named_git(&mut self, here: BorrowedFd, name: &CStr, path: &Path, kind: Kind) -> io::Result<()> {
        let absolute = self.inside.name.join(path);
        let tree = absolute.parent().unwrap_or(self.inside.name);
        if kind == Kind::Directory {
            // Closed to us, or gone meanwhile.
            let Ok(directory) = Opened::new(here, name) else { return Ok(()) };
            return self.repository(directory.as_fd(), path, tree);
        }
        let Some(state) = State::of(here, name, self.deadline)? else { return Ok(()) };
        self.known.links.insert(state.id, state.changed);
        self.known.covers.insert(path.to_path_buf(), true);
        let git = if kind == Kind::Link {
            let followed = self.inside.follow(&absolute)?;
            self.elsewhere.extend(followed.links.into_iter().filter(|link| link != path));
            followed.target
        } else {
            self.inside.led_to(&absolute)?
        };
        let Some(git) = git else { return Ok(()) };
        let Some(below) = self.inside.below(&git) else {
            self.elsewhere.extend(self.inside.executed_by(&git, tree, self.deadline)?);
            return Ok(());
        };
        // What it leads to must not be exchanged by its way there.
        if let Ok((directory, _way)) = open_below(self.inside.root, below) {
            self.hold(below.ancestors().skip(1));
            self.repository(directory.as_fd(), below, tree)?;
        }
        Ok(())
    }

    /// Hooks of a repository run in `tree`.
    fn repository(&mut self, directory: BorrowedFd, path: &Path, tree: &Path) -> io::Result<()> {
        let id = FileId::of(&fstat(directory)?);
        let git = self.inside.name.join(path);
        // Also if it is known: it may be called from more than one place.
        self.elsewhere.extend(self.inside.executed_by(&git, tree, self.deadline)?);
        if self.known.repositories.contains_key(&id) {
            return Ok(());
        }
        let names = names_of(directory, self.deadline)?;
        self.known.repositories.insert(id, names);
        self.hold([path]);
        self.hold_nested(path);
        for (name, state) in COVERED.iter().zip(&names) {
            if state.is_some_and(|state| state.kind != Kind::Link) {
                self.known.covers.insert(path.join(OsStr::from_bytes(name.to_bytes())), true);
            }
        }
        Ok(())
    }

    /// Within another repository nobody would look where the way to this one leads, were it exchanged.
    fn hold_nested(&mut self, path: &Path) {
        let is_nest = |name: &OsStr| NESTING.iter().any(|nest| nest.to_bytes() == name.as_bytes());
        let above = || path.ancestors().skip(1);
        if let Some(nest) = above().filter(|path| path.file_name().is_some_and(is_nest)).last() {
            self.hold(above().take_while(|path| path.starts_with(nest)));
        }
    }

    /// Holds directories in their places.
    fn hold<'p>(&mut self, paths: impl IntoIterator<Item = &'p Path>) {
        for path in paths.into_iter().filter(|path| !path.as_os_str().is_empty()) {
            self.known.covers.entry(path.to_path_buf()).or_insert(false);
        }
    }

    /// Takes down what is elsewhere; last, since looking for more may still change modes and give them back.
    fn watch(&mut self) -> io::Result<()> {
        for path in std::mem::take(&mut self.elsewhere) {
            let state = match reach(self.inside.root, &path) {
                Ok((trail, name)) => State::of(trail.here(), &name, self.deadline)?,
                Err(_) => None,
            };
            if state.is_some() {
                self.known.covers.insert(path.clone(), true);
            }
            self.known.elsewhere.insert(path, state);
        }
        Ok(())
    }
}
