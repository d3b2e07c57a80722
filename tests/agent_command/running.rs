//! What comes of a run.

use crate::server::{Answer, Server, calls, says, status, streams};
use crate::support::need::need;
use crate::support::seccomp::without_user_namespaces;
use crate::support::{PATIENCE, Stop, eventually, temp_dir};
use crate::terminal::Terminal;
use crate::{AGENTKIT, agentkit, check_code, has_result, on_host, run, stderr, stdout};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

pub(crate) fn the_answer_is_alone_on_stdout() -> Result<(), Stop> {
    let server =
        Server::start(vec![calls("calculator", &json!({"expression": "6 * 7"})), says("It is 42.")])?;
    let output = run(&server, &["What is 6 times 7?", "--system", "Be brief."]).output()?;
    check_code(&output, 0);
    assert_eq!(stdout(&output), "It is 42.\n");
    let first = server.body();
    assert_eq!(first["model"], "some-model");
    assert_eq!(first["messages"][0]["content"], "Be brief.");
    assert_eq!(first["messages"][1]["content"], "What is 6 times 7?");
    assert!(has_result(&server.body(), "42"));
    let shown = stderr(&output);
    for line in [
        "run    | model some-model; tools python, shell, calculator, remember, recall",
        "system | Be brief.",
        "user   | What is 6 times 7?",
        "step   | 1",
        r#"call   | calculator {"expression":"6 * 7"}"#,
        "text   | It is 42.",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "no `{line}` in\n{shown}");
    }
    assert!(
        shown.lines().any(|line| line.starts_with("result | calculator, ") && line.ends_with(": 42")),
        "{shown}"
    );
    assert_eq!(shown.matches("call   | ").count(), 1, "{shown}");
    let last = shown.lines().next_back().unwrap_or_default();
    assert!(last.starts_with("stop   | answered: 2 steps, 1 call, 200 tokens, "), "{shown}");
    assert!(!shown.contains('\u{1b}'), "colour without a terminal: {shown}");
    Ok(())
}

pub(crate) fn code_runs_in_the_sandbox() -> Result<(), Stop> {
    need("userns")?;
    need("python")?;
    let code = "import os, socket\nprint(sorted(os.listdir('.')), os.environ.get('OPENAI_API_KEY'))";
    let server = Server::start(vec![calls("python", &json!({ "code": code })), says("done")])?;
    let output = run(&server, &["look around"]).env("OPENAI_API_KEY", crate::KEY).output()?;
    check_code(&output, 0);
    server.body();
    let second = server.body();
    assert!(has_result(&second, "[] None"), "{second}");
    assert!(stderr(&output).contains("jail   | ready; "), "{}", stderr(&output));
    Ok(())
}

pub(crate) fn a_dry_run_changes_nothing() -> Result<(), Stop> {
    let directory = temp_dir()?;
    let server = Server::start(vec![calls("shell", &json!({"script": "touch planted"})), says("done")])?;
    let workdir = directory.path().to_str().expect("UTF-8");
    let output = run(&server, &["--dry-run", "--yes", "--workdir", workdir, "change something"]).output()?;
    check_code(&output, 0);
    server.body();
    assert!(has_result(&server.body(), "dry run"));
    assert_eq!(std::fs::read_dir(&directory)?.count(), 0);
    let shown = stderr(&output);
    assert!(shown.contains("a dry run: nothing is changed") && !shown.contains("asked about"), "{shown}");
    Ok(())
}

pub(crate) fn events_are_json_lines() -> Result<(), Stop> {
    let server =
        Server::start(vec![calls("calculator", &json!({"expression": "1+1"})), says("\u{1b}[1m2\u{9b}")])?;
    let output = run(&server, &["--json", "add"]).output()?;
    check_code(&output, 0);
    let text = stdout(&output);
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let names: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    let wanted = [
        "run_started",
        "step_started",
        "replied",
        "tool_started",
        "tool_finished",
        "step_started",
        "replied",
        "stopped",
    ];
    assert_eq!(names, wanted);
    assert_eq!(lines.last().map(|last| &last["answer"]), Some(&json!("\u{1b}[1m2\u{9b}")));
    assert!(!text.contains(['\u{1b}', '\u{9b}']));
    Ok(())
}

pub(crate) fn streamed_text_is_shown_once() -> Result<(), Stop> {
    let server = Server::start(vec![streams(&["One.\nT", "wo", " and three."])])?;
    let output = run(&server, &["count"]).output()?;
    check_code(&output, 0);
    assert_eq!(stdout(&output), "One.\nTwo and three.\n");
    let shown = stderr(&output);
    assert!(shown.contains("text   | One.\n       | Two and three.\nreply  | "), "{shown}");
    assert_eq!(shown.matches("Two and three.").count(), 1, "{shown}");
    assert_eq!(server.body()["stream"], true);
    Ok(())
}

pub(crate) fn calls_in_words_are_run_if_wanted() -> Result<(), Stop> {
    let call = "Let me see.\n\n```call calculator\n{\"expression\": \"6 * 7\"}\n```\n";
    let server = Server::start(vec![streams(&[call]), says("It is 42."), says(call)])?;
    let output = run(&server, &["--text-tools", "add"]).output()?;
    check_code(&output, 0);
    assert_eq!(stdout(&output), "It is 42.\n");
    assert_eq!(stderr(&output).matches("Let me see.").count(), 1, "{}", stderr(&output));
    let (first, second) = (server.body(), server.body());
    assert!(first["tools"].is_null() && second.to_string().contains("42"), "{second}");
    let output = run(&server, &["--no-stream", "add"]).output()?;
    check_code(&output, 0);
    assert_eq!(stdout(&output), call);
    assert_ne!(server.body()["stream"], true);
    Ok(())
}

pub(crate) fn a_terminal_shows_the_answer_once() -> Result<(), Stop> {
    for (colour, variable) in [(true, "UNUSED"), (false, "NO_COLOR")] {
        for answer in [streams(&["In pie", "ces."]), says("In pieces.")] {
            let terminal = Terminal::open()?;
            let server = Server::start(vec![answer])?;
            let mut command = run(&server, &["count"]);
            command
                .env("TERM", "xterm")
                .env(variable, "1")
                .stdout(terminal.stdio()?)
                .stderr(terminal.stdio()?);
            assert!(command.spawn()?.wait()?.success(), "{}", terminal.text());
            eventually("the last line", PATIENCE, || terminal.text().contains(" 1 step, "))?;
            let text = terminal.text();
            assert_eq!(text.matches("In pieces.").count(), 1, "{text}");
            assert_eq!(text.contains('\u{1b}'), colour, "{text}");
        }
    }
    Ok(())
}

pub(crate) fn each_end_has_its_exit_code() -> Result<(), Stop> {
    let call = || calls("calculator", &json!({"expression": "1+1"}));
    let four_times: fn() -> Vec<Answer> =
        || (0..4).map(|_| calls("calculator", &json!({"expression": "1+1"}))).collect();
    let refusal = r#"{"choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]}"#;
    let cut = r#"{"choices":[{"message":{"content":"half of"},"finish_reason":"length"}]}"#;
    let json = |body| status("200 OK", "application/json", body);
    let cases = [
        (vec![call()], &["--max-steps", "1"][..], 10, "the bound of steps is reached"),
        (vec![call(), call()], &["--max-tokens", "50"], 12, "the bound of tokens is reached"),
        (vec![Answer::Never], &["--wall", "300ms"], 13, "the time is up"),
        (four_times(), &[], 14, "the same call again and again"),
        (vec![says("")], &[], 20, "said nothing"),
        (vec![json(refusal)], &[], 21, "declined"),
        (vec![json(cut)], &[], 22, "cut (length)"),
        (vec![status("400 Bad Request", "text/plain", "no such model")], &[], 30, "no such model"),
    ];
    for (answers, arguments, code, words) in cases {
        let server = Server::start(answers)?;
        let output = run(&server, arguments).arg("x").output()?;
        check_code(&output, code);
        let shown = stderr(&output);
        let (_, last) = shown.rsplit_once("\nstop   | ").unwrap_or_default();
        assert!(last.contains(words), "{words} is not in\n{shown}");
    }
    Ok(())
}

pub(crate) fn without_a_sandbox_no_code_runs() -> Result<(), Stop> {
    need("seccomp")?;
    need("python")?;
    let directory = temp_dir()?;
    let path = directory.path().join("planted");
    let script = json!({ "script": format!("touch {}", path.display()) });
    let server = Server::start(vec![calls("shell", &script), says("done")])?;
    let words = without_user_namespaces();
    let mut host = Command::new(&words[0]);
    host.args(&words[1..]).arg(AGENTKIT);
    let arguments = ["run", "plant", "--model", "m", "--base-url", &server.url()];
    let output = on_host(host, arguments).output()?;
    check_code(&output, 0);
    server.body();
    assert!(has_result(&server.body(), "refused: code only runs in a sandbox, and this host has none: "));
    let shown = stderr(&output);
    assert!(shown.starts_with("jail   | none on this host, so python and shell are refused"), "{shown}");
    assert!(!path.exists());
    Ok(())
}

pub(crate) fn mistakes_exit_with_2_and_one_line() -> Result<(), Stop> {
    let server = Server::start(vec![says("never asked")])?;
    let url = server.url();
    let cases: [(&[&str], &str); 14] = [
        (&[], "run, doctor, replay"),
        (&["run"], "(see `agentkit run --help`)"),
        (&["run", "x", "--nosuch"], "unexpected argument '--nosuch'"),
        (&["run", "x", "--max-steps", "0"], "must be at least 1"),
        (&["run", "x", "--wall", "soon"], "must be a time such as 90s"),
        (&["run", "x", "--base-url", &url], "no model: name one with --model or OPENAI_MODEL"),
        (&["run", "x", "--model", "m"], "no endpoint: name a server with --base-url"),
        (&["run", "x", "--model", "m", "--base-url", "ftp://x"], "the base URL cannot be used"),
        (&["run", "", "--model", "m", "--base-url", &url], "the prompt is empty"),
        (&["run", "-", "--model", "m", "--base-url", &url], "the prompt is empty"),
        (
            &["run", "x", "--model", "m", "--base-url", &url, "--workdir", "/nonexistent"],
            "name a directory that exists",
        ),
        (&["run", "x", "--model", "m", "--base-url", &url, "--workdir", "/dev/null"], "it is no directory"),
        (&["run", "x", "--key", "sk-1"], "unexpected argument '--key'"),
        (&["replay"], "<FILE>"),
    ];
    for (arguments, words) in cases {
        let output = agentkit(arguments).output()?;
        check_code(&output, 2);
        let message = stderr(&output);
        assert!(message.starts_with("agentkit: ") && message.contains(words), "{arguments:?}: {message}");
        assert_eq!((message.lines().count(), output.stdout.len()), (1, 0), "{message}");
    }
    assert!(!server.was_asked());
    Ok(())
}

pub(crate) fn a_prompt_comes_from_standard_input_too() -> Result<(), Stop> {
    let server = Server::start(vec![says("yes")])?;
    let mut command = run(&server, &["-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().expect("a pipe").write_all(b"Two\nlines\n")?;
    check_code(&child.wait_with_output()?, 0);
    assert_eq!(server.body()["messages"][0]["content"], "Two\nlines\n");
    Ok(())
}
