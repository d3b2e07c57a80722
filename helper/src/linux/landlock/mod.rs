//! The mechanism `landlock`, for hosts without user namespaces: Landlock (see landlock(7)), a stricter system-call filter,
//! and for a root launcher an unused uid. What the command may not open is still there: see `capabilities.rs` for what that
//! leaves.

mod capabilities;
mod grants;
mod refuse;

use super::identity::Identity;
use super::jail::Jail;
use super::message::Outside;
use super::seccomp::More;
use super::sys;
use super::task::{Entrance, Task};
use super::view::View;
use super::without_namespaces::{self, Private, Wall};
use crate::error::{Context, Hint, Result};
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Control, Mechanism, Net, ReadBack};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

const STEP: &str = "landlock";
const NO_LANDLOCK: &str = "Landlock takes Linux 5.13 or newer, `landlock` among the values of the boot parameter `lsm=`, and a \
    container whose system-call filter lets landlock_create_ruleset through";
/// The first version that knows truncation.
const KNOWS_TRUNCATION: u32 = 3;

/// Its version, which says what this kernel can forbid.
fn version() -> Result<u32> {
    let version = sys::landlock_version();
    let version = version.context(STEP, "landlock_create_ruleset for its version").hint(NO_LANDLOCK)?;
    u32::try_from(version).map_err(io::Error::other).context(STEP, "the version of Landlock")
}

/// See [`without_namespaces::open_as_root`].
pub(crate) fn open_as_root(view: &mut View, identity: &Identity, guarded: bool) -> Result<()> {
    version()?;
    without_namespaces::open_as_root(view, identity, guarded, Mechanism::Landlock)
}

/// See [`without_namespaces::enter`].
pub(crate) fn enter(task: &Task, entrance: &mut Entrance) -> Result<Jail> {
    let wall = Landlock { version: version()? };
    let outside = Outside::look()?;
    refuse::what_takes_mounts(task, &entrance.view, &outside)?;
    without_namespaces::enter(Box::new(wall), task, entrance, &outside)
}

struct Landlock {
    version: u32,
}

impl Wall for Landlock {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Landlock
    }

    fn filter(&self, plan: &Plan) -> Option<More> {
        Some(More { offline: plan.net != Net::Host, emptying: self.version < KNOWS_TRUNCATION })
    }

    fn promised(&self) -> &'static [Control] {
        &capabilities::PROMISED
    }

    fn derive(&self, state: &ReadBack, plan: &Plan) -> Capabilities {
        capabilities::derive(state, plan)
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn domain(
        &self,
        view: &View,
        task: &Task,
        private: &Private,
        terminal: Option<BorrowedFd>,
    ) -> Result<Option<OwnedFd>> {
        grants::domain(view, task, private, terminal, self.version).map(Some)
    }
}
