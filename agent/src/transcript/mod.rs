//! What happened in a run, kept in a file while it happens.
//!
//! A transcript is JSON Lines: one [`AgentEvent`] a line, as a JSON object with two members more, `v` (the version of
//! the format, [`VERSION`]) and `time_unix_ms`. A line is handed to the operating system whole and before the run goes
//! on, so a killed process leaves at most a torn last line, which a reader drops; a crash of the whole machine can take
//! the last lines with it. An event that begins something stands there before it is begun: a call with a
//! [`ToolStarted`](AgentEvent::ToolStarted) and no [`ToolFinished`](AgentEvent::ToolFinished) may have happened or not.
//!
//! A file holds any number of runs of one conversation, one after another. Within a version events and members may be
//! added; what is there keeps name and meaning.
//!
//! ```
//! use agentkit_agent::model::scripted::{Scripted, Turn};
//! use agentkit_agent::transcript::{self, Transcript};
//! use agentkit_agent::{Agent, Registry};
//!
//! # let directory = tempfile::tempdir()?;
//! let path = directory.path().join("run.jsonl");
//! let script = || Scripted::new("example", vec![Turn::answer("Hello."), Turn::answer("Still here.")]);
//! Agent::new(script(), Registry::new()).transcript(Transcript::create(&path)?).run("Good morning");
//!
//! // Later, perhaps in another process, and whether or not the first run came to its end.
//! let (transcript, recorded) = Transcript::reopen(&path)?;
//! let agent = Agent::new(script(), Registry::new()).transcript(transcript);
//! let trajectory = agent.continue_with(recorded.conversation(), "Anyone there?");
//! assert_eq!(trajectory.answer.as_deref(), Some("Still here."));
//! assert_eq!(transcript::read(&path)?.entries.len(), 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod read;
mod resume;

use read::read_from;
pub use read::{Entry, Recorded, read};

use crate::event::AgentEvent;
use serde::Serialize;
use serde_json::Value;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of the format. A reader refuses lines of a later one.
pub const VERSION: u32 = 1;

/// Deeper values of [`AgentEvent::ToolFinished::details`] are left out: the reader's limit is 128 levels.
const MAX_DEPTH: usize = 100;

/// A transcript that is being written. While it is open, nobody else can open it for writing.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    file: Mutex<Target>,
}

#[derive(Debug)]
struct Target {
    file: File,
    /// Bytes of all whole lines.
    len: u64,
    /// A run is writing.
    busy: bool,
}

/// Why a transcript cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The operating system refuses.
    #[error("transcript {}: cannot {doing} it: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the operating system says.
        error: io::Error,
    },
    /// Another program, or this one, is writing to it.
    #[error("transcript {}: somebody is writing to it; wait for the end of that run", .0.display())]
    Busy(PathBuf),
    /// A line in it is no event. Only the last line can be torn by a killed program, so somebody changed the file.
    #[error("transcript {}: line {line} is no event: {error}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// It was written by a later version of this program.
    #[error("transcript {}: line {line} has version {version}, and this program knows {VERSION}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The version that it names.
        version: u32,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    time_unix_ms: u64,
    #[serde(flatten)]
    event: &'a AgentEvent,
}

impl Transcript {
    /// A new file, readable by its owner alone. One that exists is left as it is, and an error.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, TranscriptError> {
        let path = path.as_ref();
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| TranscriptError::io(path, "create", error))?;
        Transcript::locked(path, file)
    }

    /// Reads a file and goes on where it ends. A torn last line is cut off.
    pub fn reopen(path: impl AsRef<Path>) -> Result<(Self, Recorded), TranscriptError> {
        let path = path.as_ref();
        // With both, a named pipe without a writer does not hold the program.
        let file = OpenOptions::new().read(true).append(true).open(path);
        let transcript =
            Transcript::locked(path, file.map_err(|error| TranscriptError::io(path, "open", error))?)?;
        let mut target = transcript.lock();
        // A device or a pipe cannot be shortened, and may never end.
        if !target.file.metadata().is_ok_and(|there| there.is_file()) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
            return Err(TranscriptError::io(path, "go on with", error));
        }
        // The file that is locked, whatever its name stands for by now.
        let recorded = read_from(path, &target.file)?;
        target.len = target.len.saturating_sub(recorded.torn as u64);
        let shortened = target.file.set_len(target.len);
        drop(target);
        shortened.map_err(|error| TranscriptError::io(path, "shorten", error))?;
        Ok((transcript, recorded))
    }

    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn locked(path: &Path, file: File) -> Result<Self, TranscriptError> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(TranscriptError::Busy(path.to_owned())),
            // Better without a lock than without a transcript.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(TranscriptError::io(path, "lock", error)),
        }
        let len = file.metadata().map_err(|error| TranscriptError::io(path, "look at", error))?.len();
        Ok(Transcript { path: path.to_owned(), file: Mutex::new(Target { file, len, busy: false }) })
    }

    fn lock(&self) -> MutexGuard<'_, Target> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TranscriptError {
    fn io(path: &Path, doing: &'static str, error: io::Error) -> Self {
        TranscriptError::Io { path: path.to_owned(), doing, error }
    }
}

/// One run's right to write.
pub(crate) struct Recording(Arc<Transcript>);

impl Recording {
    /// Runs that write at the same time would mix their lines.
    pub(crate) fn begin(transcript: &Arc<Transcript>) -> Result<Self, String> {
        let mut target = transcript.lock();
        if std::mem::replace(&mut target.busy, true) {
            return Err(format!("another run is writing to {}", transcript.path.display()));
        }
        Ok(Recording(Arc::clone(transcript)))
    }

    /// Appends a line. After an error the file is as it was before, as far as the operating system allows.
    pub(crate) fn write(&self, event: &AgentEvent) -> Result<(), String> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_unix_ms = since.as_millis().try_into().unwrap_or(u64::MAX);
        let shallow = without_deep_details(event);
        let event = shallow.as_ref().unwrap_or(event);
        let failed = |error: io::Error| format!("{}: {error}", self.0.path.display());
        let mut line = serde_json::to_vec(&Line { v: VERSION, time_unix_ms, event })
            .map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let mut target = self.0.lock();
        if let Err(error) = target.file.write_all(&line) {
            let _ = target.file.set_len(target.len);
            return Err(failed(error));
        }
        target.len += line.len() as u64;
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.0.lock().busy = false;
    }
}

fn without_deep_details(event: &AgentEvent) -> Option<AgentEvent> {
    match event {
        AgentEvent::ToolFinished { details, .. } if is_deeper(details, MAX_DEPTH) => {
            let mut event = event.clone();
            if let AgentEvent::ToolFinished { details, .. } = &mut event {
                *details = Value::from(format!("left out: deeper than {MAX_DEPTH} levels"));
            }
            Some(event)
        }
        _ => None,
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let inner = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(inner),
        Value::Object(members) => members.values().any(inner),
        _ => false,
    }
}
