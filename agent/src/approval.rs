//! Somebody's word before a call that changes something.

use crate::message::ToolCall;
use serde::{Deserialize, Serialize};

/// Says whether a call that changes something may be run.
///
/// A run asks on a thread of its own, and only about calls that would be run: arguments are checked before. It does not
/// wait beyond its deadline nor after a cancellation. One that panics has denied the call.
pub trait Approver: Send + Sync + 'static {
    /// Decides on one call.
    fn decide(&self, call: &ToolCall) -> Decision;
}

impl<F: Fn(&ToolCall) -> Decision + Send + Sync + 'static> Approver for F {
    fn decide(&self, call: &ToolCall) -> Decision {
        self(call)
    }
}

/// What comes of a call that somebody was asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It is run.
    Allow,
    /// It is not run. The model reads the reason as its result, and the run goes on.
    Deny(String),
    /// It is not run, and the run ends.
    Stop,
}
