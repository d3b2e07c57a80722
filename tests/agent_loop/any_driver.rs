//! The state machine in the hands of a driver that does anything in any order.

use crate::kit::*;
use agentkit_agent::{
    AgentEvent, Bounds, Conversation, Decision, ModelError, ModelErrorKind, Next, Run, StopReason, Tool,
    ToolError, ToolOutput,
};
use proptest::prelude::*;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
enum Deed {
    Next,
    /// A reply with so many calls, of what changes something and of what does not.
    Replied(Vec<bool>),
    Failed(ModelErrorKind),
    Finished(bool),
    Decided(Decision),
    Cancel,
    Unrecorded,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        12 => Just(Deed::Next),
        8 => prop::collection::vec(any::<bool>(), 0..5).prop_map(Deed::Replied),
        1 => Just(Deed::Failed(ModelErrorKind::Other)),
        1 => Just(Deed::Failed(ModelErrorKind::ContextOverflow)),
        12 => any::<bool>().prop_map(Deed::Finished),
        4 => Just(Deed::Decided(Decision::Allow)),
        1 => Just(Deed::Decided(Decision::Deny("no".to_owned()))),
        1 => Just(Deed::Decided(Decision::Stop)),
        1 => Just(Deed::Cancel),
        1 => Just(Deed::Unrecorded),
    ]
}

fn do_it(run: &mut Run, deed: Deed, number: usize, now: Instant) -> Option<Next> {
    match deed {
        Deed::Next => return Some(run.next(now)),
        Deed::Replied(calls) => {
            let name = |changes: bool| if changes { "change-it" } else { "echo" };
            let calls = calls.into_iter().map(|changes| call("x", name(changes), json!({ "text": number })));
            run.replied(Ok(calling(calls)), now);
        }
        Deed::Failed(kind) => run.replied(Err(ModelError { kind, message: "no".to_owned() }), now),
        Deed::Finished(true) => run.finished(Ok(ToolOutput::from(number)), Duration::ZERO),
        Deed::Finished(false) => run.finished(Err(ToolError::failed("no")), Duration::ZERO),
        Deed::Decided(decision) => run.decided(decision),
        Deed::Cancel => run.cancel(),
        Deed::Unrecorded => run.unrecorded("no room".to_owned()),
    }
    None
}

/// How often each call was begun and ended, by its id.
fn count(events: &[AgentEvent]) -> HashMap<String, (usize, usize)> {
    let mut counts: HashMap<String, (usize, usize)> = HashMap::new();
    for event in events {
        match event {
            AgentEvent::ToolStarted { call_id, .. } => counts.entry(call_id.clone()).or_default().0 += 1,
            AgentEvent::ToolFinished { call_id, .. } => counts.entry(call_id.clone()).or_default().1 += 1,
            _ => {}
        }
    }
    counts
}

proptest! {
    #[test]
    fn no_driver_makes_a_call_without_a_result_or_a_change_without_approval(
        deeds in prop::collection::vec(deed(), 0..60),
        asks in any::<bool>(),
    ) {
        let tools: Vec<Box<dyn Tool>> = vec![Box::new(echo::tool()), Box::new(change::tool(Arc::default()))];
        let mut conversation = Conversation::default();
        conversation.begin(None, Some("go"));
        let now = Instant::now();
        let mut run = Run::new(Bounds::default(), conversation, registry(tools).specs(), now);
        if asks {
            run.ask_before_changes();
        }
        let (mut events, mut asked_about, mut over) = (Vec::new(), Vec::new(), false);
        for (number, deed) in deeds.into_iter().enumerate() {
            let allows = matches!(deed, Deed::Decided(Decision::Allow));
            let next = do_it(&mut run, deed, number, now);
            let new = run.take_events();
            for event in &new {
                if let AgentEvent::ToolStarted { call_id, mutates: true, .. } = event {
                    prop_assert!(!asks || asked_about.contains(&(call_id.clone(), true)), "not approved");
                }
            }
            events.extend(new);
            match next {
                Some(Next::Approve(call)) => asked_about.push((call.id, false)),
                Some(Next::RunTools(calls)) => prop_assert!(!calls.is_empty()),
                Some(Next::Done) => over = true,
                Some(Next::CallModel) | None => {}
            }
            if allows && let Some(last) = asked_about.last_mut() {
                last.1 = true;
            }
            prop_assert!(!over || run.next(now) == Next::Done, "what is over is over");
        }
        run.cancel();
        events.extend(run.take_events());
        // A conversation that no longer fits leaves out the oldest of them.
        let ids = |event: &AgentEvent| match event {
            AgentEvent::Replied { reply, .. } => reply.calls.iter().map(|call| call.id.clone()).collect(),
            _ => Vec::new(),
        };
        let made: Vec<String> = events.iter().flat_map(ids).collect();
        let counts = count(&events);
        let trajectory = run.into_trajectory(now);
        prop_assert_eq!(counts.len(), made.len());
        prop_assert!(made.iter().all(|id| counts[id].1 == 1 && counts[id].0 <= 1), "{:?}", counts);
        assert_one_result_each(&trajectory, &[trajectory.conversation.messages().to_vec()]);
        prop_assert!(trajectory.stop != StopReason::MaxCalls);
    }
}
