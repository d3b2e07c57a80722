//! A client for OpenAI-compatible chat-completions endpoints.
//!
//! The base URL is the part before `/chat/completions`. A URL without a path gets `/v1`, slashes at the end do not
//! count, everything else is taken as it is: `http://127.0.0.1:8080`, `http://127.0.0.1:8080/v1/` and
//! `https://openrouter.ai/api/v1` all work. One with an `api-version` is a deployment of Azure,
//! `https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=VERSION`, and gets the key as `api-key`.
//!
//! A request that fails for a reason that may pass is made again, four times in all, after waits that double from half a
//! second, or as long as the server asks. Redirects are not followed: they would take the key elsewhere. The key is in
//! no error, event, reply or debug text, also where the server sends it back.

pub use super::http::Timeouts;

use super::endpoint::Endpoint;
use super::failure::Failure;
use super::http::{Exchange, Http, Outgoing, Trouble, roots};
use super::listener::Listener;
use super::receive::{Received, receive};
use super::redact::redact;
use super::retry::{
    Class, MAX_ATTEMPTS, SystemWaiter, Waiter, classify, classify_reported, retry_after, wait,
};
use super::wire::{self, Body, Dialect, Fault, FaultKind};
use super::{Finish, Model, ModelError, ModelErrorKind, Reply, Request, proxies};
use crate::clip::cut;
use crate::context::Context;
use crate::event::AgentEvent;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{HeaderMap, HeaderValue, StatusCode, header};

/// The documented base of the public API, used unless `OPENAI_BASE_URL` says otherwise.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
/// Characters that an error quotes of what a server says, as it was said: whoever shows them escapes them, once.
const MAX_QUOTE: usize = 200;

/// A model behind a chat-completions endpoint.
pub struct OpenAi {
    model: String,
    endpoint: Endpoint,
    key: Option<Key>,
    dialect: Dialect,
    waiter: Arc<dyn Waiter>,
    http: Http,
}

/// Never shown: there is no `Debug` and no `Display`.
struct Key(String);

impl OpenAi {
    /// The model of this name at the endpoint that `OPENAI_BASE_URL` names, with the key of `OPENAI_API_KEY`.
    ///
    /// # Errors
    /// If a variable is unusable, or the public endpoint is meant and there is no key.
    pub fn from_env(model: impl Into<String>) -> Result<Self, ModelError> {
        let (base, key) = (variable("OPENAI_BASE_URL"), variable("OPENAI_API_KEY"));
        if base.is_none() && key.is_none() {
            let message = "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set: set the key, or name a server";
            return Err(ModelError::new(message));
        }
        OpenAi::new(model, base.as_deref().unwrap_or(DEFAULT_BASE_URL), key.as_deref())
    }

    /// The model of this name at this endpoint.
    ///
    /// As most programs do, it reads from the environment which proxy to use (`HTTPS_PROXY` or `HTTP_PROXY`, `ALL_PROXY`,
    /// `NO_PROXY`) and which authorities to trust (`SSL_CERT_FILE`, instead of Mozilla's list).
    ///
    /// # Errors
    /// If base URL, key, proxy or file are unusable.
    pub fn new(model: impl Into<String>, base_url: &str, key: Option<&str>) -> Result<Self, ModelError> {
        let endpoint = Endpoint::new(base_url)?;
        let key = key.map(str::trim).map(checked_key).transpose()?;
        let http = Http::new(proxies::from_env(&endpoint, variable)?);
        let certificates = variable("SSL_CERT_FILE").filter(|_| endpoint.is_https);
        let model = OpenAi {
            model: model.into(),
            endpoint,
            key,
            dialect: Dialect::default(),
            waiter: Arc::new(SystemWaiter),
            http,
        };
        match certificates {
            Some(file) => model.trust(Path::new(&file)),
            None => Ok(model),
        }
    }

    /// What the endpoint wants different from the default.
    pub fn dialect(self, dialect: Dialect) -> Self {
        OpenAi { dialect, ..self }
    }

    /// How long the endpoint is waited for.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.http.timeouts = timeouts;
        self
    }

    /// The proxy to use, whatever the environment says; `None` for none. The URL begins with `http`, `https`, `socks4`,
    /// `socks4a`, `socks5` or `socks5h`, and may hold a user name and a password.
    ///
    /// # Errors
    /// If the URL is unusable.
    pub fn proxy(mut self, url: Option<&str>) -> Result<Self, ModelError> {
        self.http.proxy = url.map(|url| proxies::parse("the endpoint", url)).transpose()?;
        Ok(self)
    }

    /// Trusts the authorities in this PEM file, and no others.
    ///
    /// # Errors
    /// If the file cannot be read or holds no certificate.
    pub fn trust(mut self, file: &Path) -> Result<Self, ModelError> {
        let unusable =
            |why| ModelError::new(format!("the certificates in {} cannot be used: {why}", file.display()));
        self.http.roots = Some(roots(file).map_err(unusable)?);
        Ok(self)
    }

    /// How to wait between attempts.
    pub fn waiter(self, waiter: Arc<dyn Waiter>) -> Self {
        OpenAi { waiter, ..self }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn checked_key(key: &str) -> Result<Key, ModelError> {
    if key.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(Key(key.to_owned()));
    }
    Err(ModelError::new("the API key cannot be used: it holds white space or characters outside of ASCII"))
}

impl Model for OpenAi {
    fn name(&self) -> &str {
        &self.model
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let body: Arc<str> = wire::request(&self.model, request, &self.dialect).to_string().into();
        let mut attempt = 1;
        loop {
            let mut listener = Listener::new(context, self.key.as_ref().map(|Key(key)| key.as_str()));
            let failure = match self.attempt(context, &body, &mut listener) {
                Ok(response) => {
                    listener.finish();
                    return Ok(self.accept(context, response, body.len()));
                }
                Err(failure) => failure,
            };
            let wait = match self.pause(context, attempt, &failure) {
                Ok(wait) => wait,
                Err(why) => return self.give_up(context, failure, &why, body.len()),
            };
            attempt += 1;
            let why = self.redact(&failure.message);
            context.emit(AgentEvent::Retrying { attempt, wait, why });
            self.waiter.sleep(wait, context.cancel());
        }
    }
}

impl OpenAi {
    /// How long to wait before the next attempt, or why there is none.
    fn pause(&self, context: &Context, attempt: u32, failure: &Failure) -> Result<Duration, String> {
        if failure.class != Class::Passing {
            return Err(String::new());
        }
        if attempt == MAX_ATTEMPTS {
            return Err(format!(" (gave up after {MAX_ATTEMPTS} attempts)"));
        }
        let pause = wait(attempt, self.waiter.jitter(), failure.retry_after)
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
        let key = self.key.as_ref().and_then(|Key(key)| self.endpoint.key_header(key));
        let headers = key.into_iter().chain([kind]).collect();
        Outgoing { url: self.endpoint.url.clone(), headers, body: Arc::clone(body) }
    }

    /// An answer with another status than a good one.
    fn refusal(
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
        let calls =
            reply.calls.iter_mut().flat_map(|call| [&mut call.id, &mut call.name, &mut call.arguments]);
        let cut = match &mut reply.finish {
            Finish::Cut(reason) => Some(reason),
            Finish::Done | Finish::Refused => None,
        };
        let texts = [&mut reply.text].into_iter().chain(&mut reply.reasoning).chain(calls).chain(cut);
        texts.for_each(|text| *text = self.redact(text));
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
    fn describe(&self, status: StatusCode, headers: &HeaderMap, body: &str) -> String {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("no type");
        let words = wire::error_message(body).unwrap_or_else(|| body.trim().to_owned());
        format!("status {status} ({}): {}", self.quote(kind), self.quote(&words))
    }

    /// The beginning of what a server says.
    fn quote(&self, words: &str) -> String {
        cut(&self.redact(words), MAX_QUOTE)
    }

    fn redact(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |Key(key)| redact(text, key))
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

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("model", &self.model)
            .field("url", &self.endpoint.url)
            .field("has_key", &self.key.is_some())
            .field("dialect", &self.dialect)
            .field("timeouts", &self.http.timeouts)
            .field("has_proxy", &self.http.proxy.is_some())
            .finish_non_exhaustive()
    }
}
