//! Shared memory that no process holds: given back by all (`madvise`), or left over from one that ended, it is still
//! there as long as anybody has it mapped, and in nobody's resident memory.

use super::usage::{self, FRESH, Process};
use super::{deadline, pace, proc_files};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// What a mapping itself costs the kernel: about.
const MAPPING: u64 = 256;
/// How the kernel names objects of shared memory that are no files (a program can name its own, and cannot change how
/// that begins).
const NAMES: [&str; 4] = ["/dev/zero (deleted)", "[anon_shmem:", "/SYSV", "/memfd:"];

/// What the mappings of all processes amount to. Reading them is slow, so it is done only when they matter, and only
/// of those that changed.
#[derive(Default)]
pub(crate) struct Shared {
    known: HashMap<u32, Known>,
    /// How far each object reaches that somebody has mapped, by its inode. What was seen once stays: unmapping a part
    /// of an object frees nothing.
    objects: HashMap<u64, u64>,
    mappings: u64,
    look_again: Option<Instant>,
    /// Where to begin, so that with little time every process gets its turn.
    turn: usize,
    /// The jail's init, by its number in the `/proc` that is looked through.
    init: u32,
}

/// One process as it was when its mappings were read.
struct Known {
    process: Process,
    read: Instant,
    objects: Vec<(u64, u64)>,
    mappings: u64,
}

impl Shared {
    pub(crate) fn new(init: u32) -> Self {
        Shared { init, ..Shared::default() }
    }

    /// Reads the mappings of processes that changed, as many as fit into `budget`.
    pub(crate) fn look(&mut self, proc: &OwnedFd, processes: &[Process], budget: Duration) {
        let (began, spent) = (Instant::now(), pace::time_spent());
        if self.look_again.is_some_and(|time| began < time) {
            return;
        }
        self.known.retain(|pid, known| {
            processes.iter().any(|process| process.pid == *pid && process.started == known.process.started)
        });
        let first = self.turn.checked_rem(processes.len()).unwrap_or(0);
        for (at, process) in processes.iter().cycle().skip(first).take(processes.len()).enumerate() {
            let is_fresh =
                |known: &Known| known.process.holds_the_same(process) && known.read.elapsed() < FRESH;
            if self.known.get(&process.pid).is_some_and(is_fresh) {
                continue;
            }
            if began.elapsed() > budget {
                self.turn = self.turn.wrapping_add(at);
                break;
            }
            let (objects, mappings) = match usage::maps(proc, process) {
                Ok(text) => (parse(&text).collect(), text.lines().count() as u64),
                Err(error) if usage::is_gone(&error) => continue,
                Err(_) => (closed(process, self.init), 0),
            };
            let read = Instant::now();
            self.known.insert(process.pid, Known { process: process.clone(), read, objects, mappings });
        }
        self.add_up();
        self.look_again = Some(deadline::after(Instant::now(), pace::rest_after(spent)));
    }

    fn add_up(&mut self) {
        let mut objects = HashMap::new();
        for (inode, end) in self.known.values().flat_map(|known| &known.objects) {
            let before = self.objects.get(inode).copied().unwrap_or(0);
            let reach: &mut u64 = objects.entry(*inode).or_default();
            *reach = (*reach).max(before).max(*end);
        }
        self.objects = objects;
        self.mappings = self.known.values().fold(0, |sum, known| known.mappings.saturating_add(sum));
    }

    /// Bytes that the objects can hold, which is no more than all shared memory of the host.
    pub(crate) fn objects(&self) -> u64 {
        let reach = self.objects.values().fold(0_u64, |sum, end| sum.saturating_add(*end));
        if reach == 0 { 0 } else { reach.min(hosts_shared_memory().unwrap_or(u64::MAX)) }
    }

    /// Bytes that the kernel needs to remember the mappings.
    pub(crate) fn mappings(&self) -> u64 {
        self.mappings.saturating_mul(MAPPING)
    }
}

/// What may be in the mappings of a process that nobody may look into, since it runs a program that it cannot read: all
/// that is mapped counts as one object. The jail's init is closed as well, but shares nothing.
fn closed(process: &Process, init: u32) -> Vec<(u64, u64)> {
    if process.pid == init { Vec::new() } else { vec![(!u64::from(process.pid), process.mapped)] }
}

/// Objects in the text of `/proc/PID/maps`, see proc_pid_maps(5): inode, and up to where it is mapped.
pub(crate) fn parse(text: &str) -> impl Iterator<Item = (u64, u64)> {
    text.lines().filter_map(|line| {
        let mut words = line.splitn(6, ' ');
        let (begin, end) = words.next()?.split_once('-')?;
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let length = hexadecimal(end)?.checked_sub(hexadecimal(begin)?)?;
        let offset = hexadecimal(words.nth(1)?)?;
        let inode = words.nth(1)?.parse().ok()?;
        let name = words.next()?.trim_start();
        NAMES.iter().any(|start| name.starts_with(start)).then_some((inode, offset.saturating_add(length)))
    })
}

/// Shared memory of the whole host, resident or swapped out; see proc_meminfo(5).
fn hosts_shared_memory() -> Option<u64> {
    let text = proc_files::read("/proc/meminfo").ok()?;
    let bytes = |name| proc_files::status_field(&text, name).and_then(usage::parse_kilobytes);
    let swapped = bytes("SwapTotal")?.saturating_sub(bytes("SwapFree")?);
    Some(bytes("Shmem")?.saturating_add(swapped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "7f00-7f10 rw-s 00000000 00:01 77   /dev/zero (deleted)\n\
        7e0000-7e1000 rw-s 00ff0000 00:01 78                         [anon_shmem:any name]\n\
        8000-9000 rw-p 00000000 00:00 0 \n\
        a000-b000 r--p 00000000 08:01 99 /usr/lib/x (deleted)\n\
        c000-d000 rw-s 00000000 00:01 0 /SYSV00000000 (deleted)\n";

    #[test]
    fn objects_are_found_up_to_where_they_are_mapped() {
        assert_eq!(parse(MAPS).collect::<Vec<_>>(), [(77, 0x10), (78, 0x00ff_0000 + 0x1000), (0, 0x1000)]);
    }

    #[test]
    fn a_closed_process_counts_with_all_its_mappings_unless_it_is_init() {
        let process = |pid| Process { pid, mapped: 100, ..Process::default() };
        let lengths = |pid| closed(&process(pid), 5).iter().map(|(_, end)| *end).sum::<u64>();
        assert_eq!((lengths(5), lengths(7)), (0, 100));
    }

    fn seen(shared: &mut Shared, objects: &[&[(u64, u64)]]) -> u64 {
        let known = objects.iter().zip(1..).map(|(objects, pid)| {
            let (process, read) = (Process::default(), Instant::now());
            (pid, Known { process, read, objects: objects.to_vec(), mappings: 1 })
        });
        shared.known = known.collect();
        shared.add_up();
        shared.objects.values().sum()
    }

    #[test]
    fn an_object_counts_once_and_at_its_largest_until_nobody_has_it() {
        let mut shared = Shared::default();
        assert_eq!(seen(&mut shared, &[&[(7, 100), (7, 300)], &[(7, 200), (8, 10)]]), 310);
        assert_eq!(seen(&mut shared, &[&[(7, 1)], &[]]), 300);
        assert_eq!(seen(&mut shared, &[&[], &[]]), 0);
        assert_eq!(shared.mappings(), 2 * MAPPING);
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(text in "([0-9a-f]{0,20}-[0-9a-f]{0,20} ?[rwxps-]{0,5} ?.{0,30}\\n?){0,5}") {
            parse(&text).for_each(drop);
        }
    }
}
