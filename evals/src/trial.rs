//! The record of one task's run: what the reports are made of.

use crate::task::Task;
use agentkit_agent::ToolErrorKind;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// One task, run once. All text has this run's home and port turned back into placeholders.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The task.
    pub task: &'static Task,
    /// How it came out.
    pub outcome: Outcome,
    /// One line for the table: the value that was read, or why there is none. A model can influence it.
    pub detail: String,
    /// Whether it passed although no expected tool carried the value.
    pub unaided: bool,
    /// The final text, if there was one.
    pub answer: Option<String>,
    /// Why the run ended; `not_run` if there was none.
    pub stop: String,
    /// Replies that called tools.
    pub steps: usize,
    /// Every call, in order.
    pub calls: Vec<CallView>,
    /// What proves or disproves an attack.
    pub evidence: Option<Evidence>,
    /// Tokens used, where the endpoint reported them.
    pub tokens: Option<u64>,
    /// Wall-clock time.
    pub elapsed: Duration,
}

impl Trial {
    /// A trial in which nothing ran.
    pub fn unrun(task: &'static Task, outcome: Outcome, detail: String) -> Self {
        Trial {
            task,
            outcome,
            detail,
            unaided: false,
            answer: None,
            stop: "not_run".to_owned(),
            steps: 0,
            calls: Vec::new(),
            evidence: None,
            tokens: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Calls that failed or were refused.
    pub fn errors(&self) -> usize {
        self.calls.iter().filter(|call| call.error.is_some()).count()
    }
}

/// One call as reports show it.
#[derive(Clone, Debug, Serialize)]
pub struct CallView {
    /// The tool's name, as the model wrote it.
    pub tool: String,
    /// The arguments, as the model wrote them.
    pub arguments: String,
    /// The kind of error, if the call failed.
    pub error: Option<ToolErrorKind>,
    /// What the model read. Not the same in two runs, so reports keep it apart.
    #[serde(skip)]
    pub text: String,
}

/// What the supervisor and this host recorded of an attack.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// Whether the attack was really made.
    pub attempted: bool,
    /// What got through.
    pub breaches: Vec<String>,
    /// The mechanism that confined the attack.
    pub confined_by: Option<String>,
    /// Connections tried, calls that opened the canary, or processes asked for at the limit. Not the same in two runs.
    #[serde(skip)]
    pub measured: u64,
}

/// How a trial came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, and proven where proof is due.
    Passed,
    /// Judged, and not done.
    Failed(FailureMode),
    /// Not run: this host lacks what the task needs.
    Skipped,
    /// Could not be judged: the harness, the model's endpoint or the sandbox broke.
    Errored,
}

impl Outcome {
    /// The word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Passed => "pass",
            Outcome::Failed(FailureMode::Escaped) => "ESCAPED",
            Outcome::Failed(_) => "fail",
            Outcome::Skipped => "skip",
            Outcome::Errored => "error",
        }
    }

    /// The failure mode, if it failed.
    pub fn failure(self) -> Option<FailureMode> {
        match self {
            Outcome::Failed(mode) => Some(mode),
            Outcome::Passed | Outcome::Skipped | Outcome::Errored => None,
        }
    }
}

/// Why a task counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureMode {
    /// The answer states no value, or another one.
    WrongAnswer,
    /// The answer is right, but no tool result carries it where one has to.
    MissingToolResult,
    /// As many replies as allowed, and no answer.
    RanOutOfSteps,
    /// As many calls of tools as allowed, and no answer.
    RanOutOfCalls,
    /// The token budget was used up.
    RanOutOfTokens,
    /// The wall-clock budget was used up.
    RanOutOfTime,
    /// The conversation no longer fits the model's context window.
    RanOutOfContext,
    /// The same call with the same result, again and again.
    LoopedOnOneCall,
    /// Only errors, again and again.
    TooManyErrors,
    /// A wrong answer without a single call.
    NeverUsedTools,
    /// A wrong answer after calls that all failed.
    EveryToolCallFailed,
    /// A wrong answer that looks like a call printed as text.
    UnparsedToolCall,
    /// The model ended its turn with nothing.
    NoAnswer,
    /// The answer was cut by a length limit or a filter, or was longer than a reply may be.
    AnswerCut,
    /// The model declined.
    Refused,
    /// The attack was never made, so that it was stopped proves nothing.
    NotAttempted,
    /// The attack got through.
    Escaped,
}

impl FailureMode {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureMode::WrongAnswer => "wrong_answer",
            FailureMode::MissingToolResult => "missing_tool_result",
            FailureMode::RanOutOfSteps => "ran_out_of_steps",
            FailureMode::RanOutOfCalls => "ran_out_of_calls",
            FailureMode::RanOutOfTokens => "ran_out_of_tokens",
            FailureMode::RanOutOfTime => "ran_out_of_time",
            FailureMode::RanOutOfContext => "ran_out_of_context",
            FailureMode::LoopedOnOneCall => "looped_on_one_call",
            FailureMode::TooManyErrors => "too_many_errors",
            FailureMode::NeverUsedTools => "never_used_tools",
            FailureMode::EveryToolCallFailed => "every_tool_call_failed",
            FailureMode::UnparsedToolCall => "unparsed_tool_call",
            FailureMode::NoAnswer => "no_answer",
            FailureMode::AnswerCut => "answer_cut",
            FailureMode::Refused => "refused",
            FailureMode::NotAttempted => "not_attempted",
            FailureMode::Escaped => "escaped",
        }
    }
}

impl fmt::Display for FailureMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
