//! Reads the one value that an answer states, or says why there is none.
//!
//! The rules, in the order in which they are applied:
//!
//! 1. **The answer** is the last line that holds a value. A block of reasoning in front (`<think>`) is no part of it.
//! 2. **After it** only markup and words of courtesy may come: prompts ask for the value on the last line.
//! 3. **Beside it** is an allow list, because the ways to change a value have no end: one whole token, harmless words and
//!    words of the task, nothing else. In an equation the right side counts (`equation.rs` says what may be left of
//!    it). A line above that breaks off in the middle of a sentence is read together with it.
//! 4. **Before it** any text may stand that ends, unless its last words turn on the value (`lead_in.rs`).
//! 5. **A rival**, another value stated as an answer or in a list above, makes it one guess of several.
//!
//! Everything is linear in the length of the answer, and nothing of it is ever run.

use super::decimal::Decimal;
use super::equation;
use super::lead_in::{self, Ending};
use super::text::{Line, is_courtesy, lines, without_markup, without_prefix, without_reasoning, words};
use super::words::{DENIALS, DOUBTS, HARMLESS, MODIFIERS, NAMES, NUMERALS, listed};
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

/// Reads the value that `answer` states. `nouns` are words and phrases of the task that may stand beside it.
///
/// The error is a short reason for the report.
pub fn read(answer: &str, shape: Shape, nouns: &[&str]) -> Result<Value, String> {
    let reader = Reader { shape, nouns };
    let lines = lines(without_reasoning(answer));
    let at = lines.iter().rposition(|line| holds_value(line.text)).ok_or("no value in the answer")?;
    if let Some(line) = lines[at + 1..].iter().find(|line| !is_courtesy(line.text)) {
        return Err(format!("text after the answer (`{}`)", line.text));
    }
    // Code and output above are shown, not said.
    let said = |line: &&Line<'_>| line.block == 0 || line.block == lines[at].block;
    let above: Vec<&str> = lines[..at].iter().filter(said).map(|line| line.text).collect();
    let start = above.iter().rposition(|line| !reader.runs_on(line)).map_or(0, |last| last + 1);
    let mut statement = above[start..].join(" ");
    statement.push(' ');
    statement.push_str(without_prefix(lines[at].text));
    let value = reader.statement(statement.trim())?;
    if let Some(word) = above[..start].last().and_then(|line| lead_in::spoils(line)) {
        return Err(format!("denied or put in doubt by the line before (`{word}`)"));
    }
    match reader.has_rival(&lines[..=at], &value) {
        true => Err("several different values are stated".to_owned()),
        false => Ok(value),
    }
}

/// Whether a line holds something that is, or could be meant as, a value.
fn holds_value(line: &str) -> bool {
    line.chars().any(char::is_numeric) || words(line).iter().any(|word| listed(word, &[NUMERALS]))
}

/// What a line says.
enum Claim {
    Value(Value),
    /// Something that could be meant as a value.
    Unreadable,
    Nothing,
}

/// Reads lines for one task.
struct Reader<'a> {
    shape: Shape,
    nouns: &'a [&'a str],
}

impl Reader<'_> {
    /// Reads a value with what stands beside it.
    fn statement(&self, line: &str) -> Result<Value, String> {
        let Some((left, right)) = line.rsplit_once('=') else { return self.side(line) };
        let value = self.side(right)?;
        let is_value = |part: &str| self.side(part).is_ok_and(|stated| stated == value);
        let fits = equation::fits(left, is_value, |word| self.is_harmless(word));
        fits.then_some(value).ok_or("what is left of `=` may change the value".to_owned())
    }

    /// Reads a line without `=`: one value, harmless words, nothing else.
    fn side(&self, side: &str) -> Result<Value, String> {
        let plain = without_markup(side);
        let tokens: Vec<&str> = plain.split_whitespace().collect();
        let (mut found, mut at) = (None, 0);
        while at < tokens.len() {
            let token = tokens[at];
            let phrase = self.phrase(&tokens[at..]);
            at += phrase.max(1);
            if phrase > 0 {
                continue;
            }
            let bare = token.strip_suffix(['.', ',', ';']).unwrap_or(token);
            if let Some(value) = Value::parse(self.shape, bare) {
                if found.replace(value).is_some() {
                    return Err("more than one value on the last line that holds one".to_owned());
                }
            } else if !(self.is_harmless(token) || (found.is_some() && token == ".")) {
                return Err(format!("`{token}` beside the value may change it"));
            }
        }
        found.ok_or("the last line that holds a value cannot be read as one".to_owned())
    }

    /// How many of the first tokens are a phrase of the task, as in `primes below 1000`.
    fn phrase(&self, tokens: &[&str]) -> usize {
        let phrases = self.nouns.iter().map(|noun| noun.split(' ').collect::<Vec<_>>());
        let is_here = |phrase: &Vec<&str>| {
            phrase.len() > 1
                && phrase.len() <= tokens.len()
                && phrase.iter().zip(tokens).all(|(word, token)| bare(token) == *word)
        };
        phrases.filter(is_here).map(|phrase| phrase.len()).max().unwrap_or(0)
    }

    /// Hyphens may join harmless words: `third-largest`.
    fn is_harmless(&self, token: &str) -> bool {
        let word = bare(token);
        word.split('-').all(|part| listed(part, &[HARMLESS]) || self.nouns.contains(&part))
    }

    /// Whether a line breaks off in the middle of a sentence.
    fn runs_on(&self, line: &str) -> bool {
        lead_in::ending(line) == Ending::Open && matches!(self.claim(line), Claim::Nothing)
    }

    fn claim(&self, line: &str) -> Claim {
        let line = without_prefix(line);
        match self.side(line) {
            _ if line.contains('=') => Claim::Nothing,
            Ok(value) => Claim::Value(value),
            Err(_) if (is_alone(line) || self.is_guesses(line)) && !is_list(line) => Claim::Unreadable,
            Err(_) => Claim::Nothing,
        }
    }

    /// Whether a line is made of values and doubt only: `518, 520`, `maybe 518 or 520`.
    fn is_guesses(&self, line: &str) -> bool {
        let plain = without_markup(line);
        let is_value =
            |token: &&str| Value::parse(self.shape, token.trim_end_matches(['.', ',', ';'])).is_some();
        let (values, others): (Vec<&str>, Vec<&str>) = plain.split_whitespace().partition(is_value);
        let between = ["and then", DOUBTS, DENIALS, MODIFIERS];
        !values.is_empty() && others.iter().all(|token| listed(&bare(token), &between))
    }

    /// Whether a line above the last of `lines` states another value: directly above as in a list, or anywhere as a line
    /// of its own or as an "answer". Working lines (`2 + 3 = 5`, `- 88`, `It printed 12.`) state nothing, nor does a step
    /// that is introduced as something else while a later line names what the task asks for.
    fn has_rival(&self, lines: &[Line<'_>], value: &Value) -> bool {
        let at = lines.len() - 1;
        let differs = |line: &Line<'_>| match self.claim(line.text) {
            Claim::Nothing => None,
            Claim::Value(other) => Some(other != *value),
            Claim::Unreadable => Some(true),
        };
        let in_a_list = lines[..at].iter().rev().map_while(differs).any(|other| other);
        let last_name = lines.iter().rposition(|line| self.names(line)).unwrap_or(0);
        let stands_out = |here: usize| {
            let text = lines[here].text;
            let is_step = here < last_name && here > 0 && self.is_label(&lines[here - 1]);
            words(text).contains(&"answer".to_owned()) || (is_alone(text) && !is_step)
        };
        in_a_list || (0..at).filter(|here| differs(&lines[*here]) == Some(true)).any(stands_out)
    }

    /// Whether a line introduces a step on the way (`2^100 is`): the next line, but not as what the task asks for.
    fn is_label(&self, line: &Line<'_>) -> bool {
        lead_in::ending(line.text) != Ending::Sentence
            && matches!(self.claim(line.text), Claim::Nothing)
            && !self.names(line)
    }

    /// Whether a line names what the task asks for.
    fn names(&self, line: &Line<'_>) -> bool {
        words(line.text).iter().any(|word| listed(word, &[NAMES]) || self.nouns.contains(&word.as_str()))
    }
}

/// A word in lower case without the punctuation behind it.
fn bare(token: &str) -> String {
    token.trim_end_matches(['.', ',', ';', '!']).to_lowercase()
}

/// Whether a line is one token with a digit in it, and no list item.
fn is_alone(line: &str) -> bool {
    line.contains(is_digit) && without_markup(line).split_whitespace().count() == 1
}

fn is_list(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']') && line.contains(',')
}
