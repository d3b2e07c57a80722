//! `docs/policy.md` and `docs/report.md` say what the code says: their fields are those of the protocol, with their
//! comments, and the examples of the report are what comes out of the jail. The frame in the helper's README is one. The tests that `docs/cases.md` and `docs/holes.md`
//! name exist. The manual page has the flags of `--help`.
//!
//! `AGENTKIT_DOCS=write` writes anew what is made from the code: these two, the manual and the completions.

#[path = "../jail/mod.rs"]
mod jail;
#[path = "../support/mod.rs"]
mod support;

mod cases;
mod examples;
mod flags;
mod source;
mod wire;

use agentkit_protocol::{Policy, WorkDir};
use jail::desk::Desk;
use jail::stage::Stage;
use std::fs;
use std::process::ExitCode;
use support::{Stop, need::need, trial};

const REPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/report.md");
const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/policy.md");
const FIELDS: &str = "## Every field\n\n";
/// A page, and the sources that its fields are of.
const PAGES: [(&str, &[&str]); 2] = [
    (POLICY, &[include_str!("../../helper/protocol/src/policy.rs")]),
    (
        REPORT,
        &[
            include_str!("../../helper/protocol/src/report.rs"),
            include_str!("../../helper/protocol/src/capability.rs"),
        ],
    ),
];

fn main() -> ExitCode {
    Stage::run(|| match std::env::var("AGENTKIT_DOCS").as_deref() {
        Ok("write") => write(),
        _ => support::run(vec![
            trial("the_fields_of_policy_and_report", the_fields_of_policy_and_report),
            trial("the_example_of_the_policy", the_example_of_the_policy),
            trial("the_examples_of_the_report", the_examples_of_the_report),
            trial("manual_and_completions_have_the_flags", flags::manual_and_completions_have_the_flags),
            trial("bash_completes_what_fits", flags::bash_completes_what_fits),
            trial("the_tests_of_the_cases_exist", cases::the_tests_of_the_cases_exist),
            trial("the_tests_of_the_holes_exist", cases::the_tests_of_the_holes_exist),
            trial("the_frame_of_the_readme", wire::the_frame_of_the_readme),
        ]),
    })
}

fn fields(sources: &[&str]) -> String {
    let types = sources.iter().copied().flat_map(source::types);
    let text = types.map(|it| it.markdown()).collect::<Vec<_>>().join("\n");
    let lower = text.to_lowercase();
    let mut pieces = text.split("](#");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        let link = piece.split_once(')').map_or(piece, |(link, _)| link);
        // What a policy has in common with the report is explained there.
        let page = if lower.contains(&format!("### {link}\n")) { "" } else { "report.md" };
        format!("{text}]({page}#{piece}")
    })
}

fn the_fields_of_policy_and_report() -> Result<(), Stop> {
    for (page, sources) in PAGES {
        let text = fs::read_to_string(page)?;
        let (_, written) = text.split_once(FIELDS).unwrap_or_default();
        assert_eq!(written, fields(sources), "AGENTKIT_DOCS=write makes {page} anew");
    }
    Ok(())
}

/// It runs, and so do the forms of work dirs in the sentence below it: with the paths of a place that is there.
fn the_example_of_the_policy() -> Result<(), Stop> {
    need("python")?;
    let text = fs::read_to_string(POLICY)?;
    let (_, example) = text.split_once("```json\n").unwrap_or_default();
    let (example, below) = example.split_once("```").unwrap_or_default();
    let desk = Desk::new()?;
    for directory in ["project", "data/private", "out"] {
        fs::create_dir_all(desk.path(directory))?;
    }
    fs::write(desk.path("data/file"), "content\n")?;
    fs::write(desk.path("data/private/key"), "secret\n")?;
    fs::write(desk.path("project/make_report.py"), MAKE_REPORT)?;
    let here = |text: &str| text.replace("/srv", &desk.path("").display().to_string());
    let policy: Policy = serde_json::from_str(&here(example))?;
    let run = desk.launch(&policy)?;
    assert!(run.status.success(), "{run:?}");
    assert_eq!(fs::read_to_string(desk.path("out/seen"))?, "UTC True False", "{run:?}");
    assert!(desk.path("project/report").exists(), "{run:?}");

    let (_, forms) = below.split_once("The other work dirs are ").unwrap_or_default();
    let (forms, _) = forms.split_once("`. ").unwrap_or_default();
    let forms: Vec<WorkDir> = forms
        .split('`')
        .filter(|it| it.contains('"'))
        .map(|form| serde_json::from_str(&here(form)))
        .collect::<Result<_, _>>()?;
    assert!(matches!(forms[..], [WorkDir::Scratch, WorkDir::Bind(_), WorkDir::ScratchAt(_)]), "{forms:?}");
    for (workdir, listed) in forms.into_iter().zip(["", "make_report.py\nreport\n", ""]) {
        let run = desk.launch(&Policy { workdir, ..Policy::new(["ls"]) })?;
        assert_eq!(String::from_utf8_lossy(&run.stdout), listed, "{run:?}");
    }
    Ok(())
}

const MAKE_REPORT: &str = "\
import os
def opens(path):
    try:
        return bool(open(path))
    except OSError:
        return False
seen = os.environ['TZ'], opens('../data/file'), opens('../data/private/key')
open('report', 'w').close()
open('../out/seen', 'w').write('%s %s %s' % seen)
";

fn the_examples_of_the_report() -> Result<(), Stop> {
    let text = fs::read_to_string(REPORT)?;
    for example in examples::EXAMPLES {
        let written = example.find(&text)?;
        let found = example.make()?;
        if !examples::alike(&written, &found) {
            return Err(Stop::Fail(format!(
                "{}: {REPORT} says {written:#} but it is {found:#}",
                example.name
            )));
        }
    }
    Ok(())
}

fn write() -> ExitCode {
    let written = write_examples()
        .and_then(|()| PAGES.into_iter().try_for_each(write_fields))
        .and_then(|()| flags::write());
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            eprintln!("{stop:?}");
            ExitCode::FAILURE
        }
    }
}

fn write_examples() -> Result<(), Stop> {
    let mut text = fs::read_to_string(REPORT)?;
    for example in examples::EXAMPLES {
        text = example.replace(&text)?;
    }
    Ok(fs::write(REPORT, text)?)
}

fn write_fields((page, sources): (&str, &[&str])) -> Result<(), Stop> {
    let text = fs::read_to_string(page)?;
    let before = text.split_once(FIELDS).map_or(&text[..], |(before, _)| before);
    Ok(fs::write(page, format!("{before}{FIELDS}{}", fields(sources)))?)
}
