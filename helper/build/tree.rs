//! All rules as one program of classic BPF: a binary search for the call, then the conditions on its arguments.
//!
//! When a filter is loaded the kernel runs it once for every call number, to remember those that are always allowed
//! (Linux 5.11), so a list of some hundred comparisons costs half a millisecond of every launch and a tree a tenth.

use std::collections::BTreeMap;

/// Code, jump if true, jump if false, operand: `struct sock_filter` of linux/filter.h.
pub(crate) type Instruction = (u16, u8, u8, u32);

/// What must hold of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) index: u32,
    /// All 64 bits count. Otherwise the kernel ignores the upper half, and so must the filter.
    pub(crate) wide: bool,
    pub(crate) operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal(u64),
    NotEqual(u64),
    /// The bits of the mask have this value.
    Masked(u32, u32),
    /// At least one bit of the mask is set.
    AnyBit(u32),
}

/// The answer to a call of which all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) errno: u32,
    pub(crate) conditions: Vec<Condition>,
}

// Codes of linux/bpf_common.h, offsets in struct seccomp_data and actions of linux/seccomp.h.
const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const ALLOW: u32 = 0x7fff_0000;

/// Kills what comes by a foreign architecture's entry, answers every number above `last_known` with `unknown`, then
/// applies the rules; what no rule is about is allowed.
pub(crate) fn program(
    architecture: u32,
    last_known: u32,
    unknown: u32,
    rules: &BTreeMap<u32, Vec<Rule>>,
) -> Vec<Instruction> {
    let mut program = vec![
        (LOAD_WORD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD_WORD, 0, 0, NUMBER),
    ];
    let mut leaves: Vec<(u32, Vec<Instruction>)> = Vec::new();
    let calls = (0..=last_known).map(|number| (number, rules.get(&number).map_or(&[][..], Vec::as_slice)));
    let calls = calls.map(|(number, rules)| (number, answer(&merged(rules))));
    for (number, leaf) in calls.chain([(last_known + 1, vec![(RETURN, 0, 0, ERRNO | unknown)])]) {
        // Neighbours with the same answer are one range.
        if leaves.last().is_none_or(|(_, before)| *before != leaf) {
            leaves.push((number, leaf));
        }
    }
    program.extend(search(&leaves));
    program
}

/// Finds the last leaf whose first number is not above the call's.
fn search(leaves: &[(u32, Vec<Instruction>)]) -> Vec<Instruction> {
    if let [(_, only)] = leaves {
        return only.clone();
    }
    let (below, rest) = leaves.split_at(leaves.len() / 2);
    let (first, below, rest) = (rest[0].0, search(below), search(rest));
    let mut code = match u8::try_from(below.len()) {
        Ok(skip) => vec![(JUMP_IF_AT_LEAST, skip, 0, first)],
        // A conditional jump reaches 255 instructions, an unconditional one any number.
        Err(_) => vec![(JUMP_IF_AT_LEAST, 0, 1, first), (JUMP, 0, 0, below.len() as u32)],
    };
    code.extend(below);
    code.extend(rest);
    code
}

/// Joins rules that differ in nothing but the bit they look for.
fn merged(rules: &[Rule]) -> Vec<Rule> {
    let mut rules = rules.to_vec();
    while let Some((at, with, joined)) = joinable(&rules) {
        rules[at] = joined;
        rules.remove(with);
    }
    rules
}

fn joinable(rules: &[Rule]) -> Option<(usize, usize, Rule)> {
    let pairs = (0..rules.len()).flat_map(|at| (at + 1..rules.len()).map(move |with| (at, with)));
    pairs.into_iter().find_map(|(at, with)| Some((at, with, join(&rules[at], &rules[with])?)))
}

fn join(one: &Rule, other: &Rule) -> Option<Rule> {
    if one.errno != other.errno || one.conditions.len() != other.conditions.len() {
        return None;
    }
    let differing = (0..one.conditions.len())
        .filter(|&at| one.conditions[at] != other.conditions[at])
        .collect::<Vec<_>>();
    let &[at] = differing.as_slice() else { return None };
    let (a, b) = (&one.conditions[at], &other.conditions[at]);
    match (&a.operator, &b.operator) {
        (Operator::AnyBit(x), Operator::AnyBit(y)) if (a.index, a.wide) == (b.index, b.wide) => {
            let mut joined = one.clone();
            joined.conditions[at].operator = Operator::AnyBit(x | y);
            Some(joined)
        }
        _ => None,
    }
}

/// The first rule that holds answers.
fn answer(rules: &[Rule]) -> Vec<Instruction> {
    let mut code = Vec::new();
    for rule in rules {
        code.extend(one_rule(rule));
        if rule.conditions.is_empty() {
            return code;
        }
    }
    code.push((RETURN, 0, 0, ALLOW));
    code
}

/// Where a comparison goes on.
#[derive(Clone, Copy)]
enum To {
    Skip(u8),
    NextRule,
}

fn one_rule(rule: &Rule) -> Vec<Instruction> {
    let mut steps: Vec<(u16, To, To, u32)> = rule.conditions.iter().flat_map(condition).collect();
    steps.push((RETURN, To::Skip(0), To::Skip(0), ERRNO | rule.errno));
    let length = steps.len();
    let resolve = |at: usize, to: To| match to {
        To::Skip(count) => count,
        To::NextRule => u8::try_from(length - at - 1).expect("a rule is short"),
    };
    let steps = steps.into_iter().enumerate();
    steps.map(|(at, (code, yes, no, k))| (code, resolve(at, yes), resolve(at, no), k)).collect()
}

fn condition(condition: &Condition) -> Vec<(u16, To, To, u32)> {
    use To::{NextRule, Skip};
    // Both architectures are little-endian: the lower half comes first.
    let low = (LOAD_WORD, Skip(0), Skip(0), ARGUMENTS + 8 * condition.index);
    let high = (LOAD_WORD, Skip(0), Skip(0), ARGUMENTS + 8 * condition.index + 4);
    let halves = |value: u64| ((value >> 32) as u32, value as u32);
    match condition.operator {
        Operator::Equal(value) if condition.wide => {
            let (upper, lower) = halves(value);
            let equal = |half| (JUMP_IF_EQUAL, Skip(0), NextRule, half);
            vec![high, equal(upper), low, equal(lower)]
        }
        Operator::NotEqual(value) if condition.wide => {
            let (upper, lower) = halves(value);
            vec![
                high,
                (JUMP_IF_EQUAL, Skip(0), Skip(2), upper),
                low,
                (JUMP_IF_EQUAL, NextRule, Skip(0), lower),
            ]
        }
        Operator::Equal(value) => vec![low, (JUMP_IF_EQUAL, Skip(0), NextRule, value as u32)],
        Operator::NotEqual(value) => vec![low, (JUMP_IF_EQUAL, NextRule, Skip(0), value as u32)],
        Operator::Masked(mask, value) => {
            vec![low, (AND, Skip(0), Skip(0), mask), (JUMP_IF_EQUAL, Skip(0), NextRule, value)]
        }
        Operator::AnyBit(mask) => vec![low, (JUMP_IF_ANY_BIT, Skip(0), NextRule, mask)],
    }
}
