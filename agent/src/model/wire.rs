//! The chat-completions protocol as JSON, in both directions, without input or output.
//!
//! What is sent is as plain as the protocol allows; what comes back may have any shape that servers were seen to send.

use super::node::Node;
use super::{Finish, Message, Reply, Request, ToolCall};
use crate::clip::excerpt;
use crate::json::{self, Json};
use crate::listed::Listed;
use crate::tool::ToolSpec;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// More notes about one response are counted, not listed.
const MAX_NOTES: usize = 10;
/// More calls in one reply than these are no reply: each would cost memory and an answer.
const MAX_CALLS: usize = 100_000;

/// What endpoints differ in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dialect {
    /// The role of the system text.
    pub system_role: SystemRole,
    /// What stands for the text of a turn that only calls tools.
    pub missing_text: MissingText,
    /// The most tokens of one reply, under the name the endpoint takes. Not sent unless set.
    pub reply_limit: Option<ReplyLimit>,
    /// Not sent unless set: some models refuse it.
    pub temperature: Option<f64>,
}

/// The role of the system text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemRole {
    /// `system`, which nearly every server takes.
    #[default]
    System,
    /// `developer`.
    Developer,
}

/// What stands for text that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingText {
    /// `""`.
    #[default]
    Empty,
    /// `null`.
    Null,
}

/// The most tokens of one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyLimit {
    /// As `max_tokens`, the older name.
    MaxTokens(u64),
    /// As `max_completion_tokens`.
    MaxCompletionTokens(u64),
}

/// The body of a request that is answered in one piece.
pub fn request(model: &str, request: &Request<'_>, dialect: &Dialect) -> Value {
    let messages: Vec<Value> =
        request.messages.iter().map(|message| message_body(message, dialect)).collect();
    let mut body =
        Map::from_iter([("model".to_owned(), json!(model)), ("messages".to_owned(), json!(messages))]);
    // Several servers refuse empty lists, so a key without content is left out, here and below.
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool_body).collect());
    }
    match dialect.reply_limit {
        None => {}
        Some(ReplyLimit::MaxTokens(limit)) => _ = body.insert("max_tokens".to_owned(), json!(limit)),
        Some(ReplyLimit::MaxCompletionTokens(limit)) => {
            body.insert("max_completion_tokens".to_owned(), json!(limit));
        }
    }
    if let Some(temperature) = dialect.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    Value::Object(body)
}

fn tool_body(spec: &ToolSpec) -> Value {
    let function = json!({"name": spec.name, "description": spec.description, "parameters": spec.parameters});
    json!({"type": "function", "function": function})
}

fn message_body(message: &Message, dialect: &Dialect) -> Value {
    match message {
        Message::System(text) => match dialect.system_role {
            SystemRole::System => json!({"role": "system", "content": text}),
            SystemRole::Developer => json!({"role": "developer", "content": text}),
        },
        Message::User(text) => json!({"role": "user", "content": text}),
        Message::Tool { call_id, text, .. } => {
            json!({"role": "tool", "tool_call_id": call_id, "content": text})
        }
        Message::Assistant(reply) if reply.calls.is_empty() => {
            json!({"role": "assistant", "content": reply.text})
        }
        Message::Assistant(reply) => {
            let content = match dialect.missing_text {
                MissingText::Null if reply.text.is_empty() => Value::Null,
                _ => json!(reply.text),
            };
            let calls: Vec<Value> = reply.calls.iter().map(call_body).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
    }
}

fn call_body(call: &ToolCall) -> Value {
    let arguments = arguments_for_history(&call.arguments);
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

/// Some servers parse the arguments of earlier calls and refuse the whole conversation where they are not a JSON
/// object. No arguments were read as `{}`; what could not be read is quoted inside of an object.
fn arguments_for_history(arguments: &str) -> Cow<'_, str> {
    match json::parse(arguments) {
        Ok(Json::Object(_)) => Cow::Borrowed(arguments),
        _ if arguments.trim().is_empty() => Cow::Borrowed("{}"),
        _ => Cow::Owned(json!({ "unreadable_arguments": arguments }).to_string()),
    }
}

/// A response, made sense of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// The reply. A call id that the server left out is empty.
    pub reply: Reply,
    /// Tokens of the prompt alone, if reported.
    pub prompt_tokens: Option<u64>,
    /// What was odd about the response.
    pub notes: Vec<String>,
}

/// Reads the body of a successful response.
///
/// # Errors
/// What the body is instead of a reply: an error that the server reports in spite of the status, in its own words and
/// at any length, or something without the parts of a reply.
pub fn response(body: &str) -> Result<Response, String> {
    let root = Node::parse(body).ok_or("the body is not JSON")?;
    if let Some(message) = error_message(body) {
        return Err(format!("the server reports an error: {message}"));
    }
    let choices = root.member("choices").map(|choices| choices.items()).unwrap_or_default();
    let choice = choices.first().ok_or("the body has no `choices`")?;
    let message = choice.member("message").ok_or("the choice has no `message`")?;
    let mut notes = Listed::new(MAX_NOTES);
    let mut reply = Reply {
        text: message.member("content").map(|content| text(&content, &mut notes)).unwrap_or_default(),
        calls: calls(&message)?,
        reasoning: reasoning(&message),
        ..Reply::default()
    };
    reply.finish = finish(choice, &message, &mut reply.text);
    let usage = root.member("usage");
    let count =
        |name: &str| usage.as_ref().and_then(|usage| usage.member(name)).and_then(|count| count.count());
    let prompt_tokens = count("prompt_tokens");
    let sum = || prompt_tokens?.checked_add(count("completion_tokens")?);
    // Servers that do not count say zero, which no reply can cost.
    reply.tokens = count("total_tokens").or_else(sum).filter(|tokens| *tokens > 0);
    Ok(Response { reply, prompt_tokens, notes: notes.into_items() })
}

/// The message of an error that a body reports, if it does; as it was sent, at any length.
pub fn error_message(body: &str) -> Option<String> {
    let error = Node::parse(body)?.member("error")?;
    let message = error.member("message").and_then(|message| message.text());
    message.or_else(|| error.text()).or_else(|| Some(error.raw().to_owned()))
}

/// A text member of the error that a body reports, for instance `code` or `type`.
pub fn error_field(body: &str, name: &str) -> Option<String> {
    Node::parse(body)?.member("error")?.member(name)?.text()
}

/// The text of a message's content, which may come in parts. Parts do not nest.
fn text(content: &Node<'_>, notes: &mut Listed) -> String {
    if content.type_name() == "array" {
        return content.items().iter().map(|part| part_text(part, notes)).collect();
    }
    plain_text(content, notes)
}

fn part_text(part: &Node<'_>, notes: &mut Listed) -> String {
    if let Some(text) = part.member("text") {
        return plain_text(&text, notes);
    }
    // Named as a whole or not at all: of a secret cut in two, nobody could tell that it is one.
    let kind = part.member("type").and_then(|kind| kind.text()).filter(|kind| kind.chars().count() <= 40);
    notes.push(|| match kind {
        Some(kind) => format!("a part of the content was skipped: {}", excerpt(&kind, 40)),
        None => format!("a part of the content was skipped ({})", part.type_name()),
    });
    String::new()
}

fn plain_text(text: &Node<'_>, notes: &mut Listed) -> String {
    if let Some(text) = text.text() {
        return text;
    }
    let repaired = text.repaired_text();
    notes.push(|| match repaired {
        Some(_) => "the text holds halves of surrogate pairs, shown as U+FFFD".to_owned(),
        None => format!("content that is no text was skipped ({})", text.type_name()),
    });
    repaired.unwrap_or_default()
}

fn calls(message: &Node<'_>) -> Result<Vec<ToolCall>, String> {
    let listed = message.member("tool_calls").map(|calls| calls.items()).unwrap_or_default();
    if listed.len() > MAX_CALLS {
        return Err(format!("the reply makes {} calls, more than {MAX_CALLS}", listed.len()));
    }
    let mut calls: Vec<ToolCall> = listed
        .iter()
        .map(|call| {
            let function = call.member("function");
            tool_call(call.member("id").and_then(|id| id.text()), function.as_ref())
        })
        .collect();
    if calls.is_empty() {
        // The form before parallel calls.
        let function = message.member("function_call");
        calls.extend(function.map(|function| tool_call(None, Some(&function))));
    }
    Ok(calls)
}

/// Parts that are missing become empty, and the loop answers the call with what is wrong.
fn tool_call(id: Option<String>, function: Option<&Node<'_>>) -> ToolCall {
    let member = |name: &str| function.and_then(|function| function.member(name));
    // Arguments that are an object instead of text are kept as they were written, and so is text that cannot be
    // decoded: the validator then says where.
    let arguments = member("arguments").map(|node| node.text().unwrap_or_else(|| node.raw().to_owned()));
    ToolCall {
        id: id.unwrap_or_default(),
        name: member("name").and_then(|name| name.text()).unwrap_or_default(),
        arguments: arguments.unwrap_or_default(),
    }
}

fn reasoning(message: &Node<'_>) -> Option<String> {
    ["reasoning_content", "reasoning"]
        .iter()
        .find_map(|name| message.member(name)?.text().filter(|text| !text.is_empty()))
}

/// Whether there are calls is told by the calls, so `stop` and `tool_calls` mean the same.
fn finish(choice: &Node<'_>, message: &Node<'_>, text: &mut String) -> Finish {
    let refusal =
        message.member("refusal").and_then(|refusal| refusal.text()).filter(|refusal| !refusal.is_empty());
    if let Some(refusal) = refusal {
        if text.is_empty() {
            *text = refusal;
        }
        return Finish::Refused;
    }
    let reason = choice.member("finish_reason").and_then(|reason| reason.text()).unwrap_or_default();
    match reason.as_str() {
        "length" | "max_tokens" | "content_filter" | "error" => Finish::Cut(reason),
        _ => Finish::Done,
    }
}
