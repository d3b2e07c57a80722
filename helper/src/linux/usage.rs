//! What the jail uses right now, read through its own `/proc`.
//!
//! The descriptor lists exactly the jail's processes, keeps working after the jail gave up everything, and needs no
//! walk over the host's processes.

use super::proc_files::{self, Stat};
use nix::dir::Dir;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{SysconfVar, sysconf};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// One look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Processes and threads, the jail's init included.
    pub(crate) tasks: u64,
    /// Resident memory in bytes; pages that processes share count once for each.
    pub(crate) memory: u64,
    /// Processor time of all that live, and of those that they have waited for.
    pub(crate) cpu: Duration,
}

impl Sample {
    fn add(&mut self, process: Sample) {
        self.tasks += process.tasks;
        self.memory = self.memory.saturating_add(process.memory);
        self.cpu = self.cpu.saturating_add(process.cpu);
    }
}

/// Adds up all processes of the `/proc` behind `proc`.
pub(crate) fn sample(proc: &OwnedFd) -> io::Result<Sample> {
    let mut total = Sample::default();
    // A process that ended meanwhile uses nothing.
    for_each_process(proc, |pid| process(proc, pid).into_iter().for_each(|process| total.add(process)))?;
    Ok(total)
}

/// Memory in bytes, with pages that processes share counted once altogether (`Pss`, Linux 4.14). The kernel walks
/// every page table for it, so this is for making sure, not for looking: what is not counted within `budget` is counted
/// as [`sample`] does.
pub(crate) fn proportional_memory(proc: &OwnedFd, budget: Duration) -> io::Result<u64> {
    let mut total = 0_u64;
    let began = Instant::now();
    for_each_process(proc, |pid| {
        let exact = (began.elapsed() < budget)
            .then(|| read(proc, &format!("{pid}/smaps_rollup")))
            .flatten()
            .and_then(|text| parse_pss(&text));
        // The jail's init is closed to everybody; it shares next to nothing.
        let memory = exact.or_else(|| process(proc, pid).map(|process| process.memory));
        total = total.saturating_add(memory.unwrap_or(0));
    })?;
    Ok(total)
}

fn for_each_process(proc: &OwnedFd, mut take: impl FnMut(&str)) -> io::Result<()> {
    let mut directory = Dir::openat(proc.as_fd(), ".", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    for entry in directory.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes().first().is_some_and(u8::is_ascii_digit) {
            take(name.to_string_lossy().as_ref());
        }
    }
    Ok(())
}

/// A process is described by its first thread. If that has ended and others go on, it shows no memory: theirs does.
fn process(proc: &OwnedFd, pid: &str) -> Option<Sample> {
    let first = stat(proc, pid)?;
    if first.memory > 0 || first.tasks < 2 {
        return Some(first);
    }
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let mut threads = Dir::openat(proc.as_fd(), format!("{pid}/task").as_str(), flags, Mode::empty()).ok()?;
    let names = threads.iter().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let memory =
        names.filter_map(|name| stat(proc, &format!("{pid}/task/{name}"))).map(|thread| thread.memory);
    Some(Sample { memory: memory.max().unwrap_or(0), ..first })
}

fn stat(proc: &OwnedFd, task: &str) -> Option<Sample> {
    parse_stat(&read(proc, &format!("{task}/stat"))?)
}

fn read(proc: &OwnedFd, path: &str) -> Option<String> {
    let file = openat(proc.as_fd(), path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    proc_files::read_all(File::from(file)).ok()
}

/// Fields 14 to 17 (processor time in ticks, own and of children waited for), 20 (`num_threads`) and 24 (`rss`, in
/// pages).
fn parse_stat(text: &str) -> Option<Sample> {
    let stat = Stat::parse(text)?;
    let ticks = (14..=17).try_fold(0_u64, |sum, field| Some(sum.saturating_add(stat.number(field)?)))?;
    let memory = stat.number(24)?.saturating_mul(configured(SysconfVar::PAGE_SIZE, 4096));
    let cpu = Duration::from_millis(ticks.saturating_mul(1000) / configured(SysconfVar::CLK_TCK, 100));
    Some(Sample { tasks: stat.number(20)?, memory, cpu })
}

/// The line `Pss:` of proc_pid_smaps(5), in kilobytes.
fn parse_pss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn configured(name: SysconfVar, usual: u64) -> u64 {
    sysconf(name).ok().flatten().map_or(usual, i64::unsigned_abs).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 7 18 19 20 100 22 23";
        let plain = parse_stat(&format!("12 (sh) {rest}")).unwrap();
        let hostile = parse_stat(&format!("12 (a) R 1 (b) ) {rest}")).unwrap();
        let cpu = Duration::from_millis((11 + 12 + 13 + 14) * 1000 / configured(SysconfVar::CLK_TCK, 100));
        assert_eq!(plain, Sample { tasks: 7, memory: 100 * configured(SysconfVar::PAGE_SIZE, 4096), cpu });
        assert_eq!(plain, hostile);
        assert_eq!(parse_stat("12 (sh) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_name_that_is_no_text_hides_nothing() {
        let own = std::thread::spawn(|| {
            std::fs::write("/proc/thread-self/comm", b"\xff\xff").unwrap();
            let proc = OwnedFd::from(File::open("/proc").unwrap());
            let thread = std::fs::read_link("/proc/thread-self").unwrap();
            stat(&proc, thread.to_str().unwrap())
        });
        assert!(own.join().unwrap().is_some_and(|sample| sample.memory > 0));
    }

    #[test]
    fn the_proportional_size_is_found() {
        assert_eq!(
            parse_pss("00400000-7ffd00 ---p 0 00:00 0 [rollup]\nRss: 9 kB\nPss:    12 kB\nPss_Dirty: 3 kB\n"),
            Some(12 << 10)
        );
        assert_eq!(parse_pss("Pss: many kB\n"), None);
        assert_eq!(parse_pss(""), None);
    }

    #[test]
    fn this_process_is_seen() {
        let proc = OwnedFd::from(File::open("/proc").unwrap());
        let all = sample(&proc).unwrap();
        assert!(all.tasks >= 1 && all.memory >= 4096, "{all:?}");
        let proportional = proportional_memory(&proc, Duration::from_secs(1)).unwrap();
        assert!(
            proportional > 0 && proportional <= all.memory.saturating_mul(2),
            "{proportional} of {all:?}"
        );
    }
}
