//! What a run adds to the file system of a work dir on the host. Only private directories have a size of their own.

mod before;

use super::deadline;
use super::tree::{Bounds, FileId, Step, Walk};
use super::usage::{self, Process};
use before::Before;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::libc;
use nix::sys::stat::{Mode, fstatat};
use nix::sys::statvfs::fstatvfs;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{AccessFlags, faccessat};
use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long one look may count files; the next look goes on from there.
const SLICE: Duration = Duration::from_millis(10);
/// How long the last look may: the caller waits.
const LAST_SLICE: Duration = Duration::from_millis(100);
/// After so many entries a count begins anew: the tree has changed meanwhile.
const MOST_ENTRIES: u64 = 1 << 20;
/// So many files are told apart at most, in twelve megabytes; what more there are count by each of their names.
const MOST_FOUND: usize = 1 << 18;
/// So many counts in a row must have met what nobody may look at: honest programs, too, close a directory for a moment, and
/// others may take what is missing just then.
const MOST_HIDDEN: u8 = 3;
/// Files are dated by a clock that goes in steps of at most this.
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// Looks at one work dir.
pub(crate) struct Disk {
    workdir: OwnedFd,
    /// The jail's init, which is closed to everybody and has no file there.
    init: u32,
    /// The most that was free so far: what others give back meanwhile must not hide what the run takes.
    most_free: u64,
    started: Duration,
    before: Before,
    count: Option<Count>,
    /// What a count found that missed something, and those before it: who moves files about all the time has each counted
    /// sooner or later.
    found: Found,
    /// The most that its file system had less than before, whoever took it.
    pub(crate) peak_lost: u64,
    /// The most that was counted of that.
    pub(crate) peak_added: u64,
    /// How many counts in a row have met what nobody may look at.
    hidden: u8,
    /// Whether the run kept some of it from being counted.
    pub(crate) hid_some: bool,
    /// Whether more was left than the run may add.
    pub(crate) left_too_much: bool,
}

/// A count under way.
struct Count {
    walk: Walk,
    found: Found,
    /// Whether something was gone, or moved, by the time it was to be looked at.
    missed: bool,
    /// Whether there is something that nobody may look at.
    hidden: bool,
}

/// Files with what was added to each. One with several names counts once.
#[derive(Default)]
struct Found {
    files: HashMap<FileId, u64>,
    bytes: u64,
}

impl Found {
    fn add(&mut self, stat: &libc::stat, added: u64) {
        let id = FileId::of(stat);
        let known = self.files.get(&id).copied();
        let more = added.saturating_sub(known.unwrap_or(0));
        if more > 0 && (known.is_some() || self.files.len() < MOST_FOUND) {
            self.files.insert(id, added);
        }
        self.bytes = self.bytes.saturating_add(more);
    }
}

impl Disk {
    /// Begins before the command does.
    pub(crate) fn new(workdir: OwnedFd, init: u32) -> Self {
        let now = clock_gettime(ClockId::CLOCK_REALTIME).map_or(Duration::ZERO, Duration::from);
        let (most_free, started) = (free(&workdir).unwrap_or(0), now.saturating_sub(CLOCK_STEP));
        Disk {
            workdir,
            init,
            most_free,
            started,
            before: Before::default(),
            count: None,
            found: Found::default(),
            peak_lost: 0,
            peak_added: 0,
            hidden: 0,
            hid_some: false,
            left_too_much: false,
        }
    }

    /// Whether the run has added more than `limit` bytes: its file system has lost as much, which is cheap to see but may
    /// be the work of others, and files that changed since the start take as much more, which is slow to count. What it
    /// keeps hidden from the count is taken for too much.
    pub(crate) fn is_over(&mut self, limit: u64, proc: &OwnedFd, processes: &[Process]) -> bool {
        self.before.go_on(&self.workdir, self.started);
        if self.lost() <= limit {
            self.count = None;
            return false;
        }
        let Some(mut count) = self.count.take().or_else(|| self.begin_with_open(proc, processes)) else {
            // Not to be read any more, which is the run's own doing.
            return self.is_hidden_for_long();
        };
        let unfinished = count.go_on(self.started, &self.before, limit, SLICE);
        self.peak_added = self.peak_added.max(count.found.bytes);
        let over = count.found.bytes > limit;
        if count.hidden {
            self.found = count.found;
            return over || self.is_hidden_for_long();
        }
        if unfinished {
            self.count = Some(count);
        } else {
            self.hidden = 0;
            self.found = if count.missed { count.found } else { Found::default() };
        }
        over
    }

    fn is_hidden_for_long(&mut self) -> bool {
        self.hidden = self.hidden.saturating_add(1);
        self.hid_some = self.hidden >= MOST_HIDDEN;
        self.hid_some
    }

    /// The last look, when all processes are dead: what a command adds fast, and then ends, no other look sees. A tree
    /// that is too large for the time there is is taken for as small as it was seen.
    pub(crate) fn end(&mut self, limit: u64) {
        if self.lost() > limit
            && let Some(mut count) = self.begin()
        {
            count.go_on(self.started, &self.before, limit, LAST_SLICE);
            self.peak_added = self.peak_added.max(count.found.bytes);
            self.hid_some |= count.hidden;
            self.left_too_much = count.hidden || count.found.bytes > limit;
        }
    }

    /// How much less the file system has than it had.
    fn lost(&mut self) -> u64 {
        let free = free(&self.workdir).unwrap_or(self.most_free);
        self.most_free = self.most_free.max(free);
        let lost = self.most_free.saturating_sub(free);
        self.peak_lost = self.peak_lost.max(lost);
        lost
    }

    /// Goes on from what the last one missed.
    fn begin(&mut self) -> Option<Count> {
        let walk = tree_of(&self.workdir)?;
        Some(Count { walk, found: std::mem::take(&mut self.found), missed: false, hidden: false })
    }

    /// Begins with files that have no name left, since processes close them at any time.
    fn begin_with_open(&mut self, proc: &OwnedFd, processes: &[Process]) -> Option<Count> {
        let mut count = self.begin()?;
        for process in processes.iter().filter(|process| process.pid != self.init) {
            // A thread can have descriptors of its own.
            for thread in usage::threads(proc, process.pid) {
                count.add_open_files(proc, &format!("{}/task/{thread}", process.pid), &self.before);
            }
        }
        Some(count)
    }
}

impl Count {
    /// Takes files until there are more bytes than `limit` or the time is over; false if it was all.
    fn go_on(&mut self, since: Duration, before: &Before, limit: u64, time: Duration) -> bool {
        let deadline = deadline::after(Instant::now(), time);
        let mut unfinished = true;
        while unfinished && !self.hidden && self.found.bytes <= limit && Instant::now() < deadline {
            unfinished = self.step(since, before);
        }
        unfinished
    }

    /// Takes one file; false after the last one.
    fn step(&mut self, since: Duration, before: &Before) -> bool {
        match self.walk.next() {
            Ok(Some(Step::Entry(name, _) | Step::Directory(name))) => {
                match fstatat(self.walk.here(), &*name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                    Ok(stat) if changed(&stat) >= since => self.found.add(&stat, before.added(&stat)),
                    Ok(_) => {}
                    Err(_) => self.missed = true,
                }
                true
            }
            Ok(Some(Step::Closed(name, error))) => {
                match error.kind() {
                    io::ErrorKind::PermissionDenied => self.hidden |= self.may_hide(&name, since),
                    _ => self.missed = true,
                }
                true
            }
            Ok(Some(Step::Left(_))) => true,
            Ok(None) => false,
            Err(_) => {
                self.missed = true;
                false
            }
        }
    }

    /// Whether the run can have put anything into a directory that cannot be read: it has closed it itself, or can pass
    /// through. How much, nobody can tell then.
    fn may_hide(&self, name: &CStr, since: Duration) -> bool {
        let here = self.walk.here();
        let closed_by_run =
            || fstatat(here, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|stat| changed(&stat) >= since);
        closed_by_run() || faccessat(here, name, AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok()
    }

    /// A process can close itself to all others (`PR_SET_DUMPABLE`, or a program that it cannot read), and what it has then
    /// opened nobody can tell. So it is when it is about to be gone, but without memory of its own.
    fn add_open_files(&mut self, proc: &OwnedFd, thread: &str, before: &Before) {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let mut open = match Dir::openat(proc.as_fd(), format!("{thread}/fd").as_str(), flags, Mode::empty())
        {
            Ok(open) => open,
            Err(Errno::EACCES | Errno::EPERM) if usage::has_memory(proc, thread) => {
                self.hidden = true;
                return;
            }
            Err(_) => return,
        };
        let names: Vec<_> = open.iter().flatten().map(|entry| entry.file_name().to_owned()).collect();
        for name in names {
            let Ok(stat) = fstatat(&open, &*name, AtFlags::empty()) else { continue };
            if stat.st_nlink == 0 && FileId::of(&stat).device == self.walk.trail().id().device {
                self.found.add(&stat, before.added(&stat));
            }
        }
    }
}

/// All of the work dir's own file system, as far as it can be read.
fn tree_of(workdir: &OwnedFd) -> Option<Walk> {
    let far = deadline::after(Instant::now(), Duration::from_secs(24 * 3600));
    let bounds =
        Bounds { entries: MOST_ENTRIES, crosses_devices: false, opens_closed: false, ..Bounds::until(far) };
    Walk::new(workdir.as_fd(), bounds).ok()
}

/// The space that a file takes. Blocks, whatever the block size of the file system, are of 512 bytes; holes have none.
fn size(stat: &libc::stat) -> u64 {
    stat.st_blocks.unsigned_abs().saturating_mul(512)
}

fn free(directory: &OwnedFd) -> Option<u64> {
    let system = fstatvfs(directory).ok()?;
    Some((system.blocks_free() as u64).saturating_mul(system.fragment_size()))
}

/// When the file was last written, given a name or otherwise changed: nobody can set that back.
fn changed(stat: &libc::stat) -> Duration {
    let seconds = Duration::from_secs(stat.st_ctime.try_into().unwrap_or(0));
    seconds.saturating_add(Duration::from_nanos(stat.st_ctime_nsec.try_into().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FallocateFlags, fallocate};
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;

    fn count(disk: &mut Disk, proc: &OwnedFd, processes: &[Process]) -> Count {
        let mut count = disk.begin_with_open(proc, processes).unwrap();
        while count.step(disk.started, &disk.before) {}
        count
    }

    fn counted(disk: &mut Disk, proc: &OwnedFd, processes: &[Process]) -> u64 {
        count(disk, proc, processes).found.bytes
    }

    #[test]
    fn what_changed_since_is_counted_by_the_space_it_takes() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &std::path::Path| OwnedFd::from(File::open(path).unwrap());
        fs::write(dir.path().join("old"), vec![1; 1 << 20]).unwrap();
        let mut disk = Disk::new(open(dir.path()), 0);
        // Later than anything there is.
        disk.started += CLOCK_STEP * 2;
        while clock_gettime(ClockId::CLOCK_REALTIME_COARSE).map(Duration::from).unwrap() < disk.started {}
        let proc = open("/proc".as_ref());
        assert_eq!(counted(&mut disk, &proc, &[]), 0);

        let new = File::create(dir.path().join("new")).unwrap();
        fallocate(&new, FallocateFlags::empty(), 0, 1 << 20).unwrap();
        fs::hard_link(dir.path().join("new"), dir.path().join("same")).unwrap();
        File::create(dir.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        let once = counted(&mut disk, &proc, &[]);
        assert!((1 << 20..2 << 20).contains(&once), "{once}");

        fs::remove_file(dir.path().join("new")).unwrap();
        fs::remove_file(dir.path().join("same")).unwrap();
        let this = Process { pid: std::process::id(), ..Process::default() };
        let held = counted(&mut disk, &proc, std::slice::from_ref(&this));
        assert!((1 << 20..2 << 20).contains(&held), "{held}");
        drop(new);
        assert!(counted(&mut disk, &proc, &[this]) < 1 << 20);
    }

    /// Once somebody else fills the file system, an old file that is only touched must not count as new.
    #[test]
    fn an_old_file_counts_by_what_was_added_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let (below, old) = (dir.path().join("below"), dir.path().join("below/old"));
        fs::create_dir(&below).unwrap();
        fs::write(&old, vec![1; 4 << 20]).unwrap();
        let mut disk = Disk::new(OwnedFd::from(File::open(dir.path()).unwrap()), 0);
        // Later than anything there is.
        disk.started += CLOCK_STEP * 2;
        while clock_gettime(ClockId::CLOCK_REALTIME_COARSE).map(Duration::from).unwrap() < disk.started {}
        let proc = OwnedFd::from(File::open("/proc").unwrap());
        // One look ends by the clock, on a busy host before it has begun.
        while !disk.before.is_complete() {
            assert!(!disk.is_over(1 << 30, &proc, &[]));
        }
        let append = |size: usize| {
            let mut file = File::options().append(true).open(&old).unwrap();
            std::io::Write::write_all(&mut file, &vec![1; size]).unwrap();
        };
        append(1);
        let touched = counted(&mut disk, &proc, &[]);
        assert!(touched < 1 << 20, "{touched}");
        append(2 << 20);
        let grown = counted(&mut disk, &proc, &[]);
        assert!((2 << 20..3 << 20).contains(&grown), "{grown}");
        // What has taken its place is new.
        fs::write(dir.path().join("new"), vec![1; 4 << 20]).unwrap();
        fs::rename(dir.path().join("new"), &old).unwrap();
        assert!(counted(&mut disk, &proc, &[]) >= 4 << 20);
    }

    /// Whoever moves a directory about all the time has what is in it counted once one of the counts gets there.
    #[test]
    fn what_one_count_misses_is_not_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let proc = OwnedFd::from(File::open("/proc").unwrap());
        let mut disk = Disk::new(OwnedFd::from(File::open(dir.path()).unwrap()), 0);
        disk.most_free = u64::MAX;
        let (here, away) = (dir.path().join("file"), tempfile::tempdir_in(dir.path()).unwrap());
        fs::write(&here, vec![1; 1 << 20]).unwrap();
        let mut first = count(&mut disk, &proc, &[]);
        assert!(first.found.bytes >= 1 << 20 && !first.missed);
        first.missed = true;
        disk.count = Some(first);
        assert!(!disk.is_over(1 << 30, &proc, &[]));
        // The next ones find another, and the same as it is by now.
        fs::rename(&here, dir.path().join("renamed")).unwrap();
        fs::write(away.path().join("other"), vec![1; 1 << 20]).unwrap();
        assert!((2 << 20..3 << 20).contains(&counted(&mut disk, &proc, &[])));
        // A count that misses nothing is the truth.
        assert!(counted(&mut disk, &proc, &[]) < 3 << 20);
    }

    #[test]
    fn only_what_stays_hidden_is_taken_for_too_much() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("passable");
        fs::create_dir(&place).unwrap();
        let close = |closed| {
            let mode = if closed { 0o300 } else { 0o700 };
            fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        };
        let mut disk = Disk::new(OwnedFd::from(File::open(dir.path()).unwrap()), 0);
        // Others take more and more.
        disk.most_free = u64::MAX;
        let proc = OwnedFd::from(File::open("/proc").unwrap());
        close(true);
        // Whoever can read everything finds everything.
        let all = fs::read_dir(&place).is_ok();
        let mut counts = |closed, times: u8| {
            close(closed);
            (0..times).map(|_| disk.is_over(1 << 20, &proc, &[])).filter(|over| *over).count()
        };
        assert_eq!(counts(true, MOST_HIDDEN - 1), 0);
        assert_eq!(counts(false, 1), 0);
        assert_eq!(counts(true, MOST_HIDDEN - 1), 0);
        assert_eq!(counts(true, 1), usize::from(!all));
        close(false);
    }

    #[test]
    fn what_is_hidden_is_too_much() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        for name in ["closed", "passable"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        mode("passable", 0o300);
        let closed = dir.path().join("closed");
        let before = fs::metadata(&closed).unwrap().permissions();
        mode("closed", 0);
        let mut disk = Disk::new(OwnedFd::from(File::open(dir.path()).unwrap()), 0);
        let proc = OwnedFd::from(File::open("/proc").unwrap());
        // Whoever can read everything finds everything.
        let all = fs::read_dir(&closed).is_ok();
        let too_much = |disk: &mut Disk| count(disk, &proc, &[]).hidden;
        assert_eq!(too_much(&mut disk), !all);
        mode("passable", 0o700);
        assert_eq!(too_much(&mut disk), !all);
        // Long before the run, and no way through.
        disk.started += Duration::from_secs(3600);
        assert!(!too_much(&mut disk));
        assert_eq!(fs::metadata(&closed).unwrap().permissions().mode() & 0o7777, 0);
        fs::set_permissions(&closed, before).unwrap();
    }
}
