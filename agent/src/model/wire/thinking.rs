//! Takes thinking out of an answer where the server did not.
//!
//! The rule: a text that begins with `<think>`, a little white space before it aside, is thinking up to `</think>`, and to its end
//! if there is no `</think>`. The marks anywhere else are text: an answer may speak of them.

use std::mem::take;

const OPENING: &str = "<think>";
const CLOSING: &str = "</think>";
/// After more white space than this nothing is thinking: a flood of it would be looked through anew with each piece.
const MAX_SPACE: usize = 64;

/// Text that comes in pieces, in parts that are thinking and parts that are not.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    stage: Stage,
    /// What may be a part of a mark.
    held: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    /// Nothing but white space and the beginning of the mark so far.
    #[default]
    Beginning,
    Inside,
    /// White space before the answer does not belong to it.
    Between,
    Answer,
}

/// What a piece turned out to hold.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Parted {
    pub(super) thinking: String,
    pub(super) answer: String,
}

impl Thinking {
    pub(super) fn push(&mut self, piece: &str) -> Parted {
        let mut parted = Parted::default();
        self.held.push_str(piece);
        if self.stage == Stage::Beginning {
            let text = self.held.trim_start();
            if self.held.len() - text.len() > MAX_SPACE {
                self.stage = Stage::Answer;
            } else if let Some(rest) = text.strip_prefix(OPENING) {
                self.stage = Stage::Inside;
                self.held = rest.to_owned();
            } else if !OPENING.starts_with(text) {
                self.stage = Stage::Answer;
            }
        }
        if self.stage == Stage::Inside {
            if let Some((thinking, rest)) = self.held.split_once(CLOSING) {
                parted.thinking = thinking.to_owned();
                self.stage = Stage::Between;
                self.held = rest.to_owned();
            } else {
                let end = self.held.len() - beginning_at_the_end(&self.held, CLOSING);
                parted.thinking = self.held.drain(..end).collect();
            }
        }
        if self.stage == Stage::Between {
            self.held = self.held.trim_start().to_owned();
            if !self.held.is_empty() {
                self.stage = Stage::Answer;
            }
        }
        if self.stage == Stage::Answer {
            parted.answer = take(&mut self.held);
        }
        parted
    }

    /// What was held back, at the end of the text.
    pub(super) fn finish(self) -> Parted {
        match self.stage {
            Stage::Inside => Parted { thinking: self.held, answer: String::new() },
            _ => Parted { thinking: String::new(), answer: self.held },
        }
    }
}

/// How many bytes at the end of the text are the beginning of the mark.
pub(in crate::model) fn beginning_at_the_end(text: &str, mark: &str) -> usize {
    let longest = mark.len().saturating_sub(1).min(text.len());
    let is_one = |length: &usize| text.as_bytes().ends_with(&mark.as_bytes()[..*length]);
    (1..=longest).rev().find(is_one).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(pieces: &[&str]) -> (String, String) {
        let (mut thinking, mut whole) = (Thinking::default(), Parted::default());
        let mut add = |parted: Parted| {
            whole.thinking += &parted.thinking;
            whole.answer += &parted.answer;
        };
        pieces.iter().for_each(|piece| add(thinking.push(piece)));
        add(thinking.finish());
        (whole.thinking, whole.answer)
    }

    #[test]
    fn only_a_beginning_is_taken_out() {
        for (text, thinking, answer) in [
            ("", "", ""),
            ("42", "", "42"),
            ("<think>hm</think>42", "hm", "42"),
            ("\n <think>hm\n</think>\n\n42\n", "hm\n", "42\n"),
            ("<think></think>42", "", "42"),
            ("<think>hm", "hm", ""),
            ("<think>a</thin", "a</thin", ""),
            ("<think>a</think> <think>b</think>", "a", "<think>b</think>"),
            ("see <think>hm</think>", "", "see <think>hm</think>"),
            ("hm</think>42", "", "hm</think>42"),
            (" <thin", "", " <thin"),
            (" <thing>", "", " <thing>"),
            ("  x", "", "  x"),
        ] {
            assert_eq!(part(&[text]), (thinking.to_owned(), answer.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_a_mark_is_not_held_back() {
        let mut thinking = Thinking::default();
        assert_eq!(thinking.push("<thi").answer, "");
        assert_eq!(thinking.push("s").answer, "<this");
        assert_eq!(thinking.push("<think>").answer, "<think>");
        let mut thinking = Thinking::default();
        assert_eq!(thinking.push("<think>hm</").thinking, "hm");
        assert_eq!(thinking.push("b>").thinking, "</b>");
    }

    proptest! {
        #[test]
        fn any_split_parts_the_same(
            pieces in prop::collection::vec("(<think>|</think>|<|</|think|é| |x|>){0,4}", 0..6)
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(part(&pieces), part(&[&pieces.concat()]));
        }
    }
}
