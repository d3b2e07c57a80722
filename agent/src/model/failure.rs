//! Why an attempt failed, and whether another may succeed.

use super::Reply;
use super::retry::Class;
use super::trouble::Trouble;
use super::wire;
use std::time::Duration;

/// Bytes of one response body.
pub(super) const MAX_BODY: usize = 16 << 20;

/// A failed attempt.
pub(super) struct Failure {
    pub(super) class: Class,
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
    /// What was said before a stream broke off, if anything.
    pub(super) partial: Option<Box<wire::Response>>,
}

impl Failure {
    pub(super) fn new(class: Class, message: impl Into<String>) -> Self {
        Failure { class, message: message.into(), retry_after: None, partial: None }
    }
    /// An answer larger than anyone wants to keep.
    pub(super) fn too_large() -> Self {
        Failure::new(Class::Lasting, format!("the response is larger than {MAX_BODY} bytes"))
    }

    /// No answer.
    pub(super) fn no_answer(trouble: &Trouble) -> Self {
        Failure::new(trouble.class(), trouble.to_string())
    }

    /// An answer of which the rest is missing, and what there is of it.
    pub(super) fn broken(trouble: &Trouble, received: Option<wire::Response>) -> Self {
        let partial = received.filter(|received| {
            let Reply { text, calls, reasoning, .. } = &received.reply;
            !(text.is_empty() && calls.is_empty() && reasoning.is_none())
        });
        Failure {
            partial: partial.map(Box::new),
            ..Failure::new(trouble.class(), format!("the response broke off: {trouble}"))
        }
    }
}
