//! Numbers as written, compared exactly: no floating point, so 4613732 never equals 4613733.

use std::fmt;

/// A decimal number in normal form: no leading zeros, no trailing zeros behind the point, no negative zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    whole: String,
    fraction: String,
}

impl Decimal {
    /// Reads one token: an optional sign, digits, and optionally a point and more digits.
    ///
    /// Stated rules: a comma separates thousands and must do so everywhere (`1,234` is 1234, `1,23` is nothing); a point
    /// is the decimal point (`1.234` is less than two); a leading zero, an exponent and a bare `.5` are refused.
    pub fn parse(token: &str) -> Option<Self> {
        let (negative, unsigned) = split_sign(token);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
        let whole = ungroup(whole)?;
        if fraction.is_empty() || !is_digits(fraction) || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        let fraction = fraction.trim_end_matches('0').to_owned();
        let negative = negative && !(whole == "0" && fraction.is_empty());
        Some(Decimal { negative, whole, fraction })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        let point = if self.fraction.is_empty() { "" } else { "." };
        write!(f, "{sign}{}{point}{}", self.whole, self.fraction)
    }
}

fn split_sign(token: &str) -> (bool, &str) {
    match token.strip_prefix(['-', '\u{2212}']) {
        Some(rest) => (true, rest),
        None => (false, token.strip_prefix('+').unwrap_or(token)),
    }
}

fn ungroup(whole: &str) -> Option<String> {
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let rest: Vec<&str> = groups.collect();
    let first_fits = is_digits(first) && (rest.is_empty() || first.len() <= 3);
    let rest_fits = rest.iter().all(|group| group.len() == 3 && is_digits(group));
    (first_fits && rest_fits).then(|| whole.replace(',', ""))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    fn same(a: &str, b: &str) -> bool {
        let (a, b) = (Decimal::parse(a), Decimal::parse(b));
        a.is_some() && a == b
    }

    #[test]
    fn spellings_of_one_number_are_equal() {
        for spelling in ["1234", "1,234", "1234.0", "+1234", "1,234.00"] {
            assert!(same(spelling, "1234"), "{spelling}");
        }
        assert!(same("-0", "0") && same("0.0", "0") && same("\u{2212}7", "-7"));
        assert!(same("771.12", "771.120"));
    }

    #[test]
    fn neighbours_differ() {
        for (a, b) in [("4613732", "4613733"), ("1.234", "1234"), ("-5", "5"), ("771.12", "771.1200000001")] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        for token in [
            "",
            "-",
            "1,23",
            "12,34,567",
            "1234,567",
            ",123",
            "1.",
            ".5",
            "1e3",
            "0x1f",
            "007",
            "1_000",
            "--1",
            "1.2.3",
            "١",
        ] {
            assert_eq!(Decimal::parse(token), None, "{token}");
        }
    }
}
