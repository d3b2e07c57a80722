//! Where the events of a run under way go: to the screen, and to standard output if somebody wants them as JSON.

use crate::exit_code::Failure;
use crate::json_lines::JsonLines;
use crate::paint::{Paint, Tone};
use crate::plain;
use crate::screen::Screen;
use agentkit_agent::model::ToolCall;
use agentkit_agent::{AgentEvent, EventSink};
use std::io::{self, IsTerminal, Stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hears a run. Nothing on the screen decides about the run: what cannot be shown is not shown.
pub(crate) struct Live {
    screen: Mutex<Screen<Stderr>>,
    /// Until the end, if wanted.
    json: Mutex<Option<JsonLines>>,
}

impl Live {
    pub(crate) fn new(wants_json: bool) -> Result<Self, Failure> {
        let stderr = io::stderr();
        let (paint, is_terminal) = (Paint::on(&stderr), stderr.is_terminal());
        let json = wants_json.then(JsonLines::start).transpose();
        let json = json.map_err(|why| Failure::failed(format!("no thread to print with: {why}")))?;
        let screen = Mutex::new(Screen::new(stderr, paint, is_terminal));
        Ok(Live { screen, json: Mutex::new(json) })
    }

    pub(crate) fn say(&self, label: &str, tone: Tone, text: &str) {
        let _ = lock(&self.screen).say(label, tone, text);
    }

    /// Shows a call and a question about it.
    pub(crate) fn ask(&self, call: &ToolCall, question: &str) {
        let _ = lock(&self.screen).question(call, question);
    }

    /// The question has its answer, and the line its end.
    pub(crate) fn answered(&self) {
        lock(&self.screen).answered();
    }

    /// Prints the answer, unless the reader has just seen it or gets it as an event.
    pub(crate) fn finish(&self, answer: Option<&str>) -> Result<(), Failure> {
        let printed = match (lock(&self.json).take(), answer) {
            (Some(json), _) => json.finish(),
            (None, Some(answer)) if !self.has_shown(answer) => plain::print(plain::prose(answer).trim_end()),
            (None, _) => Ok(()),
        };
        printed.map_err(|why| Failure::failed(format!("cannot write to standard output: {why}")))
    }

    /// What is on both streams is seen twice only if they are two.
    fn has_shown(&self, answer: &str) -> bool {
        io::stdout().is_terminal() && io::stderr().is_terminal() && lock(&self.screen).has_shown(answer)
    }
}

impl EventSink for Live {
    fn emit(&self, event: AgentEvent) {
        if let Some(json) = &*lock(&self.json) {
            json.push(&event);
        }
        let _ = lock(&self.screen).hear(&event);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
