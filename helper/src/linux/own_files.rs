//! What a jail with a root of its own has there, whoever makes it.

use super::identity::INNER_ID;
use super::view::HOME;

/// A device node cannot be made in a user namespace, so the host's harmless ones are borrowed.
pub(crate) const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"];
/// Where, and what they say.
pub(crate) const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    // The same since Linux 5.6, but for the moment when a machine starts.
    ("/dev/random", "urandom"),
];

/// What a full `/proc` shows beside processes: what `ps`, `free`, `uptime` and runtimes read. A list of what is shown, not
/// of what is hidden, since each kernel adds to it.
pub(crate) const SHOWN: [&str; 12] = [
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "mounts",
    "net",
    "self",
    "stat",
    "thread-self",
    "uptime",
    "version",
    "vmstat",
];
/// Shown, but only to be read: the kernel's settings.
pub(crate) const SETTINGS: &str = "sys";
/// Where among them hosts mount what programs they know besides; see binfmt_misc of the kernel.
#[cfg(feature = "bubblewrap")]
pub(crate) const FORMATS: &str = "sys/fs/binfmt_misc";
/// Of those, what tells one machine from another.
pub(crate) const IDENTITY: &str = "sys/kernel/random/boot_id";

/// Programs want to know who they are; the host's accounts are nobody's business.
pub(crate) fn accounts() -> [(&'static str, String); 4] {
    [
        (
            "/etc/passwd",
            format!("jail:x:{INNER_ID}:{INNER_ID}::{HOME}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"),
        ),
        ("/etc/group", format!("jail:x:{INNER_ID}:\nnogroup:x:65534:\n")),
        ("/etc/hosts", "127.0.0.1 localhost jail\n::1 localhost\n".to_owned()),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
    ]
}
