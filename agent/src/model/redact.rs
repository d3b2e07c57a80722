//! Takes the key out of what a server says.

use super::wire::beginning_at_the_end;

/// Backslashes before one character. Text quoted four times over has 15; more are no longer followed, since a flood of
/// them would be read anew from each.
const MAX_BACKSLASHES: usize = 15;

/// The text with `[key]` for the key, wherever it stands: as it is or with JSON escapes, once or many times over.
///
/// To be used before a text is cut, since a part of a key is still a secret and is no longer found.
pub(super) fn redact(text: &str, key: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(length) = occurrence(rest, key) {
            redacted.push_str("[key]");
            rest = &rest[length..];
        } else {
            redacted.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    redacted
}

/// Takes the key out of text that comes in pieces. The end of a piece is held back while it may be the beginning of the
/// key as it is; spelled otherwise across two pieces it is not found.
pub(super) struct Redactor<'k> {
    key: &'k str,
    held: String,
}

impl<'k> Redactor<'k> {
    pub(super) fn new(key: &'k str) -> Self {
        Redactor { key, held: String::new() }
    }

    /// What can be shown now.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let text = redact(&self.held, self.key);
        let end = text.len() - beginning_at_the_end(&text, self.key);
        text[end..].clone_into(&mut self.held);
        text[..end].to_owned()
    }

    /// What was held back, at the end of the text.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// How many bytes the key takes up at the beginning of the text, if it stands there.
fn occurrence(text: &str, key: &str) -> Option<usize> {
    if !key.is_empty() && text.starts_with(key) {
        return Some(key.len());
    }
    let mut rest = text;
    let mut characters = key.chars().peekable();
    while let Some(wanted) = characters.next() {
        rest = match wanted {
            // However many there are in a row: each may be escaped, or escape the next.
            '\\' => {
                while characters.next_if_eq(&'\\').is_some() {}
                Some(after_backslashes(rest)).filter(|after| after.len() < rest.len())?
            }
            _ => after_character(rest, wanted)?,
        };
    }
    Some(text.len() - rest.len()).filter(|length| *length > 0)
}

/// What follows the character: as `\uXXXX`, behind backslashes, or literal.
fn after_character(text: &str, wanted: char) -> Option<&str> {
    let bare = after_backslashes(text);
    let code = bare.strip_prefix('u').filter(|_| bare.len() < text.len()).and_then(|digits| digits.get(..4));
    if code.is_some_and(|digits| u32::from_str_radix(digits, 16) == Ok(u32::from(wanted))) {
        return Some(&bare[5..]);
    }
    bare.strip_prefix(wanted)
}

fn after_backslashes(text: &str) -> &str {
    let count = text.bytes().take(MAX_BACKSLASHES).take_while(|byte| *byte == b'\\').count();
    &text[count..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_spelling_of_the_key_is_found() {
        for (key, text) in [
            ("sk-abc", "sk-abc"),
            ("sk/abc", r"sk\/abc"),
            ("sk/abc", r"sk\\\/abc"),
            ("sk-abc", r"sk\u002dabc"),
            ("sk-abc", r"\u0073k-ab\u0063"),
            ("sk-abc", r"\\u0073k-ab\\u0063"),
            ("sk\"abc", "sk\\\"abc"),
            (r"sk\abc", r"sk\\abc"),
            (r"sk\\abc", r"sk\\abc"),
            (r"sk\\abc", r"sk\\\\abc"),
            ("usual", r"\u0075sual"),
        ] {
            assert_eq!(redact(&format!("a {text} b"), key), "a [key] b", "{key} as {text}");
        }
    }

    #[test]
    fn what_is_not_the_key_stays() {
        for text in ["", "sk-ab", r"sk-ab\u0064", r"\u", r"\u00", "🦀 sk-abd", r"\\\\", "\\u00é0"] {
            assert_eq!(redact(text, "sk-abc"), text);
        }
        assert_eq!(redact(r"a\b", ""), r"a\b");
    }

    proptest! {
        #[test]
        fn the_key_is_found_across_pieces(pieces in prop::collection::vec("[kéy]{0,4}", 0..12), key in "[ky]{2,5}") {
            let mut redactor = Redactor::new(&key);
            let mut shown: String = pieces.iter().map(|piece| redactor.push(piece)).collect();
            shown += &redactor.finish();
            prop_assert_eq!(shown, redact(&pieces.concat(), &key));
        }

        #[test]
        fn no_json_text_brings_the_key_back(key in "[!-~]{8,40}", before in "\\PC{0,9}", after in "\\PC{0,9}") {
            let text = format!("{before}{key}{after}");
            let once = serde_json::to_string(&text).expect("JSON");
            let twice = serde_json::to_string(&once).expect("JSON");
            for spelling in [text, once.clone(), twice, once.replace('/', "\\/")] {
                let redacted = redact(&spelling, &key);
                prop_assert!(redacted.contains("[key]"), "{}", redacted);
                prop_assert!(!redacted.contains(&key), "{}", redacted);
            }
        }
    }
}
