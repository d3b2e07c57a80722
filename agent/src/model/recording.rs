//! Writes down what a model replies, so that [`Replay`](super::replay::Replay) can say it again.
//!
//! One line of JSON for each request, written as soon as it is answered: `version`, `request` (a digest of all that was
//! asked) and either `reply` or `error`.

use super::{Message, Model, ModelError, Reply, Request};
use crate::context::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) version: u32,
    pub(super) request: String,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Reply(Reply),
    Error(ModelError),
}

/// The model inside, and a record of all it says. What cannot be written down is an error, not a gap in the record.
pub struct Recording<M> {
    model: M,
    lines: Mutex<Box<dyn Write + Send>>,
}

impl<M: Model> Recording<M> {
    /// Writes to `lines`.
    pub fn new(model: M, lines: impl Write + Send + 'static) -> Self {
        Recording { model, lines: Mutex::new(Box::new(lines)) }
    }

    /// Writes to a new file.
    ///
    /// # Errors
    /// If the file is there already or cannot be made.
    pub fn create(model: M, file: &Path) -> io::Result<Self> {
        Ok(Recording::new(model, File::create_new(file)?))
    }

    fn write(&self, line: &Line) -> io::Result<()> {
        // One call, so that a line is whole or torn at its end, never mixed with another.
        let text = serde_json::to_string(line)? + "\n";
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.write_all(text.as_bytes())?;
        lines.flush()
    }
}

impl<M: Model> Model for Recording<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let result = self.model.reply(context, request);
        let outcome = match &result {
            Ok(reply) => Outcome::Reply(reply.clone()),
            Err(error) => Outcome::Error(error.clone()),
        };
        let line = Line { version: VERSION, request: digest(request), outcome };
        self.write(&line).map_err(|error| {
            ModelError::new(format!("the reply of `{}` cannot be recorded: {error}", self.name()))
        })?;
        result
    }
}

impl<M: Model> fmt::Debug for Recording<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("model", &self.model.name()).finish_non_exhaustive()
    }
}

/// SHA-256 of messages and tools as JSON, in hexadecimal digits.
pub(super) fn digest(request: &Request<'_>) -> String {
    #[derive(Serialize)]
    struct Asked<'a> {
        messages: &'a [Message],
        tools: Vec<(&'a str, &'a str, &'a Value)>,
    }
    let tools =
        request.tools.iter().map(|tool| (&*tool.name, &*tool.description, &tool.parameters)).collect();
    // Texts and numbers always serialize.
    let asked = serde_json::to_vec(&Asked { messages: request.messages, tools }).unwrap_or_default();
    Sha256::digest(asked).iter().map(|byte| format!("{byte:02x}")).collect()
}
