//! Policy as data: the files of this folder as text, for those who compile or read them.
//!
//! No logic lives here. The folder is a package because files outside a package's folder are left out of it when it is
//! published.

/// The groups of the system-call filter, as (file name, JSON text).
///
/// A file holds a comment and groups; a group holds the errno that its calls are answered with, and rules; a rule holds
/// the calls, a reason, the architecture if only one has the call, where it applies if not in every jail, and conditions
/// on arguments that must all hold.
pub const SECCOMP: &[(&str, &str)] = &[
    ("files.json", include_str!("seccomp/files.json")),
    ("kernel.json", include_str!("seccomp/kernel.json")),
    ("keys.json", include_str!("seccomp/keys.json")),
    ("landlock.json", include_str!("seccomp/landlock.json")),
    ("memory.json", include_str!("seccomp/memory.json")),
    ("mounts.json", include_str!("seccomp/mounts.json")),
    ("namespaces.json", include_str!("seccomp/namespaces.json")),
    ("processes.json", include_str!("seccomp/processes.json")),
    ("sockets.json", include_str!("seccomp/sockets.json")),
    ("terminal.json", include_str!("seccomp/terminal.json")),
];

/// The part of a seatbelt profile that every jail on macOS has, in Apple's profile language.
pub const SEATBELT: &str = include_str!("seatbelt.sb");

/// Policies to start from, as (name, TOML text): the fields of a policy but for its command.
pub const POLICIES: &[(&str, &str)] = &[
    ("snippet", include_str!("snippet.toml")),
    ("workspace", include_str!("workspace.toml")),
    ("build", include_str!("build.toml")),
    ("strict", include_str!("strict.toml")),
];
