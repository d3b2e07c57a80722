//! What stands between the command and the host.

use super::private::Private;
use crate::error::Result;
use crate::linux::asked::Topics;
use crate::linux::seccomp::More;
use crate::linux::task::Task;
use crate::linux::view::View;
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Control, Mechanism, ReadBack};
use std::os::fd::{BorrowedFd, OwnedFd};

/// One mechanism's.
pub(crate) trait Wall {
    fn mechanism(&self) -> Mechanism;

    /// What the filter forbids beside what every jail's does; nothing at all is filtered where the kernel has no filters.
    fn filter(&self, plan: &Plan) -> Option<More>;

    /// What it must deliver, with the exceptions that it states, whenever it works at all.
    fn promised(&self) -> &'static [Control];

    /// Claims exactly what was refused, and what the kernel confirmed.
    fn derive(&self, state: &ReadBack, plan: &Plan) -> Capabilities;

    /// The version of Landlock that it is made of; 0 if it is of something else.
    fn version(&self) -> u32 {
        0
    }

    /// A domain of Landlock for the command, not yet entered.
    fn domain(
        &self,
        _view: &View,
        _task: &Task,
        _private: &Private,
        _terminal: Option<BorrowedFd>,
    ) -> Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// See [`HeldBy::topics`](crate::linux::jail::HeldBy::topics). It is a filter that asks.
    fn topics(&self, plan: &Plan) -> Topics {
        self.filter(plan).map_or_else(Topics::default, |_| Topics::of(plan).and_attributes())
    }
}
