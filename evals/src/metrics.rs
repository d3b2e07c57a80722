//! From trials to rates.

use crate::task::Category;
use crate::trial::{FailureMode, Outcome, Trial};
use serde::Serialize;
use std::collections::BTreeMap;

/// Standard normal quantile of a two-sided 95 % interval.
const Z: f64 = 1.959_963_984_540_054;

/// What a whole run amounts to.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Over every task.
    pub overall: Rate,
    /// By category; categories without a selected task are left out.
    pub by_category: BTreeMap<Category, Rate>,
    /// How often each failure mode occurred.
    pub failure_modes: BTreeMap<FailureMode, usize>,
    /// Tasks that passed although no expected tool carried the value.
    pub passed_without_expected_tool: Vec<&'static str>,
    /// Tasks that passed and are not in that list.
    pub clean_passes: usize,
    /// Tool calls of all tasks that ran.
    pub tool_calls: usize,
    /// Those that failed or were refused.
    pub tool_errors: usize,
    /// Calls by tasks that ran; `None` if none did.
    pub tool_calls_per_task: Option<f64>,
    /// Errors by calls (not by tasks); `None` if there was no call.
    pub tool_error_rate: Option<f64>,
}

/// Successes in a group of tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Tasks that passed.
    pub passed: usize,
    /// Tasks that passed or failed: the denominator of `of_judged`.
    pub judged: usize,
    /// Tasks that did not run for lack of a sandbox.
    pub skipped: usize,
    /// Tasks that could not be judged.
    pub errored: usize,
    /// Passed by judged; `None` if nothing was judged.
    pub of_judged: Option<f64>,
    /// The 95 % Wilson score interval of `of_judged`.
    pub interval: Option<(f64, f64)>,
    /// Passed by selected: skipped tasks and errors count as not passed.
    pub of_selected: Option<f64>,
}

impl Summary {
    /// Adds up `trials`.
    pub fn of(trials: &[Trial]) -> Self {
        let mut by_category: BTreeMap<Category, Vec<&Trial>> = BTreeMap::new();
        let mut failure_modes = BTreeMap::new();
        for trial in trials {
            by_category.entry(trial.task.category).or_default().push(trial);
            if let Some(mode) = trial.outcome.failure() {
                *failure_modes.entry(mode).or_default() += 1;
            }
        }
        let overall = Rate::of(trials.iter());
        let unaided: Vec<_> =
            trials.iter().filter(|trial| trial.unaided).map(|trial| trial.task.name).collect();
        let tool_calls = trials.iter().map(|trial| trial.calls.len()).sum();
        let tool_errors = trials.iter().map(Trial::errors).sum();
        Summary {
            by_category: by_category.into_iter().map(|(name, group)| (name, Rate::of(group))).collect(),
            failure_modes,
            clean_passes: overall.passed - unaided.len(),
            passed_without_expected_tool: unaided,
            tool_calls,
            tool_errors,
            tool_calls_per_task: ratio(tool_calls, trials.len() - overall.skipped),
            tool_error_rate: ratio(tool_errors, tool_calls),
            overall,
        }
    }
}

impl Rate {
    fn of<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Self {
        let mut rate = Rate::default();
        for trial in trials {
            match trial.outcome {
                Outcome::Passed => {
                    rate.passed += 1;
                    rate.judged += 1;
                }
                Outcome::Failed(_) => rate.judged += 1,
                Outcome::Skipped => rate.skipped += 1,
                Outcome::Errored => rate.errored += 1,
            }
        }
        rate.of_judged = ratio(rate.passed, rate.judged);
        rate.interval = wilson(rate.passed, rate.judged);
        rate.of_selected = ratio(rate.passed, rate.selected());
        rate
    }

    /// Tasks that were asked for.
    pub fn selected(&self) -> usize {
        self.judged + self.skipped + self.errored
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of tasks and calls are far below 2^52")]
fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The 95 % score interval of Wilson (1927) for `passed` successes in `n` trials: unlike the textbook interval it says
/// something honest for 12 of 12.
#[expect(clippy::cast_precision_loss, reason = "counts of tasks are far below 2^52")]
pub fn wilson(passed: usize, n: usize) -> Option<(f64, f64)> {
    let rate = ratio(passed, n)?;
    let n = n as f64;
    let centre = rate + Z * Z / (2.0 * n);
    let spread = Z * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Some((((centre - spread) / scale).max(0.0), ((centre + spread) / scale).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: Option<(f64, f64)>, b: (f64, f64)) -> bool {
        a.is_some_and(|a| (a.0 - b.0).abs() < 5e-4 && (a.1 - b.1).abs() < 5e-4)
    }

    #[test]
    fn intervals_match_published_values() {
        // R: prop.test(x, n, correct = FALSE)$conf.int
        assert!(near(wilson(12, 12), (0.7575, 1.0)));
        assert!(near(wilson(0, 12), (0.0, 0.2425)));
        assert!(near(wilson(5, 10), (0.2366, 0.7634)));
        assert!(near(wilson(81, 263), (0.2553, 0.3662)));
        assert_eq!(wilson(0, 0), None);
    }

    #[test]
    fn skipped_tasks_and_errors_stay_out_of_one_rate_and_in_the_other() {
        let outcomes =
            [Outcome::Passed, Outcome::Failed(FailureMode::NoAnswer), Outcome::Skipped, Outcome::Errored];
        let trials: Vec<Trial> = outcomes
            .into_iter()
            .zip(crate::tasks::all())
            .map(|(outcome, task)| Trial::unrun(task, outcome, String::new()))
            .collect();
        let summary = Summary::of(&trials);
        let rate = &summary.overall;
        assert_eq!((rate.passed, rate.judged, rate.skipped, rate.errored, rate.selected()), (1, 2, 1, 1, 4));
        assert_eq!((rate.of_judged, rate.of_selected), (Some(0.5), Some(0.25)));
        assert_eq!(summary.failure_modes, [(FailureMode::NoAnswer, 1)].into());
        assert_eq!((summary.tool_calls_per_task, summary.tool_error_rate), (Some(0.0), None));
    }
}
