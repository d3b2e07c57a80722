//! One reply in the making. Whole messages and the pieces of a stream go into the same draft.

use super::calls::Calls;
use super::literal::Decoder;
use super::node::Node;
use super::thinking::{Parted, Thinking};
use crate::clip::excerpt;
use crate::listed::Listed;
use crate::model::{Finish, Reply};

/// More notes about one response are counted, not listed.
const MAX_NOTES: usize = 10;

/// A response, made sense of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// The reply. A call id that the server left out is empty.
    pub reply: Reply,
    /// Tokens of the prompt alone, if reported.
    pub prompt_tokens: Option<u64>,
    /// What was odd about the response.
    pub notes: Vec<String>,
    /// Whether it is a stream that ended before the reply did.
    pub breaks_off: bool,
}

/// What a piece of a stream adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// To the text.
    Text(String),
    /// To the thinking.
    Reasoning(String),
}

/// Whether a message is all there is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Extent {
    Whole,
    Piece,
}

/// What was said so far.
#[derive(Debug)]
pub(super) struct Draft {
    content: Decoder,
    thinking: Thinking,
    text: String,
    reasons: Decoder,
    reasoning: String,
    refuses: Decoder,
    refusal: String,
    calls: Calls,
    legacy: Calls,
    finish_reason: Option<String>,
    prompt_tokens: Option<u64>,
    tokens: Option<u64>,
    notes: Listed,
}

impl Default for Draft {
    fn default() -> Self {
        Draft {
            content: Decoder::default(),
            thinking: Thinking::default(),
            text: String::new(),
            reasons: Decoder::default(),
            reasoning: String::new(),
            refuses: Decoder::default(),
            refusal: String::new(),
            calls: Calls::default(),
            legacy: Calls::default(),
            finish_reason: None,
            prompt_tokens: None,
            tokens: None,
            notes: Listed::new(MAX_NOTES),
        }
    }
}

impl Draft {
    /// Whether a reason to finish was given.
    pub(super) fn has_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Whether nothing was said yet.
    pub(super) fn is_empty(&self) -> bool {
        let texts = [&self.text, &self.reasoning, &self.refusal];
        texts.iter().all(|text| text.is_empty()) && self.calls.is_empty() && self.legacy.is_empty()
    }

    /// Takes what a choice says about its end.
    pub(super) fn add_finish(&mut self, choice: &Node<'_>) {
        let reason = choice.member("finish_reason").and_then(|reason| reason.text());
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(reason);
        }
    }

    /// Takes the tokens used; what is said last counts.
    pub(super) fn add_usage(&mut self, usage: &Node<'_>) {
        let count = |name: &str| usage.member(name).and_then(|count| count.count());
        self.prompt_tokens = count("prompt_tokens");
        let sum = || self.prompt_tokens?.checked_add(count("completion_tokens")?);
        // Servers that do not count say zero, which no reply can cost.
        self.tokens = count("total_tokens").or_else(sum).filter(|tokens| *tokens > 0);
    }

    /// Takes a message or a piece of one.
    ///
    /// # Errors
    /// If there are too many calls.
    pub(super) fn add_message(
        &mut self,
        message: &Node<'_>,
        extent: Extent,
        heard: &mut dyn FnMut(Delta),
    ) -> Result<(), String> {
        let reasoning = ["reasoning_content", "reasoning"].iter().find_map(|name| {
            message.member(name).filter(|said| said.type_name() == "string" && said.raw() != "\"\"")
        });
        if let Some(said) = reasoning {
            let said = self.reasons.push(&said, &mut self.notes);
            self.think(said, heard);
        }
        if let Some(content) = message.member("content") {
            self.add_content(&content, heard);
        }
        if let Some(said) = message.member("refusal").filter(|said| said.type_name() == "string") {
            self.refusal += &self.refuses.push(&said, &mut self.notes);
        }
        let calls = message.member("tool_calls").map(|calls| calls.items()).unwrap_or_default();
        match extent {
            Extent::Whole => self.calls.add_all(&calls)?,
            Extent::Piece => calls.iter().try_for_each(|call| self.calls.add_piece(call))?,
        }
        message.member("function_call").map_or(Ok(()), |function| self.legacy.add_legacy(&function))
    }

    /// Content may come in parts, which do not nest.
    fn add_content(&mut self, content: &Node<'_>, heard: &mut dyn FnMut(Delta)) {
        if content.type_name() != "array" {
            return self.add_text(content, heard);
        }
        for part in content.items() {
            match part.member("text") {
                Some(text) => self.add_text(&text, heard),
                None => self.skip(&part),
            }
        }
    }

    fn skip(&mut self, part: &Node<'_>) {
        // Named as a whole or not at all: of a secret cut in two, nobody could tell that it is one.
        let kind = part.member("type").and_then(|kind| kind.text()).filter(|kind| kind.chars().count() <= 40);
        self.notes.push(|| match kind {
            Some(kind) => format!("a part of the content was skipped: {}", excerpt(&kind, 40)),
            None => format!("a part of the content was skipped ({})", part.type_name()),
        });
    }

    fn add_text(&mut self, text: &Node<'_>, heard: &mut dyn FnMut(Delta)) {
        let text = self.content.push(text, &mut self.notes);
        let parted = self.thinking.push(&text);
        self.add_parted(parted, heard);
    }

    fn add_parted(&mut self, Parted { thinking, answer }: Parted, heard: &mut dyn FnMut(Delta)) {
        self.think(thinking, heard);
        if !answer.is_empty() {
            self.text.push_str(&answer);
            heard(Delta::Text(answer));
        }
    }

    fn think(&mut self, said: String, heard: &mut dyn FnMut(Delta)) {
        if !said.is_empty() {
            self.reasoning.push_str(&said);
            heard(Delta::Reasoning(said));
        }
    }

    /// The end: what was held back is as it is.
    pub(super) fn finish(mut self, heard: &mut dyn FnMut(Delta)) -> Response {
        let rest = self.reasons.finish(&mut self.notes);
        self.think(rest, heard);
        let rest = self.content.finish(&mut self.notes);
        let parted = self.thinking.push(&rest);
        self.add_parted(parted, heard);
        let parted = std::mem::take(&mut self.thinking).finish();
        self.add_parted(parted, heard);
        self.refusal += &self.refuses.finish(&mut self.notes);
        self.into_response()
    }

    fn into_response(self) -> Response {
        let calls = if self.calls.is_empty() { self.legacy } else { self.calls };
        let (refused, mut text) = (!self.refusal.is_empty(), self.text);
        if refused && text.is_empty() {
            text = self.refusal;
        }
        let reply = Reply {
            text,
            calls: calls.into_calls(),
            finish: if refused { Finish::Refused } else { finish(self.finish_reason) },
            tokens: self.tokens,
            reasoning: Some(self.reasoning).filter(|reasoning| !reasoning.is_empty()),
        };
        let (prompt_tokens, notes) = (self.prompt_tokens, self.notes.into_items());
        Response { reply, prompt_tokens, notes, breaks_off: false }
    }
}

/// Reasons by which a reply is not whole, as endpoints name them, in lower case and up to a colon: OpenAI's first two,
/// Anthropic's, Mistral's, DeepSeek's, Zhipu's, Gemini's, and those of vLLM and SGLang.
const CUTS: [&str; 19] = [
    "length",
    "content_filter",
    "max_tokens",
    "max_output_tokens",
    "model_context_window_exceeded",
    "model_length",
    "error",
    "insufficient_system_resource",
    "sensitive",
    "network_error",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "function_call_filter",
    "abort",
    "aborted",
    "cancelled",
    "timeout",
];

/// Whether there are calls is told by the calls, so `stop` and `tool_calls` mean the same.
fn finish(reason: Option<String>) -> Finish {
    let is_cut = |reason: &String| {
        let name = reason.split(':').next().unwrap_or_default();
        CUTS.contains(&name.trim().to_ascii_lowercase().as_str())
    };
    reason.filter(is_cut).map_or(Finish::Done, Finish::Cut)
}
