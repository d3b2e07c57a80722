//! The tests that `docs/cases.md` and `docs/holes.md` name.

use crate::support::Stop;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Where tests are.
const PLACES: [&str; 5] = ["tests", "agent/src", "client", "helper/src", "helper/protocol"];
/// How the last cell begins where no test can show it.
const NOT_HERE: &str = "does not apply";

pub(crate) fn the_tests_of_the_cases_exist() -> Result<(), Stop> {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/cases.md"))?;
    let named: Vec<_> = rows(&text).flat_map(|(_, cell)| tests(cell)).collect();
    assert!(named.len() > 60, "the table is not read: {named:?}");
    all_exist(&named)
}

/// And every hole has one, or says why not; and is told once.
pub(crate) fn the_tests_of_the_holes_exist() -> Result<(), Stop> {
    if !cfg!(target_os = "linux") {
        return Err(Stop::Skip("the corpus of attacks, which some are in, is there on Linux".into()));
    }
    let text = fs::read_to_string(Path::new(ROOT).join("docs/holes.md"))?;
    let holes: Vec<_> = rows(&text).filter(|(row, _)| !row.starts_with("| hole |")).collect();
    let without = holes.iter().filter(|(_, cell)| tests(cell).is_empty() && !cell.starts_with(NOT_HERE));
    assert_eq!(without.collect::<Vec<_>>(), [] as [&(&str, &str); 0]);
    let names: Vec<_> = holes.iter().filter_map(|(row, _)| row.split('|').nth(1)).collect();
    let names: Vec<_> = names.iter().flat_map(|names| names.split(',')).map(str::trim).collect();
    let known = |name: &&str| name.starts_with("CVE-20") || name.starts_with("GHSA-") || name.contains('#');
    assert!(holes.len() > 40 && names.iter().all(known), "the table is not read: {names:?}");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "told twice: {names:?}");
    all_exist(&holes.iter().flat_map(|(_, cell)| tests(cell)).collect::<Vec<_>>())
}

/// Each row of the tables, and its last cell.
fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(|row| Some((row, row.strip_suffix(" |")?.rsplit_once("| ")?.1)))
}

/// What is marked as code and looks like the name of a test.
fn tests(cell: &str) -> Vec<&str> {
    let is_test =
        |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    cell.split('`').skip(1).step_by(2).filter(is_test).collect()
}

/// As a function, in a list of one-line attacks, or in the corpus of `audit`.
fn all_exist(names: &[&str]) -> Result<(), Stop> {
    let mut code = String::new();
    for place in PLACES {
        read(&Path::new(ROOT).join(place), &mut code)?;
    }
    let corpus: BTreeSet<_> = corpus().collect();
    let exists = |name: &str| {
        corpus.contains(name)
            || [format!("fn {name}("), format!(" {name}: \"")].iter().any(|mark| code.contains(mark))
    };
    let missing: Vec<_> = names.iter().filter(|name| !exists(name)).collect();
    assert_eq!(missing, [] as [&&str; 0]);
    Ok(())
}

#[cfg(target_os = "linux")]
fn corpus() -> impl Iterator<Item = &'static str> {
    agentkit_attacks::corpus().map(|attack| attack.name)
}

#[cfg(not(target_os = "linux"))]
fn corpus() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

fn read(directory: &Path, code: &mut String) -> Result<(), Stop> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, code)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            code.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
