//! The kernel's interface. Arguments are chosen so that a call which is let through either succeeds without a trace, or
//! fails for another reason than a refusal.

use crate::nr;
use crate::sys::{HERE, SIGCHLD, at, at_mut, call_with, path};
use crate::{Named, Outcome};
use std::ffi::{CStr, CString, OsString, c_char, c_long};
use std::fs::OpenOptions;
use std::io::{self, Write};

pub const ATTACKS: &[Named] = &[
    ("nested_user_namespace_by_unshare", |_| make(nr::UNSHARE, &[NEW_USER])),
    ("nested_user_namespace_by_clone", |_| clone(NEW_USER)),
    ("nested_user_namespace_by_clone3", |_| clone3(NEW_USER)),
    ("nested_user_namespace_by_high_garbage", |_| clone(GARBAGE | NEW_USER)),
    #[cfg(target_arch = "x86_64")]
    ("nested_user_namespace_by_int80", |_| crate::sys::call_by_the_gate(310, 1 << 28).map(drop)),
    ("nested_network_namespace", |_| clone(NEW_USER | NEW_NET)),
    ("nested_process_namespace", |_| clone(NEW_USER | NEW_PID)),
    ("join_a_namespace", |_| make(nr::SETNS, &[BAD, 0])),
    ("firewall_in_a_namespace", |_| firewall_in_a_namespace()),
    ("mount_over_etc_in_a_namespace", |_| mount_over_etc_in_a_namespace()),
    // To a place that there is, of a kind that there is not.
    ("mount", |_| make_as_owner(nr::MOUNT, &[at(c"none"), at(c"/"), at(c"nothing")])),
    // Of a file on which nothing is mounted.
    ("unmount", |_| make_as_owner(nr::UMOUNT2, &[at(own_program()?.as_c_str())])),
    ("new_mount_by_fsopen", |_| make_as_owner(nr::FSOPEN, &[at(c"tmpfs")])),
    ("copy_of_a_mount_by_open_tree", |_| make_as_owner(nr::OPEN_TREE, &[HERE, at(c"/"), TREE_CLONE])),
    ("move_mount", |_| make_as_owner(nr::MOVE_MOUNT, &[BAD, at(c""), BAD, at(c""), BOTH_EMPTY])),
    ("mount_setattr", |_| make_as_owner(nr::MOUNT_SETATTR, &[BAD, at(c""), 0x1000, at(&READ_ONLY), 32])),
    ("pivot_root", |_| make_as_owner(nr::PIVOT_ROOT, &[nowhere(), nowhere()])),
    ("chroot", |_| make_as_owner(nr::CHROOT, &[at(c"/")])),
    ("userfaultfd", |_| make(nr::USERFAULTFD, &[1])),
    // BPF_OBJ_GET, of an object that does not exist.
    ("bpf", |_| make(nr::BPF, &[7, at(&[nowhere() as u64, 0]), 16])),
    ("perf_event_open", |_| make(nr::PERF_EVENT_OPEN, &[at(&PERF_EVENT), 0, BAD, BAD])),
    ("io_uring", |_| make(nr::IO_URING_SETUP, &[1, at_mut(&mut [0_u64; 15])])),
    ("asynchronous_io", |_| make(nr::IO_SETUP, &[1, at_mut(&mut 0_u64)])),
    ("add_key", |_| make(nr::ADD_KEY, &[at(c"user"), at(c"agentkit"), at(c"x"), 1, OF_PROCESS])),
    ("request_key", |_| make(nr::REQUEST_KEY, &[at(c"user"), at(c"agentkit-none"), 0, 0])),
    ("keyctl", |_| make(nr::KEYCTL, &[0, OF_SESSION])),
    ("key_that_outlives_the_run", |arguments| key_that_outlives_the_run(&path(&arguments[0]))),
    ("unlink_the_key", |arguments| unlink_the_key(&path(&arguments[0]))),
    ("trace_a_child", |_| trace_a_child()),
    ("read_a_childs_memory", |_| read_a_childs_memory()),
    ("steal_a_childs_descriptor", |_| steal_a_childs_descriptor()),
    ("process_madvise", |_| make(nr::PROCESS_MADVISE, &[BAD, 0, 0, 20])),
    ("compare_kernel_objects", |_| compare_kernel_objects()),
    ("secret_memory", |_| make(nr::MEMFD_SECRET, &[0])),
    ("memory_file", |_| make(nr::MEMFD_CREATE, &[at(c"x")])),
    ("program_from_memory", |_| program_from_memory()),
    ("memory_pages_into_a_pipe", |_| memory_pages_into_a_pipe()),
    ("file_pages_into_a_pipe", |_| file_pages_into_a_pipe()),
    ("weaker_personality", |_| make(nr::PERSONALITY, &[READ_IMPLIES_EXEC])),
    ("weaker_personality_by_high_garbage", |_| make(nr::PERSONALITY, &[GARBAGE | READ_IMPLIES_EXEC])),
    ("typing_by_high_garbage", |_| make(nr::IOCTL, &[0, GARBAGE | 0x5412, at(c"x")])),
    // TIOCLINUX. Standard input is no console.
    ("paste_on_a_console", |_| make(nr::IOCTL, &[0, 0x541c, at(&[3_u8])])),
    ("netlink_by_high_garbage", |_| make(nr::SOCKET, &[GARBAGE | NETLINK, RAW, 0])),
    ("call_newer_than_the_filter", |_| make(nr::LISTXATTRAT, &[HERE, at(c"/")])),
    #[cfg(target_arch = "x86_64")]
    ("int80", |_| crate::sys::call_by_the_gate(20, 0).map(drop)),
    // getpid, as the one before.
    #[cfg(target_arch = "x86_64")]
    ("x32", |_| make(0x4000_0000 | 39, &[])),
    #[cfg(target_arch = "x86_64")]
    ("segment_descriptor", |_| make(nr::MODIFY_LDT, &[1, at(&SEGMENT), 16])),
    #[cfg(target_arch = "x86_64")]
    ("hardware_ports", |_| make(nr::IOPL, &[3])),
    ("file_handle", |_| file_handle()),
    ("open_by_handle", |_| open_by_handle()),
    ("fanotify", |_| make(nr::FANOTIFY_INIT, &[0x200])),
    // Q_GETFMT of a device that does not exist.
    ("quotas", |_| make(nr::QUOTACTL, &[0x80_0004 << 8, nowhere(), 0, at_mut(&mut 0_u64)])),
    // The time is left; no time zone is that far west.
    ("clock_by_settimeofday", |_| make(nr::SETTIMEOFDAY, &[0, at(&[10_000_i32, 0])])),
    // No second has so few ticks as none.
    ("clock_by_clock_adjtime", |_| make(nr::CLOCK_ADJTIME, &[0, at(&NO_TICKS)])),
    ("kernel_log", |_| make(nr::SYSLOG, &[3, at_mut(&mut [0_u8; 256]), 256])),
    ("accounting", |_| make(nr::ACCT, &[nowhere()])),
    ("swap_file", |_| make(nr::SWAPON, &[nowhere()])),
    // Without the magic numbers it does nothing.
    ("reboot", |arguments| of_the_host("pid", &arguments[0], make(nr::REBOOT, &[0, 0, 0]))),
    // No flag has this value, so nothing is loaded.
    ("another_kernel", |_| make(nr::KEXEC_LOAD, &[0, 0, 0, 0xff00])),
    ("kernel_module", |_| make(nr::FINIT_MODULE, &[BAD, at(c"")])),
    ("unload_a_kernel_module", |_| make(nr::DELETE_MODULE, &[at(c"agentkit-none")])),
    ("host_name", |arguments| of_the_host("uts", &arguments[0], host_name())),
    ("device_node", |arguments| make_device_node(&arguments[0])),
    ("write_back", |arguments| write_back(&arguments[0])),
    ("open_for_reading", |arguments| OpenOptions::new().read(true).open(&arguments[0]).map(drop)),
    ("open_for_writing", |arguments| OpenOptions::new().write(true).open(&arguments[0]).map(drop)),
];

const NEW_NS: usize = 0x0002_0000;
const NEW_USER: usize = 0x1000_0000;
const NEW_PID: usize = 0x2000_0000;
const NEW_NET: usize = 0x4000_0000;
/// Of numbers that the kernel takes as 32 bits, the half that it drops: a filter that compares 64 is passed.
const GARBAGE: usize = 0xdead_beef_0000_0000;
/// As a descriptor, one that nobody has.
const BAD: usize = usize::MAX;
/// With all mounts below: some of them are locked, and a copy without them is not allowed.
const TREE_CLONE: usize = 0x8001;
/// Both paths are empty.
const BOTH_EMPTY: usize = 0x44;
/// Keyrings.
const OF_PROCESS: usize = -2_isize as usize;
const OF_SESSION: usize = -3_isize as usize;
const OF_USER: usize = -4_isize as usize;
const READ_IMPLIES_EXEC: usize = 0x40_0000;
const NETLINK: usize = 16;
const RAW: usize = 3;
/// struct mount_attr.
static READ_ONLY: [u64; 4] = [1, 0, 0, 0];
/// struct perf_event_attr: the processor clock of this process in user mode, not started.
static PERF_EVENT: [u64; 8] = [1 | 64 << 32, 0, 0, 0, 0, 1 | 1 << 5 | 1 << 6, 0, 0];
/// struct user_desc: a flat segment of data.
#[cfg(target_arch = "x86_64")]
static SEGMENT: [u32; 4] = [0, 0, 0xf_ffff, 1 | 1 << 4 | 1 << 6];

/// A path where nothing is.
/// `struct timex` with `ADJ_TICK`, and no tick; see adjtimex(2).
const NO_TICKS: [u64; 26] = {
    let mut timex = [0; 26];
    timex[0] = 0x4000;
    timex
};

fn own_program() -> io::Result<CString> {
    let program = std::env::args_os().next().unwrap_or_default();
    Ok(CString::new(program.into_encoded_bytes())?)
}

fn nowhere() -> usize {
    at(c"/nonexistent")
}

fn make(number: c_long, arguments: &[usize]) -> Outcome {
    call_with(number, arguments).map(drop)
}

/// Makes a call that only the owner of a namespace of mounts may make. Where no such namespace is to be had, the one
/// that there is may do.
fn make_as_owner(number: c_long, arguments: &[usize]) -> Outcome {
    let _ = make(nr::UNSHARE, &[NEW_USER | NEW_NS]);
    make(number, arguments)
}

/// A child that does nothing, in new namespaces.
fn clone(flags: usize) -> Outcome {
    match call_with(nr::CLONE, &[flags | SIGCHLD])? {
        0 => std::process::exit(0),
        child => make(nr::WAIT4, &[child]),
    }
}

fn clone3(flags: usize) -> Outcome {
    // struct clone_args, in its first version.
    let arguments = [flags as u64, 0, 0, 0, SIGCHLD as u64, 0, 0, 0];
    match call_with(nr::CLONE3, &[at(&arguments), size_of_val(&arguments)])? {
        0 => std::process::exit(0),
        child => make(nr::WAIT4, &[child]),
    }
}

/// The way of most attacks on the kernel itself: the firewall's code, which a namespace's owner may talk to.
fn firewall_in_a_namespace() -> Outcome {
    make(nr::UNSHARE, &[NEW_USER | NEW_NET])?;
    const NETFILTER: usize = 12;
    make(nr::SOCKET, &[NETLINK, RAW, NETFILTER])
}

fn mount_over_etc_in_a_namespace() -> Outcome {
    // Only there: nobody else sees the mount.
    make(nr::UNSHARE, &[NEW_USER | NEW_NS])?;
    // Some sandboxes have no such directory, but others that are trusted as much.
    let over = |place: &CStr| make(nr::MOUNT, &[0, at(place), at(c"tmpfs")]);
    over(c"/etc").or_else(|_| over(c"/usr"))
}

/// In the user's own keyring. Should nobody unlink it, it expires.
fn key_that_outlives_the_run(name: &CStr) -> Outcome {
    const SET_TIMEOUT: usize = 15;
    let key = call_with(nr::ADD_KEY, &[at(c"user"), at(name), at(c"x"), 1, OF_USER])?;
    make(nr::KEYCTL, &[SET_TIMEOUT, key, 10])
}

/// What the host does afterwards, to see whether it is there and to clean up.
fn unlink_the_key(name: &CStr) -> Outcome {
    const SEARCH: usize = 10;
    const UNLINK: usize = 9;
    let key = call_with(nr::KEYCTL, &[SEARCH, OF_USER, at(c"user"), at(name)])?;
    make(nr::KEYCTL, &[UNLINK, key, OF_USER])
}

/// A process of our own that waits to be attacked.
struct Child(usize);

impl Child {
    fn start() -> io::Result<Self> {
        const DEATH_SIGNAL: usize = 1;
        match call_with(nr::CLONE, &[SIGCHLD])? {
            0 => loop {
                let _ = make(nr::PRCTL, &[DEATH_SIGNAL, 9]);
                let _ = make(nr::PPOLL, &[]);
            },
            child => Ok(Child(child)),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Where it cannot be killed, it dies with us.
        if make(nr::KILL, &[self.0, 9]).is_ok() {
            let _ = make(nr::WAIT4, &[self.0]);
        }
    }
}

fn trace_a_child() -> Outcome {
    const SEIZE: usize = 0x4206;
    let child = Child::start()?;
    make(nr::PTRACE, &[SEIZE, child.0])
}

fn read_a_childs_memory() -> Outcome {
    let there = [0_u8; 8];
    let mut here = [0_u8; 8];
    let child = Child::start()?;
    // A child has everything where we have it.
    let (to, from) = ([at_mut(&mut here), 8], [at(&there), 8]);
    make(nr::PROCESS_VM_READV, &[child.0, at(&to), 1, at(&from), 1])
}

fn steal_a_childs_descriptor() -> Outcome {
    let child = Child::start()?;
    let handle = call_with(nr::PIDFD_OPEN, &[child.0])?;
    make(nr::PIDFD_GETFD, &[handle, 0])
}

fn compare_kernel_objects() -> Outcome {
    const TABLES_OF_DESCRIPTORS: usize = 2;
    let this = std::process::id() as usize;
    make(nr::KCMP, &[this, this, TABLES_OF_DESCRIPTORS])
}

/// Executes this program again, from a file that no directory has.
fn program_from_memory() -> Outcome {
    const EMPTY_PATH: usize = 0x1000;
    let words: Vec<OsString> = std::env::args_os().collect();
    let program = std::fs::read(&words[0])?;
    let file = call_with(nr::MEMFD_CREATE, &[at(c"x")])?;
    let mut written = 0;
    while written < program.len() {
        written += call_with(nr::WRITE, &[file, at(&program[written..]), program.len() - written])?;
    }
    // What is said then is said by the program in memory, which does what any process may.
    let again: [CString; 4] = [path(&words[0]), path(&words[1]), path("open_for_reading"), path(&words[0])];
    let mut pointers: Vec<*const c_char> = again.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    make(nr::EXECVEAT, &[file, at(c""), at(pointers.as_slice()), 0, EMPTY_PATH])
}

/// Both ends, the reading one first.
fn pipe() -> io::Result<[usize; 2]> {
    let mut ends = [0_i32; 2];
    make(nr::PIPE2, &[at_mut(&mut ends), 0])?;
    Ok(ends.map(|end| end as usize))
}

fn memory_pages_into_a_pipe() -> Outcome {
    let [_, to] = pipe()?;
    let bytes = [at(b"x"), 1];
    make(nr::VMSPLICE, &[to, at(&bytes), 1])
}

fn file_pages_into_a_pipe() -> Outcome {
    let [_, to] = pipe()?;
    let program = std::env::args_os().next().map(path).unwrap_or_default();
    let from = call_with(nr::OPENAT, &[HERE, at(program.as_c_str())])?;
    make(nr::SPLICE, &[from, 0, to, 0, 1])
}

/// struct file_handle with room.
type Handle = [u32; 34];

fn file_handle() -> Outcome {
    let mut handle: Handle = [0; 34];
    handle[0] = 128;
    make(nr::NAME_TO_HANDLE_AT, &[HERE, at(c"/"), at_mut(&mut handle), at_mut(&mut 0_u64)])
}

/// The root directory of the file system that the program is on, whatever part of it is shown: directory 2 of ext4. On
/// another file system the kernel finds no such file, and says so.
fn open_by_handle() -> Outcome {
    const NUMBER_AND_GENERATION: u32 = 1;
    let mut handle: Handle = [0; 34];
    handle[..3].copy_from_slice(&[8, NUMBER_AND_GENERATION, 2]);
    make(nr::OPEN_BY_HANDLE_AT, &[HERE, at_mut(&mut handle), 0])
}

/// What came of a call that is about the namespace of this process: it means something only if that is the host's, given
/// as its link in /proc.
fn of_the_host(kind: &str, host: &OsString, result: Outcome) -> Outcome {
    match std::fs::read_link(format!("/proc/self/ns/{kind}")) {
        Ok(own) if own.as_os_str() != host => {
            let what = result.map_or_else(|error| error.to_string(), |()| "done".to_owned());
            Err(io::Error::other(format!("{what}, but in a namespace of its own")))
        }
        _ => result,
    }
}

/// Sets it to what it is.
fn host_name() -> Outcome {
    // struct utsname: texts of this length each, of which the second is the name.
    const LENGTH: usize = 65;
    let mut names = [0_u8; 6 * LENGTH];
    make(nr::UNAME, &[at_mut(&mut names)])?;
    let name = &names[LENGTH..2 * LENGTH];
    let length = name.iter().take_while(|byte| **byte != 0).count();
    make(nr::SETHOSTNAME, &[at(name), length])
}

/// Writes what is there already.
fn write_back(place: &OsString) -> Outcome {
    let text = std::fs::read(place)?;
    OpenOptions::new().write(true).open(place)?.write_all(&text)
}

/// A second /dev/null.
fn make_device_node(place: &OsString) -> Outcome {
    const CHARACTER_DEVICE: usize = 0o020_666;
    make(nr::MKNODAT, &[HERE, at(path(place).as_c_str()), CHARACTER_DEVICE, 1 << 8 | 3])
}
