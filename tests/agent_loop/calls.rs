//! What becomes of a call: panics, dry runs, cancellation.

use crate::kit::*;
use agentkit_agent::model::scripted::{Scripted, Turn};
use agentkit_agent::{Agent, Cancel, StopReason, Tool, ToolErrorKind};
use serde_json::json;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn a_panic_becomes_the_result_of_its_call_and_the_tool_stays_usable() {
    let tools: Vec<Box<dyn Tool>> = vec![Box::new(broken::tool(Mutex::new(0))), Box::new(echo::tool())];
    let turns = vec![
        Turn::call("broken", json!({"message": "on purpose"})),
        Turn::call("broken", json!({})),
        echoing("alive"),
        Turn::answer("{last}"),
    ];
    let trajectory = Agent::new(Scripted::new("s", turns), registry(tools)).run("go");
    let panicked = Some(ToolErrorKind::Panicked);
    assert_eq!(kinds(&trajectory), [panicked, panicked, None]);
    assert_eq!(texts(&trajectory)[0], "`broken` failed inside: on purpose");
    assert_eq!(texts(&trajectory)[1], "`broken` failed inside: it panicked without a message");
    assert_eq!(trajectory.answer.as_deref(), Some("alive"));
}

/// Runs itself once more, with stderr caught.
#[test]
fn a_panic_of_a_tool_prints_nothing_and_others_print_as_ever() {
    const CHILD: &str = "AGENTKIT_TEST_PANICS";
    if std::env::var_os(CHILD).is_some() {
        let turns =
            vec![Turn::call("broken", json!({"message": "\u{1b}[31mof the tool"})), Turn::answer("ok")];
        let tools = registry(vec![Box::new(broken::tool(Mutex::new(0)))]);
        let trajectory = Agent::new(Scripted::new("s", turns), tools).run("go");
        assert_eq!(texts(&trajectory), ["`broken` failed inside: \u{1b}[31mof the tool"]);
        assert!(std::thread::spawn(|| panic!("of another thread")).join().is_err());
        return;
    }
    let name = "calls::a_panic_of_a_tool_prints_nothing_and_others_print_as_ever";
    let mut child = Command::new(std::env::current_exe().expect("a path"));
    let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().expect("runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("of another thread") && !stderr.contains("of the tool"), "{stderr}");
}

#[test]
fn a_dry_run_checks_arguments_before_it_refuses() {
    let turns = vec![Turn::call("change-it", json!({"what": "all"})), Turn::answer("done")];
    let tools = registry(vec![Box::new(change::tool(Arc::default()))]);
    let trajectory = Agent::new(Scripted::new("s", turns), tools).dry_run(true).run("go");
    assert_eq!(kinds(&trajectory), [Some(ToolErrorKind::InvalidArguments)]);
}

#[test]
fn a_dry_run_refuses_what_changes_something_also_among_parallel_calls() {
    let calls = Arc::new(AtomicUsize::new(0));
    let tools = || registry(vec![Box::new(change::tool(Arc::clone(&calls))), Box::new(echo::tool())]);
    let reply = calling([
        call("a", "echo", json!({"text": "x"})),
        call("b", "change-it", json!({})),
        call("c", "change-it", json!({})),
    ]);
    let model = Replies::new([reply.clone(), answering("done")]);
    let trajectory = Agent::new(Arc::clone(&model), tools()).dry_run(true).run("go");
    let refused = Some(ToolErrorKind::Refused);
    assert_eq!((kinds(&trajectory), calls.load(Ordering::SeqCst)), (vec![None, refused, refused], 0));
    assert_eq!(texts(&trajectory)[1], "refused: `change-it` changes something, and this is a dry run");
    let model = Replies::new([reply, answering("done")]);
    Agent::new(Arc::clone(&model), tools()).run("go");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn cancelling_leaves_no_call_without_a_result() {
    let reply = calling([call("a", "give_up", json!({})), call("b", "echo", json!({"text": "x"}))]);
    let model = Replies::new([reply, answering("done")]);
    let tools = registry(vec![Box::new(give_up::tool()), Box::new(echo::tool())]);
    let trajectory = Agent::new(Arc::clone(&model), tools).run("go");
    assert_eq!(trajectory.stop, StopReason::Cancelled);
    assert_eq!(texts(&trajectory), ["given up", "not run: the run was cancelled"]);
    let cancel = Cancel::default();
    cancel.cancel();
    let model = Replies::new([answering("done")]);
    let trajectory = Agent::new(Arc::clone(&model), echo_only()).cancel(cancel).run("go");
    assert_eq!((trajectory.stop, model.requests().len()), (StopReason::Cancelled, 0));
}

/// With `panic = "abort"` a panic of a tool would end the program. `cargo run --release -p agentkit-agent --example
/// embedded` shows that a release build survives one; this keeps the profile that it is built by.
#[test]
fn release_builds_unwind() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, release) = manifest.split_once("[profile.release]").expect("the profile");
    let (release, _) = release.split_once("\n[").expect("another after it");
    assert!(release.lines().any(|line| line == "panic = \"unwind\""), "{release}");
}
