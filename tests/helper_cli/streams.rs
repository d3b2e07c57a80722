//! What the helper reads and prints, and streams that are closed or abandoned.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::jail::stage::helper;
use crate::support::{PATIENCE, Stop, eventually, with_more_time, write_program};
use crate::tests;
use agentkit_protocol::{Capabilities, Control, Event, Policy, frame};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
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
    a_policy_on_another_descriptor,
    a_policy_descriptor_that_is_not_open,
    input_that_is_not_read,
    input_that_never_comes,
    write_to_the_callers_input,
    a_non_blocking_caller,
    a_helper_by_another_name
];

fn help_and_version_are_printed() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let help = desk.call(&["--help"], b"")?;
    assert_eq!((help.status.code(), help.stderr.len()), (Some(0), 0));
    for flag in [
        "--policy-fd",
        "--tty",
        "--report-fd",
        "--probe",
        "--json",
        "--client",
        "--help",
        "--version",
        "124",
        "125",
        "126",
        "127",
    ] {
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
    for by_pipe in [false, true] {
        // Before the command has said much, nothing is stuck.
        with_more_time(Duration::from_millis(500), |time| {
            policy.limits.wall_ms = time.as_millis() as u64;
            let (_reader, writer): (OwnedFd, OwnedFd) = match by_pipe {
                true => std::io::pipe().map(|(reader, writer)| (reader.into(), writer.into()))?,
                false => UnixStream::pair().map(|(reader, writer)| (reader.into(), writer.into()))?,
            };
            let said = ends_at_the_wall_clock(&json(&policy)?, writer)?;
            let is_told = said.contains("output is lost: standard output: it was not read for 2 s");
            assert!(is_told || said.is_empty(), "{said}");
            Ok(is_told.then_some(()))
        })?;
    }
    Ok(())
}

/// Returns what the helper says.
fn ends_at_the_wall_clock(policy: &[u8], stdout: OwnedFd) -> Result<String, Stop> {
    let mut command = Command::new(helper());
    let mut child = command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().map(|mut stdin| stdin.write_all(policy)).transpose()?;
    drop(command);
    let ended =
        eventually("the helper ends", PATIENCE, || child.try_wait().is_ok_and(|status| status.is_some()));
    // Whatever it was waiting for.
    child.kill()?;
    let output = child.wait_with_output()?;
    assert_eq!((ended.is_ok(), output.status.code()), (true, Some(124)));
    Ok(text(&output.stderr))
}

/// Through its own output the command could take what other programs write to the same pipe.
fn another_writer_to_the_callers_pipe() -> Result<(), Stop> {
    let desk = Desk::new()?;
    with_more_time(Duration::from_secs(1), |time| {
        let steal = format!("exec 3>&1; timeout {} cat /proc/self/fd/3 > stolen; true", time.as_secs());
        let mut bare = Command::new("sh");
        bare.args(["-c", &steal]).current_dir(desk.path("work"));
        let (taken, passed_on) = beside_another_writer(&desk, bare, None)?;
        if !taken.contains("another") {
            // Nobody came to it in that time.
            return Ok(None);
        }
        assert!(!passed_on.contains("another"), "taken: {taken:?}, passed on: {passed_on:?}");
        let mut jailed = Command::new(helper());
        jailed.stdin(Stdio::piped());
        let (taken, passed_on) = beside_another_writer(&desk, jailed, Some(&json(&desk.policy(&steal))?))?;
        assert!(
            !taken.contains("another") && passed_on.contains("another"),
            "taken: {taken:?}, passed on: {passed_on:?}"
        );
        Ok(Some(()))
    })
}

/// What was stolen, and what was left for the reader.
fn beside_another_writer(
    desk: &Desk,
    mut command: Command,
    policy: Option<&[u8]>,
) -> Result<(String, String), Stop> {
    let (mut reader, mut writer) = std::io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).spawn()?;
    drop(command);
    if let (Some(mut stdin), Some(policy)) = (child.stdin.take(), policy) {
        stdin.write_all(policy)?;
    }
    // Only now, so that it is there for whoever opens the pipe.
    writer.write_all(b"of another program\n")?;
    assert!(child.wait()?.success());
    drop(writer);
    let mut passed_on = String::new();
    reader.read_to_string(&mut passed_on)?;
    let stolen = desk.path("work/stolen");
    let taken = fs::read_to_string(&stolen)?;
    fs::remove_file(&stolen)?;
    Ok((taken, passed_on))
}

fn nothing_to_read_on_standard_input() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let run = desk.launch(&desk.policy("cat; readlink /proc/self/fd/0"))?;
    assert_eq!((run.status.code(), text(&run.stdout)), (Some(0), "/dev/null\n".into()));
    Ok(())
}

/// A helper that reads its policy from another descriptor, and whose standard input is the command's.
fn with_input(desk: &Desk, policy: &Policy) -> Result<Command, Stop> {
    fs::write(desk.path("policy"), json(policy)?)?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" --policy-fd 4 4<\"$1\""]).arg(helper()).arg(desk.path("policy"));
    Ok(command)
}

fn a_policy_on_another_descriptor() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::write(desk.path("input"), "one\ntwo\n")?;
    let pipe = || -> Result<Stdio, Stop> {
        let (reader, mut writer) = std::io::pipe()?;
        writer.write_all(b"one\ntwo\n")?;
        Ok(reader.into())
    };
    let socket = || -> Result<Stdio, Stop> {
        let (ours, theirs) = UnixStream::pair()?;
        (&ours).write_all(b"one\ntwo\n")?;
        Ok(OwnedFd::from(theirs).into())
    };
    let file = || -> Result<Stdio, Stop> { Ok(fs::File::open(desk.path("input"))?.into()) };
    let policy = desk.policy("cat; ls -l /proc/self/fd/4 2>/dev/null; true");
    for stdin in [file()?, pipe()?, socket()?] {
        let output = with_input(&desk, &policy)?.stdin(stdin).output()?;
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "one\ntwo\n".into()));
    }
    let output =
        with_input(&desk, &desk.policy("cat; readlink /proc/self/fd/0"))?.stdin(Stdio::null()).output()?;
    assert_eq!(text(&output.stdout), "/dev/null\n");
    Ok(())
}

fn a_policy_descriptor_that_is_not_open() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let output = desk.call(&["--policy-fd", "77"], b"")?;
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("--policy-fd 77"), "{output:?}");
    Ok(())
}

/// More than all buffers on the way hold.
fn input_that_is_not_read() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut child =
        with_input(&desk, &desk.policy("head -c 3"))?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // Fails when the last reader has gone.
        let written = stdin.write_all(&vec![b'x'; 10 << 20]);
        assert_eq!(written.map_err(|error| error.kind()), Err(std::io::ErrorKind::BrokenPipe));
    }
    let output = child.wait_with_output()?;
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "xxx".into()));
    Ok(())
}

/// The copier waits for it until the helper ends it.
fn input_that_never_comes() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut child = with_input(&desk, &desk.tracer())?.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    // `wait` would close it.
    let stdin = child.stdin.take();
    assert!(child.wait()?.success() && desk.ran());
    drop(stdin);
    Ok(())
}

/// What is only to be read can be opened again to be written: a file, or a pipe from which others go on reading. A
/// socket carries both ways from the start.
fn write_to_the_callers_input() -> Result<(), Stop> {
    const PLANT: &str = "echo planted 1<>/proc/self/fd/0; echo planted >&0; true";
    let desk = Desk::new()?;
    let file = desk.path("input");
    let mut bare = Command::new("sh");
    bare.args(["-c", PLANT]);
    let jailed = with_input(&desk, &desk.policy(PLANT))?;
    for (mut command, holds) in [(bare, true), (jailed, false)] {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        fs::write(&file, "original\n")?;
        command.stdin(fs::File::open(&file)?).status()?;
        assert_eq!(fs::read_to_string(&file)?.contains("planted"), holds);
        let (mut reader, writer) = std::io::pipe()?;
        command.stdin(reader.try_clone()?).status()?;
        drop(writer);
        let (ours, theirs) = UnixStream::pair()?;
        command.stdin(OwnedFd::from(theirs)).status()?;
        // The last copies of the other ends.
        drop(command);
        let mut found = String::new();
        reader.read_to_string(&mut found)?;
        assert_eq!(found.contains("planted"), holds, "pipe: {found:?}");
        found.clear();
        (&ours).read_to_string(&mut found)?;
        assert_eq!(found.contains("planted"), holds, "socket: {found:?}");
    }
    Ok(())
}

/// Whoever shares a stream with the helper may have made it non-blocking: nothing is lost, in either direction.
fn a_non_blocking_caller() -> Result<(), Stop> {
    const LENGTH: usize = 1 << 20;
    let desk = Desk::new()?;
    let (input, mut feeder) = std::io::pipe()?;
    let (mut reader, output) = std::io::pipe()?;
    for fd in [input.as_fd(), output.as_fd()] {
        fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let mut command = with_input(&desk, &desk.policy("cat"))?;
    let mut child = command.stdin(input).stdout(output).spawn()?;
    drop(command);
    let feeding = std::thread::spawn(move || feeder.write_all(&vec![b'x'; LENGTH]));
    let mut got = Vec::new();
    reader.read_to_end(&mut got)?;
    assert!(child.wait()?.success() && feeding.join().is_ok_and(|fed| fed.is_ok()));
    assert_eq!(got.len(), LENGTH);
    Ok(())
}

fn a_helper_by_another_name() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy = json(&desk.tracer())?;
    symlink(helper(), desk.path("other name"))?;
    write_program(&desk.path("copy"), &fs::read(helper())?)?;
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
