//! How events are written down: the shapes that OpenTelemetry's conventions for generative AI (1.41.0) give to
//! messages, and durations in seconds. Each module is for serde's `with`.

use crate::message::{Finish, Reply, ToolCall};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A message as the conventions shape it: `gen-ai-input-messages.json` and `gen-ai-output-messages.json`.
#[derive(Serialize, Deserialize)]
struct ChatMessage {
    role: String,
    parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finish_reason: Option<String>,
    /// Ours: the reply was cut for the reason named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text {
        content: String,
    },
    Reasoning {
        content: String,
    },
    ToolCall {
        id: String,
        name: String,
        /// As the model wrote them, which need not be JSON.
        arguments: String,
    },
    #[serde(other)]
    Other,
}

/// The texts of all parts.
fn text_of(parts: Vec<Part>) -> String {
    let text = |part| match part {
        Part::Text { content } => Some(content),
        _ => None,
    };
    parts.into_iter().filter_map(text).collect()
}

/// `gen_ai.system_instructions`: a list of parts.
pub(crate) mod instructions {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
        let parts = text.iter().map(|text| Part::Text { content: text.clone() });
        to.collect_seq(parts)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
        Ok(Some(text_of(Vec::deserialize(from)?)))
    }
}

/// `gen_ai.input.messages`: what the user says.
pub(crate) mod prompt {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(text.iter().map(|text| ChatMessage {
            role: "user".to_owned(),
            parts: vec![Part::Text { content: text.clone() }],
            finish_reason: None,
            cut: false,
        }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
        let messages: Vec<ChatMessage> = Vec::deserialize(from)?;
        Ok(Some(messages.into_iter().map(|message| text_of(message.parts)).collect()))
    }
}

/// `gen_ai.output.messages` and the tokens of one reply.
pub(crate) mod reply {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Attributes {
        #[serde(rename = "gen_ai.output.messages")]
        messages: [ChatMessage; 1],
        /// The conventions count prompt and reply apart, and have no name for both together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    }

    pub(crate) fn serialize<S: Serializer>(reply: &Reply, to: S) -> Result<S::Ok, S::Error> {
        let reasoning = reply.reasoning.iter().map(|text| Part::Reasoning { content: text.clone() });
        let text = Some(&reply.text).filter(|text| !text.is_empty());
        let text = text.map(|text| Part::Text { content: text.clone() });
        let calls = reply.calls.iter().cloned().map(|call| Part::ToolCall {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        });
        let (finish_reason, cut) = match &reply.finish {
            Finish::Done if reply.calls.is_empty() => ("stop", false),
            Finish::Done => ("tool_call", false),
            Finish::Refused => ("refusal", false),
            Finish::Cut(reason) => (reason.as_str(), true),
        };
        let message = ChatMessage {
            role: "assistant".to_owned(),
            parts: reasoning.chain(text).chain(calls).collect(),
            finish_reason: Some(finish_reason.to_owned()),
            cut,
        };
        Attributes { messages: [message], tokens: reply.tokens }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Reply, D::Error> {
        let Attributes { messages: [message], tokens } = Attributes::deserialize(from)?;
        let finish = match message.finish_reason.unwrap_or_default() {
            reason if message.cut => Finish::Cut(reason),
            reason if reason == "refusal" => Finish::Refused,
            _ => Finish::Done,
        };
        let mut reply = Reply { finish, tokens, ..Reply::default() };
        for part in message.parts {
            match part {
                Part::Text { content } => reply.text.push_str(&content),
                Part::Reasoning { content } => {
                    reply.reasoning.get_or_insert_default().push_str(&content);
                }
                Part::ToolCall { id, name, arguments } => reply.calls.push(ToolCall { id, name, arguments }),
                Part::Other => {}
            }
        }
        Ok(reply)
    }
}

/// A duration in seconds, as everywhere in the conventions.
pub(crate) mod seconds {
    use super::*;
    use serde::de::Error;
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(duration.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// A text under the name `message`: a variant that is only a text has nowhere to put its tag.
pub(crate) mod message {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Text {
        message: String,
    }

    pub(crate) fn serialize<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
        Text { message: text.to_owned() }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        Ok(Text::deserialize(from)?.message)
    }
}
