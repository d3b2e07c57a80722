//! The same call over and over.

use crate::kit::*;
use agentkit_agent::model::scripted::{Scripted, Turn};
use agentkit_agent::{Agent, Bounds, StopReason, Tool, ToolErrorKind};
use serde_json::json;
use std::sync::Arc;

#[test]
fn the_third_same_result_carries_advice_and_a_fourth_call_stops_the_run() {
    let turns = vec![echoing("same"); 10];
    let trajectory = Agent::new(Scripted::new("s", turns), echo_only()).run("go");
    assert_eq!((&trajectory.stop, trajectory.steps.len()), (&StopReason::Looped, 4));
    assert_eq!(kinds(&trajectory), [None, None, None, Some(ToolErrorKind::NotRun)]);
    let texts = texts(&trajectory);
    assert_eq!((texts[0].as_str(), texts[1].as_str()), ("same", "same"));
    assert!(
        texts[2]
            .starts_with("same\n\n[This call with the same arguments has returned the same result 3 times.")
    );
    assert!(texts[3].starts_with("not run: the same call has kept returning"));
}

#[test]
fn a_failing_call_repeats_too() {
    let turns = vec![Turn::call("missing", json!({})); 10];
    let trajectory = Agent::new(Scripted::new("s", turns), echo_only()).run("go");
    assert_eq!((&trajectory.stop, trajectory.steps.len()), (&StopReason::Looped, 4));
}

#[test]
fn polling_and_varying_arguments_are_no_loop() {
    let polling = vec![Turn::call("counter", json!({})); 12];
    let tools: Vec<Box<dyn Tool>> = vec![Box::new(counter::tool(Arc::default()))];
    let bounds = || Bounds { max_steps: 12, max_consecutive_errors: 20, ..Bounds::default() };
    let trajectory = Agent::new(Scripted::new("s", polling), registry(tools)).bounds(bounds()).run("go");
    assert_eq!(trajectory.stop, StopReason::MaxSteps);
    let varying = (0..12).map(|n| Turn::call("missing", json!({ "n": n }))).collect();
    let trajectory = Agent::new(Scripted::new("s", varying), echo_only()).bounds(bounds()).run("go");
    assert_eq!(trajectory.stop, StopReason::MaxSteps);
}

#[test]
fn parallel_twins_are_not_run_but_do_not_end_the_run() {
    let twins = calling((0..5).map(|_| call("", "echo", json!({"text": "a"}))));
    let model = Replies::new([twins, answering("done")]);
    let trajectory = Agent::new(Arc::clone(&model), echo_only()).run("go");
    let not_run = Some(ToolErrorKind::NotRun);
    assert_eq!(
        (&trajectory.stop, kinds(&trajectory)),
        (&StopReason::Answered, vec![None, None, None, not_run, not_run])
    );
    assert_one_result_each(&trajectory, &model.requests());
}

#[test]
fn errors_in_a_row_end_the_run_whatever_the_arguments() {
    let wrong = |n: i32| Turn::call("missing", json!({ "n": n }));
    let turns = [wrong(1), wrong(2), echoing("a"), wrong(3), wrong(4), wrong(5), Turn::answer("done")];
    let bounds = Bounds { max_consecutive_errors: 3, ..Bounds::default() };
    let agent = Agent::new(Scripted::new("s", turns.to_vec()), echo_only()).bounds(bounds);
    let trajectory = agent.run("go");
    assert_eq!((&trajectory.stop, trajectory.steps.len()), (&StopReason::TooManyErrors, 6));
    // The calls of one reply that wait are answered with the reason.
    let model = Replies::new([calling((0..5).map(|n| call("", "missing", json!({ "n": n }))))]);
    let bounds = Bounds { max_consecutive_errors: 2, max_parallel_calls: 1, ..Bounds::default() };
    let trajectory = Agent::new(Arc::clone(&model), echo_only()).bounds(bounds).run("go");
    assert_eq!(trajectory.stop, StopReason::TooManyErrors);
    assert_eq!(texts(&trajectory)[2], "not run: the last 2 calls returned errors, so the run stops here");
}
