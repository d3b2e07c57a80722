//! Attacks on the kernel's interface.

use crate::calls::calls;
use crate::jail::who::Who;
use crate::scene::{Scene, bites};
use crate::support::Stop;
use agentkit_protocol::EndedBy;

// Arguments are chosen so that outside the call either succeeds without a trace or fails for another reason. Where the
// kernel looks at 32 bits only, the rest is garbage: a filter that compares 64 bits would let it pass.
calls! {
    also [call_by_the_32_bit_gate];
    memfd_create: "call('memfd_create', b'x', 0)" => "ENOSYS";
    memfd_secret: "call('memfd_secret', 0xff)" => "ENOSYS";
    io_uring_setup: "call('io_uring_setup', 0, None)" => "ENOSYS";
    io_setup: "call('io_setup', 1, 0)" => "ENOSYS";
    inotify_init1: "call('inotify_init1', 0)" => "ENOSYS";
    directory_notification: "call('fcntl', 0, 1026, 1)" => "EPERM";
    lease: "call('fcntl', 0, 1024, 0)" => "EPERM";
    vmsplice: "call('vmsplice', -1, None, 0, 0)" => "ENOSYS";
    splice: "call('splice', -1, None, -1, None, 1, 0)" => "EINVAL";
    tee: "call('tee', -1, -1, 1, 0)" => "EINVAL";
    sendfile: "call('sendfile', -1, -1, None, 1)" => "EINVAL";
    huge_pages: "call('mmap', None, 1 << 21, 3, 0x40022, -1, 0)" => "EPERM";
    setxattr: "call('setxattr', b'/nonexistent', b'user.x', b'', 0, 0)" => "ENOTSUP";
    clone3: "call('clone3', None, 0)" => "ENOSYS";
    openat2: "call('openat2', HERE, b'/', None, 0)" => "ENOSYS";
    userfaultfd: "call('userfaultfd', 1)" => "EPERM";
    bpf: "call('bpf', 0, None, 1 << 20)" => "EPERM";
    perf_event_open: "call('perf_event_open', None, 0, -1, -1, 0)" => "EPERM";
    keyctl: "call('keyctl', 0, -3, 0)" => "EPERM";
    add_key: "call('add_key', None, None, None, 0, 0)" => "EPERM";
    request_key: "call('request_key', None, None, None, 0)" => "EPERM";
    unshare_user_namespace: "call('unshare', 0x10000000)" => "EPERM";
    unshare_mount_namespace: "call('unshare', 0x10020000)" => "EPERM";
    setns: "call('setns', -1, 0)" => "EPERM";
    mount: "call('mount', b'none', b'/nonexistent', b'tmpfs', 0, None)" => "EPERM";
    umount: "call('umount2', b'/nonexistent', 0)" => "EPERM";
    pivot_root: "call('pivot_root', b'/nonexistent', b'/nonexistent')" => "EPERM";
    chroot: "call('chroot', b'/nonexistent')" => "EPERM";
    open_tree: "call('open_tree', HERE, b'/nonexistent', 0)" => "EPERM";
    move_mount: "call('move_mount', -1, b'', -1, b'', 0)" => "EPERM";
    fsopen: "call('fsopen', b'nonexistent', 0)" => "EPERM";
    mount_setattr: "call('mount_setattr', -1, b'', 0, None, 0)" => "EPERM";
    name_to_handle_at: "call('name_to_handle_at', HERE, b'/', None, None, 0)" => "EPERM";
    load_a_kernel_module: "call('finit_module', -1, b'', 0)" => "EPERM";
    unload_a_kernel_module: "call('delete_module', b'agentkit-none', 0)" => "EPERM";
    reboot: "call('reboot', 0, 0, 0, None)" => "EPERM";
    read_the_kernel_log: "call('syslog', 10, None, 0)" => "EPERM";
    set_the_clock: "call('settimeofday', ctypes.c_void_p(1), None)" => "EPERM";
    swapon: "call('swapon', b'/nonexistent', 0)" => "EPERM";
    fanotify_init: "call('fanotify_init', 0xffffffff, 0)" => "EPERM";
    weaker_personality: "call('personality', 0x0400000)" => "EPERM";
    io_privileges: "call('iopl', 0)" => "EPERM";
    segment_descriptors: "call('modify_ldt', 0, None, 0)" => "EPERM";
    trace_a_process: "call('ptrace', 16, 1 << 30, None, None)" => "EPERM";
    read_another_process: "call('process_vm_readv', 1 << 30, None, 0, None, 0, 0)" => "EPERM";
    compare_processes: "call('kcmp', os.getpid(), os.getpid(), 2, 0, 0)" => "EPERM";
    steal_a_descriptor: "call('pidfd_getfd', -1, 0, 0)" => "EPERM";
    advise_another_process: "call('process_madvise', -1, None, 0, 0, 0)" => "EPERM";
    move_memory_of_another_process: "call('move_pages', 1 << 30, 0, None, None, None, 0)" => "EPERM";
    limits_of_another_process: "call('prlimit64', os.getppid(), 7, None, bytes(16))" => "EPERM";
    crash_handler: "call('prlimit64', 0, 4, struct.pack('QQ', 0, 0), None)" => "EPERM";
    crash_handler_by_setrlimit: "call('setrlimit', 4, struct.pack('QQ', 0, 0))" => "EPERM";
    system_v_shared_memory: "call('shmget', 0x61676b74, 0, 0)" => "ENOSYS";
    system_v_messages: "call('msgget', 0x61676b74, 0)" => "ENOSYS";
    system_v_semaphores: "call('semget', 0x61676b74, 0, 0)" => "ENOSYS";
    type_into_the_terminal: "call('ioctl', 0, 0x5412, b'x')" => "EPERM";
    type_into_the_terminal_with_garbage_in_the_high_half: "call('ioctl', 0, HIGH | 0x5412, b'x')" => "EPERM";
    paste_on_the_console: "call('ioctl', 0, HIGH | 0x541c, b'x')" => "EPERM";
    load_a_line_discipline: "call('ioctl', 0, HIGH | 0x5423, b'xxxx')" => "EPERM";
    kernel_setting: "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)" => "ENOENT";
    kernel_command: "os.open('/proc/sysrq-trigger', os.O_WRONLY)" => "ENOENT";
    control_group: "os.mkdir('/sys/fs/cgroup/nonexistent/x')" => "ENOENT";
    files_of_the_hardware: "os.listdir('/sys')" => "ENOENT";
    virtual_machine_device: "os.open('/dev/kvm', os.O_RDWR)" => "ENOENT";
    tunnel_device: "os.open('/dev/net/tun', os.O_RDWR)" => "ENOENT";
    file_system_device: "os.open('/dev/fuse', os.O_RDWR)" => "ENOENT";
    memory_device: "os.open('/dev/mem', os.O_RDONLY)" => "ENOENT";
    real_time_priority: "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))" => "EPERM";
    higher_priority: "os.setpriority(os.PRIO_PROCESS, 0, -1)" => "EACCES";
    foreign_number_of_the_x32_interface: "call_number(0x40000000 | 39)" => "ENOSYS";
    call_above_the_last_known_one: "call('listxattrat', HERE, b'/', 0, None, 0)" => "ENOSYS";
    clone_into_a_mount_namespace: "spawn(0x10020000)" => "EPERM";
    clone_into_a_control_group_namespace: "spawn(0x12000000)" => "EPERM";
    clone_into_a_name_namespace: "spawn(0x14000000)" => "EPERM";
    clone_into_an_ipc_namespace: "spawn(0x18000000)" => "EPERM";
    clone_into_a_user_namespace: "spawn(0x10000000)" => "EPERM";
    clone_into_a_process_namespace: "spawn(0x30000000)" => "EPERM";
    clone_into_a_network_namespace: "spawn(0x50000000)" => "EPERM";
    clone_into_a_user_namespace_with_garbage_in_the_high_half: "spawn(HIGH | 0x10000000)" => "EPERM";
}

/// `int 0x80` reaches the 32-bit calls, whose numbers mean something else: getpid(2) there is 20.
fn call_by_the_32_bit_gate(who: Who) -> Result<(), Stop> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Stop::Skip("only x86 has this gate".to_owned()));
    }
    let scene = Scene::new(who)?;
    let attack = scene.attack(
        "import mmap\n\
         code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n\
         code.write(bytes.fromhex('b814000000cd80c3'))  # mov eax, 20; int 0x80; ret\n\
         at = ctypes.addressof(ctypes.c_char.from_buffer(code))\n\
         print('calling', flush=True)\n\
         pid = ctypes.CFUNCTYPE(ctypes.c_int)(at)()\n\
         answer('done' if pid == os.getpid() else 'failed')\n\
         os._exit(0)",
    );
    let outside = attack.bare()?;
    match outside.answer() {
        Ok(answer) => bites(answer == "done", &outside)?,
        Err(_) => return Err(Stop::Skip("this kernel has no 32-bit gate".to_owned())),
    }
    let inside = attack.jailed()?;
    assert_eq!(inside.stdout, b"calling\n");
    // SIGSYS.
    assert_eq!(inside.ended()?.ended_by, EndedBy::Signal(31));
    Ok(())
}
