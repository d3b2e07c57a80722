//! Looks into JSON of which nothing is taken for granted.

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// A piece of JSON as it was written. Every look reads the piece once and keeps only what was asked for; none recurses,
/// so that neither depth nor length of what a server sends can exhaust anything.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(&'a str);

impl<'a> Node<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str::<&RawValue>(text).ok().map(|raw| Node(raw.get()))
    }

    /// The piece itself.
    pub(super) fn raw(&self) -> &'a str {
        self.0
    }

    /// The name of its type in JSON Schema's words.
    pub(super) fn type_name(&self) -> &'static str {
        match self.0.as_bytes().first() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "boolean",
            Some(b'n') => "null",
            _ => "number",
        }
    }

    /// A member that is there and not `null`; of several of the name the last.
    pub(super) fn member(&self, name: &str) -> Option<Node<'a>> {
        if self.type_name() != "object" {
            return None;
        }
        let mut reader = serde_json::Deserializer::from_str(self.0);
        let raw = reader.deserialize_map(Member(name)).ok()??;
        Some(Node(raw.get())).filter(|node| node.type_name() != "null")
    }

    pub(super) fn items(&self) -> Vec<Node<'a>> {
        let items: Vec<&'a RawValue> = serde_json::from_str(self.0).unwrap_or_default();
        items.into_iter().map(|raw| Node(raw.get())).collect()
    }

    pub(super) fn text(&self) -> Option<String> {
        serde_json::from_str(self.0).ok()
    }

    /// A text in which halves of surrogate pairs stand, with U+FFFD for each.
    pub(super) fn repaired_text(&self) -> Option<String> {
        serde_json::from_str(&without_surrogates(self.0)).ok()
    }

    pub(super) fn count(&self) -> Option<u64> {
        serde_json::from_str(self.0).ok()
    }
}

/// Finds the member of this name.
struct Member<'n>(&'n str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<String>()? {
            if name == self.0 {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// The literal with every escape of a surrogate replaced by U+FFFD.
fn without_surrogates(literal: &str) -> String {
    let mut repaired = String::with_capacity(literal.len());
    let mut rest = literal;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        repaired.push_str(before);
        let is_surrogate = escape.get(..4).is_some_and(|start| {
            let start = start.to_ascii_lowercase();
            ["\\ud8", "\\ud9", "\\uda", "\\udb", "\\udc", "\\udd", "\\ude", "\\udf"].contains(&&start[..])
        });
        let width = if is_surrogate { 6 } else { 2 };
        let taken = escape.get(..width).unwrap_or(escape);
        repaired.push_str(if is_surrogate { "\\ufffd" } else { taken });
        rest = &escape[taken.len()..];
    }
    repaired.push_str(rest);
    repaired
}
