//! The few calls that std does not have. The C library is linked anyway; to declare its `syscall` costs no crate.

use crate::nr;
use std::ffi::{CString, OsStr, c_int, c_long, c_void};
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// A system call by its number. Pointers are passed as addresses: this program attacks, it promises nothing.
pub fn call(number: c_long, a: [usize; 6]) -> io::Result<usize> {
    // SAFETY: none is claimed. What a wrong address does to this process is part of the attack.
    let result = unsafe { syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

/// A call with fewer than six arguments.
pub fn call_with(number: c_long, arguments: &[usize]) -> io::Result<usize> {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    call(number, all)
}

/// Where a value is, for a call.
pub fn at<T: ?Sized>(value: &T) -> usize {
    std::ptr::from_ref(value).cast::<()>() as usize
}

/// Where a value is that the kernel fills in.
pub fn at_mut<T: ?Sized>(value: &mut T) -> usize {
    std::ptr::from_mut(value).cast::<()>() as usize
}

/// A call by the 32-bit gate, where numbers mean other calls: arch/x86/entry/syscalls/syscall_32.tbl.
#[cfg(target_arch = "x86_64")]
pub fn call_by_the_gate(number: i32, argument: u32) -> io::Result<usize> {
    let result: i32;
    // SAFETY: the kernel keeps all registers but those that are named here. rbx is the compiler's own, so it is
    // exchanged and put back. Both calls that are made so take no pointers.
    unsafe {
        std::arch::asm!(
            "xchg {first:r}, rbx",
            "int 0x80",
            "xchg {first:r}, rbx",
            first = inout(reg) u64::from(argument) => _,
            inlateout("eax") number => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// A path as the kernel takes it.
pub fn path(path: impl AsRef<OsStr>) -> CString {
    CString::new(path.as_ref().as_bytes()).expect("no path holds a zero byte")
}

/// "Relative to the directory of this process": `AT_FDCWD` as a register holds it.
pub const HERE: usize = -100_isize as usize;
pub const O_WRONLY: usize = 0o1;
pub const O_CREAT: usize = 0o100;

/// What a call that opens has returned, as a file.
pub fn file(descriptor: usize) -> File {
    // SAFETY: the kernel has just made the descriptor, and nobody else closes it.
    unsafe { File::from_raw_fd(descriptor as i32) }
}

/// Maps so much of a file, or of a ring, into memory for all who have it: `MAP_SHARED`. Returns the address.
pub fn map(descriptor: usize, offset: usize, length: usize) -> io::Result<usize> {
    const READ_AND_WRITE: usize = 3;
    const MAP_SHARED: usize = 1;
    call(nr::MMAP, [0, length, READ_AND_WRITE, MAP_SHARED, descriptor, offset])
}

/// Performs one operation by io_uring, where no filter of calls sees its arguments: linux/io_uring.h. `entry` is a
/// `struct io_uring_sqe`.
pub fn uring(entry: [u64; 8]) -> io::Result<usize> {
    // A `struct io_uring_params` in words of 32 bits, and where in it the offsets of the two rings are.
    let mut parameters = [0_u32; 30];
    let [tail, array, completions] = [11, 16, 25];
    let [entries_at, completed_at, page] = [0x1000_0000, 0x800_0000, 4096];
    let wait = 1;
    let ring = call(nr::IO_URING_SETUP, [1, parameters.as_mut_ptr() as usize, 0, 0, 0, 0])?;
    let [submitted, completed] = [map(ring, 0, page)?, map(ring, completed_at, page)?];
    let entries = map(ring, entries_at, page)?;
    let offset = |of: usize| parameters[of] as usize;
    // SAFETY: each address lies in a page that was mapped above, at an offset that the kernel gave.
    let result = unsafe {
        (entries as *mut [u64; 8]).write_volatile(entry);
        ((submitted + offset(array)) as *mut u32).write_volatile(0);
        ((submitted + offset(tail)) as *mut u32).write_volatile(1);
        call(nr::IO_URING_ENTER, [ring, 1, 1, wait, 0, 0])?;
        ((completed + offset(completions) + size_of::<u64>()) as *const i32).read_volatile()
    };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) }
}

/// Opens by io_uring.
pub fn uring_open(at: impl AsRef<OsStr>, flags: usize, mode: usize) -> io::Result<usize> {
    const OPENAT: u64 = 18;
    let at = path(at);
    let [directory, flags] = [(HERE as u64) << 32, (flags as u64) << 32];
    uring([OPENAT | directory, 0, at.as_ptr() as u64, mode as u64 | flags, 0, 0, 0, 0])
}

unsafe extern "C" {
    fn clone(run: extern "C" fn(*mut c_void) -> c_int, stack: *mut c_void, flags: c_int, argument: *mut c_void, ...) -> c_int;
}

const CLONE_VM: c_int = 0x100;
const CLONE_VFORK: c_int = 0x4000;
pub const SIGCHLD: usize = 17;

/// A child that is a copy of this process; 0 in the child.
pub fn fork() -> io::Result<usize> {
    // Not every architecture has a call of the name; all have this one.
    call(nr::CLONE, [SIGCHLD, 0, 0, 0, 0, 0])
}

/// What vfork(2) makes: a child in this process's memory, for whose end the caller waits. It returns when the child has
/// ended.
pub fn vfork(run: extern "C" fn(*mut c_void) -> c_int) -> io::Result<()> {
    const STACK: usize = 64 << 10;
    let mut stack = vec![0_u128; STACK / 16];
    let top = stack.as_mut_ptr_range().end.cast();
    // SAFETY: the stack is aligned and lives until the child has ended, since this process waits for that.
    let child = unsafe { clone(run, top, CLONE_VM | CLONE_VFORK | SIGCHLD as c_int, std::ptr::null_mut()) };
    if child == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
