//! Whatever a model says, each call gets one result, the bounds hold, and the transcript tells the same.

use crate::kit::*;
use agentkit_agent::model::{Finish, Message, Reply, ToolCall};
use agentkit_agent::{
    Agent, AgentEvent, Bounds, CallRecord, Decision, StopReason, Tool, Trajectory, Transcript, transcript,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Replies of every kind, with ids and calls of every quality.
fn reply() -> impl Strategy<Value = Reply> {
    let call = (
        prop::sample::select(&["", "a", "b", "call_1", "call_2"][..]),
        prop::sample::select(
            &["echo", "broken", "give_up", "slow", "change-it", "counter", "missing", ""][..],
        ),
        prop::sample::select(
            &["", "{}", "{", r#"{"text":"x"}"#, r#"{"seconds":3}"#, r#"{"message":"m"}"#, r#""\ud800""#][..],
        ),
    );
    let call = call.prop_map(|(id, name, arguments)| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    });
    let finish = prop_oneof![
        8 => Just(Finish::Done),
        1 => Just(Finish::Cut("length".to_owned())),
        1 => Just(Finish::Refused),
    ];
    (prop::collection::vec(call, 0..6), finish, prop::option::of(0u64..200), "[a ]{0,2}")
        .prop_map(|(calls, finish, tokens, text)| Reply { text, calls, finish, tokens, reasoning: None })
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let small = (0usize..6, 0usize..8, 0u64..400, 0u64..12, 0usize..4, 0usize..40);
    let more = (0usize..20, 0usize..5, 0usize..6, 0u64..200, 0usize..3_000);
    (small, more).prop_map(
        |(
            (max_steps, max_calls_per_reply, max_tokens, wall, repeat_limit, max_result_bytes),
            (max_calls, max_parallel_calls, max_consecutive_errors, context_tokens, max_reply_bytes),
        )| Bounds {
            max_steps,
            max_calls,
            max_calls_per_reply,
            max_parallel_calls,
            max_consecutive_errors,
            max_tokens,
            context_tokens,
            wall: Duration::from_secs(wall),
            repeat_limit,
            max_result_bytes,
            max_reply_bytes,
        },
    )
}

/// What somebody says about the calls that change something, one after another; nobody is asked without any.
fn decisions() -> impl Strategy<Value = Vec<Option<Decision>>> {
    let decision = prop_oneof![
        4 => Just(Some(Decision::Allow)),
        1 => Just(Some(Decision::Deny("no".to_owned()))),
        1 => Just(Some(Decision::Stop)),
        1 => Just(None),
    ];
    prop::collection::vec(decision, 0..4)
}

/// Says what it is told to, in turn, and panics where there is nothing.
fn approver(decisions: Vec<Option<Decision>>) -> impl Fn(&ToolCall) -> Decision + Send + Sync + 'static {
    let asked = AtomicUsize::new(0);
    move |_: &ToolCall| {
        let decision = &decisions[asked.fetch_add(1, Ordering::SeqCst) % decisions.len()];
        decision.clone().expect("somebody who knows")
    }
}

/// What the transcript says of a run is what came of it.
fn assert_recorded(trajectory: &Trajectory, recorded: &transcript::Recorded) {
    assert_eq!((recorded.stop(), recorded.torn), (Some(&trajectory.stop), 0));
    let replies = recorded.entries.iter().filter_map(|entry| match &entry.event {
        AgentEvent::Replied { reply, .. } => Some(reply),
        _ => None,
    });
    assert!(replies.eq(trajectory.steps.iter().map(|step| &step.reply)));
    let results = recorded.entries.iter().filter_map(|entry| match &entry.event {
        AgentEvent::ToolFinished { call_id, text, .. } => Some((call_id.clone(), text.clone())),
        _ => None,
    });
    let ids = trajectory.calls().map(|record| record.call.id.clone());
    assert!(results.eq(ids.zip(texts(trajectory))));
    // Unless something was left out of it, the conversation is the same.
    let trimmed = |event: &AgentEvent| matches!(event, AgentEvent::HistoryTrimmed { .. });
    if !recorded.entries.iter().any(|entry| trimmed(&entry.event)) {
        assert_eq!(recorded.conversation().messages(), trajectory.conversation.messages());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_each_call_gets_one_result_within_the_bounds(
        replies in prop::collection::vec(reply(), 0..8),
        bounds in bounds(),
        dry_run in any::<bool>(),
        decisions in decisions(),
    ) {
        let clock = TestClock::new();
        let changes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::new(AtomicUsize::new(0));
        let tools: Vec<Box<dyn Tool>> = vec![
            Box::new(echo::tool()),
            Box::new(broken::tool(Mutex::new(0))),
            Box::new(give_up::tool()),
            Box::new(slow::tool(Arc::clone(&clock))),
            Box::new(counter::tool(Arc::clone(&counted))),
            Box::new(change::tool(Arc::clone(&changes))),
        ];
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.jsonl");
        let model = Replies::new(replies);
        let agent = Agent::new(Arc::clone(&model), registry(tools))
            .bounds(bounds.clone())
            .dry_run(dry_run)
            .clock(clock)
            .transcript(Transcript::create(&path).expect("a file"));
        let (allowed, agent) = match decisions.is_empty() {
            true => (true, agent),
            false => (decisions.contains(&Some(Decision::Allow)), agent.approver(approver(decisions))),
        };
        let trajectory = agent.run("go");
        let requests = model.requests();
        assert_one_result_each(&trajectory, &requests);
        assert_recorded(&trajectory, &transcript::read(&path).expect("readable"));
        prop_assert!(trajectory.steps.len() <= bounds.max_steps);
        let runs = |record: &&CallRecord| !was_not_run(record);
        for step in &trajectory.steps {
            prop_assert!(step.calls.iter().skip(bounds.max_calls_per_reply).all(was_not_run));
        }
        prop_assert!(trajectory.calls().filter(runs).count() <= bounds.max_calls);
        prop_assert_eq!(trajectory.answer.is_some(), trajectory.stop == StopReason::Answered);
        prop_assert!((!dry_run && allowed) || changes.load(Ordering::SeqCst) == 0);
        for messages in &requests {
            prop_assert!(matches!(&messages[0], Message::User(text) if text.starts_with("go")));
        }
    }
}
