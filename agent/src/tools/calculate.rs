//! The calculator.

use super::arithmetic::evaluate;
use crate::tool;
use crate::tool_result::ToolError;

/// Evaluates an arithmetic expression exactly; nothing is rounded. Operators: + - * / % and ^ or ** (power, grouped
/// from the right), with parentheses; % is the remainder with the sign of the divisor. Functions: abs, ceil, floor,
/// max, min, round (halves away from zero), sqrt. Numbers may have decimals, an exponent (1e6) and _ between digits.
#[tool]
pub fn calculator(
    /// The expression, for instance `17*34 + 256/8 - 91`.
    expression: String,
) -> Result<String, ToolError> {
    evaluate(&expression).map(|value| value.to_string()).map_err(|error| ToolError::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(expression: &str) -> String {
        calculator(expression.to_owned()).unwrap_or_else(|error| format!("error: {error}"))
    }

    #[test]
    fn values_are_exact() {
        for (expression, wanted) in [
            ("17*34 + 256/8 - 91", "519"),
            ("840 * (1 - 0.15) * 1.08", "771.12"),
            ("0.1+0.2", "0.3"),
            ("2^100", "1267650600228229401496703205376"),
            ("2**10", "1024"),
            ("2^3^2", "512"),
            ("-2^2", "-4"),
            ("(-2)^2", "4"),
            ("2^-1", "0.5"),
            ("2*-3", "-6"),
            ("--3", "3"),
            ("+3", "3"),
            ("7-2-1", "4"),
            ("100/10/5", "2"),
            ("1/3*3", "1"),
            ("1/3", "1/3 (about 0.333333333333333...)"),
            ("7 % 3", "1"),
            ("-7 % 3", "2"),
            ("7 % -3", "-2"),
            ("7.5 % 2", "1.5"),
            ("2+3*4", "14"),
            ("1_000_000 + 1", "1000001"),
            ("1e6 / 2.5e-1", "4000000"),
            (".5 + 5.", "5.5"),
            (".0", "0"),
            ("0.10000000000000000000000000000000000000000000000", "0.1"),
            ("17 \u{d7} 34 \u{f7} 2 \u{2212} 1 \u{b7} 9", "280"),
            ("sqrt(2.25) + sqrt(16)", "5.5"),
            ("abs(-3) + max(1, 5, 2) + min(4, 3)", "11"),
            ("round(2.5) + round(-2.5) + floor(-0.5) + ceil(0.2)", "0"),
            ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
            ("(-1)^1000000000001", "-1"),
            ("0^0", "1"),
        ] {
            assert_eq!(run(expression), wanted, "{expression}");
        }
    }

    #[test]
    fn what_has_no_exact_value_is_an_error() {
        for (expression, wanted) in [
            ("1/0", "error: division by zero"),
            ("1 % 0", "error: division by zero"),
            ("0^-1", "error: division by zero"),
            ("2^127", "error: the result is too large"),
            ("9^999999999999", "error: the result is too large"),
            ("170141183460469231731687303715884105728", "error: the result is too large"),
            ("1e39", "error: the result is too large"),
            ("2^0.5", "error: an exponent has to be a whole number"),
            ("sqrt(2)", "error: the square root of 2 is not a rational number"),
            ("sqrt(-4)", "error: the square root of -4 is not a rational number"),
        ] {
            let message = run(expression);
            assert!(message.starts_with(wanted), "{expression}: {message}");
        }
        assert_eq!(run("1/0"), "error: division by zero");
    }

    #[test]
    fn what_is_no_expression_is_an_error_with_its_place() {
        for (expression, wanted) in [
            ("", "error: expected a number, but the expression ends at character 1"),
            ("1+", "error: expected a number, but the expression ends at character 3"),
            ("(1", "error: expected `)`, but the expression ends at character 3"),
            ("1)", "error: expected an operator, got `)` at character 2"),
            ("2(3)", "error: expected an operator, got `(` at character 2"),
            ("1 2", "error: expected an operator, got `2` at character 3"),
            ("1,000", "error: unexpected `,`: thousands are grouped by `_` or not at all at character 2"),
            ("1__0", "error: expected an operator, got `_` at character 2"),
            ("1_", "error: expected an operator, got `_` at character 2"),
            (".", "error: expected a digit beside the point at character 1"),
            ("15%", "error: expected a number, but the expression ends at character 4"),
            ("__import__('os')", "error: expected a number, got `_` at character 1"),
            (
                "pi * 2",
                "error: unknown name `pi` (there are abs, ceil, floor, max, min, round, sqrt) at character 1",
            ),
            ("abs(1, 2)", "error: `abs` takes one value at character 1"),
            ("1e", "error: expected an operator, got `e` at character 2"),
        ] {
            assert_eq!(run(expression), wanted, "{expression}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        for flood in ["(".repeat(3_000), "-".repeat(3_000), "2^".repeat(1_500), "abs(".repeat(900)] {
            assert!(run(&flood).contains("nested deeper than 64 levels"), "{}", run(&flood));
        }
        assert!(run(&"1+".repeat(1_000_000)).contains("longer than 4000 characters"));
        assert_eq!(run(&format!("{}1", "1+".repeat(1_900))), "1901");
    }

    /// An expression with its value by plain integer arithmetic, small enough that nothing overflows.
    fn expression() -> impl Strategy<Value = (String, i128)> {
        let leaf = (0i128..100).prop_map(|n| (n.to_string(), n));
        leaf.prop_recursive(4, 24, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| (format!("({}+{})", a.0, b.0), a.1 + b.1)),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| (format!("({} - {})", a.0, b.0), a.1 - b.1)),
                (inner.clone(), 0i128..9).prop_map(|(a, n)| (format!("{n}*{}", a.0), n * a.1)),
                inner.clone().prop_map(|a| (format!("-({})", a.0), -a.1)),
                (inner, 1i128..9).prop_map(|(a, n)| (format!("(({})%{n})", a.0), a.1.rem_euclid(n))),
            ]
        })
    }

    proptest! {
        #[test]
        fn whole_numbers_agree_with_the_oracle((text, value) in expression()) {
            // A leading product inside a product of negatives is unambiguous: every other node is in parentheses.
            prop_assert_eq!(run(&text), value.to_string(), "{}", text);
        }

        #[test]
        fn a_quotient_times_its_divisor_is_the_dividend(a in -10_000i64..10_000, b in 1i64..10_000) {
            prop_assert_eq!(run(&format!("({a}/{b})*{b}")), a.to_string());
            prop_assert_eq!(run(&format!("({a}/{b})-({a}/{b})")), "0");
        }

        #[test]
        fn decimals_agree_with_whole_cents(a in 0u32..1_000_000, b in 0u32..1_000_000) {
            let euros = |cents: u32| format!("{}.{:02}", cents / 100, cents % 100);
            prop_assert_eq!(run(&format!("({} + {}) * 100", euros(a), euros(b))), (a + b).to_string());
        }

        #[test]
        fn any_text_is_answered(text in "[0-9a-z+*/%^().,_ \\-]{0,60}|\\PC{0,40}") {
            let _ = run(&text);
        }
    }
}
