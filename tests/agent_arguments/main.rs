//! What a model may call and with what: the schemas it is shown, and the check of what it sends.

mod agreement;
mod golden;
mod table;
mod tools;

use agentkit_agent::{Context, Registry, RegistryError, ToolError, ToolErrorKind, tool};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tools::{Custom, REGISTRY, call};

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    for opening in ["[", r#"{"a":"#] {
        let error = call(&REGISTRY, "anything", &format!(r#"{{"value":{}"#, opening.repeat(200_000)));
        let error = error.expect_err("too deep").message;
        assert!(error.contains("nested deeper than 64 levels"), "{error}");
    }
}

#[test]
fn a_flood_of_faults_stays_readable() {
    let members: Vec<String> = (0..1_000).map(|n| format!("\"unknown{n}\":{n}")).collect();
    let error = call(&REGISTRY, "nothing", &format!("{{{}}}", members.join(","))).expect_err("all unknown");
    assert!(error.message.ends_with("\n- and 980 more"), "{}", error.message);
    let name = "x".repeat(1_000_000);
    let error = call(&REGISTRY, "nothing", &format!("{{\"{name}\":1}}")).expect_err("unknown");
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
        ("nothing", distinct(70_000), "and 69980 more"),
        ("nothing", equal(50_000), "and 49980 more"),
        ("two", distinct(50_000), "and 49982 more"),
        ("anything", format!("{{\"value\":{}}}", equal(50_000)), "and 49979 more"),
        ("map", format!("{{\"entries\":{}}}", distinct(50_000)), "and 49980 more"),
        ("points", format!("{{\"points\":[{}]}}", distinct(50_000)), "and 49981 more"),
        ("list", format!("{{\"items\":[{}]}}", vec!["true"; 50_000].join(",")), "and 49980 more"),
    ] {
        let started = Instant::now();
        let error = call(&REGISTRY, tool, &arguments).expect_err("invalid");
        // Well under a second without load; comparing each with each took minutes.
        assert!(started.elapsed() < Duration::from_secs(60), "{tool}: {:?}", started.elapsed());
        assert!(error.message.ends_with(wanted) && error.message.len() < 40_000, "{tool}: {}", error.message);
    }
    assert!(call(&REGISTRY, "anything", &format!("{{\"value\":{}}}", distinct(50_000))).is_ok());
}

#[test]
fn the_length_is_bounded() {
    let text = |length: usize| format!("{{\"s\":\"{}\"}}", "x".repeat(length - 8));
    assert!(call(&REGISTRY, "text", &text(1 << 20)).is_ok());
    let error = call(&REGISTRY, "text", &text((1 << 20) + 1)).expect_err("too long");
    assert_eq!(
        error.message,
        "invalid arguments for `text`: 1048577 bytes are too many, at most 1048576 are read"
    );
}

/// The names that the macro uses itself, and those of the language.
#[test]
fn names_of_arguments_do_not_matter() {
    #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "shown by Debug only")]
    struct Arguments {
        context: bool,
    }
    /// Takes them.
    #[tool]
    fn value(
        context: Arguments,
        arguments: String,
        r#type: u8,
        #[arg(default = 1)] value: u8,
        #[arg(default = 2)] r#fn: u8,
    ) -> String {
        format!("{context:?} {arguments} {type} {value} {fn}", type = r#type, fn = r#fn)
    }
    let mut registry = Registry::new();
    registry.add(value::tool()).expect("valid");
    let output = call(&registry, "value", r#"{"context":{"context":true},"arguments":"a","type":3}"#);
    assert_eq!(output.expect("valid").text, "Arguments { context: true } a 3 1 2");
}

#[test]
fn limits_that_cannot_hold_are_refused() {
    /// A text has no minimum.
    #[tool]
    fn minimum(#[arg(min = 1)] s: String) -> String {
        s
    }
    /// A byte is never as much.
    #[tool]
    fn beyond(#[arg(max = 256)] n: u8) -> u8 {
        n
    }
    /// Not within its own limits.
    #[tool]
    fn default(#[arg(default = 0, min = 1)] n: u8) -> u8 {
        n
    }
    let refused = |tool: Result<(), RegistryError>| match tool {
        Err(RegistryError::Schema { error, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let mut registry = Registry::new();
    assert_eq!(
        refused(registry.add(minimum::tool())),
        "properties.s: the keyword `minimum` is not enforced on string, so it is refused"
    );
    assert_eq!(
        refused(registry.add(beyond::tool())),
        "properties.n: `maximum` is beyond the type, which holds 0 to 255"
    );
    assert_eq!(
        refused(registry.add(default::tool())),
        "properties.n: the default does not fit: `default` should be from 1 to 255, got 0"
    );
}

#[test]
fn state_is_shared_and_outlives_a_panic_under_its_lock() {
    /// Counts up; an odd step panics half-way.
    #[tool(name = "count-up", mutates)]
    fn count(total: &Arc<Mutex<u64>>, step: u64) -> u64 {
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(step.is_multiple_of(2), "odd");
        *total += step;
        *total
    }
    let total = Arc::new(Mutex::new(0));
    let mut registry = Registry::new();
    registry.add(count::tool(Arc::clone(&total))).expect("valid");
    let text = |step: u64| call(&registry, "count-up", &json!({ "step": step }).to_string());
    assert_eq!(text(2).expect("even").text, "2");
    let error = text(1).expect_err("odd");
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ToolErrorKind::Panicked, "`count-up` failed inside: odd")
    );
    assert_eq!(text(4).expect("even").text, "6");
    assert_eq!(*total.lock().unwrap_or_else(PoisonError::into_inner), 6);
}

/// The seat that a call left locked is that tool's own: others are not kept waiting.
#[test]
fn a_tool_that_holds_its_lock_for_ever_keeps_no_other_from_running() {
    /// Takes the lock and waits with it.
    #[tool]
    fn stuck(context: &Context, lock: &Arc<Mutex<()>>) -> String {
        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !context.cancel().is_cancelled() {
            std::thread::yield_now();
        }
        "freed".to_owned()
    }
    let mut registry = tools::registry();
    let lock = Arc::new(Mutex::new(()));
    registry.add(stuck::tool(Arc::clone(&lock))).expect("valid");
    let (registry, context) = (Arc::new(registry), Context::detached());
    let waiting = {
        let (registry, context) = (Arc::clone(&registry), context.clone());
        std::thread::spawn(move || tools::call_in(&registry, &context, "stuck", ""))
    };
    while lock.try_lock().is_ok() {
        std::thread::yield_now();
    }
    assert_eq!(call(&registry, "integer", r#"{"n":3}"#).expect("valid").text, "3");
    context.cancel().cancel();
    assert_eq!(waiting.join().expect("no panic").expect("heeds the flag").text, "freed");
}

#[test]
fn the_tools_are_told_in_words() {
    let text = REGISTRY.describe();
    assert_eq!(text.matches("## ").count(), REGISTRY.specs().len());
    let limited = "\
## limited
Takes what is limited.
Arguments:
- `count` (integer, 1 to 100, optional, default 10): How many.
- `share` (number, at most 0.5, optional)
- `tags` (list of string, at most 2 item(s), no two equal, optional, default [])
- `word` (string, 2 to 4 character(s), matching `^[a-z]*$`, optional, default \"ab\")
";
    assert!(text.contains(limited), "{text}");
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
    let error = call(&REGISTRY, "Integer", "{}").expect_err("no such tool");
    assert_eq!(error.kind, ToolErrorKind::UnknownTool);
    assert!(
        error.message.starts_with("there is no tool `Integer`, did you mean `integer`? (valid: `integer`, ")
    );
    let error = call(&Registry::new(), "x\u{1b}[31m", "{}").expect_err("no such tool");
    assert_eq!(error.message, "there is no tool `x\\u{1b}[31m` (there are no tools)");
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
    let format = json!({"type": "object", "properties": {"p": {"type": "string", "format": "uri"}}});
    let error = registry.add(Custom::new("b", format)).expect_err("not enforced");
    assert_eq!(
        error.to_string(),
        "the parameters of `b` cannot be enforced: properties.p: the keyword `format` is not enforced on string, so it \
         is refused"
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
