//! Whether an answer came from the tools that should have produced it.

use super::decimal::Decimal;
use super::phrase::names_division_by_zero;
use super::text::without_markup;
use super::value::{Shape, Value};
use crate::task::{Expected, ToolName};
use agentkit_agent::{CallRecord, ToolErrorKind, Trajectory};
use serde_json::Value as Json;

/// What was asked, and the right answer to it.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// Number or token.
    pub shape: Shape,
    /// The right answer.
    pub value: &'a Value,
    /// The task's prompt.
    pub prompt: &'a str,
}

/// Whether the expected tools carried the truth in this run.
pub fn used_expected(expected: Expected, run: &Trajectory, truth: Truth<'_>) -> bool {
    match expected {
        Expected::Nothing => true,
        Expected::AnyOf(tools) => {
            tools.iter().any(|tool| run.calls().any(|call| truth.was_produced_by(call, *tool)))
        }
        Expected::RoundTrip => truth.came_back(run),
        Expected::FailedDivision => run.calls().any(failed_division),
    }
}

impl Truth<'_> {
    /// Whether a call of `tool` brought the truth forth: its result states it, and it was not handed in. Where the prompt
    /// gives the truth away, as one element of a list, it has to be handed in.
    fn was_produced_by(&self, call: &CallRecord, tool: ToolName) -> bool {
        let given = self.is_in(self.prompt);
        let handed_in = || texts(&call.call.arguments).iter().any(|text| self.is_in(text));
        self.was_stated_by(call, tool) && (given || !handed_in())
    }

    /// A successful `remember` that was given the value, and after it a `recall` that brought it back.
    fn came_back(&self, run: &Trajectory) -> bool {
        let stored = run.calls().position(|call| {
            is_success_of(call, ToolName::Remember)
                && texts(&call.call.arguments).iter().any(|text| self.is_in(text))
        });
        stored
            .is_some_and(|at| run.calls().skip(at + 1).any(|call| self.was_stated_by(call, ToolName::Recall)))
    }

    fn was_stated_by(&self, call: &CallRecord, tool: ToolName) -> bool {
        is_success_of(call, tool) && call.result.as_ref().is_ok_and(|output| self.is_stated_by(&output.text))
    }

    /// Whether the last line of `text` that holds a value holds this one and no other: behind the last colon, arrow or
    /// equals sign if there is one, and leaving out figures of the prompt (`first 20: 17710`) unless the truth is one of
    /// them.
    fn is_stated_by(&self, text: &str) -> bool {
        let given = values(self.shape, self.prompt);
        let figures = |piece: &str| -> Vec<Value> {
            let ignored = |value: &Value| given.contains(value) && !given.contains(self.value);
            values(self.shape, piece).into_iter().filter(|value| !ignored(value)).collect()
        };
        let last = text.lines().rev().map(|line| {
            line.rsplit([':', '=', '>', '|']).map(figures).find(|found| !found.is_empty()).unwrap_or_default()
        });
        last.into_iter().find(|found| !found.is_empty()).is_some_and(|found| found == [self.value.clone()])
    }

    /// Whether the value is in `text` as a whole token: `519` is in `print(519)` and not in `1519`, `-519` or `519.5`.
    fn is_in(&self, text: &str) -> bool {
        values(self.shape, text).contains(self.value)
    }
}

/// Every value in a text.
fn values(shape: Shape, text: &str) -> Vec<Value> {
    let plain = without_markup(text);
    let tokens = plain.split(|c: char| c.is_whitespace() || "=:;|>".contains(c));
    let read = |token: &str| {
        let token = token.trim_end_matches(['.', ',', '!']);
        // A comma separates thousands where it can, and else the items of a list.
        match Value::parse(shape, token) {
            Some(value) => vec![value],
            None => token.split(',').filter_map(|item| Value::parse(shape, item)).collect(),
        }
    };
    tokens.flat_map(read).collect()
}

/// The texts among the arguments of a call, decoded.
fn texts(arguments: &str) -> Vec<String> {
    match serde_json::from_str(arguments) {
        Ok(Json::Object(fields)) => {
            fields.into_iter().filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}

fn is_success_of(call: &CallRecord, tool: ToolName) -> bool {
    call.call.name == tool.as_str() && call.result.is_ok()
}

/// The calculator itself failed on the division of the task: a refused or misspelt call is no such failure.
pub fn failed_division(call: &CallRecord) -> bool {
    call.call.name == ToolName::Calculator.as_str()
        && texts(&call.call.arguments).iter().any(|text| is_one_by_zero(text))
        && call
            .result
            .as_ref()
            .is_err_and(|error| error.kind == ToolErrorKind::Failed && names_division_by_zero(&error.message))
}

/// `1/0`, whatever its spaces and brackets; not `21/0`.
fn is_one_by_zero(expression: &str) -> bool {
    let bare: String =
        expression.chars().filter(|c| !(c.is_whitespace() || matches!(c, '(' | ')'))).collect();
    let is =
        |text: &str, wanted: &str| Decimal::parse(text).is_some_and(|n| Some(n) == Decimal::parse(wanted));
    bare.split_once(['/', '÷']).is_some_and(|(above, below)| is(above, "1") && is(below, "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(truth: &str, prompt: &str, text: &str) -> bool {
        let value = Value::parse(Shape::Number, truth).unwrap();
        Truth { shape: Shape::Number, value: &value, prompt }.is_stated_by(text)
    }

    #[test]
    fn a_result_that_states_the_value() {
        for text in [
            "771.12",
            "$771.12",
            "**$771.12**",
            "771.120",
            "price->771.12",
            "a | 771.12 |",
            "It is 771.12!",
            "840: 771.12",
            "1\n2\ntotal = 771.12\n",
            "{\"pays\": 771.12}",
            "of 840 dollars 771.12 are left",
            "771.12\n(done)",
        ] {
            assert!(states("771.12", "840 dollars", text), "{text}");
        }
        assert!(states("19", "[42, 7, 19]", "third of [42, 7, 19]: 19"));
    }

    #[test]
    fn a_result_that_holds_it_among_others_states_nothing() {
        for text in ["518 519 520", "[518, 519]", "519\n520", "1519", "-519", "519.5", "5190", "51,9", ""] {
            assert!(!states("519", "17 and 34", text), "{text}");
        }
        assert!(!states("19", "[42, 7, 19]", "[42, 7, 19]"));
        assert!(!states("19", "[42, 7, 19]", "[7, 19, 42]"));
    }

    #[test]
    fn the_division_of_the_task_in_other_spellings() {
        for expression in ["1/0", " 1 / 0 ", "1÷0", "(1)/(0)", "(1/0)", "1.0/0"] {
            assert!(is_one_by_zero(expression), "{expression}");
        }
        for expression in ["21/0", "1/01", "1/0.5", "1/1", "1/", "/0", "0/1", "1/0+1", "11/0"] {
            assert!(!is_one_by_zero(expression), "{expression}");
        }
    }
}
