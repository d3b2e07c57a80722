//! What a transcript keeps of a run, whatever cuts it off.

use crate::kit::*;
use agentkit_agent::model::{Finish, Message, Reply, Request, ToolCall};
use agentkit_agent::transcript::{self, Recorded, TranscriptError};
use agentkit_agent::{
    Agent, AgentEvent, Bounds, Context, Model, ModelError, StopReason, Trajectory, Transcript, tool,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.jsonl");
    (directory, path)
}

fn create(path: &Path) -> Transcript {
    Transcript::create(path).expect("a new file")
}

fn read(path: &Path) -> Recorded {
    transcript::read(path).expect("readable")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Two turns: parallel calls, one that changes something, an error, odd texts, an answer.
fn odd_run(path: &Path) {
    let replies = [
        Reply {
            text: "line\nbreak \u{2028} \u{0} é".to_owned(),
            reasoning: Some("think".to_owned()),
            tokens: Some(12),
            ..calling([
                call("a", "echo", json!({"text": "🦀\n"})),
                ToolCall { arguments: r#"{"text":"\ud800"}"#.to_owned(), ..call("b", "echo", json!({})) },
                call("", "change-it", json!({})),
            ])
        },
        Reply { finish: Finish::Cut("length".to_owned()), ..calling([call("c", "echo", json!({}))]) },
        answering("done"),
    ];
    let tools = registry(vec![Box::new(echo::tool()), Box::new(change::tool(Arc::default()))]);
    Agent::new(Replies::new(replies), tools).system("Be brief.").transcript(create(path)).run("go \u{7f}");
}

#[test]
fn every_line_is_an_event_with_the_names_of_the_conventions() {
    let (_directory, path) = place();
    odd_run(&path);
    let lines = lines(&path);
    let kinds: Vec<&str> = lines.iter().map(|line| line["event"].as_str().expect("a name")).collect();
    let wanted = "run_started step_started replied tool_started tool_started tool_finished tool_finished \
                  tool_started tool_finished step_started replied tool_finished step_started replied stopped";
    assert_eq!(kinds.join(" "), wanted);
    assert!(lines.iter().all(|line| line["v"] == 1 && line["time_unix_ms"].is_u64()));
    let started = &lines[0];
    assert_eq!(started["gen_ai.request.model"], "replies");
    assert_eq!(started["gen_ai.system_instructions"], json!([{"type": "text", "content": "Be brief."}]));
    let said = json!([{"role": "user", "parts": [{"type": "text", "content": "go \u{7f}"}]}]);
    assert_eq!(started["gen_ai.input.messages"], said);
    let reply = &lines[2]["gen_ai.output.messages"][0];
    assert_eq!((&reply["role"], &reply["finish_reason"]), (&json!("assistant"), &json!("tool_call")));
    assert_eq!(reply["parts"][0], json!({"type": "reasoning", "content": "think"}));
    let raw = json!({"type": "tool_call", "id": "b", "name": "echo", "arguments": r#"{"text":"\ud800"}"#});
    assert_eq!(reply["parts"][3], raw);
    assert_eq!(lines[2]["tokens"], 12);
    let begun = &lines[3];
    assert_eq!(begun["gen_ai.tool.call.arguments"], json!({"text": "🦀\n"}).to_string());
    assert_eq!((&begun["gen_ai.tool.name"], &begun["mutates"]), (&json!("echo"), &json!(false)));
    assert_eq!(
        (&lines[5]["gen_ai.tool.call.id"], &lines[5]["gen_ai.tool.call.result"]),
        (&json!("a"), &json!("🦀\n"))
    );
    assert_eq!(lines[6]["error.type"], "invalid_arguments");
    assert_eq!((&lines[7]["mutates"], &lines[11]["error.type"]), (&json!(true), &json!("not_run")));
    assert_eq!((&lines[14]["stop"], &lines[14]["answer"]), (&json!("answered"), &json!("done")));
}

/// What was read is a beginning of what was written, and can go on: no call is without its result.
fn assert_a_beginning(recorded: &Recorded, whole: &Recorded) {
    assert_eq!(recorded.entries[..], whole.entries[..recorded.entries.len()]);
    let conversation = recorded.conversation();
    let open = conversation.messages().iter().fold(0, |open, message| match message {
        Message::Assistant(reply) => {
            assert_eq!(open, 0);
            reply.calls.len()
        }
        Message::Tool { .. } => open - 1,
        _ => open,
    });
    assert_eq!(open, 0, "{conversation:?}");
}

#[test]
fn cut_at_any_byte_it_is_readable_and_goes_on() {
    let (directory, path) = place();
    odd_run(&path);
    let (bytes, whole) = (std::fs::read(&path).expect("readable"), read(&path));
    assert_eq!((whole.torn, whole.warning()), (0, None));
    // Five is no divisor of what repeats in it, so that each kind of place is met.
    for cut in (0..bytes.len()).step_by(5) {
        // A file of its own each time: to empty one and fill it again is slow.
        let path = directory.path().join(cut.to_string());
        std::fs::write(&path, &bytes[..cut]).expect("written");
        let (transcript, recorded) = Transcript::reopen(&path).expect("readable");
        assert_a_beginning(&recorded, &whole);
        let kept = bytes[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        assert_eq!((recorded.torn, recorded.warning().is_some()), (cut - kept, cut > kept));
        assert_eq!(std::fs::metadata(&path).expect("there").len(), kept as u64);
        // Every so often, since each is a run: what is appended is readable together with what was there.
        if cut % 100 == 0 {
            let agent = Agent::new(Replies::new([answering("on")]), echo_only()).transcript(transcript);
            let trajectory = agent.continue_with(recorded.conversation(), "go on");
            assert_eq!(trajectory.stop, StopReason::Answered);
            let again = read(&path);
            assert_eq!(again.entries.len(), recorded.entries.len() + 4);
            assert_eq!(again.conversation().messages(), trajectory.conversation.messages());
        }
        std::fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn a_file_of_something_else_is_left_as_it_is() {
    let (_directory, path) = place();
    for text in
        ["alias ll=ls", r#"{"version":1,"secret":"x"}"#, r#"{"v":1,"name":"x"}"#, "a note\nof two lines"]
    {
        std::fs::write(&path, text).expect("written");
        let errors = [Transcript::reopen(&path).map(drop), agentkit_agent::transcript::read(&path).map(drop)];
        assert!(errors.iter().all(Result::is_err), "{text}");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
    }
    std::fs::write(&path, r#"{"v":1,"time_un"#).expect("written");
    assert_eq!(Transcript::reopen(&path).expect("torn").1.torn, 15);
}

/// Keeps what the transcript says while this call is under way: all that would be left if the program were killed now.
#[tool(mutates)]
fn copies(state: &(PathBuf, PathBuf)) -> String {
    std::fs::copy(&state.0, &state.1).expect("copied");
    "copied".to_owned()
}

#[test]
fn a_call_is_recorded_before_it_runs_and_is_never_run_again() {
    let (directory, path) = place();
    let broken_off = directory.path().join("broken-off.jsonl");
    let calls = || calling([call("m", "copies", json!({})), call("later", "echo", json!({"text": "x"}))]);
    let tools = |to: &Path| {
        registry(vec![Box::new(copies::tool((path.clone(), to.to_owned()))), Box::new(echo::tool())])
    };
    Agent::new(Replies::new([calls()]), tools(&broken_off)).transcript(create(&path)).run("go");

    let (transcript, recorded) = Transcript::reopen(&broken_off).expect("readable");
    assert!(matches!(
        &recorded.entries.last().expect("entries").event,
        AgentEvent::ToolStarted { call_id, mutates: true, .. } if call_id == "m"
    ));
    assert_eq!(recorded.stop(), None);
    let model = Replies::new([answering("I see.")]);
    let untouched = directory.path().join("untouched");
    let agent = Agent::new(Arc::clone(&model), tools(&untouched)).transcript(transcript);
    let trajectory = agent.resume(recorded.conversation());
    assert_eq!(trajectory.answer.as_deref(), Some("I see."));
    assert!(!untouched.exists(), "it was run again");
    let requests = model.requests();
    let results: Vec<&str> = requests[0][2..].iter().map(text).collect();
    assert!(results[0].starts_with("unknown whether it happened: "), "{results:?}");
    assert_eq!(results[1], "not run: the run was broken off before");
    // Read once more, the same results are there.
    let conversation = read(&broken_off).conversation();
    assert_eq!(conversation.messages(), trajectory.conversation.messages());
}

fn text(message: &Message) -> &str {
    match message {
        Message::Tool { text, .. } => text,
        other => panic!("no result: {other:?}"),
    }
}

#[test]
fn what_is_there_is_not_overwritten_and_has_one_writer() {
    let (_directory, path) = place();
    let transcript = create(&path);
    assert!(matches!(Transcript::create(&path), Err(TranscriptError::Io { doing: "create", .. })));
    let busy = Transcript::reopen(&path).expect_err("one writer");
    assert!(busy.to_string().ends_with("somebody is writing to it; wait for the end of that run"), "{busy}");
    assert_eq!(read(&path).entries.len(), 0, "reading is always possible");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }
    drop(transcript);
    assert!(Transcript::reopen(&path).is_ok());
}

#[test]
fn what_somebody_changed_is_refused_and_left_as_it_is() {
    let (_directory, path) = place();
    odd_run(&path);
    let good = std::fs::read(&path).expect("readable");
    for (line, wanted) in [
        ("{}\n", "line 16 is no event: missing field `v`"),
        ("\n", "line 16 is no event: EOF"),
        ("\u{0}\u{0}\n", "line 16 is no event: "),
        ("{\"v\":2,\"time_unix_ms\":0,\"event\":\"x\"}\n", "line 16 has version 2, and this program knows 1"),
        ("{\"v\":3,\"when\":0}\n", "line 16 has version 3, and this program knows 1"),
    ] {
        let bytes = [&good[..], line.as_bytes()].concat();
        std::fs::write(&path, &bytes).expect("written");
        let error = Transcript::reopen(&path).expect_err("damaged").to_string();
        assert!(error.contains(wanted), "{error}");
        assert_eq!(std::fs::read(&path).expect("readable"), bytes);
    }
    // Whatever a later program of the same version adds is passed over.
    let added = "{\"v\":1,\"time_unix_ms\":0,\"event\":\"mood\",\"of\":{\"the\":\"model\"}}\n";
    std::fs::write(&path, [&good[..], added.as_bytes()].concat()).expect("written");
    assert_eq!(read(&path).entries.last().map(|entry| &entry.event), Some(&AgentEvent::Unknown));
}

#[test]
fn a_call_whose_id_is_there_twice_keeps_its_result() {
    let (_directory, path) = place();
    let said = |text: &str| [calling([call("same", "echo", json!({ "text": text }))]), answering("done")];
    let model = Replies::new([said("one"), said("two")].concat());
    // Two conversations in one file, of which neither knows the ids of the other.
    let agent = Agent::new(model, echo_only()).transcript(create(&path));
    agent.run("first");
    agent.run("second");
    let conversation = read(&path).conversation();
    let results: Vec<(&str, &str)> = conversation
        .messages()
        .iter()
        .filter_map(|message| match message {
            Message::Tool { call_id, text, .. } => Some((call_id.as_str(), text.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(results, [("same", "one"), ("call_1", "two")]);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_and_neither_waited_for_nor_read_without_end() {
    let (_directory, pipe) = place();
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it is there").success());
    for path in [&pipe, Path::new("/dev/zero"), Path::new("/dev/null")] {
        let error = Transcript::reopen(path).expect_err("no file").to_string();
        assert!(error.ends_with("cannot go on with it: it is no regular file"), "{error}");
    }
    let error = transcript::read("/dev/zero").expect_err("no line ends").to_string();
    assert!(error.contains("line 1 has more than 134217728 bytes, so it is no transcript"), "{error}");
}

/// Set for the child process of a test: where its transcript is.
const CHILD: &str = "AGENTKIT_TEST_TRANSCRIPT";

/// This test program once more, for one test that then runs an agent until it is stopped from outside.
fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", test, "--nocapture"]).env(CHILD, path).stdout(Stdio::null());
    command
}

/// Makes calls as long as it is let.
struct Endless;

impl Model for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    fn reply(&self, _context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let text = format!("{} {}", request.messages.len(), "x".repeat(700));
        Ok(calling([call("", "echo", json!({"text": text})), call("", "change-it", json!({"text": text}))]))
    }
}

fn run_endlessly(path: &Path) -> Trajectory {
    let bounds =
        Bounds { max_steps: usize::MAX, max_calls: usize::MAX, max_tokens: u64::MAX, ..Bounds::default() };
    let tools = registry(vec![Box::new(echo::tool()), Box::new(rewrite::tool())]);
    Agent::new(Endless, tools).bounds(bounds).transcript(create(path)).run("go")
}

/// Changes something.
#[tool(mutates, name = "change-it")]
fn rewrite(text: String) -> usize {
    text.len()
}

#[test]
fn a_killed_program_leaves_a_transcript_that_goes_on() {
    if let Some(path) = std::env::var_os(CHILD) {
        run_endlessly(Path::new(&path));
        return;
    }
    let (directory, _) = place();
    for round in 1..4_u64 {
        let path = directory.path().join(round.to_string());
        let mut child = child("transcript::a_killed_program_leaves_a_transcript_that_goes_on", &path)
            .spawn()
            .expect("runs");
        while std::fs::metadata(&path).map_or(0, |there| there.len()) < round * 50_000 {
            assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
            std::thread::yield_now();
        }
        child.kill().expect("killed");
        child.wait().expect("a child");
        let (transcript, recorded) = Transcript::reopen(&path).expect("whole");
        assert!(recorded.entries.len() > 50 && recorded.stop().is_none());
        let agent = Agent::new(Replies::new([answering("on")]), echo_only()).transcript(transcript);
        assert_eq!(agent.resume(recorded.conversation()).answer.as_deref(), Some("on"));
        assert_eq!(read(&path).stop(), Some(&StopReason::Answered));
    }
}

/// The limit on the size of a file stands for a full disk. Runs itself once more under it.
#[cfg(unix)]
#[test]
fn a_transcript_that_cannot_be_written_ends_the_run_before_the_next_call() {
    if let Some(path) = std::env::var_os(CHILD) {
        let trajectory = run_endlessly(Path::new(&path));
        let StopReason::Unrecorded(why) = &trajectory.stop else { panic!("{:?}", trajectory.stop) };
        assert!(why.contains("run.jsonl: File too large"), "{why}");
        let last = trajectory.calls().last().expect("calls");
        // What was run is on record; what could not be recorded was not run.
        let recorded = read(Path::new(&path));
        let begun = |entry: &&transcript::Entry| matches!(entry.event, AgentEvent::ToolStarted { .. });
        let ran = trajectory.calls().filter(|record| !was_not_run(record)).count();
        assert!(ran <= recorded.entries.iter().filter(begun).count());
        assert!(last.result.is_ok() || was_not_run(last), "{last:?}");
        assert_eq!(recorded.torn, 0, "half a line was taken back");
        return;
    }
    let (_directory, path) = place();
    let test = "transcript::a_transcript_that_cannot_be_written_ends_the_run_before_the_next_call";
    let program = child(test, &path);
    // Blocks of 512 bytes by the standard, of 1024 in some shells. Ignored, the signal becomes an error.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 20; exec \"$0\" \"$@\""]).arg(program.get_program());
    let output = limited.args(program.get_args()).env(CHILD, &path).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{error}");
}

/// Runs the agent that it is part of once more, while that is at it.
#[tool]
fn nested(agent: &Arc<OnceLock<Agent<Arc<Replies>>>>) -> String {
    let agent = agent.get().expect("an agent");
    format!("{:?}", agent.run("inner").stop)
}

#[test]
fn two_runs_do_not_write_into_one_another() {
    let (_directory, path) = place();
    let itself = Arc::new(OnceLock::new());
    let model = Replies::new([calling([call("", "nested", json!({}))]), answering("done")]);
    let tools = registry(vec![Box::new(nested::tool(Arc::clone(&itself)))]);
    let agent = itself.get_or_init(|| Agent::new(model, tools).transcript(create(&path)));
    let trajectory = agent.run("outer");
    assert_eq!(trajectory.stop, StopReason::Answered);
    let wanted = format!("Unrecorded(\"another run is writing to {}\")", path.display());
    assert_eq!(texts(&trajectory), [wanted]);
    assert_eq!(read(&path).entries.len(), 8);
    assert_eq!(agent.run("again").stop, StopReason::ModelFailed("no more replies".to_owned()));
}

#[test]
fn the_documentation_shows_every_event() {
    let document = include_str!("../../docs/transcript.md");
    let (_, rest) = document.split_once("```jsonl\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let (_directory, path) = place();
    std::fs::write(&path, example).expect("written");
    let recorded = read(&path);
    let name = |event: &AgentEvent| match event {
        AgentEvent::RunStarted { .. } => 0,
        AgentEvent::StepStarted { .. } => 1,
        AgentEvent::Retrying { .. } => 2,
        AgentEvent::Replied { .. } => 3,
        AgentEvent::HistoryTrimmed { .. } => 4,
        AgentEvent::ApprovalAsked { .. } => 5,
        AgentEvent::ApprovalAnswered { .. } => 6,
        AgentEvent::ToolStarted { .. } => 7,
        AgentEvent::ToolFinished { .. } => 8,
        AgentEvent::Advised { .. } => 9,
        AgentEvent::Warning(_) => 10,
        AgentEvent::Stopped { .. } => 11,
        other => panic!("{other:?} is not for transcripts"),
    };
    let names: std::collections::BTreeSet<_> =
        recorded.entries.iter().map(|entry| name(&entry.event)).collect();
    assert_eq!(names.len(), 12);
    // Written again, it says the same: no name in the example is one that nobody reads.
    for (line, entry) in example.lines().zip(&recorded.entries) {
        let shown: Value = serde_json::from_str(line).expect("JSON");
        let mut written = serde_json::to_value(&entry.event).expect("an event");
        written["v"] = shown["v"].clone();
        written["time_unix_ms"] = shown["time_unix_ms"].clone();
        assert_eq!(written, shown);
    }
}
