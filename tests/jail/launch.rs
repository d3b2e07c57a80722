//! One launch: of the helper, or of the same command without it.

use super::run::Run;
use super::stage::helper;
use super::who::Who;
use crate::support::{Stop, processes};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// Descriptor 3 leads to us; the command's own output goes to files, which cannot hold anybody up.
const REPORT_BY_PIPE: &str = r#"exec 3>&1 1>"$0/out" 2>"$0/err""#;
/// The other way round.
const OUTPUT_BY_PIPE: &str = r#"exec 3>"$0/report" 2>"$0/err""#;
/// A helper that hangs is ended.
const EXEC: &str = r#"exec timeout -s KILL 120 "$@""#;

/// Shells have no common way to do this.
const RENAME: &str = "import os, sys; os.execv(sys.argv[2], [sys.argv[1], *sys.argv[3:]])";

/// What is launched, and from where.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) who: Who,
    /// Where the output goes; nothing else may be written there.
    pub(crate) outputs: PathBuf,
    /// The current directory.
    pub(crate) directory: PathBuf,
    /// Shell commands that come first, in the same process: to open descriptors, for instance.
    pub(crate) before: &'a str,
    /// Another first argument for what is launched.
    pub(crate) name: Option<&'a str>,
    /// Whether the command's output comes by the pipe that the report comes by otherwise.
    pub(crate) by_pipe: bool,
    /// Variables of the launcher.
    pub(crate) env: Vec<(String, OsString)>,
    /// What the processes of the command have in their command line.
    pub(crate) marker: &'a str,
}

impl<'a> Launch<'a> {
    /// One with nothing special about it.
    pub(crate) fn plain(who: Who, outputs: PathBuf, directory: PathBuf) -> Launch<'a> {
        let (before, name, by_pipe, env) = ("", None, false, Vec::new());
        Launch { who, outputs, directory, before, name, by_pipe, env, marker: "no marker" }
    }

    /// Starts the helper on a policy.
    pub(crate) fn jail(&self, policy: &[u8]) -> Result<Running, Stop> {
        let mut running = self.start(&[helper().into(), "--report-fd".into(), "3".into()], Stdio::piped())?;
        if let Some(mut stdin) = running.child.stdin.take() {
            // A helper that refuses early need not read it all.
            let _ = stdin.write_all(policy);
        }
        Ok(running)
    }

    /// Starts a command without a jail.
    pub(crate) fn bare(&self, argv: &[OsString]) -> Result<Running, Stop> {
        self.start(argv, Stdio::null())
    }

    fn start(&self, argv: &[OsString], stdin: Stdio) -> Result<Running, Stop> {
        let mut command = self.who.shell()?;
        let streams = if self.by_pipe { OUTPUT_BY_PIPE } else { REPORT_BY_PIPE };
        command.args(["-c", &format!("{}\n{streams}\n{EXEC}", self.before)]).arg(&self.outputs);
        if let Some(name) = self.name {
            command.arg(self.who.python()?).args(["-c", RENAME, name]);
        }
        command.args(argv);
        command.envs(self.env.iter().map(|(name, value)| (name, value))).current_dir(&self.directory);
        let child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        Ok(Running {
            child,
            outputs: self.outputs.clone(),
            by_pipe: self.by_pipe,
            marker: self.marker.to_owned(),
        })
    }
}

/// A launch under way.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    outputs: PathBuf,
    by_pipe: bool,
    marker: String,
}

impl Running {
    /// Waits until nobody holds the pipe any more. Looks at the process table the moment the end is reported, or else
    /// when it has come.
    pub(crate) fn finish(mut self) -> Result<Run, Stop> {
        let mut lines = Vec::new();
        let mut left = None;
        if let Some(pipe) = self.child.stdout.take() {
            for line in BufReader::new(pipe).lines() {
                lines.push(line?);
                if lines.last().is_some_and(|line| line.starts_with(r#"{"ended""#)) {
                    left.get_or_insert_with(|| processes::with_marker(&self.marker));
                }
            }
        }
        let left = left.unwrap_or_else(|| processes::with_marker(&self.marker));
        let status = self.child.wait()?;
        let read = |name: &str| std::fs::read(self.outputs.join(name));
        let stderr = read("err")?;
        if self.by_pipe {
            let report = String::from_utf8_lossy(&read("report")?).lines().map(str::to_owned).collect();
            return Ok(Run { status, report, stdout: (lines.join("\n") + "\n").into_bytes(), stderr, left });
        }
        Ok(Run { status, report: lines, stdout: read("out")?, stderr, left })
    }
}
