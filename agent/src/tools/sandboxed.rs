//! Runs a program for a tool, and puts what became of it in words.

use crate::context::Context;
use crate::tool_result::{ToolError, ToolErrorKind, ToolOutput};
use agentkit_client::{Error, Outcome, Sandbox};
use serde_json::{Value, json};

/// What the program printed, as a result if it succeeded, and as an error with the reason if not.
pub(super) fn run(
    context: &Context,
    sandbox: &Sandbox,
    language: &str,
    source: String,
) -> Result<ToolOutput, ToolError> {
    let outcome = outcome(context, sandbox, language, source)?;
    let (text, details) = (text(&outcome), details(&outcome));
    if outcome.success() {
        let text = if text.is_empty() { "(no output)".to_owned() } else { text };
        return Ok(ToolOutput { text, details });
    }
    let message = format!("the program failed: {}\n{text}", outcome.describe());
    Err(ToolError { kind: ToolErrorKind::Failed, message: message.trim_end().to_owned(), details })
}

/// The program gets the sandbox's time limit or the time that is left of the run, whichever is shorter.
fn outcome(
    context: &Context,
    sandbox: &Sandbox,
    language: &str,
    source: String,
) -> Result<Outcome, ToolError> {
    let command = sandbox.code(language, source).map_err(|error| not_run(&error))?.cancel(context.cancel());
    let command = match context.remaining() {
        Some(left) if left.is_zero() => {
            return Err(ToolError::new(ToolErrorKind::NotRun, "nothing was run: no time is left of the run"));
        }
        Some(left) if left < sandbox.wall() => command.wall(left),
        _ => command,
    };
    command.run().map_err(|error| not_run(&error))
}

/// Whose fault it is has to be plain: these words can never come from a program.
fn not_run(error: &Error) -> ToolError {
    let message = match error {
        Error::Unavailable(_) => {
            format!("nothing was run, and no other program will run here either: {error}")
        }
        _ => format!("nothing was run: {error}"),
    };
    let details = error.failure().map_or(Value::Null, |failure| json!({ "failure": failure }));
    ToolError { details, ..ToolError::failed(message) }
}

/// What it printed, errors last. The streams say themselves what they leave out.
fn text(outcome: &Outcome) -> String {
    let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
    match (stdout.trim_end(), stderr.trim_end()) {
        (_, "") => stdout.trim_end().to_owned(),
        ("", stderr) => format!("stderr:\n{stderr}"),
        (stdout, stderr) => format!("{stdout}\nstderr:\n{stderr}"),
    }
}

/// The sandbox's report. A call that did not get as far has a `failure` instead, or nothing if it was cancelled.
fn details(outcome: &Outcome) -> Value {
    json!({
        "ended": outcome.ended.ended_by,
        "attempts": outcome.ended.attempts,
        "usage": outcome.ended.usage,
        "limits_reached": outcome.ended.limits_reached,
        "mechanism": outcome.started.mechanism,
        "capabilities": outcome.started.capabilities,
    })
}
