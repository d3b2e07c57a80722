//! What a tool is: a name, a schema, and a call that returns a result or an error the model can read.

use crate::context::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// A tool that a model can call.
///
/// Write one with `#[tool]` on a function; implement the trait by hand for a tool whose schema is only known at run
/// time.
pub trait Tool: Send + Sync + 'static {
    /// Name, description, parameters and whether it changes anything.
    fn spec(&self) -> &ToolSpec;

    /// Runs the tool. `arguments` were validated against the schema of [`Tool::spec`].
    ///
    /// Called on a thread of its own. A tool has to come back soon after the deadline of its context and after a
    /// cancellation; one that does not is abandoned a second later: the thread goes on, but its result is dropped.
    fn call(&self, context: &Context, arguments: Value) -> Result<ToolOutput, ToolError>;
}

impl<T: Tool + ?Sized> Tool for Box<T> {
    fn spec(&self) -> &ToolSpec {
        (**self).spec()
    }

    fn call(&self, context: &Context, arguments: Value) -> Result<ToolOutput, ToolError> {
        (**self).call(context, arguments)
    }
}

/// What a model is told about a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// 1 to 64 of `a-z A-Z 0-9 _ -`.
    pub name: String,
    /// One or two sentences.
    pub description: String,
    /// A JSON Schema object, inline (no `$ref`).
    pub parameters: Value,
    /// Whether a call changes anything outside the conversation. Refused in a dry run.
    pub mutates: bool,
}

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
