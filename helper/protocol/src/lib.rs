//! The words that `agentkit-jail` and its callers share.
//!
//! [`Policy`] says what is asked for, [`Event`] says what happened, [`Capabilities`] says what a host enforces, and
//! [`frame`] carries all of them over a pipe or socket. The crate holds data and its encoding, no behaviour: it makes
//! no system calls, so a program can link it without linking the jail.

// A panic in the jail's process would end it at a point that no review has looked at: what can fail returns an error.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod bytes;
mod capability;
pub mod frame;
mod policy;
mod report;

pub use bytes::Bytes;
pub use capability::{Capabilities, Control, Level, Mechanism, Probe};
pub use policy::{
    Access, Choice, Commit, GitNames, LONGEST_SETTLING, Limits, Net, Policy, ProcFiles, Rule, Watch, WorkDir,
};
pub use report::{
    Attack, Attempt, Change, ChangeKind, Changes, Committed, Domain, Ended, EndedBy, EntryKind, Event,
    Failure, FailureKind, KeptBack, Limit, LimitReached, PassedOver, Quarantined, ReadBack, Started, Usage,
};

/// The version of every message. A helper or client refuses any other: both are built from one tree, and a
/// half-understood policy is worse than none.
pub const VERSION: u16 = 1;
