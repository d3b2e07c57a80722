//! The memory of the whole tree: what processes hold, and what the kernel holds for them.

use super::shared::Shared;
use super::sockets::Sockets;
use super::usage::{self, Details, FRESH, Process};
use super::vfork;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long making sure may keep the supervisor from looking at the clock.
const MAKE_SURE: Duration = Duration::from_millis(100);

/// What is remembered between two looks, so that a look at processes that do nothing costs little.
pub(crate) struct Memory {
    details: HashMap<u32, Known>,
    shared: Shared,
    sockets: Option<Sockets>,
    /// What was in their queues, and who could have filled them, at the last look.
    queued: u64,
    before: Vec<Process>,
    asked: Instant,
}

/// One process as it was when its details were read.
struct Known {
    process: Process,
    details: Details,
    read: Instant,
}

impl Memory {
    /// `init` is the jail's, by its number in the `/proc` that is looked through.
    pub(crate) fn new(sockets: Option<Sockets>, init: u32) -> Self {
        Memory {
            details: HashMap::new(),
            shared: Shared::new(init),
            sockets,
            queued: 0,
            before: Vec::new(),
            asked: Instant::now(),
        }
    }

    /// Lets go of the jail.
    pub(crate) fn end(&mut self) {
        self.sockets = None;
    }

    /// Bytes in use by all of them. Forked processes share most of their pages, which count once for each as long as
    /// that stays within `limit`; before anything is killed for it they are counted properly, which takes longer.
    pub(crate) fn used(&mut self, proc: &OwnedFd, processes: &[Process], limit: u64) -> u64 {
        let resident = sum(processes.iter().map(|process| process.resident));
        self.read_details(proc, processes);
        let (kernel, shared) = self.details(processes);
        let mut used = resident.saturating_add(kernel);
        used = used.saturating_add(self.queued(processes, limit.saturating_sub(used)));
        let untouched = sum(processes.iter().map(|process| process.mapped.saturating_sub(process.resident)));
        if used.saturating_add(untouched) <= limit {
            // Not even if every page that is mapped was there without being resident.
            return used;
        }
        self.shared.look(proc, processes, MAKE_SURE);
        used = used.saturating_add(self.shared.mappings());
        let hidden = self.shared.objects();
        let counted = used.saturating_add(hidden.saturating_sub(shared));
        if counted <= limit {
            return counted;
        }
        let processes = vfork::each_memory_once(proc, processes);
        let (kernel, shared) = self.details(&processes);
        let rest = kernel.saturating_add(self.queued).saturating_add(self.shared.mappings());
        if rest.saturating_add(hidden.saturating_sub(shared)) > limit {
            // Whatever the processes share.
            return counted;
        }
        let (exact, shared) = proportional(proc, processes, limit.saturating_sub(rest));
        rest.saturating_add(exact).saturating_add(hidden.saturating_sub(shared))
    }

    /// What waits in the queues of sockets. As long as nobody has run, nobody has sent. Most who run show it by a tick of
    /// processor time, but one can be so careful to come between two ticks.
    fn queued(&mut self, processes: &[Process], spare: u64) -> u64 {
        let is_old = self.before != processes || self.asked.elapsed() >= FRESH;
        if let Some(sockets) = self.sockets.as_mut().filter(|_| is_old) {
            self.queued = sockets.memory(spare);
            self.before = processes.to_vec();
            self.asked = Instant::now();
        }
        self.queued
    }

    /// Reads the details of processes that did something, and of each now and then.
    fn read_details(&mut self, proc: &OwnedFd, processes: &[Process]) {
        let mut before = std::mem::take(&mut self.details);
        for process in processes {
            let is_fresh =
                |known: &Known| known.process.holds_the_same(process) && known.read.elapsed() < FRESH;
            let known = before.remove(&process.pid).filter(is_fresh).unwrap_or_else(|| Known {
                process: process.clone(),
                details: usage::details(proc, process).unwrap_or_default(),
                read: Instant::now(),
            });
            self.details.insert(process.pid, known);
        }
    }

    /// What the kernel holds for these processes, and how much of their resident memory is shared memory.
    fn details(&self, processes: &[Process]) -> (u64, u64) {
        let details =
            || processes.iter().filter_map(|process| Some(&self.details.get(&process.pid)?.details));
        let kernel = details().map(|details| details.tables.saturating_add(details.swapped));
        (sum(kernel), sum(details().map(|details| details.shared)))
    }
}

/// Resident memory with shared pages counted once altogether, and how much of it is shared memory. What is not counted
/// in time is counted as resident. Whoever holds much goes on taking more meanwhile, so the largest come first, and it is
/// over as soon as there is more than `enough`.
fn proportional(proc: &OwnedFd, mut processes: Vec<Process>, enough: u64) -> (u64, u64) {
    let began = Instant::now();
    processes.sort_unstable_by_key(|process| std::cmp::Reverse(process.resident));
    let (mut memory, mut shared) = (0_u64, 0_u64);
    for process in &processes {
        let (more, more_shared) =
            match (began.elapsed() < MAKE_SURE).then(|| usage::proportional(proc, process)) {
                Some(Ok(exact)) => exact,
                Some(Err(error)) if usage::is_gone(&error) => (0, 0),
                // The jail's init is closed to everybody; it shares next to nothing.
                Some(Err(_)) | None => (process.resident, 0),
            };
        memory = memory.saturating_add(more);
        shared = shared.saturating_add(more_shared);
        if memory.saturating_sub(shared) > enough {
            break;
        }
    }
    (memory, shared)
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn own_proc() -> OwnedFd {
        OwnedFd::from(File::open("/proc").unwrap())
    }

    fn this_process() -> Vec<Process> {
        let all = usage::processes(&own_proc()).unwrap();
        all.into_iter().filter(|process| process.pid == std::process::id()).collect()
    }

    #[test]
    fn page_tables_count() {
        let this = this_process();
        let used = Memory::new(None, 1).used(&own_proc(), &this, u64::MAX);
        assert!(used > this[0].resident, "{used} of {this:?}");
    }

    #[test]
    fn before_a_kill_shared_pages_are_divided() {
        let (at_ease, sure) = (u64::MAX, 0);
        let mut memory = Memory::new(None, 1);
        let loose = memory.used(&own_proc(), &this_process(), at_ease);
        let exact = memory.used(&own_proc(), &this_process(), sure);
        assert!(exact > 0 && exact <= loose.saturating_mul(2), "{exact} and {loose}");
    }
}
