//! Reads whether an answer explains a failure: the graded phrase is a division by zero, in any usual wording.
//!
//! The last line with the phrase is the explanation, and as with values only courtesy may follow it. It has to say that
//! something failed or was not done, and must not hedge, deny the failure or the division, or name a result.

use super::decimal::Decimal;
use super::lead_in::{Ending, ending};
use super::text::{
    clauses, is_courtesy, lines, sentences, without_markup, without_prefix, without_reasoning, words,
};
use super::words::listed;

const DIVIDE: &str = "division divisions divide divides divided dividing divisor denominator";
const DIVISORS: &str = "divisor denominator";
/// How many words may stand between the two halves of the phrase, as in `division of 1 by zero`.
const REACH: usize = 6;

const FAILURE: &str = "
    fail fails failed failing failure error errors undefined impossible refused refuses rejected rejects illegal invalid
    unable cannot cant couldnt undefinable meaningless";

const NEGATIONS: &str =
    "not no never isnt wasnt dont doesnt didnt nothing without neither nor none unrelated";

/// What ends the reach of a negation.
const CONJUNCTIONS: &str = "because since as due so and but when if which";

/// What a rule can withhold from a division without denying that there was one: `does not allow division by zero`.
const RULING: &str = "
    allow allows allowed permit permits permitted support supports supported handle handles define defined perform
    performed accept accepts legal valid possible";

const HEDGES: &str = "
    maybe perhaps possibly probably might guess unsure unclear likely presumably seems or either assume suppose if
    unless whether";

const WITHDRAWALS: &str = "
    wrong mistake mistaken actually sorry scratch ignore disregard retract oops joking false untrue infinity infinite inf
    nan succeeded success fine works worked instead";

const YIELDS: &str = "gave gives returned returns yielded yields produced produces printed prints got";

/// Checks that the last line with the phrase says that the division by zero failed. The error is a short reason.
pub fn explains_division_by_zero(answer: &str) -> Result<(), String> {
    let lines = lines(without_reasoning(answer));
    let at = lines
        .iter()
        .rposition(|line| names_division_by_zero(line.text))
        .ok_or("the reason for the failure is not named")?;
    if let Some(line) = lines[at + 1..].iter().find(|line| !is_courtesy(line.text)) {
        return Err(format!("text after the explanation (`{}`)", line.text));
    }
    // A line that breaks off goes on in the next one.
    let start =
        lines[..at].iter().rposition(|line| ending(line.text) != Ending::Open).map_or(0, |last| last + 1);
    let text: Vec<&str> = lines[start..=at].iter().map(|line| without_prefix(line.text)).collect();
    let clauses: Vec<Vec<String>> = sentences(&without_markup(&text.join(" ")))
        .into_iter()
        .filter(|sentence| !is_courtesy(sentence))
        .flat_map(|sentence| clauses(sentence))
        .map(tokens)
        .collect();
    if let Some(word) = clauses.iter().find_map(|clause| hedge(clause)) {
        return Err(format!("hedged or taken back (`{word}`)"));
    }
    if let Some(word) = clauses.iter().find_map(|clause| denial(clause).or_else(|| result(clause))) {
        return Err(format!("the failure is denied (`{word}`)"));
    }
    let fails = clauses.iter().flatten().any(|word| listed(word, &[FAILURE, NEGATIONS]));
    fails.then_some(()).ok_or("the line does not say that it failed".to_owned())
}

/// Whether text carries the phrase at all.
pub fn names_division_by_zero(text: &str) -> bool {
    let words = tokens(&without_markup(text));
    let is_zero = |word: &String| word == "zero" || is_number(word, "0");
    words.iter().enumerate().filter(|(_, word)| listed(word, &[DIVIDE])).any(|(at, word)| {
        let ahead = words[at + 1..].iter().take(REACH).any(is_zero);
        // `zero divisor` and `a zero in the denominator` are the other order of the noun.
        let behind = listed(word, &[DIVISORS]) && words[..at].iter().rev().take(REACH).any(is_zero);
        ahead || behind
    })
}

/// Words in lower case; a decimal number is one of them.
fn tokens(text: &str) -> Vec<String> {
    let is_number = |token: &str| token.contains('.') && Decimal::parse(token).is_some();
    text.split_whitespace()
        .map(|token| token.trim_end_matches(['.', ',', ';', ':', '!']))
        .flat_map(|token| if is_number(token) { vec![token.to_owned()] } else { words(token) })
        .collect()
}

fn is_number(word: &str, number: &str) -> bool {
    Decimal::parse(word).is_some_and(|value| Some(value) == Decimal::parse(number))
}

/// The first word that hedges or withdraws. `could not` states a fact, `could be` does not; `if the divisor is zero`
/// states a rule.
fn hedge(words: &[String]) -> Option<&str> {
    let is_rule = |at: usize| {
        words[at] == "if"
            && words[at + 1..].iter().take(3).any(|word| listed(word, &[DIVISORS, "divide divided dividing"]))
    };
    let could_be = words.windows(2).any(|pair| pair[0] == "could" && pair[1] != "not").then_some("could");
    let listed = |(at, word): &(usize, &String)| listed(word, &[HEDGES, WITHDRAWALS]) && !is_rule(*at);
    could_be.or_else(|| words.iter().enumerate().find(listed).map(|(_, word)| word.as_str()))
}

/// The first negation of the failure (`did not return an error`) or of the division (`no division by zero`). What else is
/// negated is the result: `could not be completed`, `has no meaning`.
fn denial(words: &[String]) -> Option<&str> {
    let denies = |at: usize| {
        // `not due to` is about what follows.
        let joins = |(place, word): &(usize, &String)| *place > 0 && listed(word, &[CONJUNCTIONS]);
        let reach = words[at + 1..].iter().take(REACH).enumerate().take_while(|next| !joins(next));
        let reach: Vec<&String> = reach.map(|(_, word)| word).collect();
        let failure = reach.iter().any(|word| listed(word, &[FAILURE]));
        let division = reach.iter().position(|word| word.starts_with("division"));
        failure || division.is_some_and(|place| !reach[..place].iter().any(|word| listed(word, &[RULING])))
    };
    let negation = |at: &usize| listed(&words[*at], &[NEGATIONS]);
    let impossible = words
        .windows(3)
        .any(|three| listed(&three[0], &["failure error"]) && three[1] == "is" && three[2] == "impossible");
    let denied = (0..words.len()).filter(negation).find(|at| denies(*at)).map(|at| words[at].as_str());
    denied.or(impossible.then_some("impossible"))
}

/// A number that came out after all. `no number gives 1 when multiplied by 0` names none.
fn result(words: &[String]) -> Option<&str> {
    let yields = |at: &usize| listed(&words[*at], &[YIELDS]) && Decimal::parse(&words[at + 1]).is_some();
    let at = (0..words.len().saturating_sub(1)).find(yields)?;
    let negated = words[..at].iter().any(|word| listed(word, &[NEGATIONS]));
    (!negated).then_some(words[at + 1].as_str())
}
