//! A shell in a sandbox.

use super::sandboxed;
use crate::context::Context;
use crate::tool;
use crate::tool_result::{ToolError, ToolOutput};
use agentkit_client::Sandbox;

/// Runs a POSIX shell script (sh) in a sandbox and returns what it prints. It fails if the last command fails; begin with
/// `set -e` to stop at the first one. Each call starts anew, without the variables and the directory of earlier calls;
/// files stay only in a directory that the user has granted. There is no network and no input.
// It counts as changing something, since a sandbox can be given a directory of the host to work in.
#[tool(mutates)]
pub fn shell(
    context: &Context,
    sandbox: &Sandbox,
    /// One or more lines, for instance `ls -l | head -n 5`.
    script: String,
) -> Result<ToolOutput, ToolError> {
    sandboxed::run(context, sandbox, "sh", script)
}
