//! Reads the body of a response as it comes.

use super::node::Node;
use super::reply::{Delta, Draft, Extent, Response};
use super::sse::{Event, Events};
use crate::model::Finish;

/// Why a stream ends that does not say so.
const NO_END: &str = "the stream ended before the reply did";
/// U+FEFF in UTF-8, which some editors and servers put in front of a text.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// A body that is being read. It tells by its beginning what it is: JSON and pages begin with `{`, `[` or `<`, and no
/// event does.
#[derive(Debug, Default)]
pub struct Body(State);

#[derive(Debug)]
enum State {
    /// Nothing that tells came so far.
    Beginning(Vec<u8>),
    Whole(Vec<u8>),
    Stream(Box<Stream>),
}

impl Default for State {
    fn default() -> Self {
        State::Beginning(Vec::new())
    }
}

#[derive(Debug, Default)]
struct Stream {
    events: Events,
    draft: Draft,
    /// Whether `[DONE]` was read.
    is_done: bool,
    /// All that came before the first event: a stream without one is something else.
    unread: Option<Vec<u8>>,
}

/// Why a body is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What kind of fault.
    pub kind: FaultKind,
    /// What is wrong, in the server's own words where it reports an error, at any length.
    pub message: String,
    /// The part of the body in which it is wrong, as it was sent.
    pub body: String,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The server reports an error in spite of a good status.
    Reported,
    /// The body is something else than a reply.
    Unreadable,
    /// A part of a stream is damaged.
    Garbled,
}

impl Body {
    /// A body of which nothing was read.
    pub fn new() -> Self {
        Body::default()
    }

    /// Takes the next bytes, and tells what they add if the body is a stream.
    ///
    /// # Errors
    /// If a stream reports an error or holds something else than a reply.
    pub fn push(&mut self, bytes: &[u8], heard: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        if let State::Beginning(begun) = &mut self.0 {
            begun.extend_from_slice(bytes);
            self.0 = recognise(begun);
            return match &mut self.0 {
                State::Stream(stream) => {
                    let begun = stream.unread.take().unwrap_or_default();
                    stream.unread = Some(Vec::new());
                    stream.push(&begun, heard)
                }
                State::Beginning(_) | State::Whole(_) => Ok(()),
            };
        }
        match &mut self.0 {
            State::Beginning(_) => Ok(()),
            State::Whole(body) => {
                body.extend_from_slice(bytes);
                Ok(())
            }
            State::Stream(stream) => stream.push(bytes, heard),
        }
    }

    /// Whether a stream has said that nothing follows.
    pub fn is_done(&self) -> bool {
        matches!(&self.0, State::Stream(stream) if stream.is_done)
    }

    /// Whether the body is a stream.
    pub fn is_stream(&self) -> bool {
        matches!(self.0, State::Stream(_))
    }

    /// The end of the body. A stream that breaks off is a reply that was cut: its calls must not be run.
    ///
    /// # Errors
    /// What the body is instead of a reply.
    pub fn finish(self, heard: &mut dyn FnMut(Delta)) -> Result<Response, Fault> {
        match self.0 {
            State::Beginning(body) => Err(Fault {
                kind: FaultKind::Garbled,
                message: "the body is empty".to_owned(),
                body: String::from_utf8_lossy(&body).into_owned(),
            }),
            State::Whole(body) => response(&String::from_utf8_lossy(&body)),
            State::Stream(stream) => stream.finish(heard),
        }
    }
}

fn recognise(begun: &[u8]) -> State {
    let text = without_blanks(begun).to_vec();
    match text.first() {
        None => State::Beginning(text),
        // The rest of the mark may be yet to come.
        Some(_) if MARK.starts_with(&text) => State::Beginning(text),
        Some(b'{' | b'[' | b'<') => State::Whole(text),
        Some(_) => State::Stream(Box::new(Stream { unread: Some(text), ..Stream::default() })),
    }
}

/// Without white space and marks of byte order in front.
fn without_blanks(mut text: &[u8]) -> &[u8] {
    loop {
        let shorter = text.trim_ascii_start();
        match shorter.strip_prefix(MARK) {
            Some(rest) => text = rest,
            None => return shorter,
        }
    }
}

impl Stream {
    fn push(&mut self, bytes: &[u8], heard: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        if let Some(unread) = &mut self.unread {
            unread.extend_from_slice(bytes);
        }
        self.events.push(bytes).iter().try_for_each(|event| self.take(event, heard))
    }

    fn take(&mut self, event: &Event, heard: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        let data = event.data.trim();
        if self.is_done || data.is_empty() {
            return Ok(());
        }
        self.unread = None;
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let fault = |kind, message: String| Fault { kind, message, body: data.to_owned() };
        let chunk = Node::parse(data).filter(|chunk| chunk.type_name() == "object");
        let is_error = event.kind == "error";
        let chunk = match chunk {
            Some(chunk) => chunk,
            None if is_error => return Err(fault(FaultKind::Reported, reported(data))),
            None => {
                let message = "the stream holds something else than JSON objects";
                return Err(fault(FaultKind::Garbled, message.to_owned()));
            }
        };
        let choices = chunk.member("choices").map(|choices| choices.items()).unwrap_or_default();
        // Of several replies to one request only one was asked for.
        let choice =
            choices.iter().find(|choice| choice.member("index").is_none_or(|index| index.raw() == "0"));
        let error = chunk.member("error").or_else(|| choice?.member("error"));
        if let Some(error) = error.or(is_error.then_some(chunk)) {
            let message = message_of(&error);
            return Err(Fault {
                kind: FaultKind::Reported,
                message: reported(&message),
                // In the form in which a whole body reports it.
                body: format!("{{\"error\":{}}}", error.raw()),
            });
        }
        if let Some(usage) = chunk.member("usage") {
            self.draft.add_usage(&usage);
        }
        let Some(choice) = choice else { return Ok(()) };
        // Some servers end a stream with the whole message, and some send nothing else.
        let whole = || choice.member("message").filter(|_| self.draft.is_empty()).zip(Some(Extent::Whole));
        if let Some((message, extent)) = choice.member("delta").zip(Some(Extent::Piece)).or_else(whole) {
            let added = self.draft.add_message(&message, extent, heard);
            added.map_err(|message| fault(FaultKind::Unreadable, message))?;
        }
        self.draft.add_finish(choice);
        Ok(())
    }

    fn finish(mut self, heard: &mut dyn FnMut(Delta)) -> Result<Response, Fault> {
        if let Some(event) = self.events.finish() {
            let taken = self.take(&event, heard);
            // A stream that broke off in the middle of its last event is incomplete, and not damaged.
            taken.or_else(|fault| if fault.kind == FaultKind::Garbled { Ok(()) } else { Err(fault) })?;
        }
        if let Some(unread) = self.unread {
            let body = String::from_utf8_lossy(&unread).into_owned();
            let message = "the body is neither JSON nor a stream of events".to_owned();
            return Err(Fault { kind: FaultKind::Unreadable, message, body });
        }
        // Either says that nothing is missing.
        let breaks_off = !self.is_done && !self.draft.has_finished();
        let mut response = Response { breaks_off, ..self.draft.finish(heard) };
        if breaks_off && response.reply.finish == Finish::Done {
            response.reply.finish = Finish::Cut(NO_END.to_owned());
        }
        Ok(response)
    }
}

/// Reads a body that came in one piece.
///
/// # Errors
/// What the body is instead of a reply: an error that the server reports in spite of the status, in its own words and
/// at any length, or something without the parts of a reply.
pub fn response(body: &str) -> Result<Response, Fault> {
    let fault = |kind, message: String| Fault { kind, message, body: body.to_owned() };
    if let Some(message) = error_message(body) {
        return Err(fault(FaultKind::Reported, reported(&message)));
    }
    whole(body).map_err(|message| fault(FaultKind::Unreadable, message))
}

fn whole(body: &str) -> Result<Response, String> {
    let root = Node::parse(body).ok_or("the body is not JSON")?;
    let choices = root.member("choices").map(|choices| choices.items()).unwrap_or_default();
    let choice = choices.first().ok_or("the body has no `choices`")?;
    let message = choice.member("message").ok_or("the choice has no `message`")?;
    let mut draft = Draft::default();
    let heard = &mut |_| {};
    draft.add_message(&message, Extent::Whole, heard)?;
    draft.add_finish(choice);
    if let Some(usage) = root.member("usage") {
        draft.add_usage(&usage);
    }
    Ok(draft.finish(heard))
}

fn reported(message: &str) -> String {
    format!("the server reports an error: {message}")
}

/// The message of an error that a body reports, if it does; as it was sent, at any length.
pub fn error_message(body: &str) -> Option<String> {
    Some(message_of(&Node::parse(body)?.member("error")?))
}

fn message_of(error: &Node<'_>) -> String {
    let message = error.member("message").and_then(|message| message.text());
    message.or_else(|| error.text()).unwrap_or_else(|| error.raw().to_owned())
}

/// A member of the error that a body reports, for instance `code` or `type`; a number as its digits.
pub fn error_field(body: &str, name: &str) -> Option<String> {
    let field = Node::parse(body)?.member("error")?.member(name)?;
    field.text().or_else(|| (field.type_name() == "number").then(|| field.raw().to_owned()))
}
