//! A model that plays a script: deterministic, for tests and benchmarks.

use super::{Finish, Message, Model, ModelError, Reply, Request, ToolCall};
use crate::context::Context;
use serde_json::Value;

/// Stands for the text of the last tool result, trimmed, in answers and in texts of JSON arguments.
const LAST: &str = "{last}";

/// Plays its turns in order, one a reply. Which turn it is follows from the conversation alone, so one script serves
/// any number of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Scripted {
    name: String,
    turns: Vec<Turn>,
}

/// One reply of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// Calls, each a tool's name and its arguments.
    Calls(Vec<(String, ScriptedArguments)>),
    /// An answer.
    Answer(String),
}

/// Arguments of a scripted call.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptedArguments {
    /// A value; `{last}` in its texts is filled in.
    Json(Value),
    /// Raw text, sent as it is.
    Raw(String),
}

impl From<Value> for ScriptedArguments {
    fn from(value: Value) -> Self {
        ScriptedArguments::Json(value)
    }
}

impl From<&str> for ScriptedArguments {
    fn from(text: &str) -> Self {
        ScriptedArguments::Raw(text.to_owned())
    }
}

impl Turn {
    /// A single call.
    pub fn call(tool: impl Into<String>, arguments: impl Into<ScriptedArguments>) -> Self {
        Turn::Calls(vec![(tool.into(), arguments.into())])
    }

    /// An answer; `{last}` in it is filled in.
    pub fn answer(text: impl Into<String>) -> Self {
        Turn::Answer(text.into())
    }
}

impl Scripted {
    /// A script under a name.
    pub fn new(name: impl Into<String>, turns: Vec<Turn>) -> Self {
        Scripted { name: name.into(), turns }
    }
}

impl Model for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn reply(&self, _context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let replies = request.messages.iter().filter_map(|message| match message {
            Message::Assistant(reply) => Some(reply),
            _ => None,
        });
        let (played, calls_so_far) =
            replies.fold((0, 0), |(played, calls), reply| (played + 1, calls + reply.calls.len()));
        let turn = self.turns.get(played).ok_or_else(|| self.exhausted())?;
        let last = last_result(request.messages);
        match turn {
            Turn::Answer(text) => Ok(Reply { text: self.fill(text, last)?, ..Reply::default() }),
            Turn::Calls(calls) => {
                let numbered = calls.iter().zip(calls_so_far + 1..);
                let calls =
                    numbered.map(|((tool, arguments), number)| self.call(tool, arguments, number, last));
                Ok(Reply {
                    calls: calls.collect::<Result<_, _>>()?,
                    finish: Finish::Done,
                    ..Reply::default()
                })
            }
        }
    }
}

impl Scripted {
    fn call(
        &self,
        tool: &str,
        arguments: &ScriptedArguments,
        number: usize,
        last: Option<&str>,
    ) -> Result<ToolCall, ModelError> {
        let arguments = match arguments {
            ScriptedArguments::Raw(text) => text.clone(),
            ScriptedArguments::Json(value) => self.fill_value(value, last)?.to_string(),
        };
        Ok(ToolCall { id: format!("call_{number}"), name: tool.to_owned(), arguments })
    }

    fn fill_value(&self, value: &Value, last: Option<&str>) -> Result<Value, ModelError> {
        match value {
            Value::String(text) => self.fill(text, last).map(Value::String),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item, last)).collect(),
            Value::Object(members) => {
                members.iter().map(|(key, value)| Ok((key.clone(), self.fill_value(value, last)?))).collect()
            }
            other => Ok(other.clone()),
        }
    }

    fn fill(&self, text: &str, last: Option<&str>) -> Result<String, ModelError> {
        match last {
            _ if !text.contains(LAST) => Ok(text.to_owned()),
            Some(last) => Ok(text.replace(LAST, last)),
            None => {
                let name = &self.name;
                Err(ModelError::new(format!("script `{name}` uses {LAST} before there is a tool result")))
            }
        }
    }

    fn exhausted(&self) -> ModelError {
        let (name, turns) = (&self.name, self.turns.len());
        ModelError::new(format!(
            "script `{name}` is exhausted: the run asks for a reply after its {turns} turn(s)"
        ))
    }
}

fn last_result(messages: &[Message]) -> Option<&str> {
    messages.iter().rev().find_map(|message| match message {
        Message::Tool { text, .. } => Some(text.trim()),
        _ => None,
    })
}
