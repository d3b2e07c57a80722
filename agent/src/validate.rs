//! Checks the arguments of a call, as raw JSON text, against the shape of the tool's parameters.
//!
//! The rules beyond JSON Schema: empty text is `{}`; `null` for an optional member is the same as leaving it out;
//! a number with nothing behind the point (`3.0`, `3e0`) is a whole number, read exactly; nothing else is converted;
//! a name that appears twice is refused, wherever it stands.

use crate::clip::excerpt;
use crate::json::{self, Json, Whole};
use crate::listed::Listed;
use crate::nearest::nearest;
use crate::shape::{Kind, ObjectShape, Property, Shape};
use serde_json::{Map, Number, Value};
use std::collections::HashSet;

/// More faults than these are counted, not listed.
const MAX_FAULTS: usize = 20;

/// The arguments as a value, or all their faults in one message: missing members in the order of the schema, then the
/// others in the order of the text.
pub(crate) fn arguments(tool: &str, text: &str, shape: &ObjectShape) -> Result<Value, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let json = json::parse(text)
        .map_err(|error| format!("invalid arguments for `{tool}`: not valid JSON: {error}"))?;
    let Json::Object(members) = &json else {
        return Err(format!("invalid arguments for `{tool}`: should be an object, got {}", json.type_name()));
    };
    let mut check = Check { faults: Listed::new(MAX_FAULTS) };
    let value = check.object(&Path::Root, members, shape);
    check.into_result(tool, value)
}

/// Where a value stands: a list that lives on the stack of the walk.
enum Path<'a> {
    Root,
    Member(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Path::Root => {}
            Path::Member(parent, name) => {
                parent.write(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(&excerpt(name, 60));
            }
            Path::Item(parent, index) => {
                parent.write(out);
                out.push_str(&format!("[{index}]"));
            }
        }
    }

    /// In back quotes, with room for nothing at the root.
    fn quoted(&self) -> String {
        let mut path = String::new();
        self.write(&mut path);
        format!("`{path}`")
    }

    /// ` in `inner``, or nothing at the root.
    fn inside(&self) -> String {
        match self {
            Path::Root => String::new(),
            _ => format!(" in {}", self.quoted()),
        }
    }
}

struct Check {
    faults: Listed,
}

impl Check {
    fn fault(&mut self, fault: impl FnOnce() -> String) {
        self.faults.push(fault);
    }

    fn into_result(self, tool: &str, value: Map<String, Value>) -> Result<Value, String> {
        match self.faults.into_items().as_slice() {
            [] => Ok(Value::Object(value)),
            [only] => Err(format!("invalid arguments for `{tool}`: {only}")),
            several => Err(format!("invalid arguments for `{tool}`:\n- {}", several.join("\n- "))),
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
            (Kind::Text { length, choices }, Json::Text(text)) => {
                self.text(path, text, *length, choices.as_deref())
            }
            (Kind::Integer { min, max }, Json::Number(text)) => self.integer(path, text, *min, *max),
            (Kind::Number { min, max }, Json::Number(text)) => self.number(path, text, *min, *max),
            (Kind::Array { items, length }, Json::Array(values)) => self.array(path, values, items, *length),
            (Kind::Object(shape), Json::Object(members)) => {
                Some(Value::Object(self.object(path, members, shape)))
            }
            (kind, json) => {
                let got = json.type_name();
                self.fault(|| format!("{} should be {}, got {got}", path.quoted(), kind.name()));
                None
            }
        }
    }

    fn any(&mut self, path: &Path<'_>, json: &Json<'_>) -> Option<Value> {
        let open = || Shape { kind: Kind::Any, nullable: true };
        match json {
            Json::Null => Some(Value::Null),
            Json::Bool(value) => Some(Value::Bool(*value)),
            Json::Text(text) => Some(Value::String(text.clone())),
            Json::Number(text) => self.number(path, text, f64::MIN, f64::MAX),
            Json::Array(values) => self.array(path, values, &open(), (0, u64::MAX)),
            Json::Object(members) => {
                let shape = ObjectShape { properties: Vec::new(), others: Some(Box::new(open())) };
                Some(Value::Object(self.object(path, members, &shape)))
            }
        }
    }

    fn text(
        &mut self,
        path: &Path<'_>,
        text: &str,
        length: (u64, u64),
        choices: Option<&[String]>,
    ) -> Option<Value> {
        if let Some(choices) = choices.filter(|choices| !choices.iter().any(|choice| choice == text)) {
            self.fault(|| {
                let choices = || choices.iter().map(String::as_str);
                let (listed, meant) = (quoted_list(choices()), did_you_mean(text, choices()));
                let (path, got) = (path.quoted(), excerpt(text, 60));
                format!("{path} should be one of {listed}, got `{got}`{meant}")
            });
            return None;
        }
        let characters = text.chars().count() as u64;
        self.in_range(path, characters, length, "character").then(|| Value::String(text.to_owned()))
    }

    fn array(
        &mut self,
        path: &Path<'_>,
        values: &[Json<'_>],
        items: &Shape,
        length: (u64, u64),
    ) -> Option<Value> {
        let fits = self.in_range(path, values.len() as u64, length, "item");
        let values = values
            .iter()
            .enumerate()
            .map(|(index, value)| self.value(&Path::Item(path, index), value, items));
        // Every item is looked at, also after a fault.
        let values: Vec<Option<Value>> = values.collect();
        let values: Option<Vec<Value>> = values.into_iter().collect();
        values.filter(|_| fits).map(Value::Array)
    }

    fn in_range(&mut self, path: &Path<'_>, count: u64, (min, max): (u64, u64), unit: &str) -> bool {
        let fits = (min..=max).contains(&count);
        if !fits {
            self.fault(|| {
                let wanted = match (min, max) {
                    (min, u64::MAX) => format!("at least {min}"),
                    (min, max) if min == max => format!("exactly {min}"),
                    (min, max) => format!("{min} to {max}"),
                };
                format!("{} should have {wanted} {unit}(s), got {count}", path.quoted())
            });
        }
        fits
    }

    fn integer(&mut self, path: &Path<'_>, text: &str, min: i128, max: i128) -> Option<Value> {
        let got = || excerpt(text, 60);
        match json::whole(text) {
            Whole::Exact(n) if (min..=max).contains(&n) => exact(n),
            Whole::Fraction => {
                self.fault(|| format!("{} should be integer, got {}", path.quoted(), got()));
                None
            }
            _ => {
                self.fault(|| format!("{} should be from {min} to {max}, got {}", path.quoted(), got()));
                None
            }
        }
    }

    /// Text without point and exponent is kept as a whole number where one fits; the rest is the nearest `f64`.
    fn number(&mut self, path: &Path<'_>, text: &str, min: f64, max: f64) -> Option<Value> {
        let float: f64 = text.parse().unwrap_or(f64::INFINITY);
        if !(min..=max).contains(&float) {
            self.fault(|| {
                let wanted = match (min == f64::MIN, max == f64::MAX) {
                    (true, true) => "is too large for a number".to_owned(),
                    (false, true) => format!("should be at least {min}"),
                    (true, false) => format!("should be at most {max}"),
                    (false, false) => format!("should be from {min} to {max}"),
                };
                format!("{} {wanted}, got {}", path.quoted(), excerpt(text, 60))
            });
            return None;
        }
        let written_whole = !text.contains(['.', 'e', 'E']) && text != "-0";
        let whole = match json::whole(text) {
            Whole::Exact(n) if written_whole => exact(n),
            _ => None,
        };
        whole.or_else(|| Number::from_f64(float).map(Value::Number))
    }
}

/// `None` beyond `i64` and `u64`.
fn exact(n: i128) -> Option<Value> {
    i64::try_from(n).map(Value::from).or_else(|_| u64::try_from(n).map(Value::from)).ok()
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

fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, names).map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default()
}

fn given(members: &[(String, Json<'_>)]) -> String {
    match members {
        [] => "nothing was given".to_owned(),
        _ => format!("given: {}", quoted_list(members.iter().map(|(name, _)| name.as_str()))),
    }
}

/// The first few names, each in back quotes.
pub(crate) fn quoted_list<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    let listed = names.by_ref().take(30);
    let mut list: Vec<String> = listed.map(|name| format!("`{}`", excerpt(name, 60))).collect();
    let left = names.count();
    if left > 0 {
        list.push(format!("and {left} more"));
    }
    list.join(", ")
}

impl Kind {
    /// The name of the type in JSON Schema's words.
    fn name(&self) -> &'static str {
        match self {
            Kind::Any => "any value",
            Kind::Boolean => "boolean",
            Kind::Text { .. } => "string",
            Kind::Integer { .. } => "integer",
            Kind::Number { .. } => "number",
            Kind::Array { .. } => "array",
            Kind::Object(_) => "object",
        }
    }
}
