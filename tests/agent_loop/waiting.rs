//! Models and tools that never come back.

use crate::kit::*;
use agentkit_agent::model::{Reply, Request};
use agentkit_agent::{Agent, Bounds, Cancel, Context, Model, ModelError, StopReason, ToolErrorKind, tool};
use serde_json::json;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Never comes back. Says that it was called, and once released what it sees.
#[tool]
fn hang(context: &Context, state: &(Parked, Sender<bool>)) -> String {
    let (parked, tell) = state;
    tell.send(context.cancel().is_cancelled()).expect("the test");
    parked.wait();
    tell.send(context.cancel().is_cancelled()).expect("the test");
    "too late".to_owned()
}

#[test]
fn a_tool_that_never_comes_back_is_abandoned_at_the_deadline() {
    let (parked, (tell, told)) = (Parked::default(), channel());
    let reply = calling([call("a", "hang", json!({})), call("b", "echo", json!({"text": "beside it"}))]);
    let model = Replies::new([reply, answering("done")]);
    let tools = registry(vec![Box::new(hang::tool((parked.clone(), tell))), Box::new(echo::tool())]);
    let cancel = Cancel::new();
    let trajectory = Agent::new(Arc::clone(&model), tools)
        .bounds(Bounds { wall: Duration::from_millis(200), ..Bounds::default() })
        .cancel(cancel.clone())
        .run("go");
    assert!(trajectory.elapsed < Duration::from_secs(20), "{:?}", trajectory.elapsed);
    assert_eq!(trajectory.stop, StopReason::WallClock);
    assert_eq!(kinds(&trajectory), [Some(ToolErrorKind::Abandoned), None]);
    assert_eq!(texts(&trajectory)[0], "`hang` was still running at the deadline and was abandoned");
    assert_one_result_each(&trajectory, &model.requests());
    parked.release();
    assert_eq!((told.recv(), told.recv()), (Ok(false), Ok(true)), "it is told to stop");
    assert!(!cancel.is_cancelled(), "but the caller's flag is the caller's");
}

#[test]
fn a_tool_that_ignores_a_cancellation_is_abandoned() {
    let (parked, (tell, told)) = (Parked::default(), channel());
    let tools = registry(vec![Box::new(hang::tool((parked.clone(), tell)))]);
    let cancel = Cancel::new();
    let agent = Agent::new(Replies::new([calling([call("a", "hang", json!({}))])]), tools);
    let agent = agent.cancel(cancel.clone());
    let run = std::thread::spawn(move || agent.run("go"));
    assert_eq!(told.recv(), Ok(false));
    cancel.cancel();
    let trajectory = run.join().expect("no panic");
    assert_eq!(
        (&trajectory.stop, kinds(&trajectory)),
        (&StopReason::Cancelled, vec![Some(ToolErrorKind::Abandoned)])
    );
    parked.release();
    assert_eq!(told.recv(), Ok(true));
}

/// Never replies until it is released; panics if told to.
struct Hanging {
    parked: Parked,
    asked: Sender<()>,
    panics: bool,
}

impl Model for Hanging {
    fn name(&self) -> &str {
        "hanging"
    }

    fn reply(&self, _context: &Context, _request: &Request<'_>) -> Result<Reply, ModelError> {
        assert!(!self.panics, "on purpose");
        self.asked.send(()).expect("the test");
        self.parked.wait();
        Ok(answering("too late"))
    }
}

#[test]
fn a_model_that_never_replies_holds_neither_the_deadline_nor_a_cancellation() {
    let (parked, (asked, was_asked)) = (Parked::default(), channel());
    let model = Arc::new(Hanging { parked: parked.clone(), asked, panics: false });
    let agent = Agent::new(Arc::clone(&model), echo_only());
    let trajectory = agent.bounds(Bounds { wall: Duration::from_millis(200), ..Bounds::default() }).run("go");
    assert_eq!((trajectory.stop, trajectory.steps.len()), (StopReason::WallClock, 0));
    assert!(trajectory.elapsed < Duration::from_secs(20), "{:?}", trajectory.elapsed);
    was_asked.recv().expect("asked");

    let cancel = Cancel::new();
    let agent = Agent::new(model, echo_only()).cancel(cancel.clone());
    let run = std::thread::spawn(move || agent.run("go"));
    was_asked.recv().expect("asked");
    cancel.cancel();
    assert_eq!(run.join().expect("no panic").stop, StopReason::Cancelled);
    parked.release();
}

#[test]
fn a_model_that_panics_fails() {
    let model = Hanging { parked: Parked::default(), asked: channel().0, panics: true };
    let wanted = "the model `hanging` panicked: on purpose".to_owned();
    assert_eq!(Agent::new(model, echo_only()).run("go").stop, StopReason::ModelFailed(wanted));
}
