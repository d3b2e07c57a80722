//! `#!` lines: which program the kernel starts for a script.

use nix::fcntl::OFlag;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// As much as the kernel reads (`BINPRM_BUF_SIZE`).
const LONGEST_LINE: u64 = 256;

/// What a script's first line names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Interpreter {
    /// This file.
    At(PathBuf),
    /// Whatever has this name in `PATH`; `env`, which looks for it, is a file too.
    Named { env: PathBuf, name: OsString },
}

/// Reads the first line of a file.
pub(super) fn interpreter_of(script: &Path) -> io::Result<Option<Interpreter>> {
    Ok(parse(&read_start(script, LONGEST_LINE)?))
}

/// The beginning of a regular file; a FIFO in its place holds nobody up.
pub(super) fn read_start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut start = Vec::with_capacity(1 << 10);
    file.take(most).read_to_end(&mut start)?;
    Ok(start)
}

pub(crate) fn parse(start: &[u8]) -> Option<Interpreter> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| b" \t\r\0".contains(byte)).filter(|word| !word.is_empty());
    let path = PathBuf::from(OsStr::from_bytes(words.next()?));
    if !path.is_absolute() {
        // Relative to the work dir.
        return None;
    }
    if path.file_name() != Some(OsStr::new("env")) {
        return Some(Interpreter::At(path));
    }
    // With a slash in it, `env` does not look for it.
    let name = words.map(split_string).find(|word| is_name(word)).filter(|name| !name.contains(&b'/'))?;
    Some(Interpreter::Named { env: path, name: OsStr::from_bytes(name).to_owned() })
}

/// Without the `-S` by which `env` takes its words apart: the first one may be glued to it.
fn split_string(word: &[u8]) -> &[u8] {
    word.strip_prefix(b"-S").or_else(|| word.strip_prefix(b"--split-string=")).unwrap_or(word)
}

/// Neither an option of `env` nor a variable.
fn is_name(word: &[u8]) -> bool {
    !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(env: &str, name: &str) -> Option<Interpreter> {
        Some(Interpreter::Named { env: env.into(), name: name.into() })
    }

    #[test]
    fn lines_name_their_interpreter() {
        let at = |path: &str| Some(Interpreter::At(path.into()));
        for (line, expected) in [
            ("#!/bin/sh\necho", at("/bin/sh")),
            ("#! \t/opt/v/bin/python -I -X dev\n", at("/opt/v/bin/python")),
            ("#!/bin/sh", at("/bin/sh")),
            ("#!/usr/bin/env node\n", named("/usr/bin/env", "node")),
            ("#!/usr/bin/env\tpython3 \r\n", named("/usr/bin/env", "python3")),
            ("#!/usr/bin/env -S uv run --script\n", named("/usr/bin/env", "uv")),
            ("#!/usr/bin/env -Sdeno run\n", named("/usr/bin/env", "deno")),
            ("#!/usr/bin/env -S A=b -i node --x\n", named("/usr/bin/env", "node")),
            ("#!/usr/bin/env --split-string=node --x\n", named("/usr/bin/env", "node")),
            ("#!/usr/bin/env /opt/x\n", None),
            ("#!/usr/bin/env\n", None),
            ("#!/usr/bin/env -S\n", None),
            ("#!python3\n", None),
            ("#!\n/bin/sh", None),
            ("\x7fELF", None),
            ("", None),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(Interpreter::At(path) | Interpreter::Named { env: path, .. }) = parse(&[b"#!", &bytes[..]].concat()) {
                prop_assert!(path.is_absolute());
            }
        }
    }
}
