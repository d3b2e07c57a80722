//! Trials for people: a table, one line a task, and a summary.

use super::escape::one_line;
use crate::metrics::{Rate, Summary};
use crate::trial::{Outcome, Trial};
use agentkit_client::{Capabilities, Level};
use std::fmt::Write;

/// Columns of the detail: with the others it makes a line of 120.
const DETAIL: usize = 62;
/// Columns of a text in the summary that somebody else chose.
const REASON: usize = 400;

/// The column heads.
pub fn header() -> String {
    format!(
        "{:<16}  {:<9}  {:<7}  {:>5}  {:>5}  {:>4}  detail",
        "task", "category", "result", "steps", "calls", "errs"
    )
}

/// One trial as one line, whatever a model put into it.
pub fn row(trial: &Trial) -> String {
    format!(
        "{:<16}  {:<9}  {:<7}  {:>5}  {:>5}  {:>4}  {}",
        trial.task.name,
        trial.task.category,
        trial.outcome.word(),
        trial.steps,
        trial.calls.len(),
        trial.errors(),
        one_line(&detail(trial), DETAIL)
    )
    .trim_end()
    .to_owned()
}

fn detail(trial: &Trial) -> String {
    match trial.outcome.failure() {
        Some(mode) if mode.as_str() != trial.detail => format!("{mode}: {}", trial.detail),
        _ => trial.detail.clone(),
    }
}

/// What the table amounts to.
pub fn summary(trials: &[Trial], summary: &Summary, capabilities: Option<&Capabilities>) -> String {
    let mut out = format!("passed {}\n", rate(&summary.overall));
    for (category, group) in &summary.by_category {
        let _ = writeln!(out, "  {category:<9} {}", rate(group));
    }
    let _ = writeln!(
        out,
        "of all {} selected: {}; clean passes: {}",
        summary.overall.selected(),
        percent(summary.overall.of_selected),
        summary.clean_passes
    );
    let _ = writeln!(out, "{}", calls(summary));
    let _ =
        writeln!(out, "passed without the expected tool: {}", list(&summary.passed_without_expected_tool));
    let modes: Vec<String> =
        summary.failure_modes.iter().map(|(mode, count)| format!("{mode} {count}")).collect();
    let _ = writeln!(out, "failure modes: {}", list(&modes));
    unjudged(&mut out, trials, Outcome::Skipped, "skipped");
    unjudged(&mut out, trials, Outcome::Errored, "not judged");
    if let Some(capabilities) = capabilities {
        let _ = writeln!(out, "{}", sandbox(capabilities));
    }
    out
}

fn rate(rate: &Rate) -> String {
    let interval = rate.interval.map_or_else(String::new, |(low, high)| {
        format!(", 95 % interval {} to {}", percent(Some(low)), percent(Some(high)))
    });
    format!("{}/{} judged, {}{interval}", rate.passed, rate.judged, percent(rate.of_judged))
}

fn percent(rate: Option<f64>) -> String {
    rate.map_or_else(|| "no rate".to_owned(), |rate| format!("{:.1} %", rate * 100.0))
}

fn calls(summary: &Summary) -> String {
    let mean = summary.tool_calls_per_task.map_or_else(|| "none".to_owned(), |mean| format!("{mean:.2}"));
    let (calls, errors) = (summary.tool_calls, summary.tool_errors);
    match summary.tool_error_rate {
        None => format!("tool calls per task: {mean}"),
        rate => {
            format!("tool calls per task: {mean}, {} of them errored ({errors} of {calls})", percent(rate))
        }
    }
}

fn list(items: &[impl AsRef<str>]) -> String {
    match items {
        [] => "none".to_owned(),
        items => items.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", "),
    }
}

/// Lists tasks that were not judged, once for each reason.
fn unjudged(out: &mut String, trials: &[Trial], outcome: Outcome, word: &str) {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for trial in trials.iter().filter(|trial| trial.outcome == outcome) {
        match by_reason.iter_mut().find(|(reason, _)| *reason == trial.detail) {
            Some((_, names)) => names.push(trial.task.name),
            None => by_reason.push((&trial.detail, vec![trial.task.name])),
        }
    }
    for (reason, names) in by_reason {
        let reason = one_line(reason, REASON);
        let _ =
            writeln!(out, "{word}, {} not in the rates above ({}): {reason}", names.len(), names.join(", "));
    }
}

/// The mechanism, and one line for each control that is less than full.
fn sandbox(capabilities: &Capabilities) -> String {
    let mechanism =
        capabilities.mechanism.map_or_else(|| "none".to_owned(), |mechanism| mechanism.to_string());
    let weaker: Vec<String> = capabilities
        .controls
        .iter()
        .filter(|(_, level)| **level != Level::Full)
        .map(|(control, level)| format!("\n  {}", one_line(&format!("{control} {level}"), REASON)))
        .collect();
    match (&capabilities.failure, weaker.as_slice()) {
        (Some(failure), _) => format!("sandbox: {mechanism}, {}", one_line(&failure.to_string(), REASON)),
        (None, []) => format!("sandbox: {mechanism}, every control is full"),
        (None, weaker) => format!("sandbox: {mechanism}, every control is full but{}", weaker.concat()),
    }
}
