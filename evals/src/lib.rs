//! A graded benchmark for agents. Answers are read as values and compared exactly; attacks are judged by evidence from
//! outside the sandbox; a task that was not tried, or could not be, never passes.
//!
//! The command is `agentkit-evals`. The pieces are public so that tests can put other models and tools in their place.

#[cfg(target_os = "linux")]
mod audit;
#[cfg(not(target_os = "linux"))]
#[path = "no_audit.rs"]
mod audit;
mod benchmark;
mod canary;
pub mod check;
mod cli;
mod endpoint;
mod file;
mod interrupt;
pub mod judge;
mod listener;
pub mod metrics;
pub mod report;
pub mod runner;
pub mod scripts;
pub mod task;
pub mod tasks;
pub mod toolbox;
mod touch;
pub mod trial;
pub mod world;

pub use benchmark::{Benchmark, main};
pub use cli::{Args, AuditArgs, Command, exit_code};
