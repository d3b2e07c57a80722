//! Events as JSON lines on standard output, by a thread of their own: a reader that is slow neither holds the run nor
//! misses anything.

use crate::plain;
use agentkit_agent::AgentEvent;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// Prints events.
pub(crate) struct JsonLines {
    lines: Sender<String>,
    thread: JoinHandle<io::Result<()>>,
}

impl JsonLines {
    pub(crate) fn start() -> io::Result<Self> {
        let (lines, received) = channel::<String>();
        let print = move || received.iter().try_for_each(|line| plain::print(&line));
        let thread = thread::Builder::new().name("agentkit-json".to_owned()).spawn(print)?;
        Ok(JsonLines { lines, thread })
    }

    /// Pieces of a reply are left out, since the reply follows.
    pub(crate) fn push(&self, event: &AgentEvent) {
        if event.is_recorded()
            && let Ok(line) = serde_json::to_string(event)
        {
            // A reader that has gone away is told of at the end.
            let _ = self.lines.send(plain::json(&line));
        }
    }

    /// Waits until all is printed.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.lines);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that prints has panicked")))
    }
}
