//! What a call to a tool or a model is given besides its arguments.

/// A flag that any thread can raise, to end a run from outside. It also kills what runs in a sandbox.
pub use agentkit_client::Cancel;

use crate::clock::{Clock, SystemClock};
use crate::event::{AgentEvent, EventSink, NoEvents};
use crate::state::RunState;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Deadline, cancellation, event sink and state of one run.
#[derive(Clone)]
pub struct Context {
    deadline: Option<Instant>,
    cancel: Cancel,
    events: Arc<dyn EventSink>,
    clock: Arc<dyn Clock>,
    state: RunState,
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
    /// A context that lives until `deadline`, by the clock of the operating system, with an empty state.
    pub fn new(deadline: Option<Instant>, cancel: Cancel, events: Arc<dyn EventSink>) -> Self {
        Context { deadline, cancel, events, clock: Arc::new(SystemClock), state: RunState::default() }
    }

    /// The same context by another clock.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Context { clock, ..self }
    }

    /// The same context with the state of a run that it goes on with.
    pub fn with_state(self, state: RunState) -> Self {
        Context { state, ..self }
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
        self.time_left(self.now())
    }

    /// The time now, by the context's own clock.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The flag that ends the run. Raised as well for a call that is given up because it is late.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// What tools keep for the length of the run.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// Tells the listener something.
    pub fn emit(&self, event: AgentEvent) {
        self.events.emit(event);
    }
}
