//! A model that plays a script: deterministic, for tests and benchmarks.

use super::{Message, Model, ModelError, Reply, Request, ToolCall};
use crate::context::Context;
use serde_json::Value;

/// Stands for the text of the last tool result, trimmed, in answers and in texts of JSON arguments.
const LAST: &str = "{last}";

/// Plays its turns in order, one a reply. Which turn it is follows from the conversation alone, so one script serves
/// any number of runs. A conversation that this script cannot have led to, since the last reply in it is not the turn
/// before, is refused.
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
        let mut played = 0;
        let mut calls_so_far = 0;
        let mut last_reply = None;
        for message in request.messages {
            if let Message::Assistant(reply) = message {
                (played, calls_so_far) = (played + 1, calls_so_far + reply.calls.len());
                last_reply = Some(reply);
            }
        }
        if let Some(reply) = last_reply {
            self.check(reply, played)?;
        }
        let turn = self.turns.get(played).ok_or_else(|| self.exhausted())?;
        self.play(turn, calls_so_far, request.messages)
    }
}

impl Scripted {
    /// The reply of a turn. `calls_so_far` makes ids unique.
    fn play(&self, turn: &Turn, calls_so_far: usize, before: &[Message]) -> Result<Reply, ModelError> {
        let last = last_result(before);
        match turn {
            Turn::Answer(text) => Ok(Reply { text: self.fill(text, last)?, ..Reply::default() }),
            Turn::Calls(calls) => {
                let numbered = calls.iter().zip(calls_so_far + 1..);
                let calls =
                    numbered.map(|((tool, arguments), number)| self.call(tool, arguments, number, last));
                Ok(Reply { calls: calls.collect::<Result<_, _>>()?, ..Reply::default() })
            }
        }
    }

    /// Whether the reply can be the turn of this number, from 1. Ids are the loop's to change, and what was filled in may
    /// be gone from the conversation.
    fn check(&self, reply: &Reply, number: usize) -> Result<(), ModelError> {
        let fits = |scripted: &str, said: &str| scripted == said || scripted.contains(LAST);
        let is_call = |((tool, arguments), call): (&(String, ScriptedArguments), &ToolCall)| {
            *tool == call.name
                && match arguments {
                    ScriptedArguments::Raw(text) => *text == call.arguments,
                    ScriptedArguments::Json(value) => fits(&value.to_string(), &call.arguments),
                }
        };
        let is_the_turn = match self.turns.get(number - 1).ok_or_else(|| self.exhausted())? {
            Turn::Answer(text) => reply.calls.is_empty() && fits(text, &reply.text),
            Turn::Calls(calls) => {
                calls.len() == reply.calls.len() && calls.iter().zip(&reply.calls).all(is_call)
            }
        };
        if is_the_turn {
            return Ok(());
        }
        let name = &self.name;
        Err(ModelError::new(format!(
            "script `{name}` is asked to go on with another conversation: reply {number} in it is not turn {number}"
        )))
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(script: &Scripted, messages: &[Message]) -> Result<Reply, String> {
        let request = Request { messages, tools: &[] };
        script.reply(&Context::detached(), &request).map_err(|error| error.message)
    }

    #[test]
    fn a_script_goes_on_with_its_own_conversation_only() {
        let script = Scripted::new("s", vec![Turn::call("t", json!({"n": 1})), Turn::answer("{last}!")]);
        let mut messages = vec![Message::User("go".to_owned())];
        let mut reply = ask(&script, &messages).expect("the first turn");
        // The loop may give another id.
        reply.calls[0].id = "x".to_owned();
        let result = Message::Tool { call_id: "x".to_owned(), text: "2\n".to_owned(), is_error: false };
        messages.extend([Message::Assistant(reply.clone()), result]);
        assert_eq!(ask(&script, &messages).map(|reply| reply.text), Ok("2!".to_owned()));

        let mut other = messages.clone();
        reply.calls[0].arguments = "{}".to_owned();
        other[1] = Message::Assistant(reply);
        let error = ask(&script, &other).expect_err("another conversation");
        assert!(error.contains("`s`") && error.contains("reply 1 in it is not turn 1"), "{error}");
        messages.push(Message::Assistant(Reply { text: "2!".to_owned(), ..Reply::default() }));
        let error = ask(&script, &messages).expect_err("nothing left");
        assert_eq!(error, "script `s` is exhausted: the run asks for a reply after its 2 turn(s)");
    }
}
