//! What `/proc` says about a process, as text.
//!
//! A process can give itself any bytes for a name, and an executable can have any file name: both stand in these files as
//! they are, in the middle of what is looked for.

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The text of a file, with what is none replaced.
pub(crate) fn read(path: &str) -> io::Result<String> {
    read_all(File::from(open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?))
}

/// The same for a file that was opened in another way. These files say nothing of their size: growing a buffer step by
/// step would cost a call for each.
pub(crate) fn read_all(mut file: File) -> io::Result<String> {
    let mut bytes = vec![0; 4096];
    let mut length = 0;
    loop {
        let room = bytes.get_mut(length..).unwrap_or_default();
        let size = room.len();
        match file.read(room) {
            // Those about one process as a whole are made and given in one piece, if it fits.
            Ok(more) if more < size => break bytes.truncate(length.saturating_add(more)),
            Ok(more) => length = length.saturating_add(more),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length == bytes.len() {
            bytes.resize(length.saturating_mul(2), 0);
        }
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A path to what a descriptor of this process refers to, by the descriptor alone: a link whose text says where that is.
pub(crate) fn of_descriptor(descriptor: BorrowedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// The fields of `/proc/PID/stat`, see proc_pid_stat(5).
pub(crate) struct Stat<'a>(Vec<&'a str>);

impl<'a> Stat<'a> {
    /// The name in field 2 may hold parentheses too, so the fields are counted from its last one.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        Some(Stat(fields.split_ascii_whitespace().collect()))
    }

    /// A field from the third on, by the number that the manual page gives it.
    pub(crate) fn number(&self, field: usize) -> Option<u64> {
        self.0.get(field.checked_sub(3)?)?.parse().ok()
    }
}

/// A line of `/proc/PID/status`, see proc_pid_status(5).
pub(crate) fn status_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_ascii)
}
