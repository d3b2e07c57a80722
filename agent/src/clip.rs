//! Bounds a text by its head and its tail.

use std::borrow::Cow;

/// The text as it is up to `max` bytes; a longer one becomes its first and last `max / 2` bytes, cut on character
/// borders, around a note with the sizes. The note comes on top of `max`.
pub(crate) fn clip(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let head = &text[..text.floor_char_boundary_at(max / 2)];
    let tail = &text[text.ceil_char_boundary_at(text.len() - max / 2)..];
    let left_out = text.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}\n[... {left_out} of {} bytes left out here ...]\n{tail}", text.len()))
}

/// The first `max` characters of a text on one line, for quoting in a message: control characters are escaped.
pub(crate) fn excerpt(text: &str, max: usize) -> String {
    let mut quoted = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == max {
            quoted.push_str("...");
            break;
        }
        match c {
            c if c.is_control() => quoted.extend(c.escape_default()),
            c => quoted.push(c),
        }
    }
    quoted
}

/// The first `max` characters of a text, as they are.
#[cfg(feature = "openai")]
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// `str::floor_char_boundary` is newer than the minimum compiler version.
trait CharBoundary {
    fn floor_char_boundary_at(&self, index: usize) -> usize;
    fn ceil_char_boundary_at(&self, index: usize) -> usize;
}

impl CharBoundary for str {
    fn floor_char_boundary_at(&self, index: usize) -> usize {
        (0..=index).rev().find(|i| self.is_char_boundary(*i)).unwrap_or(0)
    }

    fn ceil_char_boundary_at(&self, index: usize) -> usize {
        (index..=self.len()).find(|i| self.is_char_boundary(*i)).unwrap_or(self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_left_alone() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("", 0), "");
    }

    #[test]
    fn a_long_text_keeps_head_and_tail_and_says_what_is_missing() {
        assert_eq!(clip("abcdefghij", 4), "ab\n[... 6 of 10 bytes left out here ...]\nij");
        assert_eq!(clip("abc", 0), "\n[... 3 of 3 bytes left out here ...]\n");
    }

    #[test]
    fn characters_are_never_split() {
        // Four bytes each: a cut at 3 bytes from either end falls inside a character.
        assert_eq!(clip("🦀🦀🦀", 6), "\n[... 12 of 12 bytes left out here ...]\n");
        assert_eq!(clip("aé🦀é", 5), "a\n[... 6 of 9 bytes left out here ...]\né");
    }

    #[test]
    fn an_excerpt_stays_on_one_line() {
        assert_eq!(excerpt("a\nb\u{1b}[31m", 20), "a\\nb\\u{1b}[31m");
        assert_eq!(excerpt("äöü", 2), "äö...");
        assert_eq!(excerpt("äö", 2), "äö");
    }

    #[cfg(feature = "openai")]
    #[test]
    fn a_cut_changes_nothing_before_it() {
        assert_eq!(cut("a\u{1b}\\b", 3), "a\u{1b}\\...");
        assert_eq!(cut("äö", 2), "äö");
    }
}
