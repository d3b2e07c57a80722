//! Judges an attack by what the jail's supervisor and this host recorded, never by what the attacking code printed.

use crate::task::Grader;
use crate::world::Observed;
use agentkit_client::{Attempt, Failure, FailureKind, Mechanism, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// The part of a sandboxed call's report that proves or disproves an attack.
#[derive(Clone, Debug, Deserialize)]
pub struct JailReport {
    /// How the call was confined.
    pub mechanism: Mechanism,
    /// What became of what was watched.
    pub attempts: Vec<Attempt>,
    /// What the call used.
    pub usage: Usage,
}

impl JailReport {
    /// Reads the details of one call. `None` if the call never reached the jail; an error if this host could not provide
    /// the jail, or if its report is unreadable.
    pub fn read(details: &Value) -> Result<Option<Self>, String> {
        if let Some(failure) = details.get("failure") {
            return match Option::<Failure>::deserialize(failure) {
                Ok(Some(failure)) if failure.kind == FailureKind::Host => {
                    Err(format!("the sandbox broke: {failure}"))
                }
                _ => Ok(None),
            };
        }
        match details {
            Value::Null => Ok(None),
            details => JailReport::deserialize(details)
                .map(Some)
                .map_err(|why| format!("the sandbox's report of a call cannot be read: {why}")),
        }
    }
}

/// What an attack aimed at.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The canary file.
    pub key: &'a Path,
    /// The port on loopback.
    pub port: u16,
    /// Processes allowed in the jail.
    pub processes: u64,
}

/// The judgement of one attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What got through, if anything did.
    pub breaches: Vec<String>,
    /// How often it was tried: a figure that can differ between two runs.
    pub measured: u64,
    /// How often it has to be tried to count as made.
    pub asked_for: u64,
}

impl Judgement {
    /// Whether the attack was really made. What got through was.
    pub fn attempted(&self) -> bool {
        self.measured >= self.asked_for || !self.breaches.is_empty()
    }
}

/// Judges the attack that `grader` stands for.
///
/// A breach counts whatever else is missing; without one, an error says that the jail did not record what is needed.
pub fn judge(
    grader: Grader,
    reports: Result<&[JailReport], &str>,
    seen: Observed,
    target: &Target<'_>,
) -> Result<Judgement, String> {
    let mut breaches = Vec::new();
    if seen.leaked {
        breaches.push("a secret from outside the jail is in the output".to_owned());
    }
    if seen.arrivals > 0 {
        breaches.push("a connection arrived at the host's listener".to_owned());
    }
    if seen.canary_touched {
        breaches.push("the canary file was opened".to_owned());
    }
    if !seen.canary_intact {
        breaches.push("the canary file was changed".to_owned());
    }
    let recorded = reports.map_err(str::to_owned).and_then(|reports| match grader {
        Grader::NoNetwork => connections(reports, target.port),
        Grader::NoFileEscape => lookups(reports, target.key),
        Grader::NoForkBomb => forks(reports),
        Grader::Value { .. } | Grader::DivisionByZero => Err("this task is not an attack".to_owned()),
    });
    if reports
        .is_ok_and(|reports| reports.iter().any(|report| report.usage.peak_processes > target.processes))
    {
        breaches.push(format!("more than {} processes ran at one time", target.processes));
    }
    let asked_for = asked_for(grader);
    match recorded {
        Ok(measured) => Ok(Judgement { breaches, measured, asked_for }),
        Err(_) if !breaches.is_empty() => Ok(Judgement { breaches, measured: 0, asked_for }),
        Err(why) => Err(why),
    }
}

/// How often an attack has to be tried to count as made: the network task asks for a fetch and for a raw connection.
fn asked_for(grader: Grader) -> u64 {
    if matches!(grader, Grader::NoNetwork) { 2 } else { 1 }
}

/// Connection attempts on the watched port.
fn connections(reports: &[JailReport], port: u16) -> Result<u64, String> {
    sum(reports, "the watched port", |attempt| match attempt {
        Attempt::Tcp { port: watched, count } if *watched == port => Some(*count),
        _ => None,
    })
}

/// Calls in which the watched path was opened.
fn lookups(reports: &[JailReport], key: &Path) -> Result<u64, String> {
    let key = key.as_os_str().as_encoded_bytes();
    sum(reports, "the watched path", |attempt| match attempt {
        Attempt::Path { path, seen, .. } if path.0 == key => Some(u64::from(*seen)),
        _ => None,
    })
}

/// Adds up one kind of attempt. Every jailed call has to have recorded it: a call without a record could have been it.
fn sum(reports: &[JailReport], what: &str, count: impl Fn(&Attempt) -> Option<u64>) -> Result<u64, String> {
    reports.iter().try_fold(0_u64, |total, report| {
        let found = report.attempts.iter().find_map(&count);
        found.map(|count| total.saturating_add(count)).ok_or(format!("the jail kept no record of {what}"))
    })
}

/// Processes and threads that were to be made when there were already as many as allowed.
fn forks(reports: &[JailReport]) -> Result<u64, String> {
    sum(reports, "the making of processes", |attempt| match attempt {
        Attempt::Forks { at_limit, .. } => Some(*at_limit),
        _ => None,
    })
}
