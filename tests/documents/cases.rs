//! The tests that `docs/cases.md` names.

use crate::support::Stop;
use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Where tests are.
const PLACES: [&str; 4] = ["tests", "client", "helper/src", "helper/protocol"];

pub(crate) fn the_tests_of_the_cases_exist() -> Result<(), Stop> {
    let mut code = String::new();
    for place in PLACES {
        read(&Path::new(ROOT).join(place), &mut code)?;
    }
    // A name of a function, or in a list of one-line attacks.
    let exists =
        |name: &str| [format!("fn {name}("), format!(" {name}: \"")].iter().any(|mark| code.contains(mark));
    let text = fs::read_to_string(Path::new(ROOT).join("docs/cases.md"))?;
    let last_cells =
        text.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit_once("| ")).map(|(_, cell)| cell);
    let names: Vec<&str> = last_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let is_test =
        |name: &&&str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let tests: Vec<&&str> = names.iter().filter(is_test).collect();
    assert!(tests.len() > 60, "the table is not read: {names:?}");
    let missing: Vec<_> = tests.into_iter().filter(|name| !exists(name)).collect();
    assert_eq!(missing, [] as [&&str; 0]);
    Ok(())
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
