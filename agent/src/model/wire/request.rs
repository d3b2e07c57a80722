//! What is sent.

use super::dialect::{Dialect, MissingText, ReasoningEcho, ReplyLimit, Streaming, SystemRole};
use crate::json::{self, Json};
use crate::model::{Message, Reply, Request, ToolCall};
use crate::tool::ToolSpec;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The body of a request.
pub fn request(model: &str, request: &Request<'_>, dialect: &Dialect) -> Value {
    let mut body = Map::from_iter([
        ("model".to_owned(), json!(model)),
        ("messages".to_owned(), Value::Array(messages(request.messages, dialect))),
    ]);
    // Several servers refuse empty lists, so a key without content is left out, here and below.
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool_body).collect());
    }
    let limit = dialect.reply_limit.map(|limit| match limit {
        ReplyLimit::MaxTokens(limit) => ("max_tokens", limit),
        ReplyLimit::MaxCompletionTokens(limit) => ("max_completion_tokens", limit),
    });
    if let Some((name, limit)) = limit {
        body.insert(name.to_owned(), json!(limit));
    }
    if let Some(temperature) = dialect.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if dialect.streaming != Streaming::Off {
        body.insert("stream".to_owned(), json!(true));
    }
    if dialect.streaming == Streaming::WithUsage {
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    Value::Object(body)
}

fn tool_body(spec: &ToolSpec) -> Value {
    let function = json!({"name": spec.name, "description": spec.description, "parameters": spec.parameters});
    json!({"type": "function", "function": function})
}

fn messages(messages: &[Message], dialect: &Dialect) -> Vec<Value> {
    let mut bodies = Vec::with_capacity(messages.len());
    // System text on its way into the next text of the user.
    let mut waiting: Option<String> = None;
    for message in messages {
        match message {
            Message::System(text) if dialect.system_role == SystemRole::User => {
                waiting = Some(waiting.map_or_else(|| text.clone(), |before| format!("{before}\n\n{text}")));
            }
            Message::User(text) => {
                let text = match waiting.take() {
                    Some(before) => Cow::Owned(format!("{before}\n\n{text}")),
                    None => Cow::Borrowed(text),
                };
                bodies.push(json!({"role": "user", "content": text}));
            }
            other => bodies.push(message_body(other, dialect)),
        }
    }
    bodies.extend(waiting.map(|text| json!({"role": "user", "content": text})));
    bodies
}

fn message_body(message: &Message, dialect: &Dialect) -> Value {
    match message {
        Message::System(text) => match dialect.system_role {
            SystemRole::Developer => json!({"role": "developer", "content": text}),
            SystemRole::System | SystemRole::User => json!({"role": "system", "content": text}),
        },
        Message::User(text) => json!({"role": "user", "content": text}),
        Message::Tool { call_id, text, .. } => {
            json!({"role": "tool", "tool_call_id": call_id, "content": text})
        }
        Message::Assistant(reply) => assistant_body(reply, dialect),
    }
}

fn assistant_body(reply: &Reply, dialect: &Dialect) -> Value {
    let content = match dialect.missing_text {
        MissingText::Null if reply.text.is_empty() && !reply.calls.is_empty() => Value::Null,
        _ => json!(reply.text),
    };
    let mut body = json!({"role": "assistant", "content": content});
    if !reply.calls.is_empty() {
        body["tool_calls"] = reply.calls.iter().map(call_body).collect();
    }
    if let Some(reasoning) = &reply.reasoning {
        match dialect.reasoning {
            ReasoningEcho::No => {}
            ReasoningEcho::ReasoningContent => body["reasoning_content"] = json!(reasoning),
            ReasoningEcho::Reasoning => body["reasoning"] = json!(reasoning),
        }
    }
    body
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
