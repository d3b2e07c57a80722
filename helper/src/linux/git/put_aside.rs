//! After the run: what it left under names that host programs act on is moved to where they don't look.

use super::find::names_of;
use super::index;
use super::inside::{Inside, plain};
use super::names::{COVERED, HEAD, State, WATCHED, WORKTREES, is_branch, is_git, is_repository};
use super::quarantine::{Quarantine, disarm, rename_in_place};
use super::{Guard, Time, changed};
use crate::linux::deadline;
use crate::linux::tree::{Bounds, FileId, Kind, Listing, Opened, Step, Trail, Walk, kind_of};
use agentkit_protocol::{Bytes, Quarantined};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::{Mode, fchmod, fstat, fstatat};
use nix::unistd::{AccessFlags, faccessat};
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long it may take altogether.
const LONGEST: Duration = Duration::from_secs(10);
/// How much the report says, and how long one of its paths can be.
const MOST_REPORTED: usize = 256;
const LONGEST_PATH: usize = 4096;
/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(crate) quarantined: Vec<Quarantined>,
    /// Where it could not be done, or not be told.
    pub(crate) unchecked: Vec<String>,
}

impl Guard {
    /// Moves aside what is new or was changed since [`Guard::new`]. The jail must be dead.
    pub(super) fn sweep(&self) -> Swept {
        let deadline = deadline::after(Instant::now(), LONGEST);
        let mut sweep = Sweep {
            guard: self,
            deadline,
            quarantine: None,
            count: 0,
            old: HashSet::new(),
            worktrees: HashSet::new(),
            git: HashSet::new(),
            swept: Swept::default(),
        };
        if !self.known.complete {
            sweep.note(
                Path::new(""),
                Err(io::Error::other(
                    "too large to be searched before the start, so not every repository in it was read-only",
                )),
            );
        }
        let open = |mode: Mode| fchmod(&self.directory, mode);
        let mode = fstat(&self.directory).map(|stat| Mode::from_bits_truncate(stat.st_mode));
        // The command may have closed the directory to us and everybody.
        let closed =
            mode.is_ok_and(|mode| !mode.contains(Mode::S_IRWXU) && open(mode | Mode::S_IRWXU).is_ok());
        for (path, state) in &self.known.elsewhere {
            let result = sweep.path(path, Some(state.as_ref()));
            sweep.note(path, result);
        }
        let result = sweep.tree_to_its_end();
        sweep.note(Path::new(""), result);
        if let (true, Ok(mode)) = (closed, mode) {
            let _ = open(mode);
        }
        sweep.swept
    }
}

struct Sweep<'a> {
    guard: &'a Guard,
    deadline: Instant,
    /// Where things are moved to; made when the first one is.
    quarantine: Option<Quarantine>,
    count: usize,
    /// Repositories that are older than the run, by when they were entered.
    old: HashSet<FileId>,
    /// Directories of repositories that hold what each worktree has of its own.
    worktrees: HashSet<FileId>,
    /// Directories in which there is nothing but git's own.
    git: HashSet<FileId>,
    swept: Swept,
}

impl Sweep<'_> {
    /// A run beside this one may move the directories that are being walked.
    fn tree_to_its_end(&mut self) -> io::Result<()> {
        loop {
            match self.tree() {
                // As the trail says that it cannot go back.
                Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::Other => {}
                result => return result,
            }
        }
    }

    fn tree(&mut self) -> io::Result<()> {
        let mut walk = Walk::new(self.guard.directory.as_fd(), Bounds::until(self.deadline))?;
        while let Some(step) = walk.next()? {
            let (name, result) = match step {
                Step::Entry(name, _) if is_git(name.to_bytes()) => {
                    (name.clone(), self.git_link(&walk, &name))
                }
                Step::Entry(name, _) if name.as_c_str() == HEAD && is_repository(walk.here()) => {
                    (name, self.head(&walk))
                }
                Step::Entry(name, Kind::Link) if self.git.contains(&walk.trail().id()) => {
                    let path = walk.trail().path_of(&name);
                    (name.clone(), self.link(walk.here(), &name, &path))
                }
                Step::Directory(name) => {
                    let enters = self.directory(&walk, &name);
                    if !*enters.as_ref().unwrap_or(&true) {
                        walk.skip();
                    }
                    (name, enters.map(drop))
                }
                Step::Closed(name, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    (name.clone(), closed(walk.here(), &name, error))
                }
                // Removed or exchanged by somebody else meanwhile.
                Step::Closed(_, error) if is_gone(&error) => return Err(error),
                Step::Closed(name, error) => (name, Err(error)),
                _ => continue,
            };
            if result.is_err() {
                self.note(&walk.trail().path_of(&name), result);
            }
        }
        Ok(())
    }

    /// A `.git` that is no directory.
    fn git_link(&mut self, walk: &Walk, name: &CStr) -> io::Result<()> {
        let stat = fstatat(walk.here(), name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let path = walk.trail().path_of(name);
        match self.guard.known.links.get(&FileId::of(&stat)) {
            Some(then) if *then == changed(&stat) => Ok(()),
            None if self.is_old(changed(&stat)) => {
                let absolute = self.guard.path.join(&path);
                match self.inside().led_to(&absolute)? {
                    Some(git) => self.executed_by(&git, absolute.parent().unwrap_or(&absolute)),
                    None => Ok(()),
                }
            }
            _ => self.move_aside(walk.here(), name, &path),
        }
    }

    /// A repository by another name than `.git`, or the inside of one by that name. Without its `HEAD` it is none.
    fn head(&mut self, walk: &Walk) -> io::Result<()> {
        let (id, here) = (walk.trail().id(), walk.here());
        let path = walk.trail().path_of(c"");
        if self.old.contains(&id) {
            // Looked at before it was entered.
            return Ok(());
        }
        if self.guard.known.repositories.contains_key(&id) {
            self.old.insert(id);
            return self.names(here, id, &path);
        }
        let head = fstatat(here, HEAD, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if self.is_old(changed(&head)) && self.is_old(changed(&fstat(here)?)) {
            self.old.insert(id);
            let git = self.guard.path.join(&path);
            self.executed_by(&git, &git)?;
            return self.names(here, id, &path);
        }
        self.move_aside(here, HEAD, &walk.trail().path_of(HEAD))
    }

    /// Whether a directory is to be entered.
    fn directory(&mut self, walk: &Walk, name: &CStr) -> io::Result<bool> {
        let here = walk.trail().id();
        let in_repository = self.guard.known.repositories.contains_key(&here) || self.old.contains(&here);
        let in_git = in_repository || self.git.contains(&here);
        let at_top = walk.trail().depth() == 0;
        // Of a worktree, git minds if only a part is missing.
        let is_whole = is_git(name.to_bytes()) || self.worktrees.contains(&here);
        if !is_whole && !at_top && !in_git && self.guard.apart.is_empty() {
            return Ok(true);
        }
        let stat = fstatat(walk.here(), name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let id = FileId::of(&stat);
        if self.guard.apart.contains(&id) {
            return Ok(false);
        }
        if in_repository && name == WORKTREES {
            self.worktrees.insert(id);
        }
        if in_git && !self.is_working_tree(walk.here(), name) {
            self.git.insert(id);
        }
        if !is_whole {
            let own = self.quarantine.as_ref().is_some_and(|own| own.name() == name);
            return Ok(!own && !self.guard.known.quarantines.contains_key(&id));
        }
        let known = self.guard.known.repositories.contains_key(&id);
        let path = walk.trail().path_of(name);
        // To enter it may have taken a change of its mode, when the walk was begun before.
        if !known && !self.old.contains(&id) && !self.is_old(changed(&stat)) {
            self.move_aside(walk.here(), name, &path)?;
            return Ok(false);
        }
        let is_first = self.old.insert(id);
        if !known && is_first {
            let git = self.guard.path.join(&path);
            self.executed_by(&git, git.parent().unwrap_or(&git))?;
        }
        self.names(Opened::new(walk.here(), name)?.as_fd(), id, &path)?;
        Ok(true)
    }

    /// Whether a directory in a repository holds a project's files, as worktrees in a bare one do.
    fn is_working_tree(&self, here: BorrowedFd, name: &CStr) -> bool {
        let Ok(directory) = Opened::new(here, name) else { return false };
        let link = fstatat(&directory, c".git", AtFlags::AT_SYMLINK_NOFOLLOW);
        link.is_ok_and(|link| {
            self.guard.known.links.contains_key(&FileId::of(&link)) || self.is_old(changed(&link))
        })
    }

    /// The names in a repository that was there before.
    fn names(&mut self, repository: BorrowedFd, id: FileId, path: &Path) -> io::Result<()> {
        let then = self.guard.known.repositories.get(&id);
        let now = names_of(repository, self.deadline)?;
        for (at, (name, now)) in COVERED.iter().chain(&WATCHED).zip(now).enumerate() {
            let Some(now) = now else { continue };
            let same = match then {
                Some(then) => then.get(at) == Some(&Some(now)),
                None => self.is_old(now.changed),
            };
            if !same {
                let from = path.join(OsStr::from_bytes(name.to_bytes()));
                self.move_aside(repository, name, &from)?;
            }
        }
        self.files(repository, path)
    }

    /// What else is in a repository: links, and indexes.
    fn files(&mut self, repository: BorrowedFd, path: &Path) -> io::Result<()> {
        let mut listing = Listing::new(repository)?;
        let mut found = Vec::new();
        while let Some((name, kind)) = listing.next()? {
            if kind == Kind::Link || index::is_index(name.to_bytes()) {
                found.push((name, kind));
            }
        }
        for (name, kind) in found {
            let from = path.join(OsStr::from_bytes(name.to_bytes()));
            match kind {
                Kind::Link => self.link(repository, &name, &from)?,
                _ => self.index(repository, &name, &from)?,
            }
        }
        Ok(())
    }

    /// A link in a repository: git writes through it, whatever it leads to. Of its own it only makes such as name a branch.
    fn link(&mut self, here: BorrowedFd, name: &CStr, from: &Path) -> io::Result<()> {
        let stat = fstatat(here, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let says = readlinkat(here, name)?;
        if is_branch(says.as_bytes()) || self.is_old(changed(&stat)) {
            return Ok(());
        }
        self.move_aside(here, name, from)
    }

    fn index(&mut self, here: BorrowedFd, name: &CStr, from: &Path) -> io::Result<()> {
        let stat = fstatat(here, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if self.is_old(changed(&stat)) {
            return Ok(());
        }
        let git = self.guard.path.join(from.parent().unwrap_or(from));
        let long = self.inside().has_long_hashes(&git)?;
        if index::is_dangerous(here, name, long) { self.move_aside(here, name, from) } else { Ok(()) }
    }

    /// What a repository executes from elsewhere that was not found before the start. `git` and `tree` are absolute.
    fn executed_by(&mut self, git: &Path, tree: &Path) -> io::Result<()> {
        for path in self.inside().executed_by(git, tree, self.deadline)? {
            if !self.guard.known.elsewhere.contains_key(&path) {
                self.path(&path, None)?;
            }
        }
        Ok(())
    }

    fn inside(&self) -> Inside<'_> {
        Inside { root: self.guard.directory.as_fd(), name: &self.guard.path }
    }

    /// A path that git executes something from, and what was there before: nothing, or [`None`] if nobody had looked.
    fn path(&mut self, path: &Path, then: Option<Option<&State>>) -> io::Result<()> {
        let mut trail = Trail::new(self.guard.directory.as_fd())?;
        for part in path.parent().into_iter().flat_map(Path::components) {
            let name = plain(part.as_os_str())?;
            let Ok(stat) = fstatat(trail.here(), name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else {
                return Ok(());
            };
            match kind_of(stat.st_mode) {
                Kind::Directory => trail.enter_ours(&name)?,
                // There was none on this way before.
                Kind::Link => return self.move_aside(trail.here(), &name, &trail.path_of(&name)),
                _ => return Ok(()),
            }
        }
        let name = plain(path.file_name().unwrap_or_default())?;
        let Some(now) = State::of(trail.here(), &name, self.deadline)? else { return Ok(()) };
        let same = then.map_or_else(|| self.is_old(now.changed), |then| then == Some(&now));
        if same { Ok(()) } else { self.move_aside(trail.here(), &name, path) }
    }

    fn is_old(&self, time: Time) -> bool {
        time < self.guard.began
    }

    fn move_aside(&mut self, here: BorrowedFd, name: &CStr, from: &Path) -> io::Result<()> {
        let number = self.count;
        self.count = number.saturating_add(1);
        let plain_name = name.to_bytes().strip_prefix(b".").unwrap_or(name.to_bytes());
        // A longer one has no room for more.
        let plain_name = plain_name.get(..100).unwrap_or(plain_name);
        let aside = CString::new([format!("{number}-").as_bytes(), plain_name].concat())?;
        let (parent, aside, kept) =
            match self.quarantine().and_then(|quarantine| quarantine.take(here, name, &aside)) {
                Ok((parent, kept)) => (Some(parent), aside, kept),
                // On another file system, or without room for a directory, it can only stay where it is, by another name.
                Err(_) => {
                    let aside =
                        rename_in_place(here, name, &[b".agentkit-quarantined-", aside.to_bytes()].concat())?;
                    let kept = from.with_file_name(OsStr::from_bytes(aside.to_bytes()));
                    (None, aside, kept)
                }
            };
        if let Some(quarantine) = &mut self.quarantine {
            // In quotes, with everything odd escaped: one line each, whatever the names are.
            quarantine.note(&format!("{from:?} -> {kept:?}\n"));
        }
        if self.count <= MOST_REPORTED {
            let [from, to] = [from, &kept].map(|path| shortened(&self.guard.path.join(path)));
            self.swept.quarantined.push(Quarantined { from, to });
        } else if self.count == MOST_REPORTED + 1 {
            self.note(from, Err(io::Error::other("moved aside like everything after it, but not listed")));
        }
        disarm(parent.as_ref().map_or(here, AsFd::as_fd), &aside, self.deadline)
    }

    fn quarantine(&mut self) -> io::Result<&Quarantine> {
        if self.quarantine.is_none() {
            self.quarantine = Some(Quarantine::make(self.guard.directory.as_fd(), self.deadline)?);
        }
        self.quarantine.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn note(&mut self, path: &Path, result: io::Result<()>) {
        if let Err(error) = result
            && self.swept.unchecked.len() < MOST_REPORTED
        {
            let path = shortened(&self.guard.path.join(path));
            self.swept.unchecked.push(format!("{path:?}: {error}"));
        }
    }
}

fn shortened(path: &Path) -> Bytes {
    let bytes = path.as_os_str().as_bytes();
    Bytes::from(bytes.get(..LONGEST_PATH).unwrap_or(bytes))
}

/// A directory of somebody else's that cannot be looked through: whether the command could have made something in it.
fn closed(here: BorrowedFd, name: &CStr, error: io::Error) -> io::Result<()> {
    match faccessat(here, name, AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS) {
        Ok(()) => Err(error),
        Err(_) => Ok(()),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(Errno::ELOOP as i32)
}
