//! Reads a schema into a [`Shape`], and refuses what the validator would not enforce.

mod variants;

use crate::json::{MAX_DEPTH, Whole, whole};
use crate::shape::{Kind, ObjectShape, Pattern, Property, SchemaError, Shape};
use crate::validate;
use regex_lite::RegexBuilder;
use serde_json::{Map, Value};

/// Keywords that say something to readers and restrict nothing.
const ANNOTATIONS: [&str; 7] =
    ["title", "description", "default", "examples", "deprecated", "$schema", "$defs"];

/// How many schemas may stand in one: a type that holds another several times is written out each time.
const MAX_SCHEMAS: usize = 5_000;

/// Bytes of a compiled pattern, which bounds what matching costs for each character of a text.
const MAX_PATTERN: usize = 64 << 10;

/// Reads the schema of a tool's parameters: an object.
pub(crate) fn compile(schema: &Value) -> Result<ObjectShape, SchemaError> {
    let shape = Compiler { path: Vec::new(), schemas: 0 }.shape(schema)?;
    match shape {
        Shape { kind: Kind::Object(object), nullable: false } => Ok(object),
        _ => Err(SchemaError { path: String::new(), message: "has to be of type object".to_owned() }),
    }
}

struct Compiler {
    path: Vec<String>,
    /// How many were read.
    schemas: usize,
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
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS {
            return Err(self.error(format!("holds more than {MAX_SCHEMAS} schemas")));
        }
        let keywords = match schema {
            Value::Bool(true) => return Ok(Shape { kind: Kind::Any, nullable: true }),
            Value::Object(keywords) => keywords,
            _ => return Err(self.error("has to be an object or `true`")),
        };
        if let Some(to) = keywords.get("$ref") {
            return Err(self.error(format!(
                "refers to {to}, as a type does that contains itself: a schema has to be written out, so such a type \
                 cannot be an argument"
            )));
        }
        let (name, nullable) = self.type_name(keywords)?;
        self.refuse_unknown(name, keywords)?;
        let shape = match (name, keywords.get("oneOf")) {
            (None, Some(alternatives)) => self.variants(alternatives)?,
            _ => Shape { kind: self.kind(name, keywords)?, nullable },
        };
        if let Some(default) = keywords.get("default") {
            self.default(default, &shape)?;
        }
        Ok(shape)
    }

    fn refuse_unknown(&self, name: Option<&str>, keywords: &Map<String, Value>) -> Result<(), SchemaError> {
        let allowed = self.allowed(name)?;
        let known = |keyword: &str| ANNOTATIONS.contains(&keyword) || allowed.contains(&keyword);
        match keywords.keys().find(|keyword| !known(keyword)) {
            None => Ok(()),
            Some(unknown) => {
                let what = name.unwrap_or("any value");
                Err(self
                    .error(format!("the keyword `{unknown}` is not enforced on {what}, so it is refused")))
            }
        }
    }

    /// A default that a model may repeat has to be accepted. `null` says that there is none.
    fn default(&self, default: &Value, shape: &Shape) -> Result<(), SchemaError> {
        match validate::value("default", &default.to_string(), shape) {
            Err(fault) if !default.is_null() => Err(self.error(format!("the default does not fit: {fault}"))),
            _ => Ok(()),
        }
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
            None => &["oneOf"],
            Some("boolean") => &["type"],
            Some("string") => &["type", "enum", "const", "minLength", "maxLength", "pattern"],
            Some("integer" | "number") => &["type", "minimum", "maximum", "format"],
            Some("array") => &["type", "items", "minItems", "maxItems", "uniqueItems"],
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
        Ok(Kind::Text { length, choices, pattern: self.pattern(keywords)? })
    }

    fn pattern(&self, keywords: &Map<String, Value>) -> Result<Option<Pattern>, SchemaError> {
        let source = match keywords.get("pattern") {
            None => return Ok(None),
            Some(Value::String(source)) => source,
            Some(_) => return Err(self.error("`pattern` has to be a text")),
        };
        let compiled = RegexBuilder::new(source).size_limit(MAX_PATTERN).build();
        let unusable = |why| self.error(format!("the pattern `{source}` cannot be enforced: {why}"));
        compiled.map(|regex| Some(Pattern(regex))).map_err(unusable)
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
        let (least, most) = (bound(min, 0)?, bound(max, u64::MAX)?);
        if least > most {
            return Err(self.error(format!("`{min}` is more than `{max}`")));
        }
        Ok((least, most))
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
            Some(Value::Number(number)) => match whole(&number.to_string()) {
                Whole::Exact(n) if (least..=most).contains(&n) => Ok(Some(n)),
                Whole::Exact(_) | Whole::TooLarge => {
                    Err(self.error(format!("`{keyword}` is beyond the type, which holds {least} to {most}")))
                }
                Whole::Fraction => Err(self.error(format!("`{keyword}` has to be a whole number"))),
            },
            Some(_) => Err(self.error(format!("`{keyword}` has to be a whole number"))),
        };
        let (min, max) = (bound("minimum")?.unwrap_or(least), bound("maximum")?.unwrap_or(most));
        if min > max {
            return Err(self.error("`minimum` is more than `maximum`"));
        }
        Ok(Kind::Integer { min, max })
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
        let (min, max) = (bound("minimum")?.unwrap_or(-most), bound("maximum")?.unwrap_or(most));
        if min > max {
            return Err(self.error("`minimum` is more than `maximum`"));
        }
        Ok(Kind::Number { min: min.max(-most), max: max.min(most) })
    }

    fn array(&mut self, keywords: &Map<String, Value>) -> Result<Kind, SchemaError> {
        let items = keywords.get("items").unwrap_or(&Value::Bool(true));
        let items = Box::new(self.below("items".to_owned(), items)?);
        let unique = match keywords.get("uniqueItems") {
            None => false,
            Some(Value::Bool(unique)) => *unique,
            Some(_) => return Err(self.error("`uniqueItems` has to be true or false")),
        };
        Ok(Kind::Array { items, length: self.length(keywords, "minItems", "maxItems")?, unique })
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
            (
                json!({"$ref": "#/$defs/x"}),
                "properties.p: refers to \"#/$defs/x\", as a type does that contains",
            ),
            (json!({"type": "string", "pattern": "("}), "properties.p: the pattern `(` cannot be enforced: "),
            (
                json!({"type": "string", "pattern": "(?=a)"}),
                "properties.p: the pattern `(?=a)` cannot be enforced: ",
            ),
            (
                json!({"type": "string", "pattern": "(a)\\1"}),
                "properties.p: the pattern `(a)\\1` cannot be enforced: ",
            ),
            (
                json!({"type": "string", "pattern": "\\w{9999}"}),
                "properties.p: the pattern `\\w{9999}` cannot be",
            ),
            (json!({"type": "string", "pattern": 1}), "properties.p: `pattern` has to be a text"),
            (
                json!({"type": "integer", "pattern": "1"}),
                "properties.p: the keyword `pattern` is not enforced on int",
            ),
            (
                json!({"type": "string", "minimum": 1}),
                "properties.p: the keyword `minimum` is not enforced on string",
            ),
            (
                json!({"type": "string", "minItems": 1}),
                "properties.p: the keyword `minItems` is not enforced on str",
            ),
            (
                json!({"type": "string", "minLength": -1}),
                "properties.p: `minLength` has to be a whole number",
            ),
            (
                json!({"type": "string", "minLength": 2, "maxLength": 1}),
                "properties.p: `minLength` is more than `max",
            ),
            (
                json!({"type": "integer", "minimum": 2, "maximum": 1}),
                "properties.p: `minimum` is more than `maximum`",
            ),
            (
                json!({"type": "number", "minimum": 2, "maximum": 1.5}),
                "properties.p: `minimum` is more than `maxi",
            ),
            (
                json!({"type": "integer", "format": "uint8", "maximum": 256}),
                "properties.p: `maximum` is beyond the type, which holds 0 to 255",
            ),
            (
                json!({"type": "integer", "minimum": 1, "default": 0}),
                "properties.p: the default does not fit: `default` should be from 1 to ",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "default": ["a", 1]}),
                "properties.p: the default does not fit: `default[1]` should be string, got number",
            ),
            (
                json!({"type": "array", "uniqueItems": 1}),
                "properties.p: `uniqueItems` has to be true or false",
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
            message(&json!({"type": "object", "not": {}})),
            "the schema: the keyword `not` is not enforced on object, so it is refused"
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

    #[test]
    fn a_schema_too_large_is_refused() {
        let many =
            |count: usize| -> Map<String, Value> { (0..count).map(|n| (n.to_string(), json!({}))).collect() };
        let schema =
            |count| json!({"type": "object", "properties": many(count), "additionalProperties": false});
        assert_eq!(message(&schema(MAX_SCHEMAS - 1)), "accepted");
        assert!(message(&schema(MAX_SCHEMAS)).contains("holds more than 5000 schemas"));
    }
}
