//! What is kept of a stream: the beginning and the end.

use std::collections::VecDeque;
use std::fmt;

/// What a command wrote to one stream: everything up to the cap, otherwise the first and the last half of the cap.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The head, then the tail.
    kept: Vec<u8>,
    head: usize,
    total: u64,
}

impl Output {
    /// The bytes that were kept: the head, then the tail, with nothing between them.
    pub fn bytes(&self) -> &[u8] {
        &self.kept
    }

    /// How many bytes the command wrote.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether bytes between head and tail were left out.
    pub fn truncated(&self) -> bool {
        self.left_out() > 0
    }

    /// What was kept, as text. Bytes that are not UTF-8 become U+FFFD (three bytes each). Where bytes were left out,
    /// head and tail are cut between characters and a line of its own says how many bytes are missing:
    /// `[... 9437184 bytes left out ...]`.
    pub fn text(&self) -> String {
        if !self.truncated() {
            return String::from_utf8_lossy(&self.kept).into_owned();
        }
        let (head, tail) = self.kept.split_at(self.head);
        let (head, tail) = (without_cut_end(head), without_cut_start(tail));
        let missing = self.total - (head.len() + tail.len()) as u64;
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        format!("{head}\n[... {missing} bytes left out ...]\n{tail}")
    }

    fn left_out(&self) -> u64 {
        self.total - self.kept.len() as u64
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Output({:?}, {} bytes in all)", self.text(), self.total)
    }
}

/// Drops a character at the end of which only the first bytes are there.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let width = match bytes[at] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if width > back { &bytes[..at] } else { bytes };
    }
    bytes
}

/// Drops the last bytes of a character at the start of which the first are missing.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let cut = bytes.iter().take(3).take_while(|byte| (0x80..=0xbf).contains(*byte)).count();
    &bytes[cut..]
}

/// Collects a stream without ever holding more than its cap.
pub(crate) struct Collector {
    head: Vec<u8>,
    head_cap: usize,
    tail: VecDeque<u8>,
    tail_cap: usize,
    total: u64,
}

impl Collector {
    pub(crate) fn new(cap: usize) -> Self {
        let head_cap = cap / 2;
        Collector { head: Vec::new(), head_cap, tail: VecDeque::new(), tail_cap: cap - head_cap, total: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_cap - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_cap)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    pub(crate) fn finish(mut self) -> Output {
        let head = self.head.len();
        let (first, second) = self.tail.as_slices();
        self.head.reserve_exact(first.len() + second.len());
        self.head.extend_from_slice(first);
        self.head.extend_from_slice(second);
        Output { kept: self.head, head, total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collect<'a>(cap: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Output {
        let mut collector = Collector::new(cap);
        chunks.into_iter().for_each(|chunk| collector.push(chunk));
        collector.finish()
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let output = collect(10, [&b"01234"[..], b"56789"]);
        assert_eq!((output.bytes(), output.total(), output.truncated()), (&b"0123456789"[..], 10, false));
        assert_eq!(output.text(), "0123456789");
    }

    #[test]
    fn one_byte_too_many_is_counted_and_noted() {
        let output = collect(10, [&b"0123456789a"[..]]);
        assert_eq!((output.bytes(), output.total(), output.truncated()), (&b"012346789a"[..], 11, true));
        assert_eq!(output.text(), "01234\n[... 1 bytes left out ...]\n6789a");
    }

    #[test]
    fn a_cut_through_a_character_drops_all_of_it() {
        // Cap 10: the head ends inside the second euro sign, the tail starts inside the last but one.
        let text = "€€€€€€";
        let output = collect(10, [text.as_bytes()]);
        assert_eq!(output.bytes().len(), 10);
        assert_eq!(output.text(), "€\n[... 12 bytes left out ...]\n€");
    }

    proptest! {
        #[test]
        fn chunking_changes_nothing_and_the_cap_holds(
            cap in 0..40usize,
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..8),
        ) {
            let whole = chunks.concat();
            let output = collect(cap, chunks.iter().map(Vec::as_slice));
            prop_assert_eq!(&output, &collect(cap, [&whole[..]]));
            prop_assert_eq!(output.total(), whole.len() as u64);
            prop_assert_eq!(output.bytes().len(), whole.len().min(cap));
            let head = output.bytes().len().min(cap / 2);
            prop_assert!(whole.starts_with(&output.bytes()[..head]));
            prop_assert!(whole.ends_with(&output.bytes()[head..]));
            prop_assert_eq!(output.truncated(), whole.len() > cap);
            prop_assert_eq!(output.text().contains("bytes left out"), output.truncated());
        }

        #[test]
        fn text_is_cut_between_characters(text in "[aé€😀]{0,60}", cap in 0..60usize) {
            let output = collect(cap, [text.as_bytes()]);
            let shown = output.text();
            prop_assert!(!shown.contains('\u{fffd}'), "{shown}");
            match shown.split_once("\n[... ") {
                None => prop_assert_eq!(&shown, &text),
                Some((head, rest)) => {
                    let (missing, tail) = rest.split_once(" bytes left out ...]\n").expect("a complete note");
                    prop_assert!(text.starts_with(head) && text.ends_with(tail));
                    prop_assert_eq!(missing.parse::<usize>().expect("a number"), text.len() - head.len() - tail.len());
                    prop_assert!(head.len() + tail.len() + 6 >= cap.min(text.len()));
                }
            }
        }
    }
}
