//! Schema and check agree, whatever is sent: what one takes the other takes, what is taken can be read into the type of
//! the argument, and nothing panics.

use crate::tools::{REGISTRY, call};
use agentkit_agent::ToolErrorKind;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Whether a value fits a schema, by the words of JSON Schema 2020-12 (sections 6 and 10 of its validation and core
/// documents). One thing is ours: a `format` of a number is its range.
fn fits(schema: &Value, value: &Value) -> bool {
    let Value::Object(keywords) = schema else { return *schema == true };
    keywords.iter().all(|(keyword, wanted)| match keyword.as_str() {
        "type" => match wanted {
            Value::Array(names) => names.iter().any(|name| is(name, value)),
            name => is(name, value),
        },
        "enum" => wanted.as_array().is_some_and(|choices| choices.contains(value)),
        "const" => wanted == value,
        "minimum" => value.as_f64().is_none_or(|x| x >= wanted.as_f64().unwrap_or(f64::NAN)),
        "maximum" => value.as_f64().is_none_or(|x| x <= wanted.as_f64().unwrap_or(f64::NAN)),
        "format" => value.as_f64().is_none_or(|x| in_format(wanted.as_str().unwrap_or_default(), x, value)),
        "minLength" => value.as_str().is_none_or(|s| s.chars().count() as u64 >= count(wanted)),
        "maxLength" => value.as_str().is_none_or(|s| s.chars().count() as u64 <= count(wanted)),
        "pattern" => value.as_str().is_none_or(|s| {
            regex_lite::Regex::new(wanted.as_str().unwrap_or_default()).expect("a pattern").is_match(s)
        }),
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= count(wanted)),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= count(wanted)),
        "uniqueItems" => value.as_array().is_none_or(|items| {
            *wanted == false || (1..items.len()).all(|n| !items[..n].contains(&items[n]))
        }),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| fits(wanted, item))),
        "oneOf" => {
            let schemas = wanted.as_array().expect("schemas");
            schemas.iter().filter(|schema| fits(schema, value)).count() == 1
        }
        "required" => value.as_object().is_none_or(|members| {
            let names = wanted.as_array().expect("names");
            names.iter().all(|name| members.contains_key(name.as_str().unwrap_or_default()))
        }),
        "properties" => value.as_object().is_none_or(|members| {
            members.iter().all(|(name, value)| wanted.get(name).is_none_or(|schema| fits(schema, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|members| {
            let listed = keywords.get("properties");
            let mut others =
                members.iter().filter(|(name, _)| listed.is_none_or(|listed| listed.get(name).is_none()));
            others.all(|(_, value)| fits(wanted, value))
        }),
        "title" | "description" | "default" => true,
        other => panic!("{other} is not known here"),
    })
}

fn count(limit: &Value) -> u64 {
    limit.as_u64().expect("a count")
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|x| x.fract() == 0.0),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

fn in_format(format: &str, x: f64, value: &Value) -> bool {
    match format {
        "double" => true,
        "uint8" => (0.0..256.0).contains(&x),
        "uint32" => (0.0..4_294_967_296.0).contains(&x),
        // Where a float cannot tell, the number itself can.
        "uint64" => value.is_u64() || (value.is_f64() && (0.0..18_446_744_073_709_551_616.0).contains(&x)),
        "int64" => {
            value.is_i64()
                || (value.is_f64()
                    && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x))
        }
        other => panic!("there is no format {other}"),
    }
}

/// Values that often fit a schema, and often miss it by little.
fn near(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(variants) = schema["oneOf"].as_array() {
        let variants: Vec<_> = variants.iter().map(near).collect();
        return prop_oneof![9 => proptest::strategy::Union::new(variants), 1 => leaf()].boxed();
    }
    let choices =
        schema["enum"].as_array().cloned().or_else(|| schema.get("const").map(|only| vec![only.clone()]));
    if let Some(choices) = choices {
        return prop_oneof![9 => prop::sample::select(choices), 1 => leaf()].boxed();
    }
    let name = match &schema["type"] {
        Value::Array(names) => names[0].clone(),
        name => name.clone(),
    };
    let typed = match name.as_str() {
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("integer" | "number") => number(schema),
        Some("string") => "[ab]{0,2}|[a-zA-Z1]{0,5}".prop_map(Value::from).boxed(),
        Some("array") => prop::collection::vec(near(&schema["items"]), 0..4).prop_map(Value::from).boxed(),
        Some("object") => object(schema),
        _ => leaf(),
    };
    prop_oneof![20 => typed, 1 => leaf(), 1 => Just(Value::Null)].boxed()
}

/// Numbers around the limits.
fn number(schema: &Value) -> BoxedStrategy<Value> {
    let limits = ["minimum", "maximum"].map(|keyword| schema[keyword].as_f64().unwrap_or(0.0));
    prop_oneof![
        (prop::sample::select(limits.to_vec()), -1..2).prop_map(|(limit, step)| {
            let near = limit + f64::from(step);
            // Both spellings of a whole number.
            if near.fract() == 0.0 && step == 0 { json!(near as i64) } else { json!(near) }
        }),
        (1i64..9).prop_map(Value::from),
        prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from)
        ],
        prop::sample::select(&[0.25, 0.5, 2.0, 1e19, -1e19, 9_223_372_036_854_775_808.0][..])
            .prop_map(Value::from),
    ]
    .boxed()
}

/// Most members, and sometimes one too many.
fn object(schema: &Value) -> BoxedStrategy<Value> {
    let listed = schema["properties"].as_object().cloned().unwrap_or_default();
    let members: Vec<_> = listed
        .iter()
        .map(|(name, schema)| {
            let name = name.clone();
            prop::option::weighted(0.9, near(schema))
                .prop_map(move |value| value.map(|value| (name.clone(), value)))
        })
        .collect();
    let others = match &schema["additionalProperties"] {
        Value::Object(values) => {
            prop::collection::vec(("[a-z]{1,2}", near(&Value::Object(values.clone()))), 0..3).boxed()
        }
        _ => prop_oneof![19 => Just(Vec::new()), 1 => Just(vec![("zz".to_owned(), json!(1))])].boxed(),
    };
    (members, others)
        .prop_map(|(members, others)| {
            Value::Object(members.into_iter().flatten().chain(others).collect::<Map<_, _>>())
        })
        .boxed()
}

fn leaf() -> BoxedStrategy<Value> {
    let leaves =
        [json!(null), json!(true), json!(3), json!("a"), json!([]), json!({}), json!([1]), json!({"a": 1})];
    prop::sample::select(leaves.to_vec()).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn schema_and_check_agree(arguments in REGISTRY.specs().iter().map(|spec| near(&spec.parameters)).collect::<Vec<_>>()) {
        for (spec, arguments) in REGISTRY.specs().iter().zip(arguments) {
            let result = call(&REGISTRY, &spec.name, &arguments.to_string());
            let agreed = result.is_ok() == fits(&spec.parameters, &arguments);
            prop_assert!(agreed, "{} {arguments}: {result:?}", spec.name);
            // What the type itself refuses is said in other words.
            if let Err(error) = result {
                let start = format!("invalid arguments for `{}`", spec.name);
                prop_assert!(error.kind == ToolErrorKind::InvalidArguments && error.message.starts_with(&start), "{error}");
            }
        }
    }
}

/// A tool and arguments for it.
fn near_call() -> impl Strategy<Value = (&'static str, Value)> {
    let specs: Vec<_> = REGISTRY.specs().iter().collect();
    prop::sample::select(specs).prop_flat_map(|spec| (Just(spec.name.as_str()), near(&spec.parameters)))
}

/// What may happen to a text on its way.
fn damaged(text: &str, at: prop::sample::Index, with: &str, keep: bool) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = at.index(characters.len());
    let (head, tail) = (&characters[..at], &characters[at + usize::from(!keep)..]);
    head.iter().copied().chain(with.chars()).chain(tail.iter().copied()).collect()
}

proptest! {
    #[test]
    fn damaged_arguments_are_never_taken_for_others(
        (tool, arguments) in near_call(),
        at in any::<prop::sample::Index>(),
        with in "[\\[\\]{}:,\"\\\\a-z0-9.+\\- 🦀]{0,2}|\\PC",
        keep in any::<bool>(),
    ) {
        let text = damaged(&arguments.to_string(), at, &with, keep);
        match call(&REGISTRY, tool, &text) {
            // Two readers with nothing in common agree that it is JSON.
            Ok(_) => prop_assert!(text.trim().is_empty() || serde_json::from_str::<Value>(&text).is_ok(), "{text}"),
            Err(error) => prop_assert!(error.kind == ToolErrorKind::InvalidArguments, "{text}: {error:?}"),
        }
    }
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
        let output = call(&REGISTRY, "anything", &text.expect("JSON")).expect("valid");
        prop_assert_eq!(serde_json::from_str::<Value>(&output.text).expect("JSON"), arguments["value"].clone());
    }

    #[test]
    fn any_arguments_get_an_answer(
        tool in prop::sample::select(
            &["integer", "real", "points", "anything", "two", "limited", "figure", "walk", "pages", "none"][..]
        ),
        arguments in "\\PC{0,40}|[\\[\\]{}:,\"\\\\a-z0-9.eE+\\- ]{0,60}",
    ) {
        if let Err(error) = call(&REGISTRY, tool, &arguments) {
            prop_assert!(matches!(error.kind, ToolErrorKind::InvalidArguments | ToolErrorKind::UnknownTool));
            prop_assert!(error.message.len() < 4_000);
        }
    }
}
