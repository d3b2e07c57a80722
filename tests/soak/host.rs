//! What launches could leave on the host, seen from there.

use crate::support::need::need;
use crate::support::{Stop, eventually, outside, processes};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long the dead may take to be gone: with a helper that is killed, init dies a moment later.
const GRACE: Duration = Duration::from_secs(30);
/// Where something with the project's name could lie.
const PLACES: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run"];

/// Everything of that kind, one line each. What others do at the same time comes and goes, so only what stays counts.
pub(crate) struct Host(BTreeSet<String>);

/// A name for a copy of the helper. The kernel shows the first 15 bytes of it for the supervisor, its copiers and init,
/// also to those who may not look at anything else of them.
pub(crate) fn unused_name() -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("soak{}-{count}", std::process::id())
}

impl Host {
    /// Looks now. The helper under test, and only it, is called `name`; commands have that in their environment.
    pub(crate) fn look(name: &str) -> Result<Host, Stop> {
        let mut found = outside::mounts(&fs::read_to_string("/proc/self/mountinfo")?);
        found.extend(
            processes::with_marker(name).into_iter().map(|pid| format!("process {pid} of a command")),
        );
        found.extend(named(name));
        found.extend(claims(&fs::read_to_string("/proc/net/unix")?));
        found.insert(format!("{} descriptors of our own", fs::read_dir("/proc/self/fd")?.count()));
        for place in PLACES.map(Path::new) {
            found.extend(files(place));
        }
        cgroups(Path::new("/sys/fs/cgroup"), &mut found);
        for table in ["shm", "sem", "msg"] {
            found.extend(system_v(table));
        }
        found.extend(keepers_of_keys());
        Ok(Host(found))
    }

    /// Fails if something that is new stays.
    pub(crate) fn nothing_is_new(&self, name: &str) -> Result<(), Stop> {
        self.nothing_is_new_after(GRACE, name)
    }

    fn nothing_is_new_after(&self, grace: Duration, name: &str) -> Result<(), Stop> {
        let new = |now: Host| now.0.difference(&self.0).cloned().collect::<BTreeSet<String>>();
        let mut left = new(Host::look(name)?);
        let gone = eventually("what is new is gone", grace, || {
            let Ok(now) = Host::look(name) else { return false };
            left = left.intersection(&new(now)).cloned().collect();
            left.is_empty()
        });
        gone.map_err(|_| Stop::Fail(format!("left behind: {left:#?}")))
    }
}

/// Processes of the helper.
fn named(name: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let is_it = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    entries
        .flatten()
        .filter(is_it)
        .map(|entry| format!("process {:?} of the helper", entry.file_name()))
        .collect()
}

/// Names that jails hold while they live, with the inode, which tells one holder from the next.
fn claims(table: &str) -> Vec<String> {
    let claim = |line: &str| {
        let mut words = line.split_whitespace().skip(6);
        let (inode, name) = (words.next()?, words.next()?);
        name.starts_with("@agentkit").then(|| format!("claim {name} inode {inode}"))
    };
    table.lines().filter_map(claim).collect()
}

/// What tests name so is theirs.
fn files(place: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let ours = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.contains("agentkit") && !name.contains("agentkit-test-")
    };
    entries
        .flatten()
        .filter(ours)
        .map(|entry| format!("file {:?} inode {}", entry.path(), entry.ino()))
        .collect()
}

/// Shared memory, semaphores and queues of messages, by key, number and permissions.
fn system_v(kind: &str) -> Vec<String> {
    let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
    let name = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    table.lines().skip(1).map(|line| format!("{kind} of System V {}", name(line))).collect()
}

/// The users of whom the kernel keeps keys. How many it does not matter: others' come and go.
fn keepers_of_keys() -> Vec<String> {
    let table = fs::read_to_string("/proc/key-users").unwrap_or_default();
    table
        .lines()
        .filter_map(|line| Some(format!("keys of user {}", line.split_once(':')?.0.trim())))
        .collect()
}

fn cgroups(directory: &Path, found: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if entry.file_name().to_string_lossy().contains("agentkit") {
            found.insert(format!("cgroup {:?} inode {}", entry.path(), entry.ino()));
        }
        cgroups(&entry.path(), found);
    }
}

/// A look that sees nothing would let everything pass.
pub(crate) fn what_is_left_is_seen() -> Result<(), Stop> {
    need("userns")?;
    let name = unused_name();
    let before = Host::look(&name)?;
    let file = tempfile::Builder::new().prefix("agentkit-left-").tempfile()?;
    let listener = claim(&format!("agentkit-{name}"))?;
    let mut process = Command::new("sleep").arg("60").env("MARKER", &name).spawn()?;
    let segment = Segment::new();
    let seen = before.nothing_is_new_after(Duration::ZERO, &name);
    process.kill()?;
    process.wait()?;
    let had_segment = segment.is_some();
    drop((file, listener, segment));
    let Err(Stop::Fail(seen)) = seen else { return Err(Stop::Fail("nothing was seen".into())) };
    let all =
        ["file", "claim", "descriptors", "of a command"].into_iter().chain(had_segment.then_some("System V"));
    for what in all {
        assert!(seen.contains(what), "{what} was not seen: {seen}");
    }
    before.nothing_is_new(&name)
}

#[cfg(target_os = "linux")]
fn claim(name: &str) -> std::io::Result<UnixListener> {
    use std::os::linux::net::SocketAddrExt;
    UnixListener::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)
}

/// Only Linux has such names.
#[cfg(not(target_os = "linux"))]
fn claim(_: &str) -> std::io::Result<UnixListener> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Shared memory of System V, made by a tool that not every host has.
struct Segment(String);

impl Segment {
    fn new() -> Option<Segment> {
        let output = Command::new("ipcmk").args(["--shmem", "4096"]).output().ok()?;
        // "Shared memory id: 7", in the caller's language.
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_whitespace().next_back().map(|id| Segment(id.to_owned()))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = Command::new("ipcrm").args(["--shmem-id", &self.0]).status();
    }
}
