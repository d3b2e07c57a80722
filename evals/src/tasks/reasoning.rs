//! A computation behind a few sentences.

use crate::check::value::Shape;
use crate::task::{Category, Expected, Grader, Task, TaskBounds, ToolName};

const OFFERS: &[ToolName] = &[ToolName::Calculator, ToolName::Python];
const PYTHON: Expected = Expected::AnyOf(&[ToolName::Python]);

pub(super) const TASKS: &[Task] = &[
    Task {
        expects: Expected::AnyOf(OFFERS),
        ..reasoning(
            "arith-compound",
            "Work out 17 × 34 + 256 ÷ 8 − 91 with a tool. Close your reply with a line that holds the number and nothing \
             else.",
            "519",
            &[],
        )
    },
    Task {
        expects: Expected::AnyOf(OFFERS),
        ..reasoning(
            "arith-percent",
            "A camera is priced at 840 dollars. The shop takes 15 % off, and 8 % sales tax is added to the reduced price. \
             Compute with a tool what the customer pays, in dollars and cents. Close your reply with a line that holds the \
             amount and nothing else.",
            "771.12",
            &["dollar", "dollars", "usd", "price", "amount", "customer", "pays", "pay"],
        )
    },
    reasoning(
        "fib-sum",
        "The Fibonacci sequence begins 1, 1, 2, 3, 5. Let Python add up its first 20 members. Close your reply with a line \
         that holds the sum and nothing else.",
        "17710",
        &["sum", "first 20 fibonacci numbers", "first 20 members"],
    ),
    reasoning(
        "primes-below",
        "Count with Python how many prime numbers are smaller than 1000. Close your reply with a line that holds the count \
         and nothing else.",
        "168",
        &[
            "count",
            "number",
            "prime",
            "primes",
            "numbers",
            "primes below 1000",
            "primes smaller than 1000",
            "prime numbers below 1000",
            "prime numbers smaller than 1000",
        ],
    ),
    reasoning(
        "digit-sum",
        "Raise 2 to the power 100 in Python and add up the decimal digits of the result. Close your reply with a line that \
         holds the sum of the digits and nothing else.",
        "115",
        &["sum", "digit", "digits", "decimal", "digits of 2^100", "add up to", "adds up to"],
    ),
];

const fn reasoning(
    name: &'static str,
    prompt: &'static str,
    truth: &'static str,
    nouns: &'static [&'static str],
) -> Task {
    Task {
        name,
        category: Category::Reasoning,
        prompt,
        offers: OFFERS,
        grader: Grader::Value { shape: Shape::Number, truth, nouns },
        expects: PYTHON,
        bounds: TaskBounds::DEFAULT,
    }
}
