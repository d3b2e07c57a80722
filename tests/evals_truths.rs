//! Every truth of the benchmark, recomputed in a way of its own. No number below is the truth of a task.

use agentkit_evals::check::value::Value;
use agentkit_evals::task::{Expected, Grader, ToolName};
use agentkit_evals::tasks;
use std::collections::BTreeSet;

/// The truth of a task, computed.
fn oracle(task: &str) -> Option<String> {
    Some(match task {
        "arith-compound" => (17 * 34 + 256 / 8 - 91).to_string(),
        "arith-percent" => in_cents(840 * 100 * (100 - 15) * (100 + 8), 100 * 100),
        "fib-sum" => fibonacci().take(20).sum::<u64>().to_string(),
        "primes-below" => primes_below(1000).to_string(),
        "digit-sum" => {
            digits_of_power_of_two(100).iter().map(|digit| u32::from(*digit)).sum::<u32>().to_string()
        }
        "code-string" => "strawberry raspberry".matches('r').count().to_string(),
        "code-sort" => third_largest([42, 7, 19, 3, 88, 1]).to_string(),
        "memory-roundtrip" => ["sk", "42", "alpha"].join("-"),
        _ => return None,
    })
}

/// `amount / scale` cents, which must come out even, in units of a hundred.
fn in_cents(amount: u64, scale: u64) -> String {
    assert_eq!(amount % scale, 0, "the price has a fraction of a cent");
    let cents = amount / scale;
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn fibonacci() -> impl Iterator<Item = u64> {
    std::iter::successors(Some((1, 1)), |(a, b)| Some((*b, a + b))).map(|(a, _)| a)
}

/// By the sieve of Eratosthenes.
fn primes_below(limit: usize) -> usize {
    let mut composite = BTreeSet::new();
    (2..limit)
        .filter(|n| {
            let prime = !composite.contains(n);
            composite.extend((n * n..limit).step_by(*n));
            prime
        })
        .count()
}

/// The decimal digits, lowest first, by doubling on paper.
fn digits_of_power_of_two(exponent: u32) -> Vec<u8> {
    let mut digits = vec![1];
    for _ in 0..exponent {
        let mut carry = 0;
        for digit in &mut digits {
            let doubled = *digit * 2 + carry;
            (*digit, carry) = (doubled % 10, doubled / 10);
        }
        digits.extend((carry > 0).then_some(carry));
    }
    digits
}

fn third_largest(list: [i32; 6]) -> i32 {
    let larger_than = |x: i32| list.iter().filter(|y| **y > x).count();
    *list.iter().find(|x| larger_than(**x) == 2).expect("no two are equal")
}

#[test]
fn every_truth_is_what_the_oracle_computes() {
    let mut compared = 0;
    for task in tasks::all() {
        let Grader::Value { shape, truth, .. } = task.grader else { continue };
        let computed = oracle(task.name).unwrap_or_else(|| panic!("no oracle for {}", task.name));
        assert_eq!(Value::parse(shape, truth), Value::parse(shape, &computed), "{}", task.name);
        assert!(Value::parse(shape, truth).is_some(), "{}", task.name);
        compared += 1;
    }
    assert_eq!(compared, 8);
}

#[test]
fn the_suite_is_complete_and_its_names_are_unique() {
    let names: BTreeSet<&str> = tasks::all().map(|task| task.name).collect();
    assert_eq!((names.len(), tasks::all().count()), (12, 12));
    for task in tasks::all() {
        let expected: &[ToolName] = match task.expects {
            Expected::Nothing => &[],
            Expected::AnyOf(tools) => tools,
            Expected::RoundTrip => &[ToolName::Remember, ToolName::Recall],
            Expected::FailedDivision => &[ToolName::Calculator],
        };
        assert!(
            expected.iter().all(|tool| task.offers.contains(tool)),
            "{} expects what it does not offer",
            task.name
        );
    }
}
