//! Room for what a launch has open at the same time, seen to before anything else: so a launcher that may open too little is
//! refused as one that lacks it, by probe and run alike, and nothing runs out of it half-way.

use crate::error::{Context, Result};
use agentkit_protocol::Mechanism;
use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io;

const STEP: &str = "descriptors";

/// What supervisor and init need of it with a usual policy, numbered from 0, beside the sources that root opens ahead.
pub(super) fn of(mechanism: Mechanism) -> u64 {
    match mechanism {
        Mechanism::Namespaces => 24,
        Mechanism::Bubblewrap => 28,
        // Private directories are on the host's disk, and kept open; and each copier has a pipe by which it is ended.
        _ => 46,
    }
}

/// Lets this process open so many.
pub(super) fn make_room(number: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(io::Error::from)
        .context(STEP, "getrlimit RLIMIT_NOFILE")?;
    if soft >= number {
        return Ok(());
    }
    match setrlimit(Resource::RLIMIT_NOFILE, number, hard.max(number)) {
        // That is a lack, and no answer of a host that would never have it.
        Err(Errno::EPERM) => Err(io::Error::from_raw_os_error(libc::EMFILE)).context(
            STEP,
            format_args!(
                "open as many as {number}, where {hard} is the limit (nobody has more than sysctl fs.nr_open, nor more than \
                 the hard limit without CAP_SYS_RESOURCE)"
            ),
        ),
        set => set
            .map_err(io::Error::from)
            .context(STEP, format_args!("setrlimit RLIMIT_NOFILE to {number}")),
    }
}
