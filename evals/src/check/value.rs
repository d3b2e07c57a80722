//! Reads the one value that an answer states, or says why there is none.
//!
//! The rule is an allow list, because the ways to change a value have no end: the last line that holds a value must be
//! that value, a few harmless words, and nothing else. Everything is linear in the length of the answer, and nothing of
//! it is ever run.

use super::decimal::Decimal;
use super::text::{lines, without_markup, without_prefix, words};
use super::words::{DENIALS, HARMLESS, HEDGES, NUMERALS, POINTERS, WITHDRAWALS, listed};
use std::fmt;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A decimal number.
    Number,
    /// A name or key in which at least one character is a digit.
    Token,
}

/// A value as stated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(Decimal),
    /// A token, letter by letter.
    Token(String),
}

impl Value {
    /// Reads one whole token; `None` if it is anything but a value of that shape.
    pub fn parse(shape: Shape, token: &str) -> Option<Self> {
        match shape {
            Shape::Number => Decimal::parse(token).map(Value::Number),
            Shape::Token => is_name(token).then(|| Value::Token(token.to_owned())),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Token(token) => token.fmt(f),
        }
    }
}

fn is_name(token: &str) -> bool {
    token.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) && token.contains(is_digit)
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Reads the value that `answer` states. `nouns` are words of the task that may stand beside it.
///
/// The error is a short reason for the report.
pub fn read(answer: &str, shape: Shape, nouns: &[&str]) -> Result<Value, String> {
    let lines = lines(answer);
    let at = lines.iter().rposition(|line| holds_value(line)).ok_or("no value in the answer")?;
    let value = read_line(lines[at], shape, nouns)?;
    if let Some(word) = lines[at + 1..].iter().find_map(|line| doubt(line)) {
        return Err(format!("taken back or put in doubt after the value (`{word}`)"));
    }
    if let Some(word) = lines[..at].last().filter(|line| introduces(line)).and_then(|line| doubt(line)) {
        return Err(format!("put in doubt by the line before (`{word}`)"));
    }
    match other_claim(&lines[..at], &value, shape, nouns) {
        true => Err("several different values are stated".to_owned()),
        false => Ok(value),
    }
}

/// Whether a line holds something that is, or could be meant as, a value.
fn holds_value(line: &str) -> bool {
    line.chars().any(char::is_numeric) || words(line).iter().any(|word| listed(word, &[NUMERALS]))
}

/// The first word of a line that denies, hedges or withdraws.
fn doubt(line: &str) -> Option<String> {
    if line.contains(['?', '~']) {
        return Some("?".to_owned());
    }
    words(line).into_iter().find(|word| listed(word, &[DENIALS, HEDGES, WITHDRAWALS]))
}

/// Whether a line speaks about the next one.
fn introduces(line: &str) -> bool {
    let plain = without_markup(line);
    line.trim_end_matches(['*', '_', '`']).ends_with(':')
        || words(&plain).iter().any(|word| listed(word, &[POINTERS]))
}

/// Reads the value of one line.
fn read_line(line: &str, shape: Shape, nouns: &[&str]) -> Result<Value, String> {
    if let Some(sign) = line.chars().find(|c| "<>≤≥≠≈~±∓≲≳∼≃≅∝?%‰".contains(*c)) {
        return Err(format!("the value is changed or compared by `{sign}`"));
    }
    if let Some(word) = doubt(line) {
        return Err(format!("the value is denied, hedged or taken back (`{word}`)"));
    }
    let line = without_prefix(line);
    match line.rsplit_once('=') {
        None => read_side(line, shape, nouns),
        Some((left, right)) => {
            let value = read_side(right, shape, nouns)?;
            fits_equation(left, &value, shape, nouns).then_some(value).ok_or("not one equation".to_owned())
        }
    }
}

/// Reads a line, or the right side of an equation: one value, harmless words, nothing else.
fn read_side(side: &str, shape: Shape, nouns: &[&str]) -> Result<Value, String> {
    let plain = without_markup(side);
    let mut found = None;
    for token in plain.split_whitespace() {
        let bare = token.strip_suffix(['.', ',', ';']).unwrap_or(token);
        if let Some(value) = Value::parse(shape, bare) {
            if found.replace(value).is_some() {
                return Err("more than one value on the last line that holds one".to_owned());
            }
        } else if !(is_harmless(token, nouns) || (found.is_some() && token == ".")) {
            return Err(format!("`{token}` beside the value may change it"));
        }
    }
    found.ok_or("the last line that holds a value cannot be read as one".to_owned())
}

fn is_harmless(token: &str, nouns: &[&str]) -> bool {
    let word = token.trim_end_matches(['.', ',', ';', '!']).to_lowercase();
    listed(&word, &[HARMLESS, nouns])
}

/// Whether `left` is what can stand to the left of `= value`: one expression or name, no second equation beside it and
/// no other plain value.
fn fits_equation(left: &str, value: &Value, shape: Shape, nouns: &[&str]) -> bool {
    if left.ends_with(['!', '/', '+', '-', '*', '^', '|', '&']) || has_separator_outside_brackets(left) {
        return false;
    }
    left.split('=')
        .filter(|part| !part.trim().is_empty())
        .all(|part| read_side(part, shape, nouns).map_or(true, |stated| stated == *value))
}

/// Whether a comma or semicolon separates parts of which an earlier one holds a digit: `a = 1, b = 2`.
fn has_separator_outside_brackets(left: &str) -> bool {
    let (mut depth, mut digit_seen) = (0_i32, false);
    let mut chars = left.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '0'..='9' => digit_seen = true,
            ';' | '|' if depth <= 0 && digit_seen => return true,
            ',' if depth <= 0 && digit_seen && !chars.peek().is_some_and(char::is_ascii_digit) => {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Whether a line above states another value: directly above as in a list, or anywhere as a line of its own or as an
/// "answer". Working lines (`2 + 3 = 5`, `- 88`, `It printed 12.`) state nothing.
fn other_claim(above: &[&str], value: &Value, shape: Shape, nouns: &[&str]) -> bool {
    let differs = |line: &&str| match claim(without_prefix(line), shape, nouns) {
        Claim::Nothing => None,
        Claim::Value(other) => Some(other != *value),
        Claim::Unreadable => Some(true),
    };
    let in_a_list = above.iter().rev().map_while(differs).any(|other| other);
    let anywhere = above
        .iter()
        .filter(|line| is_alone(line) || line.to_lowercase().contains("answer"))
        .filter_map(differs)
        .any(|other| other);
    in_a_list || anywhere
}

enum Claim {
    Value(Value),
    /// One token that could be meant as a value.
    Unreadable,
    Nothing,
}

fn claim(line: &str, shape: Shape, nouns: &[&str]) -> Claim {
    match read_side(line, shape, nouns) {
        _ if line.contains('=') => Claim::Nothing,
        Ok(value) => Claim::Value(value),
        Err(_) if is_alone(line) => Claim::Unreadable,
        Err(_) => Claim::Nothing,
    }
}

/// Whether a line is one token with a digit in it, and no list item.
fn is_alone(line: &str) -> bool {
    line.contains(is_digit) && without_markup(line).split_whitespace().count() == 1
}
