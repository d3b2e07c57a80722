//! An agent runtime that cannot run away: a model acts through tools inside a bounded loop.
//!
//! Three promises. Every call of a model gets exactly one result, whatever happens to it. Arguments are checked on
//! the raw JSON text before a tool runs, and what is wrong comes back as a result the model can act on. And every run
//! ends within its [`Bounds`].
//!
//! ```
//! use agentkit_agent::model::scripted::{Scripted, Turn};
//! use agentkit_agent::{Agent, Registry, StopReason, tool};
//! use serde_json::json;
//!
//! /// Counts how often a letter occurs in a text.
//! #[tool]
//! fn count_letter(
//!     /// The text to look through.
//!     text: String,
//!     /// The letter to count.
//!     letter: char,
//! ) -> String {
//!     text.chars().filter(|c| *c == letter).count().to_string()
//! }
//!
//! let mut registry = Registry::new();
//! registry.add(count_letter::tool())?;
//! let model = Scripted::new(
//!     "example",
//!     vec![
//!         Turn::call("count_letter", json!({"text": "strawberry", "letter": "r"})),
//!         Turn::answer("There are {last}."),
//!     ],
//! );
//! let trajectory = Agent::new(model, registry).run("How many r are in strawberry?");
//! assert_eq!(trajectory.stop, StopReason::Answered);
//! assert_eq!(trajectory.answer.as_deref(), Some("There are 3."));
//! # Ok::<(), agentkit_agent::RegistryError>(())
//! ```

#[cfg(panic = "abort")]
compile_error!(
    "a panic of a tool has to become the result of that call, which `panic = \"abort\"` makes impossible: leave it out of \
     the profile of a program with this runtime in it"
);

// The code that `#[tool]` writes names this crate, also when it is used inside of it.
extern crate self as agentkit_agent;

mod approval;
mod book;
mod bounds;
mod clip;
mod clock;
mod compile;
pub mod context;
mod conversation;
mod describe;
mod driver;
pub mod event;
mod feed;
mod ids;
mod json;
mod listed;
mod message;
pub mod model;
mod nearest;
mod path;
mod queue;
mod registry;
mod repeat;
mod run;
pub mod schema;
mod semconv;
mod shape;
mod state;
pub mod tool;
mod tool_result;
pub mod tools;
pub mod trajectory;
pub mod transcript;
mod validate;
mod window;
mod worker;

/// ```
/// use agentkit_agent::{ToolError, tool};
///
/// /// Reads a number.
/// #[tool]
/// fn parse(
///     /// Decimal digits.
///     digits: String,
/// ) -> Result<u64, ToolError> {
///     digits.parse().map_err(|e: std::num::ParseIntError| ToolError::failed(e.to_string()))
/// }
/// # assert_eq!(parse("42".to_owned()), Ok(42));
/// ```
///
/// Limits and defaults are part of the schema, and enforced before the function is called:
///
/// ```
/// use agentkit_agent::{Registry, tool};
///
/// /// How to sort.
/// #[derive(agentkit_agent::serde::Deserialize, agentkit_agent::schemars::JsonSchema)]
/// #[serde(crate = "agentkit_agent::serde", rename_all = "snake_case")]
/// #[schemars(crate = "agentkit_agent::schemars")]
/// enum Order {
///     Newest,
///     Oldest,
/// }
///
/// /// Lists articles.
/// #[tool]
/// fn articles(
///     /// One word in lower case.
///     #[arg(pattern = "^[a-z]+$", max_length = 30)]
///     topic: String,
///     #[arg(default = 10, min = 1, max = 100)] limit: u32,
///     order: Option<Order>,
/// ) -> String {
///     let newest = matches!(order, Some(Order::Newest));
///     format!("{limit} articles about {topic}, newest first: {newest}")
/// }
///
/// let mut registry = Registry::new();
/// registry.add(articles::tool())?;
/// assert_eq!(
///     registry.describe(),
///     "## articles\nLists articles.\nArguments:\n\
///      - `limit` (integer, 1 to 100, optional, default 10)\n\
///      - `order` (one of `newest`, `oldest`, optional): How to sort.\n\
///      - `topic` (string, at most 30 character(s), matching `^[a-z]+$`): One word in lower case.\n"
/// );
/// # Ok::<(), agentkit_agent::RegistryError>(())
/// ```
///
/// What cannot be a tool does not compile. A type without a schema cannot be an argument:
///
/// ```compile_fail,E0277
/// /// Waits.
/// #[agentkit_agent::tool]
/// fn wait(until: std::time::Instant) -> String {
///     format!("{until:?}")
/// }
/// ```
///
/// What is no text cannot be a result:
///
/// ```compile_fail,E0277
/// /// Counts.
/// #[agentkit_agent::tool]
/// fn count() -> Vec<u8> {
///     vec![1, 2, 3]
/// }
/// ```
pub use agentkit_macros::tool;
pub use approval::{Approver, Decision};
pub use bounds::Bounds;
pub use clock::{Clock, SystemClock};
pub use context::{Cancel, Context};
pub use conversation::Conversation;
pub use driver::Agent;
pub use event::{AgentEvent, EventSink, NoEvents};
pub use model::{Model, ModelError, ModelErrorKind};
pub use registry::{Registry, RegistryError};
pub use run::{Next, Run};
pub use shape::SchemaError;
pub use state::RunState;
pub use tool::{Tool, ToolError, ToolErrorKind, ToolOutput, ToolSpec};
pub use trajectory::{CallRecord, Step, StopReason, Trajectory};
pub use transcript::Transcript;

// For the code that `#[tool]` writes, and so that a user's argument types derive from the same versions.
pub use {schemars, serde, serde_json};

/// The examples of the README compile.
#[cfg(all(doctest, feature = "openai"))]
#[doc = include_str!("../../README.md")]
struct Readme;
