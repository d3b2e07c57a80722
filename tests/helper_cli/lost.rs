//! Output and reports that cannot be written: nothing is lost without a word, and what is lost is no success.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::jail::stage::helper;
use crate::support::Stop;
use crate::tests;
use agentkit_protocol::{Event, Policy};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};

tests![
    output_to_a_full_device,
    output_over_the_callers_file_size_limit,
    a_report_to_a_full_device,
    an_answer_to_a_full_device,
    output_to_a_reader_that_has_seen_enough
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
