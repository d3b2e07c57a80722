//! What was changed: each name of the upper layer beside the host's.

use super::Walk;
use crate::error::Result;
use crate::linux::git::is_host_executed;
use crate::linux::overlay::attributes::is_opaque;
use crate::linux::overlay::commit::PERMISSIONS;
use crate::linux::overlay::entry::{is_directory, kind, open_file, unlock};
use crate::linux::tree::Kind;
use agentkit_protocol::{ChangeKind, EntryKind, KeptBack};
use nix::fcntl::readlinkat;
use nix::sys::stat::FileStat;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

impl Walk<'_> {
    /// Finds out what was changed, prepares and records it; whether it is a directory to look into.
    pub(super) fn judge(
        &mut self,
        name: &CStr,
        above: Option<&FileStat>,
        below: Option<&FileStat>,
    ) -> Result<bool> {
        let change = self.change(name, above, below)?;
        let merged = is_directory(above) && is_directory(below);
        if change.is_none() && !merged {
            return Ok(false);
        }
        let mut kept_back = self.kept_back(name, above, merged);
        if let (Some(change), None, true) = (change, kept_back, self.commits) {
            match self.prepare(change, name, above, below) {
                Ok(true) => {}
                Ok(false) => kept_back = Some(KeptBack::HostExecuted),
                Err(failure) => self.stop(failure),
            }
        }
        if let (Some(stat), true) = (above.or(below), change.is_some() || kept_back.is_some()) {
            let change = change.unwrap_or(ChangeKind::Modified);
            self.record.add(&self.path, change, entry_kind(stat), kept_back);
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

    pub(super) fn open_above(&self, name: &CStr, stat: &FileStat) -> Result<File> {
        let open = || -> io::Result<File> {
            unlock(self.upper.here(), name, stat, 0o400)?;
            let file = open_file(self.upper.here(), name)?;
            is_opaque(file.as_fd())?;
            Ok(file)
        };
        self.said(open(), "open")
    }

    pub(super) fn kept_back(&self, name: &CStr, above: Option<&FileStat>, merged: bool) -> Option<KeptBack> {
        let git = self.levels.last().and_then(|level| level.git);
        let path = git.and_then(|begin| self.path.get(begin..)).unwrap_or(name.to_bytes());
        let by_name = is_host_executed(path, git.is_some(), merged);
        // Where it was moved to, a `HEAD` stays out: this would be the last of it.
        let is_last_head = git.is_some() && above.is_none() && path.eq_ignore_ascii_case(b"HEAD");
        let by_name = by_name || is_last_head;
        let misleads = || {
            let kind = above.map(kind).filter(|_| git.is_some());
            kind.is_some_and(|kind| self.executed.misleads(&self.path, self.upper.here(), name, kind))
        };
        if self.protects_git && (by_name || self.executed.forbids(&self.path, above.map(kind)) || misleads())
        {
            return Some(KeptBack::HostExecuted);
        }
        above.filter(|stat| kind(stat) == Kind::Special).map(|_| KeptBack::Special)
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
            return Ok(other.read(&mut [0])? == 0);
        }
        let (Some(left), Some(right)) = (left.get(..length), right.get_mut(..length)) else {
            return Ok(false);
        };
        match other.read_exact(right) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if left != right {
            return Ok(false);
        }
    }
}
