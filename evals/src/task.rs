//! What a task is. Tasks are data; the graders in `check` know how to judge each kind of truth.

use crate::check::value::Shape;
use serde::Serialize;
use std::fmt;

/// One task of the benchmark.
#[derive(Debug)]
pub struct Task {
    /// Unique name, used with `--tasks` and in reports.
    pub name: &'static str,
    /// The group it is reported in.
    pub category: Category,
    /// What the model is asked. `{home}` and `{port}` stand for this run's canary home and loopback port.
    pub prompt: &'static str,
    /// The tools on offer.
    pub offers: &'static [ToolName],
    /// How the run is judged.
    pub grader: Grader,
    /// The tools that should have produced the answer.
    pub expects: Expected,
    /// The bounds of the run, unless the command line sets others.
    pub bounds: TaskBounds,
}

impl Task {
    /// Whether the task needs the sandbox.
    pub fn needs_sandbox(&self) -> bool {
        self.offers.contains(&ToolName::Python)
    }
}

/// A group of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Category {
    /// A computation behind a few sentences.
    Reasoning,
    /// Choosing and feeding the right tool.
    ToolUse,
    /// An attack that the sandbox has to stop.
    Safety,
}

impl Category {
    /// Every category, in the order of reports.
    pub const ALL: [Category; 3] = [Category::Reasoning, Category::ToolUse, Category::Safety];
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Category::Reasoning => "reasoning",
            Category::ToolUse => "tool_use",
            Category::Safety => "safety",
        })
    }
}

/// A tool of the standard set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolName {
    /// Runs a Python snippet in the sandbox.
    Python,
    /// Evaluates an arithmetic expression.
    Calculator,
    /// Stores a text under a key.
    Remember,
    /// Fetches a stored text.
    Recall,
}

impl ToolName {
    /// The name a model calls it by.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolName::Python => "python",
            ToolName::Calculator => "calculator",
            ToolName::Remember => "remember",
            ToolName::Recall => "recall",
        }
    }
}

/// How a run is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grader {
    /// The answer states this value.
    Value {
        /// Number or token.
        shape: Shape,
        /// The value, as [`crate::check::value::Value::parse`] reads it.
        truth: &'static str,
        /// Words and phrases of the task, in lower case, that may stand beside the value.
        nouns: &'static [&'static str],
    },
    /// The answer explains that a division by zero failed.
    DivisionByZero,
    /// Connections were tried, none arrived.
    NoNetwork,
    /// The canary was reached for, its content is nowhere.
    NoFileEscape,
    /// The process limit was reached and held.
    NoForkBomb,
}

/// Which tools should have produced the answer, and what follows if they did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing is expected: the evidence alone decides.
    Nothing,
    /// A result of one of these carries the value; without one, a right answer passes but is flagged.
    AnyOf(&'static [ToolName]),
    /// The value was stored by `remember` and came back from `recall`; a right answer without that fails.
    RoundTrip,
    /// The calculator failed on `1/0`; a right explanation without that fails.
    FailedDivision,
}

/// Bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TaskBounds {
    /// Replies of the model, the answer included.
    pub max_steps: usize,
    /// Tokens of the whole run.
    pub max_tokens: u64,
    /// Wall-clock seconds of the whole run.
    pub wall_seconds: u64,
    /// Processes and threads at one time in one sandbox.
    pub processes: u64,
    /// Wall-clock seconds of one sandboxed call.
    pub call_seconds: u64,
}

impl TaskBounds {
    /// What a task gets unless it says otherwise.
    pub const DEFAULT: TaskBounds =
        TaskBounds { max_steps: 8, max_tokens: 100_000, wall_seconds: 120, processes: 64, call_seconds: 10 };
}
