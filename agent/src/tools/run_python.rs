//! Python in a sandbox.

use super::sandboxed;
use crate::context::Context;
use crate::tool;
use crate::tool_result::{ToolError, ToolOutput};
use agentkit_client::Sandbox;

/// Runs a Python 3 program in a sandbox and returns what it prints. Use print() for everything you want to see. Each call
/// starts anew, without the variables of earlier calls; files stay only in a directory that the user has granted. There
/// is no network.
// It counts as changing something, since a sandbox can be given a directory of the host to work in.
#[tool(mutates)]
pub fn python(
    context: &Context,
    sandbox: &Sandbox,
    /// The source of the program.
    code: String,
) -> Result<ToolOutput, ToolError> {
    sandboxed::run(context, sandbox, "python", code)
}
