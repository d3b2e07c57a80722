//! The memory of the whole tree: what processes hold, and what the kernel holds for them.

use super::shared::Shared;
use super::sockets::Sockets;
use super::usage::{self, Details, Process};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long making sure may keep the supervisor from looking at the clock.
const MAKE_SURE: Duration = Duration::from_millis(100);

/// What is remembered between two looks, so that a look at processes that do nothing costs little.
pub(crate) struct Memory {
    details: HashMap<u32, (Process, Details)>,
    shared: Shared,
    sockets: Option<Sockets>,
    /// What was in their queues, and who could have filled them, at the last look.
    queued: u64,
    before: Vec<Process>,
}

impl Memory {
    pub(crate) fn new(sockets: Option<Sockets>) -> Self {
        Memory { details: HashMap::new(), shared: Shared::default(), sockets, queued: 0, before: Vec::new() }
    }

    /// Lets go of the jail.
    pub(crate) fn end(&mut self) {
        self.sockets = None;
    }

    /// Bytes in use by all of them. Forked processes share most of their pages, which count once for each as long as
    /// that stays within `limit`; before anything is killed for it they are counted properly, which takes longer.
    pub(crate) fn used(&mut self, proc: &OwnedFd, processes: &[Process], limit: u64) -> u64 {
        let resident = sum(processes.iter().map(|process| process.resident));
        let (kernel, shared) = self.details(proc, processes);
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
        if counted <= limit || counted - resident > limit {
            return counted;
        }
        let (exact, shared) = proportional(proc, processes);
        (used - resident).saturating_add(exact).saturating_add(hidden.saturating_sub(shared))
    }

    /// What waits in the queues of sockets. As long as nobody has run, nobody has sent: a tick of processor time is enough
    /// to see that somebody has.
    fn queued(&mut self, processes: &[Process], spare: u64) -> u64 {
        if let Some(sockets) = self.sockets.as_mut().filter(|_| self.before != processes) {
            self.queued = sockets.memory(spare);
            self.before = processes.to_vec();
        }
        self.queued
    }

    /// What the kernel holds for the processes, and how much of their resident memory is shared memory.
    fn details(&mut self, proc: &OwnedFd, processes: &[Process]) -> (u64, u64) {
        let mut before = std::mem::take(&mut self.details);
        for process in processes {
            let known = before.remove(&process.pid).filter(|(known, _)| known.holds_the_same(process));
            let details = known.map(|(_, details)| details).or_else(|| usage::details(proc, process));
            self.details.insert(process.pid, (process.clone(), details.unwrap_or_default()));
        }
        let details = || self.details.values().map(|(_, details)| details);
        let kernel = details().map(|details| details.tables.saturating_add(details.swapped));
        (sum(kernel), sum(details().map(|details| details.shared)))
    }
}

/// Resident memory with shared pages counted once altogether, and how much of it is shared memory. What is not counted
/// in time is counted as resident.
fn proportional(proc: &OwnedFd, processes: &[Process]) -> (u64, u64) {
    let began = Instant::now();
    let counted = processes.iter().map(|process| {
        let exact = (began.elapsed() < MAKE_SURE).then(|| usage::proportional(proc, process)).flatten();
        // The jail's init is closed to everybody; it shares next to nothing.
        exact.unwrap_or((process.resident, 0))
    });
    counted.fold((0, 0), |(memory, shared), (more, more_shared)| {
        (memory.saturating_add(more), shared.saturating_add(more_shared))
    })
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
        let used = Memory::new(None).used(&own_proc(), &this, u64::MAX);
        assert!(used > this[0].resident, "{used} of {this:?}");
    }

    #[test]
    fn before_a_kill_shared_pages_are_divided() {
        let (at_ease, sure) = (u64::MAX, 0);
        let mut memory = Memory::new(None);
        let loose = memory.used(&own_proc(), &this_process(), at_ease);
        let exact = memory.used(&own_proc(), &this_process(), sure);
        assert!(exact > 0 && exact <= loose.saturating_mul(2), "{exact} and {loose}");
    }
}
