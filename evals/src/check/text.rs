//! Answers as lines and words, without their markup.

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
    "\u{200b}",
    "\u{feff}",
];

/// The lines of an answer that say something: fences of code blocks and lines of pure markup are left out.
pub fn lines(answer: &str) -> Vec<&str> {
    answer.lines().map(str::trim).filter(|line| !line.starts_with("```") && says_something(line)).collect()
}

fn says_something(line: &str) -> bool {
    line.chars().any(|c| c.is_alphanumeric() || !(c.is_ascii_punctuation() || c.is_whitespace()))
}

/// A line without what Markdown puts in front of it: heading and bullet. Not the mark of a quote, which could as well
/// compare.
pub fn without_prefix(line: &str) -> &str {
    let heading = line.trim_start_matches('#');
    let line = if heading.starts_with(' ') { heading.trim_start() } else { line };
    ["- ", "* ", "+ ", "• "].iter().find_map(|bullet| line.strip_prefix(bullet)).unwrap_or(line).trim()
}

/// The text with every piece of markup turned into a space.
///
/// Underscores stay inside a word, where they belong to a name; LaTeX's ways to group digits become the comma that they
/// stand for; a colon behind a word ends the word.
pub fn without_markup(text: &str) -> String {
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
pub fn words(text: &str) -> Vec<String> {
    let joined: String = text.to_lowercase().chars().filter(|c| !matches!(c, '\'' | '’')).collect();
    joined.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(lines("a\n```text\n5\n```\n---\n\n"), ["a", "5"]);
    }
}
