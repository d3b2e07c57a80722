//! What several suites ask of a refusal.

use crate::jail::desk::Desk;
use crate::jail::run::Run;
use crate::support::Stop;
use agentkit_protocol::FailureKind;
use std::process::Output;

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The code, one line on standard error, one event, and no trace of the command.
pub(crate) fn refused(desk: &Desk, run: &Run, code: i32) -> Result<FailureKind, Stop> {
    let failure = run.failure()?;
    assert_eq!(run.status.code(), Some(code), "{run:?}");
    assert_eq!(
        text(&run.stderr),
        format!("agentkit-jail: {failure}\n").replace(|c: char| c.is_control() && c != '\n', " ")
    );
    assert!(run.stdout.is_empty() && !desk.ran(), "something ran: {run:?}");
    Ok(failure.kind)
}

pub(crate) fn one_line_and_125(desk: &Desk, output: &Output) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(message.starts_with("agentkit-jail: ") && message.lines().count() == 1, "{message:?}");
    assert!(output.stdout.is_empty() && !desk.ran(), "something ran: {output:?}");
}
