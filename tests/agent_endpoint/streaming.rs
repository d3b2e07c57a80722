//! Replies in pieces: what listeners hear, and what becomes of streams that break off.

use super::server::{Answer, Asked, Events, KEY, NoWaiting, Server, answer, ask_as, good, stream};
use agentkit_agent::model::openai::{OpenAi, Timeouts};
use agentkit_agent::model::recording::Recording;
use agentkit_agent::model::wire::{Dialect, Streaming};
use agentkit_agent::model::{Finish, ToolCall};
use agentkit_agent::{Agent, AgentEvent, ModelErrorKind, Registry, StopReason, ToolErrorKind};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const HEL: &str = r#"{"choices":[{"delta":{"content":"hel"}}]}"#;
const LO: &str = r#"{"choices":[{"delta":{"content":"lo"}}]}"#;
const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const CALL: &str = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{}"}}]}}]}"#;

fn streaming(model: OpenAi) -> OpenAi {
    model.dialect(Dialect { streaming: Streaming::WithUsage, ..Dialect::default() })
}

fn ask(answers: Vec<Answer>) -> Asked {
    ask_as(answers, None, "hi", streaming)
}

/// The same with a client that soon takes a server for stalled: on a busy host also one that is not, and is given more time
/// then.
fn ask_stalling(answers: impl Fn() -> Vec<Answer>, is_told: impl Fn(&Asked) -> bool) -> Asked {
    let ask = |millis| {
        let timeouts = Timeouts { idle: Duration::from_millis(millis), ..Timeouts::default() };
        ask_as(answers(), None, "hi", |model| streaming(model).timeouts(timeouts))
    };
    let tried = ask(500);
    if is_told(&tried) { tried } else { ask(8_000) }
}

fn whole() -> Answer {
    Answer::Bytes(stream(&[HEL, LO, STOP, "[DONE]"]))
}

/// Texts as they are, and `void` where what came before is.
fn heard(asked: &Asked) -> Vec<&str> {
    let shown = |event| match event {
        &AgentEvent::TextDelta(ref text) | &AgentEvent::ReasoningDelta(ref text) => Some(text.as_str()),
        AgentEvent::Retrying { .. } => Some("void"),
        _ => None,
    };
    asked.events.iter().filter_map(shown).collect()
}

fn text(asked: &Asked) -> &str {
    &asked.result.as_ref().expect("a reply").text
}

#[test]
fn a_stream_is_asked_for_and_heard() {
    let asked = ask(vec![whole()]);
    assert_eq!((text(&asked), heard(&asked)), ("hello", vec!["hel", "lo"]));
    let (_, body) = asked.requests[0].split_once("\r\n\r\n").expect("head and body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&body["stream"], &body["stream_options"]["include_usage"]), (&json!(true), &json!(true)));
}

#[test]
fn what_was_not_asked_for_is_read_all_the_same() {
    assert_eq!(text(&ask(vec![good()])), "hello", "a whole reply to a request for a stream");
    let asked = ask_as(vec![whole()], None, "hi", |model| model);
    assert_eq!((text(&asked), heard(&asked)), ("hello", vec!["hel", "lo"]), "the other way round");
}

#[test]
fn a_stream_that_breaks_off_is_void_and_asked_for_again() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let event = format!("data: {HEL}\n\n");
    let torn = format!("{chunked}{:x}\r\n{event}\r\n", event.len()).into_bytes();
    for (name, first) in [
        ("ends too early", Answer::Bytes(stream(&[HEL]))),
        (
            "ends in the middle of an event",
            Answer::Bytes([stream(&[HEL]), b"data: {\"cho".to_vec()].concat()),
        ),
        ("is torn", Answer::Bytes(torn)),
        ("is garbled", Answer::Bytes(stream(&[HEL, "{\"choices\":[{\"del", LO, STOP]))),
        ("reports an error that may pass", Answer::Bytes(stream(&[HEL, r#"{"error":{"code":503}}"#]))),
    ] {
        let asked = ask(vec![first, whole()]);
        assert_eq!((text(&asked), asked.waits.len()), ("hello", 1), "{name}");
        assert_eq!(heard(&asked), ["hel", "void", "hel", "lo"], "{name}");
    }
    let stalls = || vec![Answer::Unended(stream(&[HEL])), whole()];
    let asked = ask_stalling(stalls, |asked| asked.result.is_ok() && asked.waits.len() == 1);
    assert_eq!((text(&asked), asked.waits.len()), ("hello", 1));
    assert_eq!(heard(&asked), ["hel", "void", "hel", "lo"]);
}

#[test]
fn a_stream_that_never_gets_to_its_end_is_a_reply_that_was_cut() {
    let asked = ask((0..9).map(|_| Answer::Bytes(stream(&[HEL, CALL]))).collect());
    assert_eq!(asked.requests.len(), 4);
    let reply = asked.result.expect("what came of it");
    assert_eq!(reply.finish, Finish::Cut("the stream ended before the reply did".to_owned()));
    assert_eq!(reply.text, "hel");
    let call = ToolCall { id: "a".to_owned(), name: "t".to_owned(), arguments: "{}".to_owned() };
    assert_eq!(reply.calls, [call], "it is shown, and as a part of a cut reply not run");
    let said = |event: &AgentEvent| matches!(event, AgentEvent::Warning(why) if why.contains("gave up after 4 attempts"));
    assert!(asked.events.iter().any(said), "{:?}", asked.events);
    let nothing = ask((0..9).map(|_| Answer::Bytes(stream(&[]))).collect());
    assert_eq!(nothing.requests.len(), 4);
    assert!(nothing.message().contains("the body is empty"), "nothing is no part of a reply");
}

#[test]
fn a_call_of_a_stream_without_an_end_is_not_run() {
    let broken = (0..4).map(|_| Answer::Bytes(stream(&[HEL, CALL])));
    let server = Server::start(broken.chain([whole()]).collect());
    let model = streaming(OpenAi::new("m", &server.url(), None).expect("usable"));
    let trajectory = Agent::new(model.waiter(Arc::new(NoWaiting::default())), Registry::new()).run("go");
    let results: Vec<_> =
        trajectory.calls().map(|record| record.result.as_ref().map_err(|e| e.kind)).collect();
    assert_eq!(
        results,
        [Err(ToolErrorKind::NotRun)],
        "it is told so, and another tool error would mean it was tried"
    );
    assert_eq!((trajectory.stop, trajectory.answer.as_deref()), (StopReason::Answered, Some("hello")));
}

#[test]
fn errors_in_a_stream_have_their_class() {
    let overflow = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    let asked = ask(vec![Answer::Bytes(stream(&[overflow])), whole()]);
    assert_eq!(asked.requests.len(), 1);
    assert_eq!(asked.result.expect_err("too long").kind, ModelErrorKind::ContextOverflow);
    let asked = ask(vec![Answer::Bytes(stream(&[HEL, r#"{"error":{"message":"no such model"}}"#])), whole()]);
    assert_eq!(asked.requests.len(), 1);
    let message = asked.message();
    assert!(
        message.contains("the server reports an error: no such model; status 200 OK (text/event-stream)"),
        "{message}"
    );
    let asked = ask(vec![answer("200 OK", "content-type: text/plain\r\n", "upstream gone")]);
    let message = asked.message();
    assert!(
        message.contains("neither JSON nor a stream of events; status 200 OK (text/plain): upstream gone"),
        "{message}"
    );
}

#[test]
fn the_end_of_the_reply_is_enough() {
    // Neither closes its connection.
    let done = ask(vec![Answer::Unended(stream(&[HEL, LO, STOP, "[DONE]"]))]);
    let finished =
        ask_stalling(|| vec![Answer::Unended(stream(&[HEL, LO, STOP]))], |asked| asked.result.is_ok());
    let unended = [&stream(&[HEL, LO])[..], b"data: ", STOP.as_bytes()].concat();
    for asked in [done, finished, ask(vec![Answer::Bytes(unended)])] {
        assert_eq!((text(&asked), asked.requests.len()), ("hello", 1));
    }
}

#[test]
fn a_key_that_is_sent_back_is_heard_by_nobody() {
    let piece = |name: &str, text: &str| json!({"choices": [{"delta": {name: text}}]}).to_string();
    let call = json!({"choices": [{"delta": {"tool_calls": [{"id": KEY, "function": {"name": KEY, "arguments": KEY}}]}}]});
    for cut in [0, 1, 9, KEY.len()] {
        let (first, second) = KEY.split_at(cut);
        let texts = [
            piece("content", &format!("a{first}")),
            piece("content", &format!("{second}b sk-te")),
            piece("reasoning", &format!("a{first}")),
            piece("reasoning", &format!("{second}b")),
            call.to_string(),
            STOP.to_owned(),
        ];
        let events: Vec<&str> = texts.iter().map(String::as_str).collect();
        let asked = ask(vec![Answer::Bytes(stream(&events))]);
        let reply = asked.result.as_ref().expect("a reply");
        assert_eq!((reply.text.as_str(), reply.reasoning.as_deref()), ("a[key]b sk-te", Some("a[key]b")));
        assert_eq!(heard(&asked).concat().matches("[key]").count(), 2);
        let all = format!("{:?} {:?}", asked.events, asked.result);
        assert!(!all.contains(KEY) && !all.contains("sk-test"), "{all}");
    }
}

#[test]
fn a_key_that_is_sent_back_gets_into_no_record() {
    let error = answer("500 Internal Server Error", "", &format!("you sent {KEY}"));
    let piece = |name: &str, value: &str| json!({"choices": [{"delta": {name: value}}]}).to_string();
    let (text, thought) = (piece("content", KEY), piece("reasoning_content", KEY));
    let call = json!({"choices": [{"delta": {"tool_calls": [{"id": KEY, "function": {"name": KEY, "arguments": KEY}}]}}]});
    let answers = vec![
        error,
        Answer::Bytes(stream(&[&text, &thought, &call.to_string(), STOP])),
        Answer::Bytes(stream(&[&text, &thought, STOP])),
    ];
    let server = Server::start(answers);
    let file = tempfile::tempdir().expect("a directory");
    let path = file.path().join("record.jsonl");
    let model = streaming(OpenAi::new("m", &server.url(), Some(KEY)).expect("usable"));
    let model = Recording::create(model.waiter(Arc::new(NoWaiting::default())), &path).expect("a new file");
    let events = Arc::new(Events::default());
    let agent = Agent::new(model, Registry::new()).events(Arc::clone(&events) as _);
    let trajectory = agent.run("go");
    assert_eq!((server.requests().len(), &trajectory.stop), (3, &StopReason::Answered), "{trajectory:?}");
    let record = std::fs::read_to_string(&path).expect("a record");
    assert_eq!(record.lines().count(), 2);
    for said in [
        record,
        serde_json::to_string(&trajectory).expect("JSON"),
        format!("{:?} {:?} {agent:?}", events.0.lock().expect("lock"), trajectory),
    ] {
        assert!(!said.contains(KEY), "{said}");
    }
}

#[test]
fn a_connection_is_used_again() {
    let body = String::from_utf8(stream(&[HEL, LO, STOP, "[DONE]"])).expect("text");
    let (_, events) = body.split_once("\r\n\r\n").expect("head and body");
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", events.len());
    // It is given up where the end of a body is not there in a moment, which on a busy host happens.
    let is_used_again = |_| {
        let server = Server::on_one_connection(vec![format!("{head}{events}"), format!("{head}{events}")]);
        let model = streaming(OpenAi::new("m", &server.url(), None).expect("usable"));
        let model = model.waiter(Arc::new(NoWaiting::default()));
        let mut replies = (0..2).map(|_| super::server::reply(&model, "hi"));
        replies.all(|reply| reply.is_ok_and(|reply| reply.text == "hello")) && server.requests().len() == 2
    };
    assert!((0..10).any(is_used_again));
}
