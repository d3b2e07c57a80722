//! What becomes of a change: it is made beside the host's files, moved to its name, or deleted.

use super::{Round, Walk};
use crate::error::Result;
use crate::linux::git::is_git;
use crate::linux::overlay::commit;
use crate::linux::overlay::entry::{is_directory, kind};
use crate::linux::tree::{self, Kind, Trail};
use agentkit_protocol::{ChangeKind, KeptBack};
use nix::errno::Errno;
use nix::fcntl::readlinkat;
use nix::sys::stat::{FileStat, Mode, mkdirat};
use nix::unistd::symlinkat;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;

impl Walk<'_> {
    /// Makes what is new, where it is in nobody's way; `false` if something that it would replace has to stay.
    pub(super) fn prepare(
        &mut self,
        change: ChangeKind,
        name: &CStr,
        above: Option<&FileStat>,
        below: Option<&FileStat>,
    ) -> Result<bool> {
        if change == ChangeKind::Replaced && is_directory(below) && self.has_to_stay(name)? {
            return Ok(false);
        }
        let Some(stat) = above else { return Ok(true) };
        match kind(stat) {
            Kind::Directory if change == ChangeKind::Modified => {}
            Kind::Directory => {
                let made = self.staged().and_then(|staged| Ok(mkdirat(staged, name, Mode::S_IRWXU)?));
                self.said(made, "make on the host")?;
            }
            Kind::File => {
                let file = self.open_above(name, stat)?;
                let made = self.make_file(file, stat, name);
                self.said(made, "write to the host")?;
            }
            Kind::Link => {
                let target = self.said(readlinkat(self.upper.here(), name), "read the link")?;
                let made = self.staged().and_then(|staged| Ok(symlinkat(&*target, staged, name)?));
                self.said(made, "link on the host")?;
            }
            Kind::Special => {}
        }
        Ok(true)
    }

    fn make_file(&mut self, file: File, stat: &FileStat, name: &CStr) -> io::Result<()> {
        if stat.st_nlink == 1 {
            return commit::make_file(file, stat, self.staged()?, name);
        }
        let shared = self.staging.make_shared(self.layers.host.as_fd())?;
        commit::make_shared_file(file, stat, shared.as_fd(), self.staged()?, name)
    }

    /// The directory for what is new in this one.
    fn staged(&mut self) -> io::Result<BorrowedFd<'_>> {
        if self.new.is_none() {
            let host = self.host().ok_or(Errno::ESTALE)?;
            self.new = Some(Trail::new(self.staging.make(host)?.as_fd())?);
        }
        self.new.as_ref().map(Trail::here).ok_or_else(|| Errno::ESTALE.into())
    }

    /// Whether something in a directory of the host must not be removed.
    fn has_to_stay(&self, name: &CStr) -> Result<bool> {
        let Some(host) = self.host() else { return Ok(false) };
        let held = commit::holds(host, name, self.deadline, self.stays());
        self.said(held, "look through on the host")
    }

    /// What must not be removed from a directory of the host with this path, by the way to it from there.
    fn stays(&self) -> impl Fn(&Trail, &CStr) -> bool {
        let leads_to_one = self.executed.leads_to_one(&self.path);
        move |trail, name| {
            let below = || trail.path_of(name).into_os_string().into_vec();
            let stays = || self.executed.stays(&[&self.path[..], b"/", &below()].concat());
            self.protects_git && is_git(name.to_bytes()) || leads_to_one && stays()
        }
    }

    /// Does with a name what the round does; whether it is a directory to look into.
    pub(super) fn carry_out(
        &mut self,
        name: &CStr,
        above: Option<&FileStat>,
        below: Option<&FileStat>,
    ) -> bool {
        let merged = is_directory(above) && is_directory(below);
        let kept_back = self.kept_back(name, above, merged).is_some();
        if self.commits && !merged && !kept_back {
            let done = match (self.round, above, below) {
                (Round::Add, Some(above), None) => self.move_in(name, above, None),
                (Round::Replace, Some(above), Some(_)) => self.move_in(name, above, below),
                (Round::Delete, None, Some(_)) => self.delete(name),
                _ => Ok(()),
            };
            if let Err(failure) = done {
                self.stop(failure);
            }
        }
        merged && !kept_back
    }

    /// Only what was prepared is a change.
    fn move_in(&mut self, name: &CStr, above: &FileStat, below: Option<&FileStat>) -> Result<()> {
        let Some(host) = self.host() else { return Ok(()) };
        if let Some(staged) = self.said(self.staging.find(host, name), "find what was made for")? {
            let moved = commit::move_in(staged.as_fd(), host, name, above, below, &self.staging.spare);
            self.said(moved, "move to the host")?;
            self.record.committed_with_all_below(&self.path);
        }
        Ok(())
    }

    fn delete(&mut self, name: &CStr) -> Result<()> {
        let Some(host) = self.host() else { return Ok(()) };
        let removed = tree::remove_except(host, name, self.deadline, self.stays());
        if self.said(removed, "remove on the host")? {
            self.record.committed(&self.path);
        } else {
            self.record.keep_back(&self.path, KeptBack::HostExecuted);
        }
        Ok(())
    }
}
