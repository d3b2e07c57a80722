//! What an index would have git write. Git checks a path when it gets into an index, but not when it reads one, and then
//! writes wherever it leads: into `.git` too, and out of the working tree.

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

/// A larger one is not read.
const LARGEST: u64 = 256 << 20;

/// Whether a file of this name in a repository is an index or a part of one.
pub(super) fn is_index(name: &[u8]) -> bool {
    name == b"index" || name.starts_with(b"sharedindex.")
}

/// Whether an index would have something written where nothing of a project belongs, or can't be read: it could be
/// later. `long` for the longer kind of hash.
pub(super) fn is_dangerous(here: BorrowedFd, name: &CStr, long: bool) -> bool {
    load(here, name).map_or(true, |index| check(&index, long).is_none())
}

fn load(here: BorrowedFd, name: &CStr) -> io::Result<Vec<u8>> {
    // Not waiting for the writer of a FIFO.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(here, name, flags, Mode::empty())?);
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > LARGEST {
        return Err(Errno::EFBIG.into());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `None` if it must not be used. The format is described in gitformat-index(5).
pub(crate) fn check(index: &[u8], long: bool) -> Option<()> {
    let head = index.strip_prefix(b"DIRC")?;
    let format = Format { version: number(head)?, before_flags: if long { 40 + 32 } else { 40 + 20 } };
    // With a table of offsets for many readers each entry is read twice. One made to hold us up says more.
    let mut left = index.len().checked_mul(2)?;
    format.entries(index, 12, number(head.get(4..)?)?, &mut left)?;
    for table in tables(index) {
        for block in table.chunks_exact(8) {
            format.entries(index, number(block)? as usize, number(block.get(4..)?)?, &mut left)?;
        }
    }
    Some(())
}

struct Format {
    version: u32,
    /// The numbers and the hash that begin an entry.
    before_flags: usize,
}

impl Format {
    /// Reads so many entries from an offset, of so many bytes at most. `None` if one is dangerous or cannot be read.
    fn entries(&self, index: &[u8], offset: usize, count: u32, left: &mut usize) -> Option<()> {
        let mut at = offset;
        let mut name = Vec::new();
        for _ in 0..count {
            let (length, kept) = self.entry(index.get(at..)?, &mut name)?;
            *left = left.checked_sub(length)?;
            at = at.checked_add(length)?;
            if !is_harmless(&name, kept) {
                return None;
            }
        }
        Some(())
    }

    /// How long the entry is, and how much of `name`, which is the one before, is kept in its own, which it becomes.
    fn entry(&self, entry: &[u8], name: &mut Vec<u8>) -> Option<(usize, usize)> {
        const EXTENDED: u16 = 0x4000;
        const LENGTH: u16 = 0xfff;
        let (flags, rest) = entry.get(self.before_flags..)?.split_first_chunk()?;
        let flags = u16::from_be_bytes(*flags);
        let rest = if flags & EXTENDED == 0 { rest } else { rest.get(2..)? };
        let (kept, rest) = match self.version {
            2 | 3 => (0, rest),
            4 => {
                let (dropped, rest) = varint(rest)?;
                (name.len().checked_sub(dropped)?, rest)
            }
            _ => return None,
        };
        let length = match flags & LENGTH {
            LENGTH => rest.iter().position(|byte| *byte == 0)?,
            length => usize::from(length).checked_sub(kept)?,
        };
        let (added, rest) = rest.split_at_checked(length)?;
        name.truncate(kept);
        name.extend_from_slice(added);
        let whole = entry.len().checked_sub(rest.len())?;
        // One zero byte ends it, or up to eight that fill it up.
        let padded = if self.version == 4 { whole.checked_add(1)? } else { whole.checked_add(8)? & !7 };
        Some((padded, kept))
    }
}

/// How many bytes of the name before are dropped, and what follows the bytes that say so.
fn varint(mut bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_usize;
    for _ in 0..8 {
        let (byte, rest) = bytes.split_first()?;
        value = value << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
        value = value.checked_add(1)?;
        bytes = rest;
    }
    None
}

/// The tables of where else entries begin, wherever something could be taken for one: what says where they are is as
/// little to be trusted as they.
fn tables(index: &[u8]) -> impl Iterator<Item = &[u8]> {
    const NAME: &[u8] = b"IEOT";
    let places = index.windows(NAME.len()).enumerate().filter(|(_, name)| *name == NAME);
    places.filter_map(|(at, _)| {
        let rest = index.get(at..)?.strip_prefix(NAME)?;
        let table = rest.get(4..)?.get(..number(rest)? as usize)?;
        table.strip_prefix(&1_u32.to_be_bytes())
    })
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Names that lead into a repository, under Windows too, or nowhere.
const BAD: [&[u8]; 4] = [b".git", b"git~1", b".", b".."];
const LONGEST_BAD: usize = 5;

/// Whether a name stays in the working tree and out of any repository. Its first bytes, `kept`, are known from a harmless
/// one: to look at them again would take the square of the time. A split index has empty ones, a sparse one those of
/// directories.
fn is_harmless(name: &[u8], kept: usize) -> bool {
    let is_end = |byte: &u8| matches!(byte, b'/' | 0);
    // The part that the kept bytes end in is looked at from its beginning, if it can be a bad one at all.
    let from = kept.saturating_sub(LONGEST_BAD.saturating_add(1));
    let mut ends = name.iter().take(kept).skip(from);
    let begins = ends.rposition(is_end).map_or(from, |at| from.saturating_add(at).saturating_add(1));
    let mut parts = name.get(begins..).unwrap_or_default().split(is_end);
    !name.starts_with(b"/") && !parts.any(|part| BAD.iter().any(|bad| part.eq_ignore_ascii_case(bad)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn is_dangerous(index: &[u8], long: bool) -> bool {
        check(index, long).is_none()
    }

    /// An index in versions 2 and 4.
    fn indexes(names: &[&str], hash: usize) -> [Vec<u8>; 2] {
        [2_u32, 4].map(|version| {
            let mut index =
                [&b"DIRC"[..], &version.to_be_bytes(), &(names.len() as u32).to_be_bytes()].concat();
            let mut before = String::new();
            for name in names {
                let start = index.len();
                index.extend(vec![0; 40 + hash]);
                index.extend((name.len() as u16).to_be_bytes());
                if version == 4 {
                    let common = name.bytes().zip(before.bytes()).take_while(|(a, b)| a == b).count();
                    index.push((before.len() - common) as u8);
                    index.extend(&name.as_bytes()[common..]);
                    index.push(0);
                } else {
                    index.extend(name.as_bytes());
                    let length = index.len() - start;
                    index.resize(start + ((length + 8) & !7), 0);
                }
                before = (*name).to_owned();
            }
            index.extend(vec![7; hash]);
            index
        })
    }

    #[test]
    fn names_in_a_repository_or_beyond_the_tree_are_dangerous() {
        for (hash, long) in [(20, false), (32, true)] {
            let is_dangerous_with = |name: &str| {
                indexes(&[".gitignore", ".gitx", name, "z"], hash).map(|index| is_dangerous(&index, long))
            };
            for name in ["a", ".github/x", "a/.gitmodules", "..a", "git~10", "a/"] {
                assert_eq!(is_dangerous_with(name), [false; 2], "{name}");
            }
            for name in
                [".git/hooks/x", "a/.GIT/config", "../x", "/etc/x", "a/../../b", "git~1/config", ".git"]
            {
                assert_eq!(is_dangerous_with(name), [true; 2], "{name}");
            }
        }
        assert!(is_dangerous(b"", false));
    }

    #[test]
    fn entries_that_only_a_table_leads_to_are_read() {
        for (index, evil) in indexes(&["a", "b"], 20).into_iter().zip(indexes(&[".git/x"], 20)) {
            let mut index = index;
            let offset = index.len() as u32;
            index.extend(&evil[12..]);
            index.extend([&b"IEOT"[..], &12_u32.to_be_bytes(), &1_u32.to_be_bytes()].concat());
            assert!(!is_dangerous(&index, false));
            index.extend([offset.to_be_bytes(), 1_u32.to_be_bytes()].concat());
            assert!(is_dangerous(&index, false));
        }
    }

    /// In two megabytes one long name stands for a hundred thousand of them: names that keep most of the one before, and
    /// tables that say where it is again and again. To read them all would take minutes.
    #[test]
    fn an_index_cannot_make_itself_long() {
        const NAMES: u32 = 20_000;
        let mut index = [&b"DIRC"[..], &4_u32.to_be_bytes(), &NAMES.to_be_bytes()].concat();
        for (dropped, added) in (0..NAMES).map(|at| if at == 0 { (0, 1 << 20) } else { (1, 1) }) {
            index.extend([&[0; 60][..], &[0x0f, 0xff, dropped], &vec![b'x'; added], &[0]].concat());
        }
        let began = Instant::now();
        assert!(!is_dangerous(&index, false));
        index.extend([&b"IEOT"[..], &(4 + 8 * NAMES).to_be_bytes(), &1_u32.to_be_bytes()].concat());
        index.extend([12_u32.to_be_bytes(), 1_u32.to_be_bytes()].concat().repeat(NAMES as usize));
        assert!(is_dangerous(&index, false));
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), version in 2_u32..5) {
            is_dangerous(&bytes, false);
            is_dangerous(&[&b"DIRC"[..], &version.to_be_bytes(), &9_u32.to_be_bytes(), &bytes].concat(), true);
        }

        #[test]
        fn what_is_kept_of_a_name_need_not_be_looked_at_again(
            kept in "(/|\\.|\\.git|git~1|x|long-name){0,4}",
            added in "(/|\\.|\\.git|git~1|x|git|it|~1|long-name){0,4}",
        ) {
            let whole = format!("{kept}{added}");
            if is_harmless(kept.as_bytes(), 0) {
                prop_assert_eq!(is_harmless(whole.as_bytes(), kept.len()), is_harmless(whole.as_bytes(), 0));
            }
        }
    }
}
