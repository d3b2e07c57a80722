//! Compiles the groups of `profiles/seccomp` into a BPF program and `profiles/*.toml` into policies, so that the jail carries
//! neither parser nor compiler.
//!
//! seccompiler knows the numbers of the calls, and compiles the same rules a second time, as the reference that a unit
//! test compares the program with. The jail does not load that one: it would be one filter for each errno, each a
//! list, and loading them took a fifth of a launch.

mod policies;
mod tree;

use seccompiler::{BpfProgram, TargetArch};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tree::{Condition, Instruction, Operator, Rule};

/// The newest call that the rules were written for (`mseal`, Linux 6.10; the same number on both architectures).
/// Newer ones are answered as on an older kernel, and so is every x32 number: they start at 0x40000000.
const LAST_KNOWN_CALL: u32 = 462;

fn main() {
    println!("cargo::rerun-if-changed=build");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target architecture");
    let os = std::env::var("CARGO_CFG_TARGET_OS").expect("cargo sets the target system");
    // Whether this build has a mechanism at all.
    println!("cargo::rustc-check-cfg=cfg(mechanism)");
    let has = |mechanism: &str| std::env::var_os(format!("CARGO_FEATURE_{mechanism}")).is_some();
    if os == "linux" || (os == "macos" && has("SEATBELT")) {
        println!("cargo::rustc-cfg=mechanism");
    }
    // Whether it has one that does without namespaces.
    println!("cargo::rustc-check-cfg=cfg(without_namespaces)");
    if os == "linux" && (has("LANDLOCK") || has("RLIMITS")) {
        println!("cargo::rustc-cfg=without_namespaces");
    }
    // Whether it has one with namespaces, whoever makes them.
    println!("cargo::rustc-check-cfg=cfg(with_namespaces)");
    if os == "linux" && (has("NAMESPACES") || has("BUBBLEWRAP")) {
        println!("cargo::rustc-cfg=with_namespaces");
    }
    write("policies.rs", &policies::source());
    write("seatbelt.sb", &without_comments(agentkit_profiles::SEATBELT));
    if os != "linux" {
        return;
    }
    for (name, places) in PROGRAMS {
        write_filter(&arch, rules(&arch, places), name);
    }
}

/// A profile's text as the jail embeds it.
fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with(';'));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// What a rule can ask for by `where`; one without it is for every jail.
const EVERYWHERE: &str = "";
const WRITABLE_HOST: &str = "host files are writable";
/// The programs, and which rules go into each. The first two are for a jail each, of the others a jail without namespaces
/// has those that it needs beside one of the two.
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("private", &[EVERYWHERE]),
    ("host", &[EVERYWHERE, WRITABLE_HOST]),
    ("shared", &["without namespaces"]),
    ("offline", &["no network"]),
    ("emptying", &["files can be emptied"]),
];

fn write_filter(arch: &str, rules: Vec<(String, Value)>, name: &str) {
    let mut by_number: BTreeMap<u32, Vec<Rule>> = BTreeMap::new();
    let mut by_answer: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (answer, rule) in rules {
        by_number.entry(number(&rule["syscall"], arch)).or_default().push(parse(&answer, &rule));
        by_answer.entry(answer).or_default().push(rule);
    }
    let program = tree::program(audit_arch(arch), LAST_KNOWN_CALL, errno("ENOSYS"), &by_number);
    write(&format!("seccomp_{name}.rs"), &source(&program));
    let reference = by_answer.into_iter().map(|(answer, rules)| {
        let filter =
            json!({"mismatch_action": "allow", "match_action": {"errno": errno(&answer)}, "filter": rules});
        source(&compile(&filter, arch).iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect::<Vec<_>>())
    });
    write(
        &format!("seccomp_{name}_reference.rs"),
        &format!("&[{}]", reference.collect::<Vec<_>>().join(",\n")),
    );
}

/// Every rule of every group that applies, with its answer, one for each call that the architecture has, in seccompiler's JSON form.
fn rules(arch: &str, places: &[&str]) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (file, text) in agentkit_profiles::SECCOMP {
        let group_file: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for group in group_file["groups"].as_array().unwrap_or_else(|| panic!("{file} has no groups")) {
            let answer = group["answer"].as_str().unwrap_or_else(|| panic!("{file}: a group has no answer"));
            let rules = group["rules"].as_array().unwrap_or_else(|| panic!("{file}: a group has no rules"));
            let rules = rules.iter().flat_map(|rule| expand(file, rule, arch, places));
            all.extend(rules.map(|rule| (answer.to_owned(), rule)));
        }
    }
    all
}

fn expand(file: &str, rule: &Value, arch: &str, places: &[&str]) -> Vec<Value> {
    assert!(
        rule["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
        "{file}: a rule has no reason: {rule}"
    );
    if rule.get("only").is_some_and(|only| only != arch) {
        return Vec::new();
    }
    let place = rule.get("where").map_or(Some(EVERYWHERE), Value::as_str);
    let is_known = PROGRAMS.iter().any(|(_, known)| known.iter().any(|it| Some(*it) == place));
    assert!(is_known, "{file}: a rule applies nowhere: {place:?}");
    if !places.iter().any(|it| Some(*it) == place) {
        return Vec::new();
    }
    let calls =
        rule["syscalls"].as_array().unwrap_or_else(|| panic!("{file}: a rule names no calls: {rule}"));
    calls
        .iter()
        .map(|call| match rule.get("args") {
            Some(args) => json!({"syscall": call, "args": args}),
            None => json!({"syscall": call}),
        })
        .collect()
}

fn parse(answer: &str, rule: &Value) -> Rule {
    let conditions = rule.get("args").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    Rule { errno: errno(answer), conditions: conditions.iter().map(condition).collect() }
}

fn condition(argument: &Value) -> Condition {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number in {argument}"));
    let word =
        |value: &Value| u32::try_from(number(value)).unwrap_or_else(|_| panic!("too wide: {argument}"));
    let wide = match argument["type"].as_str() {
        Some("dword") => false,
        Some("qword") => true,
        other => panic!("an argument is dword or qword, not {other:?}"),
    };
    let operator = match (&argument["op"], argument["op"]["masked_eq"].as_u64()) {
        (Value::String(op), _) if op == "eq" => Operator::Equal(number(&argument["val"])),
        (Value::String(op), _) if op == "ne" => Operator::NotEqual(number(&argument["val"])),
        (_, Some(mask)) if !wide && mask.is_power_of_two() && mask == number(&argument["val"]) => {
            Operator::AnyBit(word(&argument["val"]))
        }
        (op, Some(_)) if !wide => Operator::Masked(word(&op["masked_eq"]), word(&argument["val"])),
        (op, _) => panic!("this comparison is not compiled yet: {op}"),
    };
    Condition { index: word(&argument["index"]), wide, operator }
}

/// What the architecture calls it: the only number that a program for this call alone compares with.
fn number(call: &Value, arch: &str) -> u32 {
    const JUMP_IF_EQUAL: u16 = 0x15;
    let filter = json!({"mismatch_action": "allow", "match_action": "trap", "filter": [{"syscall": call}]});
    let numbers =
        compile(&filter, arch).into_iter().filter(|i| i.code == JUMP_IF_EQUAL && i.k != audit_arch(arch));
    let numbers: Vec<u32> = numbers.map(|i| i.k).collect();
    assert_eq!(numbers.len(), 1, "{call}");
    numbers[0]
}

fn compile(filter: &Value, arch: &str) -> BpfProgram {
    let target = TargetArch::try_from(arch).unwrap_or_else(|error| panic!("no filter for {arch}: {error}"));
    let filters = json!({"filter": filter}).to_string();
    let programs = seccompiler::compile_from_json(filters.as_bytes(), target)
        .unwrap_or_else(|error| panic!("profiles/seccomp: {error}"));
    programs.into_values().next().expect("one filter went in")
}

fn errno(name: &str) -> u32 {
    // The numbers are the same on every Linux architecture that the jail runs on.
    match name {
        "EPERM" => 1,
        "EINVAL" => 22,
        "ENOSYS" => 38,
        "EPROTONOSUPPORT" => 93,
        "EOPNOTSUPP" => 95,
        "EAFNOSUPPORT" => 97,
        other => panic!("profiles/seccomp: no errno called {other}"),
    }
}

/// `AUDIT_ARCH_*` of linux/audit.h.
fn audit_arch(arch: &str) -> u32 {
    match arch {
        "x86_64" => 0xc000_003e,
        "aarch64" => 0xc000_00b7,
        other => panic!("no filter for {other}: the jail runs on x86_64 and aarch64"),
    }
}

/// A program as Rust source.
fn source(program: &[Instruction]) -> String {
    let each = program.iter().map(|(code, jt, jf, k)| format!("({code}, {jt}, {jf}, {k})"));
    format!("&[{}]", each.collect::<Vec<_>>().join(", "))
}

fn write(file: &str, source: &str) {
    let out = std::env::var("OUT_DIR").expect("cargo sets the output directory");
    std::fs::write(format!("{out}/{file}"), source).expect("cannot write to OUT_DIR");
}
