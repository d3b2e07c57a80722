//! Compiles the groups of `profiles/seccomp` into BPF programs, so that the jail carries neither parser nor compiler.
//!
//! seccompiler knows one action a program, hence one program for each errno; the kernel runs all of them and takes
//! the strictest answer.

use seccompiler::{BpfProgram, TargetArch};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The newest call that the rules were written for (`mseal`, Linux 6.10; the same number on both architectures).
/// Newer ones are answered as on an older kernel, and so is every x32 number: they start at 0x40000000.
const LAST_KNOWN_CALL: u32 = 462;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target architecture");
    let os = std::env::var("CARGO_CFG_TARGET_OS").expect("cargo sets the target system");
    let out = std::env::var("OUT_DIR").expect("cargo sets the output directory");
    let mut source = String::from("&[\n");
    if os == "linux" {
        write_program(&mut source, &prelude(&arch));
        for filter in filters(&arch) {
            let program = compile(&filter, &arch);
            write_program(
                &mut source,
                &program.iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect::<Vec<_>>(),
            );
        }
    }
    source.push(']');
    std::fs::write(format!("{out}/seccomp_filters.rs"), source).expect("cannot write to OUT_DIR");
}

/// One filter for each errno, in seccompiler's own JSON form.
fn filters(arch: &str) -> Vec<Value> {
    let mut by_answer: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (file, text) in agentkit_profiles::SECCOMP {
        let group_file: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for group in group_file["groups"].as_array().unwrap_or_else(|| panic!("{file} has no groups")) {
            let answer = group["answer"].as_str().unwrap_or_else(|| panic!("{file}: a group has no answer"));
            let rules = group["rules"].as_array().unwrap_or_else(|| panic!("{file}: a group has no rules"));
            by_answer
                .entry(answer.to_owned())
                .or_default()
                .extend(rules.iter().flat_map(|rule| expand(file, rule, arch)));
        }
    }
    by_answer
        .into_iter()
        .map(|(answer, rules)| {
            json!({"filter": {"mismatch_action": "allow", "match_action": {"errno": errno(&answer)}, "filter": rules}})
        })
        .collect()
}

/// One rule for each call that the architecture has.
fn expand(file: &str, rule: &Value, arch: &str) -> Vec<Value> {
    assert!(
        rule["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
        "{file}: a rule has no reason: {rule}"
    );
    if rule.get("only").is_some_and(|only| only != arch) {
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

fn compile(filter: &Value, arch: &str) -> BpfProgram {
    let target = TargetArch::try_from(arch).unwrap_or_else(|error| panic!("no filter for {arch}: {error}"));
    let programs = seccompiler::compile_from_json(filter.to_string().as_bytes(), target)
        .unwrap_or_else(|error| panic!("profiles/seccomp: {error}"));
    programs.into_values().next().expect("one filter went in")
}

fn errno(name: &str) -> u32 {
    // The numbers are the same on every Linux architecture that the jail runs on.
    match name {
        "EPERM" => 1,
        "ENOSYS" => 38,
        "EOPNOTSUPP" => 95,
        "EAFNOSUPPORT" => 97,
        other => panic!("profiles/seccomp: no errno called {other}"),
    }
}

/// Refuses foreign architectures and unknown numbers, which seccompiler cannot express as a range.
fn prelude(arch: &str) -> Vec<(u16, u8, u8, u32)> {
    // Offsets in struct seccomp_data, codes of linux/bpf_common.h, actions of linux/seccomp.h, AUDIT_ARCH_* of linux/audit.h.
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const ERRNO_ENOSYS: u32 = 0x0005_0000 | 38;
    const ALLOW: u32 = 0x7fff_0000;
    let audit_arch = match arch {
        "x86_64" => 0xc000_003e,
        "aarch64" => 0xc000_00b7,
        other => panic!("no filter for {other}: the jail runs on x86_64 and aarch64"),
    };
    vec![
        (LOAD_WORD, 0, 0, 4),
        (JUMP_IF_EQUAL, 1, 0, audit_arch),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD_WORD, 0, 0, 0),
        (JUMP_IF_GREATER, 0, 1, LAST_KNOWN_CALL),
        (RETURN, 0, 0, ERRNO_ENOSYS),
        (RETURN, 0, 0, ALLOW),
    ]
}

fn write_program(source: &mut String, program: &[(u16, u8, u8, u32)]) {
    source.push_str("    &[");
    for (code, jt, jf, k) in program {
        write!(source, "({code}, {jt}, {jf}, {k}), ").expect("writing to a string");
    }
    source.push_str("],\n");
}
