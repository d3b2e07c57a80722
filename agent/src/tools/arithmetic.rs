//! Reads and evaluates an arithmetic expression in one pass, by precedence.

use super::ratio::{Inexact, Ratio};
use crate::clip::excerpt;
use std::cmp::Ordering;
use std::fmt;

/// Levels of parentheses, signs and powers: the stack is bounded whatever is sent.
const MAX_DEPTH: usize = 64;
/// Characters of an expression.
const MAX_LENGTH: usize = 4_000;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EvalError {
    /// It is not an expression, from this character on (counted from 1).
    Syntax(usize, String),
    /// It has no exact value.
    Inexact(Inexact),
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvalError::Syntax(position, what) => write!(f, "{what} at character {position}"),
            EvalError::Inexact(why) => write!(f, "{why}"),
        }
    }
}

impl From<Inexact> for EvalError {
    fn from(why: Inexact) -> Self {
        EvalError::Inexact(why)
    }
}

type Result<T> = std::result::Result<T, EvalError>;

/// The exact value of an expression.
pub(crate) fn evaluate(text: &str) -> Result<Ratio> {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() > MAX_LENGTH {
        return Err(EvalError::Syntax(MAX_LENGTH + 1, format!("longer than {MAX_LENGTH} characters")));
    }
    let mut parser = Parser { characters, at: 0, depth: 0 };
    let value = parser.expression(0)?;
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.unexpected("an operator")),
    }
}

/// The operators between two values.
#[derive(Clone, Copy)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// A sign binds closer than `*` and looser than `^`: `-2^2` is -4.
const SIGN: u8 = 3;

impl Operator {
    /// How closely it binds.
    fn precedence(self) -> u8 {
        match self {
            Operator::Add | Operator::Subtract => 1,
            Operator::Multiply | Operator::Divide | Operator::Remainder => 2,
            Operator::Power => 4,
        }
    }

    /// How closely the operators in its right operand have to bind. A power groups from the right and may be signed.
    fn right_side(self) -> u8 {
        match self {
            Operator::Power => SIGN,
            other => other.precedence() + 1,
        }
    }

    fn apply(self, left: Ratio, right: Ratio) -> std::result::Result<Ratio, Inexact> {
        match self {
            Operator::Add => left.add(right),
            Operator::Subtract => left.subtract(right),
            Operator::Multiply => left.multiply(right),
            Operator::Divide => left.divide(right),
            Operator::Remainder => left.remainder(right),
            Operator::Power => left.power(right),
        }
    }
}

struct Parser {
    characters: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    /// The next character that is no white space.
    fn peek(&mut self) -> Option<char> {
        while self.characters.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.characters.get(self.at).copied()
    }

    fn syntax(&self, what: impl Into<String>) -> EvalError {
        EvalError::Syntax(self.at + 1, what.into())
    }

    fn unexpected(&mut self, wanted: &str) -> EvalError {
        match self.peek() {
            None => self.syntax(format!("expected {wanted}, but the expression ends")),
            Some(',') => self.syntax("unexpected `,`: thousands are grouped by `_` or not at all"),
            Some(c) => self.syntax(format!("expected {wanted}, got `{}`", excerpt(&c.to_string(), 8))),
        }
    }

    /// Operators that bind at least as closely as `least`.
    fn expression(&mut self, least: u8) -> Result<Ratio> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.syntax(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let mut left = self.operand()?;
        while let Some((operator, width)) = self.operator() {
            if operator.precedence() < least {
                break;
            }
            self.at += width;
            let right = self.expression(operator.right_side())?;
            left = operator.apply(left, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    /// The operator that comes next, and how many characters it takes.
    fn operator(&mut self) -> Option<(Operator, usize)> {
        let next = self.peek()?;
        let doubled = self.characters.get(self.at + 1) == Some(&'*');
        match next {
            '+' => Some((Operator::Add, 1)),
            '-' | '\u{2212}' => Some((Operator::Subtract, 1)),
            '*' if doubled => Some((Operator::Power, 2)),
            '*' | '\u{d7}' | '\u{b7}' => Some((Operator::Multiply, 1)),
            '/' | '\u{f7}' => Some((Operator::Divide, 1)),
            '%' => Some((Operator::Remainder, 1)),
            '^' => Some((Operator::Power, 1)),
            _ => None,
        }
    }

    fn operand(&mut self) -> Result<Ratio> {
        match self.peek() {
            Some('-' | '\u{2212}') => {
                self.at += 1;
                Ok(self.expression(SIGN)?.negate()?)
            }
            Some('+') => {
                self.at += 1;
                self.expression(SIGN)
            }
            Some('(') => {
                self.at += 1;
                let value = self.expression(0)?;
                self.expect(')')?;
                Ok(value)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() => self.function(),
            _ => Err(self.unexpected("a number")),
        }
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        if self.peek() != Some(wanted) {
            return Err(self.unexpected(&format!("`{wanted}`")));
        }
        self.at += 1;
        Ok(())
    }

    /// Digits, with `_` between digits.
    fn digits(&mut self) -> String {
        let mut digits = String::new();
        while let Some(&c) = self.characters.get(self.at) {
            let between = c == '_'
                && !digits.is_empty()
                && self.characters.get(self.at + 1).is_some_and(char::is_ascii_digit);
            if c.is_ascii_digit() {
                digits.push(c);
            } else if !between {
                break;
            }
            self.at += 1;
        }
        digits
    }

    fn number(&mut self) -> Result<Ratio> {
        let start = self.at;
        let integer = self.digits();
        let fraction = if self.characters.get(self.at) == Some(&'.') {
            self.at += 1;
            self.digits()
        } else {
            String::new()
        };
        if integer.is_empty() && fraction.is_empty() {
            return Err(EvalError::Syntax(start + 1, "expected a digit beside the point".to_owned()));
        }
        // Zeros at the end of the fraction say nothing and need no room.
        let fraction = fraction.trim_end_matches('0');
        let numerator =
            format!("{integer}{fraction}").parse().or_else(|_| empty_is_zero(&integer, fraction))?;
        let exponent = u32::try_from(fraction.len()).map_err(|_| Inexact::TooLarge)?;
        let denominator = 10i128.checked_pow(exponent).ok_or(Inexact::TooLarge)?;
        let value = Ratio::new(numerator, denominator)?;
        self.scientific(value)
    }

    /// `e6` behind a number, where digits follow.
    fn scientific(&mut self, value: Ratio) -> Result<Ratio> {
        let at = |offset: usize| self.characters.get(self.at + offset).copied();
        let signed = usize::from(matches!(at(1), Some('+' | '-')));
        if !matches!(at(0), Some('e' | 'E')) || !at(1 + signed).is_some_and(|c| c.is_ascii_digit()) {
            return Ok(value);
        }
        let negative = at(1) == Some('-');
        self.at += 1 + signed;
        let exponent: i128 = self.digits().parse().map_err(|_| Inexact::TooLarge)?;
        let exponent = Ratio::whole(if negative { -exponent } else { exponent });
        Ok(value.multiply(Ratio::whole(10).power(exponent)?)?)
    }

    fn function(&mut self) -> Result<Ratio> {
        let start = self.at;
        while self.characters.get(self.at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
            self.at += 1;
        }
        let name: String = self.characters[start..self.at].iter().collect();
        let unknown = || {
            let name = excerpt(&name, 40);
            let known = "there are abs, ceil, floor, max, min, round, sqrt";
            EvalError::Syntax(start + 1, format!("unknown name `{name}` ({known})"))
        };
        let function = Function::named(&name).ok_or_else(unknown)?;
        self.expect('(')?;
        let mut values = vec![self.expression(0)?];
        while self.peek() == Some(',') {
            self.at += 1;
            values.push(self.expression(0)?);
        }
        self.expect(')')?;
        match (function, values.as_slice()) {
            (Function::Least, values) => extreme(values, Ordering::Less),
            (Function::Greatest, values) => extreme(values, Ordering::Greater),
            (Function::Unary(function), [value]) => Ok(function(*value)?),
            (Function::Unary(_), _) => Err(EvalError::Syntax(start + 1, format!("`{name}` takes one value"))),
        }
    }
}

enum Function {
    Unary(fn(Ratio) -> std::result::Result<Ratio, Inexact>),
    Least,
    Greatest,
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "abs" => Function::Unary(Ratio::absolute),
            "ceil" => Function::Unary(|value| Ok(Ratio::whole(value.ceiling()))),
            "floor" => Function::Unary(|value| Ok(Ratio::whole(value.floor()))),
            "round" => Function::Unary(|value| value.round().map(Ratio::whole)),
            "sqrt" => Function::Unary(Ratio::square_root),
            "max" => Function::Greatest,
            "min" => Function::Least,
            _ => return None,
        })
    }
}

fn extreme(values: &[Ratio], wanted: Ordering) -> Result<Ratio> {
    let mut best = values[0];
    for value in &values[1..] {
        if value.compare(best)? == wanted {
            best = *value;
        }
    }
    Ok(best)
}

/// Parsing fails for no digits at all, which is zero (`.0`), and for too many.
fn empty_is_zero(integer: &str, fraction: &str) -> std::result::Result<i128, Inexact> {
    if integer.is_empty() && fraction.is_empty() { Ok(0) } else { Err(Inexact::TooLarge) }
}
