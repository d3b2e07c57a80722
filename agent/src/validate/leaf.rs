//! Texts, numbers and counts against their limits.

use super::Check;
use crate::clip::excerpt;
use crate::json::{Whole, whole};
use crate::nearest::{did_you_mean, quoted_list};
use crate::path::Path;
use crate::shape::Pattern;
use serde_json::{Number, Value};

impl Check {
    pub(super) fn text(
        &mut self,
        path: &Path<'_>,
        text: &str,
        length: (u64, u64),
        choices: Option<&[String]>,
        pattern: Option<&Pattern>,
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
        if !self.in_range(path, characters, length, "character") {
            return None;
        }
        if let Some(Pattern(regex)) = pattern.filter(|Pattern(regex)| !regex.is_match(text)) {
            self.fault(|| {
                format!("{} should match the pattern `{regex}`, got `{}`", path.quoted(), excerpt(text, 60))
            });
            return None;
        }
        Some(Value::String(text.to_owned()))
    }

    pub(super) fn in_range(
        &mut self,
        path: &Path<'_>,
        count: u64,
        (min, max): (u64, u64),
        unit: &str,
    ) -> bool {
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

    pub(super) fn integer(&mut self, path: &Path<'_>, text: &str, min: i128, max: i128) -> Option<Value> {
        let got = || excerpt(text, 60);
        match whole(text) {
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
    pub(super) fn number(&mut self, path: &Path<'_>, text: &str, min: f64, max: f64) -> Option<Value> {
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
        let whole = match whole(text) {
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
