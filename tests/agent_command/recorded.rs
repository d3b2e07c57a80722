//! Transcripts.

use crate::server::{Server, calls, says};
use crate::support::{Stop, temp_dir};
use crate::{agentkit, check_code, events, has_result, run, stderr, stdout};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Output;

fn record(server: &Server, arguments: &[&str], transcript: &Path) -> std::io::Result<Output> {
    run(server, arguments).arg(transcript).output()
}

pub(crate) fn what_cannot_be_recorded_is_not_begun() -> Result<(), Stop> {
    let directory = temp_dir()?;
    let existing = directory.path().join("precious.jsonl");
    fs::write(&existing, "precious")?;
    let server = Server::start(vec![says("never asked")])?;
    for path in [existing.as_path(), Path::new("/nonexistent/run.jsonl"), directory.path()] {
        let output = record(&server, &["x", "--transcript"], path)?;
        check_code(&output, 1);
        let message = stderr(&output);
        assert!(message.starts_with("agentkit: transcript ") && message.lines().count() == 1, "{message}");
        assert_eq!(message.contains("by --resume"), path.exists(), "{message}");
    }
    let output = record(&server, &["x", "--resume"], Path::new("/nonexistent/run.jsonl"))?;
    check_code(&output, 1);
    assert_eq!(fs::read_to_string(existing)?, "precious");
    assert!(!server.was_asked());
    Ok(())
}

pub(crate) fn a_run_goes_on_where_it_ended() -> Result<(), Stop> {
    let directory = temp_dir()?;
    let transcript = directory.path().join("run.jsonl");
    let sum = || calls("calculator", &json!({"expression": "20 + 22"}));
    let server = Server::start(vec![sum(), sum(), says("42"), says("Still 42.")])?;
    let output =
        record(&server, &["add", "--system", "Be brief.", "--max-steps", "1", "--transcript"], &transcript)?;
    check_code(&output, 10);
    server.body();
    // The model is the recorded one, whatever the environment says now.
    let mut command = run(&server, &["--resume"]);
    let output = command.arg(&transcript).env("OPENAI_MODEL", "another").output()?;
    check_code(&output, 0);
    assert_eq!(stdout(&output), "42\n");
    let resumed = server.body();
    assert_eq!(
        (&resumed["model"], &resumed["messages"][0]["content"]),
        (&json!("some-model"), &json!("Be brief."))
    );
    assert!(has_result(&resumed, "not run: the limit of 1 model call is reached"), "{resumed}");
    server.body();

    let output = record(&server, &["--resume"], &transcript)?;
    check_code(&output, 2);
    assert!(stderr(&output).contains("say what comes next"), "{}", stderr(&output));
    let output = record(&server, &["sure?", "--resume"], &transcript)?;
    check_code(&output, 0);
    let last = server.body();
    let messages = last["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let last_two: Vec<_> = messages.iter().rev().take(2).map(|message| &message["content"]).collect();
    assert_eq!(last_two, ["sure?", "42"]);
    let starts = events(&transcript)?.iter().filter(|event| event["event"] == "run_started").count();
    assert_eq!(starts, 3);
    Ok(())
}

pub(crate) fn a_torn_transcript_goes_on_too() -> Result<(), Stop> {
    let directory = temp_dir()?;
    let transcript = directory.path().join("run.jsonl");
    let server = Server::start(vec![says("one"), says("two")])?;
    check_code(&record(&server, &["first", "--transcript"], &transcript)?, 0);
    fs::OpenOptions::new().append(true).open(&transcript)?.write_all(b"{\"v\":1,\"event\":\"run_st")?;
    let output = agentkit(["replay"]).arg(&transcript).output()?;
    check_code(&output, 0);
    assert!(stdout(&output).contains("warn   | the last line (22 bytes) was cut off"), "{}", stdout(&output));
    let output = record(&server, &["second", "--resume"], &transcript)?;
    check_code(&output, 0);
    assert!(stderr(&output).contains("warn   | the last line (22 bytes) was cut off"), "{}", stderr(&output));
    events(&transcript)?;
    Ok(())
}

pub(crate) fn a_replay_shows_what_was_shown() -> Result<(), Stop> {
    let directory = temp_dir()?;
    let transcript = directory.path().join("run.jsonl");
    let server = Server::start(vec![
        calls("calculator", &json!({"expression": "1 / 0"})),
        calls("nosuch", &json!({})),
        calls("calculator", &json!({"expression": "6 * 7"})),
        says("It is 42.\n\nBye."),
    ])?;
    let live = record(&server, &["add", "--transcript"], &transcript)?;
    check_code(&live, 0);
    let replay = agentkit(["replay"]).arg(&transcript).output()?;
    check_code(&replay, 0);
    let shown = stderr(&live);
    let events = shown.split_once("\nrun ").map(|(_, events)| format!("run {events}")).unwrap_or_default();
    let preface: Vec<&str> = shown.lines().take_while(|line| !line.starts_with("run ")).collect();
    assert!(preface.len() == 2 && preface[0].starts_with("jail   | "), "{shown}");
    assert_eq!(preface[1], format!("server | {}, without a key", server.url()));
    assert!(events.contains("error  | nosuch, ") && events.contains("error  | calculator, "), "{shown}");
    assert_eq!(stdout(&replay), events);
    assert_eq!(stderr(&replay), "");
    Ok(())
}

pub(crate) fn a_damaged_transcript_is_no_replay() -> Result<(), Stop> {
    let directory = temp_dir()?;
    let path = directory.path().join("run.jsonl");
    for (content, words) in [("no event\n{}\n", "line 1 is no event"), ("{\"v\":99}\n", "version 99")] {
        fs::write(&path, content)?;
        let output = agentkit(["replay"]).arg(&path).output()?;
        check_code(&output, 1);
        let message = stderr(&output);
        assert!(message.contains(words) && message.lines().count() == 1, "{message}");
    }
    check_code(&agentkit(["replay", "/nonexistent"]).output()?, 1);
    Ok(())
}
