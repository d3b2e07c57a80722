//! What a model is: something that answers a conversation with text or tool calls.

#[cfg(feature = "openai")]
mod asking;
#[cfg(feature = "openai")]
mod endpoint;
#[cfg(feature = "openai")]
mod failure;
#[cfg(feature = "openai")]
mod http;
#[cfg(feature = "openai")]
mod listener;
#[cfg(feature = "openai")]
mod models;
#[cfg(feature = "openai")]
pub mod openai;
#[cfg(feature = "openai")]
mod proxies;
#[cfg(feature = "openai")]
mod receive;
pub mod recording;
#[cfg(feature = "openai")]
mod redact;
pub mod replay;
#[cfg(feature = "openai")]
pub mod retry;
pub mod scripted;
pub mod text_tools;
#[cfg(feature = "openai")]
mod trouble;
mod unparsed;
pub mod wire;

pub use crate::message::{Finish, Message, Reply, ToolCall};

use crate::clip::excerpt;
use crate::context::Context;
use crate::tool::ToolSpec;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A language model, or something that stands in for one.
///
/// A run asks it on a thread of its own and does not wait for it beyond the deadline, nor after a cancellation; what it
/// says later is dropped. Hence `'static`: share a model among owners with an [`Arc`].
pub trait Model: Send + Sync + 'static {
    /// The name used in reports.
    fn name(&self) -> &str;

    /// Answers the conversation so far.
    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError>;
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        (**self).reply(context, request)
    }
}

impl<M: Model + ?Sized> Model for Box<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        (**self).reply(context, request)
    }
}

/// What the model is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The conversation so far, the system text first if there is one.
    pub messages: &'a [Message],
    /// The tools on offer.
    pub tools: &'a [ToolSpec],
}

/// Why a model could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}", excerpt(message, usize::MAX))]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// What failed, on what, and what to do. Never holds a key. May quote a server's words as they are, control
    /// characters included; `Display` escapes those.
    pub message: String,
}

impl ModelError {
    /// A failure of no special kind.
    pub fn new(message: impl Into<String>) -> Self {
        ModelError { kind: ModelErrorKind::Other, message: message.into() }
    }
}

/// What a run makes of a model's failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// The model cannot be asked.
    #[default]
    Other,
    /// The conversation no longer fits: asking the same again is useless.
    ContextOverflow,
}
