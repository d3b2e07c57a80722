//! The books of a run: what was said, step by step, told as it happens. Whatever is entered is in the conversation, in the
//! steps and among the events, so that the three cannot differ.

use crate::conversation::{Conversation, Trimmed};
use crate::event::AgentEvent;
use crate::message::{Message, Reply, ToolCall};
use crate::tool_result::{ToolError, ToolOutput};
use crate::trajectory::{CallRecord, Step};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) conversation: Conversation,
    pub(crate) steps: Vec<Step>,
    /// What was not told yet.
    pub(crate) events: Vec<AgentEvent>,
}

impl Book {
    pub(crate) fn new(conversation: Conversation) -> Self {
        Book { conversation, steps: Vec::new(), events: Vec::new() }
    }

    /// Results of the last reply so far.
    pub(crate) fn calls_answered(&self) -> usize {
        self.steps.last().map_or(0, |step| step.calls.len())
    }

    pub(crate) fn reply(&mut self, reply: Reply, elapsed: Duration) {
        self.conversation.push(Message::Assistant(reply.clone()));
        self.steps.push(Step { reply: reply.clone(), calls: Vec::new() });
        self.events.push(AgentEvent::Replied { step: self.steps.len(), reply, elapsed });
    }

    pub(crate) fn begun(&mut self, call: &ToolCall, mutates: bool) {
        self.events.push(AgentEvent::ToolStarted {
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            mutates,
        });
    }

    /// The only place where a result is entered: once for each call that leaves the queue.
    pub(crate) fn result(
        &mut self,
        call: ToolCall,
        result: Result<ToolOutput, ToolError>,
        elapsed: Duration,
    ) {
        let (text, error, details) = match &result {
            Ok(output) => (&output.text, None, &output.details),
            Err(error) => (&error.message, Some(error.kind), &error.details),
        };
        let (text, details) = (text.clone(), details.clone());
        let (call_id, name) = (call.id.clone(), call.name.clone());
        let is_error = error.is_some();
        self.conversation.push(Message::Tool { call_id: call_id.clone(), text: text.clone(), is_error });
        self.events.push(AgentEvent::ToolFinished { call_id, name, text, error, details, elapsed });
        if let Some(step) = self.steps.last_mut() {
            step.calls.push(CallRecord { call, result, elapsed });
        }
    }

    /// Whether anything was left out.
    pub(crate) fn trimmed(&mut self, trimmed: Trimmed) -> bool {
        let Trimmed { results, messages } = trimmed;
        let any = results + messages > 0;
        if any {
            self.events.push(AgentEvent::HistoryTrimmed { results, messages });
        }
        any
    }
}
