//! Exact fractions. An operation either gives the exact result or says why it cannot.

use std::cmp::Ordering;
use std::fmt;

/// A fraction in lowest terms; the denominator is positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    numerator: i128,
    denominator: i128,
}

/// Why there is no exact result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Inexact {
    #[error("division by zero")]
    DivisionByZero,
    #[error("the result is too large or has too many digits: exact numbers here have at most 38 digits")]
    TooLarge,
    #[error("an exponent has to be a whole number: other powers are not exact")]
    FractionalExponent,
    #[error("the square root of {0} is not a rational number, so it cannot be given exactly")]
    IrrationalRoot(String),
}

type Result<T> = std::result::Result<T, Inexact>;

impl Ratio {
    pub(crate) fn whole(n: i128) -> Self {
        Ratio { numerator: n, denominator: 1 }
    }

    /// `numerator / denominator`.
    pub(crate) fn new(numerator: i128, denominator: i128) -> Result<Self> {
        if denominator == 0 {
            return Err(Inexact::DivisionByZero);
        }
        let divisor = gcd(numerator, denominator)?;
        let sign = denominator.signum();
        let exact = |n: i128| (n / divisor).checked_mul(sign).ok_or(Inexact::TooLarge);
        Ok(Ratio { numerator: exact(numerator)?, denominator: exact(denominator)? })
    }

    pub(crate) fn add(self, other: Self) -> Result<Self> {
        // Over the least common denominator, so that nothing overflows that need not.
        let divisor = gcd(self.denominator, other.denominator)?;
        let left = times(self.numerator, other.denominator / divisor)?;
        let right = times(other.numerator, self.denominator / divisor)?;
        let sum = left.checked_add(right).ok_or(Inexact::TooLarge)?;
        Ratio::new(sum, times(self.denominator, other.denominator / divisor)?)
    }

    pub(crate) fn negate(self) -> Result<Self> {
        let numerator = self.numerator.checked_neg().ok_or(Inexact::TooLarge)?;
        Ok(Ratio { numerator, ..self })
    }

    pub(crate) fn subtract(self, other: Self) -> Result<Self> {
        self.add(other.negate()?)
    }

    pub(crate) fn multiply(self, other: Self) -> Result<Self> {
        // Crosswise in lowest terms first.
        let one = Ratio::new(self.numerator, other.denominator)?;
        let two = Ratio::new(other.numerator, self.denominator)?;
        Ratio::new(times(one.numerator, two.numerator)?, times(one.denominator, two.denominator)?)
    }

    pub(crate) fn divide(self, other: Self) -> Result<Self> {
        self.multiply(Ratio::new(other.denominator, other.numerator)?)
    }

    /// What is left after division to a whole quotient, rounded down: the sign is the divisor's.
    pub(crate) fn remainder(self, other: Self) -> Result<Self> {
        let quotient = Ratio::whole(self.divide(other)?.floor());
        self.subtract(other.multiply(quotient)?)
    }

    pub(crate) fn power(self, exponent: Self) -> Result<Self> {
        if exponent.denominator != 1 {
            return Err(Inexact::FractionalExponent);
        }
        let base = if exponent.numerator < 0 { Ratio::whole(1).divide(self)? } else { self };
        let exponent = exponent.numerator.unsigned_abs();
        if base.denominator == 1 && base.numerator.unsigned_abs() <= 1 {
            // 0, 1 and -1 have powers of any size: only zero and odd matter.
            return base.repeated(if exponent == 0 { 0 } else { 2 - exponent % 2 });
        }
        // 2^127 does not fit, nor does anything larger to that power.
        if exponent > 127 { Err(Inexact::TooLarge) } else { base.repeated(exponent) }
    }

    fn repeated(self, times: u128) -> Result<Self> {
        (0..times).try_fold(Ratio::whole(1), |product, _| product.multiply(self))
    }

    pub(crate) fn square_root(self) -> Result<Self> {
        let root = |n: i128| {
            let root = u128::try_from(n).ok()?.isqrt();
            let root = i128::try_from(root).ok()?;
            (root.checked_mul(root) == Some(n)).then_some(root)
        };
        match (root(self.numerator), root(self.denominator)) {
            (Some(numerator), Some(denominator)) => Ratio::new(numerator, denominator),
            _ => Err(Inexact::IrrationalRoot(self.to_string())),
        }
    }

    pub(crate) fn absolute(self) -> Result<Self> {
        if self.numerator < 0 { self.negate() } else { Ok(self) }
    }

    pub(crate) fn floor(self) -> i128 {
        self.numerator.div_euclid(self.denominator)
    }

    pub(crate) fn ceiling(self) -> i128 {
        self.floor() + i128::from(self.denominator != 1)
    }

    /// To the nearest whole number, halves away from zero.
    pub(crate) fn round(self) -> Result<i128> {
        if self.denominator == 1 {
            return Ok(self.numerator);
        }
        let half = Ratio { numerator: 1, denominator: 2 };
        if self.numerator < 0 { Ok(self.subtract(half)?.ceiling()) } else { Ok(self.add(half)?.floor()) }
    }

    pub(crate) fn compare(self, other: Self) -> Result<Ordering> {
        Ok(self.subtract(other)?.numerator.cmp(&0))
    }

    /// The decimal number, if it ends and its digits fit.
    fn decimal(self) -> Option<String> {
        let (mut rest, mut twos, mut fives) = (self.denominator, 0u32, 0u32);
        while rest % 2 == 0 {
            (rest, twos) = (rest / 2, twos + 1);
        }
        while rest % 5 == 0 {
            (rest, fives) = (rest / 5, fives + 1);
        }
        let places = twos.max(fives);
        if rest != 1 {
            return None;
        }
        let scale = 10i128.checked_pow(places)?;
        let scaled = self.numerator.checked_mul(scale / self.denominator)?.unsigned_abs();
        let scale = scale.unsigned_abs();
        let (sign, places) = (if self.numerator < 0 { "-" } else { "" }, places as usize);
        Some(format!("{sign}{}.{:0places$}", scaled / scale, scaled % scale))
    }

    /// The first digits of a decimal number that does not end, cut and not rounded.
    fn first_digits(self) -> String {
        let sign = if self.numerator < 0 { "-" } else { "" };
        let (numerator, denominator) = (self.numerator.unsigned_abs(), self.denominator.unsigned_abs());
        let mut digits = format!("{sign}{}.", numerator / denominator);
        let mut rest = numerator % denominator;
        for _ in 0..15 {
            let Some(next) = rest.checked_mul(10) else { break };
            digits.push_str(&(next / denominator).to_string());
            rest = next % denominator;
        }
        digits
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator == 1 {
            return write!(f, "{}", self.numerator);
        }
        match self.decimal() {
            Some(decimal) => f.write_str(&decimal),
            None => write!(f, "{}/{} (about {}...)", self.numerator, self.denominator, self.first_digits()),
        }
    }
}

fn times(a: i128, b: i128) -> Result<i128> {
    a.checked_mul(b).ok_or(Inexact::TooLarge)
}

/// The greatest common divisor, at least 1.
fn gcd(a: i128, b: i128) -> Result<i128> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a.max(1)).map_err(|_| Inexact::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_i128_are_errors_and_no_panics() {
        let (least, most) = (Ratio::whole(i128::MIN), Ratio::whole(i128::MAX));
        let (one, zero) = (Ratio::whole(1), Ratio::whole(0));
        assert_eq!((least.round(), most.round()), (Ok(i128::MIN), Ok(i128::MAX)));
        assert_eq!(least.negate(), Err(Inexact::TooLarge));
        assert_eq!(most.add(one), Err(Inexact::TooLarge));
        assert_eq!(least.subtract(one), Err(Inexact::TooLarge));
        assert_eq!(most.multiply(most), Err(Inexact::TooLarge));
        assert_eq!(one.divide(zero), Err(Inexact::DivisionByZero));
        assert_eq!(one.remainder(zero), Err(Inexact::DivisionByZero));
        assert_eq!(zero.power(Ratio::whole(-1)), Err(Inexact::DivisionByZero));
        for value in [least, most, one, zero] {
            for other in [least, most, one, zero] {
                let _ = (value.add(other), value.divide(other), value.remainder(other), value.power(other));
                let _ = (value.round(), value.square_root(), value.compare(other), value.absolute());
            }
        }
    }

    #[test]
    fn what_does_not_end_is_shown_as_a_fraction() {
        let show = |n, d| Ratio::new(n, d).map(|ratio| ratio.to_string());
        assert_eq!(show(1, 3).as_deref(), Ok("1/3 (about 0.333333333333333...)"));
        assert_eq!(show(-22, 7).as_deref(), Ok("-22/7 (about -3.142857142857142...)"));
        assert_eq!(show(77112, 100).as_deref(), Ok("771.12"));
        assert_eq!(show(-1, 40).as_deref(), Ok("-0.025"));
        assert_eq!(show(6, 3).as_deref(), Ok("2"));
    }
}
