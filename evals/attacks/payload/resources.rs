//! What everybody shares. Whatever is taken is bounded, held until the judge has seen it, and gone afterwards.

use crate::processes::{hold, number};
use crate::nr;
use crate::sys::{at, call, fork, vfork};
use crate::{Named, Outcome};
use std::ffi::{OsString, c_int, c_void};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio, exit};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub const ATTACKS: &[Named] = &[
    ("forks", forks),
    ("generations", generations),
    ("vforks", vforks),
    ("clones", clones),
    ("threads", threads),
    ("programs", programs),
    ("private", private),
    ("by_many", by_many),
    ("shared", shared),
    ("memfd", memfd),
    ("segment", segment),
    ("write_file", write_file),
    ("queues", queues),
    ("page_tables", page_tables),
    ("large_file", large_file),
    ("files", files),
    ("nameless_files", nameless_files),
    ("reserve", reserve),
    ("empty_files", empty_files),
    ("output", output),
    ("spin_together", spin_together),
    ("spin_in_turn", spin_in_turn),
    ("raise_limit", raise_limit),
    ("real_time", real_time),
    ("nice", nice),
    ("lock", lock),
    ("descriptors", descriptors),
    ("inotify", inotify),
    ("descriptors_on_their_way", descriptors_on_their_way),
    ("send_descriptor", send_descriptor),
];

/// So many processes a bomb makes.
const MANY: usize = 100;
const MIB: usize = 1 << 20;
/// So much memory is taken.
const HOARD: usize = 384 * MIB;
/// So much of a disk.
const FILL: usize = 160 * MIB;

/// A child that does this and ends.
fn child(run: impl FnOnce()) -> Outcome {
    if fork()? == 0 {
        run();
        exit(0);
    }
    Ok(())
}

/// Holds what was taken even when there was no more to be had: what was is too much already, perhaps.
fn held(enough: &OsString, outcome: Outcome) -> Outcome {
    hold(enough);
    outcome
}

fn forks(arguments: &[OsString]) -> Outcome {
    let all = (0..MANY).try_for_each(|_| child(|| hold(&arguments[0])));
    held(&arguments[0], all)
}

/// Every process makes another, and so do those.
fn generations(arguments: &[OsString]) -> Outcome {
    let all = (0..7).try_for_each(|_| fork().map(drop));
    held(&arguments[0], all)
}

static ENOUGH: OnceLock<OsString> = OnceLock::new();
static DEPTH: AtomicUsize = AtomicUsize::new(0);

/// Each waits for the next.
extern "C" fn next(_: *mut c_void) -> c_int {
    if DEPTH.fetch_add(1, Ordering::Relaxed) + 1 == MANY || vfork(next).is_err() {
        hold(ENOUGH.get().expect("it was set"));
    }
    0
}

fn vforks(arguments: &[OsString]) -> Outcome {
    ENOUGH.get_or_init(|| arguments[0].clone());
    vfork(next)
}

/// By the newer call, and without a signal to whoever should wait for them.
fn clones(arguments: &[OsString]) -> Outcome {
    let request = [0_u64; 8];
    let all = (0..MANY).try_for_each(|_| {
        let made = call(nr::CLONE3, [request.as_ptr() as usize, size_of_val(&request), 0, 0, 0, 0])?;
        if made == 0 {
            hold(&arguments[0]);
            exit(0);
        }
        Ok(())
    });
    held(&arguments[0], all)
}

fn threads(arguments: &[OsString]) -> Outcome {
    let all = (0..MANY).try_for_each(|_| {
        let enough = arguments[0].clone();
        std::thread::Builder::new().stack_size(64 << 10).spawn(move || hold(&enough)).map(drop)
    });
    held(&arguments[0], all)
}

fn programs(arguments: &[OsString]) -> Outcome {
    let words: Vec<OsString> = std::env::args_os().take(2).collect();
    let all = (0..MANY).try_for_each(|_| {
        let mut program = Command::new(&words[0]);
        program.arg(&words[1]).args(["hold", "900"]).arg(&arguments[0]);
        program.stdout(Stdio::null()).spawn().map(drop)
    });
    held(&arguments[0], all)
}

fn private(arguments: &[OsString]) -> Outcome {
    let kept: Vec<_> = (0..HOARD / (4 * MIB)).map(|_| vec![1_u8; 4 * MIB]).collect();
    hold(&arguments[0]);
    drop(std::hint::black_box(kept));
    Ok(())
}

/// None of them has much.
fn by_many(arguments: &[OsString]) -> Outcome {
    const SHARES: usize = 12;
    let all = (0..SHARES).try_for_each(|_| {
        child(|| {
            let kept = vec![1_u8; HOARD / SHARES];
            hold(&arguments[0]);
            drop(std::hint::black_box(kept));
        })
    });
    held(&arguments[0], all)
}

const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;
const MAP_POPULATE: usize = 0x8000;
const MADV_NOHUGEPAGE: usize = 15;
const MADV_POPULATE_READ: usize = 22;
const MADV_POPULATE_WRITE: usize = 23;
const NO_FILE: usize = usize::MAX;

/// Without a place in any process, but for one page that keeps the others.
fn shared(arguments: &[OsString]) -> Outcome {
    const SIZE: usize = 4 * MIB;
    let flags = MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE;
    let all = (0..HOARD / SIZE).try_for_each(|_| {
        let at = call(nr::MMAP, [0, SIZE, PROT_READ | PROT_WRITE, flags, NO_FILE, 0])?;
        call(nr::MUNMAP, [at + 4096, SIZE - 4096, 0, 0, 0, 0]).map(drop)
    });
    held(&arguments[0], all)
}

/// Written piece by piece to a descriptor.
fn fill(descriptor: usize, size: usize) -> Outcome {
    let piece = vec![1_u8; MIB];
    let mut left = size;
    while left > 0 {
        let length = piece.len().min(left);
        left -= call(nr::WRITE, [descriptor, piece.as_ptr() as usize, length, 0, 0, 0])?;
    }
    Ok(())
}

/// Each smaller than what a limit of one file's size might let through.
fn memfd(arguments: &[OsString]) -> Outcome {
    const SIZE: usize = 32 * MIB;
    let all = (0..HOARD / SIZE).try_for_each(|_| {
        let file = call(nr::MEMFD_CREATE, [c"x".as_ptr() as usize, 0, 0, 0, 0, 0])?;
        fill(file, SIZE)
    });
    held(&arguments[0], all)
}

/// System V's shared memory, marked to be removed as soon as it is attached.
fn segment(arguments: &[OsString]) -> Outcome {
    const IPC_RMID: usize = 0;
    const OWNER: usize = 0o600;
    let id = call(nr::SHMGET, [0, HOARD, OWNER, 0, 0, 0])?;
    let attached = call(nr::SHMAT, [id, 0, 0, 0, 0, 0]);
    call(nr::SHMCTL, [id, IPC_RMID, 0, 0, 0, 0])?;
    let all = call(nr::MADVISE, [attached?, HOARD, MADV_POPULATE_WRITE, 0, 0, 0]).map(drop);
    held(&arguments[0], all)
}

/// Files in the directory of the second argument, which are in memory.
fn write_file(arguments: &[OsString]) -> Outcome {
    const SIZE: usize = 32 * MIB;
    let paths = (0..HOARD / SIZE).map(|at| format!("{}-{at}", arguments[1].display()));
    let all = paths.clone().try_for_each(|path| fill(File::create(path)?.as_raw_fd() as usize, SIZE));
    hold(&arguments[0]);
    for path in paths {
        // Those that could not be made are not there.
        let _ = fs::remove_file(path);
    }
    all
}

/// What was sent and never received is the kernel's, not the process's. Few descriptors each, so that no limit of them
/// helps.
fn queues(arguments: &[OsString]) -> Outcome {
    const SENDERS: usize = 20;
    let all = (0..SENDERS).try_for_each(|_| {
        child(|| {
            // Whatever could be sent before something was refused is held.
            let kept = (0..110).map_while(|_| full_pair().ok()).collect::<Vec<_>>();
            hold(&arguments[0]);
            drop(kept);
        })
    });
    held(&arguments[0], all)
}

/// Two sockets, one of which can send no more.
fn full_pair() -> io::Result<(UnixStream, UnixStream)> {
    // One message fills one piece of the kernel's memory.
    let message = [1; 3000];
    let (mut sender, receiver) = UnixStream::pair()?;
    sender.set_nonblocking(true)?;
    while sender.write(&message).is_ok() {}
    Ok((sender, receiver))
}

/// To read a page that was never written costs nothing but a place in the page tables: here a whole one each.
fn page_tables(arguments: &[OsString]) -> Outcome {
    const COVERED: usize = 2 * MIB;
    const SIZE: usize = HOARD / 4096 * COVERED;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    let at = call(nr::MMAP, [0, SIZE, PROT_READ, flags, NO_FILE, 0])?;
    call(nr::MADVISE, [at, SIZE, MADV_NOHUGEPAGE, 0, 0, 0])?;
    let all = (at..at + SIZE)
        .step_by(COVERED)
        .try_for_each(|page| call(nr::MADVISE, [page, 4096, MADV_POPULATE_READ, 0, 0, 0]).map(drop));
    held(&arguments[0], all)
}

fn large_file(arguments: &[OsString]) -> Outcome {
    let all = fill(File::create("large")?.as_raw_fd() as usize, FILL);
    held(&arguments[0], all)
}

fn files(arguments: &[OsString]) -> Outcome {
    const SIZE: usize = MIB / 2;
    let all =
        (0..FILL / SIZE).try_for_each(|at| fill(File::create(format!("part-{at}"))?.as_raw_fd() as usize, SIZE));
    held(&arguments[0], all)
}

fn output(_: &[OsString]) -> Outcome {
    let (mut out, part) = (io::stdout(), vec![b'x'; MIB]);
    (0..200).try_for_each(|_| out.write_all(&part))?;
    // What follows is a line of its own.
    out.write_all(b"\n")
}

/// No directory shows them.
fn nameless_files(arguments: &[OsString]) -> Outcome {
    const SIZE: usize = 16 * MIB;
    let mut kept = Vec::new();
    let all = (0..FILL / SIZE).try_for_each(|_| {
        let file = File::create("nameless")?;
        fs::remove_file("nameless")?;
        kept.push(file.try_clone()?);
        fill(file.as_raw_fd() as usize, SIZE)
    });
    held(&arguments[0], all)
}

/// Room behind the end of files, which their sizes do not show.
fn reserve(arguments: &[OsString]) -> Outcome {
    const KEEP_SIZE: usize = 1;
    const SIZE: usize = 16 * MIB;
    let all = (0..FILL / SIZE).try_for_each(|at| {
        let file = File::create(format!("reserved-{at}"))?;
        call(nr::FALLOCATE, [file.as_raw_fd() as usize, KEEP_SIZE, 0, SIZE, 0, 0]).map(drop)
    });
    held(&arguments[0], all)
}

/// So many files of no size.
fn empty_files(arguments: &[OsString]) -> Outcome {
    let all = (0..number(&arguments[1])).try_for_each(|at| File::create(format!("empty-{at}")).map(drop));
    held(&arguments[0], all)
}

/// Keeps a processor busy for so much of this process's own time, or until the judge has seen enough.
fn spin(time: Duration, enough: &OsString) {
    while own_time() < time && !Path::new(enough).exists() {}
}

/// What this process has used of the processors.
fn own_time() -> Duration {
    const CLOCK_PROCESS_CPUTIME_ID: usize = 2;
    let mut now = [0_u64; 2];
    let got = call(nr::CLOCK_GETTIME, [CLOCK_PROCESS_CPUTIME_ID, now.as_mut_ptr() as usize, 0, 0, 0, 0]);
    // Without a clock nothing could bound it.
    if got.is_err() { Duration::MAX } else { Duration::new(now[0], now[1] as u32) }
}

/// None of them takes more time than it may.
fn spin_together(arguments: &[OsString]) -> Outcome {
    const SHARE: Duration = Duration::from_millis(1200);
    spin_by(4, SHARE, &arguments[0])
}

/// Short ones, two at a time, that nobody waits for: their time is added to nobody's.
fn spin_in_turn(arguments: &[OsString]) -> Outcome {
    const TURN: Duration = Duration::from_millis(150);
    (0..16).try_for_each(|_| spin_by(2, TURN, &arguments[0]))
}

/// By so many children of children that have ended: nobody can wait for them, but for the end of what they have open.
fn spin_by(many: usize, time: Duration, enough: &OsString) -> Outcome {
    let (mut until_the_end, open) = io::pipe()?;
    for _ in 0..many {
        child(|| {
            // What could not be started does not spin.
            let _ = child(|| spin(time, enough));
        })?;
    }
    drop(open);
    until_the_end.read_to_end(&mut Vec::new()).map(drop)
}

/// Processor time, to the seconds of the second argument.
fn raise_limit(arguments: &[OsString]) -> Outcome {
    const RLIMIT_CPU: usize = 0;
    let limit = [number(&arguments[1]) as u64; 2];
    call(nr::PRLIMIT64, [0, RLIMIT_CPU, limit.as_ptr() as usize, 0, 0, 0])?;
    hold(&arguments[0]);
    Ok(())
}

fn real_time(arguments: &[OsString]) -> Outcome {
    const SCHED_FIFO: usize = 1;
    let priority: c_int = 1;
    call(nr::SCHED_SETSCHEDULER, [0, SCHED_FIFO, &raw const priority as usize, 0, 0, 0])?;
    hold(&arguments[0]);
    Ok(())
}

/// Before everybody else.
fn nice(arguments: &[OsString]) -> Outcome {
    call(nr::SETPRIORITY, [0, 0, -10_isize as usize, 0, 0, 0])?;
    hold(&arguments[0]);
    Ok(())
}

/// Pins as much memory as the second argument says.
fn lock(arguments: &[OsString]) -> Outcome {
    let kept = vec![1_u8; number(&arguments[1])];
    call(nr::MLOCK, [kept.as_ptr() as usize, kept.len(), 0, 0, 0, 0])?;
    hold(&arguments[0]);
    Ok(())
}

fn descriptors(arguments: &[OsString]) -> Outcome {
    let all = (0..900).try_for_each(|_| call(nr::DUP, [1, 0, 0, 0, 0, 0]).map(drop));
    held(&arguments[0], all)
}

/// A user has few of these, and programs that watch files need one each.
fn inotify(arguments: &[OsString]) -> Outcome {
    let all = (0..number(&arguments[1])).try_for_each(|_| call(nr::INOTIFY_INIT1, [0; 6]).map(drop));
    held(&arguments[0], all)
}

/// As many as one message can have.
const MOST_IN_A_MESSAGE: usize = 253;

/// Few descriptors are enough to have many on their way.
fn descriptors_on_their_way(arguments: &[OsString]) -> Outcome {
    const PAIRS: usize = 3;
    const LIMIT_OF_FILES: usize = 7;
    let limit = [1024_u64; 2];
    // Where the limit is lower it stays so.
    let _ = call(nr::PRLIMIT64, [0, LIMIT_OF_FILES, at(&limit), 0, 0, 0]);
    let pairs = (0..PAIRS).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>()?;
    let all = pairs.iter().try_for_each(|(from, _)| send_descriptors(from, MOST_IN_A_MESSAGE));
    held(&arguments[0], all)
}

/// What the host does meanwhile: it sends one, as a process that may have so many files open.
fn send_descriptor(arguments: &[OsString]) -> Outcome {
    const LIMIT_OF_FILES: usize = 7;
    let limit = [number(&arguments[0]) as u64; 2];
    call(nr::PRLIMIT64, [0, LIMIT_OF_FILES, at(&limit), 0, 0, 0])?;
    let (from, _to) = UnixStream::pair()?;
    send_descriptors(&from, 1)
}

/// Sends the standard input so often in one message.
fn send_descriptors(from: &UnixStream, count: usize) -> Outcome {
    const SOCKET: i32 = 1;
    const RIGHTS: i32 = 1;
    // `struct cmsghdr`: its length, level and kind, and what it holds.
    let length = 16 + 4 * count as u64;
    let mut control = length.to_ne_bytes().to_vec();
    control.extend([SOCKET.to_ne_bytes(), RIGHTS.to_ne_bytes()].concat());
    control.resize(16 + 4 * count.next_multiple_of(2), 0);
    let byte = [0_u8];
    let data = [at(&byte), 1];
    // `struct msghdr`.
    let message = [0, 0, at(&data), 1, at(control.as_slice()), length as usize, 0];
    call(nr::SENDMSG, [from.as_raw_fd() as usize, at(&message), 0, 0, 0, 0]).map(drop)
}
