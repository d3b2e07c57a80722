//! Asks an endpoint, again if need be, and makes sense of what comes of it.

use super::failure::Failure;
use super::http::{Exchange, Outgoing};
use super::listener::Listener;
use super::openai::{Key, OpenAi};
use super::receive::{Received, receive};
use super::redact::redact;
use super::retry::{Class, MAX_ATTEMPTS, classify, classify_reported, retry_after, wait};
use super::trouble::Trouble;
use super::wire::{self, Body, Fault, FaultKind};
use super::{Finish, Model, ModelError, ModelErrorKind, Reply, Request};
use crate::clip::cut;
use crate::context::Context;
use crate::event::AgentEvent;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

/// Characters that an error quotes of what a server says, as it was said: whoever shows them escapes them, once.
const MAX_QUOTE: usize = 200;

impl Model for OpenAi {
    fn name(&self) -> &str {
        &self.model
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let body: Arc<str> = wire::request(&self.model, request, &self.dialect).to_string().into();
        let (mut attempt, mut last) = (1, Duration::ZERO);
        loop {
            let mut listener = Listener::new(context, self.key.as_ref().and_then(Key::in_replies));
            let failure = match self.attempt(context, &body, &mut listener) {
                Ok(response) => {
                    listener.finish();
                    return Ok(self.accept(context, response, body.len()));
                }
                Err(failure) => failure,
            };
            let wait = match self.pause(context, attempt, last, &failure) {
                Ok(wait) => wait,
                Err(why) => return self.give_up(context, failure, &why, body.len()),
            };
            (attempt, last) = (attempt + 1, wait);
            let why = self.redact(&failure.message);
            context.emit(AgentEvent::Retrying { attempt, wait, why });
            self.waiter.sleep(wait, context.cancel());
        }
    }
}

impl OpenAi {
    /// How long to wait before the next attempt, or why there is none.
    fn pause(
        &self,
        context: &Context,
        attempt: u32,
        last: Duration,
        failure: &Failure,
    ) -> Result<Duration, String> {
        if failure.class != Class::Passing {
            return Err(String::new());
        }
        if attempt == MAX_ATTEMPTS {
            return Err(format!(" (gave up after {MAX_ATTEMPTS} attempts)"));
        }
        let pause = wait(attempt, self.waiter.jitter(), failure.retry_after, last)
            .ok_or_else(|| " (the server asks for a longer wait than 300 s)".to_owned())?;
        match context.remaining() {
            Some(left) if left <= pause => {
                Err(format!(" (attempt {attempt}; the time left of the run is too short for another)"))
            }
            _ => Ok(pause),
        }
    }

    /// A stream that broke off, and does so again and again, is a reply that was cut.
    fn give_up(
        &self,
        context: &Context,
        failure: Failure,
        why: &str,
        sent: usize,
    ) -> Result<Reply, ModelError> {
        let error = self.error(&failure, why);
        match failure.partial {
            Some(partial) => {
                context.emit(AgentEvent::Warning(error.message));
                Ok(self.accept(context, *partial, sent))
            }
            None => Err(error),
        }
    }

    fn attempt(
        &self,
        context: &Context,
        body: &Arc<str>,
        listener: &mut Listener<'_>,
    ) -> Result<wire::Response, Failure> {
        if context.cancel().is_cancelled() || context.remaining().is_some_and(|left| left.is_zero()) {
            let message = "no request was sent: the run is out of time or cancelled";
            return Err(Failure::new(Class::Lasting, message));
        }
        let failed = |trouble: Trouble| Failure::no_answer(&trouble);
        let mut exchange = self.http.send(self.outgoing(body)).map_err(failed)?;
        let (status, headers) = exchange.head(context).map_err(failed)?;
        if !status.is_success() {
            return Err(self.refusal(context, exchange, status, &headers));
        }
        let mut body = Body::new();
        let received = receive(context, &mut exchange, |bytes| {
            body.push(bytes, &mut |delta| listener.hear(delta)).map(|()| body.is_done())
        });
        let trouble = match received {
            Received::All => {
                exchange.leave();
                None
            }
            Received::Broken(trouble) => Some(trouble),
            Received::TooLarge => return Err(Failure::too_large()),
            Received::Faulty(fault) => return Err(self.unusable(&fault, status, &headers)),
        };
        let is_stream = body.is_stream();
        match (body.finish(&mut |delta| listener.hear(delta)), trouble) {
            // Of a stream that gave a reason to finish nothing that matters can be missing.
            (Ok(response), None) if !response.breaks_off => Ok(response),
            (Ok(response), Some(_)) if is_stream && !response.breaks_off => Ok(response),
            (Err(fault), None) => Err(self.unusable(&fault, status, &headers)),
            (Ok(response), None) => Err(Failure::broken(&Trouble::unexpected_end(), Some(response))),
            (received, Some(trouble)) => Err(Failure::broken(&trouble, received.ok().filter(|_| is_stream))),
        }
    }

    fn outgoing(&self, body: &Arc<str>) -> Outgoing {
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let headers = self.key_header().into_iter().chain([kind]).collect();
        Outgoing { url: self.endpoint.url.clone(), headers, body: Some(Arc::clone(body)) }
    }

    pub(super) fn key_header(&self) -> Option<(HeaderName, HeaderValue)> {
        self.key.as_ref().and_then(|Key(key)| self.endpoint.key_header(key))
    }

    /// An answer with another status than a good one.
    pub(super) fn refusal(
        &self,
        context: &Context,
        mut exchange: Exchange,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Failure {
        let mut body = Vec::new();
        let received = receive(context, &mut exchange, |bytes| {
            body.extend_from_slice(bytes);
            Ok(false)
        });
        if matches!(received, Received::TooLarge) {
            return Failure::too_large();
        }
        // Whether the rest came or not, the status says enough.
        exchange.leave();
        let body = String::from_utf8_lossy(&body);
        let mut message = self.describe(status, headers, &body);
        if let Some(place) = headers.get(header::LOCATION).filter(|_| status.is_redirection()) {
            let place = self.quote(&String::from_utf8_lossy(place.as_bytes()));
            message += &format!(
                " (it redirects to {place}, which is not followed, since that would take the key elsewhere: set the \
                 base URL to where the endpoint is)"
            );
        }
        Failure {
            class: classify(status.as_u16(), &body),
            message,
            retry_after: retry_after(headers, self.waiter.date()),
            partial: None,
        }
    }

    /// An answer with a good status that is no reply.
    fn unusable(&self, fault: &Fault, status: StatusCode, headers: &HeaderMap) -> Failure {
        let class = match fault.kind {
            FaultKind::Reported => classify_reported(&fault.body),
            FaultKind::Garbled => Class::Passing,
            FaultKind::Unreadable => Class::Lasting,
        };
        let (why, quote) = (self.quote(&fault.message), self.describe(status, headers, &fault.body));
        Failure {
            retry_after: retry_after(headers, self.waiter.date()),
            ..Failure::new(class, format!("the reply cannot be used: {why}; {quote}"))
        }
    }

    fn accept(&self, context: &Context, response: wire::Response, sent: usize) -> Reply {
        for note in response.notes {
            context.emit(AgentEvent::Warning(self.redact(&note)));
        }
        if let Some(warning) = response.prompt_tokens.and_then(|tokens| cut_prompt_warning(tokens, sent)) {
            context.emit(AgentEvent::Warning(warning));
        }
        self.without_key(response.reply)
    }

    /// A server that sends back what it was sent sends the key.
    fn without_key(&self, mut reply: Reply) -> Reply {
        let Some(key) = self.key.as_ref().and_then(Key::in_replies) else { return reply };
        let calls =
            reply.calls.iter_mut().flat_map(|call| [&mut call.id, &mut call.name, &mut call.arguments]);
        let cut = match &mut reply.finish {
            Finish::Cut(reason) => Some(reason),
            Finish::Done | Finish::Refused => None,
        };
        let texts = [&mut reply.text].into_iter().chain(&mut reply.reasoning).chain(calls).chain(cut);
        texts.for_each(|text| *text = redact(text, key));
        reply
    }

    /// The only way an error leaves this client.
    fn error(&self, failure: &Failure, why: &str) -> ModelError {
        let kind = match failure.class {
            Class::ContextOverflow => ModelErrorKind::ContextOverflow,
            Class::Passing | Class::Lasting => ModelErrorKind::Other,
        };
        let message = self.redact(&format!("POST {}: {}{why}", self.endpoint.url, failure.message));
        ModelError { kind, message }
    }

    /// Status, type and the beginning of a body: enough to tell a proxy's page from the server's own words.
    pub(super) fn describe(&self, status: StatusCode, headers: &HeaderMap, body: &str) -> String {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("no type");
        let words = wire::error_message(body).unwrap_or_else(|| body.trim().to_owned());
        format!("status {status} ({}): {}", self.quote(kind), self.quote(&words))
    }

    /// The beginning of what a server says.
    fn quote(&self, words: &str) -> String {
        cut(&self.redact(words), MAX_QUOTE)
    }

    pub(super) fn redact(&self, text: &str) -> String {
        let key = self.key.as_ref().and_then(Key::in_errors);
        key.map_or_else(|| text.to_owned(), |key| redact(text, key))
    }
}

/// Some servers silently drop the beginning of a long prompt. Four bytes a token is a rough mean; half of that many
/// tokens is far below what any tokenizer makes of text.
fn cut_prompt_warning(prompt_tokens: u64, sent: usize) -> Option<String> {
    let estimate = sent as u64 / 4;
    (estimate > 2048 && prompt_tokens < estimate / 2).then(|| {
        format!(
            "the server counts {prompt_tokens} tokens in a request of about {estimate}: it seems to have cut the \
             conversation; raise its context size"
        )
    })
}
