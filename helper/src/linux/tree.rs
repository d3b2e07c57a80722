//! Walking and removing trees that a hostile command left behind: by descriptors, one name at a time.
//!
//! No path is ever resolved, so neither links nor depth matter; the stack does not grow with the depth, and neither does
//! the number of open descriptors. Nothing but directories is opened: a FIFO cannot hold anybody up.

use super::{own_changes, proc_files, sys};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::libc;
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::mem::{replace, take};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Instant;

/// How many of the last directories on the way down stay open. Further up, the way back is `..`.
const KEPT_OPEN: usize = 16;
/// Entries are read by the kernel's call, into this many bytes at a time.
const BUFFER: usize = 32 << 10;
/// How often removal begins anew where a file system lost its place in a directory that shrinks.
const MOST_ROUNDS: usize = 4;

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(stat: &libc::stat) -> Self {
        FileId { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// A way down into a tree that can be gone back, however deep it is.
pub(crate) struct Trail {
    here: OwnedFd,
    id: FileId,
    /// What it has come through, from the beginning on.
    above: Vec<Level>,
}

struct Level {
    id: FileId,
    /// Open in the last few levels, and in the first.
    directory: Option<OwnedFd>,
    /// What was entered from it.
    entered: CString,
    /// The mode to give back to what was entered, where it had to be changed to get in.
    mode: Option<Mode>,
}

impl Trail {
    /// Begins at a directory, by any descriptor of it.
    pub(crate) fn new(directory: BorrowedFd) -> io::Result<Self> {
        let here = open_directory(directory, c".")?;
        let id = FileId::of(&fstat(&here)?);
        Ok(Trail { here, id, above: Vec::new() })
    }

    /// The directory that the trail has come to.
    pub(crate) fn here(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// Which directory that is.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// How many levels below the beginning it is.
    pub(crate) fn depth(&self) -> usize {
        self.above.len()
    }

    /// The names on the way from the beginning, with one more. For people: it can be longer than any call takes.
    pub(crate) fn path_of(&self, name: &CStr) -> PathBuf {
        let names = self.above.iter().map(|level| level.entered.as_c_str()).chain([name]);
        names.map(|name| OsStr::from_bytes(name.to_bytes())).collect()
    }

    /// Goes down into a directory; never through a link.
    pub(crate) fn enter(&mut self, name: &CStr) -> io::Result<()> {
        must_go_down(name)?;
        let directory = open_directory(self.here(), name)?;
        let id = FileId::of(&fstat(&directory)?);
        self.push(name, directory, id, None);
        Ok(())
    }

    /// The same, also into a directory of our own whose mode keeps us out. Leaving it gives the mode back.
    pub(crate) fn enter_ours(&mut self, name: &CStr) -> io::Result<()> {
        must_go_down(name)?;
        let (directory, id, mode) = open_up(self.here(), name)?;
        self.push(name, directory, id, mode);
        Ok(())
    }

    fn push(&mut self, name: &CStr, directory: OwnedFd, id: FileId, mode: Option<Mode>) {
        let (above, above_id) = (replace(&mut self.here, directory), replace(&mut self.id, id));
        self.above.push(Level { id: above_id, directory: Some(above), entered: name.to_owned(), mode });
        // The first one stays: a tree that changes under us must not lose us the way home.
        let far = self.above.len().checked_sub(KEPT_OPEN).filter(|at| *at > 0);
        if let Some(level) = far.and_then(|at| self.above.get_mut(at)) {
            level.directory = None;
        }
    }

    /// Goes back up and says by which name it had come down; `None` at the beginning, which is never left.
    pub(crate) fn leave(&mut self) -> io::Result<Option<CString>> {
        let Some(level) = self.above.last_mut() else { return Ok(None) };
        let parent = match level.directory.take() {
            Some(parent) => parent,
            None => {
                let parent = open_directory(self.here.as_fd(), c"..")?;
                if FileId::of(&fstat(&parent)?) != level.id {
                    return Err(io::Error::other("a directory was moved while its tree was being walked"));
                }
                parent
            }
        };
        level.give_mode_back(&self.here);
        (self.here, self.id) = (parent, level.id);
        Ok(self.above.pop().map(|level| level.entered))
    }
}

impl Level {
    fn give_mode_back(&self, entered: &OwnedFd) {
        if let Some(mode) = self.mode {
            // Removed meanwhile, it has no use for a mode.
            let _ = set_mode(entered.as_fd(), mode, fchmod);
        }
    }
}

/// An abandoned trail gives back the modes within its reach.
impl Drop for Trail {
    fn drop(&mut self) {
        let entered =
            self.above.iter().skip(1).map(|level| level.directory.as_ref()).chain([Some(&self.here)]);
        for (level, entered) in self.above.iter().zip(entered) {
            entered.into_iter().for_each(|entered| level.give_mode_back(entered));
        }
    }
}

fn must_go_down(name: &CStr) -> io::Result<()> {
    match name.to_bytes() {
        b"." | b".." => Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a directory below")),
        _ => Ok(()),
    }
}

/// An open directory of our own, with the mode to give back where that had kept us out.
pub(crate) struct Opened {
    directory: OwnedFd,
    mode: Option<Mode>,
}

impl Opened {
    /// Opens a directory by its name in another one, whatever its mode.
    pub(crate) fn new(parent: BorrowedFd, name: &CStr) -> io::Result<Self> {
        let (directory, _, mode) = open_up(parent, name)?;
        Ok(Opened { directory, mode })
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            // Removed meanwhile, it has no use for a mode.
            let _ = set_mode(self.as_fd(), mode, fchmod);
        }
    }
}

/// Opens a directory, and makes it one that can be looked through. With the mode it had if that took a change.
fn open_up(parent: BorrowedFd, name: &CStr) -> io::Result<(OwnedFd, FileId, Option<Mode>)> {
    let (directory, closed) = match open_directory(parent, name) {
        Err(error) if is_denied(&error) => open_closed(parent, name)?,
        result => (result?, None),
    };
    let stat = fstat(&directory)?;
    let mode = mode_of(&stat);
    // It can be listed, but nothing in it can be looked at. If it is not ours, that is how it is.
    let opened =
        !mode.contains(Mode::S_IXUSR) && set_mode(directory.as_fd(), mode | Mode::S_IRWXU, fchmod).is_ok();
    Ok((directory, FileId::of(&stat), closed.or(opened.then_some(mode))))
}

/// All by one descriptor: between two calls by its name, something else can take its place and get its mode.
fn open_closed(parent: BorrowedFd, name: &CStr) -> io::Result<(OwnedFd, Option<Mode>)> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let closed = openat(parent, name, flags, Mode::empty())?;
    let old = mode_of(&fstat(&closed)?);
    // If it is not ours, its mode is not what matters.
    set_mode(closed.as_fd(), old | Mode::S_IRWXU, change_mode).map_err(|_| Errno::EACCES)?;
    match open_directory(closed.as_fd(), c".") {
        Ok(directory) => Ok((directory, Some(old))),
        Err(error) => {
            set_mode(closed.as_fd(), old, change_mode)?;
            Err(error)
        }
    }
}

/// So that it is known for a change of this process's own.
fn set_mode<'a>(
    directory: BorrowedFd<'a>,
    mode: Mode,
    change: impl FnOnce(BorrowedFd<'a>, Mode) -> nix::Result<()>,
) -> nix::Result<()> {
    let before = fstat(directory)?;
    change(directory, mode)?;
    own_changes::note(&before, &fstat(directory)?);
    Ok(())
}

/// What fchmod(2) does, also by a descriptor that was opened without any right (`O_PATH`), which that does not take.
pub(crate) fn change_mode(file: BorrowedFd, mode: Mode) -> nix::Result<()> {
    fchmodat(AT_FDCWD, proc_files::of_descriptor(file).as_str(), mode, FchmodatFlags::FollowSymlink)
}

fn mode_of(stat: &libc::stat) -> Mode {
    Mode::from_bits_truncate(stat.st_mode)
}

/// Opens a directory by its name in another one.
pub(crate) fn open_directory(parent: BorrowedFd, name: &CStr) -> io::Result<OwnedFd> {
    if name.to_bytes().contains(&b'/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain name"));
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// When it gives up, with [`io::ErrorKind::TimedOut`].
    pub(crate) deadline: Instant,
    /// After how many entries it gives up, with [`io::ErrorKind::QuotaExceeded`].
    pub(crate) entries: u64,
    /// How many levels down it looks; what is below is left out.
    pub(crate) depth: usize,
    /// Whether it opens directories of our own whose mode keeps us out. Not while a command still works in the tree: it
    /// would see modes change, and could pass where it has just closed the way.
    pub(crate) opens_closed: bool,
    /// Whether it goes into other file systems that are mounted in the tree.
    pub(crate) crosses_devices: bool,
}

impl Bounds {
    /// Everything of ours that can be reached before `deadline`.
    pub(crate) fn until(deadline: Instant) -> Self {
        Bounds { deadline, entries: u64::MAX, depth: usize::MAX, opens_closed: true, crosses_devices: true }
    }
}

/// What kind of file an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

/// What a walk comes to. [`Walk::here`] is the directory that holds it.
#[derive(Debug)]
pub(crate) enum Step {
    /// Anything but a directory. Comes before all directories beside it.
    Entry(CString, Kind),
    /// A directory, which is entered next unless [`Walk::skip`] is called. It may be renamed or removed before that.
    Directory(CString),
    /// All that is in the directory has been walked.
    Left(CString),
    /// In place of [`Step::Left`]: the directory could not be entered, or is beyond the bounds.
    Closed(CString, io::Error),
}

/// Walks a tree step by step. Within a directory the order is the file system's.
pub(crate) struct Walk {
    trail: Trail,
    bounds: Bounds,
    /// What is still to be read of the last level's directory; the others have been read to the end.
    reading: Reading,
    /// Directories that wait to be entered, here and in each level above.
    pending: VecDeque<CString>,
    pending_above: Vec<VecDeque<CString>>,
    /// Reported, and to be entered next.
    announced: Option<CString>,
    device: u64,
}

impl Walk {
    /// Begins in a directory, by any descriptor of it. It is no step itself.
    pub(crate) fn new(root: BorrowedFd, bounds: Bounds) -> io::Result<Self> {
        let trail = Trail::new(root)?;
        let device = trail.id().device;
        Ok(Walk {
            trail,
            bounds,
            reading: Reading::new(),
            pending: VecDeque::new(),
            pending_above: Vec::new(),
            announced: None,
            device,
        })
    }

    /// The directory that holds what the last step came to.
    pub(crate) fn here(&self) -> BorrowedFd<'_> {
        self.trail.here()
    }

    /// The way from the beginning to `here`.
    pub(crate) fn trail(&self) -> &Trail {
        &self.trail
    }

    /// The directory of the last step is not entered.
    pub(crate) fn skip(&mut self) {
        self.announced = None;
    }

    /// The next step; `None` when everything has been walked. After an error the walk is over.
    pub(crate) fn next(&mut self) -> io::Result<Option<Step>> {
        if Instant::now() >= self.bounds.deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the tree is too large for the time there is",
            ));
        }
        if let Some(name) = self.announced.take()
            && let Err(error) = self.enter(&name)
        {
            return Ok(Some(Step::Closed(name, error)));
        }
        while let Some((name, kind)) = self.reading.next(self.trail.here())? {
            self.bounds.entries = self.bounds.entries.checked_sub(1).ok_or_else(|| {
                io::Error::new(io::ErrorKind::QuotaExceeded, "the tree has too many entries")
            })?;
            if kind != Kind::Directory {
                return Ok(Some(Step::Entry(name, kind)));
            }
            self.pending.push_back(name);
        }
        if let Some(name) = self.pending.pop_front() {
            self.announced = Some(name.clone());
            return Ok(Some(Step::Directory(name)));
        }
        self.pending = self.pending_above.pop().unwrap_or_default();
        Ok(self.trail.leave()?.map(Step::Left))
    }

    fn enter(&mut self, name: &CStr) -> io::Result<()> {
        if self.trail.depth() >= self.bounds.depth {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "it lies too deep"));
        }
        if self.bounds.opens_closed {
            self.trail.enter_ours(name)?;
        } else {
            self.trail.enter(name)?;
        }
        if !self.bounds.crosses_devices && self.trail.id().device != self.device {
            self.trail.leave()?;
            return Err(Errno::EXDEV.into());
        }
        self.pending_above.push(take(&mut self.pending));
        self.reading.begin();
        Ok(())
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// The entries of one directory after another, as the kernel gives them; see getdents(2).
struct Reading {
    buffer: Vec<u8>,
    /// What is left of the buffer.
    rest: Range<usize>,
    at_end: bool,
}

impl Reading {
    fn new() -> Self {
        Reading { buffer: vec![0; BUFFER], rest: 0..0, at_end: false }
    }

    /// The next entry is the first of another directory.
    fn begin(&mut self) {
        (self.rest, self.at_end) = (0..0, false);
    }

    fn next(&mut self, directory: BorrowedFd) -> io::Result<Option<(CString, Kind)>> {
        loop {
            if self.rest.is_empty() && !self.at_end {
                self.rest = 0..sys::read_directory(directory, &mut self.buffer)?;
                self.at_end = self.rest.is_empty();
            }
            if self.at_end {
                return Ok(None);
            }
            let read = self.buffer.get(self.rest.clone()).and_then(record);
            let (length, name, kind) =
                read.ok_or_else(|| io::Error::other("a directory entry that cannot be read"))?;
            self.rest.start = self.rest.start.saturating_add(length);
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            return match kind {
                Some(kind) => Ok(Some((name.to_owned(), kind))),
                // Some file systems do not say.
                None => match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                    Ok(stat) => Ok(Some((name.to_owned(), kind_of(stat.st_mode)))),
                    Err(Errno::ENOENT) => continue,
                    Err(error) => Err(error.into()),
                },
            };
        }
    }
}

/// Reads one `linux_dirent64`: how long it is, the name, and the kind if it says.
pub(crate) fn record(bytes: &[u8]) -> Option<(usize, &CStr, Option<Kind>)> {
    const LENGTH: usize = 16;
    const TYPE: usize = 18;
    const NAME: usize = 19;
    let length = usize::from(u16::from_ne_bytes(bytes.get(LENGTH..TYPE)?.try_into().ok()?));
    let name = CStr::from_bytes_until_nul(bytes.get(NAME..length)?).ok()?;
    let kind = match *bytes.get(TYPE)? {
        libc::DT_UNKNOWN => None,
        libc::DT_REG => Some(Kind::File),
        libc::DT_DIR => Some(Kind::Directory),
        libc::DT_LNK => Some(Kind::Link),
        _ => Some(Kind::Special),
    };
    Some((length, name, kind))
}

/// The kind in a mode of stat(2).
pub(crate) fn kind_of(mode: libc::mode_t) -> Kind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => Kind::File,
        libc::S_IFDIR => Kind::Directory,
        libc::S_IFLNK => Kind::Link,
        _ => Kind::Special,
    }
}

/// All names in a directory.
pub(crate) fn names(directory: BorrowedFd) -> io::Result<Vec<CString>> {
    let mut listing = Listing::new(directory)?;
    let mut names = Vec::new();
    while let Some((name, _)) = listing.next()? {
        names.push(name);
    }
    Ok(names)
}

/// What is in one directory.
pub(crate) struct Listing {
    directory: OwnedFd,
    reading: Reading,
}

impl Listing {
    /// Begins anew, wherever others are that read by the same descriptor.
    pub(crate) fn new(directory: BorrowedFd) -> io::Result<Self> {
        Ok(Listing { directory: open_directory(directory, c".")?, reading: Reading::new() })
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<(CString, Kind)>> {
        self.reading.next(self.directory.as_fd())
    }
}

/// Removes whatever `name` is in `parent`, with everything in it. Other file systems mounted there are left alone and
/// make it fail, as does the deadline; what could be removed until then is gone.
pub(crate) fn remove(parent: BorrowedFd, name: &CStr, deadline: Instant) -> io::Result<()> {
    remove_except(parent, name, deadline, |_, _| false).map(drop)
}

/// The same, but for what is to be kept below `name`, and the directories that lead to it. `keep` is told the way from
/// there to a directory, and a name in it. Whether everything is gone.
pub(crate) fn remove_except(
    parent: BorrowedFd,
    name: &CStr,
    deadline: Instant,
    keep: impl Fn(&Trail, &CStr) -> bool,
) -> io::Result<bool> {
    match unlinkat(parent, name, UnlinkatFlags::NoRemoveDir) {
        Err(Errno::EISDIR) => {}
        result => return Ok(result.map(|()| true)?),
    }
    // To remove entries while the directory is read is allowed, but not every file system then shows all of them.
    for _ in 0..MOST_ROUNDS {
        let kept = empty(parent, name, deadline, &keep)?;
        match unlinkat(parent, name, UnlinkatFlags::RemoveDir) {
            Err(Errno::ENOTEMPTY) if kept => return Ok(false),
            Err(Errno::ENOTEMPTY) => {}
            result => return Ok(result.map(|()| true)?),
        }
    }
    Err(Errno::ENOTEMPTY.into())
}

/// Whether something was kept.
fn empty(
    parent: BorrowedFd,
    name: &CStr,
    deadline: Instant,
    keep: &impl Fn(&Trail, &CStr) -> bool,
) -> io::Result<bool> {
    let mut outer = Trail::new(parent)?;
    outer.enter_ours(name)?;
    let bounds = Bounds { crosses_devices: false, ..Bounds::until(deadline) };
    let mut walk = Walk::new(outer.here(), bounds)?;
    let mut kept = false;
    while let Some(step) = walk.next()? {
        let (name, flag) = match step {
            Step::Entry(name, _) if keep(walk.trail(), &name) => {
                kept = true;
                continue;
            }
            Step::Entry(name, _) => (name, UnlinkatFlags::NoRemoveDir),
            Step::Directory(name) => {
                if keep(walk.trail(), &name) {
                    kept = true;
                    walk.skip();
                }
                continue;
            }
            Step::Left(name) => (name, UnlinkatFlags::RemoveDir),
            Step::Closed(_, error) => return Err(error),
        };
        match unlink_from_ours(walk.here(), &name, flag) {
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTEMPTY) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(kept)
}

/// Also where a directory of our own is read-only, as package managers make them.
fn unlink_from_ours(directory: BorrowedFd, name: &CStr, flag: UnlinkatFlags) -> nix::Result<()> {
    match unlinkat(directory, name, flag) {
        Err(Errno::EACCES) => {
            fchmod(directory, mode_of(&fstat(directory)?) | Mode::S_IRWXU)?;
            unlinkat(directory, name, flag)
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::mkdirat;
    use nix::unistd::mkfifo;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn open(path: &Path) -> OwnedFd {
        OwnedFd::from(fs::File::open(path).unwrap())
    }

    fn walk(path: &Path, bounds: Bounds) -> Walk {
        Walk::new(open(path).as_fd(), bounds).unwrap()
    }

    /// Everything that a walk comes to, as text.
    fn steps(path: &Path, bounds: Bounds) -> BTreeSet<String> {
        let mut walk = walk(path, bounds);
        let mut all = BTreeSet::new();
        while let Some(step) = walk.next().unwrap() {
            let text = match &step {
                Step::Entry(name, kind) => format!("{kind:?} {:?}", walk.trail().path_of(name)),
                Step::Directory(name) => format!("into {:?}", walk.trail().path_of(name)),
                Step::Left(name) => format!("out of {:?}", walk.trail().path_of(name)),
                Step::Closed(name, error) => format!("{:?} {:?}", error.kind(), walk.trail().path_of(name)),
            };
            assert!(all.insert(text), "{step:?} twice");
        }
        all
    }

    /// Directories in one another, all called `d`.
    fn dig(path: &Path, levels: usize) {
        let mut here = open(path);
        for _ in 0..levels {
            mkdirat(&here, "d", Mode::S_IRWXU).unwrap();
            here = open_directory(here.as_fd(), c"d").unwrap();
        }
    }

    #[test]
    fn everything_is_come_to_once_and_nothing_is_followed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/f\nü"), "").unwrap();
        mkfifo(&root.path().join("a/b/fifo"), Mode::S_IRWXU).unwrap();
        symlink("/", root.path().join("root")).unwrap();
        let expected = [
            r#"Link "root""#,
            r#"into "a""#,
            r#"File "a/f\nü""#,
            r#"into "a/b""#,
            r#"Special "a/b/fifo""#,
            r#"out of "a/b""#,
            r#"out of "a""#,
        ];
        assert_eq!(steps(root.path(), Bounds::until(soon())), expected.map(str::to_owned).into());
    }

    #[test]
    fn a_skipped_directory_may_be_gone() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        let mut walk = walk(root.path(), Bounds::until(soon()));
        assert!(matches!(walk.next().unwrap(), Some(Step::Directory(_))));
        fs::remove_dir(root.path().join("a")).unwrap();
        walk.skip();
        assert!(walk.next().unwrap().is_none());
    }

    #[test]
    fn bounds_hold() {
        let root = tempfile::tempdir().unwrap();
        dig(root.path(), 3);
        let all = Bounds::until(soon());
        let shallow = steps(root.path(), Bounds { depth: 1, ..all });
        let expected = [r#"into "d""#, r#"into "d/d""#, r#"QuotaExceeded "d/d""#, r#"out of "d""#];
        assert_eq!(shallow, expected.map(str::to_owned).into());
        let kind_of_end = |bounds| {
            let mut walk = walk(root.path(), bounds);
            loop {
                match walk.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(error) => return Some(error.kind()),
                }
            }
        };
        assert_eq!(kind_of_end(all), None);
        assert_eq!(kind_of_end(Bounds { entries: 2, ..all }), Some(io::ErrorKind::QuotaExceeded));
        assert_eq!(kind_of_end(Bounds::until(Instant::now())), Some(io::ErrorKind::TimedOut));
    }

    #[test]
    fn depth_costs_neither_stack_nor_descriptors() {
        // In memory, where twenty thousand directories are made in no time.
        let root = tempfile::tempdir_in("/dev/shm").unwrap();
        dig(root.path(), 20_000);
        let mut walk = walk(root.path(), Bounds::until(soon()));
        let (mut left, mut most_open) = (0, 0);
        while let Some(step) = walk.next().unwrap() {
            left += u32::from(matches!(step, Step::Left(_)));
            if walk.trail().depth().is_multiple_of(1000) {
                let open = walk.trail.above.iter().filter(|level| level.directory.is_some()).count();
                most_open = most_open.max(open);
            }
        }
        // First of all, since a temporary directory removes itself by recursion.
        remove(open(root.path()).as_fd(), c"d", soon()).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        assert_eq!(left, 20_000);
        assert!(most_open <= KEPT_OPEN + 1, "{most_open}");
    }

    #[test]
    fn closed_directories_are_opened_and_closed_again() {
        let root = tempfile::tempdir().unwrap();
        let (outer, inner) = (root.path().join("a"), root.path().join("a/b"));
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("f"), "").unwrap();
        mode(&inner, 0o300);
        mode(&outer, 0);
        assert!(steps(root.path(), Bounds::until(soon())).contains(r#"File "a/b/f""#));
        assert_eq!(outer.metadata().unwrap().permissions().mode() & 0o7777, 0);
        mode(&outer, 0o700);
        assert_eq!(inner.metadata().unwrap().permissions().mode() & 0o7777, 0o300);
        mode(&outer, 0);
        remove(open(root.path()).as_fd(), c"a", soon()).unwrap();
        assert!(!outer.exists());
    }

    #[test]
    fn removal_stops_at_links_and_at_its_deadline() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("kept")).unwrap();
        fs::write(root.path().join("kept/f"), "").unwrap();
        fs::create_dir_all(root.path().join("gone/d")).unwrap();
        symlink("../kept", root.path().join("gone/link")).unwrap();
        symlink("kept", root.path().join("link")).unwrap();
        let here = open(root.path());
        let late = remove(here.as_fd(), c"gone", Instant::now()).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert!(root.path().join("gone/d").exists());
        for name in [c"gone", c"link"] {
            remove(here.as_fd(), name, soon()).unwrap();
        }
        assert_eq!(remove(here.as_fd(), c"gone", soon()).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        assert!(root.path().join("kept/f").exists());
    }

    #[test]
    fn what_is_kept_stays_with_the_way_to_it() {
        let root = tempfile::tempdir().unwrap();
        for path in ["d/a/keep", "d/b", "d/read-only"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        for path in ["d/a/keep/f", "d/a/f", "d/b/f", "d/read-only/f"] {
            fs::write(root.path().join(path), "").unwrap();
        }
        let read_only = fs::Permissions::from_mode(0o555);
        fs::set_permissions(root.path().join("d/read-only"), read_only).unwrap();
        let here = open(root.path());
        let remove = |name| remove_except(here.as_fd(), name, soon(), |_, name| name == c"keep").unwrap();
        assert!(!remove(c"d"));
        let left = steps(root.path(), Bounds::until(soon()));
        assert_eq!(left.iter().filter(|step| !step.starts_with("out")).count(), 4, "{left:?}");
        assert!(left.contains(r#"File "d/a/keep/f""#));
        fs::rename(root.path().join("d/a/keep"), root.path().join("d/a/other")).unwrap();
        assert!(remove(c"d"));
    }

    #[test]
    fn only_plain_names_are_entered() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        symlink("a", root.path().join("link")).unwrap();
        let mut trail = Trail::new(open(root.path()).as_fd()).unwrap();
        for name in [c"a/", c"/", c".", c"..", c"link", c"absent"] {
            assert!(trail.enter(name).is_err(), "{name:?}");
        }
        trail.enter(c"a").unwrap();
        assert_eq!(trail.leave().unwrap().as_deref(), Some(c"a"));
        assert_eq!(trail.leave().unwrap(), None);
    }

    #[test]
    fn a_moved_directory_is_noticed_on_the_way_back() {
        let root = tempfile::tempdir().unwrap();
        dig(root.path(), KEPT_OPEN * 2);
        let mut trail = Trail::new(open(root.path()).as_fd()).unwrap();
        while trail.enter(c"d").is_ok() {}
        let moved: PathBuf = ["d"; KEPT_OPEN - 1].iter().collect();
        fs::rename(root.path().join(moved), root.path().join("moved")).unwrap();
        let error = loop {
            match trail.leave() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("came back to where it was not"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("moved"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some((length, name, _)) = record(&bytes) {
                prop_assert!(length <= bytes.len() && name.count_bytes() < length);
            }
        }
    }
}
