//! The processor time of the whole tree.

use super::usage::Process;
use std::collections::HashMap;
use std::time::Duration;

/// What every process was last seen to have used. A process that nobody waits for takes its processor time with it, and
/// that of all it has waited for (a parent that ignores SIGCHLD is enough), so the sum over those that live would forget
/// it.
#[derive(Default)]
pub(crate) struct Ledger {
    /// By pid and start.
    living: HashMap<(u32, u64), Time>,
    lost: Duration,
}

/// Of one process.
#[derive(Clone, Copy)]
struct Time {
    own: Duration,
    /// Of the children that it has waited for, and of those that they had waited for.
    childrens: Duration,
}

impl Ledger {
    /// Takes one look, and returns the least that the tree can have used: what a process did between the last look and
    /// its end counts only if somebody waited for it.
    pub(crate) fn update(&mut self, processes: &[Process]) -> Duration {
        let time = |process: &Process| Time { own: process.cpu, childrens: process.childrens_cpu };
        let living: HashMap<_, _> =
            processes.iter().map(|process| ((process.pid, process.started), time(process))).collect();
        // Those that are new had no children before.
        let handed_on = living.iter().filter_map(|(process, time)| {
            Some(time.childrens.saturating_sub(self.living.get(process)?.childrens))
        });
        let handed_on = sum(handed_on);
        let ended = self.living.iter().filter(|(process, _)| !living.contains_key(process));
        let ended = sum(ended.map(|(_, time)| time.all()));
        // Whoever waited for one of them has it all, sooner or later by way of others.
        self.lost = self.lost.saturating_add(ended.saturating_sub(handed_on));
        self.living = living;
        self.lost.saturating_add(sum(self.living.values().map(Time::all)))
    }
}

impl Time {
    fn all(&self) -> Duration {
        self.own.saturating_add(self.childrens)
    }
}

fn sum(times: impl Iterator<Item = Duration>) -> Duration {
    times.fold(Duration::ZERO, Duration::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, started: u64, cpu: u64, childrens_cpu: u64) -> Process {
        let (cpu, childrens_cpu) = (Duration::from_millis(cpu), Duration::from_millis(childrens_cpu));
        Process { pid, started, cpu, childrens_cpu, ..Process::default() }
    }

    #[test]
    fn who_is_not_waited_for_still_counts() {
        let mut ledger = Ledger::default();
        let parent = process(1, 1, 5, 0);
        assert_eq!(ledger.update(&[parent.clone(), process(2, 2, 70, 0)]), Duration::from_millis(75));
        assert_eq!(ledger.update(std::slice::from_ref(&parent)), Duration::from_millis(75));
        // The same pid again is somebody else.
        assert_eq!(ledger.update(&[parent.clone(), process(2, 9, 10, 0)]), Duration::from_millis(85));
        assert_eq!(ledger.update(&[parent]), Duration::from_millis(85));
    }

    #[test]
    fn what_was_waited_for_is_not_lost_with_who_waited() {
        let mut ledger = Ledger::default();
        let parent = process(1, 1, 5, 0);
        assert_eq!(ledger.update(&[parent.clone(), process(2, 2, 10, 60)]), Duration::from_millis(75));
        assert_eq!(ledger.update(&[parent.clone(), process(3, 3, 10, 20)]), Duration::from_millis(105));
        assert_eq!(ledger.update(&[process(1, 1, 5, 35)]), Duration::from_millis(110));
    }

    #[test]
    fn who_is_waited_for_counts_once() {
        let mut ledger = Ledger::default();
        ledger.update(&[process(1, 1, 5, 0), process(2, 2, 70, 0)]);
        assert_eq!(ledger.update(&[process(1, 1, 5, 74)]), Duration::from_millis(79));
    }
}
