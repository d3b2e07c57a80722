//! Step 7: limits per process, inherited by everything the command starts.

use super::sys::{self, Forked};
use crate::error::{Context, Result};
use agentkit_protocol::Limits;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use std::collections::BTreeMap;
use std::io;

const STEP: &str = "limits";

/// What is set, by the name used in reports.
///
/// Since Linux 5.14 the process limit counts the tasks of this user namespace alone (`ucounts`), so an absolute number
/// is right; older kernels count the launcher's other processes too, which makes the limit tighter.
fn table(limits: &Limits) -> [(&'static str, Resource, rlim_t); 11] {
    // Exact limits break programs that reserve much and touch little: the poller enforces, this is a backstop.
    let data = limits.memory.saturating_mul(4).max(4 << 30);
    [
        // The supervisor belongs to the run and lives outside of the namespace.
        ("nproc", Resource::RLIMIT_NPROC, limits.processes - 1),
        ("cpu", Resource::RLIMIT_CPU, limits.cpu_seconds),
        ("fsize", Resource::RLIMIT_FSIZE, limits.file_size),
        ("nofile", Resource::RLIMIT_NOFILE, limits.open_files),
        ("data", Resource::RLIMIT_DATA, data),
        // With 0 a crash handler of the host would still run for a crash in here; 1 suppresses it, see core(5).
        ("core", Resource::RLIMIT_CORE, 1),
        ("memlock", Resource::RLIMIT_MEMLOCK, 64 << 10),
        ("msgqueue", Resource::RLIMIT_MSGQUEUE, 0),
        ("sigpending", Resource::RLIMIT_SIGPENDING, 256),
        // A launcher may be allowed what a jail must not: to run before everybody else.
        ("rtprio", Resource::RLIMIT_RTPRIO, 0),
        ("nice", Resource::RLIMIT_NICE, 0),
    ]
}

/// Sets every limit, soft and hard; a launcher's own lower hard limit stays.
pub(crate) fn apply(limits: &Limits) -> Result<()> {
    for (name, resource, value) in table(limits) {
        let (_, hard) =
            getrlimit(resource).map_err(io::Error::from).context(STEP, format_args!("getrlimit {name}"))?;
        let value = value.min(hard);
        // The kernel sends SIGXCPU at the soft limit and kills at the hard one: a second lets a handler say goodbye.
        let ceiling = if resource == Resource::RLIMIT_CPU { (value + 1).min(hard) } else { value };
        setrlimit(resource, value, ceiling)
            .map_err(io::Error::from)
            .context(STEP, format_args!("setrlimit {name} to {value}"))?;
    }
    Ok(())
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

/// The soft limits in force, asked of the kernel.
pub(crate) fn in_force(limits: &Limits) -> Result<BTreeMap<String, u64>> {
    table(limits)
        .into_iter()
        .map(|(name, resource, _)| {
            let (soft, _) = getrlimit(resource)
                .map_err(io::Error::from)
                .context(STEP, format_args!("getrlimit {name}"))?;
            Ok((name.to_owned(), soft))
        })
        .collect()
}
