//! The chat-completions protocol as JSON, in both directions, without input or output.
//!
//! What is sent is as plain as the protocol allows; what comes back may have any shape that servers were seen to send.
//! A body is told by its beginning: one piece of JSON, or a stream of events. Both go through one draft, and
//! what comes in one piece comes out the same as what comes in many, wherever they were split.

mod body;
mod calls;
mod dialect;
mod literal;
mod node;
mod reply;
mod request;
mod sse;
mod thinking;

pub use body::{Body, Fault, FaultKind, error_field, error_message, response};
pub use dialect::{Dialect, MissingText, ReasoningEcho, ReplyLimit, Streaming, SystemRole};
pub use reply::{Delta, Response};
pub use request::request;
#[cfg(feature = "openai")]
pub(super) use thinking::beginning_at_the_end;
