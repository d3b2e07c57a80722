//! Everything that is compiled into the jail's executable is on a reviewed list, with what it saves us. Who can change
//! one of these packages can change the jail, so a new one is a decision and a line here.

#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::{Command, ExitCode};
use support::{Stop, trial};

/// The bound for what one person can still review.
const MOST: usize = 25;

/// Run-time packages, their build-time halves included, and the reason for each.
const REVIEWED: [(&str, &str); 23] = [
    ("agentkit-jail", "ours"),
    ("agentkit-protocol", "ours: the types and frames shared with callers"),
    ("bincode", "the binary encoding of policies and reports: no hand-written parser for hostile bytes"),
    ("bitflags", "by nix: typed sets of mount and open flags"),
    ("caps", "capability sets by name instead of raw capset structures"),
    ("cfg-if", "by nix: one definition per system"),
    ("itoa", "by serde_json: integers to text"),
    ("libc", "the kernel's numbers and structures"),
    ("memchr", "by serde_json: finds the ends of strings"),
    ("memoffset", "by nix: layout of socket addresses"),
    ("nix", "safe mount, fork, signal, rlimit and descriptor passing instead of unsafe blocks of our own"),
    ("proc-macro2", "by the derive macros, at build time"),
    ("quote", "by the derive macros, at build time"),
    ("serde", "one description of a policy for both of its encodings"),
    ("serde_core", "by serde: its traits"),
    ("serde_derive", "by serde, at build time"),
    ("serde_json", "policies and reports for shell scripts and other languages"),
    ("syn", "by the derive macros, at build time"),
    ("thiserror", "error messages next to their variants"),
    ("thiserror-impl", "by thiserror, at build time"),
    ("unicode-ident", "by proc-macro2, at build time"),
    ("unty", "by bincode: compares types"),
    ("zmij", "by serde_json: floating-point numbers to text"),
];

fn main() -> ExitCode {
    support::run(vec![
        trial("every_package_is_reviewed", every_package_is_reviewed),
        trial("the_list_is_short", the_list_is_short),
    ])
}

fn every_package_is_reviewed() -> Result<(), Stop> {
    let found = packages()?;
    let reviewed: BTreeSet<String> = REVIEWED.iter().map(|(name, _)| (*name).to_owned()).collect();
    let new: Vec<_> = found.difference(&reviewed).collect();
    let gone: Vec<_> = reviewed.difference(&found).collect();
    assert!(new.is_empty(), "not reviewed, add a line with its reason: {new:?}");
    assert!(gone.is_empty(), "no longer used, remove the line: {gone:?}");
    Ok(())
}

fn the_list_is_short() -> Result<(), Stop> {
    let found = packages()?;
    assert!(found.len() <= MOST, "{} packages, at most {MOST}: {found:?}", found.len());
    Ok(())
}

/// The names in `cargo tree`, as resolved for Linux and for the helper alone.
fn packages() -> Result<BTreeSet<String>, Stop> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(cargo()?)
        .args([
            "tree",
            "--package",
            "agentkit-jail",
            "--edges",
            "normal",
            "--target",
            "x86_64-unknown-linux-gnu",
        ])
        .args(["--prefix", "none", "--format", "{p}", "--locked", "--offline", "--manifest-path", manifest])
        .output()?;
    if !output.status.success() {
        return Err(Stop::Fail(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr))));
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

/// The cargo that started this test and has fetched the packages of its own system.
fn cargo() -> Result<OsString, Stop> {
    if !cfg!(target_os = "linux") {
        return Err(Stop::Skip("needs the packages of the Linux helper, which are not fetched here".into()));
    }
    std::env::var_os("CARGO").ok_or_else(|| Stop::Skip("needs to be started by cargo".into()))
}
