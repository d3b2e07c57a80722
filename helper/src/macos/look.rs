//! What the run uses, looked at from time to time.

use super::limits;
use super::mark::Mark;
use super::private::Private;
use super::sys;
use crate::deadline;
use crate::error::{Context, Result};
use agentkit_protocol::{EndedBy, Limit, LimitReached, Limits, Usage};
use std::time::{Duration, Instant};

const STEP: &str = "look";
/// How often, as far as a look takes less than a fifth of that.
const INTERVAL: Duration = Duration::from_millis(10);
/// The same for the private directories, where there can be many files to look at.
const DISK_INTERVAL: Duration = Duration::from_millis(50);
/// A process gets SIGXCPU at its limit, and what it does then should not be cut off.
const CPU_GRACE_US: u64 = 500_000;

/// The looks of one run.
pub(super) struct Looks<'a> {
    limits: &'a Limits,
    mark: &'a Mark,
    private: &'a Private,
    begin: Instant,
    next: Instant,
    next_disk: Instant,
    usage: Usage,
    /// Why the private directories hold too much, if they do.
    disk: Option<String>,
}

impl<'a> Looks<'a> {
    pub(super) fn new(limits: &'a Limits, mark: &'a Mark, private: &'a Private) -> Self {
        let begin = Instant::now();
        let (next, next_disk) = (deadline::after(begin, INTERVAL), deadline::after(begin, DISK_INTERVAL));
        Looks { limits, mark, private, begin, next, next_disk, usage: Usage::default(), disk: None }
    }

    /// When to look again.
    pub(super) fn next(&self) -> Instant {
        self.next.min(self.next_disk)
    }

    /// Looks at what it is time for. Returns the limit that was passed, if one was.
    pub(super) fn look(&mut self) -> Result<Option<EndedBy>> {
        if self.next <= Instant::now() {
            let began = Instant::now();
            self.look_at_processes()?;
            self.next = rest(began, INTERVAL);
        }
        if self.next_disk <= Instant::now() {
            let began = Instant::now();
            self.look_at_disk();
            self.next_disk = rest(began, DISK_INTERVAL);
        }
        Ok(match () {
            () if self.usage.peak_memory > self.limits.memory => Some(EndedBy::Memory),
            () if self.usage.cpu_us > self.most_cpu_us() => Some(EndedBy::Cpu),
            () if self.disk.is_some() => Some(EndedBy::Disk),
            () => None,
        })
    }

    fn most_cpu_us(&self) -> u64 {
        self.limits.cpu_seconds.saturating_mul(1_000_000).saturating_add(CPU_GRACE_US)
    }

    fn look_at_processes(&mut self) -> Result<()> {
        let members = self.mark.members().context(STEP, "list the processes of this user")?;
        let used: Vec<_> = members.into_iter().filter_map(sys::used_by).collect();
        let memory = used.iter().fold(0, |sum: u64, used| sum.saturating_add(used.memory));
        let cpu = used.iter().fold(Duration::ZERO, |sum, used| sum.saturating_add(used.cpu));
        let alive = (used.len() as u64).saturating_add(limits::OWN_PROCESSES);
        self.usage.peak_memory = self.usage.peak_memory.max(memory);
        self.usage.peak_processes = self.usage.peak_processes.max(alive);
        self.saw_cpu(cpu);
        Ok(())
    }

    fn saw_cpu(&mut self, cpu: Duration) {
        self.usage.cpu_us = self.usage.cpu_us.max(microseconds(cpu));
    }

    fn look_at_disk(&mut self) {
        match self.private.size() {
            Ok(size) => {
                self.usage.written = self.usage.written.max(size);
                if size > self.limits.disk {
                    self.disk = Some(format!(
                        "{size} bytes in the private directories at a limit of {}",
                        self.limits.disk
                    ));
                }
            }
            Err(error) => {
                self.disk = Some(format!("what the private directories hold cannot be looked at: {error}"));
            }
        }
    }

    /// Once all is dead; `cpu` is what the command and all that was waited for have used.
    pub(super) fn end(mut self, cpu: Duration, ended_by: EndedBy) -> (Usage, Vec<LimitReached>) {
        self.look_at_disk();
        self.saw_cpu(cpu);
        self.usage.wall_us = microseconds(self.begin.elapsed());
        let reached = self.limits_reached(ended_by);
        (self.usage, reached)
    }

    fn limits_reached(&self, ended_by: EndedBy) -> Vec<LimitReached> {
        let Limits { wall_ms, cpu_seconds, memory, processes, file_size, .. } = *self.limits;
        let Usage { peak_memory, peak_processes, cpu_us, .. } = self.usage;
        let died_of = |signal| {
            ended_by == EndedBy::Signal(signal) || ended_by == EndedBy::Exit(signal.saturating_add(128))
        };
        let reached = [
            (ended_by == EndedBy::WallClock)
                .then(|| (Limit::Wall, format!("still running after {wall_ms} ms"))),
            (ended_by == EndedBy::Cpu || died_of(nix::libc::SIGXCPU)).then(|| {
                (Limit::Cpu, format!("{cpu_us} us of processor time at a limit of {cpu_seconds} s"))
            }),
            (peak_memory > memory)
                .then(|| (Limit::Memory, format!("{peak_memory} bytes at a limit of {memory}"))),
            self.disk.clone().map(|evidence| (Limit::Disk, evidence)),
            died_of(nix::libc::SIGXFSZ)
                .then(|| (Limit::FileSize, format!("ended by SIGXFSZ at a limit of {file_size} bytes"))),
            (peak_processes >= processes).then(|| {
                (Limit::Processes, format!("peak of {peak_processes} processes at a limit of {processes}"))
            }),
        ];
        reached.into_iter().flatten().map(|(limit, evidence)| LimitReached { limit, evidence }).collect()
    }
}

/// Looking must not take more than a fifth of a processor.
fn rest(began: Instant, interval: Duration) -> Instant {
    let took = began.elapsed();
    deadline::after(Instant::now(), interval.max(took.saturating_mul(4)))
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
