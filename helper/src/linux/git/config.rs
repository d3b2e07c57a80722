//! Git's settings, as far as they say where else something is executed from; see git-config(1).

use std::iter::Peekable;
use std::slice::Iter;

/// What [`read`] finds, as it is written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// All paths of hooks, though the last one counts: an included file may undo it.
    pub(crate) hooks: Vec<Vec<u8>>,
    pub(crate) included: Vec<Vec<u8>>,
    /// Working trees, where hooks run.
    pub(crate) trees: Vec<Vec<u8>>,
    /// Files are called by the longer kind of hash.
    pub(crate) sha256: bool,
}

/// Reads a file of settings as git does; what git would refuse is read somehow.
pub(crate) fn read(text: &[u8]) -> Settings {
    let mut settings = Settings::default();
    let mut section = Vec::new();
    let text: Vec<u8> = lines(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text));
    let mut bytes = text.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'#' | b';' => _ = bytes.by_ref().find(|byte| **byte == b'\n'),
            b'[' => section = header(&mut bytes),
            byte if byte.is_ascii_whitespace() => {}
            byte => {
                let (name, has_value) = name(*byte, &mut bytes);
                let value = if has_value { value(&mut bytes) } else { Vec::new() };
                match (&section[..], &name[..]) {
                    (b"core", b"hookspath") => settings.hooks.push(value),
                    (b"core", b"worktree") => settings.trees.push(value),
                    (b"extensions", b"objectformat") => settings.sha256 = value == b"sha256",
                    (section, b"path") if section.starts_with(b"include") => settings.included.push(value),
                    _ => {}
                }
            }
        }
    }
    settings
}

type Bytes<'a> = Peekable<Iter<'a, u8>>;

/// With every end of a line as one byte.
fn lines(text: &[u8]) -> Vec<u8> {
    let is_return = |at: usize| text.get(at..).is_some_and(|rest| rest.starts_with(b"\r\n"));
    text.iter().enumerate().filter(|(at, _)| !is_return(*at)).map(|(_, byte)| *byte).collect()
}

/// A section's header, in lower case: up to the first `]` that is not quoted. A setting may follow on the same line.
fn header(bytes: &mut Bytes) -> Vec<u8> {
    let (mut header, mut quoted, mut escaped) = (Vec::new(), false, false);
    for byte in bytes.by_ref() {
        match byte {
            b'\n' => break,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b']' if !quoted => break,
            _ => {}
        }
        header.push(byte.to_ascii_lowercase());
    }
    header.trim_ascii().to_vec()
}

/// A setting's name, in lower case, and whether a value follows.
fn name(first: u8, bytes: &mut Bytes) -> (Vec<u8>, bool) {
    let mut name = vec![first.to_ascii_lowercase()];
    let end = bytes.find(|byte| {
        let at_end = matches!(byte, b'=' | b'\n');
        if !at_end {
            name.push(byte.to_ascii_lowercase());
        }
        at_end
    });
    (name.trim_ascii().to_vec(), end == Some(&b'='))
}

/// A value without its quotes, escapes and comment. Only a backslash of its own continues it on the next line.
fn value(bytes: &mut Bytes) -> Vec<u8> {
    let mut out = Vec::new();
    // Spaces at the end only count in quotes.
    let mut length = 0;
    let (mut quoted, mut commented) = (false, false);
    while let Some(byte) = bytes.next() {
        match byte {
            b'\n' => break,
            _ if commented => continue,
            b'"' => quoted = !quoted,
            b'#' | b';' if !quoted => commented = true,
            b'\\' => match bytes.next() {
                Some(b'\n') | None => {}
                Some(b'n') => out.push(b'\n'),
                Some(b't') => out.push(b'\t'),
                Some(b'b') => out.push(8),
                Some(other) => out.push(*other),
            },
            byte if out.is_empty() && !quoted && byte.is_ascii_whitespace() => {}
            other => out.push(*other),
        }
        if quoted || !out.last().is_none_or(u8::is_ascii_whitespace) {
            length = out.len();
        }
    }
    out.truncate(length);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hooks(text: &str) -> Vec<String> {
        read(text.as_bytes()).hooks.into_iter().map(|path| String::from_utf8(path).unwrap()).collect()
    }

    #[test]
    fn hooks_are_found_as_git_finds_them() {
        for text in [
            "[core]\n\thooksPath = .husky/_\n",
            "[core] hooksPath=.husky/_",
            "[CORE]\r\nbare = false\r\nHOOKSPATH = \".husky/_\" ; a comment\r\n",
            "[core]\nhookspath = .husky\\\n/_ # another\n",
            "[user]\nname = \"[core]\"\n[core]\nhooksPath = .hus\"ky/\"_   ",
            "\u{feff}[core]\nhooksPath = .husky/_",
            "[core]\n# a comment \\\nhooksPath = .husky/_",
            "[core]\nx = y # a comment \\\nhooksPath = .husky/_",
            "[core]\r\nhooksPath = .hus\\\r\nky/_\r\n",
        ] {
            assert_eq!(hooks(text), [".husky/_"], "{text:?}");
        }
        for text in [
            "[user]\nhooksPath = x",
            "# [core]\n",
            "[core]\n# hooksPath = x\n",
            "[core \"x\"]\nhooksPath = x",
        ] {
            assert!(hooks(text).is_empty(), "{text:?}");
        }
        assert_eq!(hooks("[core]\nhooksPath = a\n[x]\n[core]\nhooksPath = \"b c\\\"\""), ["a", "b c\""]);
    }

    #[test]
    fn included_files_are_found() {
        let text = b"[include]\npath = ../a\n[includeIf \"gitdir:/x]/\"]\n\tpath = b\n[core]\npath = c\n";
        assert_eq!(read(text).included, [b"../a".to_vec(), b"b".to_vec()]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&text);
        }

        #[test]
        fn any_path_comes_back_from_quotes(path in "[^\0\n\r\t\u{8}]{1,20}") {
            let quoted: String = path.chars().flat_map(|c| match c {
                '"' | '\\' => vec!['\\', c],
                c => vec![c],
            }).collect();
            prop_assert_eq!(hooks(&format!("[core]\nhooksPath = \"{quoted}\"")), [path]);
        }
    }
}
