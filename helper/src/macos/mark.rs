//! Who is in the jail.
//!
//! A process can leave its parent, its group and its session, but not its profile, which children inherit. The profile
//! of each jail allows one name of a service that nobody else's knows, and the kernel tells the supervisor whether a
//! process may look up a name. A process without a profile may look up both names that are asked about, one with somebody
//! else's profile neither or both.

use super::sys;
use crate::error::{Context, Result, failure};
use agentkit_protocol::FailureKind;
use nix::libc::pid_t;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getuid};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, Instant};

const STEP: &str = "mark";
/// How long it may take until everything is dead. Whoever forks all the time can be slower to catch than to kill.
const GRACE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

/// The name that one jail's profile allows, and one that it does not.
pub(super) struct Mark {
    name: CString,
    other: CString,
}

/// One look at all processes of this user.
struct Found {
    members: Vec<pid_t>,
    /// Of these nothing can be told: they died, some perhaps after the list was made.
    dead: BTreeSet<pid_t>,
}

impl Mark {
    pub(super) fn new() -> Result<Self> {
        let mut random = [0; 16];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut random))
            .context(STEP, "read /dev/urandom")?;
        let name = format!("agentkit.jail.{:032x}", u128::from_ne_bytes(random));
        let c_string = |name: String| sys::c_string(name).context(STEP, "make a C string");
        Ok(Mark { other: c_string(format!("{name}.other"))?, name: c_string(name)? })
    }

    pub(super) fn name(&self) -> &CStr {
        &self.name
    }

    /// Whether this process is in the jail, if that can be told.
    pub(super) fn is_on(&self, pid: pid_t) -> Option<bool> {
        Some(sys::may_look_up(pid, &self.name)? && !sys::may_look_up(pid, &self.other)?)
    }

    /// The processes that are in the jail now.
    pub(super) fn members(&self) -> io::Result<Vec<pid_t>> {
        Ok(self.look()?.members)
    }

    fn look(&self) -> io::Result<Found> {
        let mut found = Found { members: Vec::new(), dead: BTreeSet::new() };
        let others = |pid: &pid_t| *pid > 0 && *pid != getpid().as_raw();
        for pid in sys::processes_of(getuid().as_raw())?.into_iter().filter(others) {
            match self.is_on(pid) {
                Some(true) => found.members.push(pid),
                Some(false) => {}
                None => drop(found.dead.insert(pid)),
            }
        }
        Ok(found)
    }

    /// Kills all of the jail, and comes back when a look has found nothing more of it. What died during that look may
    /// have had a child that is not in it; what was dead before it had none.
    pub(super) fn kill_all(&self) -> Result<()> {
        let begin = Instant::now();
        let mut dead_before = BTreeSet::new();
        loop {
            let Found { members, dead } = self.look().context(STEP, "list the processes of this user")?;
            if members.is_empty() && dead.is_subset(&dead_before) {
                return Ok(());
            }
            for pid in &members {
                // Fails if it is dead, which is what is wanted.
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
            if begin.elapsed() > GRACE {
                let message = format_args!(
                    "after {} s of killing there is still something in the jail: {members:?}",
                    GRACE.as_secs()
                );
                return Err(failure(FailureKind::Host, STEP, message));
            }
            dead_before = dead;
            std::thread::sleep(PAUSE);
        }
    }
}
