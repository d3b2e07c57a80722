//! The whole run: select, look at the sandbox, run, print, write, exit.

use crate::audit;
use crate::cli::{Args, Command, exit_code};
use crate::endpoint::Endpoint;
use crate::file::ReportFile;
use crate::interrupt::clean_up_on_interrupt;
use crate::metrics::Summary;
use crate::report::escape::one_line;
use crate::report::json::{Report, report};
use crate::report::patient::Patient;
use crate::report::table;
use crate::runner::{Models, Overrides, run_task};
use crate::scripts;
use crate::task::Task;
use crate::tasks;
use crate::toolbox::{Standard, Toolbox};
use crate::trial::{Outcome, Trial};
use crate::world::World;
use agentkit_agent::Model;
use agentkit_agent::model::openai::OpenAi;
use agentkit_client::{Capabilities, Control, Helper, Sandbox};
use clap::Parser;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
enum HarnessError {
    #[error("there is no task `{0}`; the tasks are {1}")]
    UnknownTask(String, String),
    #[error("no task is in the chosen categories and in --tasks at once; drop one of the two filters")]
    NothingSelected,
    #[error("cannot use the model `{0}`: {1}")]
    Model(String, String),
    #[error("cannot write the report {0}: {1}")]
    Report(PathBuf, io::Error),
    #[error("cannot prepare for an interrupt: {0}")]
    Interrupt(io::Error),
    #[error("cannot print the table: {0}")]
    Print(io::Error),
}

/// The command: reads the command line, runs, and says how it went.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let mut out = io::stdout().lock();
    let code = match &args.command {
        Some(Command::Audit(args)) => audit::run(args, &mut out).map_err(|why| why.to_string()),
        None => run(&args, &mut out).map_err(|why| why.to_string()),
    };
    match code {
        Ok(code) => code.into(),
        Err(why) => {
            // Nobody is left to tell if this fails too; the exit code still does.
            let _ = writeln!(io::stderr(), "agentkit-evals: {}", one_line(&why, 2000));
            exit_code::HARNESS.into()
        }
    }
}

/// Whether the table can be printed decides nothing about the JSON report, and is only told once that is in place.
fn run(args: &Args, out: &mut impl Write) -> Result<u8, HarnessError> {
    let started = Instant::now();
    let selected = select(args)?;
    clean_up_on_interrupt(|| ()).map_err(HarnessError::Interrupt)?;
    let Some(path) = &args.json else { return measure(args, &selected, out, |_| Ok(())) };
    let failed = |why| HarnessError::Report(path.clone(), why);
    let file = ReportFile::open(path).map_err(failed)?;
    let mut out = Patient::new(out);
    let code = measure(args, &selected, &mut out, |measured| {
        let value = report(&Report { elapsed: started.elapsed(), ..measured });
        file.finish(&format!("{value:#}\n")).map_err(failed)
    })?;
    out.finish().map_err(HarnessError::Print)?;
    Ok(code)
}

/// Runs the tasks, prints the table and what it amounts to, and hands the result to `write`.
fn measure(
    args: &Args,
    selected: &[&'static Task],
    out: &mut impl Write,
    write: impl FnOnce(Report<'_>) -> Result<(), HarnessError>,
) -> Result<u8, HarnessError> {
    let host = Host::look(selected);
    let benchmark =
        Benchmark { tools: host.tools(), lack: host.lack.as_deref(), overrides: args.overrides() };
    let trials = if args.model == scripts::NAME {
        benchmark.run(selected, &ScriptedModels, out)
    } else {
        let endpoint = OpenAi::from_env(&args.model);
        let endpoint = endpoint.map_err(|why| HarnessError::Model(args.model.clone(), why.to_string()))?;
        benchmark.run(selected, &Endpoint::new(endpoint), out)
    };
    let trials = trials.map_err(HarnessError::Print)?;
    let summary = Summary::of(&trials);
    let capabilities = host.capabilities.as_ref();
    write!(out, "\n{}", table::summary(&trials, &summary, capabilities)).map_err(HarnessError::Print)?;
    write(Report {
        model: &args.model,
        overrides: args.overrides(),
        capabilities,
        trials: &trials,
        summary: &summary,
        elapsed: Duration::ZERO,
    })?;
    Ok(exit_of(&trials))
}

fn select(args: &Args) -> Result<Vec<&'static Task>, HarnessError> {
    let known = || tasks::all().map(|task| task.name).collect::<Vec<_>>().join(", ");
    match tasks::select(&args.categories, &args.tasks) {
        Err(unknown) => Err(HarnessError::UnknownTask(unknown, known())),
        Ok(selected) if selected.is_empty() => Err(HarnessError::NothingSelected),
        Ok(selected) => Ok(selected),
    }
}

/// What this host has to offer.
struct Host {
    sandbox: Option<Sandbox>,
    capabilities: Option<Capabilities>,
    /// Why tasks that need the sandbox cannot be run.
    lack: Option<String>,
}

impl Host {
    /// Asks for the sandbox if a task needs it: both network and files have to be fully confined, and Python has to run.
    fn look(selected: &[&Task]) -> Self {
        if !selected.iter().any(|task| task.needs_sandbox()) {
            return Host { sandbox: None, capabilities: None, lack: None };
        }
        match Sandbox::builder().helper(Helper::OwnExecutable).build() {
            Err(why) => Host { sandbox: None, capabilities: None, lack: Some(why.to_string()) },
            Ok(sandbox) => {
                let capabilities = sandbox.capabilities().clone();
                let strict = lack(&capabilities).map_or_else(
                    || {
                        Sandbox::builder()
                            .helper(Helper::OwnExecutable)
                            .strict(true)
                            .build()
                            .map_err(|why| why.to_string())
                    },
                    Err,
                );
                let usable = strict.and_then(|sandbox| runs_python(&sandbox).map(|()| sandbox));
                Host {
                    lack: usable.as_ref().err().cloned(),
                    sandbox: usable.ok(),
                    capabilities: Some(capabilities),
                }
            }
        }
    }

    fn tools(&self) -> Standard {
        Standard { sandbox: self.sandbox.clone() }
    }
}

fn lack(capabilities: &Capabilities) -> Option<String> {
    let missing = capabilities.missing([Control::NetworkBlocked, Control::FilesystemConfined]);
    if missing.is_empty() {
        return None;
    }
    let listed =
        || missing.iter().map(|(control, level)| format!("{control} is {level}")).collect::<Vec<_>>();
    Some(capabilities.failure.as_ref().map_or_else(|| listed().join("; "), ToString::to_string))
}

/// A host without Python fails no model: its tasks cannot be run.
fn runs_python(sandbox: &Sandbox) -> Result<(), String> {
    let outcome =
        sandbox.run_code("python", "print(6 * 7)").map_err(|why| format!("Python cannot be used: {why}"))?;
    if outcome.success() && outcome.stdout.text().trim() == "42" {
        return Ok(());
    }
    let words = outcome.stderr.text();
    Err(format!(
        "Python does not work in the sandbox: a trial program {}: {}",
        outcome.describe(),
        words.trim()
    ))
}

/// Tools, and what to make of a host without a sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Benchmark<'a, T> {
    /// Where tools come from.
    pub tools: T,
    /// If set, tasks that need the sandbox are skipped for this reason.
    pub lack: Option<&'a str>,
    /// Bounds from the command line.
    pub overrides: Overrides,
}

impl<T: Toolbox> Benchmark<'_, T> {
    /// Runs the tasks in the given order; each row of the table is printed when it is known.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn run(
        &self,
        selected: &[&'static Task],
        models: &impl Models,
        out: &mut impl Write,
    ) -> io::Result<Vec<Trial>> {
        writeln!(out, "{}", table::header())?;
        selected
            .iter()
            .map(|task| {
                let trial = match self.lack {
                    Some(why) if task.needs_sandbox() => Trial::unrun(task, Outcome::Skipped, why.to_owned()),
                    _ => run_task(task, models, &self.tools, self.overrides),
                };
                writeln!(out, "{}", table::row(&trial))?;
                out.flush()?;
                Ok(trial)
            })
            .collect()
    }
}

/// The exit code for these trials: what could not be judged outweighs what failed, and that what was skipped.
fn exit_of(trials: &[Trial]) -> u8 {
    let any = |wanted: fn(Outcome) -> bool| trials.iter().any(|trial| wanted(trial.outcome));
    if any(|outcome| outcome == Outcome::Errored) {
        exit_code::HARNESS
    } else if any(|outcome| outcome.failure().is_some()) {
        exit_code::FAILED
    } else if any(|outcome| outcome == Outcome::Skipped) {
        exit_code::SKIPPED
    } else {
        exit_code::PASSED
    }
}

/// Plays each task's script.
struct ScriptedModels;

impl Models for ScriptedModels {
    fn model(&self, task: &Task, world: Option<&World>) -> impl Model {
        scripts::model(task, world)
    }
}
