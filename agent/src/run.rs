//! The loop as a state machine without input or output: it says what comes next and is told what came of it.

use crate::approval::Decision;
use crate::book::Book;
use crate::bounds::{Bounds, NotRun};
use crate::clip::clip;
use crate::conversation::{Conversation, reply_size};
use crate::event::AgentEvent;
use crate::message::{Finish, Message, Reply, ToolCall};
use crate::model::{ModelError, ModelErrorKind};
use crate::queue::{Ahead, CallQueue};
use crate::repeat::Repeats;
use crate::tool::ToolSpec;
use crate::tool_result::{ToolError, ToolErrorKind, ToolOutput};
use crate::trajectory::{StopReason, Trajectory};
use crate::window::Window;
use std::time::{Duration, Instant};

/// What each call of a reply counts besides its texts: about what its result and its records take.
const BYTES_PER_CALL: usize = 256;

/// One run of the loop. A driver asks [`Run::next`] what to do, does it, and reports what came of it, until
/// [`Next::Done`]. What there is to tell about it collects for [`Run::take_events`]. Time comes in as an argument.
#[derive(Debug)]
pub struct Run {
    bounds: Bounds,
    started: Instant,
    /// What the user said last.
    prompt: String,
    book: Book,
    /// Calls of the last reply that have no result yet.
    queue: CallQueue,
    repeats: Repeats,
    window: Window,
    /// Calls that were answered otherwise than as not run.
    calls: usize,
    /// Errors since the last success.
    errors: usize,
    /// Since when the model has been asked.
    asked: Option<Instant>,
    stop: Option<StopReason>,
    answer: Option<String>,
}

/// What a driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask the model with [`Run::conversation`], then report with [`Run::replied`].
    CallModel,
    /// Ask somebody about this call, then report with [`Run::decided`], or with [`Run::finished`] if it cannot be run
    /// anyhow. Only after [`Run::ask_before_changes`].
    Approve(ToolCall),
    /// Run these calls, side by side if there are several, then report each with [`Run::finished`], in this order.
    RunTools(Vec<ToolCall>),
    /// The run is over; [`Run::into_trajectory`] tells why.
    Done,
}

impl Run {
    /// A run that starts now and goes on with a conversation.
    pub fn new(bounds: Bounds, conversation: Conversation, tools: &[ToolSpec], now: Instant) -> Self {
        let said = conversation.messages().iter().rev().find_map(|message| match message {
            Message::User(text) => Some(text.clone()),
            _ => None,
        });
        Run {
            started: now,
            prompt: said.unwrap_or_default(),
            queue: CallQueue::new(&bounds, tools),
            repeats: Repeats::new(&bounds),
            window: Window::new(&bounds, tools),
            calls: 0,
            errors: 0,
            asked: None,
            stop: None,
            answer: None,
            book: Book::new(conversation),
            bounds,
        }
    }

    /// Asks for approval before each call that changes something.
    pub fn ask_before_changes(&mut self) {
        self.queue.ask_before_changes();
    }

    /// When the wall-clock budget ends; `None` if that is beyond what the clock can express.
    pub fn deadline(&self) -> Option<Instant> {
        self.started.checked_add(self.bounds.wall)
    }

    /// The conversation so far. At [`Next::CallModel`] every call in it has its result.
    pub fn conversation(&self) -> &Conversation {
        &self.book.conversation
    }

    /// The number of replies so far.
    pub fn step(&self) -> usize {
        self.book.steps.len()
    }

    /// What has happened since the last call of this.
    pub fn take_events(&mut self) -> Vec<AgentEvent> {
        std::mem::take(&mut self.book.events)
    }

    /// What to do next. Every bound is looked at before every call of the model and of a tool.
    pub fn next(&mut self, now: Instant) -> Next {
        if self.stop.is_none() && !self.queue.is_running() {
            self.check_bounds(now);
        }
        while self.stop.is_none() {
            let left_of_reply = self.bounds.max_calls_per_reply.saturating_sub(self.book.calls_answered());
            let left_of_run = self.bounds.max_calls.saturating_sub(self.calls);
            match self.queue.next(&self.repeats, self.book.steps.len(), left_of_reply.min(left_of_run)) {
                Ahead::Nothing => return self.ask_model(now),
                Ahead::Approve(call) => return Next::Approve(call),
                Ahead::Run { calls, newly } => return self.run_tools(calls, newly),
                Ahead::NoneLeft if left_of_reply == 0 => self.skip_all(&NotRun::CallsPerReply),
                Ahead::NoneLeft => self.stop(StopReason::MaxCalls, &NotRun::Calls),
                Ahead::Twin => self.skip(&NotRun::Twin),
                Ahead::Loop => self.stop(StopReason::Looped, &NotRun::Repeated),
            }
        }
        Next::Done
    }

    /// Takes the model's reply. Without [`Next::CallModel`] nothing happens.
    pub fn replied(&mut self, reply: Result<Reply, ModelError>, now: Instant) {
        let Some(asked) = self.asked.take().filter(|_| self.stop.is_none()) else { return };
        let elapsed = now.saturating_duration_since(asked);
        match reply {
            Ok(reply) if self.is_flood(&reply) => self.stop = Some(StopReason::Flooded),
            Ok(reply) => self.take_reply(reply, elapsed, now),
            Err(_) if self.is_late(now) => self.stop(StopReason::WallClock, &NotRun::Wall),
            Err(ModelError { kind: ModelErrorKind::ContextOverflow, message }) => {
                let trimmed = self.window.overflowed(&mut self.book.conversation);
                if !self.book.trimmed(trimmed) {
                    self.stop = Some(StopReason::ContextOverflow(message));
                }
            }
            Err(error) => self.stop = Some(StopReason::ModelFailed(error.message)),
        }
    }

    /// Takes the answer about the call of [`Next::Approve`]. Without one nothing happens, but for a stop.
    pub fn decided(&mut self, decision: Decision) {
        match decision {
            _ if self.stop.is_some() => {}
            Decision::Allow => self.queue.approve(),
            Decision::Deny(reason) => {
                let message = format!("refused: the call was not approved: {reason}");
                self.finished(Err(ToolError::new(ToolErrorKind::Refused, message)), Duration::ZERO);
            }
            Decision::Stop => self.stop(StopReason::StoppedAtApproval, &NotRun::Stopped),
        }
    }

    /// Takes the result of the next call that [`Run::next`] handed out. Without such a call nothing happens.
    pub fn finished(&mut self, result: Result<ToolOutput, ToolError>, elapsed: Duration) {
        let Some(call) = self.queue.take_answered() else { return };
        self.count(&result);
        let mut result = clip_result(result, self.bounds.max_result_bytes);
        let is_error = result.is_err();
        let text = result.as_mut().map_or_else(|error| &mut error.message, |output| &mut output.text);
        let key = self.repeats.key(&call);
        let advised = self.repeats.note(key, is_error, text, self.book.steps.len());
        if advised {
            text.push_str("\n\n");
            text.push_str(&self.bounds.advice());
        }
        let call_id = call.id.clone();
        self.book.result(call, result, elapsed);
        if advised {
            self.book.events.push(AgentEvent::Advised { call_id, times: self.bounds.repeat_limit.max(1) });
        }
    }

    /// Ends the run as cancelled; calls that wait are not run.
    pub fn cancel(&mut self) {
        if self.stop.is_none() {
            self.stop(StopReason::Cancelled, &NotRun::Cancelled);
        }
    }

    /// Ends the run because its transcript could not be written. What [`Run::next`] handed out last must not have been
    /// begun.
    pub fn unrecorded(&mut self, why: String) {
        if self.stop.is_none() {
            self.queue.take_back();
            self.stop(StopReason::Unrecorded(why.clone()), &NotRun::Unrecorded(why));
        }
    }

    /// What happened. A run that is not over counts as cancelled.
    pub fn into_trajectory(mut self, now: Instant) -> Trajectory {
        self.cancel();
        Trajectory {
            prompt: self.prompt,
            steps: self.book.steps,
            stop: self.stop.unwrap_or(StopReason::Cancelled),
            answer: self.answer,
            tokens: self.window.reported(),
            elapsed: now.saturating_duration_since(self.started),
            conversation: self.book.conversation,
        }
    }

    fn is_late(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    fn is_flood(&self, reply: &Reply) -> bool {
        reply_size(reply) + reply.calls.len() * BYTES_PER_CALL > self.bounds.max_reply_bytes
    }

    fn check_bounds(&mut self, now: Instant) {
        if self.is_late(now) {
            self.stop(StopReason::WallClock, &NotRun::Wall);
        } else if self.book.steps.len() >= self.bounds.max_steps {
            self.stop(StopReason::MaxSteps, &NotRun::Steps);
        } else if self.window.spent() >= self.bounds.max_tokens {
            self.stop(StopReason::MaxTokens, &NotRun::Tokens);
        } else if self.errors >= self.bounds.max_consecutive_errors.max(1) {
            self.stop(StopReason::TooManyErrors, &NotRun::Errors);
        }
    }

    fn ask_model(&mut self, now: Instant) -> Next {
        if self.asked.is_none() {
            let trimmed = self.window.fit(&mut self.book.conversation);
            self.book.trimmed(trimmed);
            self.asked = Some(now);
            self.book.events.push(AgentEvent::StepStarted { step: self.book.steps.len() + 1 });
        }
        Next::CallModel
    }

    /// The first of the calls were handed out before, so they were told of already.
    fn run_tools(&mut self, calls: Vec<ToolCall>, newly: usize) -> Next {
        for call in &calls[calls.len() - newly..] {
            self.book.begun(call, self.queue.mutates(call));
        }
        Next::RunTools(calls)
    }

    fn take_reply(&mut self, mut reply: Reply, elapsed: Duration, now: Instant) {
        self.book.conversation.make_unique(&mut reply.calls);
        self.window.count(&self.book.conversation, &reply);
        self.queue.fill(&reply.calls);
        self.book.reply(reply.clone(), elapsed);
        match &reply.finish {
            Finish::Refused => self.stop(StopReason::Refused, &NotRun::Declined),
            Finish::Cut(reason) if reply.calls.is_empty() => {
                self.stop = Some(StopReason::Cut(reason.clone()))
            }
            Finish::Cut(reason) => self.skip_all(&NotRun::Cut(reason.clone())),
            Finish::Done if reply.calls.is_empty() => self.conclude(reply.text, now),
            Finish::Done => {}
        }
    }

    /// A reply without calls ends the run.
    fn conclude(&mut self, text: String, now: Instant) {
        self.stop = Some(match text.trim().is_empty() {
            _ if self.is_late(now) => StopReason::WallClock,
            true => StopReason::NoAnswer,
            false => {
                self.answer = Some(text);
                StopReason::Answered
            }
        });
    }

    /// Ends the run; every call that waits is answered with the reason.
    fn stop(&mut self, stop: StopReason, why: &NotRun) {
        self.stop = Some(stop);
        while self.queue.is_running() {
            let Some(call) = self.queue.take() else { break };
            let message = format!("`{}` was begun and was not waited for", call.name);
            self.book.result(call, Err(ToolError::new(ToolErrorKind::Abandoned, message)), Duration::ZERO);
        }
        self.skip_all(why);
    }

    fn skip_all(&mut self, why: &NotRun) {
        while !self.queue.is_empty() {
            self.skip(why);
        }
    }

    fn skip(&mut self, why: &NotRun) {
        if let Some(call) = self.queue.take() {
            let error = ToolError::new(ToolErrorKind::NotRun, self.bounds.message(why));
            self.book.result(call, Err(error), Duration::ZERO);
        }
    }

    fn count(&mut self, result: &Result<ToolOutput, ToolError>) {
        if result.as_ref().is_err_and(|error| error.kind == ToolErrorKind::NotRun) {
            return;
        }
        self.calls += 1;
        self.errors = if result.is_err() { self.errors + 1 } else { 0 };
    }
}

fn clip_result(result: Result<ToolOutput, ToolError>, max: usize) -> Result<ToolOutput, ToolError> {
    match result {
        Ok(output) => Ok(ToolOutput { text: clip(&output.text, max).into_owned(), ..output }),
        Err(error) => Err(ToolError { message: clip(&error.message, max).into_owned(), ..error }),
    }
}
