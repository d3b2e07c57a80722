//! Reads `oneOf`: the variants of an enum of which some carry data.
//!
//! Only variants that can be told apart at a glance are taken, as serde's externally, internally and adjacently tagged
//! enums can. So a value is checked against one of them, and what is wrong is said of the one that was meant.

use super::Compiler;
use crate::shape::{Kind, ObjectShape, Property, SchemaError, Shape, Variant, Variants};
use serde_json::{Value, json};

impl Compiler {
    pub(super) fn variants(&mut self, alternatives: &Value) -> Result<Shape, SchemaError> {
        let alternatives = alternatives.as_array().ok_or_else(|| self.error("`oneOf` has to be a list"))?;
        let (mut texts, mut objects, mut nullable) = (Vec::new(), Vec::new(), false);
        for (index, alternative) in alternatives.iter().enumerate() {
            if *alternative == json!({"type": "null"}) {
                nullable = true;
                continue;
            }
            match self.below(format!("oneOf[{index}]"), alternative)? {
                Shape { kind: Kind::Text { choices: Some(choices), .. }, nullable: false } => {
                    texts.extend(choices)
                }
                Shape { kind: Kind::Object(object), nullable: false } => objects.push(object),
                _ => return Err(self.error("an alternative has to be an object, `null` or listed texts")),
            }
        }
        let variants = told_apart(texts, objects).ok_or_else(|| {
            self.error(
                "the alternatives of `oneOf` cannot be told apart: each has to be an object with the same required \
                 member of one listed text of its own, or with one required member of a name of its own",
            )
        })?;
        Ok(Shape { kind: Kind::Variants(variants), nullable })
    }
}

fn told_apart(texts: Vec<String>, objects: Vec<ObjectShape>) -> Option<Variants> {
    let first = objects.first()?;
    let tag = first.properties.iter().find(|property| {
        let name = property.name.as_str();
        distinct(objects.iter().map(|object| text_of(object, name)))
    });
    let tag = tag.map(|tag| tag.name.clone());
    let name = |object: &ObjectShape| match &tag {
        Some(tag) => text_of(object, tag).map(str::to_owned),
        None => only_member(object).map(str::to_owned),
    };
    let names = objects.iter().map(name).collect::<Option<Vec<String>>>()?;
    if !distinct(names.iter().chain(&texts).map(|name| Some(name.as_str()))) {
        return None;
    }
    let objects = names.into_iter().zip(objects).map(|(name, shape)| Variant { name, shape }).collect();
    Some(Variants { texts, tag, objects })
}

/// The one text that a required member can have.
fn text_of<'a>(object: &'a ObjectShape, member: &str) -> Option<&'a str> {
    let property = object.properties.iter().find(|property| property.name == member)?;
    match property {
        Property {
            required: true,
            shape: Shape { kind: Kind::Text { choices: Some(choices), .. }, nullable: false },
            ..
        } => match choices.as_slice() {
            [only] => Some(only),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a required member besides which there is none.
fn only_member(object: &ObjectShape) -> Option<&str> {
    match (object.properties.as_slice(), &object.others) {
        ([Property { name, required: true, .. }], None) => Some(name),
        _ => None,
    }
}

/// Whether all are there and no two are equal.
fn distinct<'a>(names: impl Iterator<Item = Option<&'a str>>) -> bool {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().all(|name| name.is_some_and(|name| seen.insert(name)))
}
