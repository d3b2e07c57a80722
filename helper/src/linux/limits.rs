//! Step 7: limits per process, inherited by everything the command starts.

use super::layers::Layer;
use super::proc_files;
use super::sys::{self, Forked};
use crate::error::{Context, Result};
use agentkit_protocol::Limits;
use nix::libc;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};
use std::collections::BTreeMap;
use std::io;

const STEP: &str = "limits";

/// One limit: its name in reports, its name in `/proc/PID/limits`, and its value.
struct Row {
    name: &'static str,
    label: &'static str,
    resource: Resource,
    value: rlim_t,
}

/// Limits of the launcher that are left as they are, and their usual values. (Of the kernel's others, two do nothing any
/// more, and one only concerns real-time scheduling, which no jail has.)
const UNTOUCHED: [(&str, &str, u64); 2] =
    [("as", "Max address space", RLIM_INFINITY), ("stack", "Max stack size", 8 << 20)];

/// What is set. `others` are tasks outside of the run that the kernel counts toward the process limit too.
///
/// Since Linux 5.14 the process limit counts the tasks of this user namespace alone (`ucounts`), so an absolute number
/// is right; older kernels count the launcher's other processes too, which makes the limit tighter.
fn table(limits: &Limits, others: u64) -> [Row; 11] {
    use Resource::*;
    let row = |name, label, resource, value| Row { name, label, resource, value };
    // Exact limits break programs that reserve much and touch little: the poller enforces, this is a backstop.
    let data = limits.memory.saturating_mul(4).max(4 << 30);
    [
        // The supervisor belongs to the run and lives outside of the namespace.
        row(
            "nproc",
            "Max processes",
            RLIMIT_NPROC,
            limits.processes.saturating_sub(1).saturating_add(others),
        ),
        row("cpu", "Max cpu time", RLIMIT_CPU, limits.cpu_seconds),
        row("fsize", "Max file size", RLIMIT_FSIZE, limits.file_size),
        row("nofile", "Max open files", RLIMIT_NOFILE, limits.open_files),
        row("data", "Max data size", RLIMIT_DATA, data),
        // With 0 a crash handler of the host would still run for a crash in here; 1 suppresses it, see core(5).
        row("core", "Max core file size", RLIMIT_CORE, 1),
        row("memlock", "Max locked memory", RLIMIT_MEMLOCK, 64 << 10),
        row("msgqueue", "Max msgqueue size", RLIMIT_MSGQUEUE, 0),
        row("sigpending", "Max pending signals", RLIMIT_SIGPENDING, 256),
        // A launcher may be allowed what a jail must not: to run before everybody else.
        row("rtprio", "Max realtime priority", RLIMIT_RTPRIO, 0),
        row("nice", "Max nice priority", RLIMIT_NICE, 0),
    ]
}

/// Sets every limit, soft and hard, in one call each, but for that of open files, see [`settle`]. Returns the launcher's own
/// limits that bind too.
pub(crate) fn apply(limits: &Limits, others: u64) -> Result<BTreeMap<String, u64>> {
    let mut launchers = BTreeMap::new();
    if Layer::Rlimits.is_off() {
        return Ok(launchers);
    }
    for row in table(limits, others) {
        if row.resource == Resource::RLIMIT_NOFILE {
            let allowed = open_files(row.value).map_err(io::Error::from);
            let allowed = allowed.context(STEP, "getrlimit RLIMIT_NOFILE")?;
            if allowed < row.value {
                launchers.insert(row.name.to_owned(), allowed);
            }
            continue;
        }
        let what = || format!("prlimit {} to {}", row.name, row.value);
        let ceiling = ceiling(&row);
        let before = match sys::replace_limit(row.resource as _, row.value, ceiling) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                let (soft, hard) = getrlimit(row.resource).map_err(io::Error::from).context(STEP, what())?;
                let wanted = (row.value.min(hard), ceiling.min(hard));
                // A filter around this process can forbid to set even what is there already.
                if (soft, hard) != wanted {
                    sys::replace_limit(row.resource as _, wanted.0, wanted.1).context(STEP, what())?;
                }
                if hard < row.value {
                    launchers.insert(row.name.to_owned(), hard);
                }
                soft
            }
            result => result.context(STEP, what())?,
        };
        // The namespace's tasks count as the launcher's too, beside all others of that user, so it can bind at any value.
        if row.resource == Resource::RLIMIT_NPROC && before != RLIM_INFINITY {
            launchers.insert(row.name.to_owned(), before);
        }
    }
    Ok(launchers)
}

/// The hard limit.
fn ceiling(row: &Row) -> rlim_t {
    match row.resource {
        // The kernel sends SIGXCPU at the soft limit and kills at the hard one: a second lets a handler say goodbye.
        Resource::RLIMIT_CPU => row.value.saturating_add(1),
        _ => row.value,
    }
}

/// The last limit to come into force, on whoever becomes the command: what sets it up opens files, and what it tries must
/// not fail for want of a descriptor.
pub(crate) fn settle(wanted: u64) -> io::Result<()> {
    if Layer::Rlimits.is_off() {
        return Ok(());
    }
    let allowed = open_files(wanted)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, allowed, allowed)?)
}

/// How many files the command may open, if so many are wanted.
fn open_files(wanted: u64) -> nix::Result<rlim_t> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(if Layer::Rlimits.is_off() { soft } else { wanted.min(hard) })
}

/// Does what the kernel allows for as long as the user has no more descriptors on their way through sockets than this
/// process may have open: those of other jails count too.
pub(crate) fn with_all_files<T>(act: impl FnOnce() -> nix::Result<T>) -> nix::Result<T> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let done = act();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
    done
}

/// Whether the process limit binds this user, tried out by a process that may not have a child and asks for one.
pub(crate) fn bind_this_user() -> Result<bool> {
    let (tried, _) = match sys::fork().context(STEP, "fork")? {
        Forked::Child => std::process::exit(if may_fork_at_its_limit() { 1 } else { 0 }),
        Forked::Parent { pid, .. } => sys::wait_with_usage(pid).context(STEP, "wait")?,
    };
    Ok(tried == 0)
}

fn may_fork_at_its_limit() -> bool {
    let lowered =
        getrlimit(Resource::RLIMIT_NPROC).and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NPROC, 1, hard));
    match lowered.map_err(io::Error::from).and_then(|()| sys::fork()) {
        Ok(Forked::Child) => std::process::exit(0),
        Ok(Forked::Parent { .. }) => true,
        // Anything but the limit's own answer proves nothing.
        Err(error) => error.raw_os_error() != Some(nix::libc::EAGAIN),
    }
}

/// The soft limits in force, asked of the kernel; that of open files as [`settle`] leaves it, or nothing is executed.
pub(crate) struct InForce {
    /// Those of the policy.
    pub(crate) own: BTreeMap<String, u64>,
    /// The launcher's where the policy has none, if they are lower than usual.
    pub(crate) launchers: BTreeMap<String, u64>,
}

impl InForce {
    /// Those of this process.
    pub(crate) fn read(limits: &Limits) -> Result<Self> {
        let text = proc_files::read("/proc/self/limits").context(STEP, "read /proc/self/limits")?;
        let value = |label: &str| {
            soft_limit(&text, label)
                .ok_or_else(|| io::Error::other("it is not there"))
                .context(STEP, format_args!("{label:?} of /proc/self/limits"))
        };
        let read = |row: &Row| match row.resource {
            Resource::RLIMIT_NOFILE => {
                open_files(row.value).map_err(io::Error::from).context(STEP, "getrlimit RLIMIT_NOFILE")
            }
            _ => value(row.label),
        };
        let rows = table(limits, 0).into_iter().map(|row| Ok((row.name.to_owned(), read(&row)?)));
        let own = rows.collect::<Result<_>>()?;
        let mut launchers = BTreeMap::new();
        for (name, label, usual) in UNTOUCHED {
            let value = value(label)?;
            if value < usual {
                launchers.insert(name.to_owned(), value);
            }
        }
        Ok(InForce { own, launchers })
    }
}

/// The first value of a line, see proc_pid_limits(5).
fn soft_limit(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(' '))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(RLIM_INFINITY),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_found_in_what_the_kernel_prints() {
        let InForce { own, launchers } = InForce::read(&Limits::default()).unwrap();
        assert_eq!(own.len(), table(&Limits::default(), 0).len());
        for (name, value) in own {
            let resource =
                table(&Limits::default(), 0).into_iter().find(|row| row.name == name).unwrap().resource;
            let (soft, hard) = getrlimit(resource).unwrap();
            let is_last = resource == Resource::RLIMIT_NOFILE;
            assert_eq!(value, if is_last { hard.min(Limits::default().open_files) } else { soft }, "{name}");
        }
        let stack = getrlimit(Resource::RLIMIT_STACK).unwrap().0;
        assert_eq!(launchers.get("stack").copied(), Some(stack).filter(|stack| *stack < 8 << 20));
        let space = getrlimit(Resource::RLIMIT_AS).unwrap().0;
        assert_eq!(launchers.get("as").copied(), Some(space).filter(|space| *space < RLIM_INFINITY));
    }

    #[test]
    fn a_limit_is_a_number_or_none() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax cpu time   unlimited  unlimited  seconds\nMax nice priority   7  9\n";
        assert_eq!(soft_limit(text, "Max cpu time"), Some(RLIM_INFINITY));
        assert_eq!(soft_limit(text, "Max nice priority"), Some(7));
        assert_eq!(soft_limit(text, "Max nice"), None);
        assert_eq!(soft_limit("", "Max cpu time"), None);
    }
}
