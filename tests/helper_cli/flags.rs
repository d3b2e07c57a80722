//! Everyday jobs by flags alone, one command each.

use super::judge::text;
use crate::jail::desk::Desk;
use crate::jail::stage::helper;
use crate::support::{Stop, listener::Listener, need::need, with_more_time};
use crate::tests;
use std::ffi::OsString;
use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

tests![
    the_examples_of_the_help,
    a_script_with_limits,
    a_project_is_built,
    a_directory_is_only_read,
    a_refusal_says_why,
    input_is_the_commands,
    changes_are_kept_apart,
    variables_are_chosen_one_by_one,
    a_command_can_be_called_like_a_flag,
    the_policy_that_is_printed_is_the_one_that_runs,
    a_policy_from_python,
    a_policy_from_node,
    every_profile_runs,
    networks_are_chosen,
    output_is_cut_and_counted
];

fn done(output: &Output) -> (i32, String) {
    (output.status.code().unwrap_or(-1), text(&output.stdout))
}

/// Everyday jobs as somebody does them who has read nothing else.
fn the_examples_of_the_help() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let help = text(&desk.call(&["--help"], b"")?.stdout);
    let examples: Vec<_> = help.lines().filter(|line| line.starts_with("    agentkit-jail ")).collect();
    assert_eq!(examples.len(), 5, "{help}");
    fs::create_dir_all(desk.path("home/data"))?;
    fs::write(desk.path("home/data/file"), "a word\n")?;
    fs::write(desk.path("work/script.py"), "print('by a script')\n")?;
    fs::write(desk.path("work/Makefile"), "all:\n\techo built >product; cat product\n")?;
    let expected = [("by a script", 0), ("by a script", 0), ("built", 0), ("a word", 0), ("", 3)];
    for (example, (printed, code)) in examples.into_iter().zip(expected) {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", example]).env("PATH", path_with_helper()?);
        let run = shell.env("HOME", desk.path("home")).current_dir(desk.path("work")).output()?;
        if run.status.code() == Some(127) && example.contains(" make ") {
            continue; // Not every host has one.
        }
        assert_eq!(run.status.code(), Some(code), "{example}: {run:?}");
        assert!(text(&run.stdout).contains(printed), "{example}: {run:?}");
    }
    assert_eq!(fs::read_to_string(desk.path("work/report.json"))?.lines().count(), 2);
    Ok(())
}

fn a_script_with_limits() -> Result<(), Stop> {
    let desk = Desk::new()?;
    with_more_time(Duration::from_millis(200), |time| {
        let wall = format!("{}ms", time.as_millis());
        let slow = desk.call(&["--wall", &wall, "sh", "-c", "echo before; exec sleep 1000"], b"")?;
        assert_eq!(slow.status.code(), Some(124), "{slow:?}");
        Ok((text(&slow.stdout) == "before\n").then_some(()))
    })?;
    let large = "dd if=/dev/zero of=/dev/shm/x bs=1M count=40 2>/dev/null; stat -c %s /dev/shm/x";
    let large = desk.call(&["--disk", "8M", "--file-size", "100M", "sh", "-c", large], b"")?;
    assert!(text(&large.stdout).trim().parse::<u64>().is_ok_and(|size| size < 9 << 20), "{large:?}");
    Ok(())
}

fn a_project_is_built() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let arguments = ["--profile", "workspace", "--workdir", ".", "sh", "-c", "pwd; nproc >product"];
    let built = desk.call(&arguments, b"")?;
    assert_eq!(done(&built), (0, format!("{}\n", desk.path("work").display())), "{built:?}");
    assert!(fs::read_to_string(desk.path("work/product"))?.trim().parse::<u64>().is_ok());
    Ok(())
}

fn a_directory_is_only_read() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir(desk.path("data"))?;
    fs::write(desk.path("data/file"), "content\n")?;
    let data = desk.path("data");
    let script = "cat \"$1/file\"; echo new 2>&1 >\"$1/file\" | grep -o 'Read-only'";
    let read = ["--ro", "../data", "sh", "-c", script, "-", data.to_str().unwrap_or_default()];
    let read = desk.call(&read, b"")?;
    assert!(text(&read.stdout).starts_with("content\n"), "{read:?}");
    assert_eq!(fs::read_to_string(desk.path("data/file"))?, "content\n");
    let without = desk.call(&["cat", desk.path("data/file").to_str().unwrap_or_default()], b"")?;
    assert_eq!(done(&without), (1, String::new()), "{without:?}");
    Ok(())
}

fn a_refusal_says_why() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for (arguments, why) in [
        (&["--strict", "--workdir", ".", "true"][..], "network_blocked"),
        (&["--wall", "0", "true"], "limits.wall_ms"),
        (&["--memory", "lots", "true"], "512M"),
        (&["--require", "all", "true"], "filesystem_confined"),
        (&["--profile", "none", "true"], "workspace"),
        (&["--workdir", "/nonexistent", "true"], "/nonexistent"),
        (&["--walls", "1", "true"], "unknown flag"),
        (&["--env", "NOT_SET_ANYWHERE", "true"], "is not set"),
        (&["--ro", "nonexistent", "true"], "does not exist"),
    ] {
        let refused = desk.call(arguments, b"")?;
        assert_eq!(done(&refused), (125, String::new()), "{arguments:?}: {refused:?}");
        let said = text(&refused.stderr);
        assert!(said.contains(why) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
    Ok(())
}

fn input_is_the_commands() -> Result<(), Stop> {
    let counted = Desk::new()?.call(&["wc", "-c"], b"twelve bytes")?;
    assert_eq!(done(&counted).1.trim(), "12", "{counted:?}");
    Ok(())
}

fn changes_are_kept_apart() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for (when, kept) in [("never", false), ("on_success", true)] {
        let arguments = ["--workdir", ".:overlay", "--commit", when, "sh", "-c", "echo new >made"];
        let run = desk.call(&arguments, b"")?;
        assert_eq!(done(&run), (0, String::new()), "{run:?}");
        assert_eq!(desk.path("work/made").exists(), kept, "{when}");
    }
    Ok(())
}

fn variables_are_chosen_one_by_one() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut command = Command::new(helper());
    command.env("TAKEN", "yes").env("LEFT", "secret").current_dir(desk.path("work"));
    command.args(["--env", "TAKEN", "--env", "MADE=a b", "sh", "-c", "echo $TAKEN $LEFT $MADE"]);
    assert_eq!(done(&command.output()?), (0, "yes a b\n".to_owned()));
    Ok(())
}

fn a_command_can_be_called_like_a_flag() -> Result<(), Stop> {
    let missing = Desk::new()?.call(&["--", "--bind", "/", "/"], b"")?;
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    assert!(text(&missing.stderr).contains("--bind"), "{missing:?}");
    Ok(())
}

fn the_policy_that_is_printed_is_the_one_that_runs() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let flags = ["--profile", "build", "--workdir", ".", "--env", "A=1", "--open-files", "77"];
    let command = ["sh", "-c", "echo $A; ulimit -n"];
    let printed = desk.call(&[&flags[..], &["--print-policy"], &command].concat(), b"")?;
    let by_flags = desk.call(&[&flags[..], &command].concat(), b"")?;
    let by_policy = desk.call(&[], &printed.stdout)?;
    assert!(by_flags.status.success() && text(&by_flags.stdout) == "1\n77\n", "{by_flags:?}");
    assert_eq!(done(&by_flags), done(&by_policy));
    Ok(())
}

fn a_policy_from_python() -> Result<(), Stop> {
    need("python")?;
    the_example_of_the_readme("python", &["python3", "-c"])
}

fn a_policy_from_node() -> Result<(), Stop> {
    let found = Command::new("node").arg("--version").output();
    found.map_err(|why| Stop::Skip(format!("no node here: {why}")))?;
    the_example_of_the_readme("js", &["node", "-e"])
}

fn the_example_of_the_readme(language: &str, interpreter: &[&str]) -> Result<(), Stop> {
    let readme = include_str!("../../README.md");
    let fenced = readme.split_once(&format!("```{language}\n")).and_then(|(_, rest)| rest.split_once("```"));
    let (example, _) = fenced.ok_or_else(|| Stop::Fail(format!("README.md has no example in {language}")))?;
    let desk = Desk::new()?;
    let mut command = Command::new(interpreter[0]);
    command
        .args(&interpreter[1..])
        .arg(example)
        .env("PATH", path_with_helper()?)
        .current_dir(desk.path("work"));
    let run = command.output()?;
    assert_eq!(done(&run), (0, "0 42\n".to_owned()), "{run:?}");
    Ok(())
}

fn path_with_helper() -> Result<OsString, Stop> {
    let own = helper().parent().unwrap_or(helper()).to_path_buf();
    let callers = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths([own].into_iter().chain(std::env::split_paths(&callers)))?)
}

fn every_profile_runs() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for profile in ["snippet", "workspace", "build", "strict"] {
        let run = desk.call(&["--profile", profile, "echo", profile], b"")?;
        assert_eq!(done(&run), (0, format!("{profile}\n")), "{run:?}");
    }
    Ok(())
}

/// Judged by the listener of the host.
fn networks_are_chosen() -> Result<(), Stop> {
    need("python")?;
    let desk = Desk::new()?;
    for (net, reached) in [("none", 0), ("loopback", 0), ("host", 1)] {
        let listener = Listener::start()?;
        let connect =
            format!("import socket; socket.create_connection(('127.0.0.1', {}))", listener.address().port());
        let run = desk.call(&["--net", net, "python3", "-c", &connect], b"")?;
        assert_eq!((listener.into_count()?, run.status.success()), (reached, reached == 1), "{net}: {run:?}");
    }
    let claimed = desk.call(&["--net", "host", "--require", "network_blocked", "true"], b"")?;
    assert_eq!(claimed.status.code(), Some(125), "{claimed:?}");
    assert!(text(&claimed.stderr).contains("shares the host's network"), "{claimed:?}");
    Ok(())
}

fn output_is_cut_and_counted() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script =
        "printf 1234567890; printf abcdef >&2; dd if=/dev/zero bs=1000 count=1000 2>/dev/null; exit 3";
    let run = desk.call(&["--output", "7", "sh", "-c", script], b"")?;
    assert_eq!(done(&run), (3, "1234567".to_owned()), "{run:?}");
    let said = text(&run.stderr);
    assert!(said.starts_with("abcdef") && said.contains("standard output: 1000003 bytes more"), "{said}");
    let whole = desk.call(&["--output", "6", "printf", "123456"], b"")?;
    assert_eq!((done(&whole), text(&whole.stderr)), ((0, "123456".to_owned()), String::new()));
    let one = desk.call_under(
        &["sh".into(), "-c".into(), "exec \"$0\" \"$@\" 2>&1".into()],
        &["--output", "3", "sh", "-c", "echo ab; echo cd >&2"],
        b"",
    )?;
    assert!(text(&one.stdout).starts_with("ab\nagentkit-jail: output is cut: "), "{one:?}");
    Ok(())
}
