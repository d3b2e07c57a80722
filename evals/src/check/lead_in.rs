//! The line before a value: whether it ends, and whether its last words turn on the value.

use super::text::{clauses, is_piece, sentences, words};
use super::words::{DENIALS, DOUBTS, MODIFIERS, NUMERALS, POINTING, listed};

/// How a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// With the end of a sentence.
    Sentence,
    /// As something complete: with a colon, a question mark, dots, a bracket or a figure, or as a piece of its own.
    Complete,
    /// In the middle: the next line goes on.
    Open,
}

/// How `line` ends.
pub(super) fn ending(line: &str) -> Ending {
    let end = line.trim_end_matches(['*', '_', '`', '"', '”', '\'', '’', ' ', ')']);
    let last_token = line.rsplit(char::is_whitespace).next().unwrap_or(line);
    if end.ends_with("..") || end.ends_with(['…', ':', '?']) {
        Ending::Complete
    } else if end.ends_with(['.', '!']) {
        Ending::Sentence
    } else if is_piece(line) || line.ends_with([')', ']', '}']) || last_token.contains(char::is_numeric) {
        Ending::Complete
    } else {
        Ending::Open
    }
}

/// The word or sign with which a line that ends spoils a value on the next line.
///
/// A full sentence only does if it points at the next line. What else ends spoils it with a doubt, denial or modifier that
/// nothing but pointing words follow (`one of`, `may be`), or with an operator at its end; behind a colon also by a doubt
/// in the last sentence and by a denial in the last clause.
pub(super) fn spoils(line: &str) -> Option<String> {
    if ending(line) == Ending::Sentence {
        return points_down(&words(line)).then(|| first(&words(line), &[DOUBTS, DENIALS])).flatten();
    }
    let end = line.trim_end_matches(|c: char| c.is_whitespace() || "*_`:\"')]}".contains(c));
    if let Some(sign) = end.chars().next_back().filter(|c| "+-−/^=<>~≈≤≥≠±×÷·√&@%".contains(*c))
    {
        return Some(sign.to_string());
    }
    let sentence = sentences(line).pop().unwrap_or_default();
    let clause = last_clause(sentence);
    let introduces = line.trim_end_matches(['*', '_', '`', ' ']).ends_with(':');
    let open = introduces.then(|| {
        let sentence = words(sentence);
        first(&sentence, &[DOUBTS]).or_else(|| first(&clause, &[DENIALS])).or_else(|| unsure(&sentence))
    });
    open.flatten().or_else(|| turn(&clause))
}

/// The words of the last clause, without the conjunction that it begins with.
fn last_clause(sentence: &str) -> Vec<String> {
    let mut clause = words(clauses(sentence).pop().unwrap_or_default());
    if clause.len() > 1 && matches!(clause[0].as_str(), "but" | "however" | "though" | "although" | "instead")
    {
        clause.remove(0);
    }
    clause
}

fn first(words: &[String], lists: &[&str]) -> Option<String> {
    words.iter().find(|word| listed(word, lists)).cloned()
}

/// The last word that turns on what follows, if only pointing words come after it.
fn turn(clause: &[String]) -> Option<String> {
    let lists = [DOUBTS, DENIALS, MODIFIERS, NUMERALS];
    let at = clause.iter().rposition(|word| !listed(word, &[POINTING]) || listed(word, &[MODIFIERS]))?;
    Some(&clause[at]).filter(|word| listed(word, &lists)).cloned()
}

/// `not sure`, `do not know`.
fn unsure(words: &[String]) -> Option<String> {
    let not = |word: &String| word == "not" || word == "cannot" || word == "never" || word.ends_with("nt");
    let pairs = words.iter().enumerate().filter(|(_, word)| not(word));
    let near = pairs.flat_map(|(at, _)| words[at + 1..].iter().take(3));
    near.into_iter()
        .find(|word| listed(word, &["sure certain confident know verify verified trust"]))
        .cloned()
}

/// Whether words speak about the line below. `primes below 1000` do not.
fn points_down(words: &[String]) -> bool {
    words.iter().enumerate().any(|(at, word)| {
        let next = words.get(at + 1).map_or("", String::as_str);
        match word.as_str() {
            "following" | "underneath" | "follows" => true,
            "below" => !next.starts_with(char::is_numeric) && !listed(next, &[NUMERALS]),
            "next" | "last" => next == "line",
            _ => false,
        }
    })
}
