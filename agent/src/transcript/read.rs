//! Reads a transcript back.

use super::{TranscriptError, VERSION};
use crate::event::AgentEvent;
use crate::trajectory::StopReason;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a line. A reply has 16 MiB unless bounds say otherwise, and a character takes six bytes at most in JSON.
const MAX_LINE: u64 = 128 << 20;

/// What a transcript holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// One for each whole line, in order.
    pub entries: Vec<Entry>,
    /// Bytes of a torn last line, which is no entry: zero unless the program that wrote it was killed in the middle.
    pub torn: usize,
}

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When it was written, in milliseconds, by the clock of that machine.
    pub time: SystemTime,
    /// What happened.
    pub event: AgentEvent,
}

/// What every line begins with that this version writes.
const BEGINNING: &[u8] = b"{\"v\":1,\"time_unix_ms\":";

#[derive(Deserialize)]
struct Line {
    v: u32,
    time_unix_ms: u64,
    #[serde(flatten)]
    event: AgentEvent,
}

/// All that can be said about a line that is otherwise not understood.
#[derive(Deserialize)]
struct Version {
    v: u32,
}

impl Recorded {
    /// Why the last run ended; `None` if it did not come to its end.
    pub fn stop(&self) -> Option<&StopReason> {
        match &self.entries.last()?.event {
            AgentEvent::Stopped { stop, .. } => Some(stop),
            _ => None,
        }
    }

    /// What to tell somebody about a torn last line, if there is one.
    pub fn warning(&self) -> Option<String> {
        let torn = self.torn;
        let message =
            || format!("the last line ({torn} bytes) was cut off while it was written, and is left out");
        (torn > 0).then(message)
    }
}

/// Reads a transcript. One that is being written can be read too, up to its last whole line.
pub fn read(path: impl AsRef<Path>) -> Result<Recorded, TranscriptError> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|error| TranscriptError::io(path, "read", error))?;
    read_from(path, &file)
}

/// Reads the transcript of this path, which is open.
pub(super) fn read_from(path: &Path, file: &File) -> Result<Recorded, TranscriptError> {
    let failed = |error| TranscriptError::io(path, "read", error);
    let mut file = BufReader::new(file);
    let mut recorded = Recorded { entries: Vec::new(), torn: 0 };
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let read = file.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut bytes).map_err(failed)?;
        if read as u64 > MAX_LINE {
            let why = format!("line {line} has more than {MAX_LINE} bytes, so it is no transcript");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        let Some(whole) = bytes.strip_suffix(b"\n") else { break };
        recorded.entries.push(entry(path, line, whole)?);
    }
    // A file of something else, which whoever goes on would cut to nothing.
    if recorded.entries.is_empty() && !bytes.iter().zip(BEGINNING).all(|(byte, own)| byte == own) {
        let why = "its only line is not the beginning of one that is written here, so it is no transcript";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    recorded.torn = bytes.len();
    Ok(recorded)
}

fn entry(path: &Path, line: usize, bytes: &[u8]) -> Result<Entry, TranscriptError> {
    let newer = |version| TranscriptError::Newer { path: path.to_owned(), line, version };
    match serde_json::from_slice::<Line>(bytes) {
        Ok(read) if read.v > VERSION => Err(newer(read.v)),
        Ok(Line { time_unix_ms, event, .. }) => {
            let time = UNIX_EPOCH.checked_add(Duration::from_millis(time_unix_ms));
            Ok(Entry { time: time.unwrap_or(UNIX_EPOCH), event })
        }
        Err(error) => match serde_json::from_slice::<Version>(bytes) {
            Ok(Version { v }) if v > VERSION => Err(newer(v)),
            _ => Err(TranscriptError::Damaged { path: path.to_owned(), line, error }),
        },
    }
}
