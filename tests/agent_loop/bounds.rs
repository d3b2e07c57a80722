//! What a run may use up, and what becomes of calls when it has.

use crate::kit::*;
use agentkit_agent::model::Reply;
use agentkit_agent::model::scripted::{Scripted, Turn};
use agentkit_agent::{Agent, Bounds, StopReason, Tool, ToolErrorKind};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn n_steps_are_n_model_calls_and_an_answer_on_the_last_counts() {
    let turns = || vec![echoing("a"), echoing("b"), Turn::answer("done")];
    for (max_steps, stop, replies, kinds_wanted) in [
        (0, StopReason::MaxSteps, 0, vec![]),
        (1, StopReason::MaxSteps, 1, vec![Some(ToolErrorKind::NotRun)]),
        (2, StopReason::MaxSteps, 2, vec![None, Some(ToolErrorKind::NotRun)]),
        (3, StopReason::Answered, 3, vec![None, None]),
        (4, StopReason::Answered, 3, vec![None, None]),
    ] {
        let bounds = Bounds { max_steps, ..Bounds::default() };
        let trajectory = Agent::new(Scripted::new("s", turns()), echo_only()).bounds(bounds).run("go");
        assert_eq!((&trajectory.stop, trajectory.steps.len()), (&stop, replies), "{max_steps}");
        assert_eq!(kinds(&trajectory), kinds_wanted, "{max_steps}");
        assert_eq!(trajectory.answer.is_some(), stop == StopReason::Answered);
    }
}

#[test]
fn time_is_looked_at_before_every_call() {
    let clock = TestClock::new();
    let reply = calling([
        call("a", "slow", json!({"seconds": 4})),
        call("b", "slow", json!({"seconds": 6})),
        call("c", "slow", json!({"seconds": 1})),
    ]);
    let model = Replies::new([reply, answering("late")]);
    let trajectory = Agent::new(Arc::clone(&model), registry(vec![Box::new(slow::tool(Arc::clone(&clock)))]))
        .bounds(Bounds { wall: Duration::from_secs(10), ..Bounds::default() })
        .clock(clock)
        .run("go");
    assert_eq!(trajectory.stop, StopReason::WallClock);
    assert_eq!(kinds(&trajectory), [None, None, Some(ToolErrorKind::NotRun)]);
    assert_eq!(texts(&trajectory)[2], "not run: the time budget of 10 s is used up");
    assert_eq!(trajectory.elapsed, Duration::from_secs(10));
    assert_eq!(trajectory.calls().map(|record| record.elapsed.as_secs()).collect::<Vec<_>>(), [4, 6, 0]);
    assert_one_result_each(&trajectory, &model.requests());
}

#[test]
fn a_tool_sees_the_deadline_of_the_run() {
    let clock = TestClock::new();
    let turns = vec![
        Turn::call("slow", json!({"seconds": 3})),
        Turn::call("time_left", json!({})),
        Turn::answer("{last}"),
    ];
    let tools: Vec<Box<dyn Tool>> =
        vec![Box::new(slow::tool(Arc::clone(&clock))), Box::new(time_left::tool())];
    let trajectory = Agent::new(Scripted::new("s", turns), registry(tools))
        .bounds(Bounds { wall: Duration::from_secs(10), ..Bounds::default() })
        .clock(clock)
        .run("go");
    assert_eq!(trajectory.answer.as_deref(), Some("Some(7s)"));
}

#[test]
fn reported_tokens_are_added_up_and_unknown_ones_estimated() {
    let with = |tokens| Reply { tokens, ..calling([call("", "echo", json!({"text": "a"}))]) };
    let run = |replies: Vec<Reply>, max_tokens| {
        let model = Replies::new(replies);
        Agent::new(Arc::clone(&model), echo_only())
            .bounds(Bounds { max_tokens, ..Bounds::default() })
            .run("go")
    };
    let trajectory = run(vec![with(Some(60)), with(Some(60)), answering("done")], 100);
    assert_eq!((trajectory.stop, trajectory.tokens), (StopReason::MaxTokens, Some(120)));
    let trajectory = run(vec![with(Some(60)), answering("done")], 100);
    assert_eq!((trajectory.stop, trajectory.tokens), (StopReason::Answered, None));
    // About 400 bytes of conversation make 100 tokens.
    let long = calling([call("", "echo", json!({"text": "x".repeat(400)}))]);
    let trajectory = run(vec![long, answering("done")], 100);
    assert_eq!((trajectory.stop, trajectory.tokens), (StopReason::MaxTokens, None));
    assert!(
        run(vec![answering("done")], 1).stop == StopReason::Answered,
        "an answer that was paid for counts"
    );
}

#[test]
fn a_flood_of_calls_is_answered_in_full_and_run_in_part() {
    let calls = Arc::new(AtomicUsize::new(0));
    let flood = calling((0..50_000).map(|_| call("", "counter", json!({}))));
    let model = Replies::new([flood, answering("done")]);
    let tools = registry(vec![Box::new(counter::tool(Arc::clone(&calls)))]);
    let started = Instant::now();
    let trajectory = Agent::new(Arc::clone(&model), tools)
        .bounds(Bounds { max_calls_per_reply: 3, ..Bounds::default() })
        .run("go");
    // With ids searched for from the start each time, this took minutes.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!((&trajectory.stop, calls.load(Ordering::SeqCst)), (&StopReason::Answered, 3));
    assert_one_result_each(&trajectory, &model.requests());
    let last = texts(&trajectory).pop();
    let wanted = "not run: of one reply at most 3 calls can be run; make the others again in the next";
    assert_eq!(last.as_deref(), Some(wanted));
}

#[test]
fn long_results_are_cut_between_characters_with_a_note() {
    let turns = vec![echoing(&"é".repeat(1_000)), Turn::answer("done")];
    let bounds = Bounds { max_result_bytes: 101, ..Bounds::default() };
    let trajectory = Agent::new(Scripted::new("s", turns), echo_only()).bounds(bounds).run("go");
    let text = &texts(&trajectory)[0];
    let side = "é".repeat(25);
    assert_eq!(*text, format!("{side}\n[... 1900 of 2000 bytes left out here ...]\n{side}"));
}

#[test]
fn calls_are_counted_one_by_one_and_an_answer_after_the_last_counts() {
    let replies = || {
        let pair = |a: &str, b: &str| {
            calling([call("", "echo", json!({"text": a})), call("", "echo", json!({"text": b}))])
        };
        [pair("a", "b"), pair("c", "d"), answering("done")]
    };
    let not_run = Some(ToolErrorKind::NotRun);
    for (max_calls, stop, wanted) in [
        (0, StopReason::MaxCalls, vec![not_run, not_run]),
        (1, StopReason::MaxCalls, vec![None, not_run]),
        (3, StopReason::MaxCalls, vec![None, None, None, not_run]),
        (4, StopReason::Answered, vec![None; 4]),
    ] {
        let model = Replies::new(replies());
        let bounds = Bounds { max_calls, ..Bounds::default() };
        let trajectory = Agent::new(Arc::clone(&model), echo_only()).bounds(bounds).run("go");
        assert_eq!((&trajectory.stop, kinds(&trajectory)), (&stop, wanted), "{max_calls}");
        assert_one_result_each(&trajectory, &model.requests());
    }
}

#[test]
fn a_reply_that_is_too_long_is_dropped_whatever_it_is_made_of() {
    let long = || "x".repeat(1_000);
    let bounds = || Bounds { max_reply_bytes: 1_000, ..Bounds::default() };
    let run = |reply: Reply| {
        let trajectory = Agent::new(Replies::new([reply]), echo_only()).bounds(bounds()).run("go");
        assert!(trajectory.stop == StopReason::Answered || trajectory.steps.is_empty());
        trajectory.stop
    };
    assert_eq!(run(answering(&long())), StopReason::Answered);
    assert_eq!(run(answering(&(long() + "x"))), StopReason::Flooded);
    assert_eq!(run(Reply { reasoning: Some(long()), ..answering("x") }), StopReason::Flooded);
    assert_eq!(run(calling([call("", "echo", json!({"text": long()}))])), StopReason::Flooded);
    assert_eq!(run(calling((0..5).map(|_| call("", "x", json!({}))))), StopReason::Flooded);
}
