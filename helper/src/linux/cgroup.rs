//! A control group for the memory of the tree: the one way to a limit that the kernel itself enforces.
//!
//! Joining one costs more than a tenth of a launch, and needs root or a subtree that was delegated to the launcher, so it
//! is made only where the policy requires `memory_limited`. It is made before root is given up, and can be removed only
//! by who made it: a keeper, forked before that, which does nothing but wait until everybody who could be in the group
//! has ended, however that came about. Should it be killed too, the next launch clears away what nobody holds.

use super::mount_table::{Line, MountTable, has_option, plain};
use super::proc_files;
use super::sys::{self, Forked};
use crate::error::{Context, Hint, Result, failure};
use agentkit_protocol::{FailureKind, Limits};
use nix::fcntl::OFlag;
use nix::libc;
use nix::unistd::{dup2_stdin, dup2_stdout, pipe2, setsid};
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const STEP: &str = "cgroup";
const NAME: &str = "agentkit-jail-";
/// How long it may take to make a group while others clear away.
const LOCKING: Duration = Duration::from_secs(1);
/// How long the keeper waits for the last process to be gone from the group.
const PATIENCE: Duration = Duration::from_secs(10);
const HINT: &str =
    "start it as root, or inside a cgroup that is delegated to this user with the memory controller";

/// The two versions call the same things by other names; see cgroups(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn limit_file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }

    /// What goes to swap must not be beyond the limit. Kernels without swap accounting have no such file.
    fn swap_limit(self, limit: u64) -> (&'static str, u64) {
        match self {
            Version::One => ("memory.memsw.limit_in_bytes", limit),
            Version::Two => ("memory.swap.max", 0),
        }
    }

    /// Has a line `oom_kill` with the number of processes that were killed for the limit.
    fn events_file(self) -> &'static str {
        match self {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        }
    }
}

/// Where a group can be made.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    version: Version,
    /// The directory of the group that this process is in.
    own: PathBuf,
    /// The directory to make the group in.
    parent: PathBuf,
}

/// A group with a limit, for as long as this exists.
pub(crate) struct Group {
    /// Bytes, as read back.
    pub(crate) limit: u64,
    events: File,
    /// The way back to where this process came from.
    home: File,
    keeper: Keeper,
}

impl Group {
    /// Makes a group and moves this process into it: what it makes from now on is born there.
    ///
    /// Files in the private directories are memory to the kernel, so the limit is of both together.
    pub(crate) fn join(limits: &Limits) -> Result<Group> {
        let limit = limits.memory.saturating_add(limits.disk);
        let read = |path: &str| proc_files::read(path).context(STEP, format_args!("read {path}"));
        let mut refusal = None;
        let places = places(&MountTable::of_this_process(STEP)?, &read("/proc/self/cgroup")?);
        // In all of them: what was left may be where this launch has no need to go.
        places.iter().for_each(|place| clear_away(&place.parent));
        for place in places {
            match Self::join_at(&place, limit) {
                Ok(group) => return Ok(group),
                Err(failure) => drop(refusal.get_or_insert(failure.message)),
            }
        }
        let why = refusal.unwrap_or_else(|| "no memory controller is mounted".to_owned());
        let message = format!("memory_limited is required, but there can be no cgroup for it: {why}");
        Err(failure(FailureKind::Required, STEP, message)).hint(HINT)
    }

    fn join_at(place: &Place, limit: u64) -> Result<Group> {
        let version = place.version;
        let leaf = place.parent.join(format!("{NAME}{}", std::process::id()));
        let home = open_to_write(&place.own.join("cgroup.procs"))?;
        let keeper = Keeper::start(&leaf, make_and_lock(&leaf)?)?;
        write(&leaf.join(version.limit_file()), limit)?;
        let (swap, most) = version.swap_limit(limit);
        match write(&leaf.join(swap), most) {
            // It is not there if the kernel has no swap accounting.
            Err(error) if matches!(error.errno, Some(libc::ENOENT | libc::EACCES)) => {}
            result => result?,
        }
        let events = leaf.join(version.events_file());
        let events = File::open(&events).context(STEP, format_args!("open {events:?}"))?;
        let path = leaf.join(version.limit_file());
        let text = fs::read_to_string(&path).context(STEP, format_args!("read {path:?}"))?;
        let limit = text
            .trim()
            .parse()
            .map_err(io::Error::other)
            .context(STEP, format_args!("{text:?} in {path:?}"))?;
        write(&leaf.join("cgroup.procs"), 0)?;
        Ok(Group { limit, events, home, keeper })
    }

    /// Moves this process back, once the jail's first process is born in the group.
    pub(crate) fn leave(&self) {
        // Kernels before 5.16 ask who writes, who is not root any more, and not who opened. The supervisor then stays,
        // and the keeper has to outlive it.
        self.keeper.can_end_first.set((&self.home).write_all(b"0").is_ok());
    }

    /// How many processes the kernel has killed for the limit.
    pub(crate) fn killed(&self) -> u64 {
        let mut text = [0; 1024];
        let length = self.events.read_at(&mut text, 0).unwrap_or(0);
        parse_killed(&String::from_utf8_lossy(text.get(..length).unwrap_or_default())).unwrap_or(0)
    }
}

/// Removes the group when everybody has ended who could be in it.
struct Keeper {
    pid: libc::pid_t,
    /// Held by this process and by the jail's init. Its end is what the keeper waits for.
    alive: Option<OwnedFd>,
    can_end_first: Cell<bool>,
}

impl Keeper {
    fn start(leaf: &Path, held: File) -> Result<Keeper> {
        let (ended, alive) = pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from).context(STEP, "pipe2")?;
        match sys::fork().context(STEP, "fork a keeper")? {
            Forked::Parent { pid, .. } => {
                Ok(Keeper { pid, alive: Some(alive), can_end_first: Cell::new(false) })
            }
            Forked::Child => {
                // It holds nothing that anybody waits for the end of, and the lock until its own.
                let ready = setsid().and_then(|_| dup2_stdin(&ended)).and_then(|()| dup2_stdout(&held));
                if ready.is_ok() && sys::close_range(2, i32::MAX).is_ok() {
                    keep(leaf);
                }
                // Nothing may be dropped that was just closed.
                std::process::exit(0)
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.alive = None;
        if self.can_end_first.get() {
            // It gives up after a while.
            drop(sys::wait_with_usage(self.pid));
        }
    }
}

/// The whole life of a keeper.
fn keep(leaf: &Path) {
    // Nobody writes: this returns at the end.
    drop(io::stdin().read(&mut [0]));
    let began = Instant::now();
    while fs::remove_dir(leaf).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
        && began.elapsed() < PATIENCE
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Another launch that clears away takes a group for abandoned until it is locked: it is then made again.
fn make_and_lock(leaf: &Path) -> Result<File> {
    let began = Instant::now();
    while began.elapsed() < LOCKING {
        match fs::create_dir(leaf) {
            // Just being removed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.context(STEP, format_args!("make {leaf:?}"))?,
        }
        if let Some(held) = lock(leaf) {
            return Ok(held);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Err(failure(
        FailureKind::Host,
        STEP,
        format_args!("{leaf:?} is removed or locked by others for {LOCKING:?}"),
    ))
}

/// Who has the lock alone may remove the group. It is worth nothing if somebody did before it was had.
fn lock(leaf: &Path) -> Option<File> {
    let group = File::open(leaf).ok()?;
    group.try_lock().ok()?;
    let is_there = group.metadata().ok()?.ino() == fs::metadata(leaf).ok()?.ino();
    is_there.then_some(group)
}

/// Removes groups that nobody holds: their keepers were killed.
fn clear_away(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes())
            && let Some(_held) = lock(&entry.path())
        {
            // A process may be left in it.
            drop(fs::remove_dir(entry.path()));
        }
    }
}

/// Where a group may be made, in the order in which to try: from `/proc/self/mountinfo` and `/proc/self/cgroup`, see
/// cgroups(7).
fn places(mounts: &MountTable, groups: &str) -> Vec<Place> {
    mounts.lines().filter_map(|mount| mounted(&mount, groups)).flatten().collect()
}

fn mounted(mount: &Line, groups: &str) -> Option<Vec<Place>> {
    let (root, point) = (plain(mount.root), plain(mount.point));
    let version = match mount.kind {
        b"cgroup" if has_option(mount.system, "memory") => Version::One,
        b"cgroup2" => Version::Two,
        _ => return None,
    };
    let group = groups.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        let fits = match version {
            Version::One => controllers.split(',').any(|controller| controller == "memory"),
            Version::Two => controllers.is_empty(),
        };
        fits.then_some(path)
    })?;
    // A container sees a part of the tree.
    let below = Path::new(group).strip_prefix(root).ok()?;
    let own = if below.as_os_str().is_empty() { point } else { point.join(below) };
    let place = |parent: &Path| Place { version, own: own.clone(), parent: parent.to_owned() };
    Some(match version {
        Version::One => vec![place(&own)],
        // A group with processes in it has no controllers to give; its parent may have.
        Version::Two if below.as_os_str().is_empty() => vec![place(&own)],
        Version::Two => own.ancestors().take(2).map(place).collect(),
    })
}

/// Of the line `oom_kill 3`.
fn parse_killed(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

fn open_to_write(path: &Path) -> Result<File> {
    OpenOptions::new().write(true).open(path).context(STEP, format_args!("open {path:?} to write"))
}

fn write(path: &Path, value: u64) -> Result<()> {
    open_to_write(path)?
        .write_all(value.to_string().as_bytes())
        .context(STEP, format_args!("write {value} to {path:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(mounts: &str, groups: &str) -> Vec<Place> {
        places(&MountTable::from(mounts.to_owned()), groups)
    }

    #[test]
    fn version_one_is_found_by_its_controller() {
        let mounts = "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
                      34 31 0:31 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory\n";
        let groups = "5:cpuacct:/x\n4:memory:/some/where\n0::/\n";
        let own = PathBuf::from("/sys/fs/cgroup/memory/some/where");
        let expected = Place { version: Version::One, own: own.clone(), parent: own };
        assert_eq!(found(mounts, groups), [expected]);
    }

    #[test]
    fn version_two_is_tried_here_and_one_above() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let parents = |groups: &str| -> Vec<_> {
            found(mounts, groups).into_iter().map(|place| place.parent).collect()
        };
        let at = |path: &str| PathBuf::from(path);
        assert_eq!(
            parents("0::/user.slice/user-0.slice\n"),
            [at("/sys/fs/cgroup/user.slice/user-0.slice"), at("/sys/fs/cgroup/user.slice")]
        );
        assert_eq!(parents("0::/\n"), [at("/sys/fs/cgroup")]);
    }

    #[test]
    fn what_a_container_cannot_see_is_no_place() {
        let part = "30 24 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(found(part, "0::/docker/1\n").len(), 1);
        assert_eq!(found(part, "0::/../2\n"), []);
        assert_eq!(found("", "0::/\n"), []);
        assert_eq!(found("nothing of a mount\n - cgroup2\n", "0\n"), []);
    }

    #[test]
    fn the_kernels_kills_are_counted() {
        assert_eq!(parse_killed("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(parse_killed("low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\noom_group_kill 9\n"), Some(0));
        assert_eq!(parse_killed(""), None);
    }
}
