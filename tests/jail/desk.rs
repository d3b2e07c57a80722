//! A place to launch from as whoever runs the tests, for suites in which the command is harmless.

use super::launch::Launch;
use super::run::Run;
use super::stage::{self, helper};
use super::who::Who;
use crate::support::Stop;
use agentkit_protocol::{Bytes, Policy, WorkDir};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A directory with a work dir in it.
pub(crate) struct Desk {
    root: TempDir,
}

impl Desk {
    /// On a host that can have jails.
    pub(crate) fn new() -> Result<Desk, Stop> {
        me().can_launch()?;
        Desk::anywhere()
    }

    /// On any host.
    pub(crate) fn anywhere() -> Result<Desk, Stop> {
        let desk = Desk { root: stage::open_directory()? };
        fs::create_dir(desk.path("work"))?;
        fs::create_dir(desk.path("outputs"))?;
        Ok(desk)
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// A policy for a shell script in the work dir, with time and room for a host that is busy.
    pub(crate) fn policy(&self, script: &str) -> Policy {
        let mut policy = Policy::new(["sh", "-c", script]);
        policy.workdir = WorkDir::Bind(Bytes::from(self.path("work")));
        policy.limits.wall_ms = 60_000;
        policy.limits.disk = stage::ROOM_FOR_ALL;
        policy
    }

    /// A policy whose command leaves a trace: [`Desk::ran`].
    pub(crate) fn tracer(&self) -> Policy {
        self.policy("echo ran; echo x > ran")
    }

    /// Whether the command of [`Desk::tracer`] ran since the last time this was asked.
    pub(crate) fn ran(&self) -> bool {
        fs::remove_file(self.path("work/ran")).is_ok()
    }

    /// Launches with a report, after some shell commands.
    pub(crate) fn launch_after(&self, before: &str, policy: &[u8]) -> Result<Run, Stop> {
        let launch = Launch { before, ..Launch::plain(me(), self.path("outputs"), self.path("work")) };
        launch.jail(policy)?.finish()
    }

    /// Launches with a report.
    pub(crate) fn launch(&self, policy: &Policy) -> Result<Run, Stop> {
        self.launch_after("", &json(policy)?)
    }

    /// Runs the helper as a shell would, without a report.
    pub(crate) fn call(&self, arguments: &[&str], stdin: &[u8]) -> Result<Output, Stop> {
        self.call_under(&[], arguments, stdin)
    }

    /// The same with other words before it.
    pub(crate) fn call_under(
        &self,
        before: &[String],
        arguments: &[&str],
        stdin: &[u8],
    ) -> Result<Output, Stop> {
        let mut words = before.iter().map(String::as_ref).chain([helper().as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(arguments).current_dir(self.path("work"));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let Some(mut pipe) = child.stdin.take() {
            // A helper that refuses early need not read it all.
            let _ = pipe.write_all(stdin);
        }
        Ok(child.wait_with_output()?)
    }
}

/// Who runs the tests.
pub(crate) fn me() -> Who {
    Who::everybody()[0]
}

pub(crate) fn json(policy: &Policy) -> Result<Vec<u8>, Stop> {
    Ok(serde_json::to_vec(policy)?)
}
