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

use super::{Finish, Message, Model, ModelError, Reply, Request, ToolCall};
use crate::context::Context;
use crate::tool::ToolSpec;
use std::fmt::Write;

/// The word that makes a block a call.
const CALL: &str = "call";

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
    let mut text = "You have tools. To use one, write a block that begins with a line of three backticks, the word \
                    `call` and the tool's name, holds the arguments as one JSON object, and ends with a line of three \
                    backticks, for example:\n\n```call tool_name\n{\"argument\": \"value\"}\n```\n\nThen stop, and the \
                    result will be the next message. Several blocks are several calls. Without such a block your text is \
                    your answer. The tools, each with the JSON Schema of its arguments:\n"
        .to_owned();
    for tool in tools {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n- {}: {}\n  {}\n", tool.name, tool.description, tool.parameters);
    }
    text
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

/// The reply with its calls as text.
fn as_written(reply: &Reply) -> Reply {
    let mut text = reply.text.clone();
    for ToolCall { name, arguments, .. } in &reply.calls {
        // A longer fence than any in the arguments.
        let fence = "`".repeat(longest_run(arguments).max(2) + 1);
        let gap = if text.is_empty() { "" } else { "\n\n" };
        let _ = write!(text, "{gap}{fence}{CALL} {name}\n{}\n{fence}", arguments.trim());
    }
    Reply { text, calls: Vec::new(), ..reply.clone() }
}

/// The most backticks in a row.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// The reply with the calls that are written in it taken out of its text.
fn with_calls(reply: Reply) -> Reply {
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for line in reply.text.split_inclusive('\n') {
        let bare = line.trim_end();
        match &mut open {
            None => {
                open = Block::opened_by(bare);
                if open.as_ref().is_none_or(|block| block.tool.is_none()) {
                    text.push_str(line);
                }
            }
            Some(block) => {
                let is_end = block.is_ended_by(bare);
                match block.tool {
                    None => text.push_str(line),
                    Some(_) if !is_end => block.content.push_str(line),
                    Some(name) => calls.push(block.call(name)),
                }
                if is_end {
                    open = None;
                }
            }
        }
    }
    let mut finish = reply.finish;
    if let Some((block, name)) = open.as_ref().and_then(|block| Some((block, block.tool?))) {
        calls.push(block.call(name));
        if finish == Finish::Done {
            finish = Finish::Cut("the last call has no end".to_owned());
        }
    }
    let text = if calls.is_empty() { text } else { text.trim().to_owned() };
    Reply { text, calls, finish, ..reply }
}

/// A fenced block.
struct Block<'a> {
    /// How many backticks or tildes, and which of them.
    width: usize,
    mark: char,
    /// The tool, if the block is a call.
    tool: Option<&'a str>,
    content: String,
}

impl<'a> Block<'a> {
    fn opened_by(line: &'a str) -> Option<Self> {
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let width = line.len() - info.len();
        if width < 3 || (mark == '`' && info.contains('`')) {
            return None;
        }
        let words = info.split_whitespace().collect::<Vec<_>>();
        let tool = match words[..] {
            [CALL, name] if mark == '`' => Some(name),
            _ => None,
        };
        Some(Block { width, mark, tool, content: String::new() })
    }

    fn is_ended_by(&self, line: &str) -> bool {
        line.len() >= self.width && line.chars().all(|c| c == self.mark)
    }

    /// The loop gives the call an id.
    fn call(&self, name: &str) -> ToolCall {
        ToolCall { id: String::new(), name: name.to_owned(), arguments: self.content.trim().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> Reply {
        with_calls(Reply { text: text.to_owned(), ..Reply::default() })
    }

    fn calls(text: &str) -> Vec<(String, String)> {
        read(text).calls.into_iter().map(|call| (call.name, call.arguments)).collect()
    }

    fn call(name: &str, arguments: &str) -> (String, String) {
        (name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn blocks_are_calls() {
        let reply = read("I count.\n```call python\n{\"code\": \"1\"}\n```\n");
        assert_eq!((reply.text.as_str(), reply.finish), ("I count.", Finish::Done));
        for (text, wanted) in [
            ("```call t\n{}\n```", vec![call("t", "{}")]),
            ("```call t\n```", vec![call("t", "")]),
            ("``` call  t \r\n{}\r\n``` \r\n", vec![call("t", "{}")]),
            (
                "```call t\n{}\n```\nand\n```call u\n{\"a\":\n1}\n```",
                vec![call("t", "{}"), call("u", "{\"a\":\n1}")],
            ),
            ("````call t\n{\"a\": \"\n```\n\"}\n````", vec![call("t", "{\"a\": \"\n```\n\"}")]),
            ("```call t\nnot JSON\n```", vec![call("t", "not JSON")]),
        ] {
            assert_eq!(calls(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn everything_else_is_text() {
        for text in [
            "42",
            "call t\n{}",
            "```\ncall t\n```",
            "```json\n{\"name\": \"t\", \"arguments\": {}}\n```",
            "```call\n{}\n```",
            "```call t u\n{}\n```",
            "```caller t\n{}\n```",
            "~~~call t\n{}\n~~~",
            "    ```call t\n{}\n```",
            "Use ```call t``` for it.",
            "````markdown\n```call t\n{}\n```\n````\n",
            "```text\n```call t\n{}\n```",
            "<tool_call>{\"name\": \"t\"}</tool_call>",
        ] {
            let reply = read(text);
            assert_eq!(
                (reply.calls, reply.text.as_str(), reply.finish),
                (vec![], text, Finish::Done),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_call_without_an_end_is_cut() {
        let reply = read("```call t\n{}\n```\n```call u\n{\"a\":");
        assert_eq!(reply.calls.len(), 2, "each gets an answer");
        assert_eq!(reply.finish, Finish::Cut("the last call has no end".to_owned()));
        let cut = Reply {
            finish: Finish::Cut("length".to_owned()),
            text: "```call t\n{}".to_owned(),
            ..Reply::default()
        };
        assert_eq!(with_calls(cut).finish, Finish::Cut("length".to_owned()), "the first reason stays");
    }

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
                && system.contains("\n- t: Does it.\n  {\"type\":\"object\"}\n"),
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

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            text in "[a-z .]{0,9}", arguments in prop::collection::vec("[{}`\n\"a~]{0,12}", 0..4)
        ) {
            let calls: Vec<ToolCall> = arguments.iter().map(|arguments| {
                ToolCall { id: String::new(), name: "t".to_owned(), arguments: arguments.trim().to_owned() }
            }).collect();
            let written = as_written(&Reply { text: text.clone(), calls: calls.clone(), ..Reply::default() });
            let read = with_calls(written);
            prop_assert_eq!(&read.calls, &calls);
            prop_assert_eq!(read.text.trim(), text.trim());
            prop_assert_eq!(read.finish, Finish::Done);
        }

        #[test]
        fn any_text_is_read(text in "(```call t\n|```|~~~|\\{\\}|\n|\\PC){0,20}") {
            let _ = read(&text);
        }
    }
}
