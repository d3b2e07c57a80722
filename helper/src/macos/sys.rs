//! Everything unsafe: what nix and std do not offer on macOS.
#![expect(unsafe_code, reason = "the one place of this mechanism where raw system calls are made")]

use nix::libc::{self, c_char, c_int, c_void, pid_t};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

/// `PROC_UID_ONLY` of sys/proc_info.h: processes by their effective user.
const BY_USER: u32 = 4;
/// `SANDBOX_FILTER_GLOBAL_NAME` and `SANDBOX_CHECK_NO_REPORT`, as WebKit declares them (SandboxSPI.h): ask about a Mach
/// service, and leave no line in the system's log.
const SERVICE_SILENTLY: c_int = 2 | 0x4000_0000;
/// `SANDBOX_FILTER_NONE`.
const NOTHING: c_int = 0;

// In libSystem, which every program is linked with. sandbox_init is in sandbox.h, deprecated since 10.8 and used by every
// browser since; with flags of 0 it takes the text of a profile, which sandbox_init(3) does not say and Chromium does.
// sandbox_check is in no header; its types are WebKit's.
unsafe extern "C" {
    fn sandbox_init(profile: *const c_char, flags: u64, error: *mut *mut c_char) -> c_int;
    fn sandbox_free_error(error: *mut c_char);
    fn sandbox_check(pid: pid_t, operation: *const c_char, filter: c_int, ...) -> c_int;
    fn mach_timebase_info(fraction: *mut [u32; 2]) -> c_int;
}

/// Takes a descriptor over that nothing else owns.
pub(crate) fn adopt(fd: c_int) -> OwnedFd {
    // SAFETY: callers name descriptors that they were handed and that nothing else owns; a wrong number makes later calls
    // fail and touches no memory.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Closes a descriptor that may be open or not.
pub(super) fn close(fd: c_int) {
    // SAFETY: a call with a number. Callers own everything that is open under it.
    unsafe { libc::close(fd) };
}

/// Whether the kernel gave this process more than its caller has, see issetugid(2).
pub(crate) fn started_with_privilege() -> bool {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::issetugid() != 0 }
}

/// Nothing for the child, its pid for the parent. This process must have only one thread.
pub(super) fn fork() -> io::Result<Option<pid_t>> {
    // SAFETY: with one thread no lock is held by somebody who does not exist in the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// Ends a forked child without what its parent has planned for its own end.
pub(super) fn exit_now(code: c_int) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code) }
}

/// The kernel's own answer to `signal`, if it can be set.
pub(super) fn reset_signal(signal: c_int) {
    // SAFETY: no function of ours is installed. It fails for what cannot be changed, which needs no change.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Drops `signal` from now on. A kqueue hears it all the same.
pub(super) fn ignore_signal(signal: c_int) {
    // SAFETY: as above.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Confines this process and all that it will start, for good.
pub(super) fn confine(profile: &CStr) -> Result<(), String> {
    let mut error = std::ptr::null_mut();
    // SAFETY: the profile ends with a zero, and `error` is a place for a pointer. This process has one thread.
    if unsafe { sandbox_init(profile.as_ptr(), 0, &mut error) } == 0 {
        return Ok(());
    }
    if error.is_null() {
        return Err(io::Error::last_os_error().to_string());
    }
    // SAFETY: after a failure it is a string that ends with a zero and is ours until we free it, which happens once.
    unsafe {
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        sandbox_free_error(error);
        Err(message)
    }
}

/// Whether a process has a profile at all. To be asked by one that has none: a profile can forbid the question.
pub(super) fn is_confined(pid: pid_t) -> bool {
    // SAFETY: without an operation there are no further arguments.
    unsafe { sandbox_check(pid, std::ptr::null(), NOTHING) == 1 }
}

/// Whether the profile of `pid`, or its lack of one, lets it look up a service. Nothing where that cannot be asked, for
/// one of a process that is dead.
pub(super) fn may_look_up(pid: pid_t, service: &CStr) -> Option<bool> {
    let operation = c"mach-lookup".as_ptr();
    // SAFETY: with this filter one string follows, and both end with a zero.
    match unsafe { sandbox_check(pid, operation, SERVICE_SILENTLY, service.as_ptr()) } {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// The processes of a user, those that nobody has waited for included.
pub(super) fn processes_of(uid: u32) -> io::Result<Vec<pid_t>> {
    let mut pids: Vec<pid_t> = vec![0; 1024];
    loop {
        let size = size_of_val(pids.as_slice());
        let room = c_int::try_from(size).map_err(io::Error::other)?;
        // SAFETY: the kernel writes at most `room` bytes into the buffer, which is so long.
        let filled = unsafe { libc::proc_listpids(BY_USER, uid, pids.as_mut_ptr().cast(), room) };
        let filled = usize::try_from(filled).unwrap_or(0);
        if filled == 0 {
            return Err(io::Error::last_os_error());
        }
        if filled < size {
            pids.truncate(filled.checked_div(size_of::<pid_t>()).unwrap_or(0));
            return Ok(pids);
        }
        // Full: there may be more.
        pids.resize(pids.len().saturating_mul(2), 0);
    }
}

/// What a process has used and holds.
#[derive(Clone, Copy)]
pub(super) struct Used {
    /// Processor time, with that of the children that it has waited for.
    pub(super) cpu: Duration,
    /// Bytes that the kernel holds against it (`phys_footprint`): also what is compressed or swapped.
    pub(super) memory: u64,
}

/// Nothing if it is dead.
pub(super) fn used_by(pid: pid_t) -> Option<Used> {
    // SAFETY: numbers alone, for which zero is a value.
    let mut info: libc::rusage_info_v4 = unsafe { std::mem::zeroed() };
    let place: *mut libc::rusage_info_v4 = &mut info;
    // SAFETY: the kernel fills the structure of this version, which `place` points to.
    if unsafe { libc::proc_pid_rusage(pid, libc::RUSAGE_INFO_V4, place.cast::<*mut c_void>()) } != 0 {
        return None;
    }
    let own = info.ri_user_time.saturating_add(info.ri_system_time);
    let childrens = info.ri_child_user_time.saturating_add(info.ri_child_system_time);
    Some(Used { cpu: from_ticks(own.saturating_add(childrens)), memory: info.ri_phys_footprint })
}

/// A tick is a nanosecond on Intel and 125/3 of one on Apple's processors.
fn from_ticks(ticks: u64) -> Duration {
    let mut fraction = [0; 2];
    // SAFETY: it fills two numbers of 32 bits, see mach/mach_time.h.
    unsafe { mach_timebase_info(&mut fraction) };
    let [over, under] = fraction.map(|part| u128::from(part.max(1)));
    let nanoseconds = u128::from(ticks).saturating_mul(over).checked_div(under).unwrap_or(u128::MAX);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// Waits for a child: its status, and the processor time of it and all that it has waited for.
pub(super) fn wait_with_usage(pid: pid_t) -> io::Result<(c_int, Duration)> {
    let mut status = 0;
    // SAFETY: numbers alone, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both places are ours and of the types that wait4(2) fills.
        if unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_usec).unwrap_or(0).saturating_mul(1000))
    };
    Ok((status, time(usage.ru_utime).saturating_add(time(usage.ru_stime))))
}

/// A string for the kernel; what holds a zero byte is none.
pub(super) fn c_string(bytes: impl Into<Vec<u8>>) -> io::Result<CString> {
    CString::new(bytes).map_err(io::Error::other)
}

/// Sets a limit of this process, soft and hard, or as high as it may.
pub(super) fn limit(resource: c_int, value: u64) -> io::Result<()> {
    let now = limit_of(resource)?;
    let value = value.min(now.rlim_max);
    let wanted = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: it reads one structure.
    match unsafe { libc::setrlimit(resource, &wanted) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What is in force.
pub(super) fn limit_of(resource: c_int) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it fills one structure.
    match unsafe { libc::getrlimit(resource, &mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}
