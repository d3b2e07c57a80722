//! The loop as a state machine without input or output: it says what comes next and is told what came of it.

use crate::bounds::{Bounds, NotRun};
use crate::clip::clip;
use crate::model::{Finish, Message, ModelError, ModelErrorKind, Reply, ToolCall};
use crate::repeat::{Repeats, Verdict};
use crate::tool::{ToolError, ToolErrorKind, ToolOutput, ToolSpec};
use crate::trajectory::{CallRecord, Step, StopReason, Trajectory};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One run of the loop. A driver asks [`Run::next`] what to do, does it, and reports with [`Run::replied`] or
/// [`Run::finished`], until [`Next::Done`]. Time comes in as an argument.
#[derive(Debug)]
pub struct Run {
    bounds: Bounds,
    started: Instant,
    prompt: String,
    /// Shared with a call of the model under way, and only then copied by a change.
    messages: Arc<Vec<Message>>,
    steps: Vec<Step>,
    /// Calls of the last reply that have no result yet.
    waiting: VecDeque<ToolCall>,
    ids: Ids,
    repeats: Repeats,
    tokens: Tokens,
    stop: Option<StopReason>,
    answer: Option<String>,
}

/// What a driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask the model with [`Run::messages`], then report with [`Run::replied`].
    CallModel,
    /// Run this call, then report with [`Run::finished`].
    RunTool(ToolCall),
    /// The run is over; [`Run::into_trajectory`] tells why.
    Done,
}

/// Tokens used so far.
#[derive(Debug, Default)]
struct Tokens {
    /// Reported where known, estimated elsewhere.
    spent: u64,
    /// The sum as reported, unless a reply lacked it.
    reported: Option<u64>,
    /// Bytes of the descriptions of the tools, sent with every request.
    overhead: usize,
}

/// Call ids so far.
#[derive(Debug, Default)]
struct Ids {
    taken: HashSet<String>,
    /// The number of the last one made up. It only grows: to count from one again for each would take n * n steps.
    made_up: usize,
}

impl Run {
    /// A run that starts now.
    pub fn new(bounds: Bounds, system: Option<&str>, prompt: &str, tools: &[ToolSpec], now: Instant) -> Self {
        let system = system.map(|text| Message::System(text.to_owned()));
        let messages = system.into_iter().chain([Message::User(prompt.to_owned())]).collect();
        let overhead =
            tools.iter().map(|t| t.name.len() + t.description.len() + t.parameters.to_string().len()).sum();
        Run {
            repeats: Repeats::new(&bounds),
            bounds,
            started: now,
            prompt: prompt.to_owned(),
            messages: Arc::new(messages),
            steps: Vec::new(),
            waiting: VecDeque::new(),
            ids: Ids::default(),
            tokens: Tokens { spent: 0, reported: Some(0), overhead },
            stop: None,
            answer: None,
        }
    }

    /// When the wall-clock budget ends; `None` if that is beyond what the clock can express.
    pub fn deadline(&self) -> Option<Instant> {
        self.started.checked_add(self.bounds.wall)
    }

    /// The conversation so far. At [`Next::CallModel`] every call in it has its result.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The same for a call that may outlive the run.
    pub(crate) fn shared_messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// The number of replies so far.
    pub fn step(&self) -> usize {
        self.steps.len()
    }

    /// What to do next. Every bound is looked at before every call of the model and of a tool.
    pub fn next(&mut self, now: Instant) -> Next {
        if self.stop.is_none() {
            self.check_bounds(now);
        }
        while self.stop.is_none() {
            let Some(call) = self.waiting.front() else { return Next::CallModel };
            if self.calls_answered() >= self.bounds.max_calls_per_reply {
                self.skip_all(&NotRun::Calls);
                continue;
            }
            match self.repeats.judge(call, self.steps.len()) {
                Verdict::Run => return Next::RunTool(call.clone()),
                Verdict::Skip => self.skip(&NotRun::Twin),
                Verdict::Stop => self.stop(StopReason::Looped, &NotRun::Repeated),
            }
        }
        Next::Done
    }

    /// Takes the model's reply.
    pub fn replied(&mut self, reply: Result<Reply, ModelError>, now: Instant) {
        match reply {
            Ok(reply) => self.take_reply(reply, now),
            Err(_) if self.is_late(now) => self.stop(StopReason::WallClock, &NotRun::Wall),
            Err(ModelError { kind: ModelErrorKind::ContextOverflow, message }) => {
                self.stop = Some(StopReason::ContextOverflow(message));
            }
            Err(error) => self.stop = Some(StopReason::ModelFailed(error.message)),
        }
    }

    /// Takes the result of the call that [`Run::next`] handed out last. Without such a call nothing happens.
    pub fn finished(&mut self, result: Result<ToolOutput, ToolError>, elapsed: Duration) {
        let Some(call) = self.waiting.pop_front() else { return };
        let mut result = self.clipped(result);
        let is_error = result.is_err();
        let text = result.as_mut().map_or_else(|error| &mut error.message, |output| &mut output.text);
        if self.repeats.note(&call, is_error, text, self.steps.len()) {
            text.push_str("\n\n");
            text.push_str(&self.bounds.advice());
        }
        self.record(call, result, elapsed);
    }

    /// Ends the run as cancelled; calls that wait are not run.
    pub fn cancel(&mut self) {
        if self.stop.is_none() {
            self.stop(StopReason::Cancelled, &NotRun::Cancelled);
        }
    }

    /// What happened. A run that is not over counts as cancelled.
    pub fn into_trajectory(mut self, now: Instant) -> Trajectory {
        self.cancel();
        Trajectory {
            prompt: self.prompt,
            steps: self.steps,
            stop: self.stop.unwrap_or(StopReason::Cancelled),
            answer: self.answer,
            tokens: self.tokens.reported,
            elapsed: now.saturating_duration_since(self.started),
        }
    }

    /// Of the last reply.
    fn calls_answered(&self) -> usize {
        self.steps.last().map_or(0, |step| step.calls.len())
    }

    fn is_late(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    fn check_bounds(&mut self, now: Instant) {
        if self.is_late(now) {
            self.stop(StopReason::WallClock, &NotRun::Wall);
        } else if self.steps.len() >= self.bounds.max_steps {
            self.stop(StopReason::MaxSteps, &NotRun::Steps);
        } else if self.tokens.spent >= self.bounds.max_tokens {
            self.stop(StopReason::MaxTokens, &NotRun::Tokens);
        }
    }

    fn take_reply(&mut self, mut reply: Reply, now: Instant) {
        for call in &mut reply.calls {
            call.id = self.ids.unique(&call.id);
        }
        self.tokens.add(&self.messages, &reply);
        self.waiting = reply.calls.iter().cloned().collect();
        self.say(Message::Assistant(reply.clone()));
        self.steps.push(Step { reply: reply.clone(), calls: Vec::new() });
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
        self.skip_all(why);
    }

    fn skip_all(&mut self, why: &NotRun) {
        while !self.waiting.is_empty() {
            self.skip(why);
        }
    }

    fn skip(&mut self, why: &NotRun) {
        if let Some(call) = self.waiting.pop_front() {
            let error = ToolError::new(ToolErrorKind::NotRun, self.bounds.message(why));
            self.record(call, Err(error), Duration::ZERO);
        }
    }

    /// The only place where a result is written: once for each call that leaves the queue.
    fn record(&mut self, call: ToolCall, result: Result<ToolOutput, ToolError>, elapsed: Duration) {
        let (text, is_error) = match &result {
            Ok(output) => (output.text.clone(), false),
            Err(error) => (error.message.clone(), true),
        };
        self.say(Message::Tool { call_id: call.id.clone(), text, is_error });
        if let Some(step) = self.steps.last_mut() {
            step.calls.push(CallRecord { call, result, elapsed });
        }
    }

    fn say(&mut self, message: Message) {
        Arc::make_mut(&mut self.messages).push(message);
    }

    fn clipped(&self, result: Result<ToolOutput, ToolError>) -> Result<ToolOutput, ToolError> {
        let max = self.bounds.max_result_bytes;
        match result {
            Ok(output) => Ok(ToolOutput { text: clip(&output.text, max).into_owned(), ..output }),
            Err(error) => Err(ToolError { message: clip(&error.message, max).into_owned(), ..error }),
        }
    }
}

impl Tokens {
    fn add(&mut self, messages: &[Message], reply: &Reply) {
        let estimate = || {
            (messages.iter().map(size).sum::<usize>() + reply_size(reply) + self.overhead).div_ceil(4) as u64
        };
        self.spent = self.spent.saturating_add(reply.tokens.unwrap_or_else(estimate));
        self.reported = self.reported.zip(reply.tokens).map(|(sum, tokens)| sum.saturating_add(tokens));
    }
}

fn size(message: &Message) -> usize {
    match message {
        Message::System(text) | Message::User(text) => text.len(),
        Message::Assistant(reply) => reply_size(reply),
        Message::Tool { text, .. } => text.len(),
    }
}

fn reply_size(reply: &Reply) -> usize {
    let reasoning = reply.reasoning.as_ref().map_or(0, String::len);
    let calls: usize = reply.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    reply.text.len() + reasoning + calls
}

impl Ids {
    /// The id itself if it is new, otherwise one made up.
    fn unique(&mut self, id: &str) -> String {
        let mut unique = id.to_owned();
        while unique.trim().is_empty() || self.taken.contains(&unique) {
            self.made_up += 1;
            unique = format!("call_{}", self.made_up);
        }
        self.taken.insert(unique.clone());
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_unique_whatever_was_taken_before() {
        let mut ids = Ids::default();
        let given = ["", "call_1", "call_2", " ", "x", "x", "call_4"];
        let unique = given.map(|id| ids.unique(id));
        assert_eq!(unique, ["call_1", "call_2", "call_3", "call_4", "x", "call_5", "call_6"]);
    }
}
