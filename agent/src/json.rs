//! JSON as a model wrote it: duplicate keys are kept, numbers stay text.
//!
//! `serde_json::Value` keeps the last of two equal keys and rounds big numbers, so it cannot tell what was sent.

use std::fmt;

/// Levels of arrays and objects. Deeper text is refused, so that neither reading nor dropping it can exhaust the
/// stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    /// As it was written.
    Number(&'a str),
    Text(String),
    Array(Vec<Json<'a>>),
    /// In the order it was written, equal keys included.
    Object(Vec<(String, Json<'a>)>),
}

impl Json<'_> {
    /// The name of the type in JSON Schema's words.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::Text(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }
}

/// Where a text stops being JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    /// In characters, from 1.
    pub(crate) position: usize,
    what: String,
    excerpt: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {}", self.what, self.position)?;
        if self.excerpt.is_empty() { write!(f, ", at the end") } else { write!(f, ": `{}`", self.excerpt) }
    }
}

/// Reads one JSON value and nothing after it (RFC 8259).
pub(crate) fn parse(text: &str) -> Result<Json<'_>, JsonError> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.error("unexpected text after the end of the value")),
    }
}

/// A spelling that is equal for equal values: keys sorted, no white space, numbers as digits and exponent. No text is
/// `{}`, as it is for arguments; other text that is not JSON is its own canonical form.
pub(crate) fn canonical(text: &str) -> String {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut canonical = String::new();
    match parse(text) {
        Ok(value) => write_canonical(&value, &mut canonical),
        Err(_) => canonical.push_str(text.trim()),
    }
    canonical
}

fn write_canonical(value: &Json<'_>, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(text) => match decimal(text) {
            Decimal { digits, .. } if digits.is_empty() => out.push('0'),
            Decimal { sign, digits, exponent } => out.push_str(&format!("{sign}{digits}e{exponent}")),
        },
        Json::Text(text) => write_text(text, out),
        Json::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<&(String, Json<'_>)> = members.iter().collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            out.push('{');
            for (key, value) in members {
                write_text(key, out);
                out.push(':');
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    out.extend(text.chars().flat_map(char::escape_debug));
    out.push('"');
}

/// The whole number that a JSON number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Exact(i128),
    /// Whole, but beyond `i128`.
    TooLarge,
    /// Not a whole number.
    Fraction,
}

/// Reads a JSON number exactly: `3`, `3.0` and `30e-1` are the same whole number, `7.5` is none.
pub(crate) fn whole(number: &str) -> Whole {
    let Decimal { sign, digits, exponent } = decimal(number);
    if digits.is_empty() {
        return Whole::Exact(0);
    }
    if exponent < 0 {
        return Whole::Fraction;
    }
    // i128 has 39 digits.
    if exponent.saturating_add(digits.len() as i64) > 39 {
        return Whole::TooLarge;
    }
    let zeros = "0".repeat(usize::try_from(exponent).unwrap_or_default());
    format!("{sign}{digits}{zeros}").parse().map_or(Whole::TooLarge, Whole::Exact)
}

/// `digits`, which neither start nor end with a zero, times ten to the power of `exponent`. Zero has no digits.
struct Decimal {
    sign: &'static str,
    digits: String,
    exponent: i64,
}

fn decimal(number: &str) -> Decimal {
    let (sign, unsigned) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{integer}{fraction}");
    let digits = all.trim_end_matches('0');
    // An exponent that does not fit `i64` moves the point past anything a text can hold.
    let huge = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
    let exponent: i64 = exponent.parse().unwrap_or(huge).clamp(i64::MIN / 2, i64::MAX / 2);
    let exponent = exponent - fraction.len() as i64 + (all.len() - digits.len()) as i64;
    Decimal { sign, digits: digits.trim_start_matches('0').to_owned(), exponent }
}

struct Reader<'a> {
    text: &'a str,
    /// A byte offset, always on a character border.
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, what: impl Into<String>) -> JsonError {
        self.error_at(self.at, what)
    }

    fn error_at(&self, at: usize, what: impl Into<String>) -> JsonError {
        let position = self.text[..at].chars().count() + 1;
        JsonError { position, what: what.into(), excerpt: crate::clip::excerpt(&self.text[at..], 24) }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes the byte if it comes next, after white space.
    fn take(&mut self, wanted: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        self.skip_space();
        match self.peek() {
            Some(b'{' | b'[') if depth == MAX_DEPTH => {
                Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")))
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.word(),
            _ => Err(self.error("expected a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a name in double quotes"));
            }
            let name = self.string()?;
            if !self.take(b':') {
                return Err(self.error("expected `:`"));
            }
            members.push((name, self.value(depth + 1)?));
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.error("expected `,` or `}`"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            if !self.take(b',') {
                return Err(self.error("expected `,` or `]`"));
            }
        }
    }

    fn word(&mut self) -> Result<Json<'a>, JsonError> {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let value = match &rest[..length] {
            "null" => Json::Null,
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            // Among them `NaN`, `Infinity`, `True` and `None`.
            _ => return Err(self.error("a bare word is not JSON")),
        };
        self.at += length;
        Ok(value)
    }

    fn number(&mut self) -> Result<Json<'a>, JsonError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let leading_zero = self.peek() == Some(b'0');
        let integer_digits = self.digits()?;
        if leading_zero && integer_digits > 1 {
            return Err(self.error_at(start, "a number cannot start with `0`"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(Json::Number(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> Result<usize, JsonError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.error("expected a digit")) } else { Ok(self.at - start) }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            string.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                None => return Err(self.error_at(start, "a string is not closed: the text may be cut")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                Some(_) => return Err(self.error("a control character has to be escaped in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        let kind = self.text.as_bytes().get(self.at + 1).copied();
        let plain = match kind {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start),
            _ => return Err(self.error("an unknown escape")),
        };
        self.at += 2;
        Ok(plain)
    }

    /// `\uXXXX`, or two of them that make one character. A surrogate without its partner is no character.
    fn unicode_escape(&mut self, start: usize) -> Result<char, JsonError> {
        let first = self.code_unit()?;
        let lone = "half of a surrogate pair is not a character";
        let code = match first {
            0xD800..=0xDBFF if self.text[self.at..].starts_with("\\u") => {
                let second = self.code_unit()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(self.error_at(start, lone));
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            other => other,
        };
        char::from_u32(code).ok_or_else(|| self.error_at(start, lone))
    }

    fn code_unit(&mut self) -> Result<u32, JsonError> {
        let digits =
            self.text.get(self.at + 2..self.at + 6).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.error("`\\u` needs four hexadecimal digits"))?;
        self.at += 6;
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(text: &str) -> String {
        parse(text).map_or_else(|error| error.to_string(), |value| format!("accepted: {value:?}"))
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_position() {
        for (text, wanted) in [
            ("", "expected a value at character 1, at the end"),
            (r#"{"a":1"#, "expected `,` or `}` at character 7, at the end"),
            (r#"{"a":1,}"#, "expected a name in double quotes at character 8: `}`"),
            ("{'a':1}", "expected a name in double quotes at character 2: `'a':1}`"),
            (r#"{"a" 1}"#, "expected `:` at character 6: `1}`"),
            (r#"{"n":3}"""#, "unexpected text after the end of the value at character 8: `\"\"`"),
            (r#"{"ä": NaN}"#, "a bare word is not JSON at character 7: `NaN}`"),
            ("[Infinity]", "a bare word is not JSON at character 2: `Infinity]`"),
            ("[-Infinity]", "expected a digit at character 3: `Infinity]`"),
            ("[True]", "a bare word is not JSON at character 2: `True]`"),
            ("[01]", "a number cannot start with `0` at character 2: `01]`"),
            ("[1.]", "expected a digit at character 4: `]`"),
            ("[1e]", "expected a digit at character 4: `]`"),
            ("[.5]", "expected a value at character 2: `.5]`"),
            ("[1,2", "expected `,` or `]` at character 5, at the end"),
            (r#"["abc"#, "a string is not closed: the text may be cut at character 2: `\"abc`"),
            (r#"["\x"]"#, "an unknown escape at character 3: `\\x\"]`"),
            (r#"["\u12"]"#, "`\\u` needs four hexadecimal digits at character 3: `\\u12\"]`"),
            (r#"["\u+123"]"#, "`\\u` needs four hexadecimal digits at character 3: `\\u+123\"]`"),
            (r#"["\ud800"]"#, "half of a surrogate pair is not a character at character 3: `\\ud800\"]`"),
            (r#"["\udc00"]"#, "half of a surrogate pair is not a character at character 3: `\\udc00\"]`"),
            (r#"["\ud800A"]"#, "half of a surrogate pair is not a character at character 3: `\\ud800A\"]`"),
            ("[\"a\nb\"]", "a control character has to be escaped in a string at character 4: `\\nb\"]`"),
            ("\u{feff}{}", "expected a value at character 1: `\u{feff}{}`"),
        ] {
            assert_eq!(message(text), wanted, "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert!(message(&nested(MAX_DEPTH + 1)).starts_with("nested deeper than 64 levels at character 65"));
        assert!(message(&"[".repeat(1_000_000)).starts_with("nested deeper"));
        assert!(message(&r#"{"a":"#.repeat(1_000_000)).starts_with("nested deeper"));
    }

    #[test]
    fn escapes_and_pairs_are_read() {
        assert_eq!(parse(r#""\u00e9\ud83e\udd80\n\/""#), Ok(Json::Text("é🦀\n/".to_owned())));
    }

    #[test]
    fn whole_numbers_are_exact() {
        for (text, wanted) in [
            ("3", Whole::Exact(3)),
            ("-3", Whole::Exact(-3)),
            ("3.0", Whole::Exact(3)),
            ("3.000e0", Whole::Exact(3)),
            ("30e-1", Whole::Exact(3)),
            ("0.3E1", Whole::Exact(3)),
            ("-0", Whole::Exact(0)),
            ("0e999999999999999999999", Whole::Exact(0)),
            ("7.5", Whole::Fraction),
            ("1e-1", Whole::Fraction),
            ("1e-999999999999999999999", Whole::Fraction),
            ("1e999999999999999999999", Whole::TooLarge),
            ("9007199254740993", Whole::Exact(9_007_199_254_740_993)),
            ("9007199254740993.0", Whole::Exact(9_007_199_254_740_993)),
            ("9007199254740993.5", Whole::Fraction),
            ("18446744073709551616", Whole::Exact(18_446_744_073_709_551_616)),
            ("170141183460469231731687303715884105727", Whole::Exact(i128::MAX)),
            ("170141183460469231731687303715884105728", Whole::TooLarge),
            ("-170141183460469231731687303715884105728", Whole::Exact(i128::MIN)),
        ] {
            assert_eq!(whole(text), wanted, "{text}");
        }
    }

    #[test]
    fn equal_values_have_one_spelling() {
        assert_eq!(
            canonical(r#"{"b":[1.0,"x"],"a":null}"#),
            canonical(" { \"a\" : null, \"b\": [1, \"\\u0078\"] } ")
        );
        assert_ne!(canonical(r#"{"a":1}"#), canonical(r#"{"a":"1"}"#));
        assert_ne!(canonical(r#"["a","b"]"#), canonical(r#"["a\",\"b"]"#));
        assert_eq!(canonical("  not json "), "not json");
        assert_eq!(canonical(" "), canonical("{}"));
        for same in
            [["0.5", "5e-1"], ["0.50", "0.5"], ["-1.25e2", "-125.0"], ["1e400", "10e399"], ["-0.0", "0"]]
        {
            assert_eq!(canonical(same[0]), canonical(same[1]), "{same:?}");
        }
        for [one, other] in [["0.5", "0.05"], ["5", "-5"], ["5", "50"], ["1e400", "1e401"]] {
            assert_ne!(canonical(one), canonical(other));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_as_serde_json_does(text in "[\\[\\]{}:,\"\\\\ntrue0-9.eEu+\\- a🦀]{0,40}") {
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            // serde_json also refuses a number that does not fit f64: a value it cannot hold, not a matter of syntax.
            let too_large = theirs.as_ref().is_err_and(|error| error.to_string().starts_with("number out of range"));
            prop_assert!(too_large || parse(&text).is_ok() == theirs.is_ok(), "{text}: {theirs:?}");
        }

        #[test]
        fn any_bytes_never_panic(text in "\\PC{0,60}") {
            let _ = parse(&text);
            let _ = canonical(&text);
        }
    }
}
