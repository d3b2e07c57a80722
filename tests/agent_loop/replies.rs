//! What a model says, and how a run ends by it.

use crate::kit::*;
use agentkit_agent::model::scripted::{Scripted, ScriptedArguments, Turn};
use agentkit_agent::model::{Finish, Message, Reply};
use agentkit_agent::{Agent, ModelError, ModelErrorKind, StopReason, ToolErrorKind, Trajectory};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_cut_reply_executes_nothing_and_the_loop_goes_on() {
    let calls = Arc::new(AtomicUsize::new(0));
    let cut = Reply {
        finish: Finish::Cut("length".to_owned()),
        ..calling([call("a", "counter", json!({})), call("b", "counter", json!({}))])
    };
    let model = Replies::new([cut, answering("done")]);
    let trajectory =
        Agent::new(Arc::clone(&model), registry(vec![Box::new(counter::tool(Arc::clone(&calls)))])).run("go");
    assert_eq!((trajectory.stop.clone(), calls.load(Ordering::SeqCst)), (StopReason::Answered, 0));
    assert!(texts(&trajectory).iter().all(|text| text.starts_with("not run: the reply was cut (length)")));
    assert_one_result_each(&trajectory, &model.requests());
}

#[test]
fn a_run_can_end_without_an_answer() {
    let stop = |reply: Reply| {
        let trajectory = Agent::new(Replies::new([reply]), echo_only()).run("go");
        assert_eq!(trajectory.answer, None);
        trajectory.stop
    };
    assert_eq!(stop(answering("")), StopReason::NoAnswer);
    assert_eq!(stop(answering(" \n")), StopReason::NoAnswer);
    assert_eq!(stop(Reply { finish: Finish::Refused, ..answering("I will not.") }), StopReason::Refused);
    let cut = Reply { finish: Finish::Cut("length".to_owned()), ..answering("The answer is 1") };
    assert_eq!(stop(cut), StopReason::Cut("length".to_owned()));
    let failed = Replies { replies: vec![Err(ModelError::new("broken"))], ..Replies::default() };
    assert_eq!(Agent::new(failed, echo_only()).run("go").stop, StopReason::ModelFailed("broken".to_owned()));
    let overflow = ModelError { kind: ModelErrorKind::ContextOverflow, message: "too long".to_owned() };
    let failed = Arc::new(Replies { replies: vec![Err(overflow)], ..Replies::default() });
    let trajectory = Agent::new(Arc::clone(&failed), echo_only()).run("go");
    assert_eq!(trajectory.stop, StopReason::ContextOverflow("too long".to_owned()));
    assert_eq!(failed.requests().len(), 1);
}

#[test]
fn a_refusal_executes_nothing() {
    let calls = Arc::new(AtomicUsize::new(0));
    let refused = Reply { finish: Finish::Refused, ..calling([call("a", "counter", json!({}))]) };
    let tools = registry(vec![Box::new(counter::tool(Arc::clone(&calls)))]);
    let trajectory = Agent::new(Replies::new([refused]), tools).run("go");
    assert_eq!((trajectory.stop.clone(), calls.load(Ordering::SeqCst)), (StopReason::Refused, 0));
    assert_eq!(kinds(&trajectory), [Some(ToolErrorKind::NotRun)]);
}

#[test]
fn missing_and_duplicate_ids_become_unique() {
    let same = |id| call(id, "echo", json!({"text": id}));
    let model = Replies::new([
        calling([same(""), same(" "), same("x"), same("x"), same("call_2")]),
        calling([same("x"), same("")]),
        answering("done"),
    ]);
    let trajectory = Agent::new(Arc::clone(&model), echo_only()).run("go");
    assert_eq!(trajectory.stop, StopReason::Answered);
    assert_one_result_each(&trajectory, &model.requests());
    assert_eq!(trajectory.steps[0].reply.calls[2].id, "x");
}

#[test]
fn the_system_text_comes_first() {
    let model = Replies::new([answering("done")]);
    Agent::new(Arc::clone(&model), echo_only()).system("Be brief.").run("go");
    let wanted = [Message::System("Be brief.".to_owned()), Message::User("go".to_owned())];
    assert_eq!(model.requests()[0], wanted);
}

#[test]
fn a_trajectory_serializes() {
    let turns = vec![echoing("a"), Turn::call("missing", json!({})), Turn::answer("{last}")];
    let trajectory = Agent::new(Scripted::new("s", turns), echo_only()).run("go");
    let written = serde_json::to_value(&trajectory).expect("serializable");
    assert_eq!((&written["prompt"], &written["stop"]), (&json!("go"), &json!("answered")));
    let first = &written["steps"][0]["calls"][0];
    assert_eq!(first["call"], json!({"id": "call_1", "name": "echo", "arguments": "{\"text\":\"a\"}"}));
    assert_eq!(first["result"], json!({"Ok": {"text": "a", "details": null}}));
    assert_eq!(written["steps"][1]["calls"][0]["result"]["Err"]["kind"], "unknown_tool");
    assert_eq!(written["steps"][2]["reply"]["finish"], "done");
    assert_eq!(json!(StopReason::Cut("length".to_owned())), json!({"cut": "length"}));
}

#[test]
fn a_script_fills_in_the_last_result_and_fails_loudly() {
    let run = |turns| Agent::new(Scripted::new("s", turns), echo_only()).run("go");
    let turns = vec![
        echoing("  42\n"),
        Turn::call("echo", json!({"text": "got {last}, {last}"})),
        Turn::call("echo", ScriptedArguments::from(r#"{"text":"raw {last}"}"#)),
        Turn::answer("it is {last}"),
    ];
    let trajectory = run(turns);
    assert_eq!(texts(&trajectory), ["  42\n", "got 42, 42", "raw {last}"]);
    assert_eq!(trajectory.answer.as_deref(), Some("it is raw {last}"));
    let exhausted = "script `s` is exhausted: the run asks for a reply after its 1 turn(s)";
    assert_eq!(run(vec![echoing("a")]).stop, StopReason::ModelFailed(exhausted.to_owned()));
    let premature = "script `s` uses {last} before there is a tool result";
    assert_eq!(run(vec![Turn::answer("{last}")]).stop, StopReason::ModelFailed(premature.to_owned()));
    assert_eq!(run(vec![echoing("{last}")]).stop, StopReason::ModelFailed(premature.to_owned()));
}

#[test]
fn one_script_serves_many_runs_alike() {
    let agent = Agent::new(Scripted::new("s", vec![echoing("a"), Turn::answer("{last}")]), echo_only());
    let ids =
        |trajectory: &Trajectory| trajectory.calls().map(|record| record.call.id.clone()).collect::<Vec<_>>();
    let (one, two) = (agent.run("go"), agent.run("go"));
    assert_eq!((ids(&one), &one.answer), (ids(&two), &two.answer));
    assert_eq!(ids(&one), ["call_1"]);
}
