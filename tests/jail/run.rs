//! What came of a launch.

use crate::support::Stop;
use agentkit_protocol::{Ended, EndedBy, Event, Failure, Started};
use std::fmt;
use std::process::ExitStatus;

/// A finished run.
pub(crate) struct Run {
    /// How the helper ended, or the payload if there was no jail.
    pub(crate) status: ExitStatus,
    /// The report as it came: lines of text.
    pub(crate) report: Vec<String>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Processes of the run that were alive when it was reported as ended.
    pub(crate) left: Vec<u32>,
}

impl Run {
    /// The events of the report.
    pub(crate) fn events(&self) -> Result<Vec<Event>, Stop> {
        Ok(self.report.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?)
    }

    /// What was in force.
    pub(crate) fn started(&self) -> Result<Started, Stop> {
        let started = self.events()?.into_iter().find_map(|event| match event {
            Event::Started(started) => Some(started),
            _ => None,
        });
        started.ok_or_else(|| self.complain("did not start"))
    }

    /// How it ended.
    pub(crate) fn ended(&self) -> Result<Ended, Stop> {
        let ended = self.events()?.into_iter().find_map(|event| match event {
            Event::Ended(ended) => Some(ended),
            _ => None,
        });
        ended.ok_or_else(|| self.complain("was not reported as ended"))
    }

    /// Why it did not run.
    pub(crate) fn failure(&self) -> Result<Failure, Stop> {
        match &self.events()?[..] {
            [Event::Failed(failure)] => Ok(failure.clone()),
            _ => Err(self.complain("did not fail with one event")),
        }
    }

    /// What the payload says of its attempt: `done`, or the name of an errno. That it says anything proves that it got
    /// as far as the attempt.
    pub(crate) fn answer(&self) -> Result<String, Stop> {
        let output = String::from_utf8_lossy(&self.stdout).into_owned();
        let answer = output.lines().rev().find_map(|line| line.strip_prefix("answer: "));
        answer.map(str::to_owned).ok_or_else(|| self.complain("did not get to its attempt"))
    }

    /// Fails unless the payload came to an answer and an orderly end.
    pub(crate) fn must_have_attempted(&self) -> Result<(), Stop> {
        self.answer()?;
        if self.report.is_empty() || self.ended()?.ended_by == EndedBy::Exit(0) {
            return Ok(());
        }
        Err(self.complain("did not end by itself"))
    }

    /// Whether `secret` is in anything that the run gave out.
    pub(crate) fn gave_out(&self, secret: &str) -> bool {
        let holds = |bytes: &[u8]| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        holds(&self.stdout) || holds(&self.stderr) || self.report.iter().any(|line| line.contains(secret))
    }

    fn complain(&self, what: &str) -> Stop {
        Stop::Fail(format!("the run {what}: {self:?}"))
    }
}

/// As text, the beginning of each part.
impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
        f.debug_struct("Run")
            .field("status", &self.status)
            .field(
                "report",
                &self.report.iter().map(|line| line.chars().take(300).collect()).collect::<Vec<String>>(),
            )
            .field("stdout", &text(&self.stdout))
            .field("stderr", &text(&self.stderr))
            .field("left", &self.left)
            .finish()
    }
}
