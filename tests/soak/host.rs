//! What launches could leave on the host, seen from there.

use crate::support::{Stop, eventually, outside, processes};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::Path;
use std::time::Duration;

/// How long the dead may take to be gone: with a helper that is killed, init dies a moment later.
const GRACE: Duration = Duration::from_secs(10);
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
        Ok(Host(found))
    }

    /// Fails if something that is new stays.
    pub(crate) fn nothing_is_new(&self, name: &str) -> Result<(), Stop> {
        let new = |now: Host| now.0.difference(&self.0).cloned().collect::<BTreeSet<String>>();
        let mut left = new(Host::look(name)?);
        let gone = eventually("what is new is gone", GRACE, || {
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

fn cgroups(directory: &Path, found: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if entry.file_name().to_string_lossy().contains("agentkit") {
            found.insert(format!("cgroup {:?} inode {}", entry.path(), entry.ino()));
        }
        cgroups(&entry.path(), found);
    }
}
