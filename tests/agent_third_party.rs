//! The client against servers that others wrote: two mocks, one of which judges its clients, and llama.cpp with a small
//! model. `.ci/third-party-models` installs and starts them and says by environment variables where they are.

mod support;

use agentkit_agent::model::openai::{OpenAi, Timeouts};
use agentkit_agent::model::wire::{Dialect, ReplyLimit, Streaming};
use agentkit_agent::model::{Finish, Message, ModelError, ModelErrorKind, Reply, Request};
use agentkit_agent::{
    Agent, AgentEvent, Cancel, Context, EventSink, Model, Registry, StopReason, Trajectory, tool,
};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::{Stop, eventually, trial};

fn main() -> ExitCode {
    support::run(vec![
        trial("llmock_has_nothing_to_say_against_the_client", llmock_has_nothing_to_say_against_the_client),
        trial(
            "scripted_conversations_of_aimock_come_out_exactly",
            scripted_conversations_of_aimock_come_out_exactly,
        ),
        trial("a_conversation_with_llama_cpp_runs_to_its_end", a_conversation_with_llama_cpp_runs_to_its_end),
        trial("errors_of_llama_cpp_are_readable", errors_of_llama_cpp_are_readable),
    ])
}

/// Where the server is that this variable names.
fn server(variable: &str) -> Result<String, Stop> {
    std::env::var(variable).map_err(|_| {
        Stop::Skip(format!("{variable} does not say where the server is: .ci/third-party-models starts it"))
    })
}

fn client(url: &str, name: &str, streaming: Streaming) -> Result<OpenAi, ModelError> {
    let dialect = Dialect { streaming, ..Dialect::default() };
    Ok(OpenAi::new(name, url, Some("sk-third-party"))?.dialect(dialect))
}

/// The weather in a city.
#[tool]
fn weather(
    /// The city.
    city: String,
) -> String {
    format!("sunny in {city}")
}

fn run(model: OpenAi, prompt: &str) -> Trajectory {
    let mut registry = Registry::new();
    registry.add(weather::tool()).expect("a valid tool");
    Agent::new(model, registry).run(prompt)
}

#[derive(Default)]
struct Events(Mutex<Vec<AgentEvent>>);

impl EventSink for Events {
    fn emit(&self, event: AgentEvent) {
        self.0.lock().expect("lock").push(event);
    }
}

/// A reply, and the text that was heard of it.
fn ask(model: &OpenAi, prompt: &str) -> (Result<Reply, ModelError>, String) {
    let events = Arc::new(Events::default());
    let context = Context::new(None, Cancel::default(), Arc::clone(&events) as Arc<dyn EventSink>);
    let messages = [Message::User(prompt.to_owned())];
    let result = model.reply(&context, &Request { messages: &messages, tools: &[] });
    let mut heard = String::new();
    for event in events.0.lock().expect("lock").iter() {
        match event {
            AgentEvent::TextDelta(text) => heard.push_str(text),
            AgentEvent::Retrying { .. } => heard.clear(),
            _ => {}
        }
    }
    (result, heard)
}

/// What has to come of a fault.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// A reply in the end.
    Reply,
    /// An error that quotes this.
    Error(&'static str),
    /// A run that ends with an answer, after this many calls that failed.
    Run(usize),
}

/// Every kind of fault that llmock can be told to make, and two kinds that are none.
fn faults() -> Vec<(Value, Wanted)> {
    let mut faults: Vec<(Value, Wanted)> = Vec::new();
    for (status, words) in [
        (400, "Bad request"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "not found"),
        (413, "too large"),
        (422, "Unprocessable"),
        (501, "Not implemented"),
    ] {
        faults.push((json!({"type": "fail", "status": status}), Wanted::Error(words)));
    }
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        faults.push((json!({"type": "fail", "status": status}), Wanted::Reply));
    }
    faults.push((json!({"type": "fail", "status": 429, "retry_after": 1.5}), Wanted::Reply));
    faults.push((json!({"type": "fail", "status": 503, "times": 3}), Wanted::Reply));
    faults.push((
        json!({"type": "fail", "status": 500, "times": 9}),
        Wanted::Error("gave up after 4 attempts"),
    ));
    faults.push((json!({"type": "delay", "seconds": 0.3}), Wanted::Reply));
    faults.push((json!({"type": "slow_first_token", "seconds": 0.3}), Wanted::Reply));
    for kind in ["disconnect", "truncate", "stall", "malformed"] {
        for after in [0, 3] {
            let fault =
                json!({"type": "stream_fault", "kind": kind, "after_chunks": after, "stall_seconds": 20});
            faults.push((fault, Wanted::Reply));
        }
    }
    faults.push((json!({"type": "tool_fault", "kind": "malformed_arguments"}), Wanted::Run(1)));
    faults.push((json!({"type": "tool_fault", "kind": "unknown_tool"}), Wanted::Run(1)));
    let calls = json!([{"name": "weather", "arguments": {"city": "Rome"}}, {"name": "weather", "arguments": {"city": "Oslo"}}]);
    faults.push((json!({"type": "reply", "tool_calls": calls}), Wanted::Run(0)));
    faults
}

fn llmock_has_nothing_to_say_against_the_client() -> Result<(), Stop> {
    let url = server("AGENTKIT_LLMOCK")?;
    admin(&url, "reset", Some(&json!({})))?;
    // A fault meets the requests for the model of its name, so all can be made at the same time.
    let faults: Vec<(String, Value, Wanted)> =
        (0..).zip(faults()).map(|(n, (fault, wanted))| (format!("fault-{n}"), fault, wanted)).collect();
    for (name, fault, _) in &faults {
        let mut fault = fault.clone();
        fault["match"] = json!({"model": name});
        admin(&url, "scenario", Some(&json!({"behaviors": [fault]})))?;
    }
    let meeting = |(name, fault, wanted): &(String, Value, Wanted)| {
        meet(&url, name, *wanted).map_err(|why| Stop::Fail(format!("{fault}: {why}")))
    };
    let results: Vec<Result<(), Stop>> = thread::scope(|scope| {
        let threads: Vec<_> = faults.iter().map(|fault| scope.spawn(move || meeting(fault))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    results.into_iter().collect::<Result<(), Stop>>()?;
    let left = admin(&url, "scenario", None)?;
    let permanent = left["pending"].as_array().map_or(0, Vec::len);
    assert_eq!(permanent, 1, "all but the one that never ends were made: {left}");
    let verdict = admin(&url, "verdict", None)?;
    assert_eq!(verdict["findings"], json!([]), "{verdict}");
    assert!(verdict["faults_injected"].as_u64() >= Some(faults.len() as u64 - 3), "{verdict}");
    Ok(())
}

/// Meets one fault of llmock.
fn meet(url: &str, name: &str, wanted: Wanted) -> Result<(), String> {
    let idle = Duration::from_secs(1);
    let model = client(url, name, Streaming::WithUsage).map_err(|error| error.message)?;
    let model = model.timeouts(Timeouts { idle, ..Timeouts::default() });
    if let Wanted::Run(failed) = wanted {
        let trajectory = run(model, name);
        let errors = trajectory.calls().filter(|call| call.result.is_err()).count();
        let as_wanted =
            trajectory.stop == StopReason::Answered && errors == failed && trajectory.calls().count() > 0;
        return if as_wanted { Ok(()) } else { Err(format!("{trajectory:?}")) };
    }
    match (ask(&model, name), wanted) {
        ((Ok(reply), heard), Wanted::Reply)
            if reply.finish == Finish::Done
                && heard == reply.text
                && !heard.is_empty()
                && reply.tokens.is_some() =>
        {
            Ok(())
        }
        ((Err(error), _), Wanted::Error(words)) if error.message.contains(words) => Ok(()),
        (other, _) => Err(format!("{wanted:?} became {other:?}")),
    }
}

/// Talks to llmock about what it does: posts if there is something to say.
fn admin(url: &str, what: &str, say: Option<&Value>) -> Result<Value, Stop> {
    let url = format!("{url}/_llmock/{what}");
    let mut response = match say {
        Some(say) => ureq::post(&url).send(say.to_string())?,
        None => ureq::get(&url).call()?,
    };
    Ok(serde_json::from_str(&response.body_mut().read_to_string()?)?)
}

/// The script is in `agent_third_party.json`. Its arguments hold what is written with one to four bytes, and the server
/// cuts every few characters, counted as halves of pairs.
fn scripted_conversations_of_aimock_come_out_exactly() -> Result<(), Stop> {
    let url = server("AGENTKIT_AIMOCK")?;
    for streaming in [Streaming::Off, Streaming::WithUsage, Streaming::WithoutUsage] {
        let trajectory = run(client(&url, "m", streaming)?, "compare the weather");
        let calls: Vec<_> = trajectory.calls().map(|record| record.call.clone()).collect();
        let seen: Vec<_> = calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
        let wanted = [
            ("call_rome", "weather", r#"{"city":"Rome"}"#),
            ("call_crab", "weather", r#"{"city":"Zürich 🦀🦀🦀 \"East\" \\ 東京"}"#),
            ("call_oslo", "weather", r#"{"city":"Oslo"}"#),
        ];
        assert_eq!(seen, wanted, "{streaming:?}");
        let results: Vec<_> = trajectory.calls().filter_map(|record| record.result.as_ref().ok()).collect();
        assert_eq!(results[1].text, "sunny in Zürich 🦀🦀🦀 \"East\" \\ 東京");
        assert_eq!((trajectory.steps.len(), &trajectory.stop), (3, &StopReason::Answered), "{trajectory:?}");
        assert_eq!(
            trajectory.answer.as_deref(),
            Some("Sunny everywhere: 🦀 ☀ – “très bien”.\n\n- Rome\n- Oslo")
        );

        let (reply, heard) = ask(&client(&url, "m", streaming)?, "think first");
        let reply = reply?;
        assert_eq!((&*reply.text, reply.reasoning.as_deref()), ("42", Some("Six times seven 🦀 is 42.")));
        assert_eq!(heard, if streaming == Streaming::Off { "" } else { "42" });
        let error = ask(&client(&url, "m", streaming)?, "be refused").0.expect_err("an error");
        assert!(error.message.contains("no such thing"), "{error}");
    }
    Ok(())
}

/// Where llama.cpp is, once it has loaded its model. How long that takes is up to the machine, and not what is tested.
fn llama_url() -> Result<String, Stop> {
    let url = server("AGENTKIT_LLAMACPP")?;
    let health = format!("{url}/health");
    eventually("llama.cpp has loaded its model", Duration::from_secs(120), || {
        ureq::get(&health).call().is_ok()
    })?;
    Ok(url)
}

fn llama(limit: u64) -> Result<OpenAi, Stop> {
    let dialect = Dialect {
        streaming: Streaming::WithUsage,
        reply_limit: Some(ReplyLimit::MaxTokens(limit)),
        temperature: Some(0.0),
        ..Dialect::default()
    };
    Ok(OpenAi::new("m", &llama_url()?, None)?.dialect(dialect))
}

fn a_conversation_with_llama_cpp_runs_to_its_end() -> Result<(), Stop> {
    let (reply, heard) = ask(&llama(200)?, "Say hello.");
    let reply = reply?;
    assert_eq!((reply.finish, &heard), (Finish::Done, &reply.text));
    assert!(!heard.trim().is_empty() && reply.tokens.is_some_and(|tokens| tokens > 10), "{heard}");
    let (reply, _) = ask(&llama(3)?, "Tell me a long story.");
    assert_eq!(reply?.finish, Finish::Cut("length".to_owned()));
    let answered = Agent::new(llama(200)?, Registry::new()).run("Say hello.");
    assert_eq!((answered.stop, answered.answer), (StopReason::Answered, Some(heard)), "{:?}", answered.steps);
    Ok(())
}

fn errors_of_llama_cpp_are_readable() -> Result<(), Stop> {
    let (result, _) = ask(&llama(9)?, &"word ".repeat(20_000));
    let error = result.expect_err("too long");
    assert_eq!(error.kind, ModelErrorKind::ContextOverflow, "{error}");
    assert!(error.message.contains("status 400 Bad Request (application/json"), "{error}");
    let dialect = Dialect {
        temperature: Some(f64::NAN),
        reply_limit: Some(ReplyLimit::MaxTokens(1)),
        ..Dialect::default()
    };
    let elsewhere = OpenAi::new("m", &format!("{}/nowhere", llama_url()?), None)?.dialect(dialect);
    let error = ask(&elsewhere, "hi").0.expect_err("there is nothing");
    assert!(error.message.contains("/nowhere/chat/completions: status 404 Not Found"), "{error}");
    Ok(())
}
