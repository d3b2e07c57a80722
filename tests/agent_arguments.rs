//! Argument text × parameter type → accepted value or message: through the registry, and once more through the loop,
//! where the message has to reach the model as the result of that very call.

use agentkit_agent::model::scripted::{Scripted, ScriptedArguments, Turn};
use agentkit_agent::model::{Message, Reply, Request, ToolCall};
use agentkit_agent::{
    Agent, Context, Model, ModelError, Registry, RegistryError, Tool, ToolError, ToolErrorKind, ToolOutput,
    ToolSpec, tool,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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

fn registry() -> Registry {
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
        Box::new(points::tool()),
        Box::new(map::tool()),
        Box::new(anything::tool()),
        Box::new(nothing::tool()),
        Box::new(two::tool()),
    ];
    let mut registry = Registry::new();
    for tool in tools {
        registry.add(tool).expect("every derived schema is enforced");
    }
    registry
}

type Row = (&'static str, &'static str, Result<&'static str, &'static str>);

/// What every row of an error is preceded by is left out: "invalid arguments for `tool`".
const TABLE: &[Row] = &[
    ("integer", r#"{"n":3}"#, Ok("3")),
    ("integer", r#" { "n" : -3 } "#, Ok("-3")),
    ("integer", r#"{"n":3.0}"#, Ok("3")),
    ("integer", r#"{"n":3e2}"#, Ok("300")),
    ("integer", r#"{"n":9007199254740993.0}"#, Ok("9007199254740993")),
    ("integer", r#"{"n":9223372036854775807}"#, Ok("9223372036854775807")),
    (
        "integer",
        r#"{"n":9223372036854775808}"#,
        Err(": `n` should be from -9223372036854775808 to 9223372036854775807, got 9223372036854775808"),
    ),
    (
        "integer",
        r#"{"n":1e400}"#,
        Err(": `n` should be from -9223372036854775808 to 9223372036854775807, got 1e400"),
    ),
    ("integer", r#"{"n":7.5}"#, Err(": `n` should be integer, got 7.5")),
    ("integer", r#"{"n":true}"#, Err(": `n` should be integer, got boolean")),
    ("integer", r#"{"n":"3"}"#, Err(": `n` should be integer, got string")),
    ("integer", r#"{"n":null}"#, Err(": `n` should be integer, got null")),
    ("integer", r#"{"n":[3]}"#, Err(": `n` should be integer, got array")),
    ("integer", r#"{"n":NaN}"#, Err(": not valid JSON: a bare word is not JSON at character 6: `NaN}`")),
    ("integer", r#"{"n":-Infinity}"#, Err(": not valid JSON: expected a digit at character 7: `Infinity}`")),
    ("integer", "", Err(": `n` is missing (nothing was given)")),
    ("integer", "{}", Err(": `n` is missing (nothing was given)")),
    ("integer", "null", Err(": should be an object, got null")),
    ("integer", "3", Err(": should be an object, got number")),
    ("integer", "[3]", Err(": should be an object, got array")),
    ("integer", r#""{\"n\":3}""#, Err(": should be an object, got string")),
    ("integer", r#"{"n":3,"n":4}"#, Err(": `n` is given more than once")),
    ("integer", r#"{"n":3,"n":3}"#, Err(": `n` is given more than once")),
    (
        "integer",
        r#"{"n":3}"""#,
        Err(": not valid JSON: unexpected text after the end of the value at character 8: `\"\"`"),
    ),
    ("integer", r#"{"n":3"#, Err(": not valid JSON: expected `,` or `}` at character 7, at the end")),
    (
        "integer",
        "{'n':3}",
        Err(": not valid JSON: expected a name in double quotes at character 2: `'n':3}`"),
    ),
    ("integer", r#"{"n":3,}"#, Err(": not valid JSON: expected a name in double quotes at character 8: `}`")),
    ("integer", r#"{"n":3,"m":4}"#, Err(": unknown argument `m` (valid: `n`)")),
    (
        "integer",
        r#"{"number":3}"#,
        Err(":\n- `n` is missing (given: `number`)\n- unknown argument `number` (valid: `n`)"),
    ),
    ("small", r#"{"n":255}"#, Ok("255")),
    ("small", r#"{"n":256}"#, Err(": `n` should be from 0 to 255, got 256")),
    ("small", r#"{"n":-1}"#, Err(": `n` should be from 0 to 255, got -1")),
    ("small", r#"{"n":-0}"#, Ok("0")),
    ("large", r#"{"n":18446744073709551615}"#, Ok("18446744073709551615")),
    (
        "large",
        r#"{"n":18446744073709551616}"#,
        Err(": `n` should be from 0 to 18446744073709551615, got 18446744073709551616"),
    ),
    ("real", r#"{"x":0.1}"#, Ok("0.1")),
    ("real", r#"{"x":3}"#, Ok("3.0")),
    ("real", r#"{"x":-0}"#, Ok("-0.0")),
    ("real", r#"{"x":1e999}"#, Err(": `x` is too large for a number, got 1e999")),
    ("real", r#"{"x":"0.1"}"#, Err(": `x` should be number, got string")),
    ("real", r#"{"x":false}"#, Err(": `x` should be number, got boolean")),
    ("text", r#"{"s":"\ud83e\udd80"}"#, Ok("\"🦀\"")),
    ("text", r#"{"s":""}"#, Ok("\"\"")),
    ("text", r#"{"s":3}"#, Err(": `s` should be string, got number")),
    (
        "text",
        r#"{"s":"\ud800"}"#,
        Err(": not valid JSON: half of a surrogate pair is not a character at character 7: `\\ud800\"}`"),
    ),
    (
        "text",
        r#"{"s":"\u12"}"#,
        Err(": not valid JSON: `\\u` needs four hexadecimal digits at character 7: `\\u12\"}`"),
    ),
    (
        "text",
        r#"{"s":"cut"#,
        Err(": not valid JSON: a string is not closed: the text may be cut at character 6: `\"cut`"),
    ),
    ("character", r#"{"c":"é"}"#, Ok("'é'")),
    ("character", r#"{"c":"ab"}"#, Err(": `c` should have exactly 1 character(s), got 2")),
    ("flag", r#"{"b":true}"#, Ok("true")),
    ("flag", r#"{"b":1}"#, Err(": `b` should be boolean, got number")),
    ("flag", r#"{"b":"true"}"#, Err(": `b` should be boolean, got string")),
    ("flag", r#"{"b":True}"#, Err(": not valid JSON: a bare word is not JSON at character 6: `True}`")),
    ("optional", "", Ok("None")),
    ("optional", "  \n ", Ok("None")),
    ("optional", "{}", Ok("None")),
    ("optional", r#"{"n":null}"#, Ok("None")),
    ("optional", r#"{"n":3}"#, Ok("Some(3)")),
    ("optional", r#"{"n":"3"}"#, Err(": `n` should be integer, got string")),
    ("optional", "null", Err(": should be an object, got null")),
    ("choice", r#"{"c":"dark_blue"}"#, Ok("DarkBlue")),
    (
        "choice",
        r#"{"c":"Red"}"#,
        Err(": `c` should be one of `red`, `dark_blue`, got `Red`, did you mean `red`?"),
    ),
    ("choice", r#"{"c":"green"}"#, Err(": `c` should be one of `red`, `dark_blue`, got `green`")),
    ("choice", r#"{"c":0}"#, Err(": `c` should be string, got number")),
    ("optional_choice", r#"{"c":null}"#, Ok("None")),
    ("optional_choice", r#"{"c":"red"}"#, Ok("Some(Red)")),
    ("list", r#"{"items":[]}"#, Ok("[]")),
    ("list", r#"{"items":[1,2.0]}"#, Ok("[1, 2]")),
    (
        "list",
        r#"{"items":[1,"2",true]}"#,
        Err(":\n- `items[1]` should be integer, got string\n- `items[2]` should be integer, got boolean"),
    ),
    ("list", r#"{"items":{"0":1}}"#, Err(": `items` should be array, got object")),
    ("list", r#"{"items":1}"#, Err(": `items` should be array, got number")),
    (
        "points",
        r#"{"points":[{"x":1},{"x":2,"y":null}]}"#,
        Ok("[Point { x: 1, y: None }, Point { x: 2, y: None }]"),
    ),
    ("points", r#"{"points":[[1,2]]}"#, Err(": `points[0]` should be object, got array")),
    (
        "points",
        r#"{"points":[{"x":1,"x":2},{"z":true}]}"#,
        Err(
            ":\n- `points[0].x` is given more than once\n- `points[1].x` is missing (given: `z`)\n- unknown argument \
             `z` in `points[1]` (valid: `x`, `y`)",
        ),
    ),
    ("map", r#"{"entries":{"a":true}}"#, Ok("{\"a\": true}")),
    ("map", r#"{"entries":{"a":1}}"#, Err(": `entries.a` should be boolean, got number")),
    ("map", r#"{"entries":{"a":true,"a":false}}"#, Err(": `entries.a` is given more than once")),
    ("anything", r#"{"value":[1,{"a":null}]}"#, Ok("[1,{\"a\":null}]")),
    ("anything", r#"{"value":null}"#, Ok("null")),
    ("anything", r#"{"value":{"a":1,"a":2}}"#, Err(": `value.a` is given more than once")),
    ("nothing", "", Ok("done")),
    ("nothing", "{}", Ok("done")),
    ("nothing", r#"{"x":1}"#, Err(": unknown argument `x` (it takes no arguments)")),
    ("two", r#"{"first_value":1,"second_value":"a"}"#, Ok("(1, \"a\")")),
    (
        "two",
        r#"{"firstValue":1,"second_value":2}"#,
        Err(
            ":\n- `first_value` is missing (given: `firstValue`, `second_value`)\n- unknown argument `firstValue`, \
             did you mean `first_value`? (valid: `first_value`, `second_value`)\n- `second_value` should be string, \
             got number",
        ),
    ),
    (
        "two",
        r#"{"second_value":null}"#,
        Err(
            ":\n- `first_value` is missing (given: `second_value`)\n- `second_value` should be string, got null",
        ),
    ),
];

fn call(registry: &Registry, tool: &str, arguments: &str) -> Result<ToolOutput, ToolError> {
    let call = ToolCall { id: "1".to_owned(), name: tool.to_owned(), arguments: arguments.to_owned() };
    registry.call(&Context::detached(), &call, false)
}

/// The message of a row in full.
fn message(tool: &str, rest: &str) -> String {
    format!("invalid arguments for `{tool}`{rest}")
}

#[test]
fn the_registry_accepts_or_explains() {
    let registry = registry();
    for (tool, arguments, wanted) in TABLE {
        match (call(&registry, tool, arguments), wanted) {
            (Ok(output), Ok(value)) => assert_eq!(output.text, *value, "{tool} {arguments}"),
            (Err(error), Err(rest)) => {
                assert_eq!(error.kind, ToolErrorKind::InvalidArguments, "{tool} {arguments}");
                assert_eq!(error.message, message(tool, rest), "{tool} {arguments}");
            }
            (result, _) => panic!("{tool} {arguments}: {result:?}"),
        }
    }
}

/// Plays a script and keeps what the model was shown last.
struct Watched {
    script: Scripted,
    seen: Mutex<Vec<Message>>,
}

impl Model for Watched {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn reply(&self, context: &Context, request: &Request<'_>) -> Result<Reply, ModelError> {
        *self.seen.lock().expect("lock") = request.messages.to_vec();
        self.script.reply(context, request)
    }
}

#[test]
fn the_same_reaches_the_model_as_the_result_of_the_call() {
    for (tool, arguments, wanted) in TABLE {
        let turns = vec![Turn::call(*tool, ScriptedArguments::from(*arguments)), Turn::answer("done")];
        let model = Arc::new(Watched { script: Scripted::new("table", turns), seen: Mutex::default() });
        Agent::new(Arc::clone(&model), registry()).run("go");
        let seen = model.seen.lock().expect("lock");
        let (text, is_error) = match wanted {
            Ok(value) => ((*value).to_owned(), false),
            Err(rest) => (message(tool, rest), true),
        };
        let result = Message::Tool { call_id: "call_1".to_owned(), text, is_error };
        assert_eq!(seen.last(), Some(&result), "{tool} {arguments}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    let registry = registry();
    for opening in ["[", r#"{"a":"#] {
        let error = call(&registry, "anything", &format!(r#"{{"value":{}"#, opening.repeat(200_000)));
        let error = error.expect_err("too deep").message;
        assert!(error.contains("nested deeper than 64 levels"), "{error}");
    }
}

#[test]
fn a_flood_of_faults_stays_readable() {
    let members: Vec<String> = (0..1_000).map(|n| format!("\"unknown{n}\":{n}")).collect();
    let error = call(&registry(), "nothing", &format!("{{{}}}", members.join(","))).expect_err("all unknown");
    assert!(error.message.ends_with("\n- and 980 more"), "{}", error.message);
    let name = "x".repeat(1_000_000);
    let error = call(&registry(), "nothing", &format!("{{\"{name}\":1}}")).expect_err("unknown");
    assert!(error.message.len() < 300, "{}", error.message.len());
}

#[test]
fn many_members_are_read_in_one_pass() {
    let flood = |count: usize, member: fn(usize) -> String| {
        let members: Vec<String> = (0..count).map(member).collect();
        format!("{{{}}}", members.join(","))
    };
    let distinct = |count| flood(count, |n| format!("\"key{n}\":1"));
    let equal = |count| flood(count, |_| "\"key\":1".to_owned());
    for (tool, arguments, wanted) in [
        ("nothing", distinct(300_000), "and 299980 more"),
        ("nothing", equal(50_000), "and 49980 more"),
        ("two", distinct(50_000), "and 49982 more"),
        ("anything", format!("{{\"value\":{}}}", equal(50_000)), "and 49979 more"),
        ("map", format!("{{\"entries\":{}}}", distinct(50_000)), "and 49980 more"),
        ("points", format!("{{\"points\":[{}]}}", distinct(50_000)), "and 49981 more"),
        ("list", format!("{{\"items\":[{}]}}", vec!["true"; 50_000].join(",")), "and 49980 more"),
    ] {
        let started = Instant::now();
        let error = call(&registry(), tool, &arguments).expect_err("invalid");
        // Well under a second without load; comparing each with each took minutes.
        assert!(started.elapsed() < Duration::from_secs(15), "{tool}: {:?}", started.elapsed());
        assert!(error.message.ends_with(wanted) && error.message.len() < 40_000, "{tool}: {}", error.message);
    }
    assert!(call(&registry(), "anything", &format!("{{\"value\":{}}}", distinct(50_000))).is_ok());
}

#[test]
fn a_plain_value_is_a_result() {
    /// Adds.
    #[tool]
    fn add(a: u64, b: u64) -> u64 {
        a + b
    }
    /// Compares.
    #[tool]
    fn less(a: u64, b: u64) -> Result<bool, ToolError> {
        Ok(a < b)
    }
    let mut registry = Registry::new();
    registry.add(add::tool()).expect("valid");
    registry.add(less::tool()).expect("valid");
    let text = |tool| call(&registry, tool, r#"{"a":1,"b":2}"#).map(|output| output.text);
    assert_eq!((text("add"), text("less")), (Ok("3".to_owned()), Ok("true".to_owned())));
}

#[test]
fn an_unknown_tool_is_named_with_the_nearest() {
    let error = call(&registry(), "Integer", "{}").expect_err("no such tool");
    assert_eq!(error.kind, ToolErrorKind::UnknownTool);
    assert!(
        error.message.starts_with("there is no tool `Integer`, did you mean `integer`? (valid: `integer`, ")
    );
    let error = call(&Registry::new(), "x\u{1b}[31m", "{}").expect_err("no such tool");
    assert_eq!(error.message, "there is no tool `x\\u{1b}[31m` (there are no tools)");
}

/// A tool made by hand.
struct Custom(ToolSpec);

impl Custom {
    fn new(name: &str, parameters: Value) -> Self {
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

#[test]
fn names_are_valid_and_unique_and_schemas_enforceable() {
    let mut registry = Registry::new();
    let open = json!({"type": "object"});
    registry.add(Custom::new("a-B_9", open.clone())).expect("a valid name");
    assert_eq!(
        registry.add(Custom::new("a-B_9", open.clone())),
        Err(RegistryError::DuplicateName("a-B_9".to_owned()))
    );
    for name in ["", "a b", "ä", "a.b", &"x".repeat(65)] {
        assert_eq!(
            registry.add(Custom::new(name, open.clone())),
            Err(RegistryError::InvalidName(name.to_owned()))
        );
    }
    let pattern = json!({"type": "object", "properties": {"p": {"type": "string", "pattern": "^a$"}}});
    let error = registry.add(Custom::new("b", pattern)).expect_err("not enforced");
    assert_eq!(
        error.to_string(),
        "the parameters of `b` cannot be enforced: properties.p: the keyword `pattern` is not enforced on string, so \
         it is refused"
    );
    assert_eq!(registry.specs().len(), 1);
}

#[test]
fn bounds_of_a_schema_made_by_hand_are_enforced() {
    let mut registry = Registry::new();
    let parameters = json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 5},
            "x": {"type": "number", "maximum": 0.5},
            "s": {"type": "string", "minLength": 2},
            "a": {"type": "array", "items": {"type": "string", "const": "k"}, "maxItems": 1},
        },
    });
    registry.add(Custom::new("t", parameters)).expect("enforceable");
    let text = |arguments: &str| match call(&registry, "t", arguments) {
        Ok(output) => output.text,
        Err(error) => error.message,
    };
    assert_eq!(
        text(r#"{"n":5,"x":0.5,"s":"ab","a":["k"],"z":null}"#),
        r#"{"a":["k"],"n":5,"s":"ab","x":0.5,"z":null}"#
    );
    assert_eq!(text(r#"{"n":6}"#), "invalid arguments for `t`: `n` should be from 1 to 5, got 6");
    assert_eq!(text(r#"{"x":0.6}"#), "invalid arguments for `t`: `x` should be at most 0.5, got 0.6");
    assert_eq!(
        text(r#"{"s":"é"}"#),
        "invalid arguments for `t`: `s` should have at least 2 character(s), got 1"
    );
    assert_eq!(
        text(r#"{"a":["k","k"]}"#),
        "invalid arguments for `t`: `a` should have 0 to 1 item(s), got 2"
    );
    assert_eq!(text(r#"{"a":["l"]}"#), "invalid arguments for `t`: `a[0]` should be one of `k`, got `l`");
    assert_eq!(text(r#"{"s":null}"#), "{}");
}

/// JSON without duplicate keys and with numbers that `serde_json` holds exactly.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|x: f64| Value::from((x * 8.0).round() / 8.0)),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,5}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_accepted_is_what_serde_json_reads(value in json_value(), pretty in any::<bool>()) {
        let arguments = json!({ "value": value });
        let text = if pretty { serde_json::to_string_pretty(&arguments) } else { serde_json::to_string(&arguments) };
        let output = call(&registry(), "anything", &text.expect("JSON")).expect("valid");
        prop_assert_eq!(serde_json::from_str::<Value>(&output.text).expect("JSON"), arguments["value"].clone());
    }

    #[test]
    fn any_arguments_get_an_answer(
        tool in prop::sample::select(&["integer", "real", "points", "anything", "two", "none"][..]),
        arguments in "\\PC{0,40}|[\\[\\]{}:,\"\\\\a-z0-9.eE+\\- ]{0,60}",
    ) {
        if let Err(error) = call(&registry(), tool, &arguments) {
            prop_assert!(matches!(error.kind, ToolErrorKind::InvalidArguments | ToolErrorKind::UnknownTool));
            prop_assert!(error.message.len() < 4_000);
        }
    }
}
