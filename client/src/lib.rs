//! Run untrusted commands in `agentkit-jail` and get a typed, bounded, honest result.
//!
//! ```no_run
//! use agentkit_client::{Limits, Sandbox};
//!
//! # fn main() -> Result<(), agentkit_client::Error> {
//! let sandbox = Sandbox::builder().limits(Limits { wall_ms: 2_000, ..Limits::default() }).strict(true).build()?;
//! let outcome = sandbox.run_code("python", "print(6 * 7)")?;
//! assert!(outcome.success(), "{}", outcome.describe());
//! assert_eq!(outcome.stdout.text(), "42\n");
//! # Ok(())
//! # }
//! ```
//!
//! A [`Sandbox`] says how commands are confined, a [`Command`] is one of them, an [`Outcome`] is what became of it.
//! Whatever a command does, the call comes back within its wall-clock limit plus a few seconds, and the output kept in
//! memory is bounded by [`SandboxBuilder::output_cap`]. That a command fails, or is killed at a limit, is an outcome;
//! an [`Error`] says that nothing was run, or that the jail itself broke.
//!
//! Every handle is `Send + Sync` and every call blocks; [`Cancel`] ends one from another thread.
//!
//! A command that closes its stdin early is normal and must not kill the caller, so `SIGPIPE` has to be ignored. Rust
//! programs do that from the start; a program that restores the default has to ignore it again.

mod cancel;
mod capabilities;
mod channel;
mod command;
mod error;
mod launch;
mod link;
mod locate;
mod outcome;
mod output;
mod pipes;
mod sandbox;
mod supervise;

pub use agentkit_protocol::{
    Access, Attempt, Bytes, Capabilities, Change, ChangeKind, Changes, Choice, Commit, Committed, Control,
    Ended, EndedBy, EntryKind, Failure, FailureKind, GitNames, KeptBack, Level, Limit, LimitReached, Limits,
    Mechanism, Net, PassedOver, ProcFiles, Quarantined, Rule, Started, Usage, Watch, WorkDir,
};
pub use cancel::Cancel;
pub use command::Command;
pub use error::Error;
pub use locate::Helper;
pub use outcome::Outcome;
pub use output::Output;
pub use sandbox::{Sandbox, SandboxBuilder};
