//! Texts that come as one JSON string or as several.
//!
//! A character beyond U+FFFF may be written as two escapes, and servers that count in such halves send the first at the
//! end of one string and the second at the beginning of the next.

use super::node::Node;
use crate::listed::Listed;

/// Decodes a text for people as it comes.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The escape of a first half at the end of the last piece.
    half: String,
}

impl Decoder {
    /// What the piece adds to the text. What is no text adds a note.
    pub(super) fn push(&mut self, piece: &Node<'_>, notes: &mut Listed) -> String {
        let Some(inner) = inside(piece.raw()) else {
            notes.push(|| format!("content that is no text was skipped ({})", piece.type_name()));
            return String::new();
        };
        let mut literal = std::mem::take(&mut self.half) + inner;
        self.half = literal.split_off(literal.len() - first_half_at_the_end(&literal));
        decode(&literal, notes)
    }

    /// What is left at the end of the text.
    pub(super) fn finish(&mut self, notes: &mut Listed) -> String {
        decode(&std::mem::take(&mut self.half), notes)
    }
}

fn decode(literal: &str, notes: &mut Listed) -> String {
    let quoted = format!("\"{literal}\"");
    let node = Node::parse(&quoted);
    if let Some(text) = node.and_then(|node| node.text()) {
        return text;
    }
    notes.push(|| "the text holds halves of surrogate pairs, shown as U+FFFD".to_owned());
    node.and_then(|node| node.repaired_text()).unwrap_or_default()
}

/// Collects a text for programs: what cannot be decoded stays as it was written, for others to refuse.
#[derive(Debug, Default)]
pub(super) struct Literal(String);

impl Literal {
    /// What is no text is taken as the text that it was written as.
    pub(super) fn push(&mut self, piece: &Node<'_>) {
        match inside(piece.raw()) {
            Some(inner) => self.0.push_str(inner),
            None => {
                let written = serde_json::Value::from(piece.raw()).to_string();
                self.0.push_str(inside(&written).unwrap_or_default());
            }
        }
    }

    pub(super) fn into_text(self) -> String {
        let quoted = format!("\"{}\"", self.0);
        serde_json::from_str(&quoted).unwrap_or(quoted)
    }
}

/// What stands between the quotes of a JSON string.
fn inside(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"')
}

/// How many bytes at the end are the escape of the first half of a pair, `\uD800` to `\uDBFF`.
fn first_half_at_the_end(literal: &str) -> usize {
    const WIDTH: usize = 6;
    let bytes = literal.as_bytes();
    let Some(start) = bytes.len().checked_sub(WIDTH) else { return 0 };
    let is_half =
        matches!(&bytes[start..], [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', _, _]);
    // Behind an odd number of backslashes this one is itself escaped.
    let before = bytes[..start].iter().rev().take_while(|byte| **byte == b'\\').count();
    if is_half && before % 2 == 0 { WIDTH } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(pieces: &[&str]) -> (String, Vec<String>) {
        let (mut decoder, mut notes) = (Decoder::default(), Listed::new(9));
        let mut text = String::new();
        for piece in pieces {
            text += &decoder.push(&Node::parse(piece).expect("JSON"), &mut notes);
        }
        text += &decoder.finish(&mut notes);
        (text, notes.into_items())
    }

    #[test]
    fn pairs_come_together_across_pieces() {
        let crab = ("🦀".to_owned(), Vec::new());
        assert_eq!(decoded(&[r#""\ud83e\udd80""#]), crab);
        assert_eq!(decoded(&[r#""\ud83e""#, r#""\udd80""#]), crab);
        assert_eq!(decoded(&[r#""\uD83E""#, r#""""#, r#""\uDD80""#]), crab);
        assert_eq!(decoded(&[r#""\\ud83e""#, r#""x""#]), (r"\ud83ex".to_owned(), Vec::new()));
        assert_eq!(decoded(&[r#""\\\ud83e""#, r#""\udd80""#]), (r"\🦀".to_owned(), Vec::new()));
    }

    #[test]
    fn a_half_alone_is_noted() {
        let note = vec!["the text holds halves of surrogate pairs, shown as U+FFFD".to_owned()];
        assert_eq!(decoded(&[r#""a\ud83e""#, r#""b""#]), ("a\u{fffd}b".to_owned(), note.clone()));
        assert_eq!(decoded(&[r#""a\ud83e""#]), ("a\u{fffd}".to_owned(), note.clone()));
        assert_eq!(decoded(&[r#""\udd80""#]), ("\u{fffd}".to_owned(), note));
    }

    #[test]
    fn arguments_stay_as_they_were_written() {
        let text = |pieces: &[&str]| {
            let mut literal = Literal::default();
            pieces.iter().for_each(|piece| literal.push(&Node::parse(piece).expect("JSON")));
            literal.into_text()
        };
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[r#""{\"s\":""#, r#""\"\ud83e""#, r#""\udd80\"}""#]), r#"{"s":"🦀"}"#);
        assert_eq!(text(&[r#"{"n": 1e400}"#]), r#"{"n": 1e400}"#);
        assert_eq!(text(&[r#"{"a":"\\"}"#, r#"" ""#]), r#"{"a":"\\"} "#);
        assert_eq!(text(&[r#""\ud83e""#]), r#""\ud83e""#);
    }
}
