//! Limits of each process, inherited by everything that the command starts.

use super::sys;
use crate::error::{Context, Result};
use agentkit_protocol::Limits;
use nix::libc::{self, c_int};
use std::collections::BTreeMap;

const STEP: &str = "limits";

/// The supervisor and the keeper belong to the run.
pub(super) const OWN_PROCESSES: u64 = 2;

/// Name in reports, number, and value. macOS has `RLIMIT_AS` and `RLIMIT_DATA` and does nothing with them, so memory is
/// left to the supervisor. `present` are the processes of the launcher's user, all of which the limit counts.
fn table(limits: &Limits, present: u64) -> [(&'static str, c_int, u64); 6] {
    let commands = limits.processes.saturating_sub(OWN_PROCESSES);
    [
        ("core", libc::RLIMIT_CORE, 0),
        ("cpu", libc::RLIMIT_CPU, limits.cpu_seconds),
        ("fsize", libc::RLIMIT_FSIZE, limits.file_size),
        ("memlock", libc::RLIMIT_MEMLOCK, 64 << 10),
        ("nofile", libc::RLIMIT_NOFILE, limits.open_files),
        ("nproc", libc::RLIMIT_NPROC, present.saturating_add(commands)),
    ]
}

/// Sets every limit of this process, and asks the kernel what is in force.
pub(super) fn apply(limits: &Limits, present: u64) -> Result<BTreeMap<String, u64>> {
    let set = |(name, resource, value): (&str, c_int, u64)| {
        sys::limit(resource, value).context(STEP, format_args!("setrlimit {name} to {value}"))?;
        let found = sys::limit_of(resource).context(STEP, format_args!("getrlimit {name}"))?;
        Ok((name.to_owned(), found.rlim_cur))
    };
    table(limits, present).into_iter().map(set).collect()
}
