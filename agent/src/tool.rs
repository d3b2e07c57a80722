//! What a tool is: a name, a schema, and a call that returns a result or an error the model can read.

pub use crate::tool_result::{ToolError, ToolErrorKind, ToolOutput};

use crate::context::Context;
use serde_json::Value;

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
