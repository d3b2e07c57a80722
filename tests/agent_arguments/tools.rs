//! One tool for each kind of parameter. Each says what it was given.

use agentkit_agent::model::ToolCall;
use agentkit_agent::{Context, Registry, Tool, ToolError, ToolOutput, ToolSpec, tool};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::LazyLock;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Colour {
    Red,
    DarkBlue,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "shown by Debug only")]
struct Point {
    x: i64,
    y: Option<i64>,
}

/// Limits and a default on fields.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "shown by Debug only")]
struct Page {
    /// How many lines.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    lines: u8,
    #[schemars(length(min = 1, max = 3), regex(pattern = "^[a-z]+$"))]
    mark: String,
    #[serde(default)]
    wide: bool,
}

fn ten() -> u8 {
    10
}

/// An enum of which some variants carry data.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "shown by Debug only")]
enum Figure {
    Dot,
    /// Round.
    Circle {
        radius: u8,
    },
    Through(Vec<i64>),
    At(Point),
}

/// The same, told apart by a member.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(dead_code, reason = "shown by Debug only")]
enum Step {
    Stop,
    Walk { steps: i64 },
    To(Point),
}

/// The same, with the data in a member of its own.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "t", content = "c")]
#[expect(dead_code, reason = "shown by Debug only")]
enum Word {
    Empty,
    Letters(String),
}

fn show(value: impl Debug) -> String {
    format!("{value:?}")
}

/// Takes an integer.
#[tool]
fn integer(n: i64) -> String {
    show(n)
}

/// Takes a small one.
#[tool]
fn small(n: u8) -> String {
    show(n)
}

/// Takes a large one.
#[tool]
fn large(n: u64) -> String {
    show(n)
}

/// Takes a number.
#[tool]
fn real(x: f64) -> String {
    show(x)
}

/// Takes a text.
#[tool]
fn text(s: String) -> String {
    show(s)
}

/// Takes a character.
#[tool]
fn character(c: char) -> String {
    show(c)
}

/// Takes a flag.
#[tool]
fn flag(b: bool) -> String {
    show(b)
}

/// Takes an integer or nothing.
#[tool]
fn optional(n: Option<i64>) -> String {
    show(n)
}

/// Takes a choice.
#[tool]
fn choice(c: Colour) -> String {
    show(c)
}

/// Takes a choice or nothing.
#[tool]
fn optional_choice(c: Option<Colour>) -> String {
    show(c)
}

/// Takes a list.
#[tool]
fn list(items: Vec<i64>) -> String {
    show(items)
}

/// Takes a set.
#[tool]
fn set(items: BTreeSet<String>) -> String {
    show(items)
}

/// Takes points.
#[tool]
fn points(points: Vec<Point>) -> String {
    show(points)
}

/// Takes a map.
#[tool]
fn map(entries: BTreeMap<String, bool>) -> String {
    show(entries)
}

/// Takes anything.
#[tool]
fn anything(value: Value) -> String {
    value.to_string()
}

/// Takes nothing.
#[tool]
fn nothing() -> String {
    "done".to_owned()
}

/// Takes two.
#[tool]
fn two(first_value: i64, second_value: String) -> String {
    show((first_value, second_value))
}

/// Takes what is limited.
#[tool]
fn limited(
    /// How many.
    #[arg(default = 10, min = 1, max = 100)]
    count: u32,
    #[arg(max = 0.5)] share: Option<f64>,
    #[arg(default = "ab", min_length = 2, max_length = 4, pattern = "^[a-z]*$")] word: String,
    #[arg(default = BTreeSet::new(), max_items = 2)] tags: BTreeSet<String>,
) -> String {
    show((count, share, word, tags))
}

/// Takes pages.
#[tool]
fn pages(pages: BTreeMap<String, Page>, first: Option<Page>) -> String {
    show((pages, first))
}

/// Takes a figure.
#[tool]
fn figure(figure: Figure, other: Option<Figure>) -> String {
    show((figure, other))
}

/// Takes steps.
#[tool]
fn walk(steps: Vec<Step>) -> String {
    show(steps)
}

/// Takes a word.
#[tool]
fn word(word: Word) -> String {
    show(word)
}

/// All of them, for many calls.
pub(crate) static REGISTRY: LazyLock<Registry> = LazyLock::new(registry);

/// All of them.
pub(crate) fn registry() -> Registry {
    let tools: Vec<Box<dyn Tool>> = vec![
        Box::new(integer::tool()),
        Box::new(small::tool()),
        Box::new(large::tool()),
        Box::new(real::tool()),
        Box::new(text::tool()),
        Box::new(character::tool()),
        Box::new(flag::tool()),
        Box::new(optional::tool()),
        Box::new(choice::tool()),
        Box::new(optional_choice::tool()),
        Box::new(list::tool()),
        Box::new(set::tool()),
        Box::new(points::tool()),
        Box::new(map::tool()),
        Box::new(anything::tool()),
        Box::new(nothing::tool()),
        Box::new(two::tool()),
        Box::new(limited::tool()),
        Box::new(pages::tool()),
        Box::new(figure::tool()),
        Box::new(walk::tool()),
        Box::new(word::tool()),
    ];
    let mut registry = Registry::new();
    for tool in tools {
        registry.add(tool).expect("every derived schema is enforced");
    }
    registry
}

/// Calls a tool outside of any run.
pub(crate) fn call(registry: &Registry, tool: &str, arguments: &str) -> Result<ToolOutput, ToolError> {
    call_in(registry, &Context::detached(), tool, arguments)
}

/// Calls a tool within this context.
pub(crate) fn call_in(
    registry: &Registry,
    context: &Context,
    tool: &str,
    arguments: &str,
) -> Result<ToolOutput, ToolError> {
    let call = ToolCall { id: "1".to_owned(), name: tool.to_owned(), arguments: arguments.to_owned() };
    registry.call(context, &call, false)
}

/// A tool made by hand.
pub(crate) struct Custom(ToolSpec);

impl Custom {
    pub(crate) fn new(name: &str, parameters: Value) -> Self {
        Custom(ToolSpec {
            name: name.to_owned(),
            description: "Test.".to_owned(),
            parameters,
            mutates: false,
        })
    }
}

impl Tool for Custom {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call(&self, _context: &Context, arguments: Value) -> Result<ToolOutput, ToolError> {
        Ok(arguments.to_string().into())
    }
}
