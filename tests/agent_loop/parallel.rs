//! Calls of one reply side by side, and what keeps them apart.

use crate::kit::*;
use agentkit_agent::{Agent, AgentEvent, Bounds, Context, EventSink, StopReason, Tool, ToolErrorKind, tool};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

/// Comes back when as many calls as the barrier has places have come.
#[tool]
fn meet(barrier: &Arc<Barrier>, id: u32) -> String {
    barrier.wait();
    format!("met as {id}")
}

#[test]
fn calls_that_change_nothing_run_side_by_side() {
    // Would never end if one had to wait for another.
    let tools = registry(vec![Box::new(meet::tool(Arc::new(Barrier::new(4))))]);
    let model =
        Replies::new([calling((0..4).map(|id| call("", "meet", json!({"id": id})))), answering("done")]);
    let trajectory = Agent::new(Arc::clone(&model), tools).run("go");
    assert_eq!(trajectory.stop, StopReason::Answered);
    assert_eq!(texts(&trajectory), ["met as 0", "met as 1", "met as 2", "met as 3"]);
    assert_one_result_each(&trajectory, &model.requests());
}

/// Now and at most at one time.
#[derive(Default)]
struct Peak(AtomicUsize, AtomicUsize);

/// Notes how many are under way, in pairs.
#[tool]
fn crowd(state: &(Arc<Peak>, Barrier), id: u32) -> String {
    let (peak, pair) = state;
    peak.1.fetch_max(peak.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    pair.wait();
    peak.0.fetch_sub(1, Ordering::SeqCst);
    id.to_string()
}

#[test]
fn no_more_run_at_a_time_than_may() {
    let peak = Arc::new(Peak::default());
    let tools = registry(vec![Box::new(crowd::tool((Arc::clone(&peak), Barrier::new(2))))]);
    let model =
        Replies::new([calling((0..10).map(|id| call("", "crowd", json!({"id": id})))), answering("x")]);
    let bounds = Bounds { max_parallel_calls: 2, ..Bounds::default() };
    let trajectory = Agent::new(model, tools).bounds(bounds).run("go");
    assert_eq!(trajectory.stop, StopReason::Answered);
    assert_eq!(peak.1.load(Ordering::SeqCst), 2);
}

/// What was begun and what was done, in that order.
type Diary = Arc<Mutex<Vec<String>>>;

fn write(diary: &Diary, word: &str, id: u32) -> String {
    let entry = format!("{word} {id}");
    diary.lock().expect("lock").push(entry.clone());
    entry
}

/// Looks, together with another.
#[tool]
fn look(state: &(Diary, Barrier), id: u32) -> String {
    write(&state.0, "begin", id);
    state.1.wait();
    write(&state.0, "end", id)
}

/// Changes something.
#[tool(mutates)]
fn alter(diary: &Diary, id: u32) -> String {
    write(diary, "begin", id);
    std::thread::yield_now();
    write(diary, "end", id)
}

#[test]
fn a_call_that_changes_something_runs_alone() {
    let diary = Diary::default();
    let tools = registry(vec![
        Box::new(look::tool((Arc::clone(&diary), Barrier::new(2)))),
        Box::new(alter::tool(Arc::clone(&diary))),
    ]);
    let names = ["look", "look", "alter", "alter", "look", "look"];
    let calls = (0..).zip(names).map(|(id, name)| call("", name, json!({"id": id})));
    let trajectory = Agent::new(Replies::new([calling(calls), answering("x")]), tools).run("go");
    assert_eq!(texts(&trajectory), ["end 0", "end 1", "end 2", "end 3", "end 4", "end 5"]);
    let diary = diary.lock().expect("lock");
    let mut pairs: Vec<Vec<&str>> =
        diary.chunks(4).map(|four| four.iter().map(String::as_str).collect()).collect();
    pairs[0].sort_unstable();
    pairs[2].sort_unstable();
    assert_eq!(pairs[0], ["begin 0", "begin 1", "end 0", "end 1"]);
    assert_eq!(pairs[1], ["begin 2", "end 2", "begin 3", "end 3"]);
    assert_eq!(pairs[2], ["begin 4", "begin 5", "end 4", "end 5"]);
}

/// The first waits for the second to be over.
#[tool]
fn overtake(over: &Parked, first: bool) -> String {
    match first {
        true => over.wait(),
        false => over.release(),
    }
    first.to_string()
}

#[test]
fn results_and_events_come_in_the_order_of_the_calls() {
    let (events, over) = (Arc::new(Events::default()), Parked::default());
    let reply = calling([
        call("1", "overtake", json!({"first": true})),
        call("2", "overtake", json!({"first": false})),
        call("3", "missing", json!({})),
    ]);
    let model = Replies::new([reply, answering("done")]);
    let trajectory = Agent::new(Arc::clone(&model), registry(vec![Box::new(overtake::tool(over))]))
        .events(Arc::clone(&events) as Arc<dyn EventSink>)
        .run("go");
    assert_eq!(kinds(&trajectory), [None, None, Some(ToolErrorKind::UnknownTool)]);
    assert_one_result_each(&trajectory, &model.requests());
    let order: Vec<String> = events
        .0
        .lock()
        .expect("lock")
        .iter()
        .filter_map(|event| match event {
            AgentEvent::ToolStarted { call_id, .. } => Some(format!("+{call_id}")),
            AgentEvent::ToolFinished { call_id, .. } => Some(format!("-{call_id}")),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["+1", "+2", "+3", "-1", "-2", "-3"]);
}

/// Comes back when it is told to.
#[tool]
fn obey(context: &Context) -> String {
    while !context.cancel().is_cancelled() {
        std::thread::yield_now();
    }
    "stopped".to_owned()
}

/// Raises the flag.
#[tool]
fn raise(context: &Context) -> String {
    context.cancel().cancel();
    "raised".to_owned()
}

#[test]
fn a_call_that_ends_the_run_ends_those_beside_it() {
    let tools: Vec<Box<dyn Tool>> =
        vec![Box::new(obey::tool()), Box::new(raise::tool()), Box::new(broken::tool(Mutex::new(0)))];
    let reply = calling([
        call("", "obey", json!({})),
        call("", "broken", json!({"message": "beside it"})),
        call("", "raise", json!({})),
        call("", "change-it", json!({})),
    ]);
    let model = Replies::new([reply, answering("done")]);
    let trajectory = Agent::new(Arc::clone(&model), registry(tools)).run("go");
    assert_eq!(trajectory.stop, StopReason::Cancelled);
    let wanted = ["stopped", "`broken` failed inside: beside it", "raised"];
    assert_eq!(texts(&trajectory)[..3], wanted);
    assert_one_result_each(&trajectory, &model.requests());
}
