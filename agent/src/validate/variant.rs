//! A value of an enum whose variants carry data.

use super::{Check, given};
use crate::clip::excerpt;
use crate::json::Json;
use crate::nearest::{did_you_mean, quoted_list};
use crate::path::Path;
use crate::shape::{Variant, Variants};
use serde_json::Value;

impl Check {
    /// The variant is chosen first, so that what is wrong is said of the one that was meant.
    pub(super) fn variant(&mut self, path: &Path<'_>, json: &Json<'_>, variants: &Variants) -> Option<Value> {
        let chosen = match (json, &variants.tag) {
            (Json::Text(text), _) if variants.texts.contains(text) => {
                return Some(Value::String(text.clone()));
            }
            (Json::Object(members), Some(tag)) => self.tagged(path, members, tag, &variants.objects)?,
            (Json::Object(members), None) => self.named(path, members, variants)?,
            (json, _) => {
                self.wrong_variant(path, json, variants);
                return None;
            }
        };
        let Json::Object(members) = json else { return None };
        Some(Value::Object(self.object(path, members, &chosen.shape)))
    }

    /// By the member that names it.
    fn tagged<'a>(
        &mut self,
        path: &Path<'_>,
        members: &[(String, Json<'_>)],
        tag: &str,
        variants: &'a [Variant],
    ) -> Option<&'a Variant> {
        let path = Path::Member(path, tag);
        let Some((_, value)) = members.iter().find(|(name, _)| name == tag) else {
            self.fault(|| format!("{} is missing ({})", path.quoted(), given(members)));
            return None;
        };
        let chosen = match value {
            Json::Text(text) => variants.iter().find(|variant| variant.name == *text),
            _ => None,
        };
        if chosen.is_none() {
            let names = || variants.iter().map(|variant| variant.name.as_str());
            let got = match value {
                Json::Text(text) => format!("`{}`{}", excerpt(text, 60), did_you_mean(text, names())),
                other => other.type_name().to_owned(),
            };
            self.fault(|| format!("{} should be one of {}, got {got}", path.quoted(), quoted_list(names())));
        }
        chosen
    }

    /// By the name of its only member.
    fn named<'a>(
        &mut self,
        path: &Path<'_>,
        members: &[(String, Json<'_>)],
        variants: &'a Variants,
    ) -> Option<&'a Variant> {
        let mut known = members
            .iter()
            .filter_map(|(name, _)| variants.objects.iter().find(|variant| variant.name == *name));
        let chosen = known.next();
        if chosen.is_none() {
            self.fault(|| {
                let names = || variants.objects.iter().map(|variant| variant.name.as_str());
                let meant = members.first().map(|(name, _)| did_you_mean(name, names()));
                format!(
                    "{} should be {}, {}{}",
                    path.quoted(),
                    variants.wanted(),
                    given(members),
                    meant.unwrap_or_default()
                )
            });
        }
        chosen
    }

    fn wrong_variant(&mut self, path: &Path<'_>, json: &Json<'_>, variants: &Variants) {
        match json {
            Json::Text(text) => self.fault(|| {
                let meant = did_you_mean(text, variants.texts.iter().map(String::as_str));
                format!(
                    "{} should be {}, got `{}`{meant}",
                    path.quoted(),
                    variants.wanted(),
                    excerpt(text, 60)
                )
            }),
            other => self.wrong_type(path, &variants.wanted(), other),
        }
    }
}
