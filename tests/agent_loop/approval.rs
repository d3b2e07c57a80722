//! Somebody's word before what changes something.

use crate::kit::*;
use agentkit_agent::model::ToolCall;
use agentkit_agent::{Agent, AgentEvent, Bounds, Decision, EventSink, Registry, StopReason, ToolErrorKind};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A registry whose changes are counted.
fn tools(changes: &Arc<AtomicUsize>) -> Registry {
    registry(vec![Box::new(echo::tool()), Box::new(change::tool(Arc::clone(changes)))])
}

fn change_call(id: &str) -> ToolCall {
    call(id, "change-it", json!({}))
}

#[test]
fn what_is_allowed_runs_and_what_is_denied_does_not() {
    let (changes, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let model = Replies::new([
        calling([change_call("yes"), call("read", "echo", json!({"text": "x"})), change_call("no")]),
        answering("done"),
    ]);
    let heard = Arc::clone(&asked);
    let trajectory = Agent::new(Arc::clone(&model), tools(&changes))
        .approver(move |call: &ToolCall| {
            heard.lock().expect("lock").push(call.id.clone());
            if call.id == "yes" { Decision::Allow } else { Decision::Deny("not on a Monday".to_owned()) }
        })
        .run("go");
    assert_eq!(*asked.lock().expect("lock"), ["yes", "no"], "only what changes something is asked about");
    assert_eq!((&trajectory.stop, changes.load(Ordering::SeqCst)), (&StopReason::Answered, 1));
    assert_eq!(kinds(&trajectory), [None, None, Some(ToolErrorKind::Refused)]);
    assert_eq!(texts(&trajectory)[2], "refused: the call was not approved: not on a Monday");
    assert_one_result_each(&trajectory, &model.requests());
}

#[test]
fn a_stop_ends_the_run_and_leaves_no_call_without_a_result() {
    let changes = Arc::default();
    let model = Replies::new([calling([change_call("a"), change_call("b")]), answering("done")]);
    let agent = Agent::new(Arc::clone(&model), tools(&changes)).approver(|_: &ToolCall| Decision::Stop);
    let trajectory = agent.run("go");
    assert_eq!((&trajectory.stop, changes.load(Ordering::SeqCst)), (&StopReason::StoppedAtApproval, 0));
    assert_eq!(kinds(&trajectory), [Some(ToolErrorKind::NotRun); 2]);
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn nobody_is_asked_about_what_would_not_run() {
    let changes = Arc::default();
    let never = |_: &ToolCall| -> Decision { panic!("asked") };
    let wrong = || calling([call("", "change-it", json!({"what": "all"})), change_call("")]);
    let agent = Agent::new(Replies::new([wrong(), answering("done")]), tools(&changes));
    let trajectory = agent.approver(never).dry_run(true).run("go");
    let refused = [Some(ToolErrorKind::InvalidArguments), Some(ToolErrorKind::Refused)];
    assert_eq!((kinds(&trajectory), trajectory.stop), (refused.to_vec(), StopReason::Answered));
    assert_eq!(texts_of_dry_run(&changes), "refused: `change-it` changes something, and this is a dry run");
}

fn texts_of_dry_run(changes: &Arc<AtomicUsize>) -> String {
    let agent = Agent::new(Replies::new([calling([change_call("")]), answering("done")]), tools(changes));
    texts(&agent.dry_run(true).run("go")).remove(0)
}

#[test]
fn who_panics_has_denied() {
    let changes = Arc::default();
    let agent = Agent::new(Replies::new([calling([change_call("")]), answering("done")]), tools(&changes));
    let trajectory = agent.approver(|_: &ToolCall| -> Decision { panic!("no idea") }).run("go");
    assert_eq!((trajectory.stop.clone(), changes.load(Ordering::SeqCst)), (StopReason::Answered, 0));
    let wanted = "refused: the call was not approved: who was asked panicked: no idea";
    assert_eq!(texts(&trajectory), [wanted]);
}

#[test]
fn who_never_answers_holds_the_run_no_longer_than_its_time() {
    let (changes, parked) = (Arc::default(), Parked::default());
    let waits = parked.clone();
    let model = Replies::new([calling([change_call("a"), change_call("b")]), answering("done")]);
    let trajectory = Agent::new(Arc::clone(&model), tools(&changes))
        .bounds(Bounds { wall: Duration::from_millis(200), ..Bounds::default() })
        .approver(move |_: &ToolCall| {
            waits.wait();
            Decision::Allow
        })
        .run("go");
    assert_eq!((&trajectory.stop, changes.load(Ordering::SeqCst)), (&StopReason::WallClock, 0));
    assert_eq!(kinds(&trajectory), [Some(ToolErrorKind::NotRun); 2]);
    assert_one_result_each(&trajectory, &model.requests());
    parked.release();
}

#[test]
fn whoever_shows_the_events_has_shown_the_question_before_it_is_asked() {
    let (changes, events) = (Arc::default(), Arc::new(Events::default()));
    let shown = Arc::clone(&events);
    Agent::new(Replies::new([calling([change_call("a")]), answering("done")]), tools(&changes))
        .events(Arc::clone(&events) as Arc<dyn EventSink>)
        .approver(move |call: &ToolCall| {
            let asked = AgentEvent::ApprovalAsked {
                call_id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            };
            assert_eq!(shown.0.lock().expect("lock").last(), Some(&asked));
            Decision::Allow
        })
        .run("go");
    assert_eq!(changes.load(Ordering::SeqCst), 1);
    let answered = AgentEvent::ApprovalAnswered { call_id: "a".to_owned(), decision: Decision::Allow };
    let events = events.0.lock().expect("lock");
    let at = events.iter().position(|event| *event == answered).expect("an answer");
    assert!(
        matches!(&events[at + 1], AgentEvent::ToolStarted { call_id, mutates: true, .. } if call_id == "a")
    );
}
