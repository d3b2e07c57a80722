//! One command to run.

use crate::cancel::Cancel;
use crate::error::{Error, os, policy};
use crate::link::Link;
use crate::locate::Helper;
use crate::outcome::Outcome;
use crate::supervise::supervise;
use agentkit_protocol::frame::{self, FrameError};
use agentkit_protocol::{Bytes, Failure, LONGEST_SETTLING, Policy, WorkDir};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// One command to run in a [`Sandbox`](crate::Sandbox), made by [`Sandbox::command`](crate::Sandbox::command).
///
/// ```no_run
/// # fn main() -> Result<(), agentkit_client::Error> {
/// # let sandbox = agentkit_client::Sandbox::builder().build()?;
/// let outcome = sandbox.command(["sort", "-n"]).stdin("10\n9\n").run()?;
/// assert_eq!(outcome.stdout.text(), "9\n10\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a command does nothing until it is run"]
pub struct Command<'a> {
    helper: &'a Helper,
    policy: Policy,
    output_cap: usize,
    stdin: Option<Vec<u8>>,
    cancel: Option<Cancel>,
}

impl<'a> Command<'a> {
    pub(crate) fn new(helper: &'a Helper, policy: Policy, output_cap: usize) -> Self {
        Command { helper, policy, output_cap, stdin: None, cancel: None }
    }

    /// What the command reads on its standard input; without it, nothing (`/dev/null`).
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// A variable of the command's environment, on top of the sandbox's.
    pub fn env(mut self, name: impl Into<String>, value: impl AsRef<OsStr>) -> Self {
        self.policy.env.insert(name.into(), bytes(value.as_ref()));
        self
    }

    /// A file of this plain name in the command's private `/tmp`.
    pub fn file(mut self, name: impl Into<String>, contents: impl Into<Vec<u8>>) -> Self {
        self.policy.files.insert(name.into(), Bytes(contents.into()));
        self
    }

    /// Lets another thread end the run.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// The wall-clock limit, in place of the sandbox's; rounded up to milliseconds.
    pub fn wall(mut self, limit: Duration) -> Self {
        let milliseconds = limit.as_micros().div_ceil(1000);
        self.policy.limits.wall_ms = u64::try_from(milliseconds).unwrap_or(u64::MAX);
        self
    }

    /// Runs the command and waits until it and everything it started are dead.
    ///
    /// # Errors
    /// Only if the command did not run, or if the jail broke while it ran: see [`Error`].
    pub fn run(self) -> Result<Outcome, Error> {
        let subscription = self.cancel.as_ref().map(Cancel::subscribe).transpose();
        let subscription = subscription.map_err(|error| os("prepare the run", "pipe", &error))?;
        if self.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(Error::Cancelled);
        }
        let Command { helper, policy, output_cap, stdin, .. } = self;
        let message = frame::encode(&policy).map_err(|error| unencodable(&error))?;
        let limits = policy.limits.clone();
        let settling = match policy.workdir {
            WorkDir::Overlay { .. } => Duration::from_secs(LONGEST_SETTLING),
            WorkDir::Scratch | WorkDir::ScratchAt(_) | WorkDir::Bind(_) => Duration::ZERO,
        };
        // Not kept while the command runs: it can carry megabytes of files.
        drop(policy);
        let link = Link::open(helper, &["--client"], message, stdin, output_cap)?;
        supervise(link, limits, settling, subscription.as_ref())
    }
}

fn unencodable(error: &FrameError) -> Failure {
    policy("policy", error.to_string(), "pass large inputs through stdin or the work dir")
}

/// Unix arguments and variables are bytes.
pub(crate) fn bytes(text: &OsStr) -> Bytes {
    Bytes(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_limit_is_rounded_up() {
        let wall_ms = |limit| {
            let command = Command::new(&Helper::Sibling, Policy::new(["true"]), 0);
            command.wall(limit).policy.limits.wall_ms
        };
        assert_eq!(wall_ms(Duration::from_micros(1)), 1);
        assert_eq!(wall_ms(Duration::from_millis(1500)), 1500);
        assert_eq!(wall_ms(Duration::MAX), u64::MAX);
    }
}
