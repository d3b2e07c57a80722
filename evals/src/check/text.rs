//! Answers as lines and words, without their markup.

use super::words::{COURTESY, KINDNESS, listed};

/// Markup around a value. Each becomes a space, never nothing, so that stripping cannot join what was apart: `5*19`
/// becomes two values and is refused as such.
const MARKUP: &[&str] = &[
    "\\boxed{",
    "\\text{",
    "\\textbf{",
    "\\mathbf{",
    "\\mathrm{",
    "\\(",
    "\\)",
    "\\[",
    "\\]",
    "\\$",
    "US$",
    "**",
    "*",
    "_",
    "`",
    "\"",
    "'",
    "“",
    "”",
    "‘",
    "’",
    "«",
    "»",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "$",
    "€",
    "£",
    "¥",
    "✅",
    "✔",
    "✓",
    "\u{fe0f}",
    "\u{200b}",
    "\u{feff}",
];

/// What may follow the opening fence of a code block and still be markup.
const LANGUAGES: &str = "text txt plain plaintext python py json output console markdown md math latex";

/// A line that says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The text, trimmed.
    pub(super) text: &'a str,
    /// The code block it is in, counted from 1; 0 outside of all.
    pub(super) block: usize,
}

/// The answer without the block of reasoning that some models put in front of it. Reasoning that never ends leaves
/// nothing.
pub(super) fn without_reasoning(answer: &str) -> &str {
    let text = answer.trim_start();
    match text.strip_prefix("<think>") {
        Some(inner) => inner.split_once("</think>").map_or("", |(_, rest)| rest),
        None => text,
    }
}

/// The lines of an answer that say something: fences of code blocks and lines of pure markup are left out.
pub(super) fn lines(answer: &str) -> Vec<Line<'_>> {
    let (mut lines, mut blocks, mut inside) = (Vec::new(), 0, false);
    for text in answer.lines().map(str::trim) {
        match fence(text) {
            Some("") if inside => inside = false,
            Some(info) if !inside && (info.is_empty() || listed(&info.to_lowercase(), &[LANGUAGES])) => {
                (inside, blocks) = (true, blocks + 1);
            }
            _ if is_markup(text) => {}
            _ => lines.push(Line { text, block: if inside { blocks } else { 0 } }),
        }
    }
    lines
}

/// What follows the fence of a code block.
fn fence(line: &str) -> Option<&str> {
    let mark = ["```", "~~~"].iter().find(|mark| line.starts_with(**mark))?;
    let info = line.trim_start_matches(&mark[..1]).trim();
    (!info.contains('`')).then_some(info)
}

/// An empty line, a rule, or a border of LaTeX.
fn is_markup(line: &str) -> bool {
    let line: String =
        line.chars().filter(|c| !c.is_whitespace() && !"\u{200b}\u{feff}\u{fe0f}".contains(*c)).collect();
    let is_rule = |mark: char| line.len() >= 3 && line.chars().all(|c| c == mark);
    line.is_empty()
        || ['-', '*', '_', '='].into_iter().any(is_rule)
        || ["$$", "\\[", "\\]", "\\(", "\\)", "✅", "✔", "✓"].contains(&line.as_str())
}

/// Whether a line only says something polite, which can follow any answer.
pub(super) fn is_courtesy(line: &str) -> bool {
    let words = words(
        &words(line).join(" ").replace("dont hesitate", "feel free").replace("do not hesitate", "feel free"),
    );
    let plain =
        line.chars().all(|c| c.is_alphanumeric() || c.is_whitespace() || "'’.,!?*_-–—😊🙂".contains(c));
    plain
        && words.iter().all(|word| listed(word, &[COURTESY]))
        && words.iter().any(|word| listed(word, &[KINDNESS]))
}

/// A line without what Markdown puts in front of it: heading and bullet. Not the mark of a quote, which could as well
/// compare.
pub(super) fn without_prefix(line: &str) -> &str {
    let heading = line.trim_start_matches('#');
    let line = if heading.starts_with(' ') { heading.trim_start() } else { line };
    ["- ", "* ", "+ ", "• "].iter().find_map(|bullet| line.strip_prefix(bullet)).unwrap_or(line).trim()
}

/// Whether a line is a piece of its own by its layout: a heading, an item of a list, a row of a table, a quote.
pub(super) fn is_piece(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") "));
    let bold =
        ["**", "__"].iter().any(|mark| line.starts_with(mark) && line.ends_with(mark) && line.len() > 4);
    numbered || bold || without_prefix(line) != line || line.starts_with(['|', '>'])
}

/// The text with every piece of markup turned into a space.
///
/// Underscores stay inside a word, where they belong to a name; LaTeX's ways to group digits become the comma that they
/// stand for; a colon behind a word ends the word.
pub(super) fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let before = out.chars().next_back();
        let (piece, put): (&str, &str) =
            if let Some(piece) = ["{,}", "\\,"].iter().find(|p| rest.starts_with(**p)) {
                (piece, ",")
            } else if is_inner_underscore(before, rest) {
                ("_", "_")
            } else if let Some(piece) = MARKUP.iter().find(|p| rest.starts_with(**p)) {
                (piece, " ")
            } else if c == ':' && !before.is_some_and(|b| b.is_numeric()) {
                (":", " ")
            } else {
                (&rest[..c.len_utf8()], &rest[..c.len_utf8()])
            };
        out.push_str(put);
        rest = &rest[piece.len()..];
    }
    out
}

fn is_inner_underscore(before: Option<char>, rest: &str) -> bool {
    let mut ahead = rest.chars();
    ahead.next() == Some('_')
        && before.is_some_and(char::is_alphanumeric)
        && ahead.next().is_some_and(char::is_alphanumeric)
}

/// The words of a text in lower case, apostrophes dropped: `Isn't` is `isnt`.
pub(super) fn words(text: &str) -> Vec<String> {
    let joined: String = text.to_lowercase().chars().filter(|c| !matches!(c, '\'' | '’')).collect();
    joined.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The sentences of a line, without their ends. The point in `0.85` ends none.
pub(super) fn sentences(line: &str) -> Vec<&str> {
    pieces(line, |c| ".!?…".contains(c))
}

/// The clauses of a sentence.
pub(super) fn clauses(sentence: &str) -> Vec<&str> {
    sentence.split(['(', ')']).flat_map(|part| pieces(part, |c| ",;:—–".contains(c))).collect()
}

/// Cuts behind each mark that a space or the end follows.
fn pieces(text: &str, is_mark: impl Fn(char) -> bool) -> Vec<&str> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    for (at, c) in text.char_indices().filter(|(_, c)| is_mark(*c)) {
        let after = at + c.len_utf8();
        if text[after..].chars().next().is_none_or(|next| !next.is_alphanumeric()) {
            pieces.push(&text[from..at]);
            from = after;
        }
    }
    pieces.push(&text[from..]);
    pieces.into_iter().map(str::trim).filter(|piece| piece.contains(char::is_alphanumeric)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(answer: &str) -> Vec<(&str, usize)> {
        lines(answer).iter().map(|line| (line.text, line.block)).collect()
    }

    #[test]
    fn markup_never_joins() {
        assert_eq!(without_markup("5*19").split_whitespace().collect::<Vec<_>>(), ["5", "19"]);
        assert_eq!(without_markup("\\boxed{5}19").split_whitespace().collect::<Vec<_>>(), ["5", "19"]);
        assert_eq!(without_markup("17{,}710 a_b _c_").trim(), "17,710 a_b  c");
    }

    #[test]
    fn prefixes_are_only_taken_from_the_start() {
        assert_eq!(without_prefix("## - 5"), "5");
        assert_eq!(without_prefix("-5"), "-5");
        assert_eq!(without_prefix("#5"), "#5");
    }

    #[test]
    fn fences_and_rules_say_nothing() {
        assert_eq!(texts("a\n```text\n5\n```\n---\n\n$$\nb"), [("a", 0), ("5", 1), ("b", 0)]);
        assert_eq!(texts("```\n5\n```no\n```"), [("5", 1), ("```no", 1)]);
        assert_eq!(texts("```wrong"), [("```wrong", 0)]);
        for line in ["-", "%", "?", "*", "!", "...", "~"] {
            assert_eq!(texts(line), [(line, 0)]);
        }
    }

    #[test]
    fn reasoning_in_front_is_no_part_of_the_answer() {
        assert_eq!(without_reasoning("\n<think>\n1\n</think>\n2"), "\n2");
        assert_eq!(without_reasoning("<think>1\n2"), "");
        assert_eq!(without_reasoning("1 <think>2</think>"), "1 <think>2</think>");
    }

    #[test]
    fn sentences_and_clauses_end_where_they_end() {
        assert_eq!(sentences("It is 0.85. So what? Yes."), ["It is 0.85", "So what", "Yes"]);
        assert_eq!(clauses("it failed (why, oh why): 1,000"), ["it failed", "why", "oh why", "1,000"]);
    }
}
