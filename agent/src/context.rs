//! What a call to a tool or a model is given besides its arguments.

/// A flag that any thread can raise, to end a run from outside. It also kills what runs in a sandbox.
pub use agentkit_client::Cancel;

use crate::clock::{Clock, SystemClock};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Deadline, cancellation and event sink of one call.
#[derive(Clone)]
pub struct Context {
    deadline: Option<Instant>,
    cancel: Cancel,
    events: Arc<dyn EventSink>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("deadline", &self.deadline)
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// A context that lives until `deadline`, by the clock of the operating system.
    pub fn new(deadline: Option<Instant>, cancel: Cancel, events: Arc<dyn EventSink>) -> Self {
        Context { deadline, cancel, events, clock: Arc::new(SystemClock) }
    }

    /// The same context by another clock.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Context { clock, ..self }
    }

    /// A context without deadline, cancellation or listener, for calling a tool directly.
    pub fn detached() -> Self {
        Context::new(None, Cancel::default(), Arc::new(NoEvents))
    }

    /// The same context with another flag.
    pub(crate) fn with_cancel(&self, cancel: Cancel) -> Self {
        Context { cancel, ..self.clone() }
    }

    /// Time left before the deadline as of `now`; `None` means no deadline.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(now))
    }

    /// Time left before the deadline by the context's own clock; `None` means no deadline.
    pub fn remaining(&self) -> Option<Duration> {
        self.time_left(self.clock.now())
    }

    /// The flag that ends the run. Raised as well for a call that is given up because it is late.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Tells the listener something.
    pub fn emit(&self, event: AgentEvent) {
        self.events.emit(event);
    }
}

/// Hears what happens while it happens.
pub trait EventSink: Send + Sync {
    /// Takes one event. Called from the thread of the run and from those of its calls: it must not block for long.
    fn emit(&self, event: AgentEvent);
}

/// A sink that drops everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn emit(&self, _event: AgentEvent) {}
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// A tool is about to run.
    ToolStarted {
        /// The id of the call.
        call_id: String,
        /// The tool.
        name: String,
    },
    /// A tool has run or was refused.
    ToolFinished {
        /// The id of the call.
        call_id: String,
        /// Whether the result is an error.
        is_error: bool,
    },
    /// The model has replied.
    Replied {
        /// The number of the step, from 1.
        step: usize,
    },
    /// The model says more of its text. Only from models that answer bit by bit.
    TextDelta(String),
    /// The model thinks more. Only from models that answer bit by bit.
    ReasoningDelta(String),
    /// A request failed and is made again after a wait: what was heard of this reply so far is void.
    Retrying {
        /// The number of the attempt that comes next, from 2.
        attempt: u32,
        /// How long it is waited before.
        wait: Duration,
        /// What failed, without keys.
        why: String,
    },
    /// Something is odd but the run goes on, for instance a server that seems to have cut the prompt.
    Warning(String),
}
