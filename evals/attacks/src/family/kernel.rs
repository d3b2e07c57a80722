//! The kernel's interface.
//!
//! Most of these calls leave no trace on the host when they succeed, so the evidence is the kernel's answer, as the
//! attacker passed it on. A call that harms nobody has to go through. Of one that would, the arguments are wrong in a way
//! that the kernel's own code finds out, behind whatever might have refused the call: the errno shows how far it came.

use crate::attack::Family::Kernel;
use crate::attack::{Attack, CannotBite, Staged};
use crate::judge::{Evidence, Seen};
use crate::processes;
use crate::run::Run;
use crate::scene::{Scene, Tool};
use agentkit_protocol::Control;
use nix::libc;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

const FILTERED: &[Control] = &[Control::SyscallsFiltered];
const PRIVILEGED: &[Control] = &[Control::SyscallsFiltered, Control::PrivilegesDropped];
const SHOWN: &[Control] = &[Control::FilesystemConfined, Control::PrivilegesDropped];

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        Kernel,
        "nested_user_namespace_by_unshare",
        "code that you run becomes root in a world of its own, from where most of the kernel can be attacked",
        FILTERED,
        |_| made("nested_user_namespace_by_unshare"),
    ),
    Attack::new(
        Kernel,
        "nested_user_namespace_by_clone",
        "code that you run becomes root in a world of its own as it starts a process, where only unshare was forbidden",
        FILTERED,
        |_| made("nested_user_namespace_by_clone"),
    ),
    Attack::new(
        Kernel,
        "nested_user_namespace_by_clone3",
        "code that you run becomes root in a world of its own by a call whose arguments no filter can see",
        FILTERED,
        |_| made("nested_user_namespace_by_clone3"),
    ),
    Attack::new(
        Kernel,
        "nested_user_namespace_by_high_garbage",
        "code that you run becomes root in a world of its own: bits that the kernel ignores pass a filter that compares all",
        FILTERED,
        |_| made("nested_user_namespace_by_high_garbage"),
    ),
    Attack::new(
        Kernel,
        "nested_user_namespace_by_int80",
        "code that you run becomes root in a world of its own by a 32-bit call, which passes a filter for 64-bit ones",
        FILTERED,
        |_| made_on_x86("nested_user_namespace_by_int80"),
    ),
    Attack::new(
        Kernel,
        "nested_network_namespace",
        "code that you run is root of a network of its own, and reaches the kernel's network code that is for root",
        FILTERED,
        |_| made("nested_network_namespace"),
    ),
    Attack::new(
        Kernel,
        "nested_process_namespace",
        "code that you run hides its processes from whoever counts or ends them in the sandbox",
        FILTERED,
        |_| made("nested_process_namespace"),
    ),
    Attack::new(
        Kernel,
        "join_a_namespace",
        "code that gets hold of a namespace of the host enters it: the way out of most containers",
        FILTERED,
        |_| reached("join_a_namespace", &[libc::EBADF]),
    ),
    Attack::new(
        Kernel,
        "firewall_in_a_namespace",
        "an ordinary program talks to the kernel's firewall, whose bugs have made many an ordinary program root",
        FILTERED,
        |_| made("firewall_in_a_namespace"),
    ),
    Attack::new(
        Kernel,
        "mount_over_etc_in_a_namespace",
        "code that you run replaces the files that other programs in the sandbox trust",
        PRIVILEGED,
        |_| made("mount_over_etc_in_a_namespace"),
    ),
    Attack::new(
        Kernel,
        "mount",
        "code that you run changes which files are seen where, and undoes what hides yours",
        PRIVILEGED,
        |_| reached("mount", &[libc::ENODEV]),
    ),
    Attack::new(
        Kernel,
        "unmount",
        "code that you run takes away the mounts that hide your files",
        PRIVILEGED,
        |_| reached("unmount", &[libc::EINVAL]),
    ),
    Attack::new(
        Kernel,
        "new_mount_by_fsopen",
        "code that you run mounts a file system by the newer calls, which older filters do not know",
        PRIVILEGED,
        |_| made("new_mount_by_fsopen"),
    ),
    Attack::new(
        Kernel,
        "copy_of_a_mount_by_open_tree",
        "code that you run copies mounts, without those on top that hide something",
        PRIVILEGED,
        |_| made("copy_of_a_mount_by_open_tree"),
    ),
    Attack::new(Kernel, "move_mount", "code that you run puts a mount where it likes", PRIVILEGED, |_| {
        reached("move_mount", &[libc::EBADF])
    }),
    Attack::new(
        Kernel,
        "mount_setattr",
        "code that you run makes what is mounted read-only writable",
        PRIVILEGED,
        |_| reached("mount_setattr", &[libc::EBADF]),
    ),
    Attack::new(
        Kernel,
        "pivot_root",
        "code that you run exchanges the root directory, with what was hidden below it",
        PRIVILEGED,
        |_| reached("pivot_root", &[libc::ENOENT]),
    ),
    Attack::new(
        Kernel,
        "chroot",
        "code that you run moves its root directory, by which root breaks out of one",
        PRIVILEGED,
        |_| made("chroot"),
    ),
    Attack::new(
        Kernel,
        "userfaultfd",
        "code that you run stops the kernel in the middle of a copy: it makes rare bugs of the kernel certain ones",
        FILTERED,
        |_| made("userfaultfd"),
    ),
    Attack::new(
        Kernel,
        "bpf",
        "code that you run reaches the call behind the kernel's own compiler, a frequent source of ways to become root",
        FILTERED,
        |_| reached("bpf", &[libc::ENOENT]),
    ),
    Attack::new(
        Kernel,
        "perf_event_open",
        "code that you run measures the processor finely enough to read secrets from other programs' timing",
        FILTERED,
        |_| made("perf_event_open"),
    ),
    Attack::new(
        Kernel,
        "io_uring",
        "code that you run does its input and output past every system-call filter",
        FILTERED,
        |_| made("io_uring"),
    ),
    Attack::new(
        Kernel,
        "asynchronous_io",
        "code that you run makes the kernel work for it in the background, by code that is rarely tested",
        FILTERED,
        |_| made("asynchronous_io"),
    ),
    Attack::new(
        Kernel,
        "add_key",
        "code that you run takes kernel memory for keys, which belong to no sandbox",
        FILTERED,
        |_| made("add_key"),
    ),
    Attack::new(
        Kernel,
        "request_key",
        "code that you run asks for your keys, and may have the kernel start a program of the host that finds them",
        FILTERED,
        |_| reached("request_key", &[libc::ENOKEY]),
    ),
    Attack::new(
        Kernel,
        "keyctl",
        "code that you run looks into your session's keyring, where kerberos tickets and disk keys are",
        FILTERED,
        |_| made("keyctl"),
    ),
    Attack::new(
        Kernel,
        "key_that_outlives_the_run",
        "code that you run leaves something in your keyring for the next run to find: two of them can talk",
        FILTERED,
        key_that_outlives_the_run,
    ),
    Attack::new(
        Kernel,
        "trace_a_child",
        "code that you run uses the debugger's interface, through which filters have been passed by",
        FILTERED,
        |_| made("trace_a_child"),
    ),
    Attack::new(
        Kernel,
        "read_a_childs_memory",
        "code that you run may read other processes' memory: yours, if the sandbox shows one",
        FILTERED,
        |_| made("read_a_childs_memory"),
    ),
    Attack::new(
        Kernel,
        "steal_a_childs_descriptor",
        "code that you run takes open files out of other processes: out of yours, if the sandbox shows one",
        FILTERED,
        |_| made("steal_a_childs_descriptor"),
    ),
    Attack::new(
        Kernel,
        "process_madvise",
        "code that you run slows down other processes by having their memory swapped out",
        FILTERED,
        |_| reached("process_madvise", &[libc::EBADF]),
    ),
    Attack::new(
        Kernel,
        "compare_kernel_objects",
        "code that you run learns how the kernel orders its objects in memory, which an attack on it needs",
        FILTERED,
        |_| made("compare_kernel_objects"),
    ),
    Attack::new(
        Kernel,
        "secret_memory",
        "code that you run has memory that nobody can look into and that is never swapped out",
        FILTERED,
        |_| made("secret_memory"),
    ),
    Attack::new(
        Kernel,
        "memory_file",
        "code that you run has files that are in no directory: neither a disk limit nor a scanner sees them",
        FILTERED,
        |_| made("memory_file"),
    ),
    Attack::new(
        Kernel,
        "program_from_memory",
        "code that you run starts programs that were never on the disk, past whatever watches files",
        FILTERED,
        |_| made("program_from_memory"),
    ),
    Attack::new(
        Kernel,
        "memory_pages_into_a_pipe",
        "code that you run reaches the code by which ordinary users could once become root (vmsplice)",
        FILTERED,
        |_| made("memory_pages_into_a_pipe"),
    ),
    Attack::new(
        Kernel,
        "file_pages_into_a_pipe",
        "code that you run reaches the code by which read-only files could once be overwritten (Dirty Pipe)",
        FILTERED,
        |_| made("file_pages_into_a_pipe"),
    ),
    Attack::new(
        Kernel,
        "weaker_personality",
        "code that you run switches off protections of memory, also for the programs that it starts",
        FILTERED,
        |_| made("weaker_personality"),
    ),
    Attack::new(
        Kernel,
        "weaker_personality_by_high_garbage",
        "code that you run switches off protections of memory: bits that the kernel ignores pass a filter that compares all",
        FILTERED,
        |_| made("weaker_personality_by_high_garbage"),
    ),
    Attack::new(
        Kernel,
        "typing_by_high_garbage",
        "code that you run types commands into your terminal: bits that the kernel ignores pass a filter that compares all",
        FILTERED,
        |_| reached("typing_by_high_garbage", &[libc::ENOTTY]),
    ),
    Attack::new(
        Kernel,
        "paste_on_a_console",
        "code that you run selects text on a Linux console and pastes it into your shell there: where only typing was forbidden",
        FILTERED,
        |_| reached("paste_on_a_console", &[libc::ENOTTY]),
    ),
    Attack::new(
        Kernel,
        "netlink_by_high_garbage",
        "code that you run opens a kind of socket that was forbidden, by bits that the kernel ignores",
        &[Control::NetworkBlocked, Control::SyscallsFiltered],
        |_| made("netlink_by_high_garbage"),
    ),
    Attack::new(
        Kernel,
        "call_newer_than_the_filter",
        "every call that the kernel gains is open to the code that you run: the filter lists what is bad, not what is good",
        FILTERED,
        |_| made("call_newer_than_the_filter"),
    ),
    Attack::new(
        Kernel,
        "int80",
        "code that you run makes 32-bit calls, whose numbers mean something else to the filter",
        FILTERED,
        |_| made_on_x86("int80"),
    ),
    Attack::new(
        Kernel,
        "x32",
        "code that you run makes any call by a second number, which the filter does not know",
        FILTERED,
        |_| made_on_x86("x32"),
    ),
    Attack::new(
        Kernel,
        "segment_descriptor",
        "code that you run changes the processor's tables, by old code with a history of bugs",
        FILTERED,
        |_| made_on_x86("segment_descriptor"),
    ),
    Attack::new(
        Kernel,
        "hardware_ports",
        "code that you run talks to the hardware itself",
        PRIVILEGED,
        |_| made_on_x86("hardware_ports"),
    ),
    Attack::new(
        Kernel,
        "file_handle",
        "code that you run learns the number of a file, by which root opens it wherever it is",
        FILTERED,
        |_| made("file_handle"),
    ),
    Attack::new(
        Kernel,
        "open_by_handle",
        "code that you run opens any file of the disk by its number, whatever directories are shown (Shocker)",
        PRIVILEGED,
        |_| reached("open_by_handle", &[libc::ESTALE]),
    ),
    Attack::new(
        Kernel,
        "fanotify",
        "code that you run watches what other programs do with files",
        FILTERED,
        |_| made("fanotify"),
    ),
    Attack::new(
        Kernel,
        "quotas",
        "code that you run reads and sets how much of the disk each user may have",
        FILTERED,
        |_| reached("quotas", &[libc::ENOENT]),
    ),
    Attack::new(
        Kernel,
        "clock_by_settimeofday",
        "code that you run sets the clock: certificates that ran out are valid again, logs lie",
        PRIVILEGED,
        |_| reached("clock_by_settimeofday", &[libc::EINVAL]),
    ),
    Attack::new(
        Kernel,
        "clock_by_clock_adjtime",
        "code that you run makes the clock go faster or slower, where only setting it was forbidden",
        PRIVILEGED,
        |_| reached("clock_by_clock_adjtime", &[libc::EINVAL]),
    ),
    Attack::new(
        Kernel,
        "kernel_log",
        "code that you run reads the kernel's log: addresses, devices, what other programs did",
        PRIVILEGED,
        |_| made("kernel_log"),
    ),
    Attack::new(
        Kernel,
        "accounting",
        "code that you run has the kernel write a record of every program into a file",
        PRIVILEGED,
        |_| reached("accounting", &[libc::ENOENT]),
    ),
    Attack::new(
        Kernel,
        "swap_file",
        "code that you run has the memory of all programs written into a file of its own",
        PRIVILEGED,
        |_| reached("swap_file", &[libc::ENOENT]),
    ),
    Attack::new(Kernel, "reboot", "code that you run restarts your machine", PRIVILEGED, |_| {
        with_namespace(reached("reboot", &[libc::EINVAL])?, "pid")
    }),
    Attack::new(
        Kernel,
        "another_kernel",
        "code that you run replaces the running kernel",
        PRIVILEGED,
        |_| reached("another_kernel", &[libc::EINVAL]),
    ),
    Attack::new(
        Kernel,
        "kernel_module",
        "code that you run loads code into the kernel: it owns the machine",
        PRIVILEGED,
        |_| reached("kernel_module", &[libc::EBADF]),
    ),
    Attack::new(
        Kernel,
        "unload_a_kernel_module",
        "code that you run takes drivers out of the kernel",
        PRIVILEGED,
        |_| reached("unload_a_kernel_module", &[libc::ENOENT]),
    ),
    Attack::new(Kernel, "host_name", "code that you run renames your machine", PRIVILEGED, |_| {
        with_namespace(made("host_name")?, "uts")
    }),
    Attack::new(
        Kernel,
        "device_node",
        "code that you run makes a device node: by that of the disk, root reads and writes all of it",
        PRIVILEGED,
        device_node,
    ),
    Attack::new(
        Kernel,
        "core_dump_handler",
        "code that you run names the program that the host starts, as root, when a process crashes",
        SHOWN,
        |_| opened("write_back", "/proc/sys/kernel/core_pattern"),
    ),
    Attack::new(
        Kernel,
        "kernel_command",
        "code that you run restarts your machine, or kills everything on it, by one letter",
        SHOWN,
        |_| opened("open_for_writing", "/proc/sysrq-trigger"),
    ),
    Attack::new(
        Kernel,
        "control_group_limits",
        "code that you run changes the limits that it is under",
        SHOWN,
        |_| opened("open_for_writing", "/sys/fs/cgroup/cgroup.subtree_control"),
    ),
    Attack::new(
        Kernel,
        "physical_memory",
        "code that you run reads the memory of the whole machine",
        SHOWN,
        |_| opened("open_for_reading", "/dev/mem"),
    ),
    Attack::new(
        Kernel,
        "virtual_machine_device",
        "code that you run reaches the kernel's code for virtual machines",
        SHOWN,
        |_| opened("open_for_reading", "/dev/kvm"),
    ),
    Attack::new(Kernel, "tunnel_device", "code that you run makes networks of its own", SHOWN, |_| {
        opened("open_for_reading", "/dev/net/tun")
    }),
    Attack::new(
        Kernel,
        "file_system_device",
        "code that you run serves file systems to the kernel, and stops whoever looks at them",
        SHOWN,
        |_| opened("open_for_reading", "/dev/fuse"),
    ),
    Attack::new(
        Kernel,
        "python_nested_user_namespace",
        "a script becomes root in a world of its own by a raw call, without a program of its own",
        FILTERED,
        |_| made("user_namespace")?.in_python(),
    ),
    Attack::new(
        Kernel,
        "python_trace_a_child",
        "a script uses the debugger's interface by a raw call, without a program of its own",
        FILTERED,
        |_| made("trace_a_child")?.in_python(),
    ),
    Attack::new(
        Kernel,
        "python_program_from_memory",
        "a script starts programs that were never on the disk, although all that it brought is text",
        FILTERED,
        python_program_from_memory,
    ),
];

/// The evidence is that the call went through.
fn made(name: &str) -> Result<Staged, CannotBite> {
    Ok(Staged::new([name], went_through))
}

fn made_on_x86(name: &str) -> Result<Staged, CannotBite> {
    if cfg!(target_arch = "x86_64") {
        made(name)
    } else {
        Err(CannotBite("only x86 processors have this".to_owned()))
    }
}

/// The evidence is an answer that the kernel's own code gives to these arguments. Any other one may be a refusal: a filter
/// answers with whatever errno its author chose.
fn reached(name: &str, answers: &'static [i32]) -> Result<Staged, CannotBite> {
    let judge = |run: &Run| match answer(run)? {
        Ok(()) => went_through(run),
        Err(errno) if answers.contains(&errno) => {
            Some(format!("the call was let through to where the kernel found: {}", run.says()))
        }
        Err(_) => None,
    };
    Ok(Staged::new([name], judge))
}

fn opened(how: &str, path: &str) -> Result<Staged, CannotBite> {
    if Path::new(path).exists() {
        Ok(Staged::new([how, path], went_through))
    } else {
        Err(CannotBite(format!("this host has no {path}")))
    }
}

fn went_through(run: &Run) -> Option<Evidence> {
    matches!(answer(run), Some(Ok(()))).then(|| "the call went through".to_owned())
}

/// What the kernel answered, an errno if it failed; nothing where the attacker did not survive the call.
fn answer(run: &Run) -> Option<Result<(), i32>> {
    let said = run.said()?;
    if said == "done" {
        return Some(Ok(()));
    }
    let (_, errno) = said.rsplit_once("(os error ")?;
    errno.strip_suffix(')')?.parse().ok().map(Err)
}

/// Tells the attacker which namespace is the host's: in one of its own, the call does nothing to the host.
fn with_namespace(mut staged: Staged, kind: &str) -> Result<Staged, CannotBite> {
    staged.argv.push(fs::read_link(format!("/proc/self/ns/{kind}"))?.into_os_string());
    Ok(staged)
}

/// A key of this name in the user's keyring; unlinked with the attack.
struct Key {
    tool: Tool,
    name: OsString,
}

impl Key {
    /// Whether a program that the user starts after the run finds it.
    fn unlink(&self) -> bool {
        self.tool.look(&["unlink_the_key".as_ref(), &self.name]).is_ok()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.unlink();
    }
}

fn key_that_outlives_the_run(scene: &Scene) -> Result<Staged, CannotBite> {
    let key = Key { tool: scene.tool()?, name: scene.marker().to_owned() };
    let argv = ["key_that_outlives_the_run".into(), key.name.clone()];
    let judge = move |_: &Run| key.unlink().then(|| "a program of the user found the key".to_owned());
    Ok(Staged::new(argv, judge))
}

fn device_node(scene: &Scene) -> Result<Staged, CannotBite> {
    let place = scene.granted().join("node");
    let argv = ["device_node".into(), place.clone().into_os_string()];
    let is_device = move |_: &Run| {
        let kind = fs::symlink_metadata(&place).ok()?.file_type();
        kind.is_char_device().then(|| "there is a device node in the directory".to_owned())
    };
    Ok(Staged::new(argv, is_device))
}

/// The evidence is a process of the attack whose program the host finds in no directory.
fn python_program_from_memory(scene: &Scene) -> Result<Staged, CannotBite> {
    let argv = ["program_from_memory".into(), scene.native(), scene.enough()];
    let marker = scene.marker().to_owned();
    let is_nameless = |pid: u32| {
        let program = fs::read_link(format!("/proc/{pid}/exe"));
        program.is_ok_and(|program| program.starts_with("/memfd:program (deleted)"))
    };
    let look = move || {
        let found = processes::of(&marker).into_iter().any(is_nameless);
        found.then(|| "a program from memory was running".to_owned())
    };
    Staged::new(argv, Seen::new(scene, look)).in_python()
}
