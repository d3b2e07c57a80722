//! What a conversation consists of: what is said to a model, and what it says.

use serde::{Deserialize, Serialize};

/// One entry of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Standing instructions.
    System(String),
    /// What the user says.
    User(String),
    /// What the model said.
    Assistant(Reply),
    /// The result of one call.
    Tool {
        /// The id of the call it answers.
        call_id: String,
        /// Result or error text.
        text: String,
        /// Whether the call failed.
        is_error: bool,
    },
}

/// One reply of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text, empty if there is none.
    pub text: String,
    /// The calls, in order. The loop makes each id unique in the run, also where a model left it out.
    pub calls: Vec<ToolCall>,
    /// Why the model stopped.
    pub finish: Finish,
    /// Tokens of prompt and reply together, if the endpoint said so.
    pub tokens: Option<u64>,
    /// Thinking that is not part of the answer.
    pub reasoning: Option<String>,
}

/// Why a model ended its reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done, or wants its calls run.
    #[default]
    Done,
    /// The reply was cut by a length limit or a filter: its calls must not be run.
    Cut(String),
    /// It declined.
    Refused,
}

/// A call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in the run.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The arguments as raw JSON text, as the model wrote them.
    pub arguments: String,
}
