//! The client for chat-completions endpoints against a server on loopback that answers as told.

#[path = "../support/request.rs"]
mod request;
mod server;
mod streaming;
mod transport;

use agentkit_agent::model::openai::OpenAi;
use agentkit_agent::model::{Message, Request};
use agentkit_agent::{
    Agent, AgentEvent, Bounds, Cancel, Clock, Context, Model, ModelErrorKind, Registry, StopReason,
};
use serde_json::json;
use server::{Answer, Events, KEY, NoWaiting, Server, answer, ask, ask_within, good, json_answer};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

#[test]
fn a_reply_is_read() {
    let asked = ask(vec![good()]);
    assert_eq!(asked.result.map(|reply| reply.text), Ok("hello".to_owned()));
    let (head, body) = asked.requests[0].split_once("\r\n\r\n").expect("head and body");
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.to_lowercase().contains(&format!("authorization: bearer {KEY}")), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body, json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}));
}

#[test]
fn one_rule_makes_the_url() {
    for (base, wanted) in [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/chat/completions/", "/chat/completions"),
        ("/api/v1//", "/api/v1/chat/completions"),
        ("/v1beta/openai", "/v1beta/openai/chat/completions"),
    ] {
        let server = Server::start(vec![good()]);
        let model = OpenAi::new("m", &format!("{}{base}", server.url()), None).expect("usable");
        let messages = [Message::User("hi".to_owned())];
        model.reply(&Context::detached(), &Request { messages: &messages, tools: &[] }).expect("a reply");
        let request = &server.requests()[0];
        assert!(request.starts_with(&format!("POST {wanted} HTTP")), "{base}: {request}");
        assert!(!request.to_lowercase().contains("authorization"), "no key, no header");
    }
}

#[test]
fn an_unusable_base_url_or_key_is_refused_without_quoting_it() {
    for base in [
        "",
        "localhost:8080",
        "ftp://localhost",
        "http://",
        "http://user:secret@localhost",
        "http://localhost/v1?key=secret",
        "http://localhost/v1#secret",
        "http://localhost:99999/v1",
        "http://[::1]:0",
        "http://localhost:",
        "not a url secret",
    ] {
        let error = OpenAi::new("m", base, None).expect_err(base).message;
        assert!(error.starts_with("the base URL cannot be used: ") && !error.contains("secret"), "{error}");
    }
    for key in ["secret\nx: y", "secret key", "sécret"] {
        let error = OpenAi::new("m", "http://127.0.0.1:1", Some(key)).expect_err(key).message;
        assert!(error.starts_with("the API key cannot be used") && !error.contains("secret"), "{error}");
    }
    assert!(
        OpenAi::new("m", "http://127.0.0.1:1", Some(" key\n")).is_ok(),
        "white space around a key is an accident"
    );
}

#[test]
fn a_passing_failure_is_asked_again_with_growing_waits() {
    let busy = || answer("503 Service Unavailable", "", "Loading model");
    let asked =
        ask(vec![busy(), answer("429 Too Many Requests", "", ""), answer("502 Bad Gateway", "", ""), good()]);
    assert_eq!(asked.result.map(|reply| reply.text), Ok("hello".to_owned()));
    // A half of the jitter, which is a quarter at most.
    assert_eq!(asked.waits, [562, 1125, 2250]);
    let attempts: Vec<u32> = asked
        .events
        .iter()
        .map(|event| match event {
            AgentEvent::Retrying { attempt, why, .. } if why.starts_with("status ") => *attempt,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(attempts, [2, 3, 4]);
}

#[test]
fn a_lasting_failure_of_the_passing_kind_is_given_up() {
    let asked = ask((0..10).map(|_| answer("500 Internal Server Error", "", "oops")).collect());
    assert_eq!((asked.requests.len(), asked.waits.len()), (4, 3));
    assert!(
        asked
            .message()
            .ends_with("status 500 Internal Server Error (no type): oops (gave up after 4 attempts)")
    );
}

#[test]
fn retry_after_is_honoured_in_seconds_and_as_a_date() {
    for (header, wanted) in
        [("7", 7_000), ("Sun, 06 Nov 1994 08:49:37 GMT", 20_000), ("nonsense", 562), ("0", 562)]
    {
        let limited = answer("429 Too Many Requests", &format!("retry-after: {header}\r\n"), "");
        assert_eq!(ask(vec![limited, good()]).waits, [wanted], "{header}");
    }
    let limited = answer("429 Too Many Requests", "retry-after: 3600\r\n", "");
    let asked = ask(vec![limited, good()]);
    assert_eq!(asked.requests.len(), 1);
    assert!(
        asked.message().ends_with("(the server asks for a longer wait than 300 s)"),
        "{}",
        asked.message()
    );
}

#[test]
fn no_wait_goes_beyond_the_budget_of_the_run() {
    let limited = answer("429 Too Many Requests", "retry-after: 60\r\n", "");
    let asked = ask_within(vec![limited, good()], Some(Duration::from_secs(30)), "hi");
    assert_eq!((asked.requests.len(), asked.waits.len()), (1, 0));
    assert!(asked.message().contains("the time left of the run is too short"), "{}", asked.message());
}

#[test]
fn what_will_not_change_is_not_asked_again() {
    for (status, body) in [
        ("400 Bad Request", r#"{"error":{"message":"bad"}}"#),
        ("401 Unauthorized", r#"{"error":{"message":"bad"}}"#),
        ("403 Forbidden", r#"{"error":{"message":"bad"}}"#),
        ("404 Not Found", r#"{"error":{"message":"bad"}}"#),
        ("422 Unprocessable Entity", r#"{"error":{"message":"bad"}}"#),
        ("429 Too Many Requests", r#"{"error":{"message":"bad","code":"insufficient_quota"}}"#),
    ] {
        let asked = ask(vec![json_answer(status, body), good()]);
        assert_eq!(asked.requests.len(), 1, "{status}");
        assert!(
            asked.message().ends_with(&format!("status {status} (application/json): bad")),
            "{}",
            asked.message()
        );
    }
    let moved = answer("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", "");
    assert!(ask(vec![moved, good()]).message().contains("status 307"), "no redirect takes the key elsewhere");
}

#[test]
fn an_overflow_of_the_context_is_a_kind_of_its_own() {
    let overflow = r#"{"error":{"message":"too long","type":"exceed_context_size_error"}}"#;
    for status in ["400 Bad Request", "500 Internal Server Error"] {
        let asked = ask(vec![json_answer(status, overflow), good()]);
        assert_eq!(asked.requests.len(), 1, "the same request is never sent again");
        assert_eq!(asked.result.expect_err("too long").kind, ModelErrorKind::ContextOverflow);
    }
}

#[test]
fn a_page_instead_of_json_is_shown_in_part() {
    let page = format!("<html>{}", "x".repeat(1_000));
    for status in ["200 OK", "404 Not Found", "502 Bad Gateway"] {
        // The last is asked again.
        let asked = ask((0..4).map(|_| answer(status, "content-type: text/html\r\n", &page)).collect());
        let message = asked.message();
        assert!(message.contains(&format!("status {status} (text/html): <html>xxx")), "{message}");
        assert!(message.len() < 400, "{message}");
    }
    let asked = ask(vec![json_answer("200 OK", r#"{"error":{"message":"overloaded"}}"#)]);
    assert!(asked.message().contains("the server reports an error: overloaded"), "{}", asked.message());
}

#[test]
fn a_broken_connection_is_asked_again() {
    let cut = Answer::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\"".to_vec());
    let asked = ask(vec![Answer::Close, cut, good()]);
    assert_eq!(asked.result.map(|reply| reply.text), Ok("hello".to_owned()));
    assert_eq!(asked.requests.len(), 3);
}

#[test]
fn a_refused_connection_says_where_it_was_aimed() {
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("an address");
    let waiter = Arc::new(NoWaiting::default());
    let model =
        OpenAi::new("m", &format!("http://{free}"), Some(KEY)).expect("usable").waiter(waiter.clone());
    let error =
        model.reply(&Context::detached(), &Request { messages: &[], tools: &[] }).expect_err("nobody there");
    assert!(error.message.starts_with(&format!("POST http://{free}/v1/chat/completions: ")), "{error}");
    assert_eq!(waiter.waits.lock().expect("lock").len(), 3);
}

#[test]
fn a_stalled_server_costs_no_more_than_the_budget() {
    let budget = Duration::from_millis(300);
    let started = Instant::now();
    let asked = ask_within(vec![Answer::Stall], Some(budget), "hi");
    assert!(asked.result.is_err() && started.elapsed() >= budget);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn an_endless_body_is_cut_off() {
    let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
    let asked = ask(vec![Answer::Bytes([head, vec![b' '; 17 << 20]].concat())]);
    assert!(asked.message().contains("larger than 16777216 bytes"), "{}", asked.message());
}

#[test]
fn a_cut_prompt_is_warned_about() {
    let reply = |tokens: u64| {
        let body = json!({
            "choices": [{"message": {"content": "a"}}],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 1},
        });
        vec![json_answer("200 OK", &body.to_string())]
    };
    let prompt = "word ".repeat(10_000);
    let cut = ask_within(reply(4096), None, &prompt);
    assert!(
        matches!(&cut.events[..], [AgentEvent::Warning(text)] if text.contains("seems to have cut")),
        "{:?}",
        cut.events
    );
    assert_eq!(ask_within(reply(10_000), None, &prompt).events, []);
    assert_eq!(ask_within(reply(5), None, "hi").events, []);
}

#[test]
fn the_key_is_in_no_error_event_or_debug_text() {
    let echo = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    let asked = ask(vec![json_answer("401 Unauthorized", &echo)]);
    assert!(asked.message().contains("Incorrect API key provided: [key]"), "{}", asked.message());
    let note = format!(r#"{{"choices":[{{"message":{{"content":[{{"type":"{KEY}"}}]}}}}]}}"#);
    let asked = ask(vec![json_answer("200 OK", &note)]);
    assert!(!asked.events.is_empty() && !format!("{:?}", asked.events).contains(KEY));
    let model = OpenAi::new("m", "http://127.0.0.1:1", Some(KEY)).expect("usable");
    assert!(!format!("{model:?}").contains(KEY));
}

#[test]
fn a_key_that_is_only_a_word_changes_nothing_that_a_model_says() {
    let call = r#"{"id":"1","function":{"name":"python","arguments":"{\"code\":\"print(1)\"}"}}"#;
    let said =
        format!(r#"{{"choices":[{{"message":{{"content":"1 EMPTY ollama","tool_calls":[{call}]}}}}]}}"#);
    for key in ["1", "EMPTY", "ollama"] {
        let server =
            Server::start(vec![json_answer("200 OK", &said), answer("404 Not Found", "", "key ollama")]);
        let model = OpenAi::new("m", &server.url(), Some(key)).expect("usable");
        let messages = [Message::User("hi".to_owned())];
        let ask = || model.reply(&Context::detached(), &Request { messages: &messages, tools: &[] });
        let reply = ask().expect("a reply");
        assert_eq!((&*reply.text, &*reply.calls[0].arguments), ("1 EMPTY ollama", r#"{"code":"print(1)"}"#));
        let error = ask().expect_err("an error").message;
        let wanted = if key == "ollama" { "key [key]" } else { "key ollama" };
        assert!(error.starts_with(&format!("POST {}", server.url())) && error.ends_with(wanted), "{error}");
    }
}

/// Any four characters in a row of the key are too many.
fn assert_no_part_of(key: &str, text: &str) {
    let parts = (0..key.len() - 4).map(|start| &key[start..start + 5]);
    for part in parts.filter(|part| !"Bearer".contains(part)) {
        assert!(!text.contains(part), "`{part}` in {text}");
    }
}

#[test]
fn no_part_of_the_key_is_left_where_a_text_is_cut() {
    let escaped: String = KEY.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    // Wherever the cut falls: before, in and after the key.
    for padding in (150..230).step_by(7).map(|length| "x".repeat(length)) {
        for body in [
            format!("{padding}{KEY}"),
            format!("{padding}{escaped}"),
            format!(r#"{{"error":{{"message":"{padding}{KEY}"}}}}"#),
            format!(r#"{{"error":{{"message":"{padding}{escaped}"}}}}"#),
            format!(r#"{{"error":{{"code":"{padding}{escaped}"}}}}"#),
        ] {
            for status in ["200 OK", "401 Unauthorized"] {
                assert_no_part_of(KEY, ask(vec![json_answer(status, &body)]).message());
            }
        }
    }
    for padding in (20..70).step_by(7).map(|length| "x".repeat(length)) {
        let kind = answer("404 Not Found", &format!("content-type: {padding}{KEY}\r\n"), "");
        assert_no_part_of(KEY, ask(vec![kind]).message());
        let note = format!(r#"{{"choices":[{{"message":{{"content":[{{"type":"{padding}{KEY}"}}]}}}}]}}"#);
        let events = ask(vec![json_answer("200 OK", &note)]).events;
        assert!(!events.is_empty());
        assert_no_part_of(KEY, &format!("{events:?}"));
    }
}

#[test]
fn what_a_server_says_is_escaped_once_where_it_is_shown() {
    let asked = ask(vec![answer("400 Bad Request", "", "boom \u{1b}[31mred")]);
    let error = asked.result.expect_err("it failed");
    assert!(error.message.ends_with(": boom \u{1b}[31mred"), "{}", error.message);
    assert!(error.to_string().ends_with(": boom \\u{1b}[31mred"), "{error}");
}

#[test]
fn a_cancellation_ends_a_run_that_waits_for_a_server() {
    let (end, until) = channel();
    let server = Server::start(vec![Answer::StallUntil(until)]);
    let model = OpenAi::new("m", &server.url(), None).expect("usable");
    let cancel = Cancel::new();
    let agent = Agent::new(model, Registry::new()).cancel(cancel.clone());
    let agent = agent.bounds(Bounds { wall: Duration::from_secs(60), ..Bounds::default() });
    let run = std::thread::spawn(move || agent.run("go"));
    // The request is there, so the client is waiting for its answer.
    while server.requests().is_empty() {
        std::thread::yield_now();
    }
    let cancelled = Instant::now();
    cancel.cancel();
    assert_eq!(run.join().expect("no panic").stop, StopReason::Cancelled);
    assert!(cancelled.elapsed() < Duration::from_secs(10), "{:?}", cancelled.elapsed());
    drop(end);
}

/// A clock that stands at the deadline.
struct Late(Instant);

impl Clock for Late {
    fn now(&self) -> Instant {
        self.0
    }
}

#[test]
fn nothing_is_sent_once_the_time_is_up_or_the_run_cancelled() {
    let server = Server::start(vec![good()]);
    let model = OpenAi::new("m", &server.url(), None).expect("usable");
    let request = Request { messages: &[], tools: &[] };
    let now = Instant::now();
    let late = Context::new(Some(now), Cancel::default(), Arc::new(Events::default()))
        .with_clock(Arc::new(Late(now)));
    assert!(model.reply(&late, &request).is_err());
    let cancelled = Context::detached();
    cancelled.cancel().cancel();
    assert!(model.reply(&cancelled, &request).is_err());
    assert!(server.requests().is_empty());
}
