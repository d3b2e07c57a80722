//! What a schema asks for, in a type that holds only what the validator enforces.

use crate::nearest::quoted_list;
use regex_lite::Regex;
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
        pattern: Option<Pattern>,
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
        /// Whether no two items may be equal.
        unique: bool,
    },
    Object(ObjectShape),
    Variants(Variants),
}

/// The variants of an enum of which some carry data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variants {
    /// Those without data.
    pub(crate) texts: Vec<String>,
    /// The member whose value is the name of the variant. Without it, the name is that of the only member.
    pub(crate) tag: Option<String>,
    pub(crate) objects: Vec<Variant>,
}

/// A variant that is an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variant {
    pub(crate) name: String,
    /// The whole object, with what names it.
    pub(crate) shape: ObjectShape,
}

impl Variants {
    /// What a value has to be, in words.
    pub(crate) fn wanted(&self) -> String {
        let names = quoted_list(self.objects.iter().map(|variant| variant.name.as_str()));
        let object = match &self.tag {
            Some(tag) => format!("an object whose `{tag}` is one of {names}"),
            None => format!("an object with one member, which is one of {names}"),
        };
        match self.texts.as_slice() {
            [] => object,
            texts => format!("one of {}, or {object}", quoted_list(texts.iter().map(String::as_str))),
        }
    }
}

/// A regular expression that has to match somewhere in a text.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(pub(crate) Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Kind {
    /// What a value has to be, in JSON Schema's words, or the listed texts.
    pub(crate) fn wanted(&self) -> String {
        let name = match self {
            Kind::Any => "any value",
            Kind::Boolean => "boolean",
            Kind::Text { choices: Some(choices), .. } => {
                return format!("one of {}", quoted_list(choices.iter().map(String::as_str)));
            }
            Kind::Text { .. } => "string",
            Kind::Integer { .. } => "integer",
            Kind::Number { .. } => "number",
            Kind::Array { .. } => "array",
            Kind::Object(_) => "object",
            Kind::Variants(variants) => return variants.wanted(),
        };
        name.to_owned()
    }
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
