//! Does what the state machine asks for.

use crate::approval::{Approver, Decision};
use crate::bounds::Bounds;
use crate::clock::{Clock, SystemClock};
use crate::context::{Cancel, Context};
use crate::conversation::Conversation;
use crate::event::{AgentEvent, EventSink};
use crate::feed::Feed;
use crate::message::{Reply, ToolCall};
use crate::model::{Model, ModelError, Request};
use crate::registry::{GRACE, Registry};
use crate::run::{Next, Run};
use crate::trajectory::Trajectory;
use crate::transcript::Transcript;
use crate::worker::{self, Batch, NoResult};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A model with tools and bounds.
pub struct Agent<M> {
    model: Arc<M>,
    registry: Arc<Registry>,
    bounds: Bounds,
    system: Option<String>,
    dry_run: bool,
    approver: Option<Arc<dyn Approver>>,
    events: Option<Arc<dyn EventSink>>,
    transcript: Option<Arc<Transcript>>,
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
            approver: None,
            events: None,
            transcript: None,
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

    /// Who is asked before each call that changes something.
    pub fn approver(self, approver: impl Approver) -> Self {
        Agent { approver: Some(Arc::new(approver)), ..self }
    }

    /// Who hears what happens.
    pub fn events(self, events: Arc<dyn EventSink>) -> Self {
        Agent { events: Some(events), ..self }
    }

    /// Where what happens is recorded, before the run goes on. A run whose transcript cannot be written ends.
    pub fn transcript(self, transcript: Transcript) -> Self {
        Agent { transcript: Some(Arc::new(transcript)), ..self }
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
        self.begin(Conversation::default(), Some(prompt))
    }

    /// Goes on with an earlier conversation by what the user says next. The bounds count from anew, and the standing
    /// instructions stay those that the conversation began with.
    pub fn continue_with(&self, earlier: Conversation, prompt: &str) -> Trajectory {
        self.begin(earlier, Some(prompt))
    }

    /// Goes on where a run was broken off, for instance with
    /// [`Recorded::conversation`](crate::transcript::Recorded::conversation). The bounds count from anew. A run that
    /// has ended goes on by [`Agent::continue_with`].
    pub fn resume(&self, interrupted: Conversation) -> Trajectory {
        self.begin(interrupted, None)
    }

    fn begin(&self, mut conversation: Conversation, prompt: Option<&str>) -> Trajectory {
        let system = self.system.as_deref().filter(|_| conversation.messages().is_empty());
        let started = AgentEvent::RunStarted {
            model: self.model.name().to_owned(),
            tools: self.registry.specs().iter().map(|spec| spec.name.clone()).collect(),
            dry_run: self.dry_run,
            system: system.map(str::to_owned),
            prompt: prompt.map(str::to_owned),
        };
        conversation.begin(system, prompt);
        let mut run = Run::new(self.bounds.clone(), conversation, self.registry.specs(), self.clock.now());
        if self.approver.is_some() {
            run.ask_before_changes();
        }
        let feed = Arc::new(Feed::open(self.events.as_ref(), self.transcript.as_ref()));
        feed.emit(started);
        let sink = Arc::clone(&feed) as Arc<dyn EventSink>;
        let context = Context::new(run.deadline(), self.cancel.clone(), sink)
            .with_clock(Arc::clone(&self.clock))
            .with_state(run.conversation().state().clone());
        self.perform(&context, &feed, &mut run);
        let trajectory = run.into_trajectory(self.clock.now());
        feed.close(AgentEvent::Stopped {
            stop: trajectory.stop.clone(),
            answer: trajectory.answer.clone(),
            tokens: trajectory.tokens,
            elapsed: trajectory.elapsed,
        });
        trajectory
    }

    fn perform(&self, context: &Context, feed: &Feed, run: &mut Run) {
        loop {
            if self.cancel.is_cancelled() {
                run.cancel();
            }
            let next = run.next(self.clock.now());
            tell(feed, run);
            // What begins has to be recorded before.
            if next != Next::Done
                && let Some(why) = feed.failure()
            {
                run.unrecorded(why);
                continue;
            }
            match next {
                Next::Done => return,
                Next::CallModel => self.call_model(context, run),
                Next::Approve(call) => self.approve(context, feed, run, call),
                Next::RunTools(calls) => self.run_tools(context, feed, run, &calls),
            }
        }
    }

    fn call_model(&self, context: &Context, run: &mut Run) {
        let reply = self.ask(context, run);
        // A model that failed because it was told to stop has not failed.
        if reply.is_err() && self.cancel.is_cancelled() {
            return run.cancel();
        }
        run.replied(reply, self.clock.now());
    }

    /// What comes after deadline or cancellation is of no use, so there is no grace.
    fn ask(&self, context: &Context, run: &Run) -> Result<Reply, ModelError> {
        let (model, registry) = (Arc::clone(&self.model), Arc::clone(&self.registry));
        let messages = run.conversation().shared();
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

    /// Nobody is asked about a call that would not be run.
    fn approve(&self, context: &Context, feed: &Feed, run: &mut Run, call: ToolCall) {
        let approver = match (self.registry.prepare(&call, self.dry_run), &self.approver) {
            (Err(error), _) => return run.finished(Err(error), Duration::ZERO),
            (Ok(_), None) => return run.decided(Decision::Allow),
            (Ok(_), Some(approver)) => Arc::clone(approver),
        };
        let (call_id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
        feed.emit(AgentEvent::ApprovalAsked { call_id: call_id.clone(), name, arguments });
        // Whoever shows the events has shown them all when the question comes.
        feed.flush();
        let decision = match worker::call(context, Duration::ZERO, move |_| approver.decide(&call)) {
            Ok(decision) => decision,
            // The run is over for that reason.
            Err(NoResult::Late | NoResult::Cancelled) => return,
            Err(NoResult::Panicked(text)) => {
                let text = text.as_deref().unwrap_or("without a message");
                Decision::Deny(format!("who was asked panicked: {text}"))
            }
            Err(NoResult::NoThread(error)) => Decision::Deny(format!("nobody was asked: no thread: {error}")),
        };
        feed.emit(AgentEvent::ApprovalAnswered { call_id, decision: decision.clone() });
        run.decided(decision);
    }

    /// Side by side; results are reported in the order of the calls.
    fn run_tools(&self, context: &Context, feed: &Feed, run: &mut Run, calls: &[ToolCall]) {
        let mut batch = Batch::new(context, GRACE);
        let start = |call| self.registry.prepare(call, self.dry_run)?.start(&batch);
        let started: Vec<_> = calls.iter().map(start).collect();
        for call in started {
            let (result, elapsed) = match call {
                Ok(running) => running.wait(&mut batch),
                Err(error) => (Err(error), Duration::ZERO),
            };
            run.finished(result, elapsed);
            tell(feed, run);
        }
    }
}

fn tell(feed: &Feed, run: &mut Run) {
    for event in run.take_events() {
        feed.emit(event);
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
