//! Does what the state machine asks for.

use crate::bounds::Bounds;
use crate::clock::{Clock, SystemClock};
use crate::context::{AgentEvent, Cancel, Context, EventSink, NoEvents};
use crate::model::{Model, ModelError, Reply, Request, ToolCall};
use crate::registry::Registry;
use crate::run::{Next, Run};
use crate::trajectory::Trajectory;
use crate::worker::{self, NoResult};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A model with tools and bounds.
pub struct Agent<M> {
    model: Arc<M>,
    registry: Arc<Registry>,
    bounds: Bounds,
    system: Option<String>,
    dry_run: bool,
    events: Arc<dyn EventSink>,
    cancel: Cancel,
    clock: Arc<dyn Clock>,
}

impl<M: Model> Agent<M> {
    /// An agent with the default bounds.
    pub fn new(model: M, registry: Registry) -> Self {
        Agent {
            model: Arc::new(model),
            registry: Arc::new(registry),
            bounds: Bounds::default(),
            system: None,
            dry_run: false,
            events: Arc::new(NoEvents),
            cancel: Cancel::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// The bounds of each run.
    pub fn bounds(self, bounds: Bounds) -> Self {
        Agent { bounds, ..self }
    }

    /// Standing instructions, put before the prompt.
    pub fn system(self, text: impl Into<String>) -> Self {
        Agent { system: Some(text.into()), ..self }
    }

    /// Whether tools that change something are refused.
    pub fn dry_run(self, dry_run: bool) -> Self {
        Agent { dry_run, ..self }
    }

    /// Who hears what happens.
    pub fn events(self, events: Arc<dyn EventSink>) -> Self {
        Agent { events, ..self }
    }

    /// The flag that ends a run from outside: no call of the model or of a tool starts after it was raised, the model
    /// is no longer waited for, and a tool for a second at most.
    pub fn cancel(self, cancel: Cancel) -> Self {
        Agent { cancel, ..self }
    }

    /// The clock of each run.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Agent { clock, ..self }
    }

    /// Runs the loop until it ends, which it does within the bounds whatever model and tools do. A thread of one that
    /// never comes back stays behind.
    pub fn run(&self, prompt: &str) -> Trajectory {
        let mut run = Run::new(
            self.bounds.clone(),
            self.system.as_deref(),
            prompt,
            self.registry.specs(),
            self.clock.now(),
        );
        let context = Context::new(run.deadline(), self.cancel.clone(), Arc::clone(&self.events))
            .with_clock(Arc::clone(&self.clock));
        loop {
            if self.cancel.is_cancelled() {
                run.cancel();
            }
            match run.next(self.clock.now()) {
                Next::CallModel => self.call_model(&context, &mut run),
                Next::RunTool(call) => self.run_tool(&context, &mut run, &call),
                Next::Done => return run.into_trajectory(self.clock.now()),
            }
        }
    }

    fn call_model(&self, context: &Context, run: &mut Run) {
        let reply = self.ask(context, run);
        // A model that failed because it was told to stop has not failed.
        if reply.is_err() && self.cancel.is_cancelled() {
            return run.cancel();
        }
        let failed = reply.is_err();
        run.replied(reply, self.clock.now());
        if !failed {
            context.emit(AgentEvent::Replied { step: run.step() });
        }
    }

    /// What comes after deadline or cancellation is of no use, so there is no grace.
    fn ask(&self, context: &Context, run: &Run) -> Result<Reply, ModelError> {
        let (model, registry) = (Arc::clone(&self.model), Arc::clone(&self.registry));
        let messages = run.shared_messages();
        let outcome = worker::call(context, Duration::ZERO, move |context| {
            model.reply(context, &Request { messages: &messages, tools: registry.specs() })
        });
        outcome.unwrap_or_else(|why| Err(self.no_reply(why)))
    }

    fn no_reply(&self, why: NoResult) -> ModelError {
        let name = self.model.name();
        ModelError::new(match why {
            NoResult::Late => format!("the model `{name}` had not replied at the deadline"),
            NoResult::Cancelled => format!("the model `{name}` had not replied when the run was cancelled"),
            NoResult::Panicked(text) => {
                format!("the model `{name}` panicked: {}", text.as_deref().unwrap_or("without a message"))
            }
            NoResult::NoThread(error) => format!("the model `{name}` was not asked: no thread: {error}"),
        })
    }

    fn run_tool(&self, context: &Context, run: &mut Run, call: &ToolCall) {
        context.emit(AgentEvent::ToolStarted { call_id: call.id.clone(), name: call.name.clone() });
        let started: Instant = self.clock.now();
        let result = self.registry.call(context, call, self.dry_run);
        let is_error = result.is_err();
        run.finished(result, self.clock.now().saturating_duration_since(started));
        context.emit(AgentEvent::ToolFinished { call_id: call.id.clone(), is_error });
    }
}

impl<M: Model> fmt::Debug for Agent<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("model", &self.model.name())
            .field("registry", &self.registry)
            .field("bounds", &self.bounds)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}
