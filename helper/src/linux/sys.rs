//! Every `unsafe` block and raw system call of the jail; all other modules go without.
//!
//! Each function is one call, takes owned or borrowed types, and turns -1 into an [`io::Error`].

#![expect(unsafe_code, reason = "the one place for calls that neither std, nix nor caps wrap")]

use nix::sys::signal::SigSet;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Turns the -1 of a system call into an error.
fn check(result: c_long) -> io::Result<c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(result: c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(check(result)?).map_err(io::Error::other)?;
    // SAFETY: the kernel just handed this descriptor to us and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a process is after it was duplicated.
#[derive(Debug)]
pub(crate) enum Forked {
    /// This is the new process.
    Child,
    /// This is the old one; the child is known by pid and, where asked for, by pidfd.
    Parent {
        /// Process id as the caller sees it.
        pid: libc::pid_t,
        /// Refers to the child even after its pid was reused. Only from [`clone_process`].
        pidfd: Option<OwnedFd>,
    },
}

/// `clone3(2)` (Linux 5.3) without shared memory: like fork, with new namespaces.
///
/// The caller must be single-threaded: the child is a copy of this thread alone, and a lock held by another would stay
/// held for ever. The supervisor starts its only other thread, the one that writes reports, after its last fork, and
/// init's has ended before the command is started.
pub(crate) fn clone_process(namespaces: c_int) -> io::Result<Forked> {
    let mut pidfd: RawFd = -1;
    // SAFETY: all-zero is the documented "unset" of every field of this plain struct.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    // The flags are non-negative bit masks; CLONE_NEWCGROUP and its kind fit 31 bits.
    args.flags = (namespaces | libc::CLONE_PIDFD).unsigned_abs().into();
    args.pidfd = (&raw mut pidfd).addr() as u64;
    args.exit_signal = libc::SIGCHLD.unsigned_abs().into();
    // SAFETY: `args` lives through the call and its size is passed; without CLONE_VM the child has its own memory, so
    // neither side can invalidate what the other borrows.
    let pid =
        check(unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) })?;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    Ok(Forked::Parent { pid: pid as libc::pid_t, pidfd: Some(owned(pidfd.into())?) })
}

/// `fork(2)`. Same condition as [`clone_process`].
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: there is one thread whenever this is called, so the child may go on using the whole library.
    match check(unsafe { libc::fork() }.into())? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent { pid: pid as libc::pid_t, pidfd: None }),
    }
}

/// A duplicate of this process with its pidfd, also where there is no clone3; nothing in the duplicate itself. Same
/// condition as [`clone_process`].
#[cfg(any(feature = "bubblewrap", without_namespaces))]
pub(crate) fn fork_with_pidfd() -> io::Result<Option<(libc::pid_t, OwnedFd)>> {
    match clone_process(0).or_else(|_| fork())? {
        Forked::Child => Ok(None),
        Forked::Parent { pid, pidfd: Some(pidfd) } => Ok(Some((pid, pidfd))),
        Forked::Parent { pid, pidfd: None } => Ok(Some((pid, open_pidfd(pid)?))),
    }
}

/// A new process that does `work` in this one's memory, which waits meanwhile (`CLONE_VM | CLONE_VFORK` of clone(2), as
/// posix_spawn(3) has it). To copy the page tables, and then every page that either writes, would take longer than all
/// that is done between fork and exec.
///
/// `work` only comes back if it could not become another program, with the reason. Same condition as
/// [`clone_process`].
pub(crate) fn spawn<E>(work: &dyn Fn() -> E) -> io::Result<Result<libc::pid_t, E>> {
    const STACK: usize = 256 << 10;
    struct Job<'a, E> {
        work: &'a dyn Fn() -> E,
        failure: Option<E>,
    }
    extern "C" fn child<E>(job: *mut c_void) -> c_int {
        // SAFETY: the parent made this a pointer to its job, and neither touches nor drops it before this ends.
        let job = unsafe { &mut *job.cast::<Job<E>>() };
        job.failure = Some((job.work)());
        // The C library ends the process with it.
        127
    }
    let mut job = Job { work, failure: None };
    // Pages of it that are not used are never there.
    let mut stack = Vec::<u128>::with_capacity(STACK.div_ceil(size_of::<u128>()));
    // SAFETY: one past the last element of the allocation, aligned as the ABI wants it.
    let top = unsafe { stack.as_mut_ptr().add(stack.capacity()) };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: this process is suspended until the child executes a program or ends, so that job and stack live as long
    // as it uses them and nobody else touches this memory. Descriptors, directory and signal settings are the child's
    // own; what it allocates and does not free before execve(2) is lost, a few hundred bytes.
    let pid = check(unsafe { libc::clone(child::<E>, top.cast(), flags, (&raw mut job).cast()) }.into())?;
    match job.failure {
        None => Ok(Ok(pid as libc::pid_t)),
        Some(failure) => {
            wait_with_usage(pid as libc::pid_t)?;
            Ok(Err(failure))
        }
    }
}

/// `open_tree(2)` with `OPEN_TREE_CLONE` (Linux 5.2): a detached copy of the mounts at `path` in `directory`, or at
/// `directory` itself for an empty path, all submounts included.
pub(crate) fn clone_mount(directory: BorrowedFd, path: &CStr) -> io::Result<OwnedFd> {
    let at = libc::AT_RECURSIVE.unsigned_abs() | libc::AT_EMPTY_PATH.unsigned_abs();
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | at;
    // SAFETY: `path` is a valid C string for the length of the call.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, directory.as_raw_fd(), path.as_ptr(), flags) })
}

/// `mount_setattr(2)` (Linux 5.12) on a mount and everything below it: adds the `MOUNT_ATTR_*` of `set`, and takes it out
/// of every peer group, so that nothing that is mounted elsewhere later shows up in it.
pub(crate) fn restrict_mount(mount: BorrowedFd, set: u64) -> io::Result<()> {
    // SAFETY: all-zero means "change nothing" for every field of this plain struct.
    let unchanged: libc::mount_attr = unsafe { std::mem::zeroed() };
    set_mount_attributes(
        mount,
        &libc::mount_attr { attr_set: set, propagation: libc::MS_PRIVATE, ..unchanged },
    )
}

/// `mount_setattr(2)` with `MOUNT_ATTR_IDMAP` on a detached mount and everything below it.
pub(crate) fn map_ids_of_mount(mount: BorrowedFd, user_namespace: BorrowedFd) -> io::Result<()> {
    // SAFETY: all-zero means "change nothing" for every field of this plain struct.
    let mut attributes: libc::mount_attr = unsafe { std::mem::zeroed() };
    attributes.attr_set = libc::MOUNT_ATTR_IDMAP;
    attributes.userns_fd = user_namespace.as_raw_fd().unsigned_abs().into();
    set_mount_attributes(mount, &attributes)
}

fn set_mount_attributes(mount: BorrowedFd, attributes: &libc::mount_attr) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the path is an empty C string, `attributes` lives through the call and its size is passed.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// `move_mount(2)` (Linux 5.2): attaches a detached mount at what `target` refers to.
pub(crate) fn attach_mount(mount: BorrowedFd, target: BorrowedFd) -> io::Result<()> {
    // SAFETY: both paths are empty C strings.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// `getdents64(2)`: the next entries of a directory, as many as fit; 0 at its end.
pub(crate) fn read_directory(directory: BorrowedFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the given number of bytes into `buffer`, which is borrowed for the call.
    let length = check(unsafe {
        libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), buffer.as_mut_ptr(), buffer.len())
    })?;
    usize::try_from(length).map_err(io::Error::other)
}

/// `fsopen(2)` (Linux 5.2): a file system about to be configured.
pub(crate) fn open_filesystem(kind: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: `kind` is a valid C string for the length of the call.
    owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })
}

const FSOPEN_CLOEXEC: u32 = 1;
const FSMOUNT_CLOEXEC: u32 = 1;
const FSCONFIG_SET_FLAG: u32 = 0;
const FSCONFIG_SET_STRING: u32 = 1;
const FSCONFIG_CMD_CREATE: u32 = 6;

/// `fsconfig(2)`: sets an option, to a value if it takes one.
pub(crate) fn set_option(system: BorrowedFd, name: &CStr, value: Option<&CStr>) -> io::Result<()> {
    let command = if value.is_some() { FSCONFIG_SET_STRING } else { FSCONFIG_SET_FLAG };
    let value = value.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: the name is a valid C string, and the value one or null as the command wants it.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, system.as_raw_fd(), command, name.as_ptr(), value, 0) })
        .map(drop)
}

/// `fsconfig(2)` with `FSCONFIG_CMD_CREATE`, then `fsmount(2)`: a detached mount of the file system with these
/// `MOUNT_ATTR_*`.
pub(crate) fn make_mount(system: BorrowedFd, attributes: u64) -> io::Result<OwnedFd> {
    let (system, none) = (system.as_raw_fd(), std::ptr::null::<c_char>());
    // SAFETY: this command takes neither name nor value, which have to be null.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, system, FSCONFIG_CMD_CREATE, none, none, 0) })?;
    // SAFETY: no memory is involved.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, system, FSMOUNT_CLOEXEC, attributes) })
}

/// `fsetxattr(2)`.
pub(crate) fn set_attribute(file: BorrowedFd, name: &CStr, value: &[u8]) -> io::Result<()> {
    let pointer = value.as_ptr().cast();
    // SAFETY: the name is a valid C string and the value is readable for its length.
    check(unsafe { libc::fsetxattr(file.as_raw_fd(), name.as_ptr(), pointer, value.len(), 0) }.into())
        .map(drop)
}

/// `flistxattr(2)`: the names of all extended attributes, each with a zero byte after it.
pub(crate) fn list_attributes(file: BorrowedFd) -> io::Result<Vec<u8>> {
    // The most that the kernel hands out, see listxattr(2).
    let mut names = vec![0_u8; 64 << 10];
    // SAFETY: the buffer is valid for writes of the length that is passed.
    let length = check(
        unsafe { libc::flistxattr(file.as_raw_fd(), names.as_mut_ptr().cast(), names.len()) } as c_long,
    )?;
    names.truncate(length.try_into().map_err(io::Error::other)?);
    Ok(names)
}

/// `fgetxattr(2)`: whether an extended attribute has this value.
pub(crate) fn attribute_is(file: BorrowedFd, name: &CStr, value: &[u8]) -> io::Result<bool> {
    let mut found = vec![0_u8; value.len().saturating_add(1)];
    let pointer = found.as_mut_ptr().cast();
    // SAFETY: the name is a valid C string and the buffer is valid for writes of the length that is passed.
    let length =
        check(unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), pointer, found.len()) } as c_long)?;
    Ok(found.get(..length.try_into().map_err(io::Error::other)?) == Some(value))
}

/// `close_range(2)` (Linux 5.9): closes the descriptors from `first` to `last`, both included; none if there are none.
///
/// Only where nothing owns one of them, or for a process that is about to exec or exit.
pub(crate) fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: no memory is involved; the callers never touch an owned descriptor afterwards.
    check(unsafe { libc::syscall(libc::SYS_close_range, first.unsigned_abs(), last.unsigned_abs(), 0) })
        .map(drop)
}

/// Marks every descriptor from `first` up to be closed by execve(2) (`CLOSE_RANGE_CLOEXEC`, Linux 5.11).
pub(crate) fn close_on_exec(first: RawFd) -> io::Result<()> {
    // SAFETY: no memory is involved, and nothing is closed.
    check(unsafe {
        libc::syscall(libc::SYS_close_range, first.unsigned_abs(), u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
    })
    .map(drop)
}

/// Takes ownership of a descriptor that this process was started with, or that a message carried.
pub(crate) fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: callers name a descriptor that the kernel gave this process and that nothing else in it owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// `pidfd_open(2)` (Linux 5.3) on a child that was not waited for, so that its pid is still its own.
pub(crate) fn open_pidfd(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// `pidfd_send_signal(2)` (Linux 5.1).
pub(crate) fn signal_process(pidfd: BorrowedFd, signal: c_int) -> io::Result<()> {
    // SAFETY: the info pointer may be null: the kernel then fills it in as for kill(2).
    check(unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    })
    .map(drop)
}

/// `kill(2)` on a process group.
pub(crate) fn signal_group(group: libc::pid_t, signal: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::kill(group.saturating_neg(), signal) }.into()).map(drop)
}

/// `keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)`: leaves the caller's session keyring for a new, empty one.
pub(crate) fn join_new_session_keyring() -> io::Result<()> {
    // SAFETY: a null name asks for an anonymous keyring; no memory is involved.
    check(unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<c_char>())
    })
    .map(drop)
}

/// `prctl(PR_CAPBSET_DROP)`: `EINVAL` if the kernel has no such capability.
pub(crate) fn drop_from_bounding_set(capability: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, c_long::from(capability), 0, 0, 0) }.into()).map(drop)
}

/// Overwrites what the kernel put on the stack at start-up, between two bounds that /proc/self/stat gives for it:
/// arguments (fields 48 and 49) or variables (50 and 51). Afterwards nothing may ask for either.
pub(crate) fn wipe_start_up_text(begin: u64, end: u64) {
    let (begin, end) = (begin as usize, end as usize);
    // SAFETY: the kernel says that this range holds the strings that execve(2) copied to this process's stack, which is
    // mapped writable for as long as the process lives; no reference of ours points into it.
    unsafe {
        std::ptr::write_bytes(
            std::ptr::with_exposed_provenance_mut::<u8>(begin),
            0,
            end.saturating_sub(begin),
        )
    };
}

/// `wait4(2)` on one child: its wait status and the processor time of it and of the descendants waited for.
pub(crate) fn wait_with_usage(pid: libc::pid_t) -> io::Result<(c_int, Duration)> {
    let mut status = 0;
    // SAFETY: all-zero is a valid value of this plain struct, which the kernel overwrites.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are valid for writes through the call.
        match check(unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) }.into()) {
            Ok(_) => return Ok((status, duration(usage.ru_utime).saturating_add(duration(usage.ru_stime)))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// `sigtimedwait(2)`: waits until one of these blocked signals has come, or for this long, and tells whether a process outside this pid
/// namespace sent it by kill(2) or its kind. (The kernel names the sender, except to a process whose queue was filled:
/// good enough where a pretended signal does no more than its sender could do otherwise.)
pub(crate) fn wait_for_signal(signals: &SigSet, longest: Duration) -> io::Result<Option<(c_int, bool)>> {
    /// Bytes of the kernel's set of signals, see NOTES of sigprocmask(2).
    const KERNELS_SET: usize = 8;
    // SAFETY: all-zero is a valid value of this plain struct, which the kernel overwrites.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let longest = libc::timespec {
        tv_sec: longest.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: longest.subsec_nanos().into(),
    };
    loop {
        // The C library's function brings code with it that nothing else here needs, and whoever waits is to be small.
        // SAFETY: set and time live through the call, `info` is valid for writes, and the kernel reads this much of a set.
        match check(unsafe {
            libc::syscall(
                libc::SYS_rt_sigtimedwait,
                std::ptr::from_ref(signals.as_ref()),
                &raw mut info,
                &raw const longest,
                KERNELS_SET,
            )
        }) {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    // SAFETY: a signal with this code carries its sender.
    let from_outside = info.si_code == libc::SI_USER && unsafe { info.si_pid() } == 0;
    Ok(Some((info.si_signo, from_outside)))
}

/// `wait4(2)` for one child, if it has ended by now. How, is of no interest.
#[cfg(without_namespaces)]
pub(crate) fn take_this_child(pid: libc::pid_t) {
    // SAFETY: neither status nor usage is asked for.
    unsafe { libc::wait4(pid, std::ptr::null_mut(), libc::WNOHANG, std::ptr::null_mut()) };
}

/// `wait4(2)` for any child that has ended by now: its pid and wait status. The status is left as it is: there are more
/// signals than nix knows.
pub(crate) fn take_ended_child() -> io::Result<Option<(libc::pid_t, c_int)>> {
    let mut status = 0;
    // SAFETY: the status is valid for writes through the call, and no usage is asked for.
    match check(unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, std::ptr::null_mut()) }.into())? {
        0 => Ok(None),
        pid => Ok(Some((pid as libc::pid_t, status))),
    }
}

/// Makes this process small: set-up needed much more than waiting does, and a jail may wait for hours. What was allocated
/// and is free again goes back (malloc_trim(3), which only the GNU C library has), and so do the program's code and
/// constants (`MADV_DONTNEED`): what is needed of them comes from the page cache.
pub(crate) fn give_memory_back() {
    unsafe extern "C" {
        // Made by the linker: where the program begins, and where its code ends; see end(3).
        static __executable_start: u8;
        static etext: u8;
    }
    let page = |address: usize| address & !4095;
    let (begin, end) = (page((&raw const __executable_start).addr()), page((&raw const etext).addr()));
    // SAFETY: what lies between is mapped from the program's file and was never written, so that dropping its pages
    // changes no memory: they are read from the file again, and malloc_trim locks out other threads.
    unsafe {
        #[cfg(target_env = "gnu")]
        libc::malloc_trim(0);
        libc::madvise(
            std::ptr::with_exposed_provenance_mut(begin),
            end.saturating_sub(begin),
            libc::MADV_DONTNEED,
        );
    }
}

/// Lets threads share one heap (mallopt(3), which only the GNU C library has): one of its own for each is made to be fast
/// for long, and costs four calls and some pages that are never given back.
pub(crate) fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only sets a number that later allocations go by.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = Duration::from_secs(time.tv_sec.try_into().unwrap_or(0));
    seconds.saturating_add(Duration::from_micros(time.tv_usec.try_into().unwrap_or(0)))
}

/// `prlimit(2)` on this process: sets a soft and a hard limit and returns the old soft one.
pub(crate) fn replace_limit(resource: c_int, soft: u64, hard: u64) -> io::Result<u64> {
    let new = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // The C libraries differ in the type of the number.
    let resource = resource as _;
    // SAFETY: both structs live through the call, which reads one and writes the other.
    check(unsafe { libc::prlimit(0, resource, &raw const new, &raw mut old) }.into())?;
    Ok(old.rlim_cur)
}

/// Whether a process of this user can be there, as far as this pid namespace sees: also one that has ended and was not yet
/// waited for, or that is in a user namespace below. `getpriority(PRIO_USER)` goes by the real user; the library's own
/// cannot tell -1 from an error.
pub(crate) fn is_somebody(uid: u32) -> bool {
    // SAFETY: it takes two numbers.
    let answer = check(unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_USER, uid) });
    !answer.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
}

/// Sets `IFF_UP` on the interface `lo` of this network namespace, by `ioctl(SIOCSIFFLAGS)`; see netdevice(7).
pub(crate) fn raise_loopback(socket: BorrowedFd) -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo\0") {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: `request` is the struct that this ioctl reads, with a terminated name.
    check(
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request) }
            .into(),
    )
    .map(drop)
}

/// The network namespace that a socket is in, by `ioctl(SIOCGSKNS)` (Linux 4.9).
pub(crate) fn namespace_of_socket(socket: BorrowedFd) -> io::Result<OwnedFd> {
    // SAFETY: this ioctl takes no argument.
    owned(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGSKNS as libc::Ioctl) }.into())
}

/// `landlock_create_ruleset(2)` (Linux 5.13) with `LANDLOCK_CREATE_RULESET_VERSION`.
pub(crate) fn landlock_version() -> io::Result<usize> {
    const VERSION: c_int = 1;
    // SAFETY: with this flag there is no struct, and null and zero say so.
    let version = check(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u64>(), 0_usize, VERSION)
    })?;
    usize::try_from(version).map_err(io::Error::other)
}

/// `struct landlock_ruleset_attr` of linux/landlock.h: what is forbidden unless a rule allows it. What a kernel does not
/// know yet must be zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handled {
    /// `LANDLOCK_ACCESS_FS_*`.
    pub(crate) files: u64,
    /// `LANDLOCK_ACCESS_NET_*` (version 4).
    pub(crate) ports: u64,
    /// `LANDLOCK_SCOPE_*` (version 6), which no rule allows.
    pub(crate) scopes: u64,
}

/// `landlock_create_ruleset(2)`.
pub(crate) fn create_ruleset(handled: &Handled) -> io::Result<OwnedFd> {
    let address = std::ptr::from_ref(handled);
    // SAFETY: the struct has this layout; it lives through the call, and its address and size are passed.
    owned(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, address, size_of::<Handled>(), 0) })
}

/// `landlock_add_rule(2)` with `LANDLOCK_RULE_PATH_BENEATH`: allows these rights in a directory and everything below it.
pub(crate) fn allow_below(rules: BorrowedFd, directory: BorrowedFd, rights: u64) -> io::Result<()> {
    const PATH_BENEATH: c_int = 1;
    /// `struct landlock_path_beneath_attr` of linux/landlock.h.
    #[repr(C, packed)]
    struct PathBeneath {
        rights: u64,
        directory: RawFd,
    }
    let rule = PathBeneath { rights, directory: directory.as_raw_fd() };
    // SAFETY: `rule` lives through the call, which reads a struct of this layout.
    check(unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), PATH_BENEATH, &raw const rule, 0)
    })
    .map(drop)
}

/// `landlock_restrict_self(2)` (Linux 5.13).
pub(crate) fn restrict_self(rules: BorrowedFd) -> io::Result<()> {
    // SAFETY: it takes two numbers.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) }).map(drop)
}

/// `prlimit(2)`: another process of ours can make no more processes; the limit that it had for that.
#[cfg(without_namespaces)]
pub(crate) fn forbid_forks(pid: libc::pid_t) -> io::Result<libc::rlimit> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let mut before = none;
    // SAFETY: both structs live through the call, which reads one and writes the other.
    check(unsafe { libc::prlimit(pid, libc::RLIMIT_NPROC, &raw const none, &raw mut before) }.into())?;
    Ok(before)
}

/// `prlimit(2)`: gives back what [`forbid_forks`] took.
#[cfg(without_namespaces)]
pub(crate) fn allow_forks(pid: libc::pid_t, limit: &libc::rlimit) -> io::Result<()> {
    let limit = std::ptr::from_ref(limit);
    // SAFETY: the struct lives through the call, which reads it, and the old limit is not asked for.
    check(unsafe { libc::prlimit(pid, libc::RLIMIT_NPROC, limit, std::ptr::null_mut()) }.into()).map(drop)
}

/// Whether the kernel has filters of system calls: then it looks for one at the address it is given, and finds none.
#[cfg(feature = "rlimits")]
pub(crate) fn know_filters() -> io::Result<()> {
    // SAFETY: the kernel reads nothing at the null address, and answers EFAULT.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            std::ptr::null::<libc::sock_fprog>(),
        )
    };
    match check(result).err() {
        Some(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
        Some(error) => Err(error),
        None => Err(io::Error::other("a filter that is none was loaded")),
    }
}

/// One instruction of classic BPF.
pub(crate) type Instruction = (u16, u8, u8, u32);

fn program(instructions: &[Instruction]) -> Vec<libc::sock_filter> {
    instructions.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect()
}

fn with_program<T>(instructions: &[Instruction], load: impl FnOnce(&libc::sock_fprog) -> T) -> io::Result<T> {
    let mut filter = program(instructions);
    let len = filter.len().try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(load(&libc::sock_fprog { len, filter: filter.as_mut_ptr() }))
}

/// `seccomp(2)`: adds a filter for this thread and its future children.
pub(crate) fn load_seccomp_filter(instructions: &[Instruction]) -> io::Result<()> {
    // SAFETY: the program and its instructions live through the call, which copies them.
    check(with_program(instructions, |program| unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, std::ptr::from_ref(program))
    })?)
    .map(drop)
}

/// `seccomp(2)` with `SECCOMP_FILTER_FLAG_NEW_LISTENER` (Linux 5.0): whoever holds the descriptor is asked where the
/// filter answers `SECCOMP_RET_USER_NOTIF`.
pub(crate) fn load_notifying_filter(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    // SAFETY: the program and its instructions live through the call, which copies them.
    owned(with_program(instructions, |program| unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            std::ptr::from_ref(program),
        )
    })?)
}

/// `ioctl(SECCOMP_IOCTL_NOTIF_RECV)`: takes one question; see seccomp_unotify(2).
pub(crate) fn receive_notification(listener: BorrowedFd) -> io::Result<libc::seccomp_notif> {
    let (listener, request) = (listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV);
    // SAFETY: all-zero is a valid value of this plain struct, and what the kernel asks for.
    let mut question: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: `question` is the struct that this ioctl writes.
    check(unsafe { libc::ioctl(listener, request, &raw mut question) }.into())?;
    Ok(question)
}

/// `ioctl(SECCOMP_IOCTL_NOTIF_ID_VALID)`: whether who asked still waits for the answer.
pub(crate) fn is_waiting(listener: BorrowedFd, id: u64) -> bool {
    let (listener, request) = (listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID);
    // SAFETY: `id` is the number that this ioctl reads.
    check(unsafe { libc::ioctl(listener, request, &raw const id) }.into()).is_ok()
}

/// `ioctl(SECCOMP_IOCTL_NOTIF_SEND)`: the call itself is not made, and returns 0 or fails with `errno`.
pub(crate) fn answer_notified(listener: BorrowedFd, id: u64, errno: c_int) -> io::Result<()> {
    send_answer(listener, &libc::seccomp_notif_resp { id, val: 0, error: errno.saturating_neg(), flags: 0 })
}

/// `ioctl(SECCOMP_IOCTL_NOTIF_SEND)` with `SECCOMP_USER_NOTIF_FLAG_CONTINUE` (Linux 5.5): the call goes its usual way.
pub(crate) fn continue_notified(listener: BorrowedFd, id: u64) -> io::Result<()> {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    send_answer(listener, &libc::seccomp_notif_resp { id, val: 0, error: 0, flags })
}

fn send_answer(listener: BorrowedFd, answer: &libc::seccomp_notif_resp) -> io::Result<()> {
    let (listener, request) = (listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND);
    // SAFETY: `answer` is the struct that this ioctl reads.
    check(unsafe { libc::ioctl(listener, request, std::ptr::from_ref(answer)) }.into()).map(drop)
}

/// `setsockopt(SO_ATTACH_FILTER)`: the socket then only receives packets that the program accepts; see socket(7).
pub(crate) fn attach_packet_filter(socket: BorrowedFd, instructions: &[Instruction]) -> io::Result<()> {
    // SAFETY: the program and its instructions live through the call, which copies them.
    check(
        with_program(instructions, |program| unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                std::ptr::from_ref(program).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        })?
        .into(),
    )
    .map(drop)
}

/// Whether this process was started with privileges that its caller did not have: `AT_SECURE` of getauxval(3).
pub(crate) fn started_with_privilege() -> bool {
    // SAFETY: reads a value that the kernel left beside the environment; no memory of ours is involved.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// How many bytes of the stack of this process are in use: from the name of its program, which the kernel puts near the top
/// (`AT_EXECFN` of getauxval(3)), down to here. In any other thread than the first it is no such number.
pub(crate) fn stack_in_use() -> u64 {
    let here = 0_u8;
    // SAFETY: reads a value that the kernel left beside the environment; no memory of ours is involved.
    let top = unsafe { libc::getauxval(libc::AT_EXECFN) };
    (top as usize).saturating_sub(std::ptr::from_ref(&here).addr()) as u64
}

/// `execve(2)` with arrays made beforehand. Returns only on failure.
pub(crate) fn execute(path: &CStr, argv: &[CString], envp: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(argv), pointers(envp));
    // SAFETY: both arrays end with a null pointer and, like the strings they point to, live through the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// `ioctl(TIOCSPTLCK)`: unlocks the other end of a new terminal; see ioctl_tty(2).
pub(crate) fn unlock_terminal(master: BorrowedFd) -> io::Result<()> {
    let lock: c_int = 0;
    // SAFETY: this ioctl reads an integer.
    check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const lock) }.into()).map(drop)
}

/// `ioctl(TIOCGPTPEER)` (Linux 4.13): opens the other end of a terminal without a path.
pub(crate) fn open_terminal(master: BorrowedFd) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: this ioctl takes its argument by value.
    owned(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) }.into())
}

/// `ioctl(TIOCSCTTY)`: makes a terminal the controlling one of this session, which must have none.
pub(crate) fn take_terminal(terminal: BorrowedFd) -> io::Result<()> {
    // SAFETY: this ioctl takes its argument by value; 0 takes it from nobody.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) }.into()).map(drop)
}

/// `ioctl(TIOCGWINSZ)`: the size of a terminal.
pub(crate) fn terminal_size(terminal: BorrowedFd) -> io::Result<libc::winsize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is the struct that this ioctl writes.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) }.into())?;
    Ok(size)
}

/// `ioctl(TIOCSWINSZ)`: sets the size of a terminal, and tells its foreground processes if it changes.
pub(crate) fn set_terminal_size(terminal: BorrowedFd, size: &libc::winsize) -> io::Result<()> {
    // SAFETY: `size` is the struct that this ioctl reads.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, std::ptr::from_ref(size)) }.into())
        .map(drop)
}

/// `fcntl(F_SETOWN)`: who is told of what happens to an open file, by the rights that this process has now.
#[cfg(without_namespaces)]
pub(crate) fn set_owner(file: BorrowedFd, pid: libc::pid_t) -> io::Result<()> {
    // SAFETY: it takes numbers.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETOWN, pid) }.into()).map(drop)
}

/// `fcntl(F_SETSIG)`: by which signal.
#[cfg(without_namespaces)]
pub(crate) fn set_event_signal(file: BorrowedFd, number: c_int) -> io::Result<()> {
    /// Of asm-generic/fcntl.h; the same on every architecture.
    const F_SETSIG: c_int = 10;
    // SAFETY: it takes numbers.
    check(unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, number) }.into()).map(drop)
}

/// `sigaction(2)` with `SIG_DFL`.
pub(crate) fn reset_signal(number: c_int) -> io::Result<()> {
    set_action(number, libc::SIG_DFL)
}

/// `sigaction(2)` with `SIG_IGN`.
pub(crate) fn ignore_signal(number: c_int) -> io::Result<()> {
    set_action(number, libc::SIG_IGN)
}

/// Only for the two that name no function.
fn set_action(number: c_int, what: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero is an action with an empty mask and no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = what;
    // SAFETY: `action` lives through the call and the old action is not asked for; no handler of ours is involved.
    check(unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) }.into()).map(drop)
}
