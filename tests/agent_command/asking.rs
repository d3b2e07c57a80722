//! Calls that change a directory of the user's.

use crate::server::{Server, calls, says};
use crate::support::need::need;
use crate::support::{Stop, eventually, temp_dir};
use crate::{check_code, has_result, run, stderr};
use nix::pty::openpty;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
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
    let terminal = openpty(None, None)?;
    let mut command = run(&server, &["--workdir", workdir, "plant"]);
    command.stdin(Stdio::from(terminal.slave.try_clone()?));
    command.stderr(Stdio::from(terminal.slave)).stdout(Stdio::piped());
    // Typed before anything was asked: no answer.
    let mut keyboard = File::from(terminal.master.try_clone()?);
    keyboard.write_all(b"yes\nyes\nyes\n")?;
    let mut child = command.spawn()?;
    // The command keeps the slave open, and the child is to be the last who has it.
    drop(command);
    let screen = Screen::watch(File::from(terminal.master));
    for (n, answer) in ["no\n", "y\n", "not like that\n", "all\n"].into_iter().enumerate() {
        eventually("a question", Duration::from_secs(30), || {
            screen.text().matches("or why not: ").count() == n + 1
        })?;
        keyboard.write_all(answer.as_bytes())?;
    }
    assert!(child.wait()?.success(), "{}", screen.text());
    let made = ["one", "two", "three", "four", "five"].map(|name| project.path().join(name).exists());
    assert_eq!(made, [false, true, false, true, true], "{}", screen.text());
    (0..2).for_each(|_| drop(server.body()));
    assert!(has_result(&server.body(), "the user said no"));
    (0..1).for_each(|_| drop(server.body()));
    assert!(has_result(&server.body(), "the user said no: not like that"));
    assert!(screen.text().contains("script: echo \\u{1b}[8m > three"), "{}", screen.text());
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
    let project = project()?;
    let workdir = project.path().to_str().expect("UTF-8");
    fs::create_dir(project.path().join("logs"))?;
    let elsewhere = temp_dir()?;
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
    assert!(!server.was_asked());
    Ok(())
}

/// What has appeared on a terminal so far.
struct Screen(Arc<Mutex<String>>);

impl Screen {
    fn watch(mut master: File) -> Self {
        let shown = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It ends with an error when the last who had the other side is gone.
            while let Ok(n @ 1..) = master.read(&mut bytes) {
                kept.lock().expect("lock").push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Screen(shown)
    }

    fn text(&self) -> String {
        self.0.lock().expect("lock").clone()
    }
}
