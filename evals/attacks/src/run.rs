//! What came of a run, beside what its judge knows.

use std::process::ExitStatus;

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    /// How the launcher ended.
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Processes of the attack that were alive when the launcher had ended.
    pub(crate) left: Vec<u32>,
    /// The same, of those that run its program, whatever they call themselves.
    pub(crate) left_running_it: Vec<u32>,
}

impl Run {
    /// Whether the attacker got as far as to try.
    pub(crate) fn tried(&self) -> bool {
        // A launcher may put a terminal in between, which ends lines in its own way.
        self.contains("trying\n") || self.contains("trying\r\n")
    }

    /// Whether a text came out anywhere.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        holds(&self.stdout) || holds(&self.stderr)
    }

    /// What the attacker said of it.
    pub(crate) fn said(&self) -> Option<String> {
        let out = String::from_utf8_lossy(&self.stdout);
        out.lines().rev().find_map(|line| line.strip_prefix("tried: ")).map(str::to_owned)
    }

    /// The same, or else whoever launched it.
    pub(crate) fn says(&self) -> String {
        let error = String::from_utf8_lossy(&self.stderr);
        let last = error.lines().last().unwrap_or_default();
        match self.said() {
            Some(said) => said,
            None if last.is_empty() => format!("nothing ({})", self.status),
            None => last.to_owned(),
        }
    }
}
