//! Models, servers and users who mean harm, or blunder.

use crate::server::{Server, calls, says, status, streams};
use crate::support::{Stop, temp_dir};
use crate::{KEY, agentkit, check_code, run, stderr, stdout};
use serde_json::json;
use std::fs;

/// Changes the title, clears the screen, reverses the direction; and a line that looks like the command's own.
const NASTY: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}8m\u{202e}evil\r\nstop   | answered";

fn acts(text: &str) -> bool {
    text.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\r'])
}

pub(crate) fn no_escape_sequence_comes_through() -> Result<(), Stop> {
    let directory = temp_dir()?;
    let transcript = directory.path().join("run.jsonl");
    let server = Server::start(vec![
        calls(NASTY, &json!({ "expression": NASTY })),
        calls("recall", &json!({ "key": NASTY })),
        calls("remember", &json!({ "key": NASTY, "value": NASTY })),
        calls("recall", &json!({ "key": NASTY })),
        streams(&[NASTY, "\u{1b}", "[31m", NASTY]),
    ])?;
    let output = run(&server, &[NASTY, "--transcript"]).arg(&transcript).output()?;
    check_code(&output, 0);
    let replay = agentkit(["replay"]).arg(&transcript).output()?;
    for text in [stdout(&output), stderr(&output), stdout(&replay)] {
        assert!(!acts(&text) && text.contains("\\u{1b}]0;owned\\u{7}"), "{text:?}");
    }
    // The command's own end is the only one.
    assert_eq!(
        stderr(&output).lines().filter(|line| line.starts_with("stop ")).count(),
        1,
        "{}",
        stderr(&output)
    );

    let server = Server::start(vec![status("400 Bad Request", "text/plain", NASTY)])?;
    let output = run(&server, &["x"]).output()?;
    check_code(&output, 30);
    assert!(stderr(&output).contains("| agentkit doctor --endpoint "), "{}", stderr(&output));
    assert!(!acts(&stderr(&output)) && stderr(&output).contains("evil"), "{}", stderr(&output));

    let output = agentkit(["run", "x", "--model", NASTY, "--base-url", NASTY]).output()?;
    check_code(&output, 2);
    let message = stderr(&output);
    assert!(!acts(&message) && message.lines().count() == 1, "{message:?}");
    Ok(())
}

pub(crate) fn the_key_is_never_shown() -> Result<(), Stop> {
    let directory = temp_dir()?;
    let transcript = directory.path().join("run.jsonl");
    let echo = format!("{{\"error\":{{\"message\":\"wrong key {KEY}\"}}}}");
    let unauthorized = || status("401 Unauthorized", "application/json", &echo);
    let server = Server::start(vec![says(&format!("Your key is {KEY}.")), unauthorized(), unauthorized()])?;
    let mut answered = run(&server, &["what is my key?", "--json", "--transcript"]);
    let mut refused = run(&server, &["again", "--resume"]);
    let mut doctor = agentkit(["doctor", "--endpoint", "--base-url", &server.url()]);
    let codes = [answered.arg(&transcript), refused.arg(&transcript), &mut doctor].map(|command| {
        let output = command.env("OPENAI_API_KEY", KEY).output()?;
        assert!(server.request().to_lowercase().contains(&format!("authorization: bearer {KEY}")));
        let shown = stdout(&output) + &stderr(&output);
        assert!(!shown.contains(KEY) && !shown.contains(&KEY[8..]), "{shown}");
        Ok::<_, Stop>(output.status.code())
    });
    let [answered, refused, doctor] = codes;
    assert_eq!((answered?, refused?, doctor?), (Some(0), Some(30), Some(1)));
    assert!(!fs::read_to_string(&transcript)?.contains(&KEY[8..]));
    // Nor where it is where it does not belong.
    let output = agentkit(["doctor", "--base-url", "http://user:hunter2@127.0.0.1/?key=hunter2"]).output()?;
    assert!(!(stdout(&output) + &stderr(&output)).contains("hunter2"), "{}", stdout(&output));
    Ok(())
}
