//! Reads whether an answer explains a failure: the graded phrase is a division by zero, in any usual wording.

use super::text::{lines, without_markup, words};
use super::words::listed;

const DIVIDE: &[&str] = &["division", "divide", "divides", "divided", "dividing", "divisor", "denominator"];
const ZERO: &[&str] = &["zero", "0"];
/// How many words may stand between the two halves of the phrase, as in `division of 1 by zero`.
const REACH: usize = 5;

const FAILURE: &[&str] = &[
    "fail",
    "fails",
    "failed",
    "failing",
    "failure",
    "error",
    "errors",
    "undefined",
    "impossible",
    "refused",
    "refuses",
    "rejected",
    "rejects",
    "illegal",
    "invalid",
    "unable",
    "cannot",
    "cant",
    "couldnt",
    "undefinable",
];

const NEGATIONS: &[&str] = &[
    "not",
    "no",
    "never",
    "isnt",
    "wasnt",
    "dont",
    "doesnt",
    "didnt",
    "nothing",
    "without",
    "neither",
    "nor",
    "none",
    "unrelated",
];

/// What a negation may be about in a true explanation: that no value comes out, never that there was no such division.
const NEGATABLE: &[&str] = &[
    "defined",
    "allowed",
    "possible",
    "permitted",
    "supported",
    "valid",
    "evaluate",
    "compute",
    "computed",
    "calculate",
    "answer",
    "give",
    "return",
    "returned",
    "produce",
    "handle",
    "perform",
    "complete",
    "have",
    "result",
    "value",
    "number",
    "finite",
    "meaningful",
    "mathematically",
    "divide",
    "evaluated",
];

const HEDGES: &[&str] = &[
    "maybe",
    "perhaps",
    "possibly",
    "probably",
    "might",
    "guess",
    "unsure",
    "unclear",
    "likely",
    "presumably",
    "seems",
    "or",
    "either",
    "assume",
    "suppose",
    "if",
];

const WITHDRAWALS: &[&str] = &[
    "wrong",
    "mistake",
    "mistaken",
    "actually",
    "sorry",
    "scratch",
    "ignore",
    "disregard",
    "retract",
    "oops",
    "joking",
    "false",
    "untrue",
    "infinity",
    "infinite",
    "inf",
    "nan",
    "succeeded",
    "success",
    "fine",
    "works",
    "worked",
    "instead",
];

/// Checks that the last line with the phrase says that the division by zero failed. The error is a short reason.
pub fn explains_division_by_zero(answer: &str) -> Result<(), String> {
    let lines: Vec<Vec<String>> = lines(answer).iter().map(|line| words(&without_markup(line))).collect();
    let at =
        lines.iter().rposition(|line| names_it(line)).ok_or("the reason for the failure is not named")?;
    if let Some(word) = lines[at..].iter().find_map(|line| hedge(line)) {
        return Err(format!("hedged or taken back (`{word}`)"));
    }
    if let Some(word) = lines[at..].iter().find_map(|line| denial(line)) {
        return Err(format!("denied (`{word}`)"));
    }
    let fails = lines[at].iter().any(|word| listed(word, &[FAILURE]))
        || lines[at].iter().any(|word| listed(word, &[NEGATIONS]));
    fails.then_some(()).ok_or("the line does not say that it failed".to_owned())
}

/// Whether text carries the phrase at all, for a tool's own error message.
pub fn names_division_by_zero(text: &str) -> bool {
    names_it(&words(text))
}

fn names_it(words: &[String]) -> bool {
    words.iter().enumerate().filter(|(_, word)| listed(word, &[DIVIDE])).any(|(at, word)| {
        let ahead = words[at + 1..].iter().take(REACH).any(|word| listed(word, &[ZERO]));
        // "zero divisor" and "the denominator is zero" are the two orders of the noun.
        ahead
            || (matches!(word.as_str(), "divisor" | "denominator")
                && at > 0
                && listed(&words[at - 1], &[ZERO]))
    })
}

/// The first word that hedges or withdraws. `could not` states a fact, `could be` does not.
fn hedge(words: &[String]) -> Option<&str> {
    let could_be = words.windows(2).any(|pair| pair[0] == "could" && pair[1] != "not").then_some("could");
    could_be.or(words.iter().find(|word| listed(word, &[HEDGES, WITHDRAWALS])).map(String::as_str))
}

/// The first negation that is about something else than a missing value.
fn denial(words: &[String]) -> Option<&str> {
    words.iter().enumerate().filter(|(_, word)| listed(word, &[NEGATIONS])).find_map(|(at, word)| {
        let allowed = words[at + 1..].iter().take(2).any(|word| listed(word, &[NEGATABLE]));
        (!allowed).then_some(word.as_str())
    })
}
