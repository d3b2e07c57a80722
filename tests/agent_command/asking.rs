//! Calls that change a directory of the user's.

use crate::server::{Server, calls, says};
use crate::support::need::need;
use crate::support::{PATIENCE, Stop, eventually, temp_dir};
use crate::terminal::Terminal;
use crate::{check_code, has_result, run, signal, stderr};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

/// A directory that a jail can be given: it would not see one in `/tmp` under the same path.
fn project() -> std::io::Result<TempDir> {
    let open = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("agentkit-test-").permissions(open).tempdir_in("/var/tmp")
}

fn plants(name: &str) -> Value {
    json!({ "script": format!("echo x > {name}") })
}

pub(crate) fn nobody_to_ask_means_no() -> Result<(), Stop> {
    need("userns")?;
    let project = project()?;
    let workdir = project.path().to_str().expect("UTF-8");
    let denied = Server::start(vec![calls("shell", &plants("planted")), says("done")])?;
    let output = run(&denied, &["--workdir", workdir, "plant"]).output()?;
    check_code(&output, 0);
    denied.body();
    assert!(has_result(&denied.body(), "nobody could be asked, since there is no terminal"));
    assert!(!project.path().join("planted").exists());
    let shown = stderr(&output);
    assert!(
        shown.contains(&format!("jail   | ready; work dir {workdir}, each call there is asked about\n")),
        "{shown}"
    );
    assert!(
        shown.contains("ask    | shell ") && shown.contains("answer | no: nobody could be asked"),
        "{shown}"
    );

    let allowed = Server::start(vec![calls("shell", &plants("planted")), says("done")])?;
    let output = run(&allowed, &["--workdir", workdir, "--yes", "plant"]).output()?;
    check_code(&output, 0);
    assert!(project.path().join("planted").exists(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("ask    | "), "{}", stderr(&output));
    Ok(())
}

pub(crate) fn a_terminal_is_asked() -> Result<(), Stop> {
    need("userns")?;
    let project = project()?;
    let workdir = project.path().to_str().expect("UTF-8");
    let server = Server::start(vec![
        calls("remember", &json!({"key": "a", "value": "b"})),
        calls("shell", &plants("one")),
        calls("shell", &plants("two")),
        calls("shell", &json!({"script": "echo \u{1b}[8m > three"})),
        calls("shell", &plants("four")),
        calls("shell", &json!({"script": "echo x > five\ntrue"})),
        says("done"),
    ])?;
    let mut terminal = Terminal::open()?;
    // Before anything was asked: no answer.
    terminal.type_in("yes\nyes\nyes\n")?;
    let mut command = run(&server, &["--workdir", workdir, "plant"]);
    let mut child =
        command.stdin(terminal.stdio()?).stderr(terminal.stdio()?).stdout(Stdio::piped()).spawn()?;
    for (n, answer) in ["no\n", "y\n", "not like that\n", "all\n"].into_iter().enumerate() {
        eventually("a question", PATIENCE, || terminal.text().matches("or why not: ").count() == n + 1)?;
        terminal.type_in(answer)?;
    }
    assert!(child.wait()?.success(), "{}", terminal.text());
    let made = ["one", "two", "three", "four", "five"].map(|name| project.path().join(name).exists());
    assert_eq!(made, [false, true, false, true, true], "{}", terminal.text());
    (0..2).for_each(|_| drop(server.body()));
    assert!(has_result(&server.body(), "the user said no"));
    (0..1).for_each(|_| drop(server.body()));
    assert!(has_result(&server.body(), "the user said no: not like that"));
    assert!(terminal.text().contains("script: echo \\u{1b}[8m > three"), "{}", terminal.text());
    Ok(())
}

pub(crate) fn a_question_can_end_the_run() -> Result<(), Stop> {
    need("userns")?;
    let project = project()?;
    let workdir = project.path().to_str().expect("UTF-8");
    // `\u{4}` is the end of input.
    for (answer, code) in [("stop\n", 40), ("\u{4}", 40), ("", 130)] {
        let mut terminal = Terminal::open()?;
        let server = Server::start(vec![calls("shell", &plants("planted"))])?;
        let mut command = run(&server, &["--workdir", workdir, "plant"]);
        command.env("NO_COLOR", "1");
        let child =
            command.stdin(terminal.stdio()?).stderr(terminal.stdio()?).stdout(Stdio::piped()).spawn()?;
        eventually("a question", PATIENCE, || terminal.text().contains("or why not: "))?;
        match answer {
            "" => signal(child.id(), "INT")?,
            answer => terminal.type_in(answer)?,
        }
        check_code(&child.wait_with_output()?, code);
        // What is said after the question stands on lines of its own.
        eventually("the end", PATIENCE, || terminal.text().contains("\nstop   | "))?;
        assert!(!project.path().join("planted").exists(), "{}", terminal.text());
    }
    Ok(())
}

pub(crate) fn a_work_dir_that_cannot_be_had_is_an_error() -> Result<(), Stop> {
    need("userns")?;
    let directory = temp_dir()?;
    let transcript = directory.path().join("run.jsonl");
    let server = Server::start(vec![says("never asked")])?;
    for workdir in ["/etc", "/proc", "/usr"] {
        let output = run(&server, &["x", "--workdir", workdir, "--transcript"]).arg(&transcript).output()?;
        check_code(&output, 1);
        let message = stderr(&output);
        assert!(
            message.starts_with(&format!("agentkit: --workdir {workdir}: code cannot work there: ")),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert!(!server.was_asked() && !transcript.exists());
    Ok(())
}

pub(crate) fn code_cannot_write_its_own_transcript() -> Result<(), Stop> {
    // Beside one another, wherever the temporary directory is.
    let (project, elsewhere) = (project()?, project()?);
    let workdir = project.path().to_str().expect("UTF-8");
    fs::create_dir(project.path().join("logs"))?;
    let link = elsewhere.path().join("link");
    symlink(project.path(), &link)?;
    let server = Server::start(vec![says("never asked")])?;
    let places = [
        Path::new("logs/../run.jsonl"),
        Path::new("run.jsonl"),
        &link.join("run.jsonl"),
        &link.join("logs/run.jsonl"),
    ];
    for place in places {
        let mut command = run(&server, &["x", "--workdir", workdir, "--transcript"]);
        let output = command.arg(place).current_dir(&project).output()?;
        check_code(&output, 2);
        assert!(
            stderr(&output).contains("lies in the work dir, where code could change it"),
            "{}",
            stderr(&output)
        );
    }
    fs::write(project.path().join("old.jsonl"), "")?;
    symlink(project.path().join("old.jsonl"), elsewhere.path().join("old.jsonl"))?;
    let mut command = run(&server, &["x", "--workdir", workdir, "--resume"]);
    check_code(&command.arg(elsewhere.path().join("old.jsonl")).output()?, 2);
    // What is elsewhere now, by a name that code could give to something else.
    fs::write(elsewhere.path().join("kept.jsonl"), "")?;
    symlink(elsewhere.path(), project.path().join("out"))?;
    symlink(elsewhere.path().join("kept.jsonl"), project.path().join("kept.jsonl"))?;
    for place in ["kept.jsonl", "out/kept.jsonl", "../nowhere/../out/kept.jsonl"] {
        let place = place.replace("../nowhere/..", &project.path().to_string_lossy());
        let mut command = run(&server, &["x", "--workdir", workdir, "--resume", &place]);
        check_code(&command.current_dir(&project).output()?, 2);
    }
    assert!(!server.was_asked());
    fs::write(project.path().join("beside.jsonl"), "")?;
    let mut command = run(&server, &["x", "--workdir", ".", "--resume", "../beside.jsonl"]);
    check_code(&command.current_dir(project.path().join("logs")).output()?, 0);
    Ok(())
}
