//! A schema, read once into a type that holds only what the validator enforces.

use crate::json::MAX_DEPTH;
use serde_json::{Map, Value};
use std::fmt;

/// What a value has to look like.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    /// Whether `null` will do as well.
    pub(crate) nullable: bool,
}

/// The kinds of values, each with its bounds (inclusive).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Any,
    Boolean,
    Text {
        /// In characters.
        length: (u64, u64),
        /// The texts allowed, if they are listed.
        choices: Option<Vec<String>>,
    },
    Integer {
        min: i128,
        max: i128,
    },
    Number {
        min: f64,
        max: f64,
    },
    Array {
        items: Box<Shape>,
        length: (u64, u64),
    },
    Object(ObjectShape),
}

/// The shape of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectShape {
    pub(crate) properties: Vec<Property>,
    /// The shape of members that are not listed; `None` refuses them.
    pub(crate) others: Option<Box<Shape>>,
}

/// A named member of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
}

/// Why a schema is refused when its tool is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// Where in the schema, for instance `properties.n`; empty for the schema itself.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the schema" } else { &self.path };
        write!(f, "{path}: {}", self.message)
    }
}

impl std::error::Error for SchemaError {}

/// Keywords that say something to readers and restrict nothing.
const ANNOTATIONS: [&str; 6] = ["title", "description", "default", "examples", "deprecated", "$schema"];

/// Reads the schema of a tool's parameters: an object.
pub(crate) fn compile(schema: &Value) -> Result<ObjectShape, SchemaError> {
    let shape = Compiler { path: Vec::new() }.shape(schema)?;
    match shape {
        Shape { kind: Kind::Object(object), nullable: false } => Ok(object),
        _ => Err(SchemaError { path: String::new(), message: "has to be of type object".to_owned() }),
    }
}

struct Compiler {
    path: Vec<String>,
}

impl Compiler {
    fn error(&self, message: impl Into<String>) -> SchemaError {
        SchemaError { path: self.path.join("."), message: message.into() }
    }

    fn below(&mut self, step: String, schema: &Value) -> Result<Shape, SchemaError> {
        self.path.push(step);
        let shape = self.shape(schema);
        self.path.pop();
        shape
    }

    fn shape(&mut self, schema: &Value) -> Result<Shape, SchemaError> {
        if self.path.len() > MAX_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let keywords = match schema {
            Value::Bool(true) => return Ok(Shape { kind: Kind::Any, nullable: true }),
            Value::Object(keywords) => keywords,
            _ => return Err(self.error("has to be an object or `true`")),
        };
        let (name, nullable) = self.type_name(keywords)?;
        let allowed = self.allowed(name)?;
        if let Some(unknown) =
            keywords.keys().find(|k| !ANNOTATIONS.contains(&k.as_str()) && !allowed.contains(&k.as_str()))
        {
            let what = name.unwrap_or("any value");
            return Err(
                self.error(format!("the keyword `{unknown}` is not enforced on {what}, so it is refused"))
            );
        }
        Ok(Shape { kind: self.kind(name, keywords)?, nullable })
    }

    /// The one type besides `null`, and whether `null` is there.
    fn type_name<'a>(
        &self,
        keywords: &'a Map<String, Value>,
    ) -> Result<(Option<&'a str>, bool), SchemaError> {
        let names: Vec<&str> = match keywords.get("type") {
            None => return Ok((None, true)),
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err(self.error("`type` has to be a name or a list of names")),
        };
        let nullable = names.contains(&"null");
        let mut others = names.into_iter().filter(|name| *name != "null");
        match (others.next(), others.next()) {
            (Some(name), None) => Ok((Some(name), nullable)),
            _ => Err(self.error("`type` has to name one type, with or without `null`")),
        }
    }

    fn allowed(&self, name: Option<&str>) -> Result<&'static [&'static str], SchemaError> {
        Ok(match name {
            None => &[],
            Some("boolean") => &["type"],
            Some("string") => &["type", "enum", "const", "minLength", "maxLength"],
            Some("integer" | "number") => &["type", "minimum", "maximum", "format"],
            Some("array") => &["type", "items", "minItems", "maxItems"],
            Some("object") => &["type", "properties", "required", "additionalProperties"],
            Some(other) => return Err(self.error(format!("there is no type `{other}`"))),
        })
    }

    fn kind(&mut self, name: Option<&str>, keywords: &Map<String, Value>) -> Result<Kind, SchemaError> {
        match name {
            Some("boolean") => Ok(Kind::Boolean),
            Some("string") => self.text(keywords),
            Some("integer") => self.integer(keywords),
            Some("number") => self.number(keywords),
            Some("array") => self.array(keywords),
            Some("object") => self.object(keywords).map(Kind::Object),
            _ => Ok(Kind::Any),
        }
    }

    fn text(&self, keywords: &Map<String, Value>) -> Result<Kind, SchemaError> {
        let length = self.length(keywords, "minLength", "maxLength")?;
        let listed = match (keywords.get("enum"), keywords.get("const")) {
            (None, None) => None,
            (Some(Value::Array(listed)), None) => Some(listed.as_slice()),
            (None, Some(only)) => Some(std::slice::from_ref(only)),
            _ => return Err(self.error("`enum` has to be a list, and cannot stand beside `const`")),
        };
        let choices = listed.map(|listed| self.choices(listed)).transpose()?;
        Ok(Kind::Text { length, choices })
    }

    /// `null` among the choices says again what `type` says.
    fn choices(&self, listed: &[Value]) -> Result<Vec<String>, SchemaError> {
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(self.error(format!("`{other}` is not a text"))),
        };
        listed.iter().filter(|value| !value.is_null()).map(text).collect()
    }

    fn length(&self, keywords: &Map<String, Value>, min: &str, max: &str) -> Result<(u64, u64), SchemaError> {
        let bound = |keyword: &str, default: u64| match keywords.get(keyword) {
            None => Ok(default),
            Some(value) => {
                value.as_u64().ok_or_else(|| self.error(format!("`{keyword}` has to be a whole number")))
            }
        };
        Ok((bound(min, 0)?, bound(max, u64::MAX)?))
    }

    /// Without a narrower bound, what fits `i64` or `u64`: nothing larger can be handed over exactly.
    fn integer(&self, keywords: &Map<String, Value>) -> Result<Kind, SchemaError> {
        let (least, most) = match keywords.get("format").map(|format| format.as_str().unwrap_or_default()) {
            None => (i128::from(i64::MIN), i128::from(u64::MAX)),
            Some("int8") => (i128::from(i8::MIN), i128::from(i8::MAX)),
            Some("int16") => (i128::from(i16::MIN), i128::from(i16::MAX)),
            Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
            Some("int64" | "int") => (i128::from(i64::MIN), i128::from(i64::MAX)),
            Some("uint8") => (0, i128::from(u8::MAX)),
            Some("uint16") => (0, i128::from(u16::MAX)),
            Some("uint32") => (0, i128::from(u32::MAX)),
            Some("uint64" | "uint") => (0, i128::from(u64::MAX)),
            Some(other) => return Err(self.error(format!("the format `{other}` is not enforced on integer"))),
        };
        let bound = |keyword: &str| match keywords.get(keyword) {
            None => Ok(None),
            Some(Value::Number(number)) => match crate::json::whole(&number.to_string()) {
                crate::json::Whole::Exact(n) => Ok(Some(n)),
                _ => Err(self.error(format!("`{keyword}` has to be a whole number"))),
            },
            Some(_) => Err(self.error(format!("`{keyword}` has to be a whole number"))),
        };
        let (min, max) = (bound("minimum")?, bound("maximum")?);
        Ok(Kind::Integer { min: min.unwrap_or(least).max(least), max: max.unwrap_or(most).min(most) })
    }

    fn number(&self, keywords: &Map<String, Value>) -> Result<Kind, SchemaError> {
        let most = match keywords.get("format").map(|format| format.as_str().unwrap_or_default()) {
            None | Some("double") => f64::MAX,
            Some("float") => f64::from(f32::MAX),
            Some(other) => return Err(self.error(format!("the format `{other}` is not enforced on number"))),
        };
        let bound = |keyword: &str| match keywords.get(keyword) {
            None => Ok(None),
            Some(value) => {
                value.as_f64().map(Some).ok_or_else(|| self.error(format!("`{keyword}` has to be a number")))
            }
        };
        let (min, max) = (bound("minimum")?, bound("maximum")?);
        Ok(Kind::Number { min: min.unwrap_or(-most).max(-most), max: max.unwrap_or(most).min(most) })
    }

    fn array(&mut self, keywords: &Map<String, Value>) -> Result<Kind, SchemaError> {
        let items = keywords.get("items").unwrap_or(&Value::Bool(true));
        let items = Box::new(self.below("items".to_owned(), items)?);
        Ok(Kind::Array { items, length: self.length(keywords, "minItems", "maxItems")? })
    }

    fn object(&mut self, keywords: &Map<String, Value>) -> Result<ObjectShape, SchemaError> {
        let mut required = self.required(keywords)?;
        let mut properties = Vec::new();
        let listed = match keywords.get("properties") {
            None => &Map::new(),
            Some(Value::Object(listed)) => listed,
            Some(_) => return Err(self.error("`properties` has to be an object")),
        };
        for (name, schema) in listed {
            let shape = self.below(format!("properties.{name}"), schema)?;
            let is_required =
                required.iter().position(|r| r == name).map(|at| required.swap_remove(at)).is_some();
            properties.push(Property { name: name.clone(), required: is_required, shape });
        }
        if let Some(name) = required.first() {
            return Err(self.error(format!("`{name}` is required but not among the properties")));
        }
        let others = match keywords.get("additionalProperties").unwrap_or(&Value::Bool(true)) {
            Value::Bool(false) => None,
            schema => Some(Box::new(self.below("additionalProperties".to_owned(), schema)?)),
        };
        Ok(ObjectShape { properties, others })
    }

    fn required(&self, keywords: &Map<String, Value>) -> Result<Vec<String>, SchemaError> {
        let names = match keywords.get("required") {
            None => return Ok(Vec::new()),
            Some(names) => {
                names.as_array().map(|names| names.iter().map(|name| name.as_str().map(str::to_owned)))
            }
        };
        names.and_then(Iterator::collect).ok_or_else(|| self.error("`required` has to be a list of names"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(schema: &Value) -> String {
        compile(schema).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
    }

    fn with(property: Value) -> Value {
        json!({"type": "object", "properties": {"p": property}, "additionalProperties": false})
    }

    #[test]
    fn what_is_not_enforced_is_refused() {
        for (property, wanted) in [
            (json!({"$ref": "#/$defs/x"}), "properties.p: the keyword `$ref` is not enforced"),
            (
                json!({"type": "string", "pattern": "^a"}),
                "properties.p: the keyword `pattern` is not enforced on string",
            ),
            (
                json!({"type": "string", "format": "uri"}),
                "properties.p: the keyword `format` is not enforced on string",
            ),
            (json!({"anyOf": []}), "properties.p: the keyword `anyOf` is not enforced"),
            (json!({"type": "integer", "multipleOf": 2}), "properties.p: the keyword `multipleOf`"),
            (
                json!({"type": "integer", "format": "int128"}),
                "properties.p: the format `int128` is not enforced",
            ),
            (json!({"type": "array", "prefixItems": []}), "properties.p: the keyword `prefixItems`"),
            (json!({"type": "array", "uniqueItems": true}), "properties.p: the keyword `uniqueItems`"),
            (json!({"type": ["string", "integer"]}), "properties.p: `type` has to name one type"),
            (json!({"type": "text"}), "properties.p: there is no type `text`"),
            (json!({"type": "string", "enum": ["a", 1]}), "properties.p: `1` is not a text"),
            (json!({"type": "integer", "minimum": 0.5}), "properties.p: `minimum` has to be a whole number"),
            (json!({"type": "object", "required": ["x"]}), "properties.p: `x` is required but not among"),
            (json!(false), "properties.p: has to be an object or `true`"),
            (json!({"type": "array", "items": {"not": {}}}), "properties.p.items: the keyword `not`"),
        ] {
            let message = message(&with(property));
            assert!(message.starts_with(wanted), "{wanted}: {message}");
        }
    }

    #[test]
    fn the_root_is_an_object() {
        assert_eq!(message(&json!({"type": "string"})), "the schema: has to be of type object");
        assert_eq!(message(&json!({"type": ["object", "null"]})), "the schema: has to be of type object");
        assert_eq!(message(&json!({})), "the schema: has to be of type object");
        assert_eq!(
            message(&json!({"type": "object", "$defs": {}})),
            "the schema: the keyword `$defs` is not enforced on object, so it is refused"
        );
        assert_eq!(message(&json!({"type": "object"})), "accepted");
    }

    #[test]
    fn a_bottomless_schema_is_refused() {
        let mut schema = json!({"type": "string"});
        for _ in 0..200 {
            schema = json!({"type": "array", "items": schema});
        }
        assert!(message(&with(schema)).contains("nested deeper than 64 levels"));
    }
}
