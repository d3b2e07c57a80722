//! The left side of an equation whose right side is the answer.
//!
//! It may be harmless words, then an expression; or one bare name (`x`); or nothing. An expression is made of numbers,
//! calls, operators and brackets, and of more than one number: `518 = 519` states two values, `x + 1 = 519` another one.
//! Between two equals signs (`17*34 = 578 = ...`) only an expression or the value itself may stand.

use super::words::{DENIALS, DOUBTS, MODIFIERS, NUMERALS, listed};

/// Whether `left` may stand before `= value`; `is_value` tells whether a text is just the value.
pub(super) fn fits(left: &str, is_value: impl Fn(&str) -> bool, is_harmless: impl Fn(&str) -> bool) -> bool {
    let mut parts = left.split('=');
    let subject = parts.next().unwrap_or_default();
    let fits = is_value(subject) || lex(subject).is_some_and(|tokens| is_subject(&tokens, is_harmless));
    fits && parts.all(|part| {
        part.trim().is_empty() || is_value(part) || lex(part).is_some_and(|tokens| is_expression(&tokens))
    })
}

fn is_subject(tokens: &[Token<'_>], is_harmless: impl Fn(&str) -> bool) -> bool {
    let harmless = |token: &&Token<'_>| matches!(token, Token::Name(name) if is_harmless(name));
    let known = tokens.iter().take_while(harmless).count();
    match &tokens[known..] {
        [] => true,
        [Token::Name(name)] => {
            // `previous answer` and `my friend` are somebody else's.
            let leads = |token: &Token<'_>| {
                matches!(token, Token::Name("so" | "So" | "thus" | "Thus" | "hence" | "Hence"))
            };
            let name = name.to_lowercase();
            let is_bare = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            is_bare
                && tokens[..known].iter().all(leads)
                && !listed(&name, &[DENIALS, DOUBTS, MODIFIERS, NUMERALS])
        }
        rest => is_expression(rest),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Number,
    Operator,
    Open,
    Close,
    Name(&'a str),
    /// A call or an element, `f(22)`; whether what is in the brackets says anything definite.
    Call(&'a str, bool),
}

/// One operand, or operands with an operator between each two; at least one operator or call.
fn is_expression(tokens: &[Token<'_>]) -> bool {
    let (mut depth, mut operators, mut wants_operand) = (0_usize, 0_usize, true);
    for token in tokens {
        match (token, wants_operand) {
            (Token::Open, true) => depth += 1,
            (Token::Close, false) if depth > 0 => depth -= 1,
            (Token::Number, true) => wants_operand = false,
            (Token::Call(name, definite), true) if *definite || tokens.len() == 1 => {
                if listed(&name.to_lowercase(), &[NUMERALS, MODIFIERS, DOUBTS, DENIALS]) {
                    return false;
                }
                wants_operand = false;
            }
            (Token::Operator, false) => {
                operators += 1;
                wants_operand = true;
            }
            _ => return false,
        }
    }
    !wants_operand && depth == 0 && (operators > 0 || matches!(tokens, [Token::Call(..)]))
}

/// Splits a text into tokens; `None` if it holds anything else.
fn lex(text: &str) -> Option<Vec<Token<'_>>> {
    let mut rest = text.trim_matches(|c: char| c.is_whitespace() || "*_$`:".contains(c));
    let mut tokens = Vec::new();
    while let Some(c) = rest.chars().next() {
        let (token, length) = match c {
            _ if c.is_whitespace() || "$`".contains(c) => (None, c.len_utf8()),
            ':' if matches!(tokens.last(), Some(Token::Name(_))) => {
                (None, rest.len() - rest[1..].trim_start_matches('*').len())
            }
            '0'..='9' | '.' | '…' => (Some(Token::Number), number(rest)?),
            '(' | '{' => (Some(Token::Open), 1),
            '}' if rest.starts_with("}{") => {
                // The bar of a fraction.
                tokens.push(Token::Close);
                (Some(Token::Operator), 1)
            }
            ')' | '}' => (Some(Token::Close), 1),
            'x' | 'X' if is_times(&tokens, rest) => (Some(Token::Operator), 1),
            '*' if rest.starts_with("**") => (Some(Token::Operator), 2),
            '+' | '-' | '*' | '/' | '^' | '×' | '÷' | '·' | '⋅' | '−' | '–' => {
                (Some(Token::Operator), c.len_utf8())
            }
            '\\' => latex(rest)?,
            _ => name(rest)?,
        };
        tokens.extend(token);
        rest = &rest[length..];
    }
    Some(tokens)
}

/// The length of a number, with its grouping and superscripts, or of dots that stand for more of them.
fn number(text: &str) -> Option<usize> {
    let dots = text.len() - text.trim_start_matches(['.', '…']).len();
    if dots > 1 {
        return Some(dots);
    }
    let length =
        text.find(|c: char| !(c.is_ascii_digit() || ".,⁰¹²³⁴⁵⁶⁷⁸⁹".contains(c))).unwrap_or(text.len());
    let figure = text[..length].trim_end_matches(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".contains(c));
    let touches_letter = text[length..].starts_with(|c: char| c.is_alphanumeric() && !matches!(c, 'x' | 'X'));
    (super::decimal::Decimal::parse(figure).is_some() && !touches_letter).then_some(length)
}

/// A letter x between two numbers: `17 x 34`.
fn is_times(tokens: &[Token<'_>], rest: &str) -> bool {
    let after = rest[1..].trim_start();
    matches!(tokens.last(), Some(Token::Number | Token::Close))
        && after.starts_with(|c: char| c.is_ascii_digit() || c == '(')
}

fn latex<'a>(text: &'a str) -> Option<(Option<Token<'a>>, usize)> {
    let operators = ["\\times", "\\cdot", "\\div"];
    let spaces =
        ["\\frac", "\\left", "\\right", "\\,", "\\;", "\\ ", "\\(", "\\)", "\\[", "\\]", "\\$", "\\quad"];
    let find = |list: &[&str]| list.iter().find(|word| text.starts_with(**word)).map(|word| word.len());
    find(&operators)
        .map(|length| (Some(Token::Operator), length))
        .or_else(|| find(&spaces).map(|length| (None, length)))
}

/// A name, or a call: a name or a quoted text with brackets, and what hangs on to those.
fn name(text: &str) -> Option<(Option<Token<'_>>, usize)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let head = match quote {
        Some(quote) => 2 + text[1..].find(quote)?,
        None => word(text),
    };
    let (mut end, mut definite) = (head, false);
    loop {
        let rest = &text[end..];
        if let Some(method) = rest.strip_prefix('.').filter(|rest| rest.starts_with(char::is_alphabetic)) {
            end += 1 + method.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(method.len());
        } else if rest.starts_with(['(', '[']) {
            let inside = bracketed(rest)?;
            definite |= inside.contains(|c: char| c.is_numeric() || matches!(c, '\'' | '"'));
            end += inside.len();
        } else {
            break;
        }
    }
    let name = &text[..head];
    let is_call = text[..end].ends_with([')', ']']);
    match (head, is_call) {
        (0, _) => None,
        (_, true) => Some((Some(Token::Call(name, definite)), end)),
        (_, false) if end == head => Some((Some(Token::Name(name.trim_matches(['\'', '"']))), end)),
        _ => None,
    }
}

/// The length of a word; a hyphen is a part of it between letters only.
fn word(text: &str) -> usize {
    let hyphen = |at: usize| text[at + 1..].starts_with(char::is_alphabetic) && at > 0;
    let inside = |(at, c): &(usize, char)| c.is_alphanumeric() || *c == '_' || (*c == '-' && hyphen(*at));
    text.char_indices().find(|place| !inside(place)).map_or(text.len(), |(at, _)| at)
}

/// The bracket that `text` begins with, up to where it closes.
fn bracketed(text: &str) -> Option<&str> {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[..at + 1]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::fits;

    fn accepted(left: &str) -> bool {
        fits(
            left,
            |text| text.trim() == "519",
            |word| ["the", "answer", "sum", "of", "so"].contains(&&*word.to_lowercase()),
        )
    }

    #[test]
    fn expressions_names_and_calls_fit() {
        for left in [
            "",
            "x",
            "So x",
            "**x",
            "the answer",
            "519",
            "17 · 34 + 256/8 − 91",
            "17 x 34 + 2",
            "(1 + 2) * 3",
            "x = 1 + 2",
            "**Answer:** 1 + 2",
            "The sum of 2 + 3",
            "F(22) - 1",
            "π(1000)",
            "sum(digits)",
            "1 + 2 + ...",
            "2^100",
            "'strawberry raspberry'.count('r')",
            "sorted([42, 7])[-3]",
            "memory['token']",
            "x =",
            "1 + 2 = 3 + 4",
            "$17 \\times 34 + \\frac{256}{8}",
            "count_r",
        ] {
            assert!(accepted(left), "{left}");
        }
    }

    #[test]
    fn what_changes_the_value_does_not() {
        for left in [
            "518",
            "A = 518 and B",
            "a = 518 b",
            "Candidate A = 518 / Candidate B",
            "518 vs x",
            "I say 518. My friend",
            "518 520",
            "(518, 520, 521)",
            "double the answer",
            "half the answer",
            "2x",
            "-x",
            "x + 1",
            "previous answer",
            "x @",
            "x !",
            "x <",
            "x +",
            "518 +",
            "-518",
            "(518)",
            "f(x) + 1",
            "half(9)",
            "x = 518",
            "not",
            "minus",
            "[518, 520]",
            "518,",
            "518, 520",
            "a, b",
            "\"the answer\"",
            "(1 + 2",
            "1 + 2)",
        ] {
            assert!(!accepted(left), "{left}");
        }
    }
}
