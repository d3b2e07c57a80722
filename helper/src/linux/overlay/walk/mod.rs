//! The way through the upper layer, with the host's directory beside it. A commit goes it once in each [`Round`].

mod carry_out;
mod compare;

use super::attributes::is_opaque;
use super::commit::{self, PERMISSIONS};
use super::entry::{is_whiteout, kind, look, unlock};
use super::record::Record;
use super::staging::Staging;
use super::{Layers, STEP};
use crate::error::{Context, Result};
use crate::linux::deadline;
use crate::linux::git::{HostExecuted, holds_heads, is_git};
use crate::linux::tree::{self, Kind, Trail};
use agentkit_protocol::{ChangeKind, Changes, Committed, EntryKind, Failure, LONGEST_SETTLING};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// How much of files that look the same is compared; those beyond it count as modified.
const COMPARED: u64 = 256 << 20;
/// How long the host's directory may be looked through; where that does not do, nothing is committed.
const SEARCHED: Duration = Duration::from_secs(60);
/// How much of a path a message shows.
const SHOWN: usize = 1024;

/// How long a commit that failed may take to remove what is left of it.
const TIDIED: u64 = 30;

/// A commit does first what takes room, and last what takes something away. Until everything new is on the host, it has
/// all that it had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Finds the changes, and makes what is new in [`Staging`].
    Compare,
    /// What had no name on the host gets it.
    Add,
    /// What takes the place of something takes it.
    Replace,
    /// Deletes, and gives directories that were there their new modes.
    Delete,
    /// In place of the others, after a failure.
    TidyUp,
}

/// Where the walk is, and what it has found.
pub(super) struct Walk<'a> {
    layers: &'a Layers,
    /// Both of the work dir itself, from before they were opened up.
    root: (FileStat, FileStat),
    round: Round,
    upper: Trail,
    /// Goes with `upper` as far as the host has the same directories.
    host: Trail,
    staging: Staging,
    /// The staging directory of `host`, as soon as something is made in it, and the rest of the way of `upper` there.
    new: Option<Trail>,
    levels: Vec<Level>,
    /// The path of `upper`, and while an entry is looked at, the entry's.
    path: Vec<u8>,
    protects_git: bool,
    /// What else must stay, as the host's settings say. Without a commit there is no need to know.
    executed: HostExecuted,
    asked: bool,
    /// Asked to, and nothing has failed so far.
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
    /// The same for the one above, which tells the next round.
    mode_above: Option<Mode>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(layers: &'a Layers, asked: bool, protects_git: bool) -> Result<Self> {
        let stat = |layer: &OwnedFd| fstat(layer).map_err(io::Error::from).context(STEP, "stat the work dir");
        let root = (stat(&layers.upper)?, stat(&layers.host)?);
        // The run may have closed it; its mode is known by now.
        fchmod(&layers.upper, Mode::from_bits_truncate(root.0.st_mode) | Mode::S_IRWXU)
            .map_err(io::Error::from)
            .context(STEP, "open the upper layer up")?;
        Ok(Walk {
            layers,
            root,
            round: Round::Compare,
            upper: begin(&layers.upper)?,
            host: begin(&layers.host)?,
            staging: Staging::new().context(STEP, "name the staging directories")?,
            new: None,
            levels: Vec::new(),
            path: Vec::new(),
            protects_git,
            executed: HostExecuted::default(),
            asked,
            commits: asked,
            failed: None,
            to_compare: COMPARED,
            deadline: deadline::after(Instant::now(), Duration::from_secs(LONGEST_SETTLING - TIDIED)),
            record: Record::default(),
        })
    }

    /// Before anything is committed. What was not changed need not be looked through.
    fn find_executed(&mut self) -> Result<()> {
        if self.commits
            && self.protects_git
            && !tree::names(self.upper.here()).context(STEP, "list the upper layer")?.is_empty()
        {
            self.executed = HostExecuted::find(
                self.layers.host.as_fd(),
                &self.layers.path,
                deadline::after(Instant::now(), SEARCHED),
            )
            .context(STEP, "look for what git executes")?;
        }
        Ok(())
    }

    /// Goes all the way, and says what was found.
    pub(super) fn finish(mut self) -> Changes {
        if let Err(failure) = self.find_executed() {
            self.stop(failure);
        }
        self.go(Round::Compare);
        for round in [Round::Add, Round::Replace, Round::Delete] {
            if self.commits {
                self.go(round);
            }
        }
        if self.asked && self.failed.is_some() {
            self.deadline = deadline::after(Instant::now(), Duration::from_secs(TIDIED));
            self.go(Round::TidyUp);
        }
        let commit = match self.failed {
            Some(failure) => Committed::Failed(failure),
            None if self.asked => Committed::Yes,
            None => Committed::No,
        };
        Changes { commit, ..self.record.changes }
    }

    fn go(&mut self, round: Round) {
        let gone = self.start(round).and_then(|()| self.all());
        if let Err(failure) = gone {
            self.stop(failure);
        }
    }

    /// Begins anew in the work dir itself.
    fn start(&mut self, round: Round) -> Result<()> {
        self.round = round;
        (self.upper, self.host, self.new) = (begin(&self.layers.upper)?, begin(&self.layers.host)?, None);
        self.levels.clear();
        self.path.clear();
        let (above, below) = self.root;
        if round == Round::Compare && (above.st_mode ^ below.st_mode) & PERMISSIONS != 0 {
            self.record.add(b".", ChangeKind::Modified, EntryKind::Directory, None);
        }
        self.enter_level(&above, Some(&below), 0)
    }

    fn all(&mut self) -> Result<()> {
        while let Some(level) = self.levels.last_mut() {
            if Instant::now() > self.deadline {
                return Err(io::Error::from(io::ErrorKind::TimedOut))
                    .context(STEP, format_args!("compare and commit in the time there is"));
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
        let into = match self.round {
            Round::Compare => self.judge(name, above.as_ref(), below.as_ref())?,
            _ => self.carry_out(name, above.as_ref(), below.as_ref()),
        };
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

    /// Steps down into a directory of the upper layer, and of the host if it is there.
    fn descend(&mut self, name: &CStr, above: &FileStat, parent_path: usize) -> Result<()> {
        let below = self.below(name)?.filter(|stat| kind(stat) == Kind::Directory);
        self.said(unlock(self.upper.here(), name, above, 0o700), "set the mode")?;
        let entered = self.upper.enter(name);
        self.said(entered, "open")?;
        if let Some(below) = below {
            if self.asked {
                self.said(unlock(self.host.here(), name, &below, 0o700), "set the mode on the host")?;
            }
            let entered = self.host.enter(name);
            self.said(entered, "open on the host")?;
            self.new = None;
        } else if let Some(new) = &mut self.new {
            let entered = new.enter(name);
            self.said(entered, "open what was made for")?;
        }
        self.enter_level(above, below.as_ref(), parent_path)
    }

    /// Prepares for the directory that the walk has come to.
    fn enter_level(&mut self, above: &FileStat, below: Option<&FileStat>, parent_path: usize) -> Result<()> {
        let hidden_above = self.levels.last().is_some_and(|level| level.is_opaque);
        let is_opaque = self.said(is_opaque(self.upper.here()), "read the attributes")? || hidden_above;
        let mut pending = self.said(tree::names(self.upper.here()), "list")?;
        let mode = if self.asked { self.open_up(above, below)? } else { None };
        let mut tidied = Ok(());
        if let Some(host) = self.host() {
            if matches!(self.round, Round::Delete | Round::TidyUp) {
                // Nothing but what made room for something else, or what a commit that failed did not come to use.
                let removed = self.staging.remove(host, self.deadline);
                tidied = self.said(removed, "remove the staging directory in");
            }
            if is_opaque {
                pending.extend(self.said(tree::names(host), "list on the host")?);
            }
        }
        if let Err(failure) = tidied {
            self.stop(failure);
        }
        pending.retain(|name| !self.staging.is_ours(name));
        pending.sort_unstable_by(|one, other| other.cmp(one));
        pending.dedup();
        let git = self.git_begin(parent_path)?;
        let is_closed = above.st_mode & 0o700 != 0o700;
        let mode_above = is_closed.then(|| Mode::from_bits_truncate(above.st_mode));
        self.levels.push(Level { pending, is_opaque, parent_path, git, mode, mode_above });
        Ok(())
    }

    /// Makes the host's directory one that we can work in; the mode that it gets when it is left.
    fn open_up(&mut self, above: &FileStat, below: Option<&FileStat>) -> Result<Option<Mode>> {
        let (opened, is_final) = match (self.host(), below, &self.new) {
            (Some(host), Some(below), _) => {
                let is_final = self.round == Round::Delete && self.commits;
                let wanted = if is_final { above } else { below };
                (commit::open_up(host, below.st_mode, wanted.st_mode), is_final)
            }
            // One that has its own name soon; it has to be writable until then.
            (None, _, Some(new)) => {
                let stat = self.said(fstat(new.here()), "stat what was made for")?;
                (commit::open_up(new.here(), stat.st_mode, above.st_mode), false)
            }
            _ => return Ok(None),
        };
        let mode = self.said(opened, "set the mode on the host")?;
        if is_final {
            self.record.committed(if self.path.is_empty() { b"." } else { &self.path });
        }
        Ok(mode)
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
        let inside = if self.path.is_empty() { 0 } else { self.path.len().saturating_add(1) };
        Ok(if is_git(own_name) || has_head { Some(inside) } else { outer })
    }

    /// Steps up again.
    fn leave(&mut self) -> Result<()> {
        let Some(left) = self.levels.pop() else { return Ok(()) };
        // A mode may close a directory to us, so it is set from above.
        let copy = |directory: BorrowedFd| directory.try_clone_to_owned();
        let above = self.said(left.mode_above.map(|_| copy(self.upper.here())).transpose(), "duplicate")?;
        let here = self.host().or(self.new.as_ref().map(Trail::here)).filter(|_| left.mode.is_some());
        let here = self.said(here.map(copy).transpose(), "duplicate on the host")?;
        let mut is_moved_later = false;
        if self.host().is_some() {
            let up = self.host.leave();
            self.said(up, "leave on the host")?;
            self.new = None;
        } else if let Some(new) = &mut self.new {
            let up = new.leave();
            is_moved_later = new.depth() == 0;
            self.said(up, "leave what was made for")?;
        }
        let up = self.upper.leave();
        self.said(up, "leave")?;
        if let (Some(mode), Some(above), false) = (left.mode_above, above, self.levels.is_empty()) {
            self.said(fchmod(above, mode), "set the mode")?;
        }
        if let (Some(mode), Some(here), false) = (left.mode, here, is_moved_later)
            && let Err(failure) = self.said(fchmod(here, mode), "set the mode on the host")
        {
            self.stop(failure);
        }
        self.path.truncate(left.parent_path);
        Ok(())
    }

    /// The first failure ends the commit; what else was changed is still reported.
    fn stop(&mut self, failure: Failure) {
        (self.commits, self.new) = (false, None);
        self.failed.get_or_insert(failure);
    }

    /// Names what failed. The beginning of a path would do for none that matters, but it can be of any length.
    fn said<T, E: Into<io::Error>>(&self, result: std::result::Result<T, E>, what: &str) -> Result<T> {
        result.map_err(Into::into).context(
            STEP,
            format_args!(
                "{what} {:?}",
                OsStr::from_bytes(self.path.last_chunk::<SHOWN>().map_or(self.path.as_slice(), |end| end))
            ),
        )
    }
}

fn begin(layer: &OwnedFd) -> Result<Trail> {
    Trail::new(layer.as_fd()).context(STEP, "open the work dir")
}
