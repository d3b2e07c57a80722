//! Makes text that somebody else chose safe to show: nothing in it acts on a terminal or hides there.

use std::fmt::Write as _;
use std::io::{self, Write as _};

/// The text with each character that does not show as itself spelt out, like `\u{1b}`: control characters, escape
/// sequences, overrides of direction, invisible characters. Line breaks and tabs stay, and so do the joiners that scripts
/// and emoji are written with.
pub(crate) fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\n' | '\t' | '\u{200c}' | '\u{200d}' => out.push(c),
            // Half of a line break.
            '\r' if characters.peek() == Some(&'\n') => {}
            c => spell(c, &mut out),
        }
    }
    out
}

/// The first `max` characters of a text, on one line and with each character spelt out that does not show as itself.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut out = String::new();
    for (n, c) in text.trim_end_matches(['\r', '\n', ' ']).chars().enumerate() {
        if n == max {
            let left = text.len() - out_of(text, n);
            let _ = write!(out, "... [{left} bytes more]");
            break;
        }
        spell(c, &mut out);
    }
    out
}

/// The same JSON text, with characters that do not show as themselves as `\u` escapes. All of them stand inside of
/// strings: `text` has no white space between its parts.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if shows(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

/// Prints a text that is safe to show, and an end of line.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

fn spell(c: char, out: &mut String) {
    if shows(c) { out.push(c) } else { out.extend(c.escape_default()) }
}

/// By the tables of the standard library, and those of Unicode's characters without a look of their own
/// (`Default_Ignorable_Code_Point`, and the empty pattern of Braille) that count as letters or signs there; the selectors
/// that emoji are written with stay. Behind a letter, so that accents and vowel signs, which need one, count as shown.
fn shows(c: char) -> bool {
    match c {
        ' '..='~' => true,
        c if c.is_ascii() => false,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => false,
        '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}' => false,
        c => String::from_iter(['a', c]).escape_debug().count() == 2,
    }
}

/// Bytes of the first `n` characters.
fn out_of(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_acts_or_hides_is_spelt_out() {
        let hostile = "a\u{1b}[2J\u{9b}1m\u{202e}b\u{200b}c\r\u{7}\u{feff}\u{e0041}\u{2028}\u{85}";
        let spelt = "a\\u{1b}[2J\\u{9b}1m\\u{202e}b\\u{200b}c\\r\\u{7}\\u{feff}\\u{e0041}\\u{2028}\\u{85}";
        assert_eq!(prose(hostile), spelt);
        assert_eq!(one_line(hostile, 100), spelt);
        // Letters and signs that nobody sees.
        let empty = "\u{34f}\u{1160}\u{17b4}\u{180b}\u{2800}\u{3164}\u{fe00}\u{ffa0}\u{e0100}\u{e01ef}";
        assert!(prose(empty).is_ascii() && json(empty).is_ascii(), "{}", prose(empty));
    }

    #[test]
    fn what_people_write_stays() {
        let text = "größer\t漢字\n\"q\" 'a' C:\\x हिन्दी e\u{301} 👩\u{200d}💻 ☃\u{fe0f}";
        assert_eq!(prose(text), text);
        assert_eq!(prose("a\r\nb"), "a\nb");
        assert_eq!(one_line("a\nb\tc", 9), "a\\nb\\tc");
    }

    #[test]
    fn a_long_line_says_what_is_missing() {
        assert_eq!(one_line("äöü", 2), "äö... [2 bytes more]");
        assert_eq!(one_line("äö\n\n", 2), "äö");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"a\u{9b}": "\u{1b}[0m\u{202e}\u{7f}\u{e0041}", "b": [1, "ü"]});
        let text = json(&value.to_string());
        assert!(text.contains("\\u009b") && text.contains("\\udb40\\udc41") && text.contains('ü'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }

    proptest! {
        #[test]
        fn nothing_that_acts_comes_through(text in any::<String>(), max in 0_usize..50) {
            let acts = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c);
            prop_assert!(!one_line(&text, max).chars().any(acts));
            prop_assert!(!prose(&text).replace(['\n', '\t'], "").chars().any(acts));
            let json = json(&serde_json::Value::from(text.clone()).to_string());
            prop_assert!(!json.chars().any(acts));
            prop_assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
        }
    }
}
