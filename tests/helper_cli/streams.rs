//! What the helper reads and prints, and streams that are closed or abandoned.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::jail::stage::helper;
use crate::support::{Stop, eventually};
use crate::tests;
use agentkit_protocol::{Capabilities, Control, Event, Policy, frame};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

tests![
    help_and_version_are_printed,
    the_probe_is_a_table_or_json,
    a_policy_comes_as_json_or_as_a_frame,
    closed_streams,
    a_reader_that_went_away,
    a_reader_that_reads_nothing,
    another_writer_to_the_callers_pipe,
    nothing_to_read_on_standard_input,
    a_helper_by_another_name
];

fn help_and_version_are_printed() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let help = desk.call(&["--help"], b"")?;
    assert_eq!((help.status.code(), help.stderr.len()), (Some(0), 0));
    for flag in
        ["--report-fd", "--probe", "--json", "--client", "--help", "--version", "124", "125", "126", "127"]
    {
        assert!(text(&help.stdout).contains(flag), "{flag}");
    }
    let version = desk.call(&["--version"], b"")?;
    assert_eq!(text(&version.stdout), concat!("agentkit-jail ", env!("CARGO_PKG_VERSION"), "\n"));
    Ok(())
}

fn the_probe_is_a_table_or_json() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let table = desk.call(&["--probe"], b"")?;
    assert_eq!(table.status.code(), Some(0), "{table:?}");
    for control in Control::ALL {
        assert_eq!(text(&table.stdout).matches(control.name()).count(), 1, "{control}");
    }
    let answer = desk.call(&["--probe", "--json"], b"")?;
    let capabilities: Capabilities = serde_json::from_slice(&answer.stdout)?;
    assert_eq!((capabilities.controls.len(), capabilities.failure), (Control::ALL.len(), None));
    Ok(())
}

fn a_policy_comes_as_json_or_as_a_frame() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy = desk.tracer();
    for input in [json(&policy)?, frame::encode(&policy)?] {
        let run = desk.launch_after("", &input)?;
        assert!(matches!(run.events()?[..], [Event::Started(_), Event::Ended(_)]), "{run:?}");
        assert_eq!((run.status.code(), text(&run.stdout), run.stderr.len()), (Some(0), "ran\n".into(), 0));
        assert!(desk.ran());
    }
    Ok(())
}

fn closed_streams() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy =
        json(&Policy { argv: desk.policy("echo out; echo err >&2; echo x > ran").argv, ..desk.tracer() })?;
    fs::write(desk.path("policy"), &policy)?;
    let shell = |redirections: &str| -> Result<Output, Stop> {
        let script = format!("exec \"$0\" {redirections}");
        let policy = desk.path("policy");
        Ok(Command::new("sh")
            .args(["-c", &script])
            .arg(helper())
            .arg(policy)
            .stdin(Stdio::null())
            .output()?)
    };
    for (redirections, code, ran) in [
        ("<\"$1\"", 0, true),
        ("<\"$1\" >&-", 0, true),
        ("<\"$1\" 2>&-", 0, true),
        ("<\"$1\" >&- 2>&-", 0, true),
        ("<&-", 125, false),
        ("<&- >&- 2>&-", 125, false),
    ] {
        let output = shell(redirections)?;
        let done = desk.ran();
        // A shell whose echo fails goes on, and says nothing to nobody.
        assert_eq!((output.status.code(), done), (Some(code), ran), "{redirections}: {output:?}");
    }
    Ok(())
}

fn a_reader_that_went_away() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::write(desk.path("policy"), json(&desk.tracer())?)?;
    // The report goes to a pipe that nobody reads.
    let script = "\"$0\" --report-fd 3 <\"$1\" 3>&1 >/dev/null; echo $? >&2";
    let mut shell = Command::new("sh");
    let mut child = shell
        .args(["-c", script])
        .arg(helper())
        .arg(desk.path("policy"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(child.stdout.take());
    assert_eq!(text(&child.wait_with_output()?.stderr), "0\n");
    assert!(desk.ran());
    Ok(())
}

/// A caller that is stuck must not hold the jail, nor the helper, beyond the wall clock. A socket is not handed to the
/// command as it is: somebody has to copy, and can get stuck too.
fn a_reader_that_reads_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut policy = desk.policy("while echo flood flood flood flood flood flood flood; do :; done");
    policy.limits.wall_ms = 500;
    let input = json(&policy)?;
    let (reader, writer) = UnixStream::pair()?;
    let (pipe_reader, pipe_writer) = std::io::pipe()?;
    for stdout in [Stdio::from(OwnedFd::from(writer)), Stdio::from(pipe_writer)] {
        let mut command = Command::new(helper());
        let mut child = command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::null()).spawn()?;
        child.stdin.take().map(|mut stdin| stdin.write_all(&input)).transpose()?;
        drop(command);
        let ended = eventually("the helper ends", Duration::from_secs(10), || {
            child.try_wait().is_ok_and(|status| status.is_some())
        });
        // Whatever it was waiting for.
        child.kill()?;
        assert_eq!((ended.is_ok(), child.wait()?.code()), (true, Some(124)));
    }
    drop((reader, pipe_reader));
    Ok(())
}

/// Through its own output the command could take what other programs write to the same pipe.
fn another_writer_to_the_callers_pipe() -> Result<(), Stop> {
    const STEAL: &str = "exec 3>&1; timeout 1 cat /proc/self/fd/3 > stolen; true";
    let desk = Desk::new()?;
    let stolen = desk.path("work/stolen");
    let mut bare = Command::new("sh");
    bare.args(["-c", STEAL]).current_dir(desk.path("work"));
    let mut jailed = Command::new(helper());
    jailed.stdin(Stdio::piped());
    for (mut command, policy) in [(bare, None), (jailed, Some(json(&desk.policy(STEAL))?))] {
        let (mut reader, mut writer) = std::io::pipe()?;
        let mut child = command.stdout(writer.try_clone()?).spawn()?;
        drop(command);
        if let (Some(mut stdin), Some(policy)) = (child.stdin.take(), &policy) {
            stdin.write_all(policy)?;
        }
        // Only now, so that it is there for whoever opens the pipe.
        writer.write_all(b"of another program\n")?;
        assert!(child.wait()?.success());
        drop(writer);
        let mut passed_on = String::new();
        reader.read_to_string(&mut passed_on)?;
        let taken = fs::read_to_string(&stolen)?;
        fs::remove_file(&stolen)?;
        let heard = policy.is_none();
        assert_eq!(taken.contains("another"), heard, "taken: {taken:?}, passed on: {passed_on:?}");
        assert_eq!(passed_on.contains("another"), !heard);
    }
    Ok(())
}

fn nothing_to_read_on_standard_input() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let run = desk.launch(&desk.policy("cat; readlink /proc/self/fd/0"))?;
    assert_eq!((run.status.code(), text(&run.stdout)), (Some(0), "/dev/null\n".into()));
    Ok(())
}

fn a_helper_by_another_name() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy = json(&desk.tracer())?;
    symlink(helper(), desk.path("other name"))?;
    fs::copy(helper(), desk.path("copy"))?;
    // The kernel shows it as it is, in the files that the helper reads about itself.
    let no_text = OsStr::from_bytes(b"\xff) R 1");
    symlink(helper(), desk.path("work").with_file_name(no_text))?;
    for name in [OsStr::new("other name"), OsStr::new("copy"), no_text] {
        let mut command = Command::new(desk.path("work").with_file_name(name));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        child.stdin.take().map(|mut stdin| stdin.write_all(&policy)).transpose()?;
        assert!(child.wait()?.success() && desk.ran(), "{name:?}");
    }
    Ok(())
}
