//! Git's settings, as far as they say where else something is executed from; see git-config(1).

/// The paths of hooks and of included settings, as they are written.
pub(super) fn paths(text: &[u8]) -> Paths {
    let mut paths = Paths::default();
    let mut section = Vec::new();
    for line in logical_lines(text) {
        let line = line.trim_ascii();
        let rest = match line.strip_prefix(b"[") {
            Some(header) => {
                let end = header_end(header);
                section = header[..end].trim_ascii().to_ascii_lowercase();
                // A setting may follow on the same line.
                header.get(end + 1..).unwrap_or_default()
            }
            None => line,
        };
        let Some(equals) = rest.iter().position(|byte| *byte == b'=') else { continue };
        let name = rest[..equals].trim_ascii().to_ascii_lowercase();
        let value = || value(&rest[equals + 1..]);
        match (&section[..], &name[..]) {
            (b"core", b"hookspath") => paths.hooks.push(value()),
            (section, b"path") if section.starts_with(b"include") => paths.included.push(value()),
            _ => {}
        }
    }
    paths
}

/// What [`paths`] finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Paths {
    /// All of them, though the last one counts: an included file may undo it.
    pub(super) hooks: Vec<Vec<u8>>,
    pub(super) included: Vec<Vec<u8>>,
}

/// Lines, with those that a backslash continues put together.
fn logical_lines(text: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
    let mut goes_on = false;
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !goes_on {
            lines.push(Vec::new());
        }
        let slashes = line.iter().rev().take_while(|byte| **byte == b'\\').count();
        goes_on = slashes % 2 == 1;
        if let Some(last) = lines.last_mut() {
            last.extend_from_slice(&line[..line.len() - usize::from(goes_on)]);
        }
    }
    lines
}

/// Where a section's header ends: at the first `]` that is not quoted.
fn header_end(header: &[u8]) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in header.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b']' if !quoted => return at,
            _ => {}
        }
    }
    header.len()
}

/// A value without its quotes, escapes and comment.
fn value(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    // Spaces at the end only count in quotes.
    let mut length = 0;
    let mut quoted = false;
    let mut bytes = text.trim_ascii_start().iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => quoted = !quoted,
            b'#' | b';' if !quoted => break,
            b'\\' => out.extend(bytes.next().map(|byte| match byte {
                b'n' => b'\n',
                b't' => b'\t',
                b'b' => 8,
                other => *other,
            })),
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
        paths(text.as_bytes()).hooks.into_iter().map(|path| String::from_utf8(path).unwrap()).collect()
    }

    #[test]
    fn hooks_are_found_as_git_finds_them() {
        for text in [
            "[core]\n\thooksPath = .husky/_\n",
            "[core] hooksPath=.husky/_",
            "[CORE]\r\nbare = false\r\nHOOKSPATH = \".husky/_\" ; a comment\r\n",
            "[core]\nhookspath = .husky\\\n/_ # another\n",
            "[user]\nname = \"[core]\"\n[core]\nhooksPath = .hus\"ky/\"_   ",
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
        assert_eq!(paths(text).included, [b"../a".to_vec(), b"b".to_vec()]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            paths(&text);
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
