//! The command line.

use crate::runner::Overrides;
use crate::task::Category;
use agentkit_client::Choice;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// What the exit code says. 2 is also what a wrong command line gives.
pub mod exit_code {
    /// Every selected task passed.
    pub const PASSED: u8 = 0;
    /// At least one task failed, and all could be judged or were skipped.
    pub const FAILED: u8 = 1;
    /// The harness failed: nothing was run, or at least one task could not be judged.
    pub const HARNESS: u8 = 2;
    /// No task failed, but some were skipped.
    pub const SKIPPED: u8 = 3;
}

const EXIT_CODES: &str = "\
Exit codes:
  0  every selected task passed
  1  at least one task failed
  2  harness error: a wrong command line, a model that cannot be asked, a task that could
     not be judged, a report that cannot be written, or a table that cannot be printed (the
     report is written all the same)
  3  no task failed, but some were skipped: this host has no full sandbox, or no Python in it
  130  interrupted

Environment:
  OPENAI_BASE_URL  the endpoint for --model NAME, for instance http://127.0.0.1:8080/v1
  OPENAI_API_KEY   its key, if it wants one";

/// Runs the benchmark: gives tasks to a model and judges what it did, safety by evidence from outside the sandbox.
#[derive(Clone, Debug, Parser)]
#[command(name = "agentkit-evals", version, about, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Something else than the benchmark
    #[command(subcommand)]
    pub command: Option<Command>,

    /// `scripted`, or the name of a model at an OpenAI-compatible endpoint
    #[arg(long, default_value = "scripted", value_name = "scripted|NAME")]
    pub model: String,

    /// Only tasks of these categories
    #[arg(long, value_delimiter = ',', value_enum, value_name = "CATEGORY,...")]
    pub categories: Vec<Category>,

    /// Only these tasks
    #[arg(long, value_delimiter = ',', value_name = "TASK,...")]
    pub tasks: Vec<String>,

    /// Replies of the model in each task, instead of the task's own bound; calls in the last one are not run
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_steps: Option<u32>,

    /// Wall-clock seconds of each task, instead of the task's own bound
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub wall_seconds: Option<u32>,

    /// Also write the report as JSON to this regular file; it only changes if the run gets to its end
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What else there is to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Attacks a sandbox, the jail or any other, and judges from outside what came of it
    Audit(AuditArgs),
}

const AUDIT: &str = "\
Each attack is performed twice: without any sandbox, where it has to succeed, and by the launcher. Nothing aims at an
address off the machine, and each attack is bounded. An escape from the jail is a hole
only where its report calls one of the attack's controls `full`. Resources count as taken from 64 processes, 320 MiB of
memory, 96 MiB of disk or 3 s of processor time on: a launcher that is to contain those attacks has to be told lower limits.

A launcher is started by the shell's `exec`, in the attack's directory: `env NAME=value ...` sets a variable, and
`env -C DIR ...` changes the directory. What takes longer than 30 seconds is an error.

Exit codes:
  0  every attack that bites on this host was contained
  1  at least one escaped; with --benign, something does not work
  2  none escaped, but some could not be tried or judged; or a wrong command line
  130  interrupted

Example:
  agentkit-evals audit --compare 'bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev --bind {dir} {dir}'";

/// The command line of `audit`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AUDIT)]
pub struct AuditArgs {
    /// `jail`, or a shell command line that confines the command appended to it; `{dir}` is the attack's directory
    #[arg(long, default_value = AuditArgs::JAIL, value_name = "jail|COMMAND", value_parser = launcher)]
    pub launcher: String,

    /// Another launcher, side by side
    #[arg(long, value_name = "jail|COMMAND", value_parser = launcher)]
    pub compare: Option<String>,

    /// The mechanism that the jail is to confine by: auto, namespaces, bubblewrap, landlock, seatbelt or rlimits
    #[arg(long, default_value = "auto", value_name = "NAME", value_parser = mechanism)]
    pub mechanism: Choice,

    /// Only attacks of these families
    #[arg(long, value_delimiter = ',', value_name = "FAMILY,...")]
    pub families: Vec<String>,

    /// Only these attacks
    #[arg(long, value_delimiter = ',', value_name = "ATTACK,...")]
    pub attacks: Vec<String>,

    /// Try what ordinary code needs instead: what contains by breaking everything shows here
    #[arg(long, conflicts_with_all = ["families", "attacks", "list", "json", "junit"])]
    pub benign: bool,

    /// Say what the attacks are and what each would mean, and perform none
    #[arg(long, conflicts_with_all = ["json", "junit"])]
    pub list: bool,

    /// The directory to work in: one like those that a sandbox has to hide [default: your home]
    #[arg(long = "in", value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// Also write the findings as JSON to this regular file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Also write the findings as JUnit's XML to this regular file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there are no attacks to ask for"))]
impl AuditArgs {
    /// How the jail is called.
    pub(crate) const JAIL: &str = "jail";

    /// Whom to attack, in the order of the columns.
    pub(crate) fn launchers(&self) -> impl Iterator<Item = &str> {
        [Some(&self.launcher), self.compare.as_ref()].into_iter().flatten().map(String::as_str)
    }

    /// Where to make the directories of the attacks.
    pub(crate) fn place(&self) -> PathBuf {
        let home = || std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        self.directory.clone().or_else(home).unwrap_or_else(std::env::temp_dir)
    }
}

impl Args {
    /// The bounds that replace those of the tasks.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            max_steps: self.max_steps.map(|steps| usize::try_from(steps).unwrap_or(usize::MAX)),
            wall_seconds: self.wall_seconds.map(u64::from),
        }
    }
}

/// An empty one would be no launcher: the attacks would be performed without any.
fn launcher(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("must name a launcher; `env` is one that confines nothing".to_owned());
    }
    Ok(text.to_owned())
}

fn mechanism(text: &str) -> Result<Choice, String> {
    let known = || Choice::ALL.map(Choice::name).join(", ");
    Choice::ALL
        .into_iter()
        .find(|choice| choice.name() == text)
        .ok_or_else(|| format!("must be one of {}", known()))
}

fn positive(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(why) => Err(format!("{why}")),
    }
}
