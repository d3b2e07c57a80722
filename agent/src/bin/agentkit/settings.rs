//! Which model, where, from the command line and the environment.

use crate::exit_code::Failure;
use agentkit_agent::model::openai::{DEFAULT_BASE_URL, OpenAi};
use agentkit_agent::model::wire::{Dialect, Streaming};
use std::env;

/// The endpoint that is meant, without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) base_url: String,
    /// Somebody named it, or at least its key.
    pub(crate) is_configured: bool,
    pub(crate) has_key: bool,
}

impl Endpoint {
    pub(crate) fn find(base_url: Option<&str>) -> Self {
        let named = base_url.map(str::to_owned).or_else(|| variable("OPENAI_BASE_URL"));
        let has_key = key().is_some();
        Endpoint {
            is_configured: named.is_some() || has_key,
            base_url: named.unwrap_or_else(|| DEFAULT_BASE_URL.to_owned()),
            has_key,
        }
    }

    /// The model of this name at the endpoint, with the key of the environment.
    pub(crate) fn model(&self, name: &str, streaming: Streaming) -> Result<OpenAi, Failure> {
        if !self.is_configured {
            return Err(Failure::usage(
                "no endpoint: name a server with --base-url or OPENAI_BASE_URL, or set OPENAI_API_KEY",
            ));
        }
        let model = OpenAi::new(name, &self.base_url, key().as_deref());
        let dialect = Dialect { streaming, ..Dialect::default() };
        model.map(|model| model.dialect(dialect)).map_err(|why| Failure::usage(why.to_string()))
    }

    /// Where what is said goes, in words.
    pub(crate) fn describe(&self) -> String {
        format!("{}, {}", self.shown(), if self.has_key { "with a key" } else { "without a key" })
    }

    /// The URL without what may be secret in it.
    pub(crate) fn shown(&self) -> String {
        let (url, query) =
            self.base_url.split_once('?').map_or((&*self.base_url, ""), |(url, _)| (url, "?..."));
        match (url.split_once("://"), url.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://...@{host}{query}"),
            (None, Some((_, host))) => format!("...@{host}{query}"),
            (_, None) => format!("{url}{query}"),
        }
    }
}

/// The model that is asked for, in the order of precedence: on the command line, in the run that is resumed, in the
/// environment.
pub(crate) fn model_name(asked: Option<&str>, recorded: Option<&str>) -> Result<String, Failure> {
    let named = asked.or(recorded).map(str::to_owned).or_else(default_model);
    named.ok_or_else(|| Failure::usage("no model: name one with --model or OPENAI_MODEL"))
}

/// The model that the environment names.
pub(crate) fn default_model() -> Option<String> {
    variable("OPENAI_MODEL")
}

fn key() -> Option<String> {
    variable("OPENAI_API_KEY")
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        let shown =
            |url: &str| Endpoint { base_url: url.to_owned(), is_configured: true, has_key: false }.shown();
        assert_eq!(shown("http://127.0.0.1:8080/v1"), "http://127.0.0.1:8080/v1");
        assert_eq!(shown("https://me:pw@host/v1?key=k"), "https://...@host/v1?...");
        assert_eq!(shown("me:pw@host"), "...@host");
        assert_eq!(shown("https://me:p@w@host"), "https://...@host");
    }
}
