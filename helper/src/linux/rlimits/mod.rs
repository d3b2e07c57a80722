//! The mechanism `rlimits`, for a host that has nothing else: limits, a watched tree, an environment made from nothing, and
//! where the kernel has filters one without sockets. It confines no file, so it is taken by its name alone.

mod capabilities;

use super::jail::Jail;
use super::message::Outside;
use super::seccomp::More;
use super::sys;
use super::task::{Entrance, Task};
use super::without_namespaces::{self, Wall, cannot, what_takes_namespaces};
use crate::error::{Hint, Result};
use crate::validate::Plan;
use agentkit_protocol::{Access, Capabilities, Control, Mechanism, Net, ReadBack};

const NOTHING_CONFINES: &str = "under rlimits the command may do with files what its user may: leave this out, or take the \
    mechanism `namespaces` or `landlock`, which confine files where the host allows it";

/// See [`without_namespaces::enter`].
pub(crate) fn enter(task: &Task, entrance: &mut Entrance) -> Result<Jail> {
    let why_unfiltered = sys::know_filters().err().map(|error| format!("seccomp: {error}"));
    refuse(task, why_unfiltered.as_deref())?;
    without_namespaces::enter(Box::new(Rlimits { why_unfiltered }), task, entrance, &Outside::look()?)
}

/// Nothing is kept from the command that it asks to be kept.
fn refuse(task: &Task, why_unfiltered: Option<&str>) -> Result<()> {
    what_takes_namespaces(task, Mechanism::Rlimits)?;
    let cannot = |what: &str| Err(cannot(Mechanism::Rlimits, what));
    for (path, access) in &task.plan.rules {
        let what = match access {
            Access::Rw => continue,
            Access::Ro => format!("keep {path:?} from being written (ro)"),
            Access::Hide => format!("hide {path:?}"),
            Access::Tmpfs => format!("put an empty directory at {path:?} (tmpfs)"),
        };
        return cannot(&what).hint(NOTHING_CONFINES);
    }
    match why_unfiltered.filter(|_| task.plan.watch_forks) {
        Some(why) => cannot(&format!("count forks (watch.forks): {why}"))
            .hint("the kernel needs CONFIG_SECCOMP_FILTER"),
        None => Ok(()),
    }
}

struct Rlimits {
    /// Why the kernel filters no system calls, if it does not.
    why_unfiltered: Option<String>,
}

impl Wall for Rlimits {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Rlimits
    }

    fn filter(&self, plan: &Plan) -> Option<More> {
        // With all files in reach, it does not matter how they can be emptied.
        let more = More { offline: plan.net != Net::Host, emptying: false };
        self.why_unfiltered.is_none().then_some(more)
    }

    fn promised(&self) -> &'static [Control] {
        &[Control::PrivilegesDropped]
    }

    fn derive(&self, state: &ReadBack, plan: &Plan) -> Capabilities {
        capabilities::derive(state, plan, self.why_unfiltered.as_deref())
    }
}
