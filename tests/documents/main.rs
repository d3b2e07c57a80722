//! `docs/report.md` says what the code says: its fields are those of the protocol, with their comments, and its examples
//! are what comes out of the jail. The frame in the helper's README is one. The tests that `docs/cases.md` and `docs/holes.md`
//! name exist. The manual page has the flags of `--help`.
//!
//! `AGENTKIT_DOCS=write` writes anew what is made from the code: the report and the manual.

#[path = "../jail/mod.rs"]
mod jail;
#[path = "../support/mod.rs"]
mod support;

mod cases;
mod examples;
mod flags;
mod source;
mod wire;

use jail::stage::Stage;
use std::fs;
use std::process::ExitCode;
use support::{Stop, trial};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/report.md");
const FIELDS: &str = "## Every field\n\n";
const PROTOCOL: [&str; 2] = [
    include_str!("../../helper/protocol/src/report.rs"),
    include_str!("../../helper/protocol/src/capability.rs"),
];

fn main() -> ExitCode {
    Stage::run(|| match std::env::var("AGENTKIT_DOCS").as_deref() {
        Ok("write") => write(),
        _ => support::run(vec![
            trial("the_fields_of_the_report", the_fields_of_the_report),
            trial("the_examples_of_the_report", the_examples_of_the_report),
            trial("manual_and_completions_have_the_flags", flags::manual_and_completions_have_the_flags),
            trial("the_tests_of_the_cases_exist", cases::the_tests_of_the_cases_exist),
            trial("the_tests_of_the_holes_exist", cases::the_tests_of_the_holes_exist),
            trial("the_frame_of_the_readme", wire::the_frame_of_the_readme),
        ]),
    })
}

fn fields() -> String {
    PROTOCOL.into_iter().flat_map(source::types).map(|it| it.markdown()).collect::<Vec<_>>().join("\n")
}

fn the_fields_of_the_report() -> Result<(), Stop> {
    let text = fs::read_to_string(FILE)?;
    let (_, written) = text.split_once(FIELDS).unwrap_or_default();
    assert_eq!(written, fields(), "AGENTKIT_DOCS=write makes {FILE} anew");
    Ok(())
}

fn the_examples_of_the_report() -> Result<(), Stop> {
    let text = fs::read_to_string(FILE)?;
    for example in examples::EXAMPLES {
        let written = example.find(&text)?;
        let found = example.make()?;
        if !examples::alike(&written, &found) {
            return Err(Stop::Fail(format!("{}: {FILE} says {written:#} but it is {found:#}", example.name)));
        }
    }
    Ok(())
}

fn write() -> ExitCode {
    let written = fs::read_to_string(FILE).map_err(Stop::from).and_then(|mut text| {
        for example in examples::EXAMPLES {
            text = example.replace(&text)?;
        }
        let before = text.split_once(FIELDS).map_or(&text[..], |(before, _)| before);
        fs::write(FILE, format!("{before}{FIELDS}{}", fields()))?;
        flags::write()
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            eprintln!("{stop:?}");
            ExitCode::FAILURE
        }
    }
}
