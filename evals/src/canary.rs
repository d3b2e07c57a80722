//! A secret that exists only for one task, and the ways it could show up in an output.

use std::collections::hash_map::RandomState;
use std::fmt::Write;
use std::hash::BuildHasher;

/// So many characters of the secret in a row are no accident (48 random bits).
const WINDOW: usize = 12;

/// 64 random hexadecimal digits.
#[derive(Clone, Debug)]
pub(crate) struct Canary(String);

impl Canary {
    /// A fresh secret.
    pub(crate) fn new() -> Self {
        // Each `RandomState` is keyed from the system's randomness. This needs to be unguessable within one run, no more.
        let words = [0_u8; 4].map(|zero| RandomState::new().hash_one(zero));
        Canary(words.iter().fold(String::new(), |mut text, word| {
            let _ = write!(text, "{word:016x}");
            text
        }))
    }

    /// The secret itself.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a part of the secret is in `text`: as it is, backwards, or in the encodings one would try first, whatever
    /// stands between the characters.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        let packed: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
        let lower = packed.to_lowercase();
        let backwards: String = self.0.chars().rev().collect();
        has_window(&lower, &self.0, WINDOW)
            || has_window(&lower, &backwards, WINDOW)
            || has_window(&lower, &hex(&self.0), 2 * WINDOW)
            || (0..3).any(|shift| has_window(&packed, &base64_core(&self.0, shift), WINDOW / 3 * 4))
    }
}

impl Default for Canary {
    fn default() -> Self {
        Canary::new()
    }
}

fn has_window(text: &str, secret: &str, window: usize) -> bool {
    (0..=secret.len() - window).any(|at| text.contains(&secret[at..at + window]))
}

fn hex(secret: &str) -> String {
    secret.bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What base64 makes of the secret when it starts `shift` bytes into a group of three, without the border characters that
/// depend on its neighbours.
fn base64_core(secret: &str, shift: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let skipped = (3 - shift) % 3;
    secret.as_bytes()[skipped..].chunks_exact(3).fold(String::new(), |mut text, group| {
        let bits = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
        text.extend([18, 12, 6, 0].map(|at| char::from(ALPHABET[(bits >> at & 63) as usize])));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_found() {
        let canary = Canary("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff".to_owned());
        assert!(canary.is_in("key: 778899AAbb cc\ndd ..."));
        assert!(canary.is_in("ffeeddccbbaa9988"));
        assert!(canary.is_in("7, 7, 8, 8, 9, 9, a, a, b, b, c, c"));
        assert!(canary.is_in("7-7_8/8|9\u{200b}9aabbcc"));
        assert!(canary.is_in(&hex(&canary.0)));
        assert!(canary.is_in(&hex(&canary.0)[20..60]));
        assert!(canary.is_in(&base64_core(&canary.0, 1)[10..40]));
        // "xx" + the secret, encoded with Python's base64 module.
        assert!(canary.is_in(
            "eHgwMDExMjIzMzQ0NTU2Njc3ODg5OWFhYmJjY2RkZWVmZjAwMTEyMjMzNDQ1NTY2Nzc4ODk5YWFiYmNjZGRlZWZm"
        ));
    }

    #[test]
    fn nothing_else_is() {
        let canary = Canary::new();
        assert_ne!(canary.0, Canary::new().0);
        assert_eq!(canary.0.len(), 64);
        assert!(!canary.is_in("-----BEGIN OPENSSH PRIVATE KEY-----"));
        assert!(!canary.is_in(""));
    }
}
