//! Makes text that somebody else chose safe for a terminal.

/// The text on one line and at most `width` columns wide, in characters that are one column wide each and do nothing.
///
/// Control characters, line breaks, escape sequences, direction overrides, invisible and wide characters become
/// `\n`-style or `\u{...}` escapes; a backslash is doubled, so that an escape cannot be faked.
pub fn one_line(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in text.trim_end().chars() {
        let piece = if is_plain(c) { c.to_string() } else { c.escape_default().to_string() };
        used += piece.chars().count();
        if used > width {
            return shorten(&out, width);
        }
        out.push_str(&piece);
    }
    out
}

/// Printable ASCII and the Latin letters of Latin-1 and Latin Extended-A: all of them one column wide.
fn is_plain(c: char) -> bool {
    c != '\\'
        && (c == ' ' || c.is_ascii_graphic() || (matches!(c, '\u{c0}'..='\u{17f}') && c.is_alphabetic()))
}

fn shorten(text: &str, width: usize) -> String {
    let kept: String = text.chars().take(width.saturating_sub(3)).collect();
    format!("{kept}...")
}

#[cfg(test)]
mod tests {
    use super::one_line;
    use proptest::prelude::*;

    #[test]
    fn hostile_text_is_spelt_out() {
        assert_eq!(one_line("a\nb\x1b[31m\u{202e}c\r\t", 80), "a\\nb\\u{1b}[31m\\u{202e}c");
        assert_eq!(one_line("\\n größer 漢", 80), "\\\\n größer \\u{6f22}");
        assert_eq!(one_line(&"x".repeat(100), 10), "xxxxxxx...");
        assert_eq!(one_line("exactly 10", 10), "exactly 10");
    }

    proptest! {
        #[test]
        fn always_one_line_and_never_too_wide(text in any::<String>(), width in 3_usize..100) {
            let line = one_line(&text, width);
            prop_assert!(line.chars().count() <= width);
            let harmless = |c: char| c.is_ascii_graphic() || c == ' ' || ('\u{c0}'..='\u{17f}').contains(&c);
            prop_assert!(line.chars().all(harmless));
        }
    }
}
