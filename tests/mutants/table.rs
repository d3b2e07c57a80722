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
    ("Streams", &[EnvironmentScrubbed, FilesystemConfined]),
    ("DeathSignal", &[KilledAsATree]),
    ("Proc", &[ProcessesIsolated]),
    ("KernelFiles", &[FilesystemConfined]),
    ("Rlimits", &[ProcessesContained, MemoryLimited, DiskLimited, CpuLimited, PrivilegesDropped]),
    ("Looks", &[MemoryLimited, DiskLimited, CpuLimited]),
    ("Filter", &[SyscallsFiltered]),
];

/// Layers that no attack needs to be off: why they are there all the same stands where they are made.
pub(crate) const SEEN_BY_NO_ATTACK: &[&str] = &[];

/// Attacks that succeed only outside of something that no launch can do without.
pub(crate) const INSEPARABLE: &[(&str, &str)] = &[(
    "mount_over_a_file",
    "what is mounted in a mount namespace of its own shows nowhere else, and every jail has one",
)];

/// Attacks on what the supervisor only looks at now and then, or not at all: its capabilities say so.
pub(crate) const HELD_BY_LUCK: &[(&str, &str)] = &[];

/// The smallest set for each attack: it succeeds without these, and with any single one of them it fails. An empty set
/// means that nothing stops it, as the capabilities say.
#[rustfmt::skip]
pub(crate) const SETS: &[(&[&str], &[&str])] = &[
    (&[], &["connect_to_a_socket_in_the_directory", "write_to_a_pipe_in_the_directory"]),
    (&["NetworkNamespace"], &["tcp_to_the_host", "tcp_over_ipv6", "tcp_to_a_mapped_address", "tcp_with_high_bits", "tcp_fast_open", "udp_to_the_host", "udp_over_ipv6", "secret_in_a_dns_question", "list_sockets_by_proc", "list_unix_sockets_by_proc", "connect_to_an_abstract_socket", "datagram_pair_to_an_abstract_socket", "offer_a_service", "offer_an_abstract_socket"]),
    (&["Filter"], &["take_a_vsock_port", "join_a_namespace", "mount", "unmount", "userfaultfd", "bpf", "perf_event_open", "io_uring", "asynchronous_io", "add_key", "request_key", "keyctl", "trace_a_child", "read_a_childs_memory", "steal_a_childs_descriptor", "process_madvise", "compare_kernel_objects", "secret_memory", "memory_file", "program_from_memory", "memory_pages_into_a_pipe", "file_pages_into_a_pipe", "weaker_personality", "weaker_personality_by_high_garbage", "typing_by_high_garbage", "netlink_by_high_garbage", "call_newer_than_the_filter", "int80", "segment_descriptor", "file_handle", "fanotify", "quotas", "clock_by_settimeofday", "clock_by_clock_adjtime", "set_user_id_by_chmod", "set_user_id_by_fchmod", "set_user_id_by_open", "set_user_id_by_openat2", "set_user_id_by_mknod", "set_user_id_by_an_unnamed_file", "set_user_id_by_io_uring"]),
    (&["View"], &["read_a_key", "read_another_work_dir", "read_by_its_own_root", "leave_a_file_in_tmp", "leave_a_file_in_shared_memory", "learn_the_machine_id", "learn_the_boot_id", "learn_the_boot_options", "read_kernel_addresses", "learn_the_mounts"]),
    (&["Descriptors"], &["read_by_an_inherited_directory", "read_an_inherited_file", "open_below_an_inherited_directory", "write_to_an_inherited_file", "name_an_inherited_file"]),
    (&["PidNamespace"], &["outlive_as_a_daemon", "outlive_deaf_to_signals", "outlive_holding_the_output", "outlive_under_another_name", "outlive_a_killed_launcher", "read_the_arguments_of_a_process"]),
    (&["Rlimits"], &["fork_bomb", "fork_bomb_of_generations", "fork_bomb_by_vfork", "thread_bomb", "fork_bomb_of_programs"]),
    (&["Environment"], &["read_a_secret_variable", "read_the_environment_of_a_launcher"]),
    (&["Streams"], &["read_back_the_standard_error"]),
    (&["UtsNamespace"], &["learn_the_host_name"]),
    (&["Modes"], &["set_group_id_by_fchmodat2"]),
    (&["Git"], &["git_hook", "git_hook_kept_in_the_tree", "git_setting", "git_common_directory", "git_repository_further_down", "git_bare_repository_further_down", "git_file_that_leads_to_a_repository", "git_writes_through_a_link"]),
    (&["NetworkNamespace", "Filter"], &["multipath_tcp", "tcp_by_io_uring", "list_interfaces_by_netlink", "list_sockets_by_netlink", "netlink_message_to_a_process"]),
    (&["Identity", "View"], &["connect_to_a_socket_in_the_home", "connect_to_a_socket_beside_the_directory", "connect_to_a_socket_in_tmp", "connect_to_a_socket_through_a_link", "datagram_to_a_socket_in_the_home", "datagram_pair_to_a_socket_in_the_home", "read_the_password_hashes", "read_by_a_symbolic_link", "read_by_a_hard_link", "append_to_a_file", "append_by_a_symbolic_link", "append_by_a_hard_link", "empty_a_file", "create_a_file", "move_a_file_out", "move_a_file_in", "hard_link_a_file_out", "delete_a_file", "change_a_mode", "change_times", "write_by_a_mapping", "write_to_a_system_directory", "replace_the_directory_by_a_link", "core_dump_handler", "virtual_machine_device", "tunnel_device", "file_system_device"]),
    (&["Dumpable", "View"], &["read_by_the_root_of_another_process"]),
    (&["View", "Filter"], &["read_by_io_uring"]),
    (&["Identity", "Streams"], &["append_by_its_input", "write_to_the_standard_input"]),
    (&["Identity", "Descriptors"], &["append_by_an_inherited_descriptor"]),
    (&["Identity", "PidNamespace"], &["kill_a_process", "kill_by_pidfd", "kill_by_sigio", "stop_a_process"]),
    (&["Identity", "Session"], &["terminate_its_group"]),
    (&["Rlimits", "Filter"], &["fork_bomb_by_clone3"]),
    (&["NestedNamespaces", "Filter"], &["nested_user_namespace_by_unshare", "nested_user_namespace_by_clone", "nested_user_namespace_by_clone3", "nested_user_namespace_by_high_garbage", "nested_user_namespace_by_int80", "nested_network_namespace", "nested_process_namespace", "firewall_in_a_namespace"]),
    (&["Privileges", "Filter"], &["new_mount_by_fsopen", "copy_of_a_mount_by_open_tree", "move_mount", "mount_setattr", "pivot_root", "chroot"]),
    (&["UserNamespace", "Filter"], &["key_that_outlives_the_run"]),
    (&["Identity", "Filter"], &["read_a_key_of_the_keyring"]),
    (&["Streams", "Session"], &["take_the_foreground"]),
    (&["Session", "View"], &["listen_to_the_terminal"]),
    (&["UserNamespace", "NetworkNamespace", "Privileges"], &["forge_a_datagram", "forge_an_icmp_refusal"]),
    (&["UserNamespace", "Privileges", "Filter"], &["read_by_a_file_handle", "open_by_handle", "kernel_log", "accounting", "swap_file", "read_the_kernel_log", "file_capabilities"]),
    (&["Identity", "View", "Filter"], &["set_an_attribute", "write_by_io_uring"]),
    (&["Identity", "Privileges", "PidNamespace"], &["renice_a_process", "pin_a_process"]),
    (&["Identity", "Session", "Privileges"], &["renice_its_group"]),
    (&["Identity", "PidNamespace", "Filter"], &["relimit_a_process"]),
    (&["Landlock", "NestedNamespaces", "Filter"], &["mount_over_etc_in_a_namespace"]),
    (&["UserNamespace", "Privileges", "PidNamespace"], &["read_the_environment_of_a_process"]),
    (&["UserNamespace", "Keyring", "Filter"], &["find_a_key_of_the_keyring"]),
    (&["Streams", "Session", "Filter"], &["type_into_the_terminal"]),
    (&["Session", "View", "Filter"], &["type_into_a_terminal_not_given"]),
    (&["UserNamespace", "NetworkNamespace", "Privileges", "Filter"], &["sniff_the_traffic"]),
    (&["Identity", "Privileges", "View", "Filter"], &["read_above_the_root"]),
    (&["UserNamespace", "Landlock", "Privileges", "PidNamespace"], &["read_memory_by_proc"]),
    (&["UserNamespace", "Privileges", "PidNamespace", "Filter"], &["reboot"]),
    (&["UserNamespace", "UtsNamespace", "Privileges", "Filter"], &["host_name"]),
    (&["UserNamespace", "Landlock", "Privileges", "Filter"], &["device_node", "device_of_the_disk"]),
    (&["Identity", "Landlock", "Privileges", "View", "Filter"], &["write_by_a_bind_mount", "write_by_a_detached_mount"]),
    (&["UserNamespace", "Landlock", "Privileges", "PidNamespace", "Filter"], &["trace_a_process", "read_memory_of_a_process", "write_memory_of_a_process", "join_mounts_of_a_process", "join_network_of_a_process"]),
];
