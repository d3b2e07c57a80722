//! Calls as blocks of Markdown.

use crate::model::{Finish, Reply, ToolCall};
use std::fmt::Write;

/// The word that makes a block a call.
const CALL: &str = "call";

/// The reply with its calls as text.
pub(super) fn as_written(reply: &Reply) -> Reply {
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
pub(super) fn with_calls(reply: Reply) -> Reply {
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
