//! Attacks without their judges: for whoever asks not whether one succeeds, but what a launcher leaves behind of many.
//!
//! `attacker MARKER WORD...` performs one; it prints `trying` first. They need nothing prepared on the host, and name
//! nothing of it but what every host has. Where no sandbox is, some of them harm whoever starts them.

use std::io;

/// Compiled by the build script.
static ATTACKER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/attacker"));

/// Attacks that take something hold it for about a second, unless there is this file.
pub const ENOUGH: &str = "/tmp/enough";

/// The attacker: a static executable.
///
/// # Errors
/// If this was built where it could not be linked.
pub fn attacker() -> io::Result<&'static [u8]> {
    if ATTACKER.is_empty() {
        return Err(io::Error::other(
            "this program was built without a linker for its target, and has no attacker",
        ));
    }
    Ok(ATTACKER)
}

/// The attacker's words for each. Relative paths are in its current directory, which it has to be able to write.
pub const UNJUDGED: &[&[&str]] = &[
    // Processes that are hard to end, and that end others.
    &["daemon", ENOUGH],
    &["deaf_daemon", ENOUGH],
    &["output_holder", ENOUGH],
    &["renamed_daemon", ENOUGH],
    &["survivor", ENOUGH, "/tmp/there"],
    &["terminate_group", ENOUGH],
    &["renice_group", ENOUGH],
    &["kill", "0", "19"],
    &["kill", "1", "9"],
    &["kill_by_sigio", ENOUGH, "1"],
    &["trace", ENOUGH, "1"],
    &["trace_a_child"],
    &["steal_a_childs_descriptor"],
    // Many of them.
    &["forks", ENOUGH],
    &["generations", ENOUGH],
    &["vforks", ENOUGH],
    &["clones", ENOUGH],
    &["threads", ENOUGH],
    &["programs", ENOUGH],
    &["spin_together", ENOUGH],
    &["spin_in_turn", ENOUGH],
    // Memory, of which some is no process's.
    &["private", ENOUGH],
    &["by_many", ENOUGH],
    &["shared", ENOUGH],
    &["memfd", ENOUGH],
    &["segment", ENOUGH],
    &["write_file", ENOUGH, "/dev/shm/file"],
    &["queues", ENOUGH],
    &["page_tables", ENOUGH],
    &["lock", ENOUGH, "6291456"],
    &["secret_memory"],
    &["program_from_memory"],
    // Files, descriptors and the kernel's own objects.
    &["large_file", ENOUGH],
    &["files", ENOUGH],
    &["nameless_files", ENOUGH],
    &["reserve", ENOUGH],
    &["empty_files", ENOUGH, "300"],
    &["descriptors", ENOUGH],
    &["inotify", ENOUGH, "60"],
    &["add_key"],
    &["keep_key", "agentkit-key", "content"],
    &["key_that_outlives_the_run", "agentkit-key"],
    &["io_uring"],
    &["memory_pages_into_a_pipe"],
    // What stays for others.
    &["plant_by_fchmod", "planted"],
    &["plant_by_fchmodat2", "planted"],
    &["plant_by_open", "planted"],
    &["plant_by_openat2", "planted"],
    &["plant_by_mknod", "planted"],
    &["plant_by_unnamed_file", "planted", "."],
    &["plant_by_uring", "planted"],
    &["plant_device", "planted", "."],
    &["device_node", "planted"],
    &["plant_program", ".git/hooks/pre-commit", "#!/bin/sh"],
    &["plant_repository", "below", "#!/bin/sh"],
    &["plant_bare_repository", "below", ""],
    &["plant_way_to_repository", "below", "#!/bin/sh"],
    // Namespaces and mounts of its own.
    &["nested_user_namespace_by_unshare"],
    &["nested_user_namespace_by_clone3"],
    &["nested_network_namespace"],
    &["nested_process_namespace"],
    &["mount_over_etc_in_a_namespace"],
    &["new_mount_by_fsopen"],
    &["copy_of_a_mount_by_open_tree"],
    &["read_above_the_root", "/etc/hostname", "root"],
    // Sockets and terminals.
    &["tcp", "9"],
    &["connect_by_ring", "inet:9"],
    &["send_from_pair", "unix:/run/systemd/journal/dev-log", "text"],
    &["list_links"],
    &["sniff"],
    &["listen", "4243"],
    &["listen_abstract", "agentkit-attack"],
    &["kernel_crypto"],
    &["type_own", ENOUGH, "text"],
    &["foreground", ENOUGH],
];
