//! Names by which git on the host is made to execute something, in a directory that the jail can write.
//!
//! Before the launch the repositories there are found ([`find`]), in the jail their names are covered by read-only mounts
//! ([`cover`]), and once the tree is dead everything new or changed is moved aside ([`put_aside`]). Nothing is ever made
//! on the host to protect something, so a launcher that is killed leaves nothing behind, but does not look afterwards
//! either: what was there was covered all the same. A commit of an overlay leaves the same names alone ([`commit`]).

mod commit;
mod config;
#[cfg(feature = "namespaces")]
mod cover;
mod find;
mod index;
mod inside;
mod names;
mod put_aside;
mod quarantine;
mod settings;

use super::own_changes::{Time, changed_by_others as changed};
use super::resolve::replaced;
use super::tree::{self, FileId};
use super::view::{Entry, View};
use crate::error::{Context, Hint, Result};
use find::Known;
use nix::sys::stat::fstat;
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

pub(crate) use commit::{HostExecuted, holds_heads, is_host_executed};
pub(crate) use names::is_git;
pub(crate) use put_aside::Swept;
#[cfg(any(test, fuzzing))]
pub(crate) use {config::read as read_settings, index::check as check_index};

const STEP: &str = "git names";
/// For a mechanism that cannot protect them.
#[cfg(any(feature = "bubblewrap", without_namespaces))]
pub(crate) const HOW_TO_DO_WITHOUT: &str = "`git` can be `off` in the policy (--git off), for a repository whose hooks and settings you \
    look at before you use it; what an earlier run left in .agentkit-quarantine counts until you remove it";

/// What is known of a writable host directory before the command starts.
struct Guard {
    /// Its path, for reports.
    path: PathBuf,
    /// The directory as the jail's user reaches it, but without what is mounted in the jail.
    directory: OwnedFd,
    /// Keeps what is mounted below it in its place.
    _mount: Option<OwnedFd>,
    /// Directories in it that have guards of their own.
    apart: Vec<FileId>,
    /// Whatever the jail changes is changed at this time or later.
    began: Time,
    known: Known,
}

/// Guards for every writable host directory of a view.
#[derive(Default)]
pub(crate) struct Guards(Vec<Guard>);

impl Guards {
    /// Looks at them before the jail is made.
    pub(crate) fn new(view: &mut View) -> Result<Self> {
        let mut guards: Vec<Guard> = Vec::new();
        for (path, id, mount) in view.entries.iter_mut().filter_map(Entry::guarded) {
            let mut above = guards.iter_mut().filter(|above| path.starts_with(&above.path)).peekable();
            // What lies in another one is looked at with it, unless root has a way of its own for each owner.
            if above.peek().is_some() && mount.is_none() {
                continue;
            }
            above.for_each(|above| above.apart.push(FileId { device: id.0, inode: id.1 }));
            guards.push(Guard::new(path, id, mount)?);
        }
        Ok(Guards(guards))
    }

    /// The first name to be protected, if there is any.
    #[cfg(any(feature = "bubblewrap", without_namespaces))]
    pub(crate) fn first(&self) -> Option<PathBuf> {
        self.0.iter().find_map(|guard| Some(guard.path.join(guard.known.covers.first_key_value()?.0)))
    }

    /// Protects the names in the root that is being built.
    #[cfg(feature = "namespaces")]
    pub(crate) fn cover(&self) -> Result<()> {
        self.0.iter().try_for_each(Guard::cover)
    }

    /// Moves aside what is new or was changed. The jail must be dead.
    pub(crate) fn sweep(&self) -> Swept {
        // Those within others first, since they reach more.
        self.0.iter().rev().fold(Swept::default(), |mut all, guard| {
            let Swept { quarantined, unchecked } = guard.sweep();
            all.quarantined.extend(quarantined);
            all.unchecked.extend(unchecked);
            all
        })
    }
}

impl Guard {
    /// By `mount` if root has opened it.
    fn new(path: &Path, (device, inode): (u64, u64), mount: Option<OwnedFd>) -> Result<Self> {
        let directory = match &mount {
            Some(mount) => {
                tree::open_directory(mount.as_fd(), c".").context(STEP, format_args!("open {path:?}"))?
            }
            None => open(path)?,
        };
        let stat = fstat(&directory).map_err(io::Error::from).context(STEP, format_args!("stat {path:?}"))?;
        if FileId::of(&stat) != (FileId { device, inode }) {
            return Err(replaced(path));
        }
        // The clock that file systems take their times from.
        let now = clock_gettime(ClockId::CLOCK_REALTIME_COARSE)
            .map_err(io::Error::from)
            .context(STEP, "clock_gettime")?;
        let known =
            Known::find(directory.as_fd(), path).context(STEP, format_args!("look through {path:?}"))?;
        let began = (now.tv_sec(), now.tv_nsec());
        Ok(Guard { path: path.to_path_buf(), directory, _mount: mount, apart: Vec::new(), began, known })
    }
}

fn open(path: &Path) -> Result<OwnedFd> {
    std::fs::File::open(path)
        .map(OwnedFd::from)
        .context(STEP, format_args!("open {path:?}"))
        .hint("git's names can only be protected where the launcher can read; they can also be left unprotected (`git`)")
}
