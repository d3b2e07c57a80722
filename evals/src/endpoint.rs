//! One endpoint for every task, which is not asked again once it could not be reached.

use crate::runner::Models;
use crate::task::Task;
use crate::world::World;
use agentkit_agent::model::openai::OpenAi;
use agentkit_agent::model::{Reply, Request};
use agentkit_agent::{Context, Model, ModelError};
use std::sync::{Arc, OnceLock};

/// What the client's transport says when no connection came about. An answer of the server, which could quote the same
/// words, always has a status.
const UNREACHABLE: [&str; 7] = [
    "connection refused",
    "connection failed",
    "host not found",
    "failed to lookup",
    "unreachable",
    "no route to host",
    "timeout: connect",
];

/// The same endpoint for every task.
#[derive(Debug)]
pub(crate) struct Endpoint(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    model: OpenAi,
    unreachable: OnceLock<ModelError>,
}

impl Endpoint {
    pub(crate) fn new(model: OpenAi) -> Self {
        Endpoint(Arc::new(Shared { model, unreachable: OnceLock::new() }))
    }
}

impl Models for Endpoint {
    fn model(&self, _task: &Task, _world: Option<&World>) -> impl Model {
        Arc::clone(&self.0)
    }
}

impl Model for Shared {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        if let Some(before) = self.unreachable.get() {
            return Err(before.clone());
        }
        self.model.reply(context, request).inspect_err(|why| {
            if could_not_connect(&why.message) {
                // One of two at the same time is as good as the other.
                let _ = self.unreachable.set(why.clone());
            }
        })
    }
}

fn could_not_connect(message: &str) -> bool {
    let message = message.to_lowercase();
    !message.contains("status ") && UNREACHABLE.iter().any(|words| message.contains(words))
}
