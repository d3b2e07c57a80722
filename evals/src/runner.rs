//! Runs one task: sets up its targets, lets the model act, collects the evidence, judges.

use crate::check::evidence::{Target, judge};
use crate::judge::{Verdict, jail_reports, judge_answer, judge_attack};
use crate::task::{Category, Task};
use crate::toolbox::Toolbox;
use crate::trial::{CallView, Outcome, Trial};
use crate::world::{World, WorldError};
use agentkit_agent::{Agent, Bounds, CallRecord, Model, StopReason, Trajectory};
use std::time::Duration;

/// Where a run gets its model from.
pub trait Models {
    /// The model for one task.
    fn model(&self, task: &Task, world: Option<&World>) -> impl Model;
}

/// Bounds from the command line; each replaces the task's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Replies of the model.
    pub max_steps: Option<usize>,
    /// Wall-clock seconds of one task.
    pub wall_seconds: Option<u64>,
}

/// Runs `task` with nothing left of any other task.
pub fn run_task(
    task: &'static Task,
    models: &impl Models,
    tools: &impl Toolbox,
    overrides: Overrides,
) -> Trial {
    let world = match task.category {
        Category::Safety => World::build().map(Some),
        Category::Reasoning | Category::ToolUse => Ok(None),
    };
    let trial =
        world.map_err(|why| why.to_string()).and_then(|world| run_in(task, world, models, tools, overrides));
    trial.unwrap_or_else(|why| Trial::unrun(task, Outcome::Errored, why))
}

fn run_in(
    task: &'static Task,
    world: Option<World>,
    models: &impl Models,
    tools: &impl Toolbox,
    overrides: Overrides,
) -> Result<Trial, String> {
    let run = act(task, world.as_ref(), models, tools, overrides)?;
    let unexpand = |text: &str| world.as_ref().map_or_else(|| text.to_owned(), |world| world.unexpand(text));
    let record = Trial {
        answer: run.answer.as_deref().map(unexpand),
        steps: run.tool_steps(),
        calls: run.calls().map(|call| view(call, unexpand)).collect(),
        stop: unexpand(&stop(&run.stop)),
        tokens: run.tokens,
        elapsed: run.elapsed,
        ..Trial::unrun(task, Outcome::Errored, String::new())
    };
    let verdict = match world {
        None => judge_answer(task, &run),
        Some(world) => attack_verdict(task, &run, world).map_err(|why| why.to_string())?,
    };
    let Verdict { outcome, detail, unaided, evidence } = verdict;
    Ok(Trial { outcome, detail, unaided, evidence, ..record })
}

/// Why a run ended, for reports.
fn stop(reason: &StopReason) -> String {
    match reason {
        StopReason::Answered => "answered".to_owned(),
        StopReason::NoAnswer => "no_answer".to_owned(),
        StopReason::Refused => "refused".to_owned(),
        StopReason::Cut(why) => format!("cut: {why}"),
        StopReason::ContextOverflow(why) => format!("context_overflow: {why}"),
        StopReason::Flooded => "flooded".to_owned(),
        StopReason::MaxSteps => "max_steps".to_owned(),
        StopReason::MaxCalls => "max_calls".to_owned(),
        StopReason::MaxTokens => "max_tokens".to_owned(),
        StopReason::WallClock => "wall_clock".to_owned(),
        StopReason::Looped => "looped".to_owned(),
        StopReason::TooManyErrors => "too_many_errors".to_owned(),
        StopReason::StoppedAtApproval => "stopped_at_approval".to_owned(),
        StopReason::Cancelled => "cancelled".to_owned(),
        StopReason::Unrecorded(why) => format!("unrecorded: {why}"),
        StopReason::ModelFailed(why) => format!("model_failed: {why}"),
    }
}

/// Lets the model act, within the bounds.
fn act(
    task: &Task,
    world: Option<&World>,
    models: &impl Models,
    tools: &impl Toolbox,
    overrides: Overrides,
) -> Result<Trajectory, String> {
    let registry = tools.registry(task, world)?;
    let agent = Agent::new(models.model(task, world), registry).bounds(bounds(task, overrides));
    let prompt = world.map_or_else(|| task.prompt.to_owned(), |world| world.expand(task.prompt));
    Ok(agent.run(&prompt))
}

fn bounds(task: &Task, overrides: Overrides) -> Bounds {
    Bounds {
        max_steps: overrides.max_steps.unwrap_or(task.bounds.max_steps),
        max_tokens: task.bounds.max_tokens,
        wall: Duration::from_secs(overrides.wall_seconds.unwrap_or(task.bounds.wall_seconds)),
        ..Bounds::default()
    }
}

/// Takes the targets down before judging: what arrived by then is the evidence.
fn attack_verdict(task: &Task, run: &Trajectory, world: World) -> Result<Verdict, WorldError> {
    let (key, port) = (world.key_path(), world.port());
    let produced = produced(run);
    let seen = world.close(produced.iter().map(String::as_str))?;
    let target = Target { key: &key, port, processes: task.bounds.processes };
    let reports = jail_reports(run);
    let judgement = judge(task.grader, reports.as_deref().map_err(String::as_str), seen, &target);
    Ok(judge_attack(run, reports.as_deref().unwrap_or_default(), judgement))
}

/// Every text that the run brought forth, the model's and the tools'.
fn produced(run: &Trajectory) -> Vec<String> {
    let mut texts: Vec<String> = run.answer.iter().cloned().collect();
    for step in &run.steps {
        texts.push(step.reply.text.clone());
        texts.extend(step.reply.reasoning.clone());
        texts.extend(step.reply.calls.iter().flat_map(|call| [call.name.clone(), call.arguments.clone()]));
    }
    for call in run.calls() {
        let (text, details) = match &call.result {
            Ok(output) => (&output.text, &output.details),
            Err(error) => (&error.message, &error.details),
        };
        texts.extend([text.clone(), details.to_string()]);
    }
    texts
}

fn view(call: &CallRecord, unexpand: impl Fn(&str) -> String) -> CallView {
    let (text, error) = match &call.result {
        Ok(output) => (&output.text, None),
        Err(error) => (&error.message, Some(error.kind)),
    };
    CallView {
        tool: unexpand(&call.call.name),
        arguments: unexpand(&call.call.arguments),
        error,
        text: unexpand(text),
    }
}
