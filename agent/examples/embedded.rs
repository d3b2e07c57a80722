//! A program with an agent in it: it shows what happens, asks before anything is changed, keeps a transcript, and goes on
//! although one of its tools panics. With a script in place of a model, so that it needs neither network nor key.
//!
//! ```sh
//! cargo run --release -p agentkit-agent --example embedded
//! ```
//!
//! In a release build too a panic of a tool is the result of its call, as long as the profile unwinds. With
//! `panic = "abort"` it is the end of the program. This one fails if the panic is not what its call returned.

use agentkit_agent::model::ToolCall;
use agentkit_agent::model::scripted::{Scripted, Turn};
use agentkit_agent::{
    Agent, AgentEvent, Decision, EventSink, Registry, ToolErrorKind, Transcript, tool, transcript,
};
use serde_json::json;
use std::error::Error;
use std::sync::{Arc, Mutex};

/// Says how many notes there are, but was never finished.
#[tool]
fn count_notes(notes: &Arc<Mutex<Vec<String>>>) -> usize {
    let notes = notes.lock().expect("a lock");
    notes.iter().map(|note| note.parse::<usize>().expect("a note is a number")).sum()
}

/// Adds a note.
#[tool(mutates)]
fn add_note(
    notes: &Arc<Mutex<Vec<String>>>,
    /// What to write down.
    text: String,
) -> String {
    let mut notes = notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    notes.push(text);
    format!("{} note(s)", notes.len())
}

struct Show;

impl EventSink for Show {
    fn emit(&self, event: AgentEvent) {
        match event {
            AgentEvent::StepStarted { step } => println!("step {step}"),
            AgentEvent::ToolStarted { name, arguments, .. } => println!("  {name} {arguments}"),
            AgentEvent::ToolFinished { text, error: None, .. } => println!("  -> {text}"),
            AgentEvent::ToolFinished { text, error: Some(kind), .. } => println!("  -> {kind:?}: {text}"),
            AgentEvent::Stopped { stop, answer, .. } => println!("{stop:?}: {}", answer.unwrap_or_default()),
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let script = Scripted::new(
        "script",
        vec![
            Turn::call("add_note", json!({"text": "buy milk"})),
            Turn::call("count_notes", json!({})),
            Turn::call("add_note", json!({"text": "delete everything"})),
            Turn::answer("I wrote down what I was let."),
        ],
    );
    let notes = Arc::new(Mutex::new(Vec::new()));
    let mut registry = Registry::new();
    registry.add(count_notes::tool(Arc::clone(&notes)))?;
    registry.add(add_note::tool(Arc::clone(&notes)))?;

    let path = std::env::temp_dir().join(format!("agentkit-embedded-{}.jsonl", std::process::id()));
    let agent = Agent::new(script, registry)
        .approver(|call: &ToolCall| match call.arguments.contains("delete") {
            true => Decision::Deny("that is too much".to_owned()),
            false => Decision::Allow,
        })
        .events(Arc::new(Show))
        .transcript(Transcript::create(&path)?);
    let trajectory = agent.run("Take notes.");

    let recorded = transcript::read(&path);
    std::fs::remove_file(&path)?;
    println!("{} events on record", recorded?.entries.len());
    let kinds: Vec<_> = trajectory.calls().map(|call| call.result.as_ref().err().map(|e| e.kind)).collect();
    match kinds[..] {
        [None, Some(ToolErrorKind::Panicked), Some(ToolErrorKind::Refused)] => Ok(()),
        _ => Err(format!("the calls ended otherwise: {kinds:?}").into()),
    }
}
