//! Tools in words, for models that are not told about them by way of the protocol.

use crate::nearest::quoted_list;
use crate::tool::ToolSpec;
use serde_json::{Map, Value};
use std::fmt::Write;

impl ToolSpec {
    /// Name, description and parameters as text: a heading, the description, and a list with one line for each
    /// parameter and, indented below it, for each member of an object. Ends with a line break.
    pub fn describe(&self) -> String {
        let mut text = format!("## {}\n{}\n", self.name, self.description.trim());
        let parameters = members(&self.parameters, "");
        let closed = self.parameters["additionalProperties"] == false;
        text.push_str(&match parameters.as_str() {
            "" if closed => "It takes no arguments.\n".to_owned(),
            parameters if closed => format!("Arguments:\n{parameters}"),
            parameters => format!("Arguments ({}):\n{parameters}", kind(&self.parameters)),
        });
        text
    }
}

/// One line for each member of an object, and what belongs below it.
fn members(schema: &Value, indent: &str) -> String {
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let mut text = String::new();
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let mut facts = facts(member);
        if !required.iter().any(|required| required == name) {
            facts.push("optional".to_owned());
        } else if is_nullable(member) {
            facts.push("or null".to_owned());
        }
        if let Some(default) = member.get("default").filter(|default| !default.is_null()) {
            facts.push(format!("default {default}"));
        }
        let colon = member["description"].as_str().map(|docs| format!(": {}", indented(docs, indent)));
        let _ = writeln!(text, "{indent}- `{name}` ({}){}", facts.join(", "), colon.unwrap_or_default());
        text.push_str(&below(member, &format!("{indent}  ")));
    }
    text
}

/// What a value is made of: the members of an object, also of those in a list or a map, and the variants of an enum.
fn below(schema: &Value, indent: &str) -> String {
    let parts = ["items", "additionalProperties"].into_iter().filter_map(|part| schema.get(part));
    let inside: String = parts.map(|part| below(part, indent)).collect();
    let variants =
        schema["oneOf"].as_array().into_iter().flatten().filter(|variant| variant["type"] != "null");
    let variants = variants.map(|variant| {
        let docs = variant["description"].as_str().map(|docs| format!(": {}", indented(docs, indent)));
        let line = format!("{indent}- {}{}\n", facts(variant).join(", "), docs.unwrap_or_default());
        line + &below(variant, &format!("{indent}  "))
    });
    members(schema, indent) + &inside + &variants.collect::<String>()
}

/// A text of several lines, the others as far in as the first.
fn indented(docs: &str, indent: &str) -> String {
    docs.trim().replace('\n', &format!("\n{indent}  "))
}

/// The type in words, then its limits.
fn facts(schema: &Value) -> Vec<String> {
    let keywords = schema.as_object();
    let limits =
        |min: &str, max: &str, unit: &str| keywords.and_then(|keywords| range(keywords, min, max, unit));
    let pattern = schema["pattern"].as_str().map(|pattern| format!("matching `{pattern}`"));
    let unique = (schema["uniqueItems"] == true).then(|| "no two equal".to_owned());
    let all = [
        Some(kind(schema)),
        limits("minimum", "maximum", ""),
        limits("minLength", "maxLength", " character(s)"),
        limits("minItems", "maxItems", " item(s)"),
        pattern,
        unique,
    ];
    all.into_iter().flatten().collect()
}

fn kind(schema: &Value) -> String {
    let choices = schema["enum"].as_array().map(Vec::as_slice);
    let choices = choices.or_else(|| schema.get("const").map(std::slice::from_ref));
    if let Some(choices) = choices {
        return format!("one of {}", quoted_list(choices.iter().filter_map(Value::as_str)));
    }
    match type_name(schema) {
        Some("array") => format!("list of {}", schema.get("items").map_or("any value".to_owned(), kind)),
        Some("object") => match &schema["additionalProperties"] {
            Value::Object(values) => {
                format!("object with any names, each with {}", kind(&Value::Object(values.clone())))
            }
            Value::Bool(false) => "object".to_owned(),
            _ => "object with any names".to_owned(),
        },
        Some(name) => name.to_owned(),
        None if schema.get("oneOf").is_some() => "one of those below".to_owned(),
        None => "any value".to_owned(),
    }
}

/// The type besides `null`.
fn type_name(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        name => name.as_str(),
    }
}

fn is_nullable(schema: &Value) -> bool {
    let is_null = |schema: &Value| schema["type"] == "null";
    let in_type = schema["type"].as_array().is_some_and(|names| names.iter().any(|name| name == "null"));
    in_type || schema["oneOf"].as_array().is_some_and(|variants| variants.iter().any(is_null))
}

fn range(keywords: &Map<String, Value>, min: &str, max: &str, unit: &str) -> Option<String> {
    match (keywords.get(min), keywords.get(max)) {
        (Some(min), Some(max)) if min == max => Some(format!("exactly {min}{unit}")),
        (Some(min), Some(max)) => Some(format!("{min} to {max}{unit}")),
        (Some(min), None) => Some(format!("at least {min}{unit}")),
        (None, Some(max)) => Some(format!("at most {max}{unit}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(parameters: Value) -> ToolSpec {
        ToolSpec {
            name: "find".to_owned(),
            description: "Finds things.\n\nAll of them.\n".to_owned(),
            parameters,
            mutates: false,
        }
    }

    #[test]
    fn every_kind_of_parameter_is_told() {
        let point = json!({
            "type": "object",
            "properties": {"x": {"type": "integer", "description": "How far.\nIn metres."}},
            "required": ["x"],
            "additionalProperties": false,
        });
        let parameters = json!({
            "type": "object",
            "properties": {
                "a": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^a", "description": "First."},
                "b": {"type": ["integer", "null"], "minimum": 0, "default": 10},
                "c": {"type": "string", "enum": ["red", "blue"]},
                "d": {"type": "array", "items": point, "maxItems": 3, "uniqueItems": true},
                "e": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "f": {},
                "g": {"type": ["number", "null"]},
                "h": {"oneOf": [
                    {"type": "string", "enum": ["none"], "description": "Nothing."},
                    {"type": "object", "properties": {"some": point}, "required": ["some"], "additionalProperties": false},
                    {"type": "null"},
                ]},
            },
            "required": ["a", "c", "d", "e", "g"],
            "additionalProperties": false,
        });
        let wanted = "\
## find
Finds things.

All of them.
Arguments:
- `a` (string, 1 to 8 character(s), matching `^a`): First.
- `b` (integer, at least 0, optional, default 10)
- `c` (one of `red`, `blue`)
- `d` (list of object, at most 3 item(s), no two equal)
  - `x` (integer): How far.
    In metres.
- `e` (object with any names, each with boolean)
- `f` (any value, optional)
- `g` (number, or null)
- `h` (one of those below, optional)
  - one of `none`: Nothing.
  - object
    - `some` (object)
      - `x` (integer): How far.
        In metres.
";
        assert_eq!(spec(parameters).describe(), wanted);
    }

    #[test]
    fn a_tool_without_parameters_says_so_and_one_with_any_too() {
        let told = |parameters| spec(parameters).describe().lines().skip(4).collect::<String>();
        assert_eq!(told(json!({"type": "object", "additionalProperties": false})), "It takes no arguments.");
        assert_eq!(told(json!({"type": "object"})), "Arguments (object with any names):");
    }
}
