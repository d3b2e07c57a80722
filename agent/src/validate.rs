//! Checks the arguments of a call, as raw JSON text, against the shape of the tool's parameters.
//!
//! The rules beyond JSON Schema: empty text is `{}`; `null` for an optional member is the same as leaving it out;
//! a number with nothing behind the point (`3.0`, `3e0`) is a whole number, read exactly; nothing else is converted;
//! a name that appears twice is refused, wherever it stands; a number for a float is rounded to the nearest, and refused
//! where that would be infinity; a text of more than 1 MiB is not read.

mod leaf;
mod variant;

use crate::clip::excerpt;
use crate::json::{self, Json};
use crate::listed::Listed;
use crate::nearest::{did_you_mean, quoted_list};
use crate::path::Path;
use crate::shape::{Kind, ObjectShape, Property, Shape};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// More faults than these are counted, not listed.
const MAX_FAULTS: usize = 20;

/// Bytes of arguments. A model does not write as much in one reply, and a value takes many times the memory of its text.
const MAX_BYTES: usize = 1 << 20;

/// The arguments as a value, or all their faults in one message: missing members in the order of the schema, then the
/// others in the order of the text.
pub(crate) fn arguments(tool: &str, text: &str, shape: &ObjectShape) -> Result<Value, String> {
    checked(text, shape).map_err(|faults| match faults.as_slice() {
        [only] => format!("invalid arguments for `{tool}`: {only}"),
        several => format!("invalid arguments for `{tool}`:\n- {}", several.join("\n- ")),
    })
}

fn checked(text: &str, shape: &ObjectShape) -> Result<Value, Vec<String>> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    if text.len() > MAX_BYTES {
        return Err(vec![format!("{} bytes are too many, at most {MAX_BYTES} are read", text.len())]);
    }
    let json = json::parse(text).map_err(|error| vec![format!("not valid JSON: {error}")])?;
    let Json::Object(members) = &json else {
        return Err(vec![format!("should be an object, got {}", json.type_name())]);
    };
    let mut check = Check { faults: Listed::new(MAX_FAULTS) };
    let value = check.object(&Path::Root, members, shape);
    check.into_result(Some(Value::Object(value)))
}

/// One value, called `name` in what is wrong with it.
pub(crate) fn value(name: &str, text: &str, shape: &Shape) -> Result<Value, String> {
    let json = json::parse(text).map_err(|error| error.to_string())?;
    let mut check = Check { faults: Listed::new(MAX_FAULTS) };
    let value = check.value(&Path::Member(&Path::Root, name), &json, shape);
    check.into_result(value).map_err(|faults| faults.join("; "))
}

/// The walk over the arguments.
struct Check {
    faults: Listed,
}

impl Check {
    fn fault(&mut self, fault: impl FnOnce() -> String) {
        self.faults.push(fault);
    }

    fn into_result(self, value: Option<Value>) -> Result<Value, Vec<String>> {
        match (self.faults.into_items(), value) {
            (faults, Some(value)) if faults.is_empty() => Ok(value),
            (faults, _) => Err(faults),
        }
    }

    fn object(
        &mut self,
        path: &Path<'_>,
        members: &[(String, Json<'_>)],
        shape: &ObjectShape,
    ) -> Map<String, Value> {
        self.missing(path, members, shape);
        let mut object = Map::new();
        let mut seen = HashSet::new();
        for (name, value) in members {
            if !seen.insert(name.as_str()) {
                self.fault(|| format!("{} is given more than once", Path::Member(path, name).quoted()));
                continue;
            }
            if let Some(value) = self.member(path, name, value, shape) {
                object.insert(name.clone(), value);
            }
        }
        object
    }

    fn missing(&mut self, path: &Path<'_>, members: &[(String, Json<'_>)], shape: &ObjectShape) {
        for property in shape.properties.iter().filter(|property| property.required) {
            if !members.iter().any(|(name, _)| *name == property.name) {
                self.fault(|| {
                    let missing = Path::Member(path, &property.name).quoted();
                    format!("{missing} is missing ({})", given(members))
                });
            }
        }
    }

    fn member(
        &mut self,
        path: &Path<'_>,
        name: &str,
        value: &Json<'_>,
        shape: &ObjectShape,
    ) -> Option<Value> {
        let path_of_member = Path::Member(path, name);
        let property = shape.properties.iter().find(|property| property.name == name);
        match (property, &shape.others) {
            (Some(Property { required: false, .. }), _) if *value == Json::Null => None,
            (Some(property), _) => self.value(&path_of_member, value, &property.shape),
            (None, Some(others)) => self.value(&path_of_member, value, others),
            (None, None) => {
                self.fault(|| unknown(path, name, shape));
                None
            }
        }
    }

    /// The value if it fits; the faults are noted if it does not.
    fn value(&mut self, path: &Path<'_>, json: &Json<'_>, shape: &Shape) -> Option<Value> {
        match (&shape.kind, json) {
            (_, Json::Null) if shape.nullable => Some(Value::Null),
            (Kind::Any, json) => self.any(path, json),
            (Kind::Boolean, Json::Bool(value)) => Some(Value::Bool(*value)),
            (Kind::Text { length, choices, pattern }, Json::Text(text)) => {
                self.text(path, text, *length, choices.as_deref(), pattern.as_ref())
            }
            (Kind::Integer { min, max }, Json::Number(text)) => self.integer(path, text, *min, *max),
            (Kind::Number { min, max }, Json::Number(text)) => self.number(path, text, *min, *max),
            (Kind::Array { items, length, unique }, Json::Array(values)) => {
                let values = self.array(path, values, items, *length)?;
                (!*unique || self.distinct(path, &values)).then_some(Value::Array(values))
            }
            (Kind::Object(shape), Json::Object(members)) => {
                Some(Value::Object(self.object(path, members, shape)))
            }
            (Kind::Variants(variants), json) => self.variant(path, json, variants),
            (kind, json) => {
                self.wrong_type(path, &kind.wanted(), json);
                None
            }
        }
    }

    fn wrong_type(&mut self, path: &Path<'_>, wanted: &str, json: &Json<'_>) {
        self.fault(|| format!("{} should be {wanted}, got {}", path.quoted(), json.type_name()));
    }

    fn any(&mut self, path: &Path<'_>, json: &Json<'_>) -> Option<Value> {
        let open = || Shape { kind: Kind::Any, nullable: true };
        match json {
            Json::Null => Some(Value::Null),
            Json::Bool(value) => Some(Value::Bool(*value)),
            Json::Text(text) => Some(Value::String(text.clone())),
            Json::Number(text) => self.number(path, text, f64::MIN, f64::MAX),
            Json::Array(values) => self.array(path, values, &open(), (0, u64::MAX)).map(Value::Array),
            Json::Object(members) => {
                let shape = ObjectShape { properties: Vec::new(), others: Some(Box::new(open())) };
                Some(Value::Object(self.object(path, members, &shape)))
            }
        }
    }

    fn array(
        &mut self,
        path: &Path<'_>,
        values: &[Json<'_>],
        items: &Shape,
        length: (u64, u64),
    ) -> Option<Vec<Value>> {
        let fits = self.in_range(path, values.len() as u64, length, "item");
        let values = values
            .iter()
            .enumerate()
            .map(|(index, value)| self.value(&Path::Item(path, index), value, items));
        // Every item is looked at, also after a fault.
        let values: Vec<Option<Value>> = values.collect();
        let values: Option<Vec<Value>> = values.into_iter().collect();
        values.filter(|_| fits)
    }

    fn distinct(&mut self, path: &Path<'_>, values: &[Value]) -> bool {
        let mut seen = HashSet::new();
        let repeated: Vec<usize> = (0..values.len())
            .filter(|index| !seen.insert(json::canonical(&values[*index].to_string())))
            .collect();
        for index in &repeated {
            self.fault(|| {
                format!("{} is there already, and no two may be equal", Path::Item(path, *index).quoted())
            });
        }
        repeated.is_empty()
    }
}

fn unknown(path: &Path<'_>, name: &str, shape: &ObjectShape) -> String {
    let names = || shape.properties.iter().map(|property| property.name.as_str());
    let valid = match shape.properties.len() {
        0 => "it takes no arguments".to_owned(),
        _ => format!("valid: {}", quoted_list(names())),
    };
    let name = excerpt(name, 60);
    format!("unknown argument `{name}`{}{} ({valid})", path.inside(), did_you_mean(&name, names()))
}

fn given(members: &[(String, Json<'_>)]) -> String {
    match members {
        [] => "nothing was given".to_owned(),
        _ => format!("given: {}", quoted_list(members.iter().map(|(name, _)| name.as_str()))),
    }
}
