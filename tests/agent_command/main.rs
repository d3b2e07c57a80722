//! The command `agentkit` as a user runs it, against an endpoint on loopback that answers as told.

#[path = "../support/mod.rs"]
mod support;

mod asking;
mod doctor;
mod ending;
mod hostile;
mod recorded;
#[path = "../support/request.rs"]
mod request;
mod running;
mod server;
mod terminal;

use serde_json::Value;
use server::Server;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use support::{Stop, trial};

const AGENTKIT: &str = env!("CARGO_BIN_EXE_agentkit");
const KEY: &str = "sk-test-0123456789abcdef";

fn main() -> ExitCode {
    support::run(vec![
        trial("the_answer_is_alone_on_stdout", running::the_answer_is_alone_on_stdout),
        trial("code_runs_in_the_sandbox", running::code_runs_in_the_sandbox),
        trial("a_dry_run_changes_nothing", running::a_dry_run_changes_nothing),
        trial("events_are_json_lines", running::events_are_json_lines),
        trial("streamed_text_is_shown_once", running::streamed_text_is_shown_once),
        trial("calls_in_words_are_run_if_wanted", running::calls_in_words_are_run_if_wanted),
        trial("a_terminal_shows_the_answer_once", running::a_terminal_shows_the_answer_once),
        trial("each_end_has_its_exit_code", running::each_end_has_its_exit_code),
        trial("without_a_sandbox_no_code_runs", running::without_a_sandbox_no_code_runs),
        trial("mistakes_exit_with_2_and_one_line", running::mistakes_exit_with_2_and_one_line),
        trial("a_prompt_comes_from_standard_input_too", running::a_prompt_comes_from_standard_input_too),
        trial("nobody_to_ask_means_no", asking::nobody_to_ask_means_no),
        trial("a_terminal_is_asked", asking::a_terminal_is_asked),
        trial("a_question_can_end_the_run", asking::a_question_can_end_the_run),
        trial("a_work_dir_that_cannot_be_had_is_an_error", asking::a_work_dir_that_cannot_be_had_is_an_error),
        trial("code_cannot_write_its_own_transcript", asking::code_cannot_write_its_own_transcript),
        trial("ctrl_c_ends_a_model_that_hangs", ending::ctrl_c_ends_a_model_that_hangs),
        trial("ctrl_c_ends_a_program_that_hangs", ending::ctrl_c_ends_a_program_that_hangs),
        trial("a_second_signal_kills", ending::a_second_signal_kills),
        trial("a_signal_that_is_to_be_ignored_is", ending::a_signal_that_is_to_be_ignored_is),
        trial("what_cannot_be_recorded_is_not_begun", recorded::what_cannot_be_recorded_is_not_begun),
        trial("a_run_goes_on_where_it_ended", recorded::a_run_goes_on_where_it_ended),
        trial("a_torn_transcript_goes_on_too", recorded::a_torn_transcript_goes_on_too),
        trial("a_replay_shows_what_was_shown", recorded::a_replay_shows_what_was_shown),
        trial("a_damaged_transcript_is_no_replay", recorded::a_damaged_transcript_is_no_replay),
        trial("no_escape_sequence_comes_through", hostile::no_escape_sequence_comes_through),
        trial("the_key_is_never_shown", hostile::the_key_is_never_shown),
        trial("a_healthy_host_is_ready", doctor::a_healthy_host_is_ready),
        trial("a_host_without_namespaces_is_not", doctor::a_host_without_namespaces_is_not),
        trial("the_endpoint_is_asked_if_wanted", doctor::the_endpoint_is_asked_if_wanted),
    ])
}

/// The command with nothing of the environment that it heeds.
fn agentkit<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    on_host(Command::new(AGENTKIT), arguments)
}

fn on_host<A: AsRef<OsStr>>(mut command: Command, arguments: impl IntoIterator<Item = A>) -> Command {
    command.args(arguments).stdin(Stdio::null());
    for name in
        ["OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "SSL_CERT_FILE", "NO_COLOR", "CLICOLOR_FORCE"]
    {
        command.env_remove(name);
    }
    command
}

/// `agentkit run` with this server.
fn run(server: &Server, arguments: &[&str]) -> Command {
    let mut command = agentkit(["run"]);
    command.args(arguments).env("OPENAI_BASE_URL", server.url()).env("OPENAI_MODEL", "some-model");
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn check_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}\n{}", stdout(output), stderr(output));
}

/// Sends a signal by its name.
fn signal(pid: u32, name: &str) -> Result<(), Stop> {
    assert!(Command::new("kill").args([format!("-{name}"), pid.to_string()]).status()?.success());
    Ok(())
}

/// The events of a transcript in which every line is whole.
fn events(transcript: &Path) -> Result<Vec<Value>, Stop> {
    let text = std::fs::read_to_string(transcript)?;
    assert!(text.ends_with('\n'), "{text}");
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Whether the conversation in a request has this text as the result of a call.
fn has_result(body: &Value, text: &str) -> bool {
    let messages = body["messages"].as_array().into_iter().flatten();
    let mut results = messages.filter(|message| message["role"] == "tool");
    results.any(|message| message["content"].as_str().is_some_and(|content| content.contains(text)))
}
