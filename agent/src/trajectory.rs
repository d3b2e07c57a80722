//! What happened in a run, step by step.

use crate::conversation::Conversation;
use crate::message::{Reply, ToolCall};
use crate::tool_result::{ToolError, ToolOutput};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The whole of one run. It serializes, times as `{"secs": ..., "nanos": ...}` and without the conversation, whose
/// parts are in the steps.
#[derive(Clone, Debug, Serialize)]
pub struct Trajectory {
    /// What the user said last.
    pub prompt: String,
    /// One entry for each reply of the model, in order.
    pub steps: Vec<Step>,
    /// Why the run ended.
    pub stop: StopReason,
    /// The final text, if the model gave one.
    pub answer: Option<String>,
    /// Tokens used, prompts and replies together, if the endpoint reported them for every reply. Unknown is not zero.
    pub tokens: Option<u64>,
    /// Wall-clock time of the run.
    pub elapsed: Duration,
    /// All that was said, in earlier runs too, as far as it was not left out to save space. Another run can go on with
    /// it.
    #[serde(skip)]
    pub conversation: Conversation,
}

impl Trajectory {
    /// Every call with its result, in order.
    pub fn calls(&self) -> impl Iterator<Item = &CallRecord> {
        self.steps.iter().flat_map(|step| &step.calls)
    }

    /// Replies that called at least one tool.
    pub fn tool_steps(&self) -> usize {
        self.steps.iter().filter(|step| !step.calls.is_empty()).count()
    }
}

/// One reply and what came of its calls.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The model's reply.
    pub reply: Reply,
    /// Exactly one record for each call of the reply, in the order of the calls.
    pub calls: Vec<CallRecord>,
}

/// One call and its result.
#[derive(Clone, Debug, Serialize)]
pub struct CallRecord {
    /// The call as the model made it.
    pub call: ToolCall,
    /// The result as the model saw it. Serialized as `{"Ok": ...}` or `{"Err": ...}`.
    pub result: Result<ToolOutput, ToolError>,
    /// How long the tool ran, or was waited for.
    pub elapsed: Duration,
}

/// Why a run ended. Each way to end has its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model answered.
    Answered,
    /// The model ended its turn with neither text nor a call.
    NoAnswer,
    /// The model declined.
    Refused,
    /// The model's text was cut by a length limit or a filter, named here: half an answer is none.
    Cut(String),
    /// The model's reply was longer than `max_reply_bytes`.
    Flooded,
    /// The conversation does not fit the model's context window, with all left out that may be.
    ContextOverflow(String),
    /// `max_steps` replies without an answer.
    MaxSteps,
    /// `max_calls` calls of tools, and the model wants more.
    MaxCalls,
    /// The token budget is used up.
    MaxTokens,
    /// The wall-clock budget is used up.
    WallClock,
    /// The same call with the same result, again after the model was told.
    Looped,
    /// `max_consecutive_errors` calls in a row returned errors.
    TooManyErrors,
    /// Somebody who was asked about a call ended the run.
    StoppedAtApproval,
    /// The caller cancelled.
    Cancelled,
    /// The model could not be asked, or its reply could not be read.
    ModelFailed(String),
    /// The transcript could not be written, so that what would follow could not be known later.
    Unrecorded(String),
}
