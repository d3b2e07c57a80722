//! Where the events of a run under way go: to the screen, and to standard output if somebody wants them as JSON.

use crate::exit_code::Failure;
use crate::paint::{Paint, Tone};
use crate::plain;
use crate::screen::Screen;
use agentkit_agent::model::ToolCall;
use agentkit_agent::{AgentEvent, EventSink};
use std::io::{self, IsTerminal, Stderr, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hears a run. Nothing on the screen decides about the run: what cannot be shown is not shown.
pub(crate) struct Live {
    screen: Mutex<Screen<Stderr>>,
    json: Option<Mutex<io::Result<()>>>,
}

impl Live {
    pub(crate) fn new(json: bool) -> Self {
        let stderr = io::stderr();
        let (paint, is_terminal) = (Paint::on(&stderr), stderr.is_terminal());
        let json = json.then(|| Mutex::new(Ok(())));
        Live { screen: Mutex::new(Screen::new(stderr, paint, is_terminal)), json }
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
        let printed = match (&self.json, answer) {
            (Some(printed), _) => std::mem::replace(&mut *lock(printed), Ok(())),
            (None, Some(answer)) if !self.has_shown(answer) => print(&plain::prose(answer)),
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
        let _ = lock(&self.screen).hear(&event);
        if let Some(printed) = &self.json
            && event.is_recorded()
        {
            let mut printed = lock(printed);
            if printed.is_ok() {
                *printed = serde_json::to_string(&event)
                    .map_err(Into::into)
                    .and_then(|json| print(&plain::json(&json)));
            }
        }
    }
}

/// A line and its end.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", text.trim_end())?;
    out.flush()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
