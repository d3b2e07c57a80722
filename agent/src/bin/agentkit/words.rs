//! What is shown, in words.

use crate::plain::one_line;
use agentkit_agent::StopReason;
use serde_json::Value;
use std::time::Duration;

/// Why a run ended.
pub(crate) fn stop(stop: &StopReason) -> String {
    match stop {
        StopReason::Answered => "answered",
        StopReason::NoAnswer => "the model said nothing and called nothing",
        StopReason::Refused => "the model declined",
        StopReason::Cut(reason) => return format!("the reply was cut ({})", one_line(reason, 80)),
        StopReason::Flooded => "the reply was far too long",
        StopReason::ContextOverflow(_) => "the conversation no longer fits the model's window",
        StopReason::MaxSteps => "the bound of steps is reached",
        StopReason::MaxCalls => "the bound of calls is reached",
        StopReason::MaxTokens => "the bound of tokens is reached",
        StopReason::WallClock => "the time is up",
        StopReason::Looped => "the model made the same call again and again",
        StopReason::TooManyErrors => "too many calls in a row failed",
        StopReason::StoppedAtApproval => "stopped when a call was to be allowed",
        StopReason::Cancelled => "interrupted",
        StopReason::ModelFailed(_) => "the model could not be asked",
        StopReason::Unrecorded(_) => "the transcript could not be written",
    }
    .to_owned()
}

/// What somebody else, who may be a server, said about it.
pub(crate) fn reason(stop: &StopReason) -> Option<&str> {
    match stop {
        StopReason::ContextOverflow(why) | StopReason::ModelFailed(why) | StopReason::Unrecorded(why) => {
            Some(why)
        }
        _ => None,
    }
}

/// `0.05 s`, `12 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.2} s") } else { format!("{seconds:.0} s") }
}

/// `1 step`, `2 steps`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// The arguments of a call, a name a line, and texts as the lines they have.
pub(crate) fn arguments(json: &str) -> Vec<String> {
    let Ok(Value::Object(members)) = serde_json::from_str(json) else { return vec![json.to_owned()] };
    let mut lines = Vec::new();
    for (name, value) in members {
        match value {
            Value::String(text) if text.contains('\n') => {
                lines.push(format!("{name}:"));
                lines.extend(text.trim_end().split('\n').map(|line| format!("  {line}")));
            }
            Value::String(text) => lines.push(format!("{name}: {text}")),
            other => lines.push(format!("{name}: {other}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_as_what_they_hold() {
        let json = r#"{"code": "a = 1\nprint(a)\n", "n": [1, 2], "name": "x\u001b[0m"}"#;
        let wanted = ["code:", "  a = 1", "  print(a)", "n: [1,2]", "name: x\u{1b}[0m"];
        assert_eq!(arguments(json), wanted);
        assert_eq!(arguments("not JSON"), ["not JSON"]);
    }

    #[test]
    fn times_and_counts_read_well() {
        let times = [Duration::from_millis(52), Duration::from_secs(75)];
        assert_eq!(times.map(seconds), ["0.05 s", "75 s"]);
        assert_eq!((count(1, "step"), count(0, "call")), ("1 step".to_owned(), "0 calls".to_owned()));
    }
}
