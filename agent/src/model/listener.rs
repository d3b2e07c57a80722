//! Tells whoever listens what a stream brings, without the key.

use super::redact::Redactor;
use super::wire::Delta;
use crate::context::Context;
use crate::event::AgentEvent;

/// Passes on what a stream brings.
pub(super) struct Listener<'a> {
    context: &'a Context,
    text: Option<Redactor<'a>>,
    reasoning: Option<Redactor<'a>>,
}

impl<'a> Listener<'a> {
    pub(super) fn new(context: &'a Context, key: Option<&'a str>) -> Self {
        let redactor = || key.map(Redactor::new);
        Listener { context, text: redactor(), reasoning: redactor() }
    }

    pub(super) fn hear(&mut self, delta: Delta) {
        let (event, text): (fn(String) -> AgentEvent, _) = match delta {
            Delta::Text(piece) => (AgentEvent::TextDelta, shown(&mut self.text, piece)),
            Delta::Reasoning(piece) => (AgentEvent::ReasoningDelta, shown(&mut self.reasoning, piece)),
        };
        self.tell(event, text);
    }

    /// The end of the reply.
    pub(super) fn finish(mut self) {
        let [text, reasoning] = [&mut self.text, &mut self.reasoning]
            .map(|redactor| redactor.as_mut().map(Redactor::finish).unwrap_or_default());
        self.tell(AgentEvent::ReasoningDelta, reasoning);
        self.tell(AgentEvent::TextDelta, text);
    }

    fn tell(&self, event: fn(String) -> AgentEvent, text: String) {
        if !text.is_empty() {
            self.context.emit(event(text));
        }
    }
}

fn shown(redactor: &mut Option<Redactor<'_>>, piece: String) -> String {
    match redactor {
        Some(redactor) => redactor.push(&piece),
        None => piece,
    }
}
