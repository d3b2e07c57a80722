//! The looks at what a running jail uses, and what they have found so far.

use super::cgroup::Group;
use super::cpu::Ledger;
use super::disk::Disk;
use super::layers::Layer;
use super::memory::Memory;
use super::pace::{rest_after, short_rest_after, time_spent};
use super::sockets::Sockets;
use super::usage;
use agentkit_protocol::{EndedBy, Limit, LimitReached, Limits, Usage};
use nix::libc;
use nix::sys::statfs::fstatfs;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How often the jail's use is looked at.
pub(crate) const INTERVAL: Duration = Duration::from_millis(10);
/// How much later than a process the tree is killed for its processor time: a handler of SIGXCPU may say goodbye.
const GOODBYE: Duration = Duration::from_millis(200);

/// What the jail's own accounts and names of hosts take of the file system that they share with the private directories.
const OWN_BLOCKS: u64 = 4;
/// Of what a file system lost bytes, in evidence.
const WORK_DIR: &str = "the work dir";
const PRIVATE: &str = "the private directories";
const EITHER: &str = "the work dir or the private directories";

/// What the looks go through.
pub(crate) struct Handles {
    /// The jail's own `/proc`.
    pub(crate) proc: OwnedFd,
    /// A directory in the file system of all private directories, or that which holds them.
    pub(crate) private: OwnedFd,
    /// The jail's init in that `/proc`.
    pub(crate) init: u32,
    /// Whether `/proc` and the private directories' file system are shared with the host.
    pub(crate) among_others: bool,
    /// By which the kernel tells about the jail's sockets, where it can.
    pub(crate) sockets: Option<OwnedFd>,
    /// The work dir, if it is the host's and can be written.
    pub(crate) workdir: Option<OwnedFd>,
}

/// The most of everything that was seen at one time.
#[derive(Default)]
struct Peak {
    tasks: u64,
    memory: u64,
    cpu: Duration,
    private: u64,
}

/// Looks at one jail.
pub(crate) struct Looks<'a> {
    limits: &'a Limits,
    group: Option<&'a Group>,
    /// The jail's `/proc` and its private directories, until it is dying.
    open: Option<(OwnedFd, OwnedFd)>,
    /// Whose descendants they all are, where others are in that `/proc` too.
    below: Option<u32>,
    memory: Memory,
    cpu: Ledger,
    /// In the work dir.
    disk: Option<Disk>,
    /// In the private directories, where they have no file system of their own.
    private: Option<Disk>,
    peak: Peak,
    disk_was_full: bool,
    /// How long to wait until the next one.
    pub(crate) interval: Duration,
}

/// What one look says.
#[derive(Default)]
pub(crate) struct Seen {
    /// Processes and threads of the run.
    pub(crate) alive: u64,
    /// The limit that was passed, if one was.
    pub(crate) passed: Option<EndedBy>,
}

impl<'a> Looks<'a> {
    pub(crate) fn new(limits: &'a Limits, group: Option<&'a Group>, handles: Handles) -> Self {
        // Only if the host has no descriptor left, and then the file system of both has a say all the same.
        let private = if handles.among_others { handles.private.try_clone().ok() } else { None };
        Looks {
            limits,
            group,
            open: Some((handles.proc, handles.private)),
            below: handles.among_others.then_some(handles.init),
            memory: Memory::new(handles.sockets.map(Sockets::new), handles.init),
            cpu: Ledger::default(),
            disk: handles.workdir.map(|workdir| Disk::new(workdir, handles.init)),
            private: private.map(|private| Disk::new(private, handles.init)),
            peak: Peak::default(),
            disk_was_full: false,
            interval: INTERVAL,
        }
    }

    /// One look. A jail that is just dying may not be readable any more; its end is noticed elsewhere.
    pub(crate) fn look(&mut self) -> Seen {
        // Without its own, this would be the whole host's.
        if [Layer::Looks, Layer::PidNamespace, Layer::Proc, Layer::View].into_iter().any(Layer::is_off) {
            return Seen::default();
        }
        let began = time_spent();
        let Some((proc, _)) = &self.open else { return Seen::default() };
        let found = self.below.map_or_else(|| usage::processes(proc), |top| usage::descendants(proc, top));
        let Ok(processes) = found else { return Seen::default() };
        // The supervisor belongs to the run too.
        let alive = processes.iter().fold(1_u64, |sum, process| sum.saturating_add(process.tasks));
        let memory = self.memory.used(proc, &processes, self.limits.memory);
        self.peak.tasks = self.peak.tasks.max(alive);
        self.peak.memory = self.peak.memory.max(memory);
        self.peak.cpu = self.peak.cpu.max(self.cpu.update(&processes));
        let limits = self.limits;
        let mut disks = self.disk.iter_mut().chain(&mut self.private);
        let disk_is_over = disks.any(|disk| disk.is_over(limits.disk, proc, &processes));
        self.look_at_private_directories();
        let is_near = memory > self.limits.memory / 2;
        self.interval = INTERVAL.max(if is_near { short_rest_after(began) } else { rest_after(began) });
        let cpu_limit = Duration::from_secs(self.limits.cpu_seconds).saturating_add(GOODBYE);
        let passed = if memory > self.limits.memory || self.kernels_kills() > 0 {
            Some(EndedBy::Memory)
        } else if self.peak.cpu > cpu_limit {
            Some(EndedBy::Cpu)
        } else if disk_is_over {
            Some(EndedBy::Disk)
        } else {
            None
        };
        Seen { alive, passed }
    }

    /// How many processes the kernel has killed for the memory of the tree: some of them, and we kill the rest.
    pub(crate) fn kernels_kills(&self) -> u64 {
        self.group.map_or(0, Group::killed)
    }

    /// The last look, when the command has ended; where the private directories are the host's, everything else has, too. What is held open here until the jail is dead, the kernel would take
    /// down only afterwards, while the caller waits.
    pub(crate) fn end(&mut self) {
        self.look_at_private_directories();
        if let Some(private) = &mut self.private {
            private.end(self.limits.disk);
        }
        self.memory.end();
        self.open = None;
    }

    /// How many processes the command left, each of which was there together with it, with init and with the supervisor.
    /// Those of most commands that run into their limit are gone before the next look.
    pub(crate) fn saw_at_the_end(&mut self, left: u64) {
        if left > 0 {
            self.peak.tasks = self.peak.tasks.max(left.saturating_add(3));
        }
    }

    /// What is left on the host's disk, once everything is dead.
    pub(crate) fn look_at_what_is_left(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.end(self.limits.disk);
        }
    }

    /// Their size is the kernel's business; that it was reached is worth knowing.
    fn look_at_private_directories(&mut self) {
        if self.below.is_some() {
            return;
        }
        let Some(system) = self.open.as_ref().and_then(|(_, private)| fstatfs(private).ok()) else { return };
        let blocks = system.blocks().saturating_sub(system.blocks_free()).saturating_sub(OWN_BLOCKS);
        let used = blocks.saturating_mul(u64::try_from(system.block_size()).unwrap_or(0));
        self.peak.private = self.peak.private.max(used);
        self.disk_was_full |= system.blocks_free() == 0 || system.files_free() == 0;
    }

    /// What the run used. `waited_for` is the processor time of all that somebody waited for.
    pub(crate) fn usage(&self, wall: Duration, waited_for: Duration) -> Usage {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Usage {
            wall_us: micros(wall),
            cpu_us: micros(waited_for.max(self.peak.cpu)),
            peak_processes: self.peak.tasks,
            peak_memory: self.peak.memory,
            written: self.peak.private.saturating_add(self.lost()),
        }
    }

    /// What the file systems that are looked at had less than before.
    fn lost(&self) -> u64 {
        self.disk.iter().chain(&self.private).fold(0, |sum, disk| sum.saturating_add(disk.peak_lost))
    }

    /// Every limit that was touched, with the evidence; the one that ended the run first. `at_limit` is how often one more
    /// process was asked for in vain, where that was counted.
    pub(crate) fn limits_reached(&self, ended_by: EndedBy, at_limit: Option<u64>) -> Vec<LimitReached> {
        let limits = self.limits;
        let reached = |limit, evidence: String| LimitReached { limit, evidence };
        let end = self.evidence_of_end(ended_by);
        let mut list: Vec<_> = end.map(|(limit, evidence)| reached(limit, evidence)).into_iter().collect();
        if self.peak.tasks >= limits.processes || at_limit.is_some_and(|count| count > 0) {
            let counted =
                at_limit.map_or_else(String::new, |count| format!(" and {count} attempts at more counted"));
            let (peak, limit) = (self.peak.tasks, limits.processes);
            list.push(reached(
                Limit::Processes,
                format!("{peak} tasks seen{counted}, at a limit of {limit}"),
            ));
        }
        if self.disk_was_full {
            let evidence = format!("no space or no file left at a limit of {} bytes", limits.disk);
            list.push(reached(Limit::Disk, evidence));
        }
        let left = self.disk.iter().map(|disk| (WORK_DIR, disk));
        let left = left.chain(self.private.iter().map(|disk| (PRIVATE, disk)));
        let too_much = |(_, disk): &(_, &Disk)| disk.left_too_much && ended_by != EndedBy::Disk;
        list.extend(left.filter(too_much).map(|(what, disk)| {
            reached(
                Limit::Disk,
                format!("at the end {}", disk_evidence([disk].into_iter(), what, limits.disk)),
            )
        }));
        list
    }

    /// What the end itself tells. A shell whose child died of a signal exits with 128 and its number.
    fn evidence_of_end(&self, ended_by: EndedBy) -> Option<(Limit, String)> {
        let limits = self.limits;
        const SHELL_CPU: i32 = 128 + libc::SIGXCPU;
        const SHELL_FILE_SIZE: i32 = 128 + libc::SIGXFSZ;
        let (cpu, bytes) = (limits.cpu_seconds, limits.file_size);
        Some(match ended_by {
            EndedBy::WallClock => {
                (Limit::Wall, format!("killed at the wall-clock limit of {} ms", limits.wall_ms))
            }
            EndedBy::Memory if self.kernels_kills() > 0 => {
                let (killed, limit) = (self.kernels_kills(), self.group.map_or(0, |group| group.limit));
                (
                    Limit::Memory,
                    format!(
                        "the kernel killed {killed} at a limit of {limit} bytes of memory and disk together"
                    ),
                )
            }
            EndedBy::Memory => {
                let (used, limit) = (self.peak.memory, limits.memory);
                (Limit::Memory, format!("killed with {used} bytes in use at a memory limit of {limit}"))
            }
            EndedBy::Cpu => {
                let used = self.peak.cpu.as_millis();
                (Limit::Cpu, format!("killed after {used} ms of processor time at a limit of {cpu} s"))
            }
            EndedBy::Disk => {
                let what = if self.private.is_none() { WORK_DIR } else { EITHER };
                let disks = self.disk.iter().chain(&self.private);
                (Limit::Disk, format!("killed when {}", disk_evidence(disks, what, limits.disk)))
            }
            EndedBy::Signal(libc::SIGXCPU) => {
                (Limit::Cpu, format!("the command died of SIGXCPU at a processor limit of {cpu} s"))
            }
            EndedBy::Signal(libc::SIGXFSZ) => (
                Limit::FileSize,
                format!("the command died of SIGXFSZ at a file size limit of {bytes} bytes"),
            ),
            EndedBy::Exit(SHELL_CPU) => (
                Limit::Cpu,
                format!(
                    "exit code {SHELL_CPU}: as of a shell whose child died of SIGXCPU at a processor limit of {cpu} s"
                ),
            ),
            EndedBy::Exit(SHELL_FILE_SIZE) => (
                Limit::FileSize,
                format!(
                    "exit code {SHELL_FILE_SIZE}: as of a shell whose child died of SIGXFSZ at a file size limit of {bytes} bytes"
                ),
            ),
            EndedBy::Exit(_) | EndedBy::Signal(_) | EndedBy::Caller | EndedBy::Stopped(_) => return None,
        })
    }
}

/// What the run itself took, as far as that was counted, and what is missing, which others may have taken.
fn disk_evidence<'a>(disks: impl Iterator<Item = &'a Disk> + Clone, what: &str, limit: u64) -> String {
    let added = disks.clone().fold(0, |most: u64, disk| most.max(disk.peak_added));
    let lost = disks.clone().fold(0, |sum: u64, disk| sum.saturating_add(disk.peak_lost));
    let added = match disks.clone().any(|disk| disk.hid_some) {
        true => "something that the run keeps closed could not be counted".to_owned(),
        false => format!("at least {added} bytes were the run's"),
    };
    format!("{added}, of {lost} that the file system of {what} had less, at a limit of {limit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn looks(limits: &Limits) -> Looks<'_> {
        let open = |path| OwnedFd::from(File::open(path).unwrap());
        let (proc, private) = (open("/proc"), open("/proc"));
        let handles = Handles { proc, private, init: 1, among_others: false, sockets: None, workdir: None };
        Looks::new(limits, None, handles)
    }

    fn evidence(ended_by: EndedBy) -> Vec<Limit> {
        let limits = Limits::default();
        looks(&limits).limits_reached(ended_by, None).into_iter().map(|reached| reached.limit).collect()
    }

    #[test]
    fn attempts_at_more_are_told_where_they_were_counted() {
        let limits = Limits::default();
        let mut looks = looks(&limits);
        let evidence = |looks: &Looks, at_limit| {
            looks
                .limits_reached(EndedBy::Exit(0), at_limit)
                .into_iter()
                .map(|it| it.evidence)
                .collect::<Vec<_>>()
        };
        assert!(evidence(&looks, None).is_empty() && evidence(&looks, Some(0)).is_empty());
        assert_eq!(
            evidence(&looks, Some(2)),
            ["0 tasks seen and 2 attempts at more counted, at a limit of 64"]
        );
        looks.peak.tasks = 64;
        assert_eq!(evidence(&looks, None), ["64 tasks seen, at a limit of 64"]);
        assert_eq!(
            evidence(&looks, Some(0)),
            ["64 tasks seen and 0 attempts at more counted, at a limit of 64"]
        );
    }

    #[test]
    fn an_end_is_evidence_of_its_limit_alone() {
        assert_eq!(evidence(EndedBy::WallClock), [Limit::Wall]);
        assert_eq!(evidence(EndedBy::Memory), [Limit::Memory]);
        assert_eq!(evidence(EndedBy::Disk), [Limit::Disk]);
        for cpu in [EndedBy::Cpu, EndedBy::Signal(libc::SIGXCPU), EndedBy::Exit(152)] {
            assert_eq!(evidence(cpu), [Limit::Cpu]);
        }
        for file_size in [EndedBy::Signal(libc::SIGXFSZ), EndedBy::Exit(153)] {
            assert_eq!(evidence(file_size), [Limit::FileSize]);
        }
        for other in [EndedBy::Exit(0), EndedBy::Exit(137), EndedBy::Signal(9), EndedBy::Caller] {
            assert_eq!(evidence(other), []);
        }
    }
}
