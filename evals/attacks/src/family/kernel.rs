//! The kernel's interface.
//!
//! Most of these calls leave no trace on the host when they succeed, so the evidence is the kernel's answer, as the
//! attacker passed it on. A call that harms nobody has to go through. Of one that would, the arguments are wrong in a way
//! that the kernel's own code finds out, behind whatever might have refused the call: the errno shows how far it came.

use crate::attack::{Attack, CannotBite, Family, Staged};
use crate::judge::{Evidence, Seen};
use crate::processes;
use crate::run::Run;
use crate::scene::{Scene, Tool};
use agentkit_protocol::Control;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

const FILTERED: &[Control] = &[Control::SyscallsFiltered];
const PRIVILEGED: &[Control] = &[Control::SyscallsFiltered, Control::PrivilegesDropped];
const SHOWN: &[Control] = &[Control::FilesystemConfined, Control::PrivilegesDropped];

pub(super) const ATTACKS: &[Attack] = &[
    attack(
        "nested_user_namespace_by_unshare",
        FILTERED,
        "code that you run becomes root in a world of its own, from where most of the kernel can be attacked",
        |_| made("nested_user_namespace_by_unshare"),
    ),
    attack(
        "nested_user_namespace_by_clone",
        FILTERED,
        "code that you run becomes root in a world of its own as it starts a process, where only unshare was forbidden",
        |_| made("nested_user_namespace_by_clone"),
    ),
    attack(
        "nested_user_namespace_by_clone3",
        FILTERED,
        "code that you run becomes root in a world of its own by a call whose arguments no filter can see",
        |_| made("nested_user_namespace_by_clone3"),
    ),
    attack(
        "nested_user_namespace_by_high_garbage",
        FILTERED,
        "code that you run becomes root in a world of its own: bits that the kernel ignores pass a filter that compares all",
        |_| made("nested_user_namespace_by_high_garbage"),
    ),
    attack(
        "nested_user_namespace_by_int80",
        FILTERED,
        "code that you run becomes root in a world of its own by a 32-bit call, which passes a filter for 64-bit ones",
        |_| made_on_x86("nested_user_namespace_by_int80"),
    ),
    attack(
        "nested_network_namespace",
        FILTERED,
        "code that you run is root of a network of its own, and reaches the kernel's network code that is for root",
        |_| made("nested_network_namespace"),
    ),
    attack(
        "nested_process_namespace",
        FILTERED,
        "code that you run hides its processes from whoever counts or ends them in the sandbox",
        |_| made("nested_process_namespace"),
    ),
    attack(
        "join_a_namespace",
        FILTERED,
        "code that gets hold of a namespace of the host enters it: the way out of most containers",
        |_| reached("join_a_namespace"),
    ),
    attack(
        "firewall_in_a_namespace",
        FILTERED,
        "an ordinary program talks to the kernel's firewall, whose bugs have made many an ordinary program root",
        |_| made("firewall_in_a_namespace"),
    ),
    attack(
        "mount_over_etc_in_a_namespace",
        PRIVILEGED,
        "code that you run replaces the files that other programs in the sandbox trust",
        |_| made("mount_over_etc_in_a_namespace"),
    ),
    attack(
        "mount",
        PRIVILEGED,
        "code that you run changes which files are seen where, and undoes what hides yours",
        |_| reached("mount"),
    ),
    attack("unmount", PRIVILEGED, "code that you run takes away the mounts that hide your files", |_| {
        reached("unmount")
    }),
    attack(
        "new_mount_by_fsopen",
        PRIVILEGED,
        "code that you run mounts a file system by the newer calls, which older filters do not know",
        |_| made("new_mount_by_fsopen"),
    ),
    attack(
        "copy_of_a_mount_by_open_tree",
        PRIVILEGED,
        "code that you run copies mounts, without those on top that hide something",
        |_| made("copy_of_a_mount_by_open_tree"),
    ),
    attack("move_mount", PRIVILEGED, "code that you run puts a mount where it likes", |_| {
        reached("move_mount")
    }),
    attack("mount_setattr", PRIVILEGED, "code that you run makes what is mounted read-only writable", |_| {
        reached("mount_setattr")
    }),
    attack(
        "pivot_root",
        PRIVILEGED,
        "code that you run exchanges the root directory, with what was hidden below it",
        |_| reached("pivot_root"),
    ),
    attack(
        "chroot",
        PRIVILEGED,
        "code that you run moves its root directory, by which root breaks out of one",
        |_| made("chroot"),
    ),
    attack(
        "userfaultfd",
        FILTERED,
        "code that you run stops the kernel in the middle of a copy: it makes rare bugs of the kernel certain ones",
        |_| made("userfaultfd"),
    ),
    attack(
        "bpf",
        FILTERED,
        "code that you run reaches the kernel's own compiler, a frequent source of ways to become root",
        |_| reached("bpf"),
    ),
    attack(
        "perf_event_open",
        FILTERED,
        "code that you run measures the processor finely enough to read secrets from other programs' timing",
        |_| made("perf_event_open"),
    ),
    attack(
        "io_uring",
        FILTERED,
        "code that you run does its input and output past every system-call filter",
        |_| made("io_uring"),
    ),
    attack(
        "asynchronous_io",
        FILTERED,
        "code that you run makes the kernel work for it in the background, by code that is rarely tested",
        |_| made("asynchronous_io"),
    ),
    attack(
        "add_key",
        FILTERED,
        "code that you run takes kernel memory for keys, which belong to no sandbox",
        |_| made("add_key"),
    ),
    attack(
        "request_key",
        FILTERED,
        "code that you run asks for your keys, and may have the kernel start a program of the host that finds them",
        |_| reached("request_key"),
    ),
    attack(
        "keyctl",
        FILTERED,
        "code that you run looks into your session's keyring, where kerberos tickets and disk keys are",
        |_| made("keyctl"),
    ),
    attack(
        "key_that_outlives_the_run",
        FILTERED,
        "code that you run leaves something in your keyring for the next run to find: two of them can talk",
        key_that_outlives_the_run,
    ),
    attack(
        "trace_a_child",
        FILTERED,
        "code that you run uses the debugger's interface, through which filters have been passed by",
        |_| made("trace_a_child"),
    ),
    attack(
        "read_a_childs_memory",
        FILTERED,
        "code that you run may read other processes' memory: yours, if the sandbox shows one",
        |_| made("read_a_childs_memory"),
    ),
    attack(
        "steal_a_childs_descriptor",
        FILTERED,
        "code that you run takes open files out of other processes: out of yours, if the sandbox shows one",
        |_| made("steal_a_childs_descriptor"),
    ),
    attack(
        "process_madvise",
        FILTERED,
        "code that you run slows down other processes by having their memory swapped out",
        |_| reached("process_madvise"),
    ),
    attack(
        "compare_kernel_objects",
        FILTERED,
        "code that you run learns how the kernel orders its objects in memory, which an attack on it needs",
        |_| made("compare_kernel_objects"),
    ),
    attack(
        "secret_memory",
        FILTERED,
        "code that you run has memory that nobody can look into and that is never swapped out",
        |_| made("secret_memory"),
    ),
    attack(
        "memory_file",
        FILTERED,
        "code that you run has files that are in no directory: neither a disk limit nor a scanner sees them",
        |_| made("memory_file"),
    ),
    attack(
        "program_from_memory",
        FILTERED,
        "code that you run starts programs that were never on the disk, past whatever watches files",
        |_| made("program_from_memory"),
    ),
    attack(
        "memory_pages_into_a_pipe",
        FILTERED,
        "code that you run reaches the code by which ordinary users could once become root (vmsplice)",
        |_| made("memory_pages_into_a_pipe"),
    ),
    attack(
        "file_pages_into_a_pipe",
        FILTERED,
        "code that you run reaches the code by which read-only files could once be overwritten (Dirty Pipe)",
        |_| made("file_pages_into_a_pipe"),
    ),
    attack(
        "weaker_personality",
        FILTERED,
        "code that you run switches off protections of memory, also for the programs that it starts",
        |_| made("weaker_personality"),
    ),
    attack(
        "weaker_personality_by_high_garbage",
        FILTERED,
        "code that you run switches off protections of memory: bits that the kernel ignores pass a filter that compares all",
        |_| made("weaker_personality_by_high_garbage"),
    ),
    attack(
        "typing_by_high_garbage",
        FILTERED,
        "code that you run types commands into your terminal: bits that the kernel ignores pass a filter that compares all",
        |_| reached("typing_by_high_garbage"),
    ),
    attack(
        "netlink_by_high_garbage",
        &[Control::NetworkBlocked, Control::SyscallsFiltered],
        "code that you run opens a kind of socket that was forbidden, by bits that the kernel ignores",
        |_| made("netlink_by_high_garbage"),
    ),
    attack(
        "call_newer_than_the_filter",
        FILTERED,
        "every call that the kernel gains is open to the code that you run: the filter lists what is bad, not what is good",
        |_| reached("call_newer_than_the_filter"),
    ),
    attack(
        "int80",
        FILTERED,
        "code that you run makes 32-bit calls, whose numbers mean something else to the filter",
        |_| made_on_x86("int80"),
    ),
    attack(
        "x32",
        FILTERED,
        "code that you run makes any call by a second number, which the filter does not know",
        |_| made_on_x86("x32"),
    ),
    attack(
        "segment_descriptor",
        FILTERED,
        "code that you run changes the processor's tables, by old code with a history of bugs",
        |_| made_on_x86("segment_descriptor"),
    ),
    attack("hardware_ports", PRIVILEGED, "code that you run talks to the hardware itself", |_| {
        made_on_x86("hardware_ports")
    }),
    attack(
        "file_handle",
        FILTERED,
        "code that you run learns the number of a file, by which root opens it wherever it is",
        |_| made("file_handle"),
    ),
    attack(
        "open_by_handle",
        PRIVILEGED,
        "code that you run opens any file of the disk by its number, whatever directories are shown (Shocker)",
        |_| reached("open_by_handle"),
    ),
    attack("fanotify", FILTERED, "code that you run watches what other programs do with files", |_| {
        made("fanotify")
    }),
    attack(
        "quotas",
        FILTERED,
        "code that you run reads and sets how much of the disk each user may have",
        |_| reached("quotas"),
    ),
    attack(
        "clock_by_settimeofday",
        PRIVILEGED,
        "code that you run sets the clock: certificates that ran out are valid again, logs lie",
        |_| reached("clock_by_settimeofday"),
    ),
    attack(
        "clock_by_clock_settime",
        PRIVILEGED,
        "code that you run sets the clock by a second call, where only the first one was forbidden",
        |_| reached("clock_by_clock_settime"),
    ),
    attack(
        "kernel_log",
        PRIVILEGED,
        "code that you run reads the kernel's log: addresses, devices, what other programs did",
        |_| made("kernel_log"),
    ),
    attack(
        "accounting",
        PRIVILEGED,
        "code that you run has the kernel write a record of every program into a file",
        |_| reached("accounting"),
    ),
    attack(
        "swap_file",
        PRIVILEGED,
        "code that you run has the memory of all programs written into a file of its own",
        |_| reached("swap_file"),
    ),
    attack("reboot", PRIVILEGED, "code that you run restarts your machine", |_| {
        with_namespace(reached("reboot")?, "pid")
    }),
    attack("another_kernel", PRIVILEGED, "code that you run replaces the running kernel", |_| {
        reached("another_kernel")
    }),
    attack(
        "kernel_module",
        PRIVILEGED,
        "code that you run loads code into the kernel: it owns the machine",
        |_| reached("kernel_module"),
    ),
    attack("unload_a_kernel_module", PRIVILEGED, "code that you run takes drivers out of the kernel", |_| {
        reached("unload_a_kernel_module")
    }),
    attack("host_name", PRIVILEGED, "code that you run renames your machine", |_| {
        with_namespace(made("host_name")?, "uts")
    }),
    attack(
        "device_node",
        PRIVILEGED,
        "code that you run makes a device node: by that of the disk, root reads and writes all of it",
        device_node,
    ),
    attack(
        "core_dump_handler",
        SHOWN,
        "code that you run names the program that the host starts, as root, when a process crashes",
        |_| opened("write_back", "/proc/sys/kernel/core_pattern"),
    ),
    attack(
        "kernel_command",
        SHOWN,
        "code that you run restarts your machine, or kills everything on it, by one letter",
        |_| opened("open_for_writing", "/proc/sysrq-trigger"),
    ),
    attack("control_group_limits", SHOWN, "code that you run changes the limits that it is under", |_| {
        opened("open_for_writing", "/sys/fs/cgroup/cgroup.subtree_control")
    }),
    attack("physical_memory", SHOWN, "code that you run reads the memory of the whole machine", |_| {
        opened("open_for_reading", "/dev/mem")
    }),
    attack(
        "virtual_machine_device",
        SHOWN,
        "code that you run reaches the kernel's code for virtual machines",
        |_| opened("open_for_reading", "/dev/kvm"),
    ),
    attack("tunnel_device", SHOWN, "code that you run makes networks of its own", |_| {
        opened("open_for_reading", "/dev/net/tun")
    }),
    attack(
        "file_system_device",
        SHOWN,
        "code that you run serves file systems to the kernel, and stops whoever looks at them",
        |_| opened("open_for_reading", "/dev/fuse"),
    ),
    attack(
        "python_nested_user_namespace",
        FILTERED,
        "a script becomes root in a world of its own by a raw call, without a program of its own",
        |_| made("user_namespace")?.in_python(),
    ),
    attack(
        "python_trace_a_child",
        FILTERED,
        "a script uses the debugger's interface by a raw call, without a program of its own",
        |_| made("trace_a_child")?.in_python(),
    ),
    attack(
        "python_program_from_memory",
        FILTERED,
        "a script starts programs that were never on the disk, although all that it brought is text",
        python_program_from_memory,
    ),
];

const fn attack(
    name: &'static str,
    controls: &'static [Control],
    means: &'static str,
    stage: fn(&Scene) -> Result<Staged, CannotBite>,
) -> Attack {
    Attack { name, family: Family::Kernel, means, controls, stage }
}

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

/// The evidence is an answer that only the kernel's own code gives, not one of those that mean a refusal.
fn reached(name: &str) -> Result<Staged, CannotBite> {
    let judge = |run: &Run| match answer(run)? {
        Ok(()) => went_through(run),
        Err(nix::libc::EPERM | nix::libc::EACCES | nix::libc::ENOSYS) => None,
        Err(_) => Some(format!("the call was let through to where the kernel found: {}", run.says())),
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
