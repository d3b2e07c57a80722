//! The processor time of the whole tree.

use super::usage::Process;
use std::collections::HashMap;
use std::time::Duration;

/// What every process was last seen to have used. A process that nobody waits for takes its processor time with it (a
/// parent that ignores SIGCHLD is enough), so the sum over those that live would forget it.
#[derive(Default)]
pub(crate) struct Ledger {
    /// By pid and start.
    living: HashMap<(u32, u64), Duration>,
    ended: Duration,
}

impl Ledger {
    /// Takes one look, and returns the least that the tree can have used: what a process did between the last look and
    /// its end counts only if somebody waited for it.
    pub(crate) fn update(&mut self, processes: &[Process]) -> Duration {
        let living: HashMap<_, _> =
            processes.iter().map(|process| ((process.pid, process.started), process.cpu)).collect();
        let ended = self.living.iter().filter(|(process, _)| !living.contains_key(process));
        self.ended += ended.map(|(_, cpu)| *cpu).sum::<Duration>();
        self.living = living;
        let own: Duration = processes.iter().map(|process| process.cpu).sum();
        let childrens: Duration = processes.iter().map(|process| process.childrens_cpu).sum();
        own + childrens.max(self.ended)
    }
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
    fn who_is_waited_for_counts_once() {
        let mut ledger = Ledger::default();
        ledger.update(&[process(1, 1, 5, 0), process(2, 2, 70, 0)]);
        assert_eq!(ledger.update(&[process(1, 1, 5, 74)]), Duration::from_millis(79));
    }
}
