//! What was said so far, and what of it is left out when it no longer fits the model's window.
//!
//! The rule. Sizes are estimates (see [`Bounds::context_tokens`](crate::Bounds::context_tokens)). As soon as a request
//! would fill three quarters of the window, the conversation is shortened until it fills no more than half, so that
//! this happens seldom, and what is before the change stays the same from request to request:
//!
//! 1. Results of earlier replies become a note with their size, the oldest first.
//! 2. If that is not enough, the oldest messages are removed, a reply always together with its results. How many they
//!    were is said at the end of the user's message before them.
//!
//! Never touched are the standing instructions, the first and the last words of the user, and the last reply with its
//! results. What a [`Trajectory`](crate::Trajectory) or a transcript holds is complete in any case.

use crate::ids::Ids;
use crate::message::{Message, Reply, ToolCall};
use crate::state::RunState;
use std::sync::Arc;

/// Shorter results are not worth a note in their place.
const WORTH_A_NOTE: usize = 200;

/// What was said so far, as the model is shown it.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// Shared with a call of the model under way, and only then copied by a change.
    messages: Arc<Vec<Message>>,
    /// Of all messages.
    bytes: usize,
    gaps: Vec<Gap>,
    /// Of all calls, also of those that were left out: a transcript still has them.
    ids: Ids,
    /// What tools keep: whoever goes on with a conversation goes on with that too.
    state: RunState,
}

/// Messages that were removed after one that was kept.
#[derive(Clone, Debug)]
struct Gap {
    /// Where the message of the user is that says so.
    after: usize,
    /// Bytes that are its own, before what was added.
    own: usize,
    removed: usize,
}

/// What was left out at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trimmed {
    pub(crate) results: usize,
    pub(crate) messages: usize,
}

impl Conversation {
    /// Adds what a run begins with.
    pub fn begin(&mut self, system: Option<&str>, prompt: Option<&str>) {
        if let Some(text) = system {
            self.push(Message::System(text.to_owned()));
        }
        if let Some(text) = prompt {
            self.push(Message::User(text.to_owned()));
        }
    }

    /// The messages, in order. Each call in them has its result, right after the reply that made it.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What tools have kept in it. Clones of a conversation share it, and what was read from a transcript has none.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// The messages for a call that may outlive the run.
    pub(crate) fn shared(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// Gives each call of a reply that is yet to be added an id that no other call of the conversation has.
    pub(crate) fn make_unique(&mut self, calls: &mut [ToolCall]) {
        self.ids.make_unique(calls);
    }

    pub(crate) fn push(&mut self, message: Message) {
        self.bytes += size(&message);
        Arc::make_mut(&mut self.messages).push(message);
    }

    /// Bytes of all texts in it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Applies the rule until no more than `max` bytes are left, or nothing more may be left out.
    pub(crate) fn shorten(&mut self, max: usize) -> Trimmed {
        let results = self.leave_out_results(max);
        let messages = if self.bytes > max { self.remove_messages(max) } else { 0 };
        Trimmed { results, messages }
    }

    fn leave_out_results(&mut self, max: usize) -> usize {
        let last_reply = self.last_reply();
        let mut left_out = 0;
        for message in &mut Arc::make_mut(&mut self.messages)[..last_reply] {
            if self.bytes <= max {
                break;
            }
            if let Message::Tool { text, .. } = message
                && text.len() > WORTH_A_NOTE
            {
                let note = format!("[left out to save space: a result of {} bytes]", text.len());
                self.bytes -= text.len() - note.len();
                *text = note;
                left_out += 1;
            }
        }
        left_out
    }

    fn remove_messages(&mut self, max: usize) -> usize {
        let is_user = |message: &Message| matches!(message, Message::User(_));
        let Some(first) = self.messages.iter().position(is_user) else { return 0 };
        let last = self.messages.iter().rposition(is_user).unwrap_or(first);
        let end = self.end_of_removal(first, last, max);
        let gaps = std::mem::take(&mut self.gaps);
        let mut kept = Vec::with_capacity(self.messages.len());
        let mut removed_now = 0;
        for (at, message) in std::mem::take(Arc::make_mut(&mut self.messages)).into_iter().enumerate() {
            let gap = gaps.iter().find(|gap| gap.after == at);
            let removed = gap.map_or(0, |gap| gap.removed);
            if (first + 1..end).contains(&at) && at != last {
                removed_now += 1;
                if let Some(gap) = self.gaps.last_mut() {
                    gap.removed += 1 + removed;
                }
                continue;
            }
            if at == first || at == last {
                let own = gap.map_or_else(|| size(&message), |gap| gap.own);
                self.gaps.push(Gap { after: kept.len(), own, removed });
            }
            kept.push(message);
        }
        self.gaps.retain(|gap| gap.removed > 0);
        self.gaps.iter().for_each(|gap| gap.tell(&mut kept));
        self.bytes = kept.iter().map(size).sum();
        self.messages = Arc::new(kept);
        removed_now
    }

    /// Where the messages after the user's first end that have to go: always before a reply or a user's message, so that
    /// no result stays without its call.
    fn end_of_removal(&self, first: usize, last: usize, max: usize) -> usize {
        let mut left = self.bytes;
        let mut end = first + 1;
        for (at, message) in self.messages.iter().enumerate().take(self.last_reply()).skip(first + 1) {
            if left <= max && !matches!(message, Message::Tool { .. }) {
                break;
            }
            end = at + 1;
            if at != last {
                left -= size(message);
            }
        }
        end
    }

    /// Where the last reply is, or the end if there is none.
    fn last_reply(&self) -> usize {
        let is_reply = |message: &Message| matches!(message, Message::Assistant(_));
        self.messages.iter().rposition(is_reply).unwrap_or(self.messages.len())
    }
}

impl Gap {
    fn tell(&self, messages: &mut [Message]) {
        let Some(Message::User(text)) = messages.get_mut(self.after) else { return };
        text.truncate(self.own);
        let messages = if self.removed == 1 { "1 message" } else { &format!("{} messages", self.removed) };
        text.push_str(&format!("\n\n[{messages} after this one left out to save space]"));
    }
}

/// Bytes of the texts of a message.
pub(crate) fn size(message: &Message) -> usize {
    match message {
        Message::System(text) | Message::User(text) | Message::Tool { text, .. } => text.len(),
        Message::Assistant(reply) => reply_size(reply),
    }
}

/// Bytes of the texts of a reply.
pub(crate) fn reply_size(reply: &Reply) -> usize {
    let reasoning = reply.reasoning.as_ref().map_or(0, String::len);
    let calls = reply.calls.iter().map(|call| call.id.len() + call.name.len() + call.arguments.len());
    reply.text.len() + reasoning + calls.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn reply(id: &str, bytes: usize) -> Message {
        let call = ToolCall { id: id.to_owned(), name: "t".to_owned(), arguments: "a".repeat(bytes) };
        Message::Assistant(Reply { calls: vec![call], ..Reply::default() })
    }

    fn result(id: &str, bytes: usize) -> Message {
        Message::Tool { call_id: id.to_owned(), text: "r".repeat(bytes), is_error: false }
    }

    fn conversation(messages: impl IntoIterator<Item = Message>) -> Conversation {
        let mut conversation = Conversation::default();
        conversation.begin(Some("system"), Some("first"));
        messages.into_iter().for_each(|message| conversation.push(message));
        conversation
    }

    fn text(message: &Message) -> &str {
        match message {
            Message::System(text) | Message::User(text) | Message::Tool { text, .. } => text,
            Message::Assistant(reply) => &reply.text,
        }
    }

    #[test]
    fn old_results_go_first_and_no_more_than_needed() {
        let mut long = conversation([
            reply("1", 1),
            result("1", 1_000),
            reply("2", 1),
            result("2", 2_000),
            reply("3", 1),
            result("3", 3_000),
        ]);
        assert_eq!(long.shorten(5_500), Trimmed { results: 1, messages: 0 });
        assert_eq!(text(&long.messages()[3]), "[left out to save space: a result of 1000 bytes]");
        assert_eq!(long.bytes(), long.messages().iter().map(size).sum::<usize>());
        assert_eq!(long.shorten(5_500), Trimmed::default());
        // The last result stays, however long.
        assert_eq!(long.shorten(0), Trimmed { results: 1, messages: 4 });
        let texts: Vec<&str> = long.messages().iter().map(text).collect();
        let told = "first\n\n[4 messages after this one left out to save space]";
        assert_eq!(texts, ["system", told, "", &"r".repeat(3_000)]);
    }

    #[test]
    fn what_is_asked_now_stays_and_the_gaps_before_and_after_it_are_told() {
        let mut long = conversation([reply("1", 900), result("1", 10), Message::User("now".to_owned())]);
        for id in ["2", "3"] {
            long.push(reply(id, 900));
            long.push(result(id, 10));
        }
        assert_eq!(long.shorten(2_000).messages, 2);
        assert_eq!(long.shorten(1_200).messages, 2);
        let texts: Vec<&str> = long.messages().iter().map(text).collect();
        let told = |text| format!("{text}\n\n[2 messages after this one left out to save space]");
        assert_eq!(texts, ["system", &told("first"), &told("now"), "", &"r".repeat(10)]);
        // Asked something else, the model need no longer know.
        long.begin(None, Some("and now"));
        long.push(reply("4", 10));
        long.push(result("4", 10));
        assert_eq!(long.shorten(0).messages, 3);
        let told = "first\n\n[7 messages after this one left out to save space]";
        let texts: Vec<&str> = long.messages().iter().map(text).collect();
        assert_eq!(texts, ["system", told, "and now", "", &"r".repeat(10)]);
    }

    fn assert_pairs(messages: &[Message]) {
        let mut open = HashSet::new();
        for message in messages {
            match message {
                Message::Tool { call_id, .. } => assert!(open.remove(call_id), "a result without a call"),
                _ => assert!(open.is_empty(), "a call without a result"),
            }
            if let Message::Assistant(reply) = message {
                open = reply.calls.iter().map(|call| call.id.clone()).collect();
            }
        }
        assert!(open.is_empty(), "a call without a result");
    }

    proptest! {
        #[test]
        fn nothing_is_torn_apart_and_the_ends_stay(
            steps in prop::collection::vec((any::<bool>(), 0usize..500, prop::collection::vec(0usize..500, 0..4)), 0..20),
            limits in prop::collection::vec(0usize..8_000, 1..6),
        ) {
            let mut long = conversation([]);
            let mut said = "first".to_owned();
            for (number, (asks, bytes, results)) in steps.into_iter().enumerate() {
                if asks {
                    said = format!("ask {number}");
                    long.begin(None, Some(&said));
                }
                let calls = (0..results.len()).map(|n| ToolCall {
                    id: format!("{number}.{n}"),
                    name: "t".to_owned(),
                    arguments: "a".repeat(bytes),
                });
                long.push(Message::Assistant(Reply { calls: calls.collect(), ..Reply::default() }));
                for (n, bytes) in results.into_iter().enumerate() {
                    long.push(result(&format!("{number}.{n}"), bytes));
                }
                let max = limits[number % limits.len()];
                let before = long.messages().len();
                let trimmed = long.shorten(max);
                prop_assert_eq!(long.messages().len(), before - trimmed.messages);
            }
            assert_pairs(long.messages());
            prop_assert_eq!(long.bytes(), long.messages().iter().map(size).sum::<usize>());
            prop_assert_eq!(text(&long.messages()[0]), "system");
            prop_assert!(text(&long.messages()[1]).starts_with("first"));
            let last = long.messages().iter().rfind(|message| matches!(message, Message::User(_)));
            prop_assert!(text(last.expect("a user")).starts_with(&said));
        }
    }
}
