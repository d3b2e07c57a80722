//! What became of a command.

use crate::output::Output;
use agentkit_protocol::{Changes, Committed, Ended, EndedBy, Failure, Limits, Started};
use nix::sys::signal::Signal;
use std::time::Duration;

/// A command that was run, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What it wrote to its standard output.
    pub stdout: Output,
    /// What it wrote to its standard error.
    pub stderr: Output,
    /// What was enforced, read back inside the jail.
    pub started: Started,
    /// How it ended, which limits it touched, what it used.
    pub ended: Ended,
    /// The limits that it was given.
    pub limits: Limits,
}

impl Outcome {
    /// Whether the command exited with code 0, and no commit of its changes failed.
    pub fn success(&self) -> bool {
        self.exit_code() == Some(0) && self.commit_failure().is_none()
    }

    /// What it changed in an overlay work dir.
    ///
    /// ```no_run
    /// use agentkit_client::{Commit, Sandbox, WorkDir};
    ///
    /// let overlay = WorkDir::Overlay { path: "/srv/project".into(), commit: Commit::Never };
    /// let outcome = Sandbox::builder().workdir(overlay).build()?.run(["make"])?;
    /// for change in outcome.changes().into_iter().flat_map(|changes| &changes.list) {
    ///     println!("{:?} {:?}", change.kind, change.path);
    /// }
    /// # Ok::<(), agentkit_client::Error>(())
    /// ```
    pub fn changes(&self) -> Option<&Changes> {
        self.ended.changes.as_ref()
    }

    fn commit_failure(&self) -> Option<&Failure> {
        match self.changes() {
            Some(Changes { commit: Committed::Failed(failure), .. }) => Some(failure),
            _ => None,
        }
    }

    /// The command's exit code, if it exited by itself.
    pub fn exit_code(&self) -> Option<i32> {
        match self.ended.ended_by {
            EndedBy::Exit(code) => Some(code),
            EndedBy::Signal(_)
            | EndedBy::WallClock
            | EndedBy::Memory
            | EndedBy::Cpu
            | EndedBy::Disk
            | EndedBy::Caller
            | EndedBy::Stopped(_) => None,
        }
    }

    /// How the run ended, in one line: `exited with code 1`, `killed at the wall-clock limit of 2 s`.
    pub fn describe(&self) -> String {
        let end = self.describe_end();
        match self.commit_failure() {
            Some(failure) => format!("{end}, and its changes could not be committed: {failure}"),
            None => end,
        }
    }

    fn describe_end(&self) -> String {
        match self.ended.ended_by {
            EndedBy::Exit(code) => format!("exited with code {code}"),
            EndedBy::Signal(number) => match Signal::try_from(number) {
                Ok(signal) => format!("died of signal {number} ({signal})"),
                Err(_) => format!("died of signal {number}"),
            },
            EndedBy::WallClock => format!("killed at the wall-clock limit of {}", wall(self.limits.wall_ms)),
            EndedBy::Memory => format!("killed at the memory limit of {}", size(self.limits.memory)),
            EndedBy::Cpu => format!(
                "killed at the processor limit of {}",
                wall(self.limits.cpu_seconds.saturating_mul(1000))
            ),
            EndedBy::Disk => format!("killed at the disk limit of {}", size(self.limits.disk)),
            EndedBy::Caller => "killed because the caller cancelled".to_owned(),
            EndedBy::Stopped(number) => format!("killed because the helper got signal {number}"),
        }
    }
}

/// `2 s`, `250 ms`.
pub(crate) fn wall(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        _ => format!("{} s", Duration::from_millis(milliseconds).as_secs_f64()),
    }
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::host;
    use agentkit_protocol::{Bytes, Capabilities, Mechanism, ReadBack, Usage, VERSION};

    fn ended(ended_by: EndedBy) -> Outcome {
        Outcome {
            stdout: Output::default(),
            stderr: Output::default(),
            started: Started {
                version: VERSION,
                mechanism: Mechanism::Namespaces,
                passed_over: Vec::new(),
                helper: Bytes::from("/agentkit-jail"),
                capabilities: Capabilities::unavailable(host("test", "nothing is enforced here")),
                read_back: ReadBack::default(),
            },
            ended: Ended {
                ended_by,
                limits_reached: Vec::new(),
                usage: Usage::default(),
                attempts: Vec::new(),
                changes: None,
                quarantined: Vec::new(),
                unchecked: Vec::new(),
                unwritten: Vec::new(),
            },
            limits: Limits { wall_ms: 2_000, ..Limits::default() },
        }
    }

    #[test]
    fn one_line_says_how_it_ended() {
        let line = |ended_by| ended(ended_by).describe();
        assert_eq!(line(EndedBy::Exit(1)), "exited with code 1");
        assert_eq!(line(EndedBy::Signal(9)), "died of signal 9 (SIGKILL)");
        assert_eq!(line(EndedBy::Signal(40)), "died of signal 40");
        assert_eq!(line(EndedBy::WallClock), "killed at the wall-clock limit of 2 s");
        assert_eq!(line(EndedBy::Memory), "killed at the memory limit of 512 MiB");
        assert_eq!(line(EndedBy::Cpu), "killed at the processor limit of 10 s");
        assert_eq!(line(EndedBy::Disk), "killed at the disk limit of 64 MiB");
        assert_eq!(line(EndedBy::Caller), "killed because the caller cancelled");
        assert_eq!(line(EndedBy::Stopped(15)), "killed because the helper got signal 15");
    }

    #[test]
    fn only_a_zero_exit_is_success() {
        assert!(ended(EndedBy::Exit(0)).success());
        assert_eq!(ended(EndedBy::Exit(3)).exit_code(), Some(3));
        for other in
            [EndedBy::Exit(3), EndedBy::Signal(9), EndedBy::WallClock, EndedBy::Memory, EndedBy::Caller]
        {
            assert!(!ended(other).success());
        }
    }

    #[test]
    fn durations_and_sizes_read_well() {
        assert_eq!((wall(250), wall(1500), wall(10_000)), ("250 ms".into(), "1.5 s".into(), "10 s".into()));
        assert_eq!((size(3 << 20), size(1000)), ("3 MiB".into(), "1000 bytes".into()));
    }
}
