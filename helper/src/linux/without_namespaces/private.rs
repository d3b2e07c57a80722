//! The private directories: in the host's directory for temporary files, closed to all others, and removed after the run.

use super::STEP;
use crate::error::{Context, Hint, Result, failure, policy};
use crate::linux::resolve::look;
use crate::linux::task::Task;
use crate::linux::tree::{self, FileId};
use crate::linux::view::View;
use crate::validate::Plan;
use agentkit_protocol::{FailureKind, WorkDir};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::libc;
use nix::sys::stat::{Mode, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where temporary files usually are.
const USUAL: [&str; 2] = ["/tmp", "/var/tmp"];
/// Nobody else can tell the names that will be tried, so as to be there before.
const MOST_NAMES: u32 = 8;
/// How long a tree may take to be removed.
const REMOVAL: Duration = Duration::from_secs(60);
/// What nobody in the jail may open: by trying to, it is found out that nobody can.
pub(super) const CANARY: &CStr = c"closed";
/// Removal opens no more descriptors than this at a time.
const SPARE: usize = 8;

/// They are in one directory, of which only these three are granted.
pub(crate) struct Private {
    parent: OwnedFd,
    name: CString,
    pub(super) path: PathBuf,
    pub(super) directory: OwnedFd,
    pub(crate) home: PathBuf,
    pub(crate) temporary: PathBuf,
    pub(crate) work: PathBuf,
    /// Closed before the removal, which must not fail for want of them.
    spare: RefCell<Vec<OwnedFd>>,
}

impl Private {
    /// Makes them, with the files of the policy.
    pub(super) fn make(plan: &Plan, view: &View) -> Result<Self> {
        let own = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let mut refusal = None;
        for place in own.into_iter().chain(USUAL.map(PathBuf::from)) {
            match Self::make_in(&place, view).and_then(|private| private.fill(plan).map(|()| private)) {
                Ok(private) => return Ok(private),
                Err(failure) if failure.kind != FailureKind::Host => return Err(failure),
                Err(failure) => drop(refusal.get_or_insert(failure)),
            }
        }
        let none = || failure(FailureKind::Host, STEP, "there is no directory for temporary files");
        Err(refusal.unwrap_or_else(none))
            .hint("TMPDIR names another place for the private directories, which must lie in nothing that the jail is granted")
    }

    fn make_in(place: &Path, view: &View) -> Result<Self> {
        let refuse = |why: &str| Err(failure(FailureKind::Host, STEP, format_args!("{place:?} {why}")));
        let seen = look(place).context(STEP, format_args!("look at {place:?}"))?;
        let granted = |above: &Path| {
            view.system.shows(above)
                || view.entries.iter().any(|entry| entry.path == above && entry.access.has_source())
        };
        if seen.real.ancestors().any(granted) {
            return refuse("lies in what the jail is granted");
        }
        let parent = open(&seen.real, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(io::Error::from)
            .context(STEP, format_args!("open {place:?}"))?;
        let stat = fstat(&parent).map_err(io::Error::from).context(STEP, format_args!("stat {place:?}"))?;
        if stat.st_mode & libc::S_IWOTH != 0 && stat.st_mode & libc::S_ISVTX == 0 {
            return refuse("lets everybody move what others made in it");
        }
        let spare: io::Result<Vec<_>> = (0..SPARE).map(|_| parent.try_clone()).collect();
        let spare = RefCell::new(spare.context(STEP, "have descriptors to spare")?);
        let name =
            make_unique(parent.as_fd()).context(STEP, format_args!("make a directory in {place:?}"))?;
        let path = seen.real.join(name.to_string_lossy().as_ref());
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let directory = openat(&parent, name.as_c_str(), flags, Mode::empty())
            .inspect_err(|_| {
                // It is empty, and the failure to open it is the one to tell.
                let _ = unlinkat(&parent, name.as_c_str(), UnlinkatFlags::RemoveDir);
            })
            .map_err(io::Error::from)
            .context(STEP, format_args!("open {path:?}"))?;
        let [home, temporary, work] = ["home", "tmp", "work"].map(|part| path.join(part));
        Ok(Private { parent, name, path, directory, home, temporary, work, spare })
    }

    fn fill(&self, plan: &Plan) -> Result<()> {
        let size =
            plan.files.iter().fold(0_u64, |sum, (_, content)| sum.saturating_add(content.len() as u64));
        if size > plan.limits.disk {
            return Err(policy(format_args!(
                "files: they have {size} bytes together, and limits.disk, which bounds them too, is {}",
                plan.limits.disk
            )));
        }
        let made = || -> io::Result<()> {
            for part in [c"home", c"tmp", c"work"] {
                mkdirat(&self.directory, part, Mode::S_IRWXU)?;
            }
            create(self.directory.as_fd(), CANARY, Mode::S_IRUSR | Mode::S_IWUSR)?;
            let temporary = tree::open_directory(self.directory.as_fd(), c"tmp")?;
            let plain = Mode::S_IRUSR | Mode::S_IWUSR | Mode::S_IRGRP | Mode::S_IROTH;
            for (name, content) in &plan.files {
                let name = CString::new(name.as_os_str().as_encoded_bytes())?;
                create(temporary.as_fd(), &name, plain)?.write_all(content)?;
            }
            Ok(())
        };
        made().context(STEP, format_args!("fill {:?}", self.path))
    }

    /// Where the command starts.
    pub(super) fn directory_of<'a>(&'a self, task: &'a Task) -> &'a Path {
        if matches!(task.plan.workdir, WorkDir::Scratch) { &self.work } else { &task.directory }
    }

    /// Removes all of it, whatever it is by now, if that was not done yet. Nobody may work in it any more.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.spare.borrow_mut().clear();
        let own = fstat(&self.directory)?;
        match fstatat(&self.parent, self.name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if FileId::of(&found) == FileId::of(&own) && own.st_nlink > 0 => {}
            // Gone, or by another's hand another's.
            _ => return Ok(()),
        }
        let deadline = Instant::now().checked_add(REMOVAL).unwrap_or_else(Instant::now);
        tree::remove(self.parent.as_fd(), &self.name, deadline)
    }
}

/// The supervisor's, when everything is dead: usually init has removed it by then.
impl Drop for Private {
    fn drop(&mut self) {
        // What cannot be removed now stays, closed to all others.
        drop(self.remove());
    }
}

fn make_unique(parent: BorrowedFd) -> io::Result<CString> {
    for _ in 0..MOST_NAMES {
        // Such a state is made of random numbers, and of nothing else.
        let number = RandomState::new().build_hasher().finish();
        let name = CString::new(format!("agentkit-jail-{}-{number:016x}", std::process::id()))?;
        match mkdirat(parent, name.as_c_str(), Mode::S_IRWXU) {
            Ok(()) => return Ok(name),
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EEXIST.into())
}

fn create(directory: BorrowedFd, name: &CStr, mode: Mode) -> io::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(directory, name, flags, mode)?.into())
}
