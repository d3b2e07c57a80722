//! `agentkit-jail` runs one command in a jail and proves what it enforced.
//!
//! The policy comes on stdin or another descriptor, the report goes to the caller, and nothing is left behind. It is an executable for shell
//! scripts and for the `agentkit-client` crate; as a library it only offers [`door`], for programs that want to be
//! their own jail executable.
//!
//! ```text
//! caller ──stdin──> agentkit-jail (supervisor: wall clock, polling, report, exit code)
//!                      └─clone3──> init (pid 1: file view, limits, capabilities, seccomp; then reaps)
//!                                    └─clone─> the command
//! ```

// A panic ends the jail at a point that no review has looked at: what can fail returns an error.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stderr,
        clippy::print_stdout,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod cli;
#[cfg(mechanism)]
mod client_socket;
#[cfg(mechanism)]
mod copy;
#[cfg(mechanism)]
mod deadline;
mod error;
pub mod exit_code;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg_attr(not(mechanism), expect(dead_code, reason = "only a mechanism has other descriptors"))]
mod input;
mod patient;
#[cfg(any(mechanism, test))]
mod promises;
mod report;
#[cfg(mechanism)]
mod sanitize;
mod table;
#[cfg_attr(not(mechanism), expect(dead_code, reason = "only a mechanism reads a plan"))]
mod validate;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as platform;

#[cfg(all(target_os = "macos", feature = "seatbelt"))]
mod macos;
#[cfg(all(target_os = "macos", feature = "seatbelt"))]
use macos as platform;
#[cfg(all(test, not(target_os = "macos")))]
#[allow(dead_code, reason = "their users are those that only macOS has")]
#[path = "macos/portable.rs"]
mod macos;

#[cfg(not(mechanism))]
mod unsupported;
#[cfg(not(mechanism))]
use unsupported as platform;

use agentkit_protocol::{Choice, Ended, Event, Failure, Policy};
use cli::{Command, Format};
use report::Reporter;
use std::ffi::OsString;
use std::io::Write;

/// The name under which an embedding program is its own jail executable.
pub const NAME: &str = "agentkit-jail";

/// Becomes `agentkit-jail` and never returns if this process was started under that name.
///
/// An embedding program calls it first thing in `main`, before it starts a thread: the jail is made by a process that
/// must have only one. The client then runs the program itself as the helper, so that no second file has to be found
/// and no stale one can be used.
pub fn door() {
    let name = std::env::args_os().next().unwrap_or_default();
    if std::path::Path::new(&name).file_name().is_some_and(|file| file == NAME) {
        std::process::exit(main());
    }
}

/// The whole program; returns its exit code.
pub fn main() -> i32 {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    #[cfg(all(target_os = "linux", feature = "bubblewrap"))]
    if let Some(code) = platform::go_on_inside(&arguments) {
        return code;
    }
    match cli::parse(&arguments) {
        Ok(Command::Help) => report::print(&cli::help(), 0),
        Ok(Command::Version) => report::print(concat!("agentkit-jail ", env!("CARGO_PKG_VERSION"), "\n"), 0),
        Ok(Command::Probe(format, choice)) => probe(format, choice),
        Ok(Command::Print(policy)) => print(&policy),
        Ok(Command::Run(caller)) => run(caller),
        Err(message) => {
            // The exit code says it as well, if nobody can be told.
            let _ = writeln!(std::io::stderr(), "{NAME}: {message} (see `{NAME} --help`)");
            exit_code::FAILED
        }
    }
}

/// What came of a launch that did not fail.
pub(crate) enum Outcome {
    /// The command was executed.
    Ended(Box<Ended>),
    /// This signal asked for the end before it was, which is told like a failure.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "elsewhere signals wait for the command")
    )]
    Stopped(i32, Failure),
}

/// The launch as a list of steps.
fn run(caller: cli::Caller) -> i32 {
    let (mut reporter, source) = match platform::sanitize(caller) {
        Ok(answer) => answer,
        Err(failure) => return Reporter::stderr().send(&Event::Failed(failure)),
    };
    let outcome = platform::prepare_process()
        .and_then(|()| input::read(source))
        .and_then(|input| Ok((validate::plan(input.policy)?, input.stdin)))
        .and_then(|(plan, stdin)| platform::launch(&plan, stdin, &mut reporter));
    match outcome {
        Ok(Outcome::Ended(ended)) => reporter.send(&Event::Ended(*ended)),
        Ok(Outcome::Stopped(signal, failure)) => {
            reporter.send(&Event::Failed(failure));
            exit_code::SIGNAL.saturating_add(signal)
        }
        Err(failure) => reporter.send(&Event::Failed(failure)),
    }
}

/// Shows a policy in the form in which it can be given, unless it would be refused.
fn print(policy: &Policy) -> i32 {
    let text = validate::plan(policy.clone()).and_then(|_| {
        serde_json::to_string_pretty(policy).map_err(|error| error::policy(format_args!("{error}")))
    });
    match text {
        Ok(text) => report::print(&(text + "\n"), 0),
        Err(failure) => Reporter::stderr().send(&Event::Failed(failure)),
    }
}

/// Tries the complete path up to the point where the command would be executed.
fn probe(format: Format, choice: Choice) -> i32 {
    match format {
        Format::Frame => report::send_capabilities(platform::probe(choice)),
        Format::Table => report::print_capabilities(&platform::probe_each(choice), table::of),
        Format::Json => report::print_capabilities(&platform::probe_each(choice), |probe| {
            // A string of strings and numbers cannot fail.
            serde_json::to_string(probe).unwrap_or_default() + "\n"
        }),
    }
}
