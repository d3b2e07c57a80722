//! Whether an answer came from the tools that should have produced it.

use super::phrase::names_division_by_zero;
use super::value::{Shape, Value};
use crate::task::{Expected, ToolName};
use agentkit_agent::{CallRecord, ToolErrorKind, Trajectory};

/// Whether the expected tools carried `truth` in this run.
pub fn used_expected(expected: Expected, run: &Trajectory, shape: Shape, truth: &Value) -> bool {
    match expected {
        Expected::Nothing => true,
        Expected::AnyOf(tools) => {
            tools.iter().any(|tool| run.calls().any(|call| returned(call, *tool, shape, truth)))
        }
        Expected::RoundTrip => round_trip(run, shape, truth),
        Expected::FailedDivision => run.calls().any(failed_division),
    }
}

/// A successful `remember` that was given the value, and after it a `recall` that brought it back.
fn round_trip(run: &Trajectory, shape: Shape, truth: &Value) -> bool {
    let stored = run.calls().position(|call| {
        is_success_of(call, ToolName::Remember) && carries(&call.call.arguments, shape, truth)
    });
    stored
        .is_some_and(|at| run.calls().skip(at + 1).any(|call| returned(call, ToolName::Recall, shape, truth)))
}

fn returned(call: &CallRecord, tool: ToolName, shape: Shape, truth: &Value) -> bool {
    is_success_of(call, tool) && call.result.as_ref().is_ok_and(|output| carries(&output.text, shape, truth))
}

fn is_success_of(call: &CallRecord, tool: ToolName) -> bool {
    call.call.name == tool.as_str() && call.result.is_ok()
}

/// The calculator itself failed on a division by zero: a refused or misspelt call is no such failure.
pub fn failed_division(call: &CallRecord) -> bool {
    let expression: String = call.call.arguments.chars().filter(|c| !c.is_whitespace()).collect();
    call.call.name == ToolName::Calculator.as_str()
        && expression.contains("1/0")
        && call
            .result
            .as_ref()
            .is_err_and(|error| error.kind == ToolErrorKind::Failed && names_division_by_zero(&error.message))
}

/// Whether the value is in `text` as a whole token: `519` is in `sum: 519` and not in `1519`, `-519` or `519.5`.
pub fn carries(text: &str, shape: Shape, truth: &Value) -> bool {
    let is_truth = |token: &str| Value::parse(shape, token).is_some_and(|value| value == *truth);
    text.split(|c: char| c.is_whitespace() || "\"'`()[]{}=:;".contains(c)).any(|token| {
        let token = token.trim_end_matches(['.', ',']);
        // A comma separates thousands where it can, and else the items of a list.
        match Value::parse(shape, token) {
            Some(value) => value == *truth,
            None => token.split(',').any(is_truth),
        }
    })
}
