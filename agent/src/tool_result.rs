//! What comes of a call: a result, or an error that the model can read.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// A successful result. Texts, numbers, characters and truth values turn into one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ToolOutput {
    /// What the model reads.
    pub text: String,
    /// What only programs read, for instance a sandbox's report. Never sent to a model.
    pub details: Value,
}

/// One by one, since numbers may one day turn into a `String` by themselves.
macro_rules! output_from {
    ($($type:ty)*) => { $(
        impl From<$type> for ToolOutput {
            fn from(value: $type) -> Self {
                ToolOutput { text: value.to_string(), details: Value::Null }
            }
        }
    )* };
}

output_from! { &str Box<str> Cow<'_, str> bool char i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 }

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        ToolOutput { text, details: Value::Null }
    }
}

/// A failed call. The model reads the message as the call's result; the loop goes on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolError {
    /// What kind of failure.
    pub kind: ToolErrorKind,
    /// What the model reads.
    pub message: String,
    /// What only programs read.
    pub details: Value,
}

impl ToolError {
    /// A failure of this kind.
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        ToolError { kind, message: message.into(), details: Value::Null }
    }

    /// A failure of the tool's own work.
    pub fn failed(message: impl Into<String>) -> Self {
        ToolError::new(ToolErrorKind::Failed, message)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorKind {
    /// The model named a tool that does not exist.
    UnknownTool,
    /// The arguments do not fit the schema.
    InvalidArguments,
    /// Refused before it ran: a mutating tool in a dry run, or a call that was not approved.
    Refused,
    /// Not run because a bound of the loop was reached.
    NotRun,
    /// The tool ran and failed.
    Failed,
    /// The tool panicked.
    Panicked,
    /// The tool did not come back in time. What it does, or has done by then, is not known.
    Abandoned,
}
