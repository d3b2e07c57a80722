//! The schema of each type that an argument can have, as a model is shown it: inline, closed, with plain types.

use crate::tools::Custom;
use agentkit_agent::schema::of;
use agentkit_agent::{Registry, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Plain {
    Red,
    DarkBlue,
}

#[derive(Deserialize, JsonSchema)]
enum Documented {
    /// The first.
    A,
    /// The second.
    B,
    C,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema matters")]
struct Inner {
    /// How far.
    x: i64,
}

// Open as written: what it does not know, serde drops.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Open {
    x: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Empty {}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Flattening {
    #[serde(flatten)]
    open: Open,
    /// Named like keywords.
    r#type: bool,
    properties: bool,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Keeping {
    x: bool,
    #[serde(flatten)]
    rest: BTreeMap<String, bool>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Defaulted {
    #[schemars(default = "keyword_like")]
    value: Value,
}

fn keyword_like() -> Value {
    json!({"type": "object"})
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Limited {
    #[serde(default = "five")]
    #[schemars(range(min = -1, max = 9))]
    n: i64,
    #[schemars(range(min = 0.5))]
    x: Option<f64>,
    #[schemars(length(min = 1, max = 3), regex(pattern = "^a"))]
    s: String,
    #[schemars(length(min = 1))]
    v: Vec<bool>,
    #[serde(default)]
    o: Only,
}

fn five() -> i64 {
    5
}

#[derive(Default, serde::Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Only {
    #[default]
    Only,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "only its schema matters")]
enum Tagged {
    Open(Open),
    /// Nothing.
    Empty,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
enum Carrying {
    Open(Open),
    Empty {},
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Unclosable {
    x: bool,
    #[serde(flatten)]
    carrying: Carrying,
}

/// Why the registry does not take a tool with these parameters.
fn refused(parameters: Value) -> String {
    Registry::new().add(Custom::new("t", parameters)).expect_err("refused").to_string()
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Tree {
    children: Vec<Tree>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Forest {
    trees: BTreeMap<String, Option<Tree>>,
}

#[test]
fn a_type_that_contains_itself_is_refused() {
    for schema in [of::<Tree>(), of::<Forest>()] {
        let message = refused(schema);
        assert!(message.contains(", as a type does that contains itself: "), "{message}");
    }
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema matters")]
enum Untagged {
    Number(i64),
    Text(String),
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Several {
    untagged: Untagged,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Pair {
    pair: (i64, String),
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Huge {
    n: u128,
}

#[test]
fn what_is_not_enforced_is_refused() {
    for (schema, wanted) in [
        (of::<Several>(), "properties.untagged: the keyword `anyOf` is not enforced on any value"),
        (of::<Pair>(), "properties.pair: the keyword `prefixItems` is not enforced on array"),
        (of::<Huge>(), "properties.n: the format `uint128` is not enforced on integer"),
    ] {
        let message = refused(schema);
        assert!(message.contains(wanted), "{wanted}: {message}");
    }
}

#[test]
fn what_cannot_be_closed_is_refused() {
    let schema = of::<Unclosable>();
    assert!(refused(schema.clone()).contains("the keyword `oneOf` is not enforced on object"), "{schema}");
}

/// The schema of the only argument, of this type.
fn golden<T: JsonSchema>() -> Value {
    let schema = {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema matters")]
        struct One<T> {
            value: T,
        }
        of::<One<T>>()
    };
    schema["properties"]["value"].clone()
}

#[test]
fn one_golden_schema_per_type() {
    let open = json!({
        "type": "object",
        "properties": {"x": {"type": "boolean"}},
        "required": ["x"],
        "additionalProperties": false,
    });
    let cases = [
        (golden::<String>(), json!({"type": "string"})),
        (golden::<bool>(), json!({"type": "boolean"})),
        (golden::<char>(), json!({"type": "string", "minLength": 1, "maxLength": 1})),
        (golden::<i64>(), json!({"type": "integer", "format": "int64"})),
        (golden::<u8>(), json!({"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255})),
        (golden::<u64>(), json!({"type": "integer", "format": "uint64", "minimum": 0})),
        (golden::<usize>(), json!({"type": "integer", "format": "uint", "minimum": 0})),
        (golden::<f64>(), json!({"type": "number", "format": "double"})),
        (golden::<Option<String>>(), json!({"type": ["string", "null"]})),
        (golden::<Option<i32>>(), json!({"type": ["integer", "null"], "format": "int32"})),
        (golden::<Vec<String>>(), json!({"type": "array", "items": {"type": "string"}})),
        (
            golden::<BTreeMap<String, bool>>(),
            json!({"type": "object", "additionalProperties": {"type": "boolean"}}),
        ),
        (golden::<Plain>(), json!({"type": "string", "enum": ["red", "dark_blue"]})),
        (golden::<Option<Plain>>(), json!({"type": ["string", "null"], "enum": ["red", "dark_blue", null]})),
        (golden::<Documented>(), json!({"type": "string", "enum": ["C", "A", "B"]})),
        (golden::<Option<Documented>>(), json!({"type": ["string", "null"], "enum": ["C", "A", "B", null]})),
        (
            golden::<Option<Inner>>(),
            json!({
                "type": ["object", "null"],
                "properties": {"x": {"type": "integer", "format": "int64", "description": "How far."}},
                "required": ["x"],
                "additionalProperties": false,
            }),
        ),
        (golden::<Open>(), open.clone()),
        (golden::<Vec<Open>>(), json!({"type": "array", "items": open})),
        (golden::<BTreeMap<String, Open>>(), json!({"type": "object", "additionalProperties": open})),
        (golden::<Empty>(), json!({"type": "object", "additionalProperties": false})),
        (
            golden::<Flattening>(),
            json!({
                "type": "object",
                "properties": {
                    "x": {"type": "boolean"},
                    "type": {"type": "boolean", "description": "Named like keywords."},
                    "properties": {"type": "boolean"},
                },
                "required": ["x", "type", "properties"],
                "additionalProperties": false,
            }),
        ),
        (
            golden::<Keeping>(),
            json!({
                "type": "object",
                "properties": {"x": {"type": "boolean"}},
                "required": ["x"],
                "additionalProperties": {"type": "boolean"},
            }),
        ),
        (golden::<Map<String, Value>>(), json!({"type": "object", "additionalProperties": true})),
        (
            golden::<[u8; 2]>(),
            json!({
                "type": "array",
                "items": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255},
                "minItems": 2,
                "maxItems": 2,
            }),
        ),
        (
            golden::<BTreeSet<String>>(),
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        ),
        (
            golden::<Limited>(),
            json!({
                "type": "object",
                "properties": {
                    "n": {"type": ["integer", "null"], "format": "int64", "minimum": -1, "maximum": 9, "default": 5},
                    "x": {"type": ["number", "null"], "format": "double", "minimum": 0.5},
                    "s": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a"},
                    "v": {"type": "array", "items": {"type": "boolean"}, "minItems": 1},
                    "o": {"type": ["string", "null"], "enum": ["only", null], "default": "only"},
                },
                "required": ["s", "v"],
                "additionalProperties": false,
            }),
        ),
        (
            golden::<Carrying>(),
            json!({"oneOf": [
                {"type": "object", "properties": {"Open": open}, "required": ["Open"], "additionalProperties": false},
                {
                    "type": "object",
                    "properties": {"Empty": {"type": "object", "additionalProperties": false}},
                    "required": ["Empty"],
                    "additionalProperties": false,
                },
            ]}),
        ),
        (
            golden::<Option<Tagged>>(),
            json!({"oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"type": "string", "const": "Open"}, "x": {"type": "boolean"}},
                    "required": ["kind", "x"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "description": "Nothing.",
                    "properties": {"kind": {"type": "string", "const": "Empty"}},
                    "required": ["kind"],
                    "additionalProperties": false,
                },
                {"type": "null"},
            ]}),
        ),
        (
            golden::<Defaulted>(),
            json!({
                "type": "object",
                "properties": {"value": {"default": {"type": "object"}}},
                "additionalProperties": false,
            }),
        ),
    ];
    for (schema, wanted) in cases {
        assert_eq!(schema, wanted);
    }
}

#[test]
fn a_tool_is_shown_as_its_function_says() {
    /// Finds lines.
    ///
    /// All of them.
    ///
    /// # Panics
    /// Never.
    #[tool(name = "find-lines", mutates)]
    fn find(
        /// What to look for.
        #[arg(min_length = 1, max_length = 80, pattern = "^\\S")]
        text: String,
        /// How many at most.
        #[arg(default = 10, min = 1, max = 100)]
        limit: u32,
        #[arg(min_items = 1, max_items = 5)] files: Option<Vec<String>>,
    ) -> String {
        format!("{text} {limit} {files:?}")
    }
    let mut registry = Registry::new();
    registry.add(find::tool()).expect("valid");
    let spec = &registry.specs()[0];
    assert_eq!(
        (spec.name.as_str(), spec.description.as_str()),
        ("find-lines", "Finds lines.\n\nAll of them.")
    );
    assert!(spec.mutates);
    assert_eq!(
        spec.parameters,
        json!({
            "type": "object",
            "properties": {
                "text": {
                    "type": "string",
                    "description": "What to look for.",
                    "minLength": 1,
                    "maxLength": 80,
                    "pattern": "^\\S",
                },
                "limit": {
                    "type": ["integer", "null"],
                    "format": "uint32",
                    "description": "How many at most.",
                    "minimum": 1,
                    "maximum": 100,
                    "default": 10,
                },
                "files": {"type": ["array", "null"], "items": {"type": "string"}, "minItems": 1, "maxItems": 5},
            },
            "required": ["text"],
            "additionalProperties": false,
        })
    );
}
