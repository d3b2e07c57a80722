//! The loop from outside: bounds, one result for each call, repeats, panics, cancellation.

use agentkit_agent::model::scripted::{Scripted, ScriptedArguments, Turn};
use agentkit_agent::model::{Finish, Message, Reply, Request, ToolCall};
use agentkit_agent::{
    Agent, AgentEvent, Bounds, CallRecord, Cancel, Clock, Context, EventSink, Model, ModelError,
    ModelErrorKind, Registry, StopReason, Tool, ToolErrorKind, Trajectory, tool,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Returns what it is given.
#[tool]
fn echo(text: String) -> String {
    text
}

/// Counts its calls.
#[tool]
fn counter(calls: &Arc<AtomicUsize>) -> String {
    calls.fetch_add(1, Ordering::SeqCst).to_string()
}

/// Changes something.
#[tool(mutates, name = "change-it")]
fn change(calls: &Arc<AtomicUsize>) -> String {
    calls.fetch_add(1, Ordering::SeqCst);
    "changed".to_owned()
}

/// Panics.
#[tool]
fn broken(_state: &Mutex<u32>, message: Option<String>) -> String {
    let _guard = _state.lock();
    match message {
        Some(message) => panic!("{message}"),
        None => std::panic::panic_any(7),
    }
}

/// Moves the clock.
#[tool]
fn slow(clock: &Arc<TestClock>, seconds: u64) -> String {
    clock.advance(seconds);
    "awake".to_owned()
}

/// Raises the flag.
#[tool]
fn give_up(context: &Context) -> String {
    context.cancel().cancel();
    "given up".to_owned()
}

/// Tells the time left.
#[tool]
fn time_left(context: &Context) -> String {
    format!("{:?}", context.remaining())
}

/// A clock that only moves when told.
struct TestClock {
    start: Instant,
    seconds: AtomicU64,
}

impl TestClock {
    fn new() -> Arc<Self> {
        Arc::new(TestClock { start: Instant::now(), seconds: AtomicU64::new(0) })
    }

    fn advance(&self, seconds: u64) {
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
struct Replies {
    replies: Vec<Result<Reply, ModelError>>,
    seen: Mutex<Vec<Vec<Message>>>,
}

impl Replies {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Replies { replies: replies.into_iter().map(Ok).collect(), seen: Mutex::default() })
    }

    fn requests(&self) -> Vec<Vec<Message>> {
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

fn registry(tools: Vec<Box<dyn Tool>>) -> Registry {
    let mut registry = Registry::new();
    for tool in tools {
        registry.add(tool).expect("a valid tool");
    }
    registry
}

fn echo_only() -> Registry {
    registry(vec![Box::new(echo::tool())])
}

fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_string() }
}

fn calling(calls: impl IntoIterator<Item = ToolCall>) -> Reply {
    Reply { calls: calls.into_iter().collect(), ..Reply::default() }
}

fn answering(text: &str) -> Reply {
    Reply { text: text.to_owned(), ..Reply::default() }
}

fn echoing(text: &str) -> Turn {
    Turn::call("echo", json!({ "text": text }))
}

/// Kinds of the errors of all calls; `None` stands for a success.
fn kinds(trajectory: &Trajectory) -> Vec<Option<ToolErrorKind>> {
    trajectory.calls().map(|record| record.result.as_ref().err().map(|error| error.kind)).collect()
}

fn texts(trajectory: &Trajectory) -> Vec<String> {
    let text = |record: &CallRecord| match &record.result {
        Ok(output) => output.text.clone(),
        Err(error) => error.message.clone(),
    };
    trajectory.calls().map(text).collect()
}

/// Every call of every reply has exactly one result, in the records and in what the model was shown.
fn assert_one_result_each(trajectory: &Trajectory, requests: &[Vec<Message>]) {
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
    let bounds = || Bounds { max_steps: 12, ..Bounds::default() };
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
    let name = "a_panic_of_a_tool_prints_nothing_and_others_print_as_ever";
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

/// Something that never comes back until it is released.
#[derive(Clone, Default)]
struct Parked(Arc<(Mutex<bool>, Condvar)>);

impl Parked {
    fn wait(&self) {
        let (released, changed) = &*self.0;
        let mut released = released.lock().expect("lock");
        while !*released {
            released = changed.wait(released).expect("lock");
        }
    }

    fn release(&self) {
        *self.0.0.lock().expect("lock") = true;
        self.0.1.notify_all();
    }
}

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
    let reply = calling([call("a", "hang", json!({})), call("b", "echo", json!({"text": "x"}))]);
    let model = Replies::new([reply, answering("done")]);
    let tools = registry(vec![Box::new(hang::tool((parked.clone(), tell))), Box::new(echo::tool())]);
    let cancel = Cancel::new();
    let trajectory = Agent::new(Arc::clone(&model), tools)
        .bounds(Bounds { wall: Duration::from_millis(200), ..Bounds::default() })
        .cancel(cancel.clone())
        .run("go");
    assert!(trajectory.elapsed < Duration::from_secs(20), "{:?}", trajectory.elapsed);
    assert_eq!(trajectory.stop, StopReason::WallClock);
    assert_eq!(kinds(&trajectory), [Some(ToolErrorKind::Abandoned), Some(ToolErrorKind::NotRun)]);
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
fn long_results_are_cut_between_characters_with_a_note() {
    let turns = vec![echoing(&"é".repeat(1_000)), Turn::answer("done")];
    let bounds = Bounds { max_result_bytes: 101, ..Bounds::default() };
    let trajectory = Agent::new(Scripted::new("s", turns), echo_only()).bounds(bounds).run("go");
    let text = &texts(&trajectory)[0];
    let side = "é".repeat(25);
    assert_eq!(*text, format!("{side}\n[... 1900 of 2000 bytes left out here ...]\n{side}"));
}

#[test]
fn the_system_text_comes_first() {
    let model = Replies::new([answering("done")]);
    Agent::new(Arc::clone(&model), echo_only()).system("Be brief.").run("go");
    let wanted = [Message::System("Be brief.".to_owned()), Message::User("go".to_owned())];
    assert_eq!(model.requests()[0], wanted);
}

#[derive(Default)]
struct Events(Mutex<Vec<AgentEvent>>);

impl EventSink for Events {
    fn emit(&self, event: AgentEvent) {
        self.0.lock().expect("lock").push(event);
    }
}

#[test]
fn a_listener_hears_every_step() {
    let events = Arc::new(Events::default());
    let turns = vec![echoing("a"), Turn::answer("done")];
    Agent::new(Scripted::new("s", turns), echo_only())
        .events(Arc::clone(&events) as Arc<dyn EventSink>)
        .run("go");
    let id = || "call_1".to_owned();
    let wanted = [
        AgentEvent::Replied { step: 1 },
        AgentEvent::ToolStarted { call_id: id(), name: "echo".to_owned() },
        AgentEvent::ToolFinished { call_id: id(), is_error: false },
        AgentEvent::Replied { step: 2 },
    ];
    assert_eq!(*events.0.lock().expect("lock"), wanted);
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

fn was_not_run(record: &CallRecord) -> bool {
    record.result.as_ref().is_err_and(|error| error.kind == ToolErrorKind::NotRun)
}

/// Replies of every kind, with ids and calls of every quality.
fn reply() -> impl Strategy<Value = Reply> {
    let call = (
        prop::sample::select(&["", "a", "b", "call_1", "call_2"][..]),
        prop::sample::select(&["echo", "broken", "give_up", "slow", "change-it", "missing", ""][..]),
        prop::sample::select(
            &["", "{}", "{", r#"{"text":"x"}"#, r#"{"seconds":3}"#, r#"{"message":"m"}"#][..],
        ),
    );
    let call = call.prop_map(|(id, name, arguments)| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    });
    let finish = prop_oneof![
        8 => Just(Finish::Done),
        1 => Just(Finish::Cut("length".to_owned())),
        1 => Just(Finish::Refused),
    ];
    (prop::collection::vec(call, 0..6), finish, prop::option::of(0u64..200), "[a ]{0,2}")
        .prop_map(|(calls, finish, tokens, text)| Reply { text, calls, finish, tokens, reasoning: None })
}

fn bounds() -> impl Strategy<Value = Bounds> {
    (0usize..6, 0usize..8, 0u64..400, 0u64..12, 0usize..4, 0usize..40).prop_map(
        |(max_steps, calls, max_tokens, wall, repeat, bytes)| Bounds {
            max_steps,
            max_calls_per_reply: calls,
            max_tokens,
            wall: Duration::from_secs(wall),
            repeat_limit: repeat,
            max_result_bytes: bytes,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_each_call_gets_one_result_within_the_bounds(
        replies in prop::collection::vec(reply(), 0..8),
        bounds in bounds(),
        dry_run in any::<bool>(),
    ) {
        let clock = TestClock::new();
        let changes = Arc::new(AtomicUsize::new(0));
        let tools: Vec<Box<dyn Tool>> = vec![
            Box::new(echo::tool()),
            Box::new(broken::tool(Mutex::new(0))),
            Box::new(give_up::tool()),
            Box::new(slow::tool(Arc::clone(&clock))),
            Box::new(change::tool(Arc::clone(&changes))),
        ];
        let model = Replies::new(replies);
        let agent = Agent::new(Arc::clone(&model), registry(tools)).bounds(bounds.clone()).dry_run(dry_run).clock(clock);
        let trajectory = agent.run("go");
        let requests = model.requests();
        assert_one_result_each(&trajectory, &requests);
        prop_assert!(requests.len() <= bounds.max_steps);
        prop_assert!(trajectory.steps.len() <= bounds.max_steps);
        for step in &trajectory.steps {
            prop_assert!(step.calls.iter().skip(bounds.max_calls_per_reply).all(was_not_run));
        }
        prop_assert_eq!(trajectory.answer.is_some(), trajectory.stop == StopReason::Answered);
        prop_assert!(!dry_run || changes.load(Ordering::SeqCst) == 0);
    }
}
