//! What bubblewrap says, what it lacked by that, and what a person can do about it.

use crate::linux::resolve::is_change;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// How much of it is kept. The end says why it fails.
const MOST: usize = 4096;
/// As much as a pipe holds, in pieces of that size.
const PIECES: usize = 16;
/// One more than the highest of errno(3).
const ERRNOS: i32 = 134;
/// What the loader of a program exits with.
const NOT_LOADED: i32 = 127;
/// What a shell, and bubblewrap too, adds to the number of the signal that killed its child.
const KILLED: i32 = 128;

/// What is short for a while, in the words of glibc and of musl: bubblewrap's library need not be this program's.
const SHORTAGES: [(&str, i32); 18] = [
    ("Cannot allocate memory", libc::ENOMEM),
    ("Out of memory", libc::ENOMEM),
    ("Resource temporarily unavailable", libc::EAGAIN),
    ("Too many open files", libc::EMFILE),
    ("No file descriptors available", libc::EMFILE),
    ("Too many open files in system", libc::ENFILE),
    ("File too large", libc::EFBIG),
    ("No space left on device", libc::ENOSPC),
    ("Disk quota exceeded", libc::EDQUOT),
    ("Quota exceeded", libc::EDQUOT),
    ("Device or resource busy", libc::EBUSY),
    ("Resource busy", libc::EBUSY),
    ("Interrupted system call", libc::EINTR),
    ("Input/output error", libc::EIO),
    ("I/O error", libc::EIO),
    ("No buffer space available", libc::ENOBUFS),
    ("Connection timed out", libc::ETIMEDOUT),
    ("Operation timed out", libc::ETIMEDOUT),
];
/// What loaders say when they get no memory, without the reason.
const WITHOUT_MEMORY: [&str; 4] = ["failed to map", "cannot map", "cannot allocate", "cannot create"];

/// What a person can do, by a part of what bubblewrap says. The first that fits counts.
const HINTS: [(&str, &str); 6] = [
    ("Unknown option", "bubblewrap must be 0.8 or newer"),
    (
        "shared librar",
        "a library that bubblewrap needs is missing: install the distribution's package `bubblewrap` anew",
    ),
    (
        "source path",
        "bubblewrap finds what is shown by its path: the launcher, or the user that a root launcher becomes, must be able \
         to reach it",
    ),
    (
        "execvp",
        "the jail's own program has to run inside: nothing that its loader and libraries need can be hidden",
    ),
    (
        "mount proc",
        "the kernel refuses a fresh /proc where the launcher's own is partly covered, as in most containers",
    ),
    ("namespace", NOT_ALLOWED),
];
const NOT_ALLOWED: &str = "bubblewrap must be allowed to make user namespaces, and to mount in them: see sysctl \
    user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns, and the profile that the distribution has for it";
const OTHERWISE: &str = "these are bubblewrap's own words, see bwrap(1); the mechanisms `namespaces` and `landlock` do without it";

/// Its error stream.
pub(super) struct Words {
    pipe: Option<PipeReader>,
    last: Vec<u8>,
}

impl Words {
    pub(super) fn of(pipe: PipeReader) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Words { pipe: Some(pipe), last: Vec::new() })
    }

    /// Readable when there is more.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Takes a piece of what there is, so that whoever says it is not held up. Returns whether there was one.
    pub(super) fn hear(&mut self) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        let mut piece = [0; MOST];
        let length = match pipe.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            length => length?,
        };
        if length == 0 {
            self.pipe = None;
        }
        self.last.extend_from_slice(piece.get(..length).unwrap_or_default());
        self.last.drain(..self.last.len().saturating_sub(MOST));
        Ok(length > 0)
    }

    /// The end of all. Does not wait for more: whoever could still write is dead, or as good as.
    pub(super) fn finish(mut self) -> io::Result<String> {
        for _ in 0..PIECES {
            if !self.hear()? {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&self.last).trim().to_owned())
    }
}

/// The number of the error that they end with, or that the wait status stands for.
pub(super) fn errno_of(words: &str, status: libc::c_int) -> Option<i32> {
    let last = words.lines().next_back().unwrap_or_default();
    let ends_with = |text: &str| {
        last.strip_suffix(text).is_some_and(|before| before.is_empty() || before.ends_with(": "))
    };
    let is_text_of = |errno: &i32| {
        let text = io::Error::from_raw_os_error(*errno).to_string();
        text.split_once(" (os error").is_some_and(|(text, _)| ends_with(text))
    };
    let short = SHORTAGES.iter().find(|(text, _)| ends_with(text)).map(|(_, errno)| *errno);
    short.or_else(|| (1..ERRNOS).find(is_text_of)).or_else(|| errno_of_end(words, status))
}

fn errno_of_end(words: &str, status: libc::c_int) -> Option<i32> {
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    match code {
        // Somebody has killed it, or its child.
        None => Some(libc::EINTR),
        Some(code) if code > KILLED => Some(libc::EINTR),
        Some(NOT_LOADED) if WITHOUT_MEMORY.iter().any(|text| words.contains(text)) => Some(libc::ENOMEM),
        Some(_) => None,
    }
}

/// Whether something that it was to show was not there, or was closed: whoever owns it can take it away at any time.
pub(super) fn lacks_a_source(words: &str, errno: Option<i32>) -> bool {
    let is_away = |errno| errno == libc::EACCES || is_change(&io::Error::from_raw_os_error(errno));
    words.lines().next_back().is_some_and(|last| last.contains("source")) && errno.is_some_and(is_away)
}

/// The advice that fits what it says.
pub(super) fn hint(words: &str, errno: Option<i32>) -> &'static str {
    match HINTS.iter().find(|(part, _)| words.contains(part)) {
        Some((_, hint)) => hint,
        None if matches!(errno, Some(libc::EPERM | libc::EACCES)) => NOT_ALLOWED,
        None => OTHERWISE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const FAILED: libc::c_int = 1 << 8;

    #[test]
    fn what_bubblewrap_lacked_is_known_by_its_words() {
        for (words, errno) in [
            ("bwrap: Creating new namespace failed: Resource temporarily unavailable", libc::EAGAIN),
            ("bwrap: Creating new namespace failed: Operation not permitted", libc::EPERM),
            ("bwrap: Can't create file at /x: No space left on device", libc::ENOSPC),
            ("bwrap: pipe2: Too many open files", libc::EMFILE),
            ("bwrap: warning\nbwrap: pipe2: No file descriptors available", libc::EMFILE),
            ("Out of memory", libc::ENOMEM),
            ("bwrap: x: Cannot allocate memory", libc::ENOMEM),
        ] {
            assert_eq!(errno_of(words, FAILED), Some(errno), "{words}");
        }
        for words in [
            "bwrap: No permissions to create new namespace. See <https://example.com>.",
            "bwrap: Unknown option --perms",
            "bwrap: Too many open files: no",
            "",
        ] {
            assert_eq!(errno_of(words, FAILED), None, "{words}");
        }
    }

    #[test]
    fn only_what_can_help_is_advised() {
        for (words, advice) in [
            ("bwrap: Unknown option --size", "0.8 or newer"),
            (
                "bwrap: error while loading shared libraries: libcap.so.2: cannot open shared object file: No such file",
                "package",
            ),
            ("bwrap: Can't find source path /root/x: Permission denied", "reach it"),
            ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "a fresh /proc"),
            (
                "bwrap: No permissions to create new namespace, likely because the kernel does not allow it",
                "max_user_namespaces",
            ),
            ("bwrap: Failed to make / slave: Operation not permitted", "max_user_namespaces"),
            ("bwrap: Can't make symlink at /x: File exists", "bwrap(1)"),
        ] {
            let hint = hint(words, errno_of(words, 0));
            assert!(hint.contains(advice), "{words}: {hint}");
            assert_eq!(hint.contains("0.8"), advice.contains("0.8"), "{words}: {hint}");
        }
    }

    #[test]
    fn what_killed_it_is_no_answer() {
        let exit = |code: libc::c_int| code << 8;
        let loader = "bwrap: error while loading shared libraries: libc.so.6: failed to map segment from shared object";
        let library = "bwrap: error while loading shared libraries: libcap.so.2: wrong ELF class: ELFCLASS32";
        assert_eq!(errno_of("", libc::SIGKILL), Some(libc::EINTR));
        assert_eq!(errno_of("", exit(128 + libc::SIGSEGV)), Some(libc::EINTR));
        assert_eq!(errno_of(loader, exit(127)), Some(libc::ENOMEM));
        assert_eq!(
            [errno_of(library, exit(127)), errno_of(loader, exit(1)), errno_of("", exit(1))],
            [None; 3]
        );
    }

    #[test]
    fn the_end_is_kept_of_however_much() {
        let (pipe, mut writer) = io::pipe().unwrap();
        let mut words = Words::of(pipe).unwrap();
        assert!(!words.hear().unwrap());
        for _ in 0..40 {
            writer.write_all(&[b'x'; MOST]).unwrap();
            assert!(words.hear().unwrap());
        }
        writer.write_all(b"the reason").unwrap();
        drop(writer);
        let text = words.finish().unwrap();
        assert!(text.len() == MOST && text.ends_with("xthe reason"));
    }
}
