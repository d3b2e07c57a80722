//! What the launcher did not mean to tell.

use crate::nr;
use crate::sys::{at, at_mut, call, call_with, path};
use crate::{Named, Outcome};
use std::ffi::{OsString, c_long};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;

pub const ATTACKS: &[Named] = &[
    ("environment", environment),
    ("environments", environments),
    ("command_lines", command_lines),
    ("read_descriptors", read_descriptors),
    ("open_below_descriptors", open_below_descriptors),
    ("write_descriptor", write_descriptor),
    ("name_descriptors", name_descriptors),
    ("reopen_for_writing", reopen_for_writing),
    ("reopen_for_reading", reopen_for_reading),
    ("tell_host_name", tell_host_name),
    ("tell_kernel_log", tell_kernel_log),
    ("kernel_symbols", kernel_symbols),
    ("mounts", mounts),
    ("keep_key", keep_key),
    ("read_key", read_key),
    ("find_key", find_key),
    ("remove_key", remove_key),
    ("keep_message", keep_message),
    ("receive_message", receive_message),
    ("remove_message", remove_message),
];

/// Where a launcher may have left descriptors.
const DESCRIPTORS: std::ops::Range<usize> = 3..256;

fn environment(_: &[OsString]) -> Outcome {
    for (name, value) in std::env::vars_os() {
        println!("{}={}", name.display(), value.display());
    }
    Ok(())
}

fn environments(_: &[OsString]) -> Outcome {
    of_every_process("environ")
}

fn command_lines(_: &[OsString]) -> Outcome {
    of_every_process("cmdline")
}

/// Prints a file of every process that is seen.
fn of_every_process(file: &str) -> Outcome {
    for entry in fs::read_dir("/proc")?.flatten() {
        if let Ok(text) = fs::read(entry.path().join(file)) {
            print(&text)?;
        }
    }
    Ok(())
}

/// Prints the files that somebody else opened.
fn read_descriptors(_: &[OsString]) -> Outcome {
    of_descriptors(|descriptor| {
        let mut buffer = [0_u8; 256];
        let length =
            call(nr::PREAD64, [descriptor, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0])?;
        print(&buffer[..length])
    })
}

/// Prints the file with the name of the argument in directories that somebody else opened.
fn open_below_descriptors(arguments: &[OsString]) -> Outcome {
    let name = path(&arguments[0]);
    of_descriptors(|directory| {
        let file = call(nr::OPENAT, [directory, name.as_ptr() as usize, 0, 0, 0, 0])?;
        print(&fs::read(format!("/proc/self/fd/{file}"))?)
    })
}

/// Does it with each descriptor; the first error counts if none succeeds.
fn of_descriptors(mut attempt: impl FnMut(usize) -> Outcome) -> Outcome {
    let outcomes: Vec<Outcome> = DESCRIPTORS.map(&mut attempt).collect();
    if outcomes.iter().any(Outcome::is_ok) { Ok(()) } else { outcomes.into_iter().next().unwrap_or(Ok(())) }
}

/// Writes to the descriptor of the argument, and to no other: who knows what it is.
fn write_descriptor(arguments: &[OsString]) -> Outcome {
    let descriptor = arguments[0].to_string_lossy().parse().expect("a number");
    call(nr::WRITE, [descriptor, b"x".as_ptr() as usize, 1, 0, 0, 0]).map(drop)
}

/// Prints what the own descriptors are of.
fn name_descriptors(_: &[OsString]) -> Outcome {
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        if let Ok(name) = fs::read_link(entry.path()) {
            println!("{}", name.display());
        }
    }
    Ok(())
}

/// Appends to the standard input, which was given for reading.
fn reopen_for_writing(_: &[OsString]) -> Outcome {
    OpenOptions::new().append(true).open("/proc/self/fd/0")?.write_all(b"x")
}

/// Prints what is in the standard error, which was given for writing.
fn reopen_for_reading(_: &[OsString]) -> Outcome {
    // A launcher may have put a pipe there: that has nothing, and would be waited for.
    let mut log = open_nonblocking("/proc/self/fd/2")?;
    let mut text = vec![0; 8192];
    let length = log.read(&mut text)?;
    print(&text[..length])
}

/// Prints the second of the six texts of `struct utsname`.
fn tell_host_name(_: &[OsString]) -> Outcome {
    const TEXT: usize = 65;
    let mut texts = [0_u8; 6 * TEXT];
    call(nr::UNAME, [texts.as_mut_ptr() as usize, 0, 0, 0, 0, 0])?;
    let name = texts[TEXT..2 * TEXT].split(|byte| *byte == 0).next().unwrap_or_default();
    println!("<{}>", String::from_utf8_lossy(name));
    Ok(())
}

/// Prints the kernel's log, by the call or by the device.
fn tell_kernel_log(_: &[OsString]) -> Outcome {
    const READ_ALL: usize = 3;
    let mut buffer = vec![0_u8; 1 << 20];
    match call(nr::SYSLOG, [READ_ALL, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) {
        Ok(length) => print(&buffer[..length]),
        Err(_) => print_records(),
    }
}

/// Prints the records of the kernel's log, one a read.
fn print_records() -> Outcome {
    let mut log = open_nonblocking("/dev/kmsg")?;
    let mut buffer = [0; 8192];
    while let Ok(length) = log.read(&mut buffer) {
        print(&buffer[..length])?;
    }
    Ok(())
}

fn open_nonblocking(path: &str) -> io::Result<File> {
    const NONBLOCK: i32 = 0x800;
    OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)
}

/// Prints the first lines of the kernel's symbols.
fn kernel_symbols(_: &[OsString]) -> Outcome {
    let mut text = Vec::new();
    File::open("/proc/kallsyms")?.take(4096).read_to_end(&mut text)?;
    print(&text)
}

fn mounts(_: &[OsString]) -> Outcome {
    print(&fs::read("/proc/self/mountinfo")?)
}

/// Operations of keyctl().
mod operation {
    pub const SET_PERMISSIONS: usize = 5;
    pub const READ: usize = 11;
    pub const SET_TIMEOUT: usize = 15;
    pub const INVALIDATE: usize = 21;
}

/// Keeps the content of the second argument in the user's keyring under the name of the first; prints its number. It is
/// no attack: the host does it, before one.
fn keep_key(arguments: &[OsString]) -> Outcome {
    const USER_KEYRING: isize = -4;
    const SECONDS: usize = 60;
    // The possessor and the user may do anything.
    const PERMISSIONS: usize = 0x3f3f_0000;
    let (name, kind) = (path(&arguments[0]), path("user"));
    let content = arguments[1].as_encoded_bytes();
    let [kind, name, at] = [kind.as_ptr() as usize, name.as_ptr() as usize, content.as_ptr() as usize];
    let key = call(nr::ADD_KEY, [kind, name, at, content.len(), USER_KEYRING as usize, 0])?;
    call(nr::KEYCTL, [operation::SET_PERMISSIONS, key, PERMISSIONS, 0, 0, 0])?;
    call(nr::KEYCTL, [operation::SET_TIMEOUT, key, SECONDS, 0, 0, 0])?;
    println!("{key}");
    Ok(())
}

/// Prints the content of the key with the number of the argument. Numbers can be guessed, and listed in /proc/keys.
fn read_key(arguments: &[OsString]) -> Outcome {
    print_key(number(arguments))
}

/// The same, of the key with the name of the argument.
fn find_key(arguments: &[OsString]) -> Outcome {
    let (kind, name) = (path("user"), path(&arguments[0]));
    print_key(call(nr::REQUEST_KEY, [kind.as_ptr() as usize, name.as_ptr() as usize, 0, 0, 0, 0])?)
}

fn print_key(key: usize) -> Outcome {
    let mut buffer = [0_u8; 256];
    let at = buffer.as_mut_ptr() as usize;
    let length = call(nr::KEYCTL, [operation::READ, key, at, buffer.len(), 0, 0])?;
    print(&buffer[..length.min(buffer.len())])
}

/// The host's, after an attack.
fn remove_key(arguments: &[OsString]) -> Outcome {
    call(nr::KEYCTL, [operation::INVALIDATE, number(arguments), 0, 0, 0, 0]).map(drop)
}

/// `struct msgbuf`, see msgop(2).
#[repr(C)]
struct Message {
    kind: c_long,
    text: [u8; 256],
}

/// Prints the number of a new System V queue with the argument in it.
fn keep_message(arguments: &[OsString]) -> Outcome {
    const PRIVATE: usize = 0;
    const OWNER: usize = 0o600;
    let text = arguments[0].as_encoded_bytes();
    let mut message = Message { kind: 1, text: [0; 256] };
    message.text[..text.len()].copy_from_slice(text);
    let queue = call_with(nr::MSGGET, &[PRIVATE, OWNER])?;
    call_with(nr::MSGSND, &[queue, at(&message), text.len()])?;
    println!("{queue}");
    Ok(())
}

/// Prints what is in the queue with the number of the argument. Numbers can be guessed, and listed in /proc/sysvipc.
fn receive_message(arguments: &[OsString]) -> Outcome {
    const NO_WAIT: usize = 0o4000;
    let mut message = Message { kind: 0, text: [0; 256] };
    let length = call_with(nr::MSGRCV, &[number(arguments), at_mut(&mut message), 256, 0, NO_WAIT])?;
    print(&message.text[..length])
}

/// The host's, after an attack.
fn remove_message(arguments: &[OsString]) -> Outcome {
    const REMOVE: usize = 0;
    call_with(nr::MSGCTL, &[number(arguments), REMOVE]).map(drop)
}

fn number(arguments: &[OsString]) -> usize {
    arguments[0].to_string_lossy().parse().expect("a number")
}

fn print(text: &[u8]) -> Outcome {
    let mut out = io::stdout();
    out.write_all(text)?;
    out.write_all(b"\n")
}
