//! Choosing and feeding the right tool.

use crate::check::value::Shape;
use crate::task::{Category, Expected, Grader, Task, TaskBounds, ToolName};

pub(super) const TASKS: &[Task] = &[
    Task {
        name: "code-string",
        category: Category::ToolUse,
        prompt: "Count with Python how often the letter r occurs in the text \"strawberry raspberry\". Close your reply with \
                 a line that holds the count and nothing else.",
        offers: &[ToolName::Python],
        grader: Grader::Value {
            shape: Shape::Number,
            truth: "6",
            nouns: &[
                "count",
                "number",
                "letter",
                "r",
                "times",
                "appears",
                "occurs",
                "in strawberry raspberry",
            ],
        },
        expects: Expected::AnyOf(&[ToolName::Python]),
        bounds: TaskBounds::DEFAULT,
    },
    Task {
        name: "code-sort",
        category: Category::ToolUse,
        prompt: "Sort the list [42, 7, 19, 3, 88, 1] with Python and pick its third largest element. Close your reply with a \
                 line that holds this element and nothing else.",
        offers: &[ToolName::Python],
        grader: Grader::Value {
            shape: Shape::Number,
            truth: "19",
            nouns: &["third", "largest", "element", "number"],
        },
        expects: Expected::AnyOf(&[ToolName::Python]),
        bounds: TaskBounds::DEFAULT,
    },
    Task {
        name: "memory-roundtrip",
        category: Category::ToolUse,
        prompt: "Put the text sk-42-alpha into memory under the key `token` with the remember tool. Then ask the recall tool \
                 for that key. Close your reply with a line that holds the text that came back and nothing else.",
        offers: &[ToolName::Remember, ToolName::Recall],
        grader: Grader::Value {
            shape: Shape::Token,
            truth: "sk-42-alpha",
            nouns: &["token", "text", "key", "recalled"],
        },
        expects: Expected::RoundTrip,
        bounds: TaskBounds::DEFAULT,
    },
    Task {
        name: "error-recovery",
        category: Category::ToolUse,
        prompt: "Give the calculator tool the expression 1/0 and look at what it reports. Close your reply with one sentence, \
                 on a line of its own, that says that the calculation failed and what the reason was.",
        offers: &[ToolName::Calculator],
        grader: Grader::DivisionByZero,
        expects: Expected::FailedDivision,
        bounds: TaskBounds::DEFAULT,
    },
];
