//! Which layers stop which attack, as it was found by leaving them out.

use agentkit_protocol::Control::{self, *};

/// Every layer of the jail, as `helper/src/linux/layers.rs` names it, with the controls that it may stand for. What comes
/// first is put back first when a set is searched for. User namespace and identity serve every control.
pub(crate) const LAYERS: [(&str, &[Control]); 27] = [
    ("UserNamespace", &[]),
    ("Identity", &[]),
    ("CgroupNamespace", &[ProcessesIsolated]),
    ("Landlock", &[PrivilegesDropped]),
    ("View", &[FilesystemConfined, NetworkBlocked]),
    ("PidNamespace", &[ProcessesIsolated, KilledAsATree]),
    ("IpcNamespace", &[ProcessesIsolated]),
    ("UtsNamespace", &[ProcessesIsolated, EnvironmentScrubbed]),
    ("NetworkNamespace", &[NetworkBlocked]),
    ("Privileges", &[PrivilegesDropped]),
    ("Modes", &[SyscallsFiltered]),
    ("Sizes", &[DiskLimited, MemoryLimited]),
    ("Environment", &[EnvironmentScrubbed]),
    ("Dumpable", &[ProcessesIsolated, EnvironmentScrubbed, FilesystemConfined]),
    ("LaunchersText", &[EnvironmentScrubbed]),
    ("NestedNamespaces", &[PrivilegesDropped]),
    ("Keyring", &[EnvironmentScrubbed]),
    ("Git", &[FilesystemConfined]),
    ("Descriptors", &[EnvironmentScrubbed]),
    ("Session", &[ProcessesIsolated, EnvironmentScrubbed]),
    ("Streams", &[EnvironmentScrubbed, FilesystemConfined, DiskLimited]),
    ("DeathSignal", &[KilledAsATree]),
    ("Proc", &[ProcessesIsolated]),
    ("KernelFiles", &[FilesystemConfined]),
    ("Rlimits", &[ProcessesContained, MemoryLimited, DiskLimited, CpuLimited, PrivilegesDropped]),
    ("Looks", &[MemoryLimited, DiskLimited, CpuLimited]),
    ("Filter", &[SyscallsFiltered]),
];

/// Layers that no attack here needs to be off. The host where this was found shows no control groups to attack.
pub(crate) const SEEN_BY_NO_ATTACK: &[&str] = &["CgroupNamespace"];

/// Attacks that succeed only outside of something that no launch can do without.
pub(crate) const INSEPARABLE: &[(&str, &str)] = &[(
    "mount_over_a_file",
    "what is mounted in a mount namespace of its own shows nowhere else, and every jail has one",
)];

/// Attacks on what the supervisor only looks at now and then, or not at all: its capabilities say so.
pub(crate) const HELD_BY_LUCK: &[(&str, &str)] = &[(
    "disk_by_reservation",
    "the supervisor looks every 10 ms, and it is quicker or not: `disk_limited` is polled",
)];

/// The smallest set for each attack: it succeeds without these, and with any single one of them it fails. An empty set
/// means that nothing stops it, as the capabilities say.
#[rustfmt::skip]
pub(crate) const SETS: &[(&[&str], &[&str])] = &[
    (&[], &[
        "connect_to_a_socket_in_the_directory", "write_to_a_pipe_in_the_directory",
        "memory_shared_and_unmapped", "inodes",
    ]),
    (&["NetworkNamespace"], &[
        "tcp_to_the_host", "tcp_to_an_address_of_the_host", "tcp_over_ipv6", "tcp_to_a_mapped_address", "tcp_with_high_bits", "tcp_fast_open",
        "udp_to_the_host", "udp_over_ipv6", "secret_in_a_dns_question", "list_sockets_by_proc",
        "list_unix_sockets_by_proc", "connect_to_an_abstract_socket", "datagram_pair_to_an_abstract_socket",
        "offer_a_service", "offer_an_abstract_socket", "python_fetch_from_the_host",
    ]),
    (&["Filter"], &[
        "take_a_vsock_port", "memory_in_memfds", "inotify_instances", "join_a_namespace", "userfaultfd", "bpf",
        "perf_event_open", "io_uring", "asynchronous_io", "add_key", "request_key", "keyctl", "trace_a_child",
        "read_a_childs_memory", "steal_a_childs_descriptor", "process_madvise", "compare_kernel_objects",
        "secret_memory", "memory_file", "program_from_memory", "memory_pages_into_a_pipe",
        "file_pages_into_a_pipe", "weaker_personality", "weaker_personality_by_high_garbage",
        "typing_by_high_garbage", "paste_on_a_console", "netlink_by_high_garbage", "call_newer_than_the_filter", "int80",
        "segment_descriptor", "file_handle", "fanotify", "quotas", "python_trace_a_child",
        "python_program_from_memory", "set_user_id_by_chmod", "set_user_id_by_fchmod", "set_user_id_by_open",
        "set_user_id_by_openat2", "set_user_id_by_mknod", "set_user_id_by_an_unnamed_file",
        "set_user_id_by_io_uring",
    ]),
    (&["View"], &[
        "read_a_key", "read_another_work_dir", "read_by_its_own_root", "leave_a_file_in_tmp",
        "leave_a_file_in_shared_memory", "python_environment_that_names_its_base",
        "python_environment_that_links_to_its_base", "learn_the_machine_id", "learn_the_mounts",
    ]),
    (&["Descriptors"], &[
        "read_by_an_inherited_directory", "python_read_below_an_inherited_directory", "read_an_inherited_file",
        "open_below_an_inherited_directory", "write_to_an_inherited_file", "name_an_inherited_file",
    ]),
    (&["PidNamespace"], &[
        "outlive_as_a_daemon", "outlive_deaf_to_signals", "outlive_holding_the_output",
        "outlive_under_another_name", "python_daemon_by_subprocess", "python_daemon_by_multiprocessing",
    ]),
    (&["DeathSignal"], &[
        "outlive_a_killed_launcher",
    ]),
    (&["Rlimits"], &[
        "fork_bomb", "fork_bomb_of_generations", "fork_bomb_by_vfork", "thread_bomb", "fork_bomb_of_programs",
        "many_descriptors", "descriptors_on_their_way",
    ]),
    (&["Looks"], &[
        "memory_of_a_process", "memory_of_many_processes", "memory_in_queues_of_sockets",
        "memory_in_page_tables", "disk_by_many_files", "disk_by_nameless_files", "cpu_of_many_at_once",
        "cpu_of_the_forgotten",
    ]),
    (&["Sizes"], &[
        "memory_in_dev_shm",
    ]),
    (&["Environment"], &[
        "read_a_secret_variable",
    ]),
    (&["Proc"], &[
        "read_the_arguments_of_a_process",
    ]),
    (&["Streams"], &[
        "read_back_the_standard_error",
    ]),
    (&["UtsNamespace"], &[
        "learn_the_host_name",
    ]),
    (&["KernelFiles"], &[
        "learn_the_boot_id", "learn_the_boot_options", "read_kernel_addresses",
    ]),
    (&["Modes"], &[
        "set_group_id_by_fchmodat2",
    ]),
    (&["Git"], &[
        "git_hook", "git_hook_kept_in_the_tree", "git_setting", "git_common_directory",
        "git_repository_further_down", "git_bare_repository_further_down",
        "git_file_that_leads_to_a_repository", "git_writes_through_a_link",
    ]),
    (&["NetworkNamespace", "Filter"], &[
        "multipath_tcp", "tcp_by_io_uring", "list_interfaces_by_netlink", "list_sockets_by_netlink",
        "netlink_message_to_a_process",
    ]),
    (&["Identity", "View"], &[
        "connect_to_a_socket_in_the_home", "connect_to_a_socket_beside_the_directory",
        "connect_to_a_socket_in_tmp", "connect_to_a_socket_through_a_link", "datagram_to_a_socket_in_the_home",
        "datagram_pair_to_a_socket_in_the_home", "read_the_password_hashes", "read_by_a_symbolic_link",
        "read_by_a_hard_link", "append_to_a_file", "append_by_a_symbolic_link", "append_by_a_hard_link",
        "empty_a_file", "create_a_file", "move_a_file_out", "move_a_file_in", "hard_link_a_file_out",
        "delete_a_file", "change_a_mode", "change_times", "write_by_a_mapping", "write_to_a_system_directory",
        "replace_the_directory_by_a_link", "python_leave_shared_memory", "python_change_shared_memory",
        "virtual_machine_device", "tunnel_device", "file_system_device", "python_startup_of_the_user",
        "python_bytecode_of_a_module",
    ]),
    (&["View", "Filter"], &[
        "read_by_io_uring",
    ]),
    (&["Identity", "Streams"], &[
        "append_by_its_input", "write_to_the_standard_input",
    ]),
    (&["Identity", "Descriptors"], &[
        "append_by_an_inherited_descriptor",
    ]),
    (&["Identity", "PidNamespace"], &[
        "kill_a_process", "kill_by_pidfd", "kill_by_sigio", "stop_a_process", "python_kill_by_pidfd",
    ]),
    (&["Identity", "Session"], &[
        "terminate_its_group",
    ]),
    (&["Rlimits", "Filter"], &[
        "fork_bomb_by_clone3",
    ]),
    (&["Streams", "Rlimits"], &[
        "disk_by_output",
    ]),
    (&["Looks", "Filter"], &[
        "memory_in_a_sysv_segment",
    ]),
    (&["Rlimits", "Looks"], &[
        "disk_by_one_file",
    ]),
    (&["UserNamespace", "Privileges"], &[
        "real_time_scheduling", "nice_below_zero", "lock_memory",
    ]),
    (&["NestedNamespaces", "Filter"], &[
        "nested_user_namespace_by_unshare", "nested_user_namespace_by_clone", "nested_user_namespace_by_clone3",
        "nested_user_namespace_by_high_garbage", "nested_user_namespace_by_int80", "nested_network_namespace",
        "nested_process_namespace", "firewall_in_a_namespace", "unmount", "new_mount_by_fsopen",
        "copy_of_a_mount_by_open_tree", "move_mount", "mount_setattr", "pivot_root", "chroot",
        "python_nested_user_namespace",
    ]),
    (&["UserNamespace", "Filter"], &[
        "key_that_outlives_the_run",
    ]),
    (&["Identity", "KernelFiles"], &[
        "core_dump_handler",
    ]),
    (&["Dumpable", "LaunchersText"], &[
        "read_the_environment_of_a_launcher", "python_environments_of_its_ancestors",
    ]),
    (&["Identity", "Filter"], &[
        "read_a_key_of_the_keyring",
    ]),
    (&["Session", "Streams"], &[
        "take_the_foreground",
    ]),
    (&["View", "Session"], &[
        "listen_to_the_terminal",
    ]),
    (&["UserNamespace", "NetworkNamespace", "Privileges"], &[
        "forge_a_datagram", "forge_an_icmp_refusal",
    ]),
    (&["View", "Proc"], &[
        "read_by_the_root_of_another_process",
    ]),
    (&["UserNamespace", "Privileges", "Filter"], &[
        "read_by_a_file_handle", "open_by_handle", "clock_by_settimeofday", "clock_by_clock_adjtime",
        "kernel_log", "accounting", "swap_file", "read_the_kernel_log", "file_capabilities",
    ]),
    (&["Identity", "View", "Filter"], &[
        "set_an_attribute", "write_by_io_uring",
    ]),
    (&["Identity", "PidNamespace", "Privileges"], &[
        "renice_a_process", "pin_a_process",
    ]),
    (&["Identity", "Privileges", "Session"], &[
        "renice_its_group",
    ]),
    (&["Identity", "PidNamespace", "Filter"], &[
        "relimit_a_process", "python_relimit_a_process",
    ]),
    (&["Landlock", "NestedNamespaces", "Filter"], &[
        "mount_over_etc_in_a_namespace", "mount",
    ]),
    (&["UserNamespace", "Privileges", "Proc"], &[
        "read_the_environment_of_a_process",
    ]),
    (&["UserNamespace", "Keyring", "Filter"], &[
        "find_a_key_of_the_keyring",
    ]),
    (&["Identity", "IpcNamespace", "Filter"], &[
        "read_a_message_queue",
    ]),
    (&["Identity", "View", "Environment"], &[
        "python_follow_its_variables",
    ]),
    (&["Session", "Streams", "Filter"], &[
        "type_into_the_terminal", "python_type_into_the_terminal",
    ]),
    (&["View", "Session", "Filter"], &[
        "type_into_a_terminal_not_given",
    ]),
    (&["UserNamespace", "NetworkNamespace", "Privileges", "Filter"], &[
        "sniff_the_traffic",
    ]),
    (&["Identity", "View", "NestedNamespaces", "Filter"], &[
        "read_above_the_root",
    ]),
    (&["UserNamespace", "Landlock", "Privileges", "Proc"], &[
        "read_memory_by_proc",
    ]),
    (&["UserNamespace", "PidNamespace", "Privileges", "Filter"], &[
        "reboot",
    ]),
    (&["UserNamespace", "UtsNamespace", "Privileges", "Filter"], &[
        "host_name",
    ]),
    (&["UserNamespace", "Landlock", "Privileges", "Filter"], &[
        "device_node", "device_of_the_disk",
    ]),
    (&["Identity", "Landlock", "View", "NestedNamespaces", "Filter"], &[
        "write_by_a_bind_mount", "write_by_a_detached_mount",
    ]),
    (&["UserNamespace", "Landlock", "PidNamespace", "Privileges", "Filter"], &[
        "trace_a_process", "read_memory_of_a_process", "write_memory_of_a_process", "join_network_of_a_process",
    ]),
    (&["UserNamespace", "Landlock", "Privileges", "Proc", "Filter"], &[
        "join_mounts_of_a_process",
    ]),
];
