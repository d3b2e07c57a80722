//! `agentkit run`: settings, sandbox, transcript, run, answer, exit code. In this order: a mistake costs nothing, and what
//! cannot be recorded is not begun.

use crate::approve::Ask;
use crate::cli::RunArgs;
use crate::exit_code::{self, Failure};
use crate::interrupt::Interrupt;
use crate::jail::Jail;
use crate::live::Live;
use crate::paint::Tone;
use crate::settings::{Endpoint, model_name};
use crate::toolbox::tools;
use agentkit_agent::model::Message;
use agentkit_agent::model::text_tools::TextTools;
use agentkit_agent::model::wire::Streaming;
use agentkit_agent::transcript::{Recorded, TranscriptError};
use agentkit_agent::{
    Agent, AgentEvent, Bounds, Cancel, Conversation, EventSink, Model, StopReason, Transcript,
};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a prompt from standard input.
const MAX_PROMPT: u64 = 16 << 20;

/// Runs the command and returns what to exit with.
pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let directory = args.workdir.as_deref().map(directory).transpose()?;
    if let (Some(file), Some(directory)) = (args.transcript.as_ref().or(args.resume.as_ref()), &directory) {
        check_is_out_of_reach(file, directory)?;
    }
    let prompt = args.prompt.as_deref().map(prompt).transpose()?;
    let resumed = args.resume.as_ref().map(Transcript::reopen).transpose().map_err(unusable)?;
    let recorded = resumed.as_ref().map(|(_, recorded)| recorded);
    let endpoint = Endpoint::find(args.base_url.as_deref());
    let model = model(args, &endpoint, recorded)?;
    let earlier = recorded.map(Recorded::conversation).unwrap_or_default();
    if prompt.is_none() {
        check_is_unfinished(&earlier)?;
    }
    let warning = recorded.and_then(Recorded::warning);
    let cancel = Cancel::new();
    let interrupt = Interrupt::raises(&cancel)
        .map_err(|why| Failure::failed(format!("cannot prepare for Ctrl-C: {why}")))?;
    let jail = Jail::find(args, directory)?;
    let transcript = match resumed {
        Some((transcript, _)) => Some(transcript),
        None => args.transcript.as_ref().map(Transcript::create).transpose().map_err(unusable)?,
    };

    let live = Arc::new(Live::new(args.json)?);
    warning.iter().for_each(|warning| live.say("warn", Tone::Doubtful, warning));
    jail.introduce(&live);
    live.say("server", Tone::Faint, &endpoint.describe());
    let mut agent = agent(args, model, jail, &live)?.cancel(cancel);
    if let Some(transcript) = transcript {
        agent = agent.transcript(transcript);
    }
    let trajectory = match prompt {
        Some(prompt) => agent.continue_with(earlier, &prompt),
        None => agent.resume(earlier),
    };
    if let StopReason::ModelFailed(_) = trajectory.stop {
        live.say(
            "",
            Tone::Faint,
            "agentkit doctor --endpoint asks only which models there are, and says what to check",
        );
    }
    live.finish(trajectory.answer.as_deref())?;
    Ok(exit_code::of(&trajectory.stop, interrupt.signal()))
}

/// The directory by a path that stays right wherever it is used.
fn directory(path: &Path) -> Result<PathBuf, Failure> {
    let unusable = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("--workdir {}: {why}; name a directory that exists", path.display()))
    };
    match path.canonicalize() {
        Ok(directory) if directory.is_dir() => Ok(directory),
        Ok(_) => Err(unusable(&"it is no directory")),
        Err(why) => Err(unusable(&why)),
    }
}

/// Code that could write its own transcript would be believed by whoever reads or resumes it.
fn check_is_out_of_reach(file: &Path, directory: &Path) -> Result<(), Failure> {
    // Where there is no such directory, there is no transcript to be had either.
    let is_in_reach = |place: &Path| place.canonicalize().is_ok_and(|place| place.starts_with(directory));
    // A name in the work dir could be made to lead elsewhere, whatever it leads to now. `..` is no such name.
    let names = file.ancestors().filter(|name| name.file_name().is_some());
    let mut holders = names.filter_map(Path::parent).map(or_here);
    if is_in_reach(file) || holders.any(is_in_reach) {
        let message = format!("{} lies in the work dir, where code could change it", file.display());
        return Err(Failure::usage(format!("{message}; keep the transcript elsewhere")));
    }
    Ok(())
}

fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn prompt(argument: &str) -> Result<String, Failure> {
    let mut text = argument.to_owned();
    if argument == "-" {
        text.clear();
        let read = io::stdin().take(MAX_PROMPT + 1).read_to_string(&mut text);
        read.map_err(|why| Failure::usage(format!("cannot read the prompt from standard input: {why}")))?;
    }
    match text.len() as u64 {
        _ if text.trim().is_empty() => {
            Err(Failure::usage("the prompt is empty: say what the model is to do"))
        }
        0..=MAX_PROMPT => Ok(text),
        _ => Err(Failure::usage(format!("the prompt has more than {MAX_PROMPT} bytes"))),
    }
}

fn model(
    args: &RunArgs,
    endpoint: &Endpoint,
    recorded: Option<&Recorded>,
) -> Result<Arc<dyn Model>, Failure> {
    let name = model_name(args.model.as_deref(), recorded.and_then(last_model))?;
    let streaming = if args.no_stream { Streaming::Off } else { Streaming::WithUsage };
    let model = endpoint.model(&name, streaming)?;
    Ok(if args.text_tools { Arc::new(TextTools::new(model)) } else { Arc::new(model) })
}

/// The model of the last run.
fn last_model(recorded: &Recorded) -> Option<&str> {
    recorded.entries.iter().rev().find_map(|entry| match &entry.event {
        AgentEvent::RunStarted { model, .. } => Some(model.as_str()),
        _ => None,
    })
}

/// A model that has said its last word is not asked again for nothing.
fn check_is_unfinished(earlier: &Conversation) -> Result<(), Failure> {
    match earlier.messages().last() {
        Some(Message::User(_) | Message::Tool { .. }) => Ok(()),
        Some(Message::Assistant(_)) => Err(Failure::usage(
            "that run came to its end: say what comes next, agentkit run --resume FILE \"...\"",
        )),
        Some(Message::System(_)) | None => {
            Err(Failure::usage("there is nothing to resume in that transcript: say what the model is to do"))
        }
    }
}

fn agent(
    args: &RunArgs,
    model: Arc<dyn Model>,
    jail: Jail,
    live: &Arc<Live>,
) -> Result<Agent<Arc<dyn Model>>, Failure> {
    let registry =
        tools(jail.sandbox).map_err(|why| Failure::failed(format!("the tools cannot be had: {why}")))?;
    let mut agent = Agent::new(model, registry)
        .bounds(bounds(args))
        .dry_run(args.dry_run)
        .events(Arc::clone(live) as Arc<dyn EventSink>);
    if let Some(system) = &args.system {
        agent = agent.system(system);
    }
    match jail.directory {
        Some(directory) if jail.asks => Ok(agent.approver(Ask::new(Arc::clone(live), &directory))),
        _ => Ok(agent),
    }
}

fn bounds(args: &RunArgs) -> Bounds {
    let default = Bounds::default();
    let steps = args.max_steps.map(|steps| usize::try_from(steps).unwrap_or(usize::MAX));
    Bounds {
        max_steps: steps.unwrap_or(default.max_steps),
        max_tokens: args.max_tokens.unwrap_or(default.max_tokens),
        wall: args.wall.unwrap_or(default.wall),
        ..default
    }
}

fn unusable(why: TranscriptError) -> Failure {
    let hint = match &why {
        TranscriptError::Io { error, .. } if error.kind() == io::ErrorKind::AlreadyExists => {
            "; name a new file, or go on with the run in it by --resume"
        }
        _ => "",
    };
    Failure::failed(format!("{why}{hint}"))
}
