//! Which models an endpoint has.

use super::ModelError;
use super::http::Outgoing;
use super::openai::OpenAi;
use super::receive::{Received, receive};
use crate::context::Context;
use serde::Deserialize;

/// `GET /models`, as far as it matters.
#[derive(Deserialize)]
struct List {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

impl OpenAi {
    /// The names of the models that the endpoint says it has, by `GET` of `models` below the base URL. It is asked once.
    ///
    /// # Errors
    /// If there is no answer within the deadline of the context, or no list in it.
    pub fn models(&self, context: &Context) -> Result<Vec<String>, ModelError> {
        let url = self.endpoint.models_url();
        let failed = |why: String| ModelError::new(self.redact(&format!("GET {url}: {why}")));
        let headers = self.key_header().into_iter().collect();
        let asked = self.http.send(Outgoing { url: url.clone(), headers, body: None });
        let mut exchange = asked.map_err(|trouble| failed(trouble.to_string()))?;
        let (status, headers) = exchange.head(context).map_err(|trouble| failed(trouble.to_string()))?;
        if !status.is_success() {
            return Err(failed(self.refusal(context, exchange, status, &headers).message));
        }
        let mut body = Vec::new();
        match receive(context, &mut exchange, |bytes| {
            body.extend_from_slice(bytes);
            Ok(false)
        }) {
            Received::All => exchange.leave(),
            Received::Broken(trouble) => return Err(failed(trouble.to_string())),
            Received::TooLarge => return Err(failed("the list is too large".to_owned())),
            Received::Faulty(fault) => return Err(failed(fault.message)),
        }
        let body = String::from_utf8_lossy(&body);
        let list: List = serde_json::from_str(&body).map_err(|error| {
            let quote = self.describe(status, &headers, &body);
            failed(format!("the answer is no list of models: {error}; {quote}"))
        })?;
        Ok(list.data.iter().map(|model| self.redact(&model.id)).collect())
    }
}
