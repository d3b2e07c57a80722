//! A client for OpenAI-compatible chat-completions endpoints.
//!
//! The base URL is the part before `/chat/completions`. A URL without a path gets `/v1`, slashes at the end do not
//! count, everything else is taken as it is: `http://127.0.0.1:8080`, `http://127.0.0.1:8080/v1/` and
//! `https://openrouter.ai/api/v1` all work, and so does the whole address of the call. One with an `api-version` is a deployment of Azure,
//! `https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=VERSION`, and gets the key as `api-key`.
//!
//! A request that fails for a reason that may pass is made again, four times in all, after waits that double from half a
//! second, or as long as the server asks. Redirects are not followed: they would take the key elsewhere. The key is in
//! no error, event, reply or debug text, also where the server sends it back; but a key of less than 12 characters is taken
//! for a word that a model may say, and one of less than 4 for one that an error may hold.

pub use super::trouble::Timeouts;

use super::endpoint::Endpoint;
use super::http::{Http, roots};
use super::retry::{SystemWaiter, Waiter};
use super::wire::Dialect;
use super::{ModelError, proxies};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The documented base of the public API, used unless `OPENAI_BASE_URL` says otherwise.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// A model behind a chat-completions endpoint.
pub struct OpenAi {
    pub(super) model: String,
    pub(super) endpoint: Endpoint,
    pub(super) key: Option<Key>,
    pub(super) dialect: Dialect,
    pub(super) waiter: Arc<dyn Waiter>,
    pub(super) http: Http,
}

/// Never shown: there is no `Debug` and no `Display`.
pub(super) struct Key(pub(super) String);

impl Key {
    /// The key, if it has to be taken out of what a model says. Local servers take any, so that many a key is a word or
    /// a digit that the model may have reason to say: `print(1)` must not become `print([key])`.
    pub(super) fn in_replies(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|key| key.len() >= 12)
    }

    /// The key, if it has to be taken out of errors, where less is lost.
    pub(super) fn in_errors(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|key| key.len() >= 4)
    }
}

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
