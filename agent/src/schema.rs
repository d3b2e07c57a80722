//! From the type of the arguments to the schema that a model reads, and back from a value to the type.

use crate::tool::{ToolError, ToolErrorKind};
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
    if let Some(Value::Array(choices)) = schema.get_mut("enum") {
        choices.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

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

    #[test]
    fn what_cannot_be_closed_is_refused() {
        for schema in [of::<Unclosable>(), of::<Carrying>()] {
            assert!(crate::shape::compile(&schema).is_err(), "{schema}");
        }
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
            (
                golden::<Option<Plain>>(),
                json!({"type": ["string", "null"], "enum": ["red", "dark_blue", null]}),
            ),
            (golden::<Documented>(), json!({"type": "string", "enum": ["C", "A", "B"]})),
            (
                golden::<Option<Documented>>(),
                json!({"type": ["string", "null"], "enum": ["C", "A", "B", null]}),
            ),
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
}
