//! Tools, models and what the suites ask of a run.

use agentkit_agent::model::scripted::Turn;
use agentkit_agent::model::{Message, Reply, Request, ToolCall};
use agentkit_agent::{
    AgentEvent, CallRecord, Clock, Context, EventSink, Model, ModelError, Registry, Tool, ToolErrorKind,
    Trajectory, tool,
};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Returns what it is given.
#[tool]
pub(crate) fn echo(text: String) -> String {
    text
}

/// Counts its calls.
#[tool]
pub(crate) fn counter(calls: &Arc<AtomicUsize>) -> String {
    calls.fetch_add(1, Ordering::SeqCst).to_string()
}

/// Changes something.
#[tool(mutates, name = "change-it")]
pub(crate) fn change(calls: &Arc<AtomicUsize>) -> String {
    calls.fetch_add(1, Ordering::SeqCst);
    "changed".to_owned()
}

/// Panics.
#[tool]
pub(crate) fn broken(_state: &Mutex<u32>, message: Option<String>) -> String {
    let _guard = _state.lock();
    match message {
        Some(message) => panic!("{message}"),
        None => std::panic::panic_any(7),
    }
}

/// Moves the clock. Changes something, so that no other call is run beside it.
#[tool(mutates)]
pub(crate) fn slow(clock: &Arc<TestClock>, seconds: u64) -> String {
    clock.advance(seconds);
    "awake".to_owned()
}

/// Raises the flag. Changes something, so that no other call is run beside it.
#[tool(mutates)]
pub(crate) fn give_up(context: &Context) -> String {
    context.cancel().cancel();
    "given up".to_owned()
}

/// Tells the time left.
#[tool]
pub(crate) fn time_left(context: &Context) -> String {
    format!("{:?}", context.remaining())
}

/// A clock that only moves when told.
pub(crate) struct TestClock {
    start: Instant,
    seconds: AtomicU64,
}

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(TestClock { start: Instant::now(), seconds: AtomicU64::new(0) })
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        self.start + Duration::from_secs(self.seconds.load(Ordering::SeqCst))
    }
}

/// Plays replies and keeps every conversation it was shown.
#[derive(Default)]
pub(crate) struct Replies {
    pub(crate) replies: Vec<Result<Reply, ModelError>>,
    pub(crate) seen: Mutex<Vec<Vec<Message>>>,
}

impl Replies {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Replies { replies: replies.into_iter().map(Ok).collect(), seen: Mutex::default() })
    }

    pub(crate) fn requests(&self) -> Vec<Vec<Message>> {
        self.seen.lock().expect("lock").clone()
    }
}

impl Model for Replies {
    fn name(&self) -> &str {
        "replies"
    }

    fn reply(&self, _context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let mut seen = self.seen.lock().expect("lock");
        seen.push(request.messages.to_vec());
        self.replies.get(seen.len() - 1).cloned().unwrap_or_else(|| Err(ModelError::new("no more replies")))
    }
}

pub(crate) fn registry(tools: Vec<Box<dyn Tool>>) -> Registry {
    let mut registry = Registry::new();
    for tool in tools {
        registry.add(tool).expect("a valid tool");
    }
    registry
}

pub(crate) fn echo_only() -> Registry {
    registry(vec![Box::new(echo::tool())])
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_string() }
}

pub(crate) fn calling(calls: impl IntoIterator<Item = ToolCall>) -> Reply {
    Reply { calls: calls.into_iter().collect(), ..Reply::default() }
}

pub(crate) fn answering(text: &str) -> Reply {
    Reply { text: text.to_owned(), ..Reply::default() }
}

pub(crate) fn echoing(text: &str) -> Turn {
    Turn::call("echo", json!({ "text": text }))
}

/// Kinds of the errors of all calls; `None` stands for a success.
pub(crate) fn kinds(trajectory: &Trajectory) -> Vec<Option<ToolErrorKind>> {
    trajectory.calls().map(|record| record.result.as_ref().err().map(|error| error.kind)).collect()
}

pub(crate) fn texts(trajectory: &Trajectory) -> Vec<String> {
    let text = |record: &CallRecord| match &record.result {
        Ok(output) => output.text.clone(),
        Err(error) => error.message.clone(),
    };
    trajectory.calls().map(text).collect()
}

/// Every call of every reply has exactly one result, in the records and in what the model was shown.
pub(crate) fn assert_one_result_each(trajectory: &Trajectory, requests: &[Vec<Message>]) {
    let mut ids = HashSet::new();
    for step in &trajectory.steps {
        let of_reply: Vec<&str> = step.reply.calls.iter().map(|call| call.id.as_str()).collect();
        let of_records: Vec<&str> = step.calls.iter().map(|record| record.call.id.as_str()).collect();
        assert_eq!(of_reply, of_records);
        for id in of_reply {
            assert!(!id.is_empty() && ids.insert(id.to_owned()), "the id `{id}` is not unique");
        }
    }
    for messages in requests {
        let mut open: HashMap<&str, usize> = HashMap::new();
        for message in messages {
            match message {
                Message::Assistant(reply) => {
                    open.extend(reply.calls.iter().map(|call| (call.id.as_str(), 0)));
                }
                Message::Tool { call_id, .. } => {
                    *open.get_mut(call_id.as_str()).expect("a result belongs to a call") += 1;
                }
                Message::System(_) | Message::User(_) => {}
            }
        }
        assert!(open.values().all(|results| *results == 1), "{messages:?}");
    }
}

pub(crate) fn was_not_run(record: &CallRecord) -> bool {
    record.result.as_ref().is_err_and(|error| error.kind == ToolErrorKind::NotRun)
}

/// Something that never comes back until it is released.
#[derive(Clone, Default)]
pub(crate) struct Parked(Arc<(Mutex<bool>, Condvar)>);

impl Parked {
    pub(crate) fn wait(&self) {
        let (released, changed) = &*self.0;
        let mut released = released.lock().expect("lock");
        while !*released {
            released = changed.wait(released).expect("lock");
        }
    }

    pub(crate) fn release(&self) {
        *self.0.0.lock().expect("lock") = true;
        self.0.1.notify_all();
    }
}

#[derive(Default)]
pub(crate) struct Events(pub(crate) Mutex<Vec<AgentEvent>>);

impl EventSink for Events {
    fn emit(&self, event: AgentEvent) {
        self.0.lock().expect("lock").push(event);
    }
}
