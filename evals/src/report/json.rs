//! Trials for programs. Everything but `volatile` is the same in two runs of the same model on the same machine.

use crate::metrics::Summary;
use crate::runner::Overrides;
use crate::task::Task;
use crate::trial::{Outcome, Trial};
use agentkit_client::Capabilities;
use serde_json::{Value, json};
use std::time::Duration;

/// The version of this format; it changes when a reader would have to.
pub const FORMAT: u32 = 1;

/// One run of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The model's name.
    pub model: &'a str,
    /// Bounds from the command line.
    pub overrides: Overrides,
    /// What the sandbox enforces here, if a selected task needs it.
    pub capabilities: Option<&'a Capabilities>,
    /// The trials, in the order of the table.
    pub trials: &'a [Trial],
    /// What they amount to.
    pub summary: &'a Summary,
    /// Wall-clock time of the whole run.
    pub elapsed: Duration,
}

/// The report as JSON, `volatile` last.
pub fn report(report: &Report<'_>) -> Value {
    let Report { model, overrides, capabilities, trials, summary, elapsed } = report;
    json!({
        "format": FORMAT,
        "model": model,
        "max_steps": overrides.max_steps,
        "wall_seconds": overrides.wall_seconds,
        "sandbox": capabilities,
        "tasks": trials.iter().map(task).collect::<Vec<_>>(),
        "summary": summary,
        "volatile": {
            "elapsed_us": micros(*elapsed),
            "tasks": trials.iter().map(volatile).collect::<Vec<_>>(),
        },
    })
}

fn task(trial: &Trial) -> Value {
    let Task { name, category, prompt, offers, bounds, .. } = trial.task;
    json!({
        "task": name,
        "category": category,
        "prompt": prompt,
        "offers": offers,
        "bounds": bounds,
        "outcome": outcome(trial.outcome),
        "failure_mode": trial.outcome.failure(),
        "detail": trial.detail,
        "passed_without_expected_tool": trial.unaided,
        "answer": trial.answer,
        "stop": trial.stop,
        "steps": trial.steps,
        "errors": trial.errors(),
        "calls": trial.calls,
        "evidence": trial.evidence,
    })
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) => "failed",
        Outcome::Skipped => "skipped",
        Outcome::Errored => "errored",
    }
}

fn volatile(trial: &Trial) -> Value {
    json!({
        "task": trial.task.name,
        "elapsed_us": micros(trial.elapsed),
        "tokens": trial.tokens,
        "measured": trial.evidence.as_ref().map(|evidence| evidence.measured),
        "results": trial.calls.iter().map(|call| &call.text).collect::<Vec<_>>(),
    })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
