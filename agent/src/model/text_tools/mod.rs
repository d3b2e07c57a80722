//! Tools for models that only write text.
//!
//! An opt-in: the model inside is told in its instructions what tools there are and how to write a call, and calls are
//! read from what it writes. A model that is not wrapped like this never has its text run.
//!
//! A call is a fenced block of Markdown whose first line names the tool, and whose content is the JSON of the arguments:
//!
//! ````text
//! ```call python
//! {"code": "print(1)"}
//! ```
//! ````
//!
//! Blocks are told as [CommonMark](https://spec.commonmark.org/0.31.2/#fenced-code-blocks) tells them, but without
//! indentation: such a block inside of another, as in an answer that explains this, is no call. What stands in a block is
//! checked as any other call is. A last block without its end is a reply that was cut, of which nothing is run.
//! Listeners hear the text as the model writes it, blocks included.

mod blocks;

use super::{Message, Model, ModelError, Reply, Request};
use crate::context::Context;
use crate::tool::ToolSpec;
use blocks::{as_written, with_calls};
use std::fmt::Write;

/// A model that only writes text, with tools.
#[derive(Clone, Debug)]
pub struct TextTools<M> {
    model: M,
}

impl<M: Model> TextTools<M> {
    /// Gives tools to this model.
    pub fn new(model: M) -> Self {
        TextTools { model }
    }
}

impl<M: Model> Model for TextTools<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        if request.tools.is_empty() {
            return self.model.reply(context, request);
        }
        let messages = as_text(request);
        let reply = self.model.reply(context, &Request { messages: &messages, tools: &[] })?;
        Ok(with_calls(reply))
    }
}

/// What the model is told about its tools.
fn instructions(tools: &[ToolSpec]) -> String {
    let form = "You have tools. To use one, write a block that begins with a line of three backticks, the word `call` \
                and the tool's name, holds the arguments as one JSON object, and ends with a line of three backticks, \
                for example:\n\n```call tool_name\n{\"argument\": \"value\"}\n```\n\nThen stop, and the result will be \
                the next message. Several blocks are several calls. Without such a block your text is your answer. The \
                tools:\n\n";
    let described: Vec<String> = tools.iter().map(ToolSpec::describe).collect();
    form.to_owned() + &described.join("\n")
}

/// The conversation as text alone: the tools in the instructions, calls as the model writes them, results as the user's.
fn as_text(request: &Request<'_>) -> Vec<Message> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    let mut rest = request.messages;
    let mut system = instructions(request.tools);
    while let Some((Message::System(text), others)) = rest.split_first() {
        system = format!("{text}\n\n{system}");
        rest = others;
    }
    messages.push(Message::System(system));
    // Results of one reply become one message, since many models insist on turns.
    let mut results = String::new();
    for message in rest {
        if let Message::Tool { call_id, text, is_error } = message {
            let outcome = if *is_error { "failed" } else { "returned" };
            let name = called_name(request.messages, call_id);
            let _ = write!(
                results,
                "{}`{name}` {outcome}:\n{text}",
                if results.is_empty() { "" } else { "\n\n" }
            );
            continue;
        }
        if !results.is_empty() {
            messages.push(Message::User(std::mem::take(&mut results)));
        }
        messages.push(match message {
            Message::Assistant(reply) => Message::Assistant(as_written(reply)),
            other => other.clone(),
        });
    }
    if !results.is_empty() {
        messages.push(Message::User(results));
    }
    messages
}

/// The name of the tool that was called with this id.
fn called_name<'a>(messages: &'a [Message], id: &str) -> &'a str {
    let calls = messages.iter().rev().filter_map(|message| match message {
        Message::Assistant(reply) => reply.calls.iter().find(|call| call.id == id),
        _ => None,
    });
    calls.map(|call| call.name.as_str()).next().unwrap_or("tool")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ToolCall;
    use serde_json::json;

    /// Answers with a text, and keeps what it was asked.
    struct Writes(&'static str, std::sync::Mutex<Vec<Vec<Message>>>);

    impl Model for Writes {
        fn name(&self) -> &str {
            "writes"
        }

        fn reply(&self, _context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
            assert!(request.tools.is_empty(), "it knows of none");
            self.1.lock().expect("lock").push(request.messages.to_vec());
            Ok(Reply { text: self.0.to_owned(), ..Reply::default() })
        }
    }

    #[test]
    fn the_model_reads_a_conversation_in_text() {
        let tool = ToolSpec {
            name: "t".to_owned(),
            description: "Does it.".to_owned(),
            parameters: json!({"type": "object"}),
            mutates: false,
        };
        let called = |id: &str| ToolCall {
            id: id.to_owned(),
            name: "t".to_owned(),
            arguments: "{\"a\":\"```\"}".to_owned(),
        };
        let result =
            |id: &str, is_error| Message::Tool { call_id: id.to_owned(), text: format!("r{id}"), is_error };
        let messages = [
            Message::System("Be brief.".to_owned()),
            Message::User("go".to_owned()),
            Message::Assistant(Reply {
                text: "so".to_owned(),
                calls: vec![called("1"), called("2")],
                ..Reply::default()
            }),
            result("1", false),
            result("2", true),
        ];
        let model = TextTools::new(Writes("```call t\n{}\n```", std::sync::Mutex::default()));
        let tools = [tool];
        let reply = model.reply(&Context::detached(), &Request { messages: &messages, tools: &tools });
        assert_eq!(reply.expect("a reply").calls.len(), 1);
        let asked = model.model.1.lock().expect("lock")[0].clone();
        let [Message::System(system), user, Message::Assistant(assistant), Message::User(results)] =
            &asked[..]
        else {
            panic!("{asked:?}")
        };
        assert!(
            system.starts_with("Be brief.\n\n")
                && system.ends_with("## t\nDoes it.\nArguments (object with any names):\n"),
            "{system}"
        );
        assert_eq!(user, &messages[1]);
        assert_eq!(
            assistant.text,
            "so\n\n````call t\n{\"a\":\"```\"}\n````\n\n````call t\n{\"a\":\"```\"}\n````"
        );
        assert_eq!(results, "`t` returned:\nr1\n\n`t` failed:\nr2");
        let plain = model.reply(&Context::detached(), &Request { messages: &messages, tools: &[] });
        assert!(plain.expect("a reply").calls.is_empty(), "without tools there is nothing to call");
    }

    #[test]
    fn a_run_uses_tools_through_text_alone() {
        use crate::model::scripted::{Scripted, Turn};
        use crate::tools::calculator;
        use crate::{Agent, Registry, StopReason};
        let turns = vec![
            Turn::answer("Let me see.\n\n```call calculator\n{\"expression\": \"6 * 7\"}\n```"),
            Turn::answer("```call calculator\n{\"expression\": 42}\n```"),
            Turn::answer("It is 42."),
        ];
        let mut registry = Registry::new();
        registry.add(calculator::tool()).expect("a valid tool");
        let run = Agent::new(TextTools::new(Scripted::new("s", turns)), registry).run("go");
        assert_eq!((&run.stop, run.answer.as_deref()), (&StopReason::Answered, Some("It is 42.")), "{run:?}");
        let results: Vec<bool> = run.calls().map(|record| record.result.is_ok()).collect();
        assert_eq!(results, [true, false], "arguments are checked as those of other calls: {run:?}");
    }
}
