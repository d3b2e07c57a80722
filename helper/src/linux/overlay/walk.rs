//! The way through the upper layer, with the host's directory beside it.

use super::attributes::is_opaque;
use super::commit::{self, PERMISSIONS};
use super::entry::{is_whiteout, kind, look, open_file, unlock};
use super::record::Record;
use super::{Layers, STEP};
use crate::error::{Context, Result};
use crate::linux::git::{HostExecuted, holds_heads, is_git, is_host_executed};
use crate::linux::tree::{self, Kind, Trail};
use agentkit_protocol::{ChangeKind, Changes, Committed, EntryKind, Failure, KeptBack, LONGEST_SETTLING};
use nix::fcntl::readlinkat;
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, mkdirat};
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

/// How much of files that look the same is compared; those beyond it count as modified.
const COMPARED: u64 = 256 << 20;
/// How long the host's directory may be looked through; where that does not do, nothing is committed.
const SEARCHED: Duration = Duration::from_secs(60);
/// How much of a path a message shows.
const SHOWN: usize = 1024;

/// Where the walk is, and what it has found.
pub(super) struct Walk {
    upper: Trail,
    /// Goes with `upper` as far as the host has the same directories.
    host: Trail,
    levels: Vec<Level>,
    /// The path of `upper`, and while an entry is looked at, the entry's.
    path: Vec<u8>,
    protects_git: bool,
    /// What else must stay, as the host's settings say. Without a commit there is no need to know.
    executed: HostExecuted,
    commits: bool,
    failed: Option<Failure>,
    to_compare: u64,
    deadline: Instant,
    record: Record,
}

/// A directory on the way from the work dir to where the walk is.
struct Level {
    /// Names to look at, the last one first.
    pending: Vec<CString>,
    /// Nothing of the host's shows through.
    is_opaque: bool,
    /// The length of its parent's path.
    parent_path: usize,
    /// Where in a path the names inside its git directory begin, if it is or lies in one.
    git: Option<usize>,
    /// The mode that the host's directory gets at the end.
    mode: Option<Mode>,
}

impl Walk {
    /// Begins in the work dir itself.
    pub(super) fn new(layers: &Layers, commits: bool, protects_git: bool) -> Result<Self> {
        let stat = |layer: &OwnedFd| fstat(layer).map_err(io::Error::from).context(STEP, "stat the work dir");
        let (above, below) = (stat(&layers.upper)?, stat(&layers.host)?);
        // The run may have closed it; its mode is known by now.
        fchmod(&layers.upper, Mode::from_bits_truncate(above.st_mode) | Mode::S_IRWXU)
            .map_err(io::Error::from)
            .context(STEP, "open the upper layer up")?;
        let begin = |layer: &OwnedFd| Trail::new(layer.as_fd()).context(STEP, "open the work dir");
        let mut walk = Walk {
            upper: begin(&layers.upper)?,
            host: begin(&layers.host)?,
            levels: Vec::new(),
            path: Vec::new(),
            protects_git,
            executed: HostExecuted::default(),
            commits,
            failed: None,
            to_compare: COMPARED,
            deadline: Instant::now() + Duration::from_secs(LONGEST_SETTLING),
            record: Record::default(),
        };
        if commits
            && protects_git
            && let Err(failure) = walk.find_executed(layers)
        {
            walk.stop(failure);
        }
        if (above.st_mode ^ below.st_mode) & PERMISSIONS != 0 {
            let commits = walk.commits;
            walk.record.add(b".", ChangeKind::Modified, EntryKind::Directory, commits, None);
        }
        walk.begin(&above, 0)?;
        Ok(walk)
    }

    /// Before anything is committed. What was not changed need not be looked through.
    fn find_executed(&mut self, layers: &Layers) -> Result<()> {
        if !tree::names(self.upper.here()).context(STEP, "list the upper layer")?.is_empty() {
            self.executed = HostExecuted::find(layers.host.as_fd(), &layers.path, Instant::now() + SEARCHED)
                .context(STEP, "look for what git executes")?;
        }
        Ok(())
    }

    /// Goes all the way, and says what was found.
    pub(super) fn finish(mut self) -> Changes {
        let asked = self.commits;
        if let Err(failure) = self.all() {
            self.stop(failure);
        }
        let commit = match self.failed {
            Some(failure) => Committed::Failed(failure),
            None if asked => Committed::Yes,
            None => Committed::No,
        };
        Changes { commit, ..self.record.changes }
    }

    fn all(&mut self) -> Result<()> {
        while let Some(level) = self.levels.last_mut() {
            if Instant::now() > self.deadline {
                return Err(io::Error::from(io::ErrorKind::TimedOut))
                    .context(STEP, format_args!("compare and commit within {LONGEST_SETTLING} s"));
            }
            match level.pending.pop() {
                Some(name) => self.entry(&name)?,
                None => self.leave()?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, name: &CStr) -> Result<()> {
        let parent_path = self.path.len();
        if parent_path > 0 {
            self.path.push(b'/');
        }
        self.path.extend(name.to_bytes());
        let above = self.said(look(self.upper.here(), name), "stat")?.filter(|stat| !is_whiteout(stat));
        let below = self.below(name)?;
        let into = self.judge(name, above.as_ref(), below.as_ref())?;
        match above.filter(|_| into) {
            Some(above) => self.descend(name, &above, parent_path),
            None => {
                self.path.truncate(parent_path);
                Ok(())
            }
        }
    }

    /// The host's directory, where it has the same.
    fn host(&self) -> Option<BorrowedFd<'_>> {
        (self.host.depth() == self.upper.depth()).then(|| self.host.here())
    }

    fn below(&self, name: &CStr) -> Result<Option<FileStat>> {
        match self.host() {
            Some(host) => self.said(look(host, name), "stat on the host"),
            None => Ok(None),
        }
    }

    /// Finds out what was changed, commits and records it; whether it is a directory to look into.
    fn judge(&mut self, name: &CStr, above: Option<&FileStat>, below: Option<&FileStat>) -> Result<bool> {
        let change = self.change(name, above, below)?;
        let is_directory = |stat: Option<&FileStat>| stat.is_some_and(|stat| kind(stat) == Kind::Directory);
        let merged = is_directory(above) && is_directory(below);
        if change.is_none() && !merged {
            return Ok(false);
        }
        let mut kept_back = self.kept_back(name, above, merged);
        let mut committed = false;
        if let (Some(change), None, true) = (change, kept_back, self.commits) {
            match self.carry_out(change, name, above, below) {
                Ok(true) => committed = true,
                Ok(false) => kept_back = Some(KeptBack::HostExecuted),
                Err(failure) => self.stop(failure),
            }
        }
        if let (Some(stat), true) = (above.or(below), change.is_some() || kept_back.is_some()) {
            let change = change.unwrap_or(ChangeKind::Modified);
            self.record.add(&self.path, change, entry_kind(stat), committed, kept_back);
        }
        Ok(is_directory(above) && kept_back.is_none())
    }

    fn change(
        &mut self,
        name: &CStr,
        above: Option<&FileStat>,
        below: Option<&FileStat>,
    ) -> Result<Option<ChangeKind>> {
        Ok(match (above, below) {
            (None, None) => None,
            (None, Some(_)) => Some(ChangeKind::Deleted),
            (Some(_), None) => Some(ChangeKind::Created),
            (Some(above), Some(below)) if kind(above) != kind(below) => Some(ChangeKind::Replaced),
            (Some(above), Some(below)) => self.differs(name, above, below)?.then_some(ChangeKind::Modified),
        })
    }

    /// Whether two things of one kind differ.
    fn differs(&mut self, name: &CStr, above: &FileStat, below: &FileStat) -> Result<bool> {
        let mode = (above.st_mode ^ below.st_mode) & PERMISSIONS != 0;
        match kind(above) {
            Kind::Directory => Ok(mode),
            Kind::File => {
                let of = |stat: &FileStat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
                Ok(mode || of(above) != of(below) || !self.same_content(name, above)?)
            }
            Kind::Link => {
                let above = self.said(readlinkat(self.upper.here(), name), "read the link")?;
                let below = self.host().map(|host| readlinkat(host, name)).transpose();
                Ok(self.said(below, "read the link on the host")? != Some(above))
            }
            Kind::Special => Ok(false),
        }
    }

    /// Files that were opened for writing are in the upper layer even if nobody wrote.
    fn same_content(&mut self, name: &CStr, above: &FileStat) -> Result<bool> {
        let Some(left) = self.to_compare.checked_sub(above.st_size.unsigned_abs()) else { return Ok(false) };
        self.to_compare = left;
        let upper = self.open_above(name, above)?;
        // What we may not read, we cannot say to be the same.
        let Some(Ok(host)) = self.host().map(|host| open_file(host, name)) else { return Ok(false) };
        self.said(same(&upper, &host), "compare with the host's file")
    }

    fn open_above(&self, name: &CStr, stat: &FileStat) -> Result<File> {
        let open = || -> io::Result<File> {
            unlock(self.upper.here(), name, stat, 0o400)?;
            let file = open_file(self.upper.here(), name)?;
            is_opaque(file.as_fd())?;
            Ok(file)
        };
        self.said(open(), "open")
    }

    fn kept_back(&self, name: &CStr, above: Option<&FileStat>, merged: bool) -> Option<KeptBack> {
        let git = self.levels.last().and_then(|level| level.git);
        let path = git.and_then(|begin| self.path.get(begin..)).unwrap_or(name.to_bytes());
        let by_name = is_host_executed(path, git.is_some(), merged);
        if self.protects_git && (by_name || self.executed.forbids(&self.path, above.map(kind))) {
            return Some(KeptBack::HostExecuted);
        }
        above.filter(|stat| kind(stat) == Kind::Special).map(|_| KeptBack::Special)
    }

    /// Does on the host what was done above it; `false` if something in a removed directory has to stay.
    fn carry_out(
        &self,
        change: ChangeKind,
        name: &CStr,
        above: Option<&FileStat>,
        below: Option<&FileStat>,
    ) -> Result<bool> {
        let Some(host) = self.host() else { return Ok(false) };
        let above_kind = above.map(kind);
        let below_kind = below.map(kind);
        // A file takes the place of a file in one step, other kinds cannot.
        let makes_room = above_kind != below_kind
            && [above_kind, below_kind].contains(&Some(Kind::Directory))
            && below.is_some();
        if (change == ChangeKind::Deleted || makes_room) && !self.remove(host, name)? {
            return Ok(false);
        }
        match above_kind {
            Some(Kind::Directory) if change != ChangeKind::Modified => {
                self.said(mkdirat(host, name, Mode::S_IRWXU), "make on the host")?;
            }
            Some(Kind::File) => {
                if let Some(stat) = above {
                    let put = commit::put_file(self.open_above(name, stat)?, stat, host, name);
                    self.said(put, "write to the host")?;
                }
            }
            Some(Kind::Link) => {
                let target = self.said(readlinkat(self.upper.here(), name), "read the link")?;
                self.said(commit::put_link(&target, host, name), "link on the host")?;
            }
            Some(Kind::Directory | Kind::Special) | None => {}
        }
        Ok(true)
    }

    fn remove(&self, host: BorrowedFd, name: &CStr) -> Result<bool> {
        let leads_to_one = self.executed.leads_to_one(&self.path);
        let keep = |trail: &Trail, name: &CStr| {
            let below = || trail.path_of(name).into_os_string().into_vec();
            let stays = || self.executed.stays(&[&self.path[..], b"/", &below()].concat());
            self.protects_git && is_git(name.to_bytes()) || leads_to_one && stays()
        };
        self.said(tree::remove_except(host, name, self.deadline, keep), "remove on the host")
    }

    /// Steps down into a directory of the upper layer, and of the host if it is there.
    fn descend(&mut self, name: &CStr, above: &FileStat, parent_path: usize) -> Result<()> {
        let below = self.below(name)?.filter(|stat| kind(stat) == Kind::Directory);
        self.said(unlock(self.upper.here(), name, above, 0o700), "set the mode")?;
        let entered = self.upper.enter(name);
        self.said(entered, "open")?;
        if let Some(below) = below {
            if self.commits {
                self.said(unlock(self.host.here(), name, &below, 0o700), "set the mode on the host")?;
            }
            let entered = self.host.enter(name);
            self.said(entered, "open on the host")?;
        }
        self.begin(above, parent_path)
    }

    /// Prepares for the directory that the walk has come to.
    fn begin(&mut self, above: &FileStat, parent_path: usize) -> Result<()> {
        let hidden_above = self.levels.last().is_some_and(|level| level.is_opaque);
        let is_opaque = self.said(is_opaque(self.upper.here()), "read the attributes")? || hidden_above;
        let mut mode = None;
        let mut pending = self.said(tree::names(self.upper.here()), "list")?;
        if let Some(host) = self.host() {
            if self.commits {
                mode = self.said(commit::open_up(host, above), "set the mode on the host")?;
            }
            if is_opaque {
                pending.extend(self.said(tree::names(host), "list on the host")?);
            }
        }
        pending.sort_unstable_by(|one, other| other.cmp(one));
        pending.dedup();
        let git = self.git_begin(parent_path)?;
        self.levels.push(Level { pending, is_opaque, parent_path, git, mode });
        Ok(())
    }

    /// Git calls a directory its own that is called so, or that holds a `HEAD` which is no branch of one around it.
    fn git_begin(&self, parent_path: usize) -> Result<Option<usize>> {
        let outer = self.levels.last().and_then(|level| level.git);
        if !self.protects_git {
            return Ok(None);
        }
        let own_name = self.path.get(parent_path..).unwrap_or_default();
        let own_name = own_name.strip_prefix(b"/").unwrap_or(own_name);
        let is_branch = outer.and_then(|begin| self.path.get(begin..)).is_some_and(holds_heads);
        let has_head = !is_branch && self.below(c"HEAD")?.is_some();
        let inside = if self.path.is_empty() { 0 } else { self.path.len() + 1 };
        Ok(if is_git(own_name) || has_head { Some(inside) } else { outer })
    }

    /// Steps up again.
    fn leave(&mut self) -> Result<()> {
        let Some(left) = self.levels.pop() else { return Ok(()) };
        // Its mode may close it to us, so it is set from above.
        let host = self.host().filter(|_| left.mode.is_some()).map(|host| host.try_clone_to_owned());
        let host = self.said(host.transpose(), "duplicate the directory on the host")?;
        if self.host().is_some() {
            let up = self.host.leave();
            self.said(up, "leave on the host")?;
        }
        let up = self.upper.leave();
        self.said(up, "leave")?;
        if let (Some(mode), Some(host)) = (left.mode, host)
            && let Err(failure) = self.said(fchmod(host, mode), "set the mode on the host")
        {
            self.stop(failure);
        }
        self.path.truncate(left.parent_path);
        Ok(())
    }

    /// The first failure ends the commit; what else was changed is still reported.
    fn stop(&mut self, failure: Failure) {
        self.commits = false;
        self.failed.get_or_insert(failure);
    }

    /// Names what failed. The beginning of a path would do for none that matters, but it can be of any length.
    fn said<T, E: Into<io::Error>>(&self, result: std::result::Result<T, E>, what: &str) -> Result<T> {
        result.map_err(Into::into).context(
            STEP,
            format_args!(
                "{what} {:?}",
                OsStr::from_bytes(&self.path[self.path.len().saturating_sub(SHOWN)..])
            ),
        )
    }
}

fn entry_kind(stat: &FileStat) -> EntryKind {
    match kind(stat) {
        Kind::File => EntryKind::File,
        Kind::Directory => EntryKind::Directory,
        Kind::Link => EntryKind::Link,
        Kind::Special => EntryKind::Special,
    }
}

/// Whether two files of one size hold the same.
fn same(mut one: &File, mut other: &File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let length = one.read(&mut left)?;
        if length == 0 {
            return Ok(other.read(&mut right[..1])? == 0);
        }
        match other.read_exact(&mut right[..length]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if left[..length] != right[..length] {
            return Ok(false);
        }
    }
}
