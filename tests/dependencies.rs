//! Everything that is compiled into the jail's executable is on a reviewed list, with what it saves us. Who can change
//! one of these packages can change the jail, so a new one is a decision and a line here. So is a file with `unsafe` code.

#[path = "support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
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

/// The files with code that the compiler cannot vouch for.
const UNSAFE: [(&str, &str); 4] = [
    (
        "evals/attacks/payload/sys.rs",
        "the attacker's system calls: a program of its own, which no other links",
    ),
    ("helper/src/linux/sys.rs", "the jail's system calls, as far as neither std, nix nor caps wraps them"),
    ("helper/src/macos/sys.rs", "the same for macOS"),
    (
        "helper/src/main.rs",
        "the name of the function that the C library calls; the system's allocator, ending the process for null",
    ),
];
const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Where code is.
const CODE: [&str; 6] = ["agent", "client", "evals", "helper", "profiles", "tests"];

fn main() -> ExitCode {
    support::run(vec![
        trial("unsafe_code_is_where_it_was_reviewed", unsafe_code_is_where_it_was_reviewed),
        trial("every_package_is_reviewed", every_package_is_reviewed),
        trial("the_list_is_short", the_list_is_short),
    ])
}

/// The compiler refuses it in every package that takes the workspace's lints, unless a file lifts that. What no such
/// package compiles is read.
fn unsafe_code_is_where_it_was_reviewed() -> Result<(), Stop> {
    let mut files = BTreeMap::new();
    CODE.iter().try_for_each(|directory| read(Path::new(directory), &mut files))?;
    assert!(fs::read_to_string(Path::new(TOP).join("Cargo.toml"))?.contains("\nunsafe_code = \"deny\"\n"));
    let manifests = files.iter().filter(|(path, _)| path.ends_with("Cargo.toml"));
    let without = manifests.filter(|(_, text)| !text.contains("\n[lints]\nworkspace = true\n"));
    let without: Vec<_> = without.map(|(path, _)| path.trim_end_matches("Cargo.toml")).collect();
    let lifts = ["allow(", "expect(", "warn("].map(|lift| format!("{lift}unsafe{}", "_code"));
    let found = files.iter().filter(|(path, text)| {
        let unlinted =
            path.starts_with("evals/attacks/payload") || without.iter().any(|it| path.starts_with(it));
        path.ends_with(".rs")
            && (lifts.iter().any(|lift| text.contains(lift)) || unlinted && text.lines().any(is_unsafe))
    });
    let found: BTreeSet<_> = found.map(|(path, _)| path.as_str()).collect();
    let reviewed = UNSAFE.iter().map(|(path, _)| *path).collect();
    assert_eq!(found, reviewed, "a file with unsafe code is a line in this test, with its reason");
    Ok(())
}

/// The word, outside of comments.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|word| word == "unsafe")
}

/// Code and manifests, by their paths from the top.
fn read(directory: &Path, files: &mut BTreeMap<String, String>) -> Result<(), Stop> {
    for entry in fs::read_dir(Path::new(TOP).join(directory))? {
        let path = directory.join(entry?.file_name());
        let place = Path::new(TOP).join(&path);
        let name = path.to_string_lossy().into_owned();
        if place.is_dir() && !name.ends_with("/target") {
            read(&path, files)?;
        } else if name.ends_with(".rs") || name.ends_with("/Cargo.toml") {
            files.insert(name, fs::read_to_string(place)?);
        }
    }
    Ok(())
}

fn every_package_is_reviewed() -> Result<(), Stop> {
    let found: BTreeSet<String> = packages()?.into_iter().map(|(name, _)| name).collect();
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

/// Names and versions in `cargo tree`, as resolved for Linux and for the helper alone, with everything switched on.
fn packages() -> Result<BTreeSet<(String, String)>, Stop> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(cargo()?)
        .args(["tree", "--package", "agentkit-jail", "--edges", "normal", "--all-features"])
        .args(["--target", "x86_64-unknown-linux-gnu", "--target", "aarch64-unknown-linux-gnu"])
        .args(["--prefix", "none", "--format", "{p}", "--locked", "--offline", "--manifest-path", manifest])
        .output()?;
    if !output.status.success() {
        return Err(Stop::Fail(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr))));
    }
    let text = String::from_utf8(output.stdout)?;
    let package = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    Ok(text.lines().filter_map(package).collect())
}

/// The cargo that started this test and has fetched the packages of its own system.
fn cargo() -> Result<OsString, Stop> {
    if !cfg!(target_os = "linux") {
        return Err(Stop::Skip("needs the packages of the Linux helper, which are not fetched here".into()));
    }
    std::env::var_os("CARGO").ok_or_else(|| Stop::Skip("needs to be started by cargo".into()))
}
