//! From the type of the arguments to the schema that a model reads, and back from a value to the type.
//!
//! # What is accepted
//!
//! The arguments of a call are read from the text that the model sent, before the tool runs. The rules are those of JSON
//! (RFC 8259) and JSON Schema, read strictly:
//!
//! * Nothing is converted: `true` is not 1, `"3"` is not 3, a list is not a struct, `{"red": null}` is not the variant
//!   `red`. The one exception is that empty text is `{}`.
//! * A number with nothing behind the point is a whole number, as JSON Schema has it: `3.0`, `3e0` and `30e-1` are the
//!   integer 3, read exactly. `7.5` is none. What does not fit the type is refused, never rounded or cut.
//! * A number for a float is the nearest `f64`; one that would be infinite is refused, and so are the words `NaN` and
//!   `Infinity`.
//! * `null` for an optional argument is the same as leaving it out.
//! * A name that appears twice, or that the schema does not have, is refused at every level.
//! * Text of more than 1 MiB or with more than 64 levels is not read. Half of a surrogate pair is no character, and
//!   nothing may follow the object.
//!
//! All that is wrong with a call is told in one message, the first 20 faults of it, with the path of each: what is missing
//! comes before what is wrong, in the order of the schema and of the text.
//!
//! # What a schema may say
//!
//! `type` (one, with or without `null`), `properties`, `required`, `additionalProperties`, `items`, `minItems`,
//! `maxItems`, `uniqueItems`, `enum` and `const` of texts, `minLength`, `maxLength`, `pattern`, `minimum`, `maximum`, the
//! `format` of a number, and `oneOf` for the variants of an enum, where each is an object that says by one member which it
//! is. Adding a tool whose schema says anything else fails, since it would not be enforced; so it does for a type that
//! contains itself. Not every server understands `oneOf`: an enum without data is the safer argument.
//!
//! A `pattern` is matched in time linear in the text, so it has no look-around and no references back; `\d`, `\w` and `\b`
//! know ASCII only, as in JSON Schema.

use crate::tool_result::{ToolError, ToolErrorKind};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The schema of a struct of arguments: one inline object without references, closed against unknown names at every
/// level, with as plain types as the struct allows. Many servers understand nothing else.
///
/// What a struct nested in it does not know would be dropped without a word, so an object takes other members only
/// where its type keeps them: a map, or a flattened one.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        // The name of a struct that nobody wrote.
        root.remove("title");
        root.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Turns checked arguments into the struct that the schema came from. What only the type itself can refuse, for
/// instance in its own `Deserialize`, is an invalid argument too.
pub fn arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments).map_err(|error| {
        ToolError::new(ToolErrorKind::InvalidArguments, format!("invalid arguments: {error}"))
    })
}

/// Writes alternatives of plain texts as one `enum`, and "something or null" as a type with `null`, and closes objects,
/// at every level. Only keywords that hold schemas are followed: in a default value nothing is a keyword.
fn simplify(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for (keyword, value) in object.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(simplify),
            ("items" | "additionalProperties", schema) => simplify(schema),
            ("anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter_mut().for_each(simplify),
            _ => {}
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        merge_alternatives(object, keyword);
    }
    close(object);
    admit_null_for_optional(object);
}

/// `null` is taken for an optional member as if it were left out, so the schema says it.
fn admit_null_for_optional(object: &mut Map<String, Value>) {
    let required = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = object.get_mut("properties") else { return };
    let optional = properties.iter_mut().filter(|(name, _)| !required.contains(&json!(name)));
    optional.filter_map(|(_, property)| property.as_object_mut()).for_each(admit_null);
}

/// Only a type that keeps other members says what they may be.
fn close(schema: &mut Map<String, Value>) {
    let is_object = match schema.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.contains(&json!("object")),
        _ => false,
    };
    if is_object {
        schema.entry("additionalProperties").or_insert(json!(false));
    }
}

fn merge_alternatives(object: &mut Map<String, Value>, keyword: &str) {
    let Some(Value::Array(alternatives)) = object.get(keyword) else { return };
    let is_null = |schema: &Value| schema.get("type") == Some(&json!("null"));
    let (nulls, others): (Vec<Value>, Vec<Value>) = alternatives.iter().cloned().partition(is_null);
    let merged = match others.as_slice() {
        [Value::Object(only)] => Some(only.clone()),
        several => texts(several),
    };
    let Some(mut merged) = merged else { return };
    if !nulls.is_empty() {
        admit_null(&mut merged);
    }
    object.remove(keyword);
    // What stood beside the alternatives, a description for instance, is closer to the field.
    for (key, value) in merged {
        object.entry(key).or_insert(value);
    }
}

/// One `enum` of all the texts, if every alternative is made of texts.
fn texts(alternatives: &[Value]) -> Option<Map<String, Value>> {
    let mut all = Vec::new();
    for alternative in alternatives {
        match (alternative.get("const"), alternative.get("enum")) {
            (Some(text @ Value::String(_)), None) => all.push(text.clone()),
            (None, Some(Value::Array(texts))) if texts.iter().all(Value::is_string) => {
                all.extend(texts.clone())
            }
            _ => return None,
        }
    }
    json!({"type": "string", "enum": all}).as_object().cloned()
}

fn admit_null(schema: &mut Map<String, Value>) {
    if let Some(kind @ Value::String(_)) = schema.get("type") {
        let kinds = json!([kind, "null"]);
        schema.insert("type".to_owned(), kinds);
    }
    let null = json!({"type": "null"});
    if let Some(Value::Array(alternatives)) = schema.get_mut("oneOf")
        && !alternatives.contains(&null)
    {
        alternatives.push(null);
    }
    if let Some(only) = schema.remove("const") {
        schema.insert("enum".to_owned(), json!([only]));
    }
    if let Some(Value::Array(choices)) = schema.get_mut("enum")
        && !choices.contains(&Value::Null)
    {
        choices.push(Value::Null);
    }
}
