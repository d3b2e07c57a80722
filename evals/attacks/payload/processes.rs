//! Other processes, and outliving the run.

use crate::nr;
use crate::sys::{call, fork};
use crate::{Named, Outcome};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, exit};
use std::time::{Duration, Instant};

pub const ATTACKS: &[Named] = &[
    ("kill", kill),
    ("kill_by_pidfd", kill_by_pidfd),
    ("kill_by_sigio", kill_by_sigio),
    ("terminate_group", terminate_group),
    ("renice", renice),
    ("renice_group", renice_group),
    ("relimit", relimit),
    ("pin", pin),
    ("trace", trace),
    ("vm_read", vm_read),
    ("mem_read", mem_read),
    ("vm_write", vm_write),
    ("join_mounts", join_mounts),
    ("join_network", join_network),
    ("daemon", daemon),
    ("deaf_daemon", deaf_daemon),
    ("output_holder", output_holder),
    ("renamed_daemon", renamed_daemon),
    ("survivor", survivor),
    ("hold", hold_only),
];

const PRIO_PROCESS: usize = 0;
const PRIO_PGRP: usize = 1;
const SIGTERM: usize = 15;

/// An argument that is a number.
pub fn number(argument: &OsStr) -> usize {
    argument.to_string_lossy().parse().expect("a number")
}

/// Holds everything until the judge has seen enough, or until it would have.
pub fn hold(enough: &OsStr) {
    hold_for(Duration::from_millis(900), enough);
}

fn hold_for(longest: Duration, enough: &OsStr) {
    let begin = Instant::now();
    while begin.elapsed() < longest && !Path::new(enough).exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends the signal of the second argument to the process of the first.
fn kill(arguments: &[OsString]) -> Outcome {
    call(nr::KILL, [number(&arguments[0]), number(&arguments[1]), 0, 0, 0, 0]).map(drop)
}

fn kill_by_pidfd(arguments: &[OsString]) -> Outcome {
    let process = call(nr::PIDFD_OPEN, [number(&arguments[0]), 0, 0, 0, 0, 0])?;
    call(nr::PIDFD_SEND_SIGNAL, [process, 9, 0, 0, 0, 0]).map(drop)
}

/// The kernel itself signals whoever is named the owner of a descriptor, when there is something to read.
fn kill_by_sigio(arguments: &[OsString]) -> Outcome {
    const F_SETFL: usize = 4;
    const F_SETOWN: usize = 8;
    const O_ASYNC: usize = 0o20000;
    let (reader, mut writer) = io::pipe()?;
    let reader = reader.as_raw_fd() as usize;
    call(nr::FCNTL, [reader, F_SETOWN, number(&arguments[1]), 0, 0, 0])?;
    call(nr::FCNTL, [reader, F_SETFL, O_ASYNC, 0, 0, 0])?;
    writer.write_all(b"x")?;
    hold(&arguments[0]);
    Ok(())
}

/// Neither this process nor its children hear any signal that can be kept away.
pub fn block_signals() -> Outcome {
    const SIG_SETMASK: usize = 2;
    let all = u64::MAX;
    call(nr::RT_SIGPROCMASK, [SIG_SETMASK, &raw const all as usize, 0, size_of_val(&all), 0, 0]).map(drop)
}

/// A group is not named by a number here, so none that a namespace does not show is needed.
fn terminate_group(arguments: &[OsString]) -> Outcome {
    block_signals()?;
    call(nr::KILL, [0, SIGTERM, 0, 0, 0, 0])?;
    hold(&arguments[0]);
    Ok(())
}

fn renice(arguments: &[OsString]) -> Outcome {
    call(nr::SETPRIORITY, [PRIO_PROCESS, number(&arguments[0]), 19, 0, 0, 0]).map(drop)
}

fn renice_group(arguments: &[OsString]) -> Outcome {
    call(nr::SETPRIORITY, [PRIO_PGRP, 0, 19, 0, 0, 0])?;
    hold(&arguments[0]);
    Ok(())
}

/// Takes the descriptors of the process away, but three.
fn relimit(arguments: &[OsString]) -> Outcome {
    const RLIMIT_NOFILE: usize = 7;
    let limit = [3_u64, 3];
    call(nr::PRLIMIT64, [number(&arguments[0]), RLIMIT_NOFILE, limit.as_ptr() as usize, 0, 0, 0]).map(drop)
}

/// Binds the process to the processor of the second argument.
fn pin(arguments: &[OsString]) -> Outcome {
    let mask = 1_u64 << number(&arguments[1]);
    let mask_at = &raw const mask as usize;
    call(nr::SCHED_SETAFFINITY, [number(&arguments[0]), size_of_val(&mask), mask_at, 0, 0, 0]).map(drop)
}

/// Traces the process of the second argument.
fn trace(arguments: &[OsString]) -> Outcome {
    const PTRACE_SEIZE: usize = 0x4206;
    call(nr::PTRACE, [PTRACE_SEIZE, number(&arguments[1]), 0, 0, 0, 0])?;
    hold(&arguments[0]);
    Ok(())
}

/// A process, an address in it and a length there.
fn place(arguments: &[OsString]) -> [usize; 3] {
    [0, 1, 2].map(|at| number(&arguments[at]))
}

fn vm_read(arguments: &[OsString]) -> Outcome {
    let [pid, address, length] = place(arguments);
    let mut bytes = vec![0_u8; length];
    let (here, there) = ([bytes.as_mut_ptr() as usize, length], [address, length]);
    let pieces = [here.as_ptr(), there.as_ptr()].map(|piece| piece as usize);
    call(nr::PROCESS_VM_READV, [pid, pieces[0], 1, pieces[1], 1, 0])?;
    io::stdout().write_all(&bytes)
}

fn mem_read(arguments: &[OsString]) -> Outcome {
    let [pid, address, length] = place(arguments);
    let mut bytes = vec![0; length];
    fs::File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut bytes, address as u64)?;
    io::stdout().write_all(&bytes)
}

fn vm_write(arguments: &[OsString]) -> Outcome {
    let [pid, address, length] = place(arguments);
    let bytes = vec![b'x'; length];
    let (here, there) = ([bytes.as_ptr() as usize, length], [address, length]);
    let pieces = [here.as_ptr(), there.as_ptr()].map(|piece| piece as usize);
    call(nr::PROCESS_VM_WRITEV, [pid, pieces[0], 1, pieces[1], 1, 0]).map(drop)
}

/// Enters the mounts of the process, and reads the file there.
fn join_mounts(arguments: &[OsString]) -> Outcome {
    const CLONE_NEWNS: usize = 0x20000;
    let mounts = fs::File::open(format!("/proc/{}/ns/mnt", arguments[0].display()))?;
    call(nr::SETNS, [mounts.as_raw_fd() as usize, CLONE_NEWNS, 0, 0, 0, 0])?;
    io::stdout().write_all(&fs::read(&arguments[1])?)
}

/// Enters the network of the process, and connects to a port there.
fn join_network(arguments: &[OsString]) -> Outcome {
    const CLONE_NEWNET: usize = 0x4000_0000;
    let process = call(nr::PIDFD_OPEN, [number(&arguments[0]), 0, 0, 0, 0, 0])?;
    call(nr::SETNS, [process, CLONE_NEWNET, 0, 0, 0, 0])?;
    TcpStream::connect(("127.0.0.1", number(&arguments[1]) as u16)).map(drop)
}

/// Longer than any launcher should take to notice the end.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// Goes on as a grandchild in a session of its own; only that one returns.
fn become_a_daemon() -> Outcome {
    let (mut until_there, there) = io::pipe()?;
    if fork()? != 0 {
        drop(there);
        // Ends when the grandchild is there. Whoever lists the processes before that may find none that lasts.
        until_there.read_to_end(&mut Vec::new())?;
        println!("tried: a daemon was started");
        exit(0);
    }
    call(nr::SETSID, [0; 6])?;
    if fork()? != 0 {
        exit(0);
    }
    drop(there);
    Ok(())
}

fn close_all() {
    for descriptor in 0..3 {
        // What is not open needs no closing.
        let _ = call(nr::CLOSE, [descriptor, 0, 0, 0, 0, 0]);
    }
}

fn daemon(arguments: &[OsString]) -> Outcome {
    become_a_daemon()?;
    close_all();
    hold_for(AFTERWARDS, &arguments[0]);
    exit(0)
}

fn deaf_daemon(arguments: &[OsString]) -> Outcome {
    block_signals()?;
    become_a_daemon()?;
    close_all();
    hold_for(AFTERWARDS, &arguments[0]);
    exit(0)
}

/// Whoever waits for the end of the output waits for this one.
fn output_holder(arguments: &[OsString]) -> Outcome {
    become_a_daemon()?;
    hold_for(AFTERWARDS, &arguments[0]);
    exit(0)
}

/// Nothing in its arguments tells where it comes from.
fn renamed_daemon(arguments: &[OsString]) -> Outcome {
    let program = std::env::args_os().next().ok_or(io::ErrorKind::NotFound)?;
    let (mut until_renamed, open) = io::pipe()?;
    if fork()? != 0 {
        drop(open);
        // Ends when the daemon has become the other program, which does not have this pipe.
        until_renamed.read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    become_a_daemon()?;
    close_all();
    Err(Command::new(program).arg0("kworker").args(["-", "hold", "5000"]).arg(&arguments[0]).exec())
}

/// Holds for so many milliseconds.
fn hold_only(arguments: &[OsString]) -> Outcome {
    hold_for(Duration::from_millis(number(&arguments[0]) as u64), &arguments[1]);
    Ok(())
}

/// Says by the file of the second argument that there are two of it, of which one leads its own session.
fn survivor(arguments: &[OsString]) -> Outcome {
    if fork()? == 0 {
        call(nr::SETSID, [0; 6])?;
        fs::write(&arguments[1], "")?;
    }
    hold_for(AFTERWARDS, &arguments[0]);
    Ok(())
}
