//! Conversations that go on, and those that grow longer than the model's window.

use crate::kit::*;
use agentkit_agent::model::scripted::{Scripted, Turn};
use agentkit_agent::model::{Message, Reply, Request};
use agentkit_agent::tools::{recall, remember};
use agentkit_agent::transcript::{self, Transcript};
use agentkit_agent::{
    Agent, AgentEvent, Bounds, Context, EventSink, Model, ModelError, ModelErrorKind, StopReason, Trajectory,
};
use serde_json::json;
use std::sync::{Arc, Mutex};

#[test]
fn a_finished_run_goes_on_with_what_the_user_says_next() {
    let model = Replies::new([
        calling([call("a", "echo", json!({"text": "one"}))]),
        answering("first"),
        calling([call("a", "echo", json!({"text": "two"}))]),
        answering("second"),
    ]);
    let agent = Agent::new(Arc::clone(&model), echo_only()).system("Be brief.");
    let one = agent.run("begin");
    let two = agent.continue_with(one.conversation.clone(), "go on");
    assert_eq!((one.answer.as_deref(), two.answer.as_deref()), (Some("first"), Some("second")));
    assert_eq!((one.prompt.as_str(), two.prompt.as_str(), two.steps.len()), ("begin", "go on", 2));
    // Nothing is forgotten, nothing is said twice, and no id is used twice.
    let requests = model.requests();
    assert_one_result_each(&two, &requests);
    let last = requests.last().expect("requests");
    assert_eq!(last[..4], one.conversation.messages()[..4]);
    assert_eq!(last[5], Message::User("go on".to_owned()));
    let is_system = |message: &&Message| matches!(message, Message::System(_));
    assert_eq!(last.iter().filter(is_system).count(), 1);
    assert_eq!(two.conversation.messages().len(), 9);
}

#[test]
fn what_was_remembered_goes_on_with_the_conversation_and_nowhere_else() {
    let turns = vec![
        Turn::call("remember", json!({"key": "colour", "value": "blue"})),
        Turn::answer("noted"),
        Turn::call("recall", json!({"key": "colour"})),
        Turn::answer("{last}"),
    ];
    let tools = || registry(vec![Box::new(remember::tool()), Box::new(recall::tool())]);
    let agent = Agent::new(Scripted::new("s", turns), tools());
    let one = agent.run("note it");
    let two = agent.continue_with(one.conversation, "what was it?");
    assert_eq!(two.answer.as_deref(), Some("blue"));
    let other = vec![Turn::call("recall", json!({"key": "colour"})), Turn::answer("{last}")];
    let answer = Agent::new(Scripted::new("s", other), tools()).run("what was it?").answer;
    assert!(answer.is_some_and(|answer| answer.contains("nothing is stored")), "another run");
}

#[test]
fn every_way_to_end_leaves_a_conversation_that_can_go_on() {
    let cut_off = [
        (Bounds { max_steps: 1, ..Bounds::default() }, StopReason::MaxSteps),
        (Bounds { max_calls: 1, ..Bounds::default() }, StopReason::MaxCalls),
        (Bounds { max_tokens: 1, ..Bounds::default() }, StopReason::MaxTokens),
        (Bounds { max_consecutive_errors: 1, ..Bounds::default() }, StopReason::TooManyErrors),
    ];
    for (bounds, stop) in cut_off {
        let calls = calling([
            call("", "missing", json!({})),
            call("", "echo", json!({"text": "x"})),
            call("", "echo", json!({"text": "y"})),
        ]);
        let model = Replies::new([calls, answering("done")]);
        let bounds = Bounds { max_parallel_calls: 1, ..bounds };
        let one = Agent::new(Arc::clone(&model), echo_only()).bounds(bounds).run("begin");
        assert_eq!(one.stop, stop);
        let two = Agent::new(Arc::clone(&model), echo_only()).continue_with(one.conversation, "go on");
        assert_eq!(two.answer.as_deref(), Some("done"), "{stop:?}");
        assert_one_result_each(&two, &model.requests());
    }
}

fn bytes(messages: &[Message]) -> usize {
    let size = |message: &Message| match message {
        Message::System(text) | Message::User(text) | Message::Tool { text, .. } => text.len(),
        Message::Assistant(reply) => {
            reply.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum()
        }
    };
    messages.iter().map(size).sum()
}

#[test]
fn a_long_run_stays_within_the_window_and_says_what_it_leaves_out() {
    let long = |n: usize| call("", "echo", json!({"text": format!("{n} {}", "x".repeat(1_000))}));
    let replies = (0..60).map(|n| calling([long(2 * n), long(2 * n + 1)])).chain([answering("done")]);
    let (model, events) = (Replies::new(replies), Arc::new(Events::default()));
    let bounds = Bounds { max_steps: 100, context_tokens: 8_000, ..Bounds::default() };
    let agent = Agent::new(Arc::clone(&model), echo_only()).system("Be brief.").bounds(bounds);
    let trajectory = agent.events(Arc::clone(&events) as Arc<dyn EventSink>).run("go");
    assert_eq!((&trajectory.stop, trajectory.steps.len()), (&StopReason::Answered, 61));
    let requests = model.requests();
    assert_one_result_each(&trajectory, &requests);
    for messages in &requests {
        assert!(bytes(messages) <= 24_000, "three quarters of the window: {}", bytes(messages));
        assert_eq!(messages[0], Message::System("Be brief.".to_owned()));
        assert!(matches!(&messages[1], Message::User(text) if text.starts_with("go")));
    }
    let last = requests.last().expect("requests");
    assert!(
        matches!(&last[1], Message::User(text) if text.ends_with("after this one left out to save space]"))
    );
    let noted = |message: &Message| matches!(message, Message::Tool { text, .. } if text.starts_with("[left out to save space: a result of 100"));
    assert!(last.iter().any(noted), "{last:?}");
    // Seldom, so that what is before stays the same from request to request, and a server can reuse its work on it.
    let is_trim = |event: &&AgentEvent| matches!(event, AgentEvent::HistoryTrimmed { .. });
    let trims = events.0.lock().expect("lock").iter().filter(is_trim).count();
    assert!((2..20).contains(&trims), "{trims}");
    // What is left out of requests is in the trajectory all the same.
    assert_eq!(
        texts(&trajectory).iter().map(String::len).sum::<usize>(),
        120 * 1_000 + 10 * 2 + 90 * 3 + 20 * 4
    );
}

/// Has a window of its own that nobody was told of, and keeps what it was asked.
struct Narrow {
    bytes: usize,
    asked: Mutex<Vec<Vec<Message>>>,
}

impl Model for Narrow {
    fn name(&self) -> &str {
        "narrow"
    }

    fn reply(&self, _context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let mut asked = self.asked.lock().expect("lock");
        asked.push(request.messages.to_vec());
        if bytes(request.messages) > self.bytes {
            let message = "too long".to_owned();
            return Err(ModelError { kind: ModelErrorKind::ContextOverflow, message });
        }
        match asked.len() {
            0..16 => {
                let text = format!("{}{}", asked.len(), "x".repeat(900));
                Ok(calling([call("", "echo", json!({"text": text}))]))
            }
            _ => Ok(answering("done")),
        }
    }
}

#[test]
fn a_window_that_is_smaller_than_thought_is_met_by_leaving_more_out() {
    let model = Arc::new(Narrow { bytes: 16_000, asked: Mutex::default() });
    let trajectory = Agent::new(Arc::clone(&model), echo_only()).run("go");
    assert_eq!(trajectory.stop, StopReason::Answered);
    assert!(trajectory.steps.len() < 20);
    // The same is never asked twice.
    let asked = model.asked.lock().expect("lock");
    assert!(asked.len() > trajectory.steps.len(), "it has overflowed");
    assert!(asked.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn a_window_that_is_too_small_for_anything_ends_the_run() {
    let model = Arc::new(Narrow { bytes: 1_200, asked: Mutex::default() });
    let trajectory = Agent::new(Arc::clone(&model), echo_only()).run("go");
    assert_eq!(trajectory.stop, StopReason::ContextOverflow("too long".to_owned()));
    assert!(model.asked.lock().expect("lock").len() < 10);
}

#[test]
fn an_id_of_what_was_left_out_is_not_used_again() {
    let long = |n: usize| calling([call("", "echo", json!({"text": format!("{n}{}", "x".repeat(1_000))}))]);
    let said = (0..20).map(long).chain([answering("done"), long(20), answering("done")]);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.jsonl");
    let bounds = Bounds { max_steps: 100, context_tokens: 2_000, ..Bounds::default() };
    let agent = Agent::new(Replies::new(said), echo_only()).bounds(bounds);
    let agent = agent.transcript(Transcript::create(&path).expect("a new file"));
    let one = agent.run("go");
    assert!(one.conversation.messages().len() < 20, "the oldest calls are left out");
    let two = agent.continue_with(one.conversation.clone(), "go on");
    let ids =
        |trajectory: &Trajectory| trajectory.calls().map(|call| call.call.id.clone()).collect::<Vec<_>>();
    assert!(!ids(&one).contains(&ids(&two)[0]), "{:?}", ids(&two));
    // The transcript has them all, each with its own result.
    let recorded = transcript::read(&path).expect("readable").conversation();
    let results = recorded.messages().iter().filter(|message| matches!(message, Message::Tool { .. }));
    assert_eq!(results.count(), 21);
}
