//! Runs that are ended from outside.

use crate::server::{Answer, Server, calls, says};
use crate::support::need::need;
use crate::support::processes::with_marker;
use crate::support::{PATIENCE, Stop, eventually, temp_dir};
use crate::{AGENTKIT, check_code, events, on_host, run, signal, stderr};
use serde_json::json;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn start(server: &Server, transcript: &Path) -> std::io::Result<Child> {
    let mut command = run(server, &["hang", "--transcript"]);
    command.arg(transcript).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// The names of the last two events.
fn last_two(transcript: &Path) -> Result<Vec<String>, Stop> {
    let events = events(transcript)?;
    let names = events.iter().rev().take(2).rev().filter_map(|event| event["event"].as_str());
    let names = names.map(str::to_owned).collect();
    assert_eq!(events.last().map(|last| &last["stop"]), Some(&json!("cancelled")));
    Ok(names)
}

pub(crate) fn ctrl_c_ends_a_model_that_hangs() -> Result<(), Stop> {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let directory = temp_dir()?;
        let transcript = directory.path().join("run.jsonl");
        let server = Server::start(vec![Answer::Never])?;
        let child = start(&server, &transcript)?;
        server.request();
        signal(child.id(), name)?;
        let output = child.wait_with_output()?;
        check_code(&output, code);
        assert!(stderr(&output).contains("stop   | interrupted: "), "{}", stderr(&output));
        assert_eq!(last_two(&transcript)?, ["step_started", "stopped"]);
    }
    Ok(())
}

pub(crate) fn ctrl_c_ends_a_program_that_hangs() -> Result<(), Stop> {
    need("userns")?;
    let directory = temp_dir()?;
    let transcript = directory.path().join("run.jsonl");
    let marker = format!("2{:09}", std::process::id());
    let script = json!({ "script": format!("(sleep {marker} &) ; sleep {marker}") });
    let server = Server::start(vec![calls("shell", &script)])?;
    let mut command = run(&server, &["hang", "--transcript"]);
    // As a terminal has it: Ctrl-C goes to the whole group, the jail's own processes included.
    command.arg(&transcript).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn()?;
    eventually("two sleeping programs", PATIENCE, || with_marker(&format!("sleep\0{marker}")).len() == 2)?;
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status()?.success());
    let output = child.wait_with_output()?;
    check_code(&output, 130);
    eventually("every process is gone", PATIENCE, || with_marker(&marker).is_empty())?;
    assert_eq!(last_two(&transcript)?, ["tool_finished", "stopped"]);
    Ok(())
}

/// The run is over, and the command hangs because nobody reads its answer.
pub(crate) fn a_second_signal_kills() -> Result<(), Stop> {
    let directory = temp_dir()?;
    let transcript = directory.path().join("run.jsonl");
    let server = Server::start(vec![says(&"x".repeat(1 << 20))])?;
    let mut command = run(&server, &["flood", "--transcript"]);
    let mut child = command.arg(&transcript).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    eventually("the end of the run", PATIENCE, || {
        std::fs::read_to_string(&transcript).is_ok_and(|text| text.contains("\"stopped\""))
    })?;
    // Signals that wait to be taken count as one.
    eventually("the death of the command", PATIENCE, || {
        let _ = signal(child.id(), "INT");
        matches!(child.try_wait(), Ok(Some(_)))
    })?;
    assert_eq!(child.wait()?.signal(), Some(2));
    assert_eq!(events(&transcript)?.last().map(|last| &last["stop"]), Some(&json!("answered")));
    Ok(())
}

/// As under nohup(1).
pub(crate) fn a_signal_that_is_to_be_ignored_is() -> Result<(), Stop> {
    let server = Server::start(vec![Answer::Never])?;
    let ignoring =
        on_host(Command::new("sh"), ["-c", "trap '' HUP; exec \"$@\"", "sh", AGENTKIT, "run", "hang"])
            .args(["--model", "m", "--base-url", &server.url()])
            .stderr(Stdio::piped())
            .spawn()?;
    server.request();
    signal(ignoring.id(), "HUP")?;
    signal(ignoring.id(), "INT")?;
    check_code(&ignoring.wait_with_output()?, 130);
    Ok(())
}
