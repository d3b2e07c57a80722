//! Shows a run line by line, live or as it was recorded.
//!
//! Each line begins with a word and a bar, or with spaces and a bar where the text before it goes on. What model, tools
//! and servers say stands behind the bar, so that it cannot pass for a line of this program.

use crate::paint::{Paint, Tone};
use crate::plain::{one_line, prose};
use crate::words;
use agentkit_agent::model::{Reply, ToolCall};
use agentkit_agent::{AgentEvent, Decision, StopReason};
use std::io::{self, LineWriter, Write};
use std::time::Duration;

/// Characters of a call's arguments, and of one line of a result.
const MAX_LINE: usize = 300;
/// Characters of what a server says.
const MAX_REASON: usize = 2000;
/// Lines of a result: the first and the last.
const HEAD: usize = 8;
const TAIL: usize = 4;
/// Lines of a call that somebody is asked about. He should see all of it, but not past the beginning.
const MAX_QUESTION: usize = 200;

/// Where a run is shown.
pub(crate) struct Screen<W: Write> {
    out: LineWriter<W>,
    paint: Paint,
    /// Pieces of a line are shown as they come, and not with its end.
    by_pieces: bool,
    /// What the open or last line belongs to, if that can go on.
    voice: Option<Voice>,
    /// There is a line without its end.
    is_open: bool,
    /// What was streamed of the reply under way.
    thinking: String,
    text: String,
    /// Calls of the last reply that were not begun.
    waiting: Vec<ToolCall>,
    shown_reply: Option<String>,
    steps: usize,
    calls: usize,
}

/// What a model says in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Thinking,
    Text,
}

impl Voice {
    fn label(self) -> (&'static str, Tone) {
        match self {
            Voice::Thinking => ("think", Tone::Faint),
            Voice::Text => ("text", Tone::Plain),
        }
    }
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(out: W, paint: Paint, by_pieces: bool) -> Self {
        Screen {
            out: LineWriter::new(out),
            paint,
            by_pieces,
            voice: None,
            is_open: false,
            thinking: String::new(),
            text: String::new(),
            waiting: Vec::new(),
            shown_reply: None,
            steps: 0,
            calls: 0,
        }
    }

    /// Shows one event.
    pub(crate) fn hear(&mut self, event: &AgentEvent) -> io::Result<()> {
        match event {
            AgentEvent::RunStarted { model, tools, dry_run, system, prompt } => {
                let dry_run = if *dry_run { "; a dry run: nothing is changed" } else { "" };
                let tools = if tools.is_empty() { "none" } else { &tools.join(", ") };
                (self.steps, self.calls) = (0, 0);
                self.say("run", Tone::Faint, &format!("model {model}; tools {tools}{dry_run}"))?;
                system.iter().try_for_each(|text| self.say("system", Tone::Faint, text))?;
                prompt.iter().try_for_each(|text| self.say("user", Tone::Plain, text))
            }
            AgentEvent::StepStarted { step } => {
                self.forget_pieces();
                self.say("step", Tone::Faint, &step.to_string())
            }
            AgentEvent::TextDelta(text) => self.piece(Voice::Text, text),
            AgentEvent::ReasoningDelta(text) => self.piece(Voice::Thinking, text),
            AgentEvent::Retrying { attempt, wait, why } => self.retry(*attempt, *wait, why),
            AgentEvent::Replied { reply, elapsed, .. } => self.reply(reply, *elapsed),
            AgentEvent::HistoryTrimmed { results, messages } => {
                let what = format!("{results} results and {messages} messages are left out from now on");
                self.say("trim", Tone::Doubtful, &format!("near the end of the model's window: {what}"))
            }
            AgentEvent::ApprovalAsked { name, arguments, .. } => self.call("ask", name, arguments),
            AgentEvent::ApprovalAnswered { decision, .. } => match decision {
                Decision::Allow => self.say("answer", Tone::Good, "yes"),
                Decision::Deny(reason) => self.say("answer", Tone::Bad, &format!("no: {reason}")),
                Decision::Stop => self.say("answer", Tone::Bad, "no, and the run stops"),
            },
            AgentEvent::ToolStarted { call_id, name, arguments, .. } => {
                self.waiting.retain(|call| call.id != *call_id);
                self.call("call", name, arguments)
            }
            AgentEvent::ToolFinished { call_id, name, text, error, elapsed, .. } => {
                if let Some(at) = self.waiting.iter().position(|call| call.id == *call_id) {
                    let call = self.waiting.remove(at);
                    self.call("call", &call.name, &call.arguments)?;
                }
                self.calls += 1;
                self.result(name, text, error.is_some(), *elapsed)
            }
            AgentEvent::Advised { times, .. } => {
                let advice = format!(
                    "the same call has returned the same result {times} times; once more ends the run"
                );
                self.say("advice", Tone::Doubtful, &advice)
            }
            AgentEvent::Warning(text) => self.say("warn", Tone::Doubtful, &one_line(text, MAX_REASON)),
            AgentEvent::Stopped { stop, tokens, elapsed, .. } => self.stop(stop, *tokens, *elapsed),
            _ => self.say("later", Tone::Faint, "something that only a later version of agentkit knows"),
        }
    }

    /// Whether a reader of this screen has seen this text as the last reply.
    pub(crate) fn has_shown(&self, answer: &str) -> bool {
        self.shown_reply.as_deref() == Some(answer)
    }

    /// Lines under a label of its own.
    pub(crate) fn say(&mut self, label: &str, tone: Tone, text: &str) -> io::Result<()> {
        self.end_line()?;
        self.voice = None;
        let mut label = label;
        for line in prose(text.trim_end()).split('\n') {
            let (word, line) =
                (self.paint.tone(tone, &format!("{label:<6}")), self.paint.tone(body(tone), line));
            writeln!(self.out, "{word} | {line}")?;
            label = "";
        }
        self.out.flush()
    }

    /// The whole of a call, for somebody who is asked about it, and the question.
    pub(crate) fn question(&mut self, call: &ToolCall, question: &str) -> io::Result<()> {
        let lines = words::arguments(&call.arguments);
        let shown = lines.len().min(MAX_QUESTION);
        for line in &lines[..shown] {
            self.say("", Tone::Plain, &prose(line))?;
        }
        if let hidden @ 1.. = lines.len() - shown {
            self.say("", Tone::Bad, &format!("[{hidden} lines more, which are not shown]"))?;
        }
        write!(self.out, "{} | {question} ", self.paint.tone(Tone::Call, "  ?   "))?;
        self.is_open = true;
        self.out.flush()
    }

    /// The user has ended the line of the question.
    pub(crate) fn answered(&mut self) {
        self.is_open = false;
    }

    fn piece(&mut self, voice: Voice, text: &str) -> io::Result<()> {
        match voice {
            Voice::Thinking => self.thinking.push_str(text),
            Voice::Text => self.text.push_str(text),
        }
        if self.voice != Some(voice) {
            self.end_line()?;
        }
        let (word, tone) = voice.label();
        for line in text.split_inclusive('\n') {
            if !self.is_open {
                let label = if self.voice == Some(voice) { "" } else { word };
                write!(self.out, "{} | ", self.paint.tone(tone, &format!("{label:<6}")))?;
            }
            (self.voice, self.is_open) = (Some(voice), !line.ends_with('\n'));
            let shown = self.paint.tone(tone, &prose(line.trim_end_matches('\n')));
            write!(self.out, "{shown}{}", if self.is_open { "" } else { "\n" })?;
        }
        if self.by_pieces { self.out.flush() } else { Ok(()) }
    }

    fn retry(&mut self, attempt: u32, wait: Duration, why: &str) -> io::Result<()> {
        let was_heard = !(self.text.is_empty() && self.thinking.is_empty());
        self.forget_pieces();
        let void = if was_heard { "what was said of this reply does not count; " } else { "" };
        let why = one_line(why, MAX_REASON);
        self.say(
            "retry",
            Tone::Doubtful,
            &format!("{void}attempt {attempt} in {}: {why}", words::seconds(wait)),
        )
    }

    /// What was streamed is not repeated. It may be more than the reply, from which calls in words are taken out.
    fn reply(&mut self, reply: &Reply, elapsed: Duration) -> io::Result<()> {
        let thinking = reply.reasoning.as_deref().unwrap_or_default().trim();
        if !self.thinking.contains(thinking) {
            self.say("think", Tone::Faint, thinking)?;
        }
        let text = reply.text.trim();
        if !self.text.contains(text) {
            self.say("text", Tone::Plain, text)?;
        }
        self.steps += 1;
        self.waiting.clone_from(&reply.calls);
        self.shown_reply = Some(reply.text.clone());
        let tokens = reply.tokens.map(|tokens| format!("{tokens} tokens, ")).unwrap_or_default();
        self.say("reply", Tone::Faint, &format!("{tokens}{}", words::seconds(elapsed)))
    }

    fn call(&mut self, label: &str, name: &str, arguments: &str) -> io::Result<()> {
        let line = format!("{} {}", one_line(name, 64), one_line(arguments, MAX_LINE));
        self.say(label, Tone::Call, &line)
    }

    fn result(&mut self, name: &str, text: &str, is_error: bool, elapsed: Duration) -> io::Result<()> {
        let (label, tone) = if is_error { ("error", Tone::Bad) } else { ("result", Tone::Good) };
        let head = format!("{}, {}:", one_line(name, 64), words::seconds(elapsed));
        match &clip(text)[..] {
            [line] => self.say(label, tone, &format!("{head} {line}")),
            lines => self.say(label, tone, &format!("{head}\n{}", lines.join("\n"))),
        }
    }

    fn stop(&mut self, stop: &StopReason, tokens: Option<u64>, elapsed: Duration) -> io::Result<()> {
        let tone = match stop {
            StopReason::Answered => Tone::Good,
            StopReason::Cancelled | StopReason::StoppedAtApproval => Tone::Doubtful,
            _ => Tone::Bad,
        };
        let steps = words::count(self.steps, "step");
        let calls = words::count(self.calls, "call");
        let tokens = tokens.map_or("tokens unknown".to_owned(), |tokens| format!("{tokens} tokens"));
        let (why, elapsed) = (words::stop(stop), words::seconds(elapsed));
        let reason = words::reason(stop).map(|reason| format!("\n{}", one_line(reason, MAX_REASON)));
        let reason = reason.unwrap_or_default();
        self.say("stop", tone, &format!("{why}: {steps}, {calls}, {tokens}, {elapsed}{reason}"))
    }

    fn forget_pieces(&mut self) {
        self.thinking.clear();
        self.text.clear();
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_open) { writeln!(self.out) } else { Ok(()) }
    }
}

/// Only what is of little weight is painted beyond its label.
fn body(tone: Tone) -> Tone {
    if tone == Tone::Faint { Tone::Faint } else { Tone::Plain }
}

/// The first and the last lines of a result, none too long.
fn clip(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let short = |line: &&str| one_line(&line.replace('\t', "    "), MAX_LINE);
    if lines.len() <= HEAD + TAIL + 1 {
        return if lines.is_empty() { vec!["(empty)".to_owned()] } else { lines.iter().map(short).collect() };
    }
    let (head, rest) = lines.split_at(HEAD);
    let (left_out, tail) = rest.split_at(rest.len() - TAIL);
    let note = format!("[... {} lines ...]", left_out.len());
    head.iter().map(short).chain([note]).chain(tail.iter().map(short)).collect()
}

#[cfg(test)]
mod tests;
