//! What each process of the jail uses right now, read through the jail's own `/proc`.
//!
//! The descriptor lists exactly the jail's processes, keeps working after the jail gave up everything, and needs no
//! walk over the host's processes.

use super::proc_files::{self, Stat};
use super::{sys, tree};
use nix::dir::Dir;
use nix::fcntl::{OFlag, openat};
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::{SysconfVar, Whence, lseek, sysconf};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::LazyLock;
use std::time::Duration;

/// How long what was read about a process may be taken for what is.
pub(crate) const FRESH: Duration = Duration::from_millis(100);

/// One process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The thread that shows its memory: the first one, unless that has ended and others go on.
    pub(crate) thread: u32,
    /// Whose child it is.
    pub(crate) parent: u32,
    /// The session that it is in.
    pub(crate) session: u32,
    /// When it began; with the pid, which process it is.
    pub(crate) started: u64,
    /// Its threads.
    pub(crate) tasks: u64,
    /// Page faults so far. Without another one it holds no page that it did not hold before.
    pub(crate) faults: u64,
    /// Bytes mapped, touched or not.
    pub(crate) mapped: u64,
    /// Bytes resident; pages that processes share count for each.
    pub(crate) resident: u64,
    /// Processor time of all its threads, ended ones included.
    pub(crate) cpu: Duration,
    /// Processor time of the children that it has waited for.
    pub(crate) childrens_cpu: Duration,
}

impl Process {
    /// Whether it has hardly done anything since: it is the same process, with the same mappings and no fault more. The
    /// kernel can touch pages for it without a fault, which takes processor time, and less than a tick does not show: so
    /// this holds for [`FRESH`] at most.
    pub(crate) fn holds_the_same(&self, other: &Process) -> bool {
        let state = |of: &Process| (of.thread, of.started, of.faults, of.mapped, of.resident, of.cpu);
        state(self) == state(other)
    }
}

/// All processes of the `/proc` behind `proc`, its init included. Made for being called a hundred times a second: the
/// directory is neither opened nor closed.
pub(crate) fn processes(proc: &OwnedFd) -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    let mut buffer = [0; 4096];
    lseek(proc, 0, Whence::SeekSet)?;
    loop {
        let length = sys::read_directory(proc.as_fd(), &mut buffer)?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while let Some((length, name, _)) = tree::record(rest) {
            let pid = name.to_str().ok().and_then(|name| name.parse().ok());
            // A process that ended meanwhile uses nothing.
            found.extend(pid.and_then(|pid| process(proc, pid)));
            rest = rest.get(length..).unwrap_or_default();
        }
        if length == 0 {
            return Ok(found);
        }
    }
}

/// The process `top` and all that descend from it, in a `/proc` that shows others too. By the lists of children that the
/// kernel keeps, where it shows them; a process that ends meanwhile can hide another for one look.
pub(crate) fn descendants(proc: &OwnedFd, top: u32) -> io::Result<Vec<Process>> {
    if read(proc, &format!("{top}/task/{top}/children")).is_err() {
        let mut all = processes(proc)?;
        let parents = parents(&all);
        all.retain(|process| is_below(process.pid, top, &parents));
        return Ok(all);
    }
    let mut found = Vec::new();
    let mut waiting = vec![top];
    while let Some(pid) = waiting.pop() {
        found.extend(process(proc, pid));
        waiting.extend(children(proc, pid));
    }
    Ok(found)
}

/// The children of all threads of a process.
pub(crate) fn children(proc: &OwnedFd, pid: u32) -> Vec<u32> {
    let texts = threads(proc, pid)
        .into_iter()
        .filter_map(|thread| read(proc, &format!("{pid}/task/{thread}/children")).ok());
    let numbers =
        |text: String| -> Vec<u32> { text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect() };
    texts.flat_map(numbers).collect()
}

/// When a process began, if it is there.
#[cfg(without_namespaces)]
pub(crate) fn starts(proc: &OwnedFd, pid: u32) -> Option<u64> {
    parse_stat(&read(proc, &format!("{pid}/stat")).ok()?).map(|process| process.started)
}

/// How many tasks a user has by the kernel's count: processes and threads by their real uid.
#[cfg(without_namespaces)]
pub(crate) fn tasks_of(proc: &OwnedFd, uid: u32) -> io::Result<u64> {
    let is_of_user = |process: &&Process| {
        let text = read(proc, &format!("{}/status", process.pid));
        let real =
            |text: String| proc_files::status_field(&text, "Uid")?.split_whitespace().next()?.parse().ok();
        text.ok().and_then(real) == Some(uid)
    };
    let all = processes(proc)?;
    Ok(all.iter().filter(is_of_user).fold(0, |sum, process| sum.saturating_add(process.tasks)))
}

/// Whose child each is.
pub(crate) fn parents(processes: &[Process]) -> HashMap<u32, u32> {
    processes.iter().map(|process| (process.pid, process.parent)).collect()
}

/// A process, its parent, and so on.
pub(crate) fn way_up(pid: u32, parents: &HashMap<u32, u32>) -> impl Iterator<Item = u32> {
    // What was read at different moments could go in a circle.
    std::iter::successors(Some(pid), |pid| parents.get(pid).copied()).take(parents.len().saturating_add(1))
}

/// Whether a process is `top` or descends from it.
pub(crate) fn is_below(pid: u32, top: u32, parents: &HashMap<u32, u32>) -> bool {
    way_up(pid, parents).any(|pid| pid == top)
}

/// A process is described by its first thread. If that has ended and others go on, it shows no memory: theirs does.
fn process(proc: &OwnedFd, pid: u32) -> Option<Process> {
    let first = Process { pid, thread: pid, ..parse_stat(&read(proc, &format!("{pid}/stat")).ok()?)? };
    if first.resident > 0 || first.tasks < 2 {
        return Some(first);
    }
    let living = threads(proc, pid).into_iter().filter_map(|thread| {
        let stat = parse_stat(&read(proc, &format!("{pid}/task/{thread}/stat")).ok()?)?;
        Some(Process { thread, mapped: stat.mapped, resident: stat.resident, ..first.clone() })
    });
    living.max_by_key(|thread| thread.resident).or(Some(first))
}

/// Memory that does not show in [`Process::resident`], or twice in the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    /// Bytes of page tables.
    pub(crate) tables: u64,
    /// Bytes swapped out.
    pub(crate) swapped: u64,
    /// Bytes resident in shared memory, files in memory included.
    pub(crate) shared: u64,
}

/// From `/proc/PID/status`.
pub(crate) fn details(proc: &OwnedFd, process: &Process) -> Option<Details> {
    let text = read(proc, &format!("{}/task/{}/status", process.pid, process.thread)).ok()?;
    let bytes = |name| proc_files::status_field(&text, name).and_then(parse_kilobytes).unwrap_or(0);
    Some(Details { tables: bytes("VmPTE"), swapped: bytes("VmSwap"), shared: bytes("RssShmem") })
}

/// Resident memory with pages that processes share divided among them (`Pss`, Linux 4.14), and how much of it is shared
/// memory. The kernel walks every page table for it.
pub(crate) fn proportional(proc: &OwnedFd, process: &Process) -> io::Result<(u64, u64)> {
    let text = read(proc, &format!("{}/smaps_rollup", process.thread))?;
    let bytes = |name| proc_files::status_field(&text, name).and_then(parse_kilobytes);
    let all = bytes("Pss").ok_or(io::ErrorKind::InvalidData)?;
    Ok((all, bytes("Pss_Shmem").unwrap_or(0)))
}

/// Whether this is how `/proc` says that a process has ended.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// The names of a process's threads.
pub(crate) fn threads(proc: &OwnedFd, pid: u32) -> Vec<u32> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let directory = Dir::openat(proc.as_fd(), format!("{pid}/task").as_str(), flags, Mode::empty());
    let Ok(mut directory) = directory else { return Vec::new() };
    let names = directory.iter().flatten().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
    names.collect()
}

/// Whether a thread (`PID/task/TID`) still has memory: one that has ended, or is about to, has none.
pub(crate) fn has_memory(proc: &OwnedFd, thread: &str) -> bool {
    read(proc, &format!("{thread}/statm")).is_ok_and(|text| !text.starts_with("0 "))
}

/// The text of `/proc/PID/maps`. It comes in pieces, each less than a page, and only the end says that it is the end.
pub(crate) fn maps(proc: &OwnedFd, process: &Process) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut file = open(proc, &format!("{}/task/{}/maps", process.pid, process.thread))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn read(proc: &OwnedFd, path: &str) -> io::Result<String> {
    proc_files::read_all(open(proc, path)?)
}

fn open(proc: &OwnedFd, path: &str) -> io::Result<File> {
    Ok(File::from(openat(proc.as_fd(), path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?))
}

/// By the numbers of proc_pid_stat(5): the parent is 4, the session 6, faults are 10 and 12, processor time in ticks 14 to 17, threads 20, the start 22,
/// and memory 23 (bytes) and 24 (pages).
pub(crate) fn parse_stat(text: &str) -> Option<Process> {
    let stat = Stat::parse(text)?;
    let sum = |first, second| Some(stat.number(first)?.saturating_add(stat.number(second)?));
    let ticks = |ticks: u64| {
        Duration::from_millis(ticks.saturating_mul(1000).checked_div(UNITS.ticks).unwrap_or(u64::MAX))
    };
    Some(Process {
        parent: stat.number(4)?.try_into().ok()?,
        session: stat.number(6)?.try_into().ok()?,
        tasks: stat.number(20)?,
        faults: sum(10, 12)?,
        started: stat.number(22)?,
        mapped: stat.number(23)?,
        resident: stat.number(24)?.saturating_mul(UNITS.page),
        cpu: ticks(sum(14, 15)?),
        childrens_cpu: ticks(sum(16, 17)?),
        ..Process::default()
    })
}

/// `12 kB`, as the kernel writes amounts of memory.
pub(crate) fn parse_kilobytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.trim_ascii_start().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the kernel counts in.
struct Units {
    /// Bytes of a page.
    page: u64,
    /// Ticks of a second.
    ticks: u64,
}

/// Asked for once: waiting is to touch as little code as possible.
static UNITS: LazyLock<Units> = LazyLock::new(|| {
    let configured = |name, usual| sysconf(name).ok().flatten().map_or(usual, i64::unsigned_abs).max(1);
    Units { page: configured(SysconfVar::PAGE_SIZE, 4096), ticks: configured(SysconfVar::CLK_TCK, 100) }
});

#[cfg(test)]
mod tests {
    use super::*;

    fn own_proc() -> OwnedFd {
        OwnedFd::from(File::open("/proc").unwrap())
    }

    #[test]
    fn mappings_are_read_to_their_end() {
        let this = std::process::id();
        let proc = OwnedFd::from(File::open("/proc").unwrap());
        // Each thread has a stack, and that a page beside it.
        let all_there = std::sync::Barrier::new(61);
        let text = std::thread::scope(|scope| {
            (0..60).for_each(|_| drop(scope.spawn(|| all_there.wait())));
            let text = maps(&proc, &Process { pid: this, thread: this, ..Process::default() });
            all_there.wait();
            text.unwrap()
        });
        assert!(text.len() > 4096 && text.contains("[stack]"), "{text}");
    }

    #[test]
    fn who_has_run_may_hold_more() {
        let before = Process { pid: 7, started: 3, faults: 5, ..Process::default() };
        assert!(before.holds_the_same(&before.clone()));
        let ran = Process { cpu: Duration::from_millis(10), ..before.clone() };
        let faulted = Process { faults: 6, ..before.clone() };
        assert!(!before.holds_the_same(&ran) && !before.holds_the_same(&faulted));
    }

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let rest = "S 8 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 7 18 19 4096 100 22 23";
        let plain = parse_stat(&format!("12 (sh) {rest}")).unwrap();
        let hostile = parse_stat(&format!("12 (a) R 1 (b) ) {rest}")).unwrap();
        let ticks = |ticks: u64| Duration::from_millis(ticks * 1000 / UNITS.ticks);
        assert_eq!((plain.tasks, plain.faults, plain.started), (7, 7 + 9, 19));
        assert_eq!(plain.parent, 8);
        assert_eq!((plain.mapped, plain.resident), (4096, 100 * UNITS.page));
        assert_eq!((plain.cpu, plain.childrens_cpu), (ticks(11 + 12), ticks(13 + 14)));
        assert_eq!(plain, hostile);
        assert_eq!(parse_stat("12 (sh) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_name_that_is_no_text_hides_nothing() {
        let own = std::thread::spawn(|| {
            std::fs::write("/proc/thread-self/comm", b"\xff\xff").unwrap();
            let thread = std::fs::read_link("/proc/thread-self").unwrap();
            parse_stat(&read(&own_proc(), &format!("{}/stat", thread.display())).ok()?)
        });
        assert!(own.join().unwrap().is_some_and(|process| process.resident > 0));
    }

    #[test]
    fn amounts_are_read_as_the_kernel_prints_them() {
        assert_eq!(parse_kilobytes("   12 kB"), Some(12 << 10));
        for wrong in ["", "kB", "many kB", "12", "12 MB", "99999999999999999999 kB"] {
            assert_eq!(parse_kilobytes(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn this_process_is_seen() {
        let all = processes(&own_proc()).unwrap();
        let own = all.iter().find(|process| process.pid == std::process::id()).unwrap();
        assert!(own.tasks >= 1 && own.resident >= 4096 && own.mapped >= own.resident, "{own:?}");
        assert!(details(&own_proc(), own).unwrap().tables > 0);
        assert!(maps(&own_proc(), own).unwrap().contains("[stack]"));
        let (proportional, _) = proportional(&own_proc(), own).unwrap();
        assert!(
            proportional > 0 && proportional <= own.resident.saturating_mul(2),
            "{proportional} of {own:?}"
        );
    }
}
