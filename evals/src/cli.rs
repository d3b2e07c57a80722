//! The command line.

use crate::runner::Overrides;
use crate::task::Category;
use clap::Parser;
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
#[command(name = "agentkit-evals", version, about, after_help = EXIT_CODES)]
pub struct Args {
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

impl Args {
    /// The bounds that replace those of the tasks.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            max_steps: self.max_steps.map(|steps| usize::try_from(steps).unwrap_or(usize::MAX)),
            wall_seconds: self.wall_seconds.map(u64::from),
        }
    }
}

fn positive(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(why) => Err(format!("{why}")),
    }
}
