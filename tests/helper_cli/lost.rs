//! Output and reports that cannot be written: nothing is lost without a word, and what is lost is no success.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::jail::stage::helper;
use crate::support::{PATIENCE, Stop, eventually};
use crate::tests;
use agentkit_protocol::{Event, Policy};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};

tests![
    output_to_a_full_device,
    output_over_the_callers_file_size_limit,
    a_report_to_a_full_device,
    an_answer_to_a_full_device,
    output_to_a_reader_that_has_seen_enough,
    a_report_that_nobody_reads,
    messages_that_nobody_reads,
    a_supervisor_that_cannot_go_on
];

const FULL: &str = "No space left on device";

/// What a shell script says that calls the helper, `$0`, with a policy, `$1`.
fn shell(desk: &Desk, script: &str, policy: &Policy) -> Result<Output, Stop> {
    fs::write(desk.path("policy"), json(policy)?)?;
    Ok(Command::new("sh").args(["-c", script]).arg(helper()).arg(desk.path("policy")).output()?)
}

fn line(message: &str) -> String {
    format!("agentkit-jail: {message}\n")
}

fn output_to_a_full_device() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let reported = |redirections: &str, script: &str| -> Result<_, Stop> {
        let report = desk.path("report").display().to_string();
        let script_of_caller = format!("\"$0\" --report-fd 3 <\"$1\" 3>'{report}' {redirections}");
        let output = shell(&desk, &script_of_caller, &desk.policy(&format!("{script}; echo x > ran")))?;
        assert!(desk.ran(), "{output:?}");
        let last = fs::read_to_string(report)?.lines().last().map(serde_json::from_str).transpose()?;
        let Some(Event::Ended(ended)) = last else { return Err(Stop::Fail(format!("{output:?}"))) };
        Ok((output.status.code(), text(&output.stderr), ended.unwritten))
    };
    let out = format!("standard output: {FULL}");
    let (code, said, lost) = reported(">/dev/full", "echo out; echo err >&2")?;
    assert_eq!((code, said), (Some(125), format!("err\n{}", line(&format!("output is lost: {out}")))));
    assert_eq!(lost, [out]);
    assert_eq!(
        reported("2>/dev/full", "echo err >&2")?,
        (Some(125), String::new(), vec![format!("standard error: {FULL}")])
    );
    let both = vec![format!("standard output and error: {FULL}")];
    assert_eq!(reported(">/dev/full 2>&1", "echo out")?, (Some(125), String::new(), both));
    // Nothing was to be written.
    assert_eq!(reported(">/dev/full", "true")?, (Some(0), String::new(), vec![]));
    // The command says more about itself than we could.
    let own = shell(&desk, "\"$0\" <\"$1\" >/dev/full", &desk.policy("echo out; exit 7"))?;
    assert_eq!(own.status.code(), Some(7));
    assert!(text(&own.stderr).contains(FULL), "{own:?}");
    Ok(())
}

fn output_over_the_callers_file_size_limit() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script = format!("ulimit -f 8; \"$0\" <\"$1\" >'{}'", desk.path("out").display());
    let output = shell(&desk, &script, &desk.policy("head -c 100000 /dev/zero; exit 0"))?;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(said.contains("output is lost: standard output: File too large"), "{said}");
    assert!((1..100_000).contains(&desk.path("out").metadata()?.len()));
    Ok(())
}

/// Once, although there is more than one line to write.
fn a_report_to_a_full_device() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for (policy, code) in [(desk.tracer(), 125), (desk.policy("echo x > ran; exit 7"), 7)] {
        let output = shell(&desk, "\"$0\" --report-fd 3 <\"$1\" 3>/dev/full", &policy)?;
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), desk.ran()), (Some(code), true), "{output:?}");
        assert!(said.starts_with(line("the report could not be written: ").trim_end()), "{said}");
        assert!(said.contains(FULL) && said.lines().count() == 1, "{said}");
    }
    Ok(())
}

fn an_answer_to_a_full_device() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for format in ["", "--json"] {
        let output = shell(&desk, &format!("\"$0\" --probe {format} >/dev/full"), &desk.tracer())?;
        assert_eq!(output.status.code(), Some(125));
        assert!(text(&output.stderr).contains(FULL), "{output:?}");
    }
    Ok(())
}

fn output_to_a_reader_that_has_seen_enough() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::write(desk.path("policy"), json(&desk.policy("head -c 1000000 /dev/zero; exit 0"))?)?;
    let (reader, writer) = std::io::pipe()?;
    let (ours, theirs) = UnixStream::pair()?;
    drop((reader, ours));
    for stdout in [Stdio::from(writer), Stdio::from(OwnedFd::from(theirs))] {
        let mut command = Command::new(helper());
        let output = command.stdin(fs::File::open(desk.path("policy"))?).stdout(stdout).output()?;
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    }
    Ok(())
}

/// What `script` ends with, where the report goes to a pipe that is full and that nobody reads, or the messages do.
fn unread(desk: &Desk, stuck: &str, policy: &Policy) -> Result<Output, Stop> {
    let (reader, mut writer) = std::io::pipe()?;
    // As much as a pipe takes by itself, see pipe(7).
    writer.write_all(&vec![b'x'; 64 << 10])?;
    fs::write(desk.path("policy"), json(policy)?)?;
    let report = desk.path("report").display().to_string();
    let script = match stuck {
        "report" => "\"$0\" --report-fd 3 3>&0 <\"$1\"".to_owned(),
        _ => format!("\"$0\" --report-fd 3 3>'{report}' 2>&0 <\"$1\""),
    };
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "sh", "-c", &script]).arg(helper()).arg(desk.path("policy"));
    let output = command.stdin(OwnedFd::from(writer)).output()?;
    drop(reader);
    Ok(output)
}

/// The limits are looked at by whom nobody may hold up.
fn a_report_that_nobody_reads() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let output = unread(&desk, "report", &desk.tracer())?;
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), desk.ran()), (Some(125), true), "{output:?}");
    assert_eq!(said, line("the report could not be written: nothing was read for 2 s"));

    let mut hog = desk.policy("exec head -c 1 /dev/zero | sh -c 'sleep 0.1; x=$(head -c 200000000 /dev/zero | tr \"\\0\" x); sleep 1000'");
    hog.limits.memory = 64 << 20;
    let output = unread(&desk, "report", &hog)?;
    assert_eq!(output.status.code(), Some(137), "{output:?}");
    assert!(text(&output.stderr).contains("at a memory limit of"), "{output:?}");

    let mut late = desk.policy("exec sleep 1000");
    late.limits.wall_ms = 300;
    let output = unread(&desk, "report", &late)?;
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    Ok(())
}

fn messages_that_nobody_reads() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut policy = desk.policy("exec sleep 1000");
    policy.limits.wall_ms = 300;
    let output = unread(&desk, "messages", &policy)?;
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    // It came first.
    assert!(fs::read_to_string(desk.path("report"))?.contains("{\"ended\":{\"ended_by\":\"wall_clock\""));
    Ok(())
}

/// Leaves a repository, and that it ran.
const PLANTS: &str =
    "mkdir -p new/.git/hooks; echo x > new/.git/hooks/post-checkout; echo x > ran; exec sleep 1000";

/// poll(2) refuses more descriptors than the process may have.
fn a_supervisor_that_cannot_go_on() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" --report-fd 3 3>&1"]).arg(helper());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(&json(&desk.policy(PLANTS))?).map_err(Stop::from))
        .transpose()?;
    let began = eventually("the command runs", PATIENCE, || desk.path("work/ran").exists());
    // It has heard of that, too.
    let mut report = child.stdout.take().map(BufReader::new).ok_or_else(|| Stop::Fail("no pipe".into()))?;
    let mut events = String::new();
    report.read_line(&mut events)?;
    let pid = child.id().to_string();
    // Only whoever has the same ids may do that, and root gives its own up.
    let meta = fs::metadata(format!("/proc/{pid}/stat"))?;
    let ids = [format!("--reuid={}", meta.uid()), format!("--regid={}", meta.gid())];
    let mut limit = Command::new("setpriv");
    limit.args(ids).args(["--keep-groups", "prlimit", "--pid", &pid, "--nofile=1:1"]);
    let broken = limit.status()?.success();
    let ended =
        eventually("the helper ends", PATIENCE, || child.try_wait().is_ok_and(|status| status.is_some()));
    child.kill()?;
    let output = child.wait_with_output()?;
    report.read_to_string(&mut events)?;
    assert!(began.is_ok() && broken && ended.is_ok(), "{events} {output:?}");
    let events: Vec<Event> = events.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let [Event::Started(_), Event::Failed(failure)] = &events[..] else {
        return Err(Stop::Fail(format!("{output:?}")));
    };
    assert_eq!((output.status.code(), &failure.step[..]), (Some(125), "supervise"));
    for said in [&failure.to_string(), &text(&output.stderr)] {
        assert!(said.contains("the command may have run, and everything in the jail was killed"), "{said}");
        // Nor can it open a directory any more.
        assert!(said.contains("not looked at: "), "{said}");
    }
    Ok(())
}
