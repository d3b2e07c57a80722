//! The tools on offer: unique names, checked calls, errors and panics as results.

use crate::clip::excerpt;
use crate::context::Context;
use crate::model::ToolCall;
use crate::nearest::nearest;
use crate::shape::{ObjectShape, SchemaError, compile};
use crate::tool::{Tool, ToolError, ToolErrorKind, ToolOutput, ToolSpec};
use crate::validate;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The tools that a model may call.
#[derive(Default)]
pub struct Registry {
    /// What models are told, in the order the tools were added.
    specs: Vec<ToolSpec>,
    /// One for each spec.
    entries: Vec<Entry>,
}

struct Entry {
    tool: Box<dyn Tool>,
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
        self.entries.push(Entry { tool: Box::new(tool), shape });
        Ok(())
    }

    /// What models are told about the tools.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Runs one call. Whatever goes wrong, a panic of the tool included, is an error that the model can read. A dry
    /// run refuses tools that change something.
    pub fn call(&self, context: &Context, call: &ToolCall, dry_run: bool) -> Result<ToolOutput, ToolError> {
        let found = self.specs.iter().zip(&self.entries).find(|(spec, _)| spec.name == call.name);
        let (spec, entry) = found.ok_or_else(|| self.unknown_tool(&call.name))?;
        if dry_run && spec.mutates {
            let message = format!("refused: `{}` changes something, and this is a dry run", spec.name);
            return Err(ToolError::new(ToolErrorKind::Refused, message));
        }
        let arguments = validate::arguments(&spec.name, &call.arguments, &entry.shape)
            .map_err(|message| ToolError::new(ToolErrorKind::InvalidArguments, message))?;
        // A tool that panicked may have left its own state half-changed; it is the tool's part to cope with that.
        let outcome = catch_unwind(AssertUnwindSafe(|| entry.tool.call(context, arguments)));
        outcome.unwrap_or_else(|payload| Err(panicked(&spec.name, &*payload)))
    }

    fn unknown_tool(&self, name: &str) -> ToolError {
        let names = || self.specs.iter().map(|spec| spec.name.as_str());
        let meant =
            nearest(name, names()).map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
        let valid = match self.specs.len() {
            0 => "there are no tools".to_owned(),
            _ => format!("valid: {}", validate::quoted_list(names())),
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

fn is_valid_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

fn panicked(tool: &str, payload: &(dyn Any + Send)) -> ToolError {
    let text =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let message = format!("`{tool}` failed inside: {}", text.unwrap_or("it panicked without a message"));
    ToolError::new(ToolErrorKind::Panicked, message)
}
