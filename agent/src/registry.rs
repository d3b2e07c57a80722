//! The tools on offer: unique names, checked calls, errors and panics as results.

use crate::clip::excerpt;
use crate::compile::compile;
use crate::context::Context;
use crate::message::ToolCall;
use crate::nearest::{did_you_mean, quoted_list};
use crate::shape::{ObjectShape, SchemaError};
use crate::tool::{Tool, ToolSpec};
use crate::tool_result::{ToolError, ToolErrorKind, ToolOutput};
use crate::validate;
use crate::worker::{Batch, Call, NoResult};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a tool has, after the deadline or a cancellation, to come back with what it has. A program in a sandbox is
/// killed at the deadline, and its report is worth waiting for.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// The tools that a model may call.
#[derive(Default)]
pub struct Registry {
    /// What models are told, in the order the tools were added.
    specs: Vec<ToolSpec>,
    /// One for each spec.
    entries: Vec<Entry>,
}

struct Entry {
    tool: Arc<dyn Tool>,
    shape: ObjectShape,
}

/// Why a tool cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The name breaks the rule of the chat-completions protocol.
    #[error("`{}` cannot be a tool's name: it takes 1 to 64 of a-z A-Z 0-9 _ -", excerpt(.0, 80))]
    InvalidName(String),
    /// Another tool has the name.
    #[error("there is already a tool named `{0}`")]
    DuplicateName(String),
    /// The schema says something that would not be enforced.
    #[error("the parameters of `{tool}` cannot be enforced: {error}")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong with its schema.
        error: SchemaError,
    },
}

impl Registry {
    /// A registry without tools.
    pub fn new() -> Self {
        Registry::default()
    }

    /// Adds a tool.
    pub fn add(&mut self, tool: impl Tool) -> Result<(), RegistryError> {
        let spec = tool.spec().clone();
        if !is_valid_name(&spec.name) {
            return Err(RegistryError::InvalidName(spec.name));
        }
        if self.specs.iter().any(|other| other.name == spec.name) {
            return Err(RegistryError::DuplicateName(spec.name));
        }
        let shape = compile(&spec.parameters)
            .map_err(|error| RegistryError::Schema { tool: spec.name.clone(), error })?;
        self.specs.push(spec);
        self.entries.push(Entry { tool: Arc::new(tool), shape });
        Ok(())
    }

    /// What models are told about the tools.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// The tools in words, one after the other with an empty line between them: for a model that is told about them in
    /// its prompt. See [`ToolSpec::describe`].
    pub fn describe(&self) -> String {
        let tools: Vec<String> = self.specs.iter().map(ToolSpec::describe).collect();
        tools.join("\n")
    }

    /// Runs one call, if its arguments are [accepted](crate::schema#what-is-accepted). Whatever goes wrong, a panic of the tool included, is an error that the model can read. A dry
    /// run checks the arguments, then refuses tools that change something. A tool that is still running a second
    /// after the deadline of the context, or after a cancellation, is abandoned.
    pub fn call(&self, context: &Context, call: &ToolCall, dry_run: bool) -> Result<ToolOutput, ToolError> {
        let mut batch = Batch::new(context, GRACE);
        match self.prepare(call, dry_run)?.start(&batch) {
            Ok(running) => running.wait(&mut batch).0,
            Err(error) => Err(error),
        }
    }

    /// Everything that can be wrong with a call before it runs.
    pub(crate) fn prepare(&self, call: &ToolCall, dry_run: bool) -> Result<Prepared, ToolError> {
        let found = self.specs.iter().zip(&self.entries).find(|(spec, _)| spec.name == call.name);
        let (spec, entry) = found.ok_or_else(|| self.unknown_tool(&call.name))?;
        let arguments = validate::arguments(&spec.name, &call.arguments, &entry.shape)
            .map_err(|message| ToolError::new(ToolErrorKind::InvalidArguments, message))?;
        if dry_run && spec.mutates {
            let message = format!("refused: `{}` changes something, and this is a dry run", spec.name);
            return Err(ToolError::new(ToolErrorKind::Refused, message));
        }
        Ok(Prepared { name: spec.name.clone(), tool: Arc::clone(&entry.tool), arguments })
    }

    fn unknown_tool(&self, name: &str) -> ToolError {
        let names = || self.specs.iter().map(|spec| spec.name.as_str());
        let meant = did_you_mean(name, names());
        let valid = match self.specs.len() {
            0 => "there are no tools".to_owned(),
            _ => format!("valid: {}", quoted_list(names())),
        };
        let message = format!("there is no tool `{}`{meant} ({valid})", excerpt(name, 60));
        ToolError::new(ToolErrorKind::UnknownTool, message)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("specs", &self.specs).finish_non_exhaustive()
    }
}

/// A call that can be run.
pub(crate) struct Prepared {
    name: String,
    tool: Arc<dyn Tool>,
    arguments: Value,
}

impl Prepared {
    pub(crate) fn start(self, batch: &Batch<'_>) -> Result<Running, ToolError> {
        let Prepared { name, tool, arguments } = self;
        match batch.start(move |context| tool.call(context, arguments)) {
            Ok(call) => Ok(Running { name, call }),
            Err(why) => Err(no_result(&name, why)),
        }
    }
}

/// A call under way.
pub(crate) struct Running {
    name: String,
    call: Call<Result<ToolOutput, ToolError>>,
}

impl Running {
    /// The result, and how long it took or was waited for.
    pub(crate) fn wait(self, batch: &mut Batch<'_>) -> (Result<ToolOutput, ToolError>, Duration) {
        let (outcome, elapsed) = batch.wait(self.call);
        (outcome.unwrap_or_else(|why| Err(no_result(&self.name, why))), elapsed)
    }
}

fn is_valid_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

fn no_result(tool: &str, why: NoResult) -> ToolError {
    let (kind, message) = match why {
        NoResult::Late => {
            let message = format!("`{tool}` was still running at the deadline and was abandoned");
            (ToolErrorKind::Abandoned, message)
        }
        NoResult::Cancelled => {
            let message = format!("`{tool}` was still running after the cancellation and was abandoned");
            (ToolErrorKind::Abandoned, message)
        }
        NoResult::Panicked(text) => {
            let text = text.as_deref().unwrap_or("it panicked without a message");
            (ToolErrorKind::Panicked, format!("`{tool}` failed inside: {text}"))
        }
        NoResult::NoThread(error) => {
            let message =
                format!("`{tool}` was not run: there is no thread for it: {error}; try again later");
            (ToolErrorKind::NotRun, message)
        }
    };
    ToolError::new(kind, message)
}
