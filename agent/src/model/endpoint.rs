//! Where requests go, and in which header the key.

use super::ModelError;
use ureq::http::{HeaderName, HeaderValue, Uri, header};

/// What the path of the call ends in.
const COMPLETIONS: &str = "/chat/completions";

/// A URL to post to, and how to show who asks.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) url: String,
    pub(super) host: String,
    pub(super) is_https: bool,
    /// Whether the key goes into `api-key` instead of `authorization`.
    takes_api_key_header: bool,
}

impl Endpoint {
    /// The rule is in the documentation of [`super::openai`].
    pub(super) fn new(base_url: &str) -> Result<Self, ModelError> {
        // The URL is not quoted where it may hold a password.
        let refuse = |why: &str| ModelError::new(format!("the base URL cannot be used: {why}"));
        let trimmed = base_url.trim();
        let uri: Uri = trimmed.parse().map_err(|_| refuse("it is not a URL"))?;
        let host = uri.host().unwrap_or_default().to_owned();
        if !matches!(uri.scheme_str(), Some("http" | "https")) || host.is_empty() {
            return Err(refuse("it has to start with http:// or https:// and name a host"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(refuse("it holds a user name or password; use OPENAI_API_KEY"));
        }
        // Without it the key would go to whoever listens on the default port.
        let port = uri.authority().filter(|authority| authority.as_str() != host);
        if port.is_some_and(|authority| authority.port_u16().is_none_or(|port| port == 0)) {
            return Err(refuse("its port has to be a number from 1 to 65535"));
        }
        if trimmed.contains('#') {
            return Err(refuse("it holds a fragment (`#...`), which no server gets to see"));
        }
        let version = uri.query().map(|query| api_version(query).ok_or(query)).transpose();
        let version = version.map_err(|_| {
            refuse("of queries (`?...`) only Azure's is taken: `?api-version=` and a version, nothing else")
        })?;
        let (base, _) = trimmed.split_once('?').unwrap_or((trimmed, ""));
        let base = base.trim_end_matches('/');
        let url = match (version, uri.path().trim_matches('/')) {
            (Some(_), "") => {
                let example =
                    "`https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=VERSION`";
                return Err(refuse(&format!("with `api-version` it has to name the deployment: {example}")));
            }
            (None, "") => format!("{base}/v1{COMPLETIONS}"),
            // Whoever copies the address of the call itself means that.
            (None, _) if base.ends_with(COMPLETIONS) => base.to_owned(),
            (None, _) => format!("{base}{COMPLETIONS}"),
            (Some(version), _) => {
                let base = base.strip_suffix(COMPLETIONS).unwrap_or(base);
                format!("{base}{COMPLETIONS}?api-version={version}")
            }
        };
        let is_https = uri.scheme_str() == Some("https");
        Ok(Endpoint { url, host, is_https, takes_api_key_header: version.is_some() })
    }

    /// Where its models are listed.
    pub(super) fn models_url(&self) -> String {
        self.url.replacen(COMPLETIONS, "/models", 1)
    }

    pub(super) fn is_loopback(&self) -> bool {
        matches!(self.host.as_str(), "localhost" | "[::1]") || self.host.starts_with("127.")
    }

    /// The header with the key, marked as not to be shown. `None` if the key cannot stand in one.
    pub(super) fn key_header(&self, key: &str) -> Option<(HeaderName, HeaderValue)> {
        let (name, value) = match self.takes_api_key_header {
            true => (HeaderName::from_static("api-key"), key.to_owned()),
            false => (header::AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }
}

/// The version, if the query names one and nothing else.
fn api_version(query: &str) -> Option<&str> {
    let version = query.strip_prefix("api-version=")?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    (!version.is_empty() && version.len() <= 40 && version.bytes().all(fits)).then_some(version)
}
