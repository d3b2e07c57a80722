//! What everybody shares. What counts is what the host sees taken, held for a moment, of which no launcher has to know
//! when it is given back at once.

use crate::attack::Family::Resources;
use crate::attack::{Attack, CannotBite, Staged};
use crate::judge::{Evidence, Judge, Seen};
use crate::processes;
use crate::run::Run;
use crate::scene::Scene;
use agentkit_protocol::Control;
use nix::unistd::Uid;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PROCESSES: &[Control] = &[Control::ProcessesContained];
const MEMORY: &[Control] = &[Control::MemoryLimited];
const DISK: &[Control] = &[Control::DiskLimited];
const CPU: &[Control] = &[Control::CpuLimited];
const PRIVILEGES: &[Control] = &[Control::PrivilegesDropped];

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(Resources, "fork_bomb", "code that you run fills your process table", PROCESSES, |s| {
        multiplies(s, "forks")
    }),
    Attack::new(Resources, "fork_bomb_of_generations", "code that you run multiplies", PROCESSES, |s| {
        multiplies(s, "generations")
    }),
    Attack::new(
        Resources,
        "fork_bomb_by_vfork",
        "code that you run fills your process table by vfork",
        PROCESSES,
        |s| multiplies(s, "vforks"),
    ),
    Attack::new(
        Resources,
        "fork_bomb_by_clone3",
        "code that you run fills your process table by clone3",
        PROCESSES,
        |s| multiplies(s, "clones"),
    ),
    Attack::new(
        Resources,
        "thread_bomb",
        "code that you run fills your process table with threads",
        PROCESSES,
        |s| multiplies(s, "threads"),
    ),
    Attack::new(
        Resources,
        "fork_bomb_of_programs",
        "code that you run starts programs until you cannot",
        PROCESSES,
        |s| multiplies(s, "programs"),
    ),
    Attack::new(Resources, "memory_of_a_process", "code that you run takes your memory", MEMORY, |s| {
        hoards(s, "private", private)
    }),
    Attack::new(
        Resources,
        "memory_of_many_processes",
        "code that you run takes your memory in small portions",
        MEMORY,
        |s| hoards(s, "by_many", private),
    ),
    Attack::new(
        Resources,
        "memory_shared_and_unmapped",
        "code that you run takes memory that no process shows",
        MEMORY,
        |s| hoards(s, "shared", by_all("Shmem:")),
    ),
    Attack::new(
        Resources,
        "memory_in_memfds",
        "code that you run takes memory as files without a place",
        &[Control::MemoryLimited, Control::SyscallsFiltered],
        |s| hoards(s, "memfd", by_all("Shmem:")),
    ),
    Attack::new(
        Resources,
        "memory_in_a_sysv_segment",
        "code that you run takes memory that can outlive it",
        MEMORY,
        |s| hoards(s, "segment", by_all("Shmem:")),
    ),
    Attack::new(
        Resources,
        "memory_in_dev_shm",
        "code that you run takes memory as files",
        &[Control::MemoryLimited, Control::DiskLimited],
        in_dev_shm,
    ),
    Attack::new(
        Resources,
        "memory_in_queues_of_sockets",
        "code that you run takes memory of the kernel",
        MEMORY,
        |s| hoards(s, "queues", by_all("SUnreclaim:")),
    ),
    Attack::new(
        Resources,
        "memory_in_page_tables",
        "code that you run takes memory that is in no process's size",
        MEMORY,
        |s| hoards(s, "page_tables", page_tables),
    ),
    Attack::new(Resources, "disk_by_one_file", "code that you run fills your disk", DISK, |s| {
        fills(s, "large_file")
    }),
    Attack::new(
        Resources,
        "disk_by_many_files",
        "code that you run fills your disk in small portions",
        DISK,
        |s| fills(s, "files"),
    ),
    Attack::new(
        Resources,
        "disk_by_nameless_files",
        "code that you run fills your disk where you cannot look",
        DISK,
        |s| fills(s, "nameless_files"),
    ),
    Attack::new(
        Resources,
        "disk_by_reservation",
        "code that you run reserves your disk without writing",
        DISK,
        |s| fills(s, "reserve"),
    ),
    Attack::new(
        Resources,
        "disk_by_output",
        "code that you run prints until the disk is full on which its output is kept",
        DISK,
        output,
    ),
    Attack::new(Resources, "inodes", "code that you run leaves you no room for one more file", DISK, inodes),
    Attack::new(Resources, "cpu_of_many_at_once", "code that you run keeps your processors busy", CPU, |s| {
        spins(s, "spin_together")
    }),
    Attack::new(
        Resources,
        "cpu_of_the_forgotten",
        "code that you run keeps your processors busy unseen",
        CPU,
        |s| spins(s, "spin_in_turn"),
    ),
    Attack::new(
        Resources,
        "raise_a_limit",
        "code that you run undoes the limits that you set",
        PRIVILEGES,
        raise_a_limit,
    ),
    Attack::new(
        Resources,
        "real_time_scheduling",
        "code that you run comes before everything else",
        PRIVILEGES,
        real_time,
    ),
    Attack::new(
        Resources,
        "nice_below_zero",
        "code that you run comes before your other programs",
        PRIVILEGES,
        nice,
    ),
    Attack::new(
        Resources,
        "lock_memory",
        "code that you run takes memory that cannot be swapped",
        &[Control::MemoryLimited, Control::PrivilegesDropped],
        lock_memory,
    ),
    Attack::new(
        Resources,
        "many_descriptors",
        "code that you run takes your system's open files",
        MEMORY,
        many_descriptors,
    ),
    Attack::new(
        Resources,
        "descriptors_on_their_way",
        "code that you run keeps your programs from handing each other open files",
        MEMORY,
        descriptors_on_their_way,
    ),
    Attack::new(
        Resources,
        "inotify_instances",
        "code that you run leaves your programs none to watch files by",
        &[Control::SyscallsFiltered],
        inotify,
    ),
];

const MIB: u64 = 1 << 20;
/// As many as the victim of [`descriptors_on_their_way`] may have open.
const FEW_FILES: &str = "600";
/// More than any launcher was told to allow, by far: twice its processes, a half more of its disk.
const MANY_TASKS: usize = 64;
const MUCH_MEMORY: u64 = 320 * MIB;
const MUCH_DISK: u64 = 96 * MIB;
/// In hundredths of a second, the kernel's own unit; and more than half more than the time.
const MUCH_CPU: u64 = 300;
/// What is taken counts when it is held for so long: launchers may look now and then.
const HELD: Duration = Duration::from_millis(400);

/// Whether an amount has been above a bound for a while.
struct Holding {
    bound: u64,
    since: Option<Instant>,
}

impl Holding {
    fn above(bound: u64) -> Self {
        Holding { bound, since: None }
    }

    fn sees(&mut self, amount: u64) -> bool {
        if amount <= self.bound {
            self.since = None;
            return false;
        }
        self.since.get_or_insert_with(Instant::now).elapsed() >= HELD
    }
}

fn staged(scene: &Scene, attack: &str, judge: impl Judge + 'static) -> Staged {
    Staged::new([attack.into(), scene.enough().into_os_string()], judge)
}

/// `attack` makes more processes or threads than it should.
fn multiplies(scene: &Scene, attack: &str) -> Result<Staged, CannotBite> {
    let marker = scene.marker().to_owned();
    let look = move || {
        let tasks = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        let tasks: usize = processes::of(&marker).iter().map(tasks).sum();
        (tasks > MANY_TASKS).then(|| format!("{tasks} processes and threads at one time"))
    };
    Ok(staged(scene, attack, Seen::new(scene, look)))
}

/// `attack` holds more memory than it should, as `measure` tells of the processes with a marker.
fn hoards(
    scene: &Scene,
    attack: &str,
    measure: impl Fn(&OsStr) -> u64 + 'static,
) -> Result<Staged, CannotBite> {
    let marker = scene.marker().to_owned();
    let mut holding = Holding::above(MUCH_MEMORY);
    let look = move || {
        let bytes = measure(&marker);
        holding.sees(bytes).then(|| format!("{} MiB of memory were held", bytes / MIB))
    };
    Ok(staged(scene, attack, Seen::new(scene, look)))
}

/// Bytes of a line such as `RssAnon: 12 kB`.
fn bytes(line: Option<String>) -> u64 {
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

fn sum(marker: &OsStr, name: &str) -> u64 {
    processes::of(marker).into_iter().map(|pid| bytes(processes::line(pid, "status", name))).sum()
}

fn private(marker: &OsStr) -> u64 {
    sum(marker, "RssAnon:")
}

fn page_tables(marker: &OsStr) -> u64 {
    sum(marker, "VmPTE:")
}

/// What the whole host has more than at its least since the start: of memory that shows in no process. (What the run before
/// left is freed meanwhile.) That others take as much in the same second is unlikely, of these kinds.
fn by_all(name: &'static str) -> impl Fn(&OsStr) -> u64 {
    let now = move || {
        let table = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        bytes(table.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned))
    };
    let least = Cell::new(u64::MAX);
    move |_| {
        let now = now();
        least.set(least.get().min(now));
        now - least.get()
    }
}

/// Files that begin with a path, removed in the end.
struct Litter(PathBuf);

impl Drop for Litter {
    fn drop(&mut self) {
        let (Some(directory), Some(name)) = (self.0.parent(), self.0.file_name()) else { return };
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes()) {
                // Nothing is lost if it cannot be: the next start of the host clears it.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn in_dev_shm(scene: &Scene) -> Result<Staged, CannotBite> {
    let litter = Litter(Path::new("/dev/shm").join(scene.marker()));
    let path = litter.0.clone();
    let measure = by_all("Shmem:");
    let staged = hoards(scene, "write_file", move |marker| {
        // Here for as long as the judge is.
        let _ = &litter;
        measure(marker)
    })?;
    Ok(staged.with(path))
}

/// `attack` holds more of the disk than it should.
fn fills(scene: &Scene, attack: &str) -> Result<Staged, CannotBite> {
    let (marker, granted) = (scene.marker().to_owned(), scene.granted());
    let mut holding = Holding::above(MUCH_DISK);
    let look = move || {
        let held = on_disk(&granted) + nameless(&marker);
        holding.sees(held).then(|| format!("{} MiB of the disk were held", held / MIB))
    };
    Ok(staged(scene, attack, Seen::new(scene, look)))
}

fn output(scene: &Scene) -> Result<Staged, CannotBite> {
    let kept = scene.output("out");
    let judge = move |_: &Run| {
        let length = kept.metadata().map_or(0, |kept| kept.len());
        (length > MUCH_DISK).then(|| format!("{} MiB of output were kept", length / MIB))
    };
    Ok(Staged::new(["output"], judge))
}

fn blocks(metadata: &fs::Metadata) -> u64 {
    metadata.blocks() * 512
}

/// Of a directory that has none.
fn on_disk(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| blocks(&metadata)).sum()
}

/// Of the files that processes have open and no directory has.
fn nameless(marker: &OsStr) -> u64 {
    let files = processes::of(marker).into_iter().flat_map(descriptors);
    let files = files.filter_map(|file| fs::metadata(file).ok());
    files.filter(|file| file.is_file() && file.nlink() == 0).map(|file| blocks(&file)).sum()
}

/// As links to what is open.
fn descriptors(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// A file without content takes an inode and a name, which may be more than a file system has to spare.
fn inodes(scene: &Scene) -> Result<Staged, CannotBite> {
    const MANY: usize = 2_500;
    let granted = scene.granted();
    let judge = move |_: &Run| {
        let files = fs::read_dir(&granted).map_or(0, Iterator::count);
        (files > MANY).then(|| format!("{files} files were made"))
    };
    // Nobody looks before the end.
    fs::write(scene.enough(), "")?;
    Ok(staged(scene, "empty_files", judge).with("3000"))
}

/// `attack` uses more of the processors than it should, in all of its processes that ever were.
fn spins(scene: &Scene, attack: &str) -> Result<Staged, CannotBite> {
    let marker = scene.marker().to_owned();
    let mut used: HashMap<u32, u64> = HashMap::new();
    let look = move || {
        for pid in processes::of(&marker) {
            used.insert(pid, time(pid));
        }
        let all: u64 = used.values().sum();
        (all > MUCH_CPU).then(|| format!("{all} hundredths of a second of processor time were used"))
    };
    Ok(staged(scene, attack, Seen::new(scene, look)))
}

/// A process's own, in user mode and in the kernel.
fn time(pid: u32) -> u64 {
    let of = |field| processes::stat(pid, field).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    of(14) + of(15)
}

fn must_be_root(to: &str) -> Result<(), CannotBite> {
    if Uid::effective().is_root() { Ok(()) } else { Err(CannotBite(format!("only root can {to}"))) }
}

/// `attack` changes the attacker's own process in a way that `sees` finds.
fn becomes(
    scene: &Scene,
    attack: &str,
    sees: impl Fn(u32) -> bool + 'static,
    evidence: &'static str,
) -> Staged {
    let marker = scene.marker().to_owned();
    let look = move || -> Option<Evidence> {
        processes::of(&marker).into_iter().any(&sees).then(|| evidence.to_owned())
    };
    staged(scene, attack, Seen::new(scene, look))
}

fn raise_a_limit(scene: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("raise a limit that nobody may raise")?;
    // A number that nobody else would choose.
    const SECONDS: &str = "4243";
    let raised = |pid| {
        let limits = processes::line(pid, "limits", "Max cpu time");
        limits.is_some_and(|limits| limits.split_whitespace().nth(1) == Some(SECONDS))
    };
    let staged = becomes(scene, "raise_limit", raised, "a limit of the caller was raised");
    Ok(staged.with(SECONDS).before("ulimit -t 60"))
}

fn real_time(scene: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("have real-time scheduling")?;
    const POLICY: usize = 41;
    let first = |pid| processes::stat(pid, POLICY).as_deref() == Some("1");
    Ok(becomes(scene, "real_time", first, "a process has real-time scheduling"))
}

fn nice(scene: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("come before others")?;
    const NICE: usize = 19;
    let first = |pid| processes::stat(pid, NICE).as_deref() == Some("-10");
    Ok(becomes(scene, "nice", first, "a process comes before others"))
}

/// As much as an ordinary user usually may, or as root more.
fn lock_memory(scene: &Scene) -> Result<Staged, CannotBite> {
    let wanted = if Uid::effective().is_root() { 64 * MIB } else { 6 * MIB };
    let locked = move |pid| bytes(processes::line(pid, "status", "VmLck:")) >= wanted;
    Ok(becomes(scene, "lock", locked, "memory is locked").with(wanted.to_string()))
}

fn many_descriptors(scene: &Scene) -> Result<Staged, CannotBite> {
    let many = |pid| descriptors(pid).len() > 768;
    Ok(becomes(scene, "descriptors", many, "a process has more than 768 descriptors"))
}

/// Half of what one user may have, so that nobody runs out of them.
fn inotify(scene: &Scene) -> Result<Staged, CannotBite> {
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances")?;
    let wanted = (most.trim().parse::<usize>().unwrap_or(0) / 2).min(100);
    let has_them = move |pid| {
        let links = descriptors(pid).into_iter().filter_map(|file| fs::read_link(file).ok());
        let watchers = links.filter(|link| link.as_os_str() == "anon_inode:inotify");
        wanted > 0 && watchers.count() >= wanted
    };
    let staged = becomes(scene, "inotify", has_them, "half of what a user may have of them, or a hundred");
    Ok(staged.with(wanted.to_string()))
}

/// The kernel counts what waits in sockets for all processes of a user together, and refuses whoever may have fewer open
/// files than that. The victim may have fewer than programs usually have, so that no other one notices anything; and more
/// than the jail's own limit comes to.
fn descriptors_on_their_way(scene: &Scene) -> Result<Staged, CannotBite> {
    if Uid::effective().is_root() {
        return Err(CannotBite("root may send as many as it likes".to_owned()));
    }
    let tool = scene.tool()?;
    let look = move || {
        let sent = tool.look(&["send_descriptor".as_ref(), FEW_FILES.as_ref()]);
        sent.is_err().then(|| "another program could not send a descriptor".to_owned())
    };
    Ok(staged(scene, "descriptors_on_their_way", Seen::new(scene, look)))
}
