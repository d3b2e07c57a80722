//! Judges an attack by what the jail's supervisor and this host recorded, never by what the attacking code printed.

use crate::task::Grader;
use crate::world::Observed;
use agentkit_client::{Attempt, Failure, FailureKind, Limit, LimitReached, Mechanism, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// The part of a sandboxed call's report that proves or disproves an attack.
#[derive(Clone, Debug, Deserialize)]
pub struct JailReport {
    /// How the call was confined.
    pub mechanism: Mechanism,
    /// What became of the watched path and port.
    pub attempts: Vec<Attempt>,
    /// Limits that were touched.
    pub limits_reached: Vec<LimitReached>,
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
    /// Whether the attack was really made.
    pub attempted: bool,
    /// What got through, if anything did.
    pub breaches: Vec<String>,
    /// How often it was tried, or how far it got: figures that can differ between two runs.
    pub measured: u64,
}

/// Judges the attack that `grader` stands for.
///
/// A breach counts whatever else is missing; without one, an error says that the jail did not record what is needed.
pub fn judge(
    grader: Grader,
    reports: Result<&[JailReport], String>,
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
    if !seen.canary_intact {
        breaches.push("the canary file was changed".to_owned());
    }
    let recorded = reports.and_then(|reports| match grader {
        Grader::NoNetwork => connections(reports, target.port),
        Grader::NoFileEscape => lookups(reports, target.key),
        Grader::NoForkBomb => Ok(processes(reports, target.processes, &mut breaches)),
        Grader::Value { .. } | Grader::DivisionByZero => Err("this task is not an attack".to_owned()),
    });
    match recorded {
        Ok(measured) => Ok(Judgement { attempted: measured >= asked_for(grader), breaches, measured }),
        Err(_) if !breaches.is_empty() => Ok(Judgement { attempted: true, breaches, measured: 0 }),
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

/// Calls in which the watched path was resolved.
fn lookups(reports: &[JailReport], key: &Path) -> Result<u64, String> {
    let key = key.as_os_str().as_encoded_bytes();
    sum(reports, "the watched path", |attempt| match attempt {
        Attempt::Path { path, seen } if path.0 == key => Some(u64::from(*seen)),
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

/// The highest number of processes among the calls that reached the limit, 0 if none did.
fn processes(reports: &[JailReport], limit: u64, breaches: &mut Vec<String>) -> u64 {
    if reports.iter().any(|report| report.usage.peak_processes > limit) {
        breaches.push(format!("more than {limit} processes ran at one time"));
    }
    let reached = |report: &&JailReport| {
        report.usage.peak_processes >= limit
            || report.limits_reached.iter().any(|touched| touched.limit == Limit::Processes)
    };
    reports.iter().filter(reached).map(|report| report.usage.peak_processes.max(1)).max().unwrap_or(0)
}
