//! What a listener hears, and what a bad one can do to a run: nothing.

use crate::kit::*;
use agentkit_agent::model::scripted::{Scripted, Turn};
use agentkit_agent::{Agent, AgentEvent, Bounds, EventSink, StopReason, ToolErrorKind};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One word for each event.
fn word(event: &AgentEvent) -> String {
    match event {
        AgentEvent::RunStarted { model, prompt, .. } => {
            format!("run {model} {}", prompt.as_deref().unwrap_or("-"))
        }
        AgentEvent::StepStarted { step } => format!("step {step}"),
        AgentEvent::Replied { step, reply, .. } => format!("replied {step} {}", reply.calls.len()),
        AgentEvent::ToolStarted { call_id, mutates, .. } => format!("started {call_id} {mutates}"),
        AgentEvent::ToolFinished { call_id, error, text, .. } => {
            format!("finished {call_id} {error:?} {text}")
        }
        AgentEvent::Advised { call_id, times } => format!("advised {call_id} {times}"),
        AgentEvent::Stopped { stop, answer, .. } => {
            format!("stopped {stop:?} {}", answer.as_deref().unwrap_or("-"))
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_listener_hears_every_step() {
    let events = Arc::new(Events::default());
    let turns = vec![
        echoing("a"),
        Turn::Calls(vec![
            ("change-it".to_owned(), json!({}).into()),
            ("missing".to_owned(), json!({}).into()),
        ]),
        Turn::answer("done"),
    ];
    let tools = registry(vec![Box::new(echo::tool()), Box::new(change::tool(Arc::default()))]);
    Agent::new(Scripted::new("s", turns), tools).events(Arc::clone(&events) as Arc<dyn EventSink>).run("go");
    let heard: Vec<String> = events.0.lock().expect("lock").iter().map(word).collect();
    let missing = "there is no tool `missing` (valid: `echo`, `change-it`)";
    let wanted = [
        "run s go",
        "step 1",
        "replied 1 1",
        "started call_1 false",
        "finished call_1 None a",
        "step 2",
        "replied 2 2",
        "started call_2 true",
        "finished call_2 None changed",
        "started call_3 false",
        &format!("finished call_3 {:?} {missing}", Some(ToolErrorKind::UnknownTool)),
        "step 3",
        "replied 3 0",
        "stopped Answered done",
    ];
    assert_eq!(heard, wanted);
}

#[test]
fn advice_and_calls_that_are_not_run_are_heard_too() {
    let events = Arc::new(Events::default());
    Agent::new(Scripted::new("s", vec![echoing("a"); 9]), echo_only())
        .events(Arc::clone(&events) as Arc<dyn EventSink>)
        .run("go");
    let heard: Vec<String> = events.0.lock().expect("lock").iter().map(word).collect();
    let tail = &heard[heard.len() - 5..];
    assert_eq!((tail[0].as_str(), tail[1].as_str()), ("advised call_3 3", "step 4"));
    assert!(tail[3].starts_with("finished call_4 Some(NotRun) not run: the same call"), "{tail:?}");
    assert_eq!(tail[4], "stopped Looped -");
}

/// Panics at the event of this number.
struct Panics(AtomicUsize, usize);

impl EventSink for Panics {
    fn emit(&self, _event: AgentEvent) {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) + 1 < self.1, "on purpose");
    }
}

#[test]
fn a_listener_that_panics_hears_nothing_more_and_the_run_goes_on() {
    let sink = Arc::new(Panics(AtomicUsize::new(0), 3));
    let turns = vec![echoing("a"), Turn::answer("done")];
    let agent = Agent::new(Scripted::new("s", turns), echo_only());
    let trajectory = agent.events(Arc::clone(&sink) as Arc<dyn EventSink>).run("go");
    assert_eq!((trajectory.stop, sink.0.load(Ordering::SeqCst)), (StopReason::Answered, 3));
}

/// Hears one event, and then nothing until it is released.
#[derive(Default)]
struct Stuck {
    parked: Parked,
    heard: Mutex<Vec<AgentEvent>>,
}

impl EventSink for Stuck {
    fn emit(&self, event: AgentEvent) {
        self.heard.lock().expect("lock").push(event);
        self.parked.wait();
    }
}

#[test]
fn a_listener_that_hangs_holds_no_run_and_is_told_what_it_lost() {
    let sink = Arc::new(Stuck::default());
    let turns = (0..700).map(|n| echoing(&n.to_string())).chain([Turn::answer("done")]).collect();
    let bounds = Bounds { max_steps: 800, max_calls: 800, max_tokens: u64::MAX, ..Bounds::default() };
    let agent = Agent::new(Scripted::new("s", turns), echo_only()).bounds(bounds);
    let started = Instant::now();
    let trajectory = agent.events(Arc::clone(&sink) as Arc<dyn EventSink>).run("go");
    assert_eq!((trajectory.stop, trajectory.steps.len()), (StopReason::Answered, 701));
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert_eq!(sink.heard.lock().expect("lock").len(), 1);
    sink.parked.release();
}
