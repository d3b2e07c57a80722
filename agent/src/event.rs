//! What happens in a run, told while it happens: one stream for programs that embed the agent, for the command's
//! display and for the transcript.

use crate::approval::Decision;
use crate::message::Reply;
use crate::semconv;
use crate::tool_result::ToolErrorKind;
use crate::trajectory::StopReason;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Hears what happens while it happens.
pub trait EventSink: Send + Sync {
    /// Takes one event.
    ///
    /// A run calls it from a thread of its own, one event at a time and in order, so that a sink that panics or hangs
    /// cannot hold the run. One that panics hears nothing more. One that is slow is waited for up to a second; then it
    /// loses events, and hears how many as soon as it takes some again.
    fn emit(&self, event: AgentEvent);
}

/// A sink that drops everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn emit(&self, _event: AgentEvent) {}
}

/// What a listener hears. A run is `RunStarted`, then for each step `StepStarted`, `Replied` and, for each call of the
/// reply in the order of the calls, at most one `ToolStarted` and exactly one `ToolFinished`, then `Stopped`, which is
/// always the last.
///
/// In a transcript each is a JSON object. Names that start with `gen_ai.` or `error.` and their meaning are those of
/// OpenTelemetry's semantic conventions for generative AI, version 1.41.0 (status: development); all others are ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentEvent {
    /// A run begins, or goes on where an earlier one ended.
    RunStarted {
        /// The model's name.
        #[serde(rename = "gen_ai.request.model")]
        model: String,
        /// The names of the tools on offer.
        #[serde(default)]
        tools: Vec<String>,
        /// Whether tools that change something are refused.
        #[serde(default)]
        dry_run: bool,
        /// The standing instructions, unless the conversation has begun earlier.
        #[serde(
            rename = "gen_ai.system_instructions",
            with = "semconv::instructions",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        system: Option<String>,
        /// What the user says; nothing if an interrupted run is resumed.
        #[serde(
            rename = "gen_ai.input.messages",
            with = "semconv::prompt",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        prompt: Option<String>,
    },
    /// The model is about to be asked. Twice for one step if the conversation had to be shortened for it.
    StepStarted {
        /// The number of the step, from 1.
        step: usize,
    },
    /// The model says more of its text. Only from models that answer bit by bit, and not in transcripts: `Replied` has
    /// it all.
    #[serde(with = "semconv::message")]
    TextDelta(String),
    /// The model thinks more. Only from models that answer bit by bit, and not in transcripts.
    #[serde(with = "semconv::message")]
    ReasoningDelta(String),
    /// A request failed and is made again after a wait: what was heard of this reply so far is void.
    Retrying {
        /// The number of the attempt that comes next, from 2.
        attempt: u32,
        /// How long it is waited before.
        #[serde(rename = "wait_s", with = "semconv::seconds")]
        wait: Duration,
        /// What failed, without keys.
        why: String,
    },
    /// The model has replied.
    Replied {
        /// The number of the step, from 1.
        step: usize,
        /// The reply, with ids that are unique in the conversation.
        #[serde(flatten, with = "semconv::reply")]
        reply: Reply,
        /// How long the model took.
        #[serde(rename = "elapsed_s", with = "semconv::seconds")]
        elapsed: Duration,
    },
    /// The conversation came near the model's window, so that the oldest of it is left out from now on.
    HistoryTrimmed {
        /// Results that are replaced by a note.
        results: usize,
        /// Messages that are left out.
        messages: usize,
    },
    /// Somebody is asked whether a call may be run.
    ApprovalAsked {
        /// The id of the call.
        #[serde(rename = "gen_ai.tool.call.id")]
        call_id: String,
        /// The tool.
        #[serde(rename = "gen_ai.tool.name")]
        name: String,
        /// Its arguments, as the model wrote them.
        #[serde(rename = "gen_ai.tool.call.arguments")]
        arguments: String,
    },
    /// The answer to that.
    ApprovalAnswered {
        /// The id of the call.
        #[serde(rename = "gen_ai.tool.call.id")]
        call_id: String,
        /// The answer.
        decision: Decision,
    },
    /// A call is about to be run, unless it turns out that there is no such tool, that its arguments are wrong or that a
    /// dry run refuses it.
    ToolStarted {
        /// The id of the call.
        #[serde(rename = "gen_ai.tool.call.id")]
        call_id: String,
        /// The tool.
        #[serde(rename = "gen_ai.tool.name")]
        name: String,
        /// Its arguments, as the model wrote them.
        #[serde(rename = "gen_ai.tool.call.arguments")]
        arguments: String,
        /// Whether it changes something: if it has no result, nobody knows whether it did.
        mutates: bool,
    },
    /// A call has its result. Also of a call that was not run, and then without a `ToolStarted` if a bound, an answer of
    /// the approver or the end of the run kept it from that.
    ToolFinished {
        /// The id of the call.
        #[serde(rename = "gen_ai.tool.call.id")]
        call_id: String,
        /// The tool.
        #[serde(rename = "gen_ai.tool.name")]
        name: String,
        /// The result as the model reads it: bounded by [`Bounds::max_result_bytes`](crate::Bounds::max_result_bytes).
        #[serde(rename = "gen_ai.tool.call.result")]
        text: String,
        /// What kind of error it is, if it is one.
        #[serde(rename = "error.type", default, skip_serializing_if = "Option::is_none")]
        error: Option<ToolErrorKind>,
        /// What only programs read, for instance a sandbox's report.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        details: Value,
        /// How long the tool ran, or was waited for.
        #[serde(rename = "elapsed_s", with = "semconv::seconds")]
        elapsed: Duration,
    },
    /// The result of that call carries the advice not to make it again.
    Advised {
        /// The id of the call.
        #[serde(rename = "gen_ai.tool.call.id")]
        call_id: String,
        /// How often it has returned this result.
        times: usize,
    },
    /// Something is odd but the run goes on, for instance a server that seems to have cut the prompt.
    #[serde(with = "semconv::message")]
    Warning(String),
    /// The run is over.
    Stopped {
        /// Why.
        stop: StopReason,
        /// The final text, if the model gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// Tokens used, prompts and replies together, if the endpoint reported them for every reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        /// Wall-clock time of the run.
        #[serde(rename = "elapsed_s", with = "semconv::seconds")]
        elapsed: Duration,
    },
    /// An event of a later version. Only ever read from a transcript.
    #[serde(other)]
    Unknown,
}

impl AgentEvent {
    /// Whether it belongs in a transcript: pieces of a reply do not, since the reply follows.
    pub fn is_recorded(&self) -> bool {
        !matches!(self, AgentEvent::TextDelta(_) | AgentEvent::ReasoningDelta(_))
    }
}
