//! A client for OpenAI-compatible chat-completions endpoints.
//!
//! The base URL is the part before `/chat/completions`. A URL without a path gets `/v1`, slashes at the end do not
//! count, everything else is taken as it is: `http://127.0.0.1:8080`, `http://127.0.0.1:8080/v1/` and
//! `https://openrouter.ai/api/v1` all work. The deployment URLs of Azure, with `api-version` and an `api-key` header,
//! are not supported; its `/openai/v1` base is an ordinary one.

use super::redact::redact;
use super::retry::{Class, MAX_ATTEMPTS, SystemWaiter, Waiter, classify, retry_after, wait};
use super::wire::{self, Dialect};
use super::{Model, ModelError, ModelErrorKind, Reply, Request};
use crate::clip::cut;
use crate::context::{AgentEvent, Context};
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{HeaderMap, StatusCode, Uri, header};

/// The documented base of the public API, used unless `OPENAI_BASE_URL` says otherwise.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
/// Bytes of one response body.
const MAX_BODY: u64 = 16 << 20;
/// Characters that an error quotes of what a server says, as it was said: whoever shows them escapes them, once.
const MAX_QUOTE: usize = 200;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// One attempt takes no longer, even if the run has more time.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(600);

/// A model behind a chat-completions endpoint.
pub struct OpenAi {
    model: String,
    url: String,
    key: Option<Key>,
    dialect: Dialect,
    waiter: Arc<dyn Waiter>,
    agent: ureq::Agent,
}

/// Never shown: there is no `Debug` and no `Display`.
struct Key(String);

impl OpenAi {
    /// The model of this name at the endpoint that `OPENAI_BASE_URL` names, with the key of `OPENAI_API_KEY`.
    ///
    /// # Errors
    /// If a variable is unusable, or the public endpoint is meant and there is no key.
    pub fn from_env(model: impl Into<String>) -> Result<Self, ModelError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let (base, key) = (variable("OPENAI_BASE_URL"), variable("OPENAI_API_KEY"));
        if base.is_none() && key.is_none() {
            let message = "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set: set the key, or name a server";
            return Err(ModelError::new(message));
        }
        OpenAi::new(model, base.as_deref().unwrap_or(DEFAULT_BASE_URL), key.as_deref())
    }

    /// The model of this name at this endpoint.
    ///
    /// # Errors
    /// If base URL or key are unusable.
    pub fn new(model: impl Into<String>, base_url: &str, key: Option<&str>) -> Result<Self, ModelError> {
        let uri = base_uri(base_url)?;
        let key = key.map(str::trim).map(checked_key).transpose()?;
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT));
        if is_loopback(&uri) {
            // A proxy from the environment cannot reach this machine's own loopback.
            config = config.proxy(None);
        }
        Ok(OpenAi {
            model: model.into(),
            url: format!("{}/chat/completions", uri.to_string().trim_end_matches('/')),
            key,
            dialect: Dialect::default(),
            waiter: Arc::new(SystemWaiter),
            agent: config.build().new_agent(),
        })
    }

    /// What the endpoint wants different from the default.
    pub fn dialect(self, dialect: Dialect) -> Self {
        OpenAi { dialect, ..self }
    }

    /// How to wait between attempts.
    pub fn waiter(self, waiter: Arc<dyn Waiter>) -> Self {
        OpenAi { waiter, ..self }
    }
}

fn base_uri(base_url: &str) -> Result<Uri, ModelError> {
    let trimmed = base_url.trim().trim_end_matches('/');
    // The URL is not quoted where it may hold a password.
    let refuse = |why: &str| ModelError::new(format!("the base URL cannot be used: {why}"));
    let uri: Uri = trimmed.parse().map_err(|_| refuse("it is not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(refuse("it has to start with http:// or https:// and name a host"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(refuse("it holds a user name or password; use OPENAI_API_KEY"));
    }
    if uri.query().is_some() {
        return Err(refuse("it has a query (`?...`), which chat-completions endpoints do not take"));
    }
    match uri.path() {
        "" | "/" => format!("{trimmed}/v1").parse().map_err(|_| refuse("it is not a URL")),
        _ => Ok(uri),
    }
}

fn is_loopback(uri: &Uri) -> bool {
    matches!(uri.host(), Some("localhost" | "[::1]"))
        || uri.host().is_some_and(|host| host.starts_with("127."))
}

fn checked_key(key: &str) -> Result<Key, ModelError> {
    if key.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(Key(key.to_owned()));
    }
    Err(ModelError::new("the API key cannot be used: it holds white space or characters outside of ASCII"))
}

/// A failed attempt.
struct Failure {
    class: Class,
    message: String,
    retry_after: Option<Duration>,
}

impl Failure {
    fn new(class: Class, message: impl Into<String>) -> Self {
        Failure { class, message: message.into(), retry_after: None }
    }
}

impl Model for OpenAi {
    fn name(&self) -> &str {
        &self.model
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        let body = wire::request(&self.model, request, &self.dialect).to_string();
        let mut attempt = 1;
        loop {
            let failure = match self.attempt(context, &body) {
                Ok(response) => return Ok(self.accept(context, response, body.len())),
                Err(failure) => failure,
            };
            let pause = self.pause(context, attempt, &failure).map_err(|why| self.error(&failure, &why))?;
            self.waiter.sleep(pause, context.cancel());
            attempt += 1;
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

    fn attempt(&self, context: &Context, body: &str) -> Result<wire::Response, Failure> {
        let timeout = context.remaining().map_or(ATTEMPT_TIMEOUT, |left| left.min(ATTEMPT_TIMEOUT));
        if timeout.is_zero() || context.cancel().is_cancelled() {
            return Err(Failure::new(
                Class::Lasting,
                "no request was sent: the run is out of time or cancelled",
            ));
        }
        let mut request = self.agent.post(&self.url).header(header::CONTENT_TYPE, "application/json");
        if let Some(Key(key)) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let response = request.config().timeout_global(Some(timeout)).build().send(body);
        let (head, body) = response.map_err(|error| transport_failure(&error))?.into_parts();
        let body = read_body(body)?;
        if head.status == StatusCode::OK {
            return wire::response(&body).map_err(|why| {
                let (why, quote) = (self.quote(&why), self.describe(head.status, &head.headers, &body));
                Failure::new(Class::Lasting, format!("the reply cannot be used: {why}; {quote}"))
            });
        }
        let asked = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        Err(Failure {
            class: classify(head.status.as_u16(), &body),
            message: self.describe(head.status, &head.headers, &body),
            retry_after: asked.and_then(|asked| retry_after(asked, self.waiter.date())),
        })
    }

    fn accept(&self, context: &Context, response: wire::Response, sent: usize) -> Reply {
        for note in response.notes {
            context.emit(AgentEvent::Warning(self.redact(&note)));
        }
        if let Some(warning) = response.prompt_tokens.and_then(|tokens| cut_prompt_warning(tokens, sent)) {
            context.emit(AgentEvent::Warning(warning));
        }
        response.reply
    }

    /// The only way an error leaves this client.
    fn error(&self, failure: &Failure, why: &str) -> ModelError {
        let kind = match failure.class {
            Class::ContextOverflow => ModelErrorKind::ContextOverflow,
            Class::Passing | Class::Lasting => ModelErrorKind::Other,
        };
        ModelError { kind, message: self.redact(&format!("POST {}: {}{why}", self.url, failure.message)) }
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

fn transport_failure(error: &ureq::Error) -> Failure {
    let class = match error {
        ureq::Error::Io(_)
        | ureq::Error::Timeout(_)
        | ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Protocol(_) => Class::Passing,
        _ => Class::Lasting,
    };
    Failure::new(class, error.to_string())
}

fn read_body(body: ureq::Body) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let mut reader = body.into_reader().take(MAX_BODY + 1);
    reader
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(Class::Passing, format!("the response broke off: {error}")))?;
    if bytes.len() as u64 > MAX_BODY {
        return Err(Failure::new(Class::Lasting, format!("the response is larger than {MAX_BODY} bytes")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
            .field("url", &self.url)
            .field("has_key", &self.key.is_some())
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}
