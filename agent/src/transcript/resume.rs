//! Turns what was recorded into a conversation that can go on.

use super::Recorded;
use crate::conversation::Conversation;
use crate::event::AgentEvent;
use crate::message::{Message, Reply};
use std::collections::HashMap;

impl Recorded {
    /// What was said, with exactly one result for each call. A call that was not finished is never run again: its
    /// result says what is known of it, and the model decides.
    pub fn conversation(&self) -> Conversation {
        let mut replay = Replay::default();
        for entry in &self.entries {
            replay.hear(&entry.event);
        }
        replay.answer_calls();
        replay.conversation
    }
}

/// The conversation so far, and the calls of its last reply.
#[derive(Default)]
struct Replay {
    conversation: Conversation,
    reply: Reply,
    /// The ids of these calls in the record, which may have one twice if somebody else wrote it.
    recorded: Vec<String>,
    /// Calls that were begun, and whether they change something.
    started: HashMap<String, bool>,
    results: HashMap<String, (String, bool)>,
}

impl Replay {
    fn hear(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::RunStarted { system, prompt, .. } => {
                self.answer_calls();
                self.conversation.begin(system.as_deref(), prompt.as_deref());
            }
            AgentEvent::Replied { reply, .. } => {
                self.answer_calls();
                self.reply = reply.clone();
                self.recorded = reply.calls.iter().map(|call| call.id.clone()).collect();
                self.conversation.make_unique(&mut self.reply.calls);
                self.conversation.push(Message::Assistant(self.reply.clone()));
            }
            AgentEvent::ToolStarted { call_id, mutates, .. } => {
                self.started.insert(call_id.clone(), *mutates);
            }
            AgentEvent::ToolFinished { call_id, text, error, .. } => {
                self.results.entry(call_id.clone()).or_insert_with(|| (text.clone(), error.is_some()));
            }
            _ => {}
        }
    }

    /// Gives each call of the last reply its result, in the order of the calls.
    fn answer_calls(&mut self) {
        let calls = std::mem::take(&mut self.reply.calls);
        for (call, recorded) in calls.into_iter().zip(std::mem::take(&mut self.recorded)) {
            let (text, is_error) = self.results.remove(&recorded).unwrap_or_else(|| {
                let name = &call.name;
                let text = match self.started.get(&recorded) {
                    Some(true) => format!(
                        "unknown whether it happened: the run was broken off while `{name}` was under way, and it \
                         was not run again; find out before you repeat it"
                    ),
                    Some(false) => format!("no result: the run was broken off while `{name}` was under way"),
                    None => "not run: the run was broken off before".to_owned(),
                };
                (text, true)
            });
            self.conversation.push(Message::Tool { call_id: call.id, text, is_error });
        }
        self.started.clear();
        self.results.clear();
    }
}
