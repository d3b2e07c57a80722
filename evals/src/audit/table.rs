//! Findings for people.

use super::{Audited, of};
use crate::report::escape::one_line;
use agentkit_attacks::{Attack, BENIGN, Family, Finding, Use, Verdict};
use std::io::{self, Write};

/// Columns of what somebody else said.
const SAID: usize = 70;
/// The same of an error, which somebody has to act on.
const SAID_OF_AN_ERROR: usize = 200;
/// The same in a report, which nobody reads in columns.
const SAID_WITH_ROOM: usize = 1000;

/// The corpus itself.
pub(super) fn list(selected: &[&Attack], out: &mut impl Write) -> io::Result<()> {
    for attack in selected {
        writeln!(out, "{:<12} {:<44} {}", attack.family.to_string(), attack.name, attack.means)?;
    }
    Ok(())
}

/// Family by family: one line an attack, with a column for each launcher.
pub(super) fn print(audited: &[Audited], out: &mut impl Write) -> io::Result<()> {
    for (at, one) in audited.iter().enumerate() {
        writeln!(out, "{}: {}", at + 1, one_line(&one.launcher, 200))?;
    }
    for family in Family::ALL {
        let mut columns: Vec<_> = audited.iter().map(|one| of(one, family)).collect();
        let rows = std::iter::from_fn(|| columns.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>());
        for (at, row) in rows.enumerate() {
            if at == 0 {
                writeln!(out, "\n{family}")?;
            }
            print_row(&row, out)?;
        }
    }
    writeln!(out)?;
    audited
        .iter()
        .enumerate()
        .try_for_each(|(at, one)| writeln!(out, "{}: {}", at + 1, summary(&one.findings)))
}

fn print_row(row: &[&Finding], out: &mut impl Write) -> io::Result<()> {
    let Some(first) = row.first() else { return Ok(()) };
    let words: Vec<_> = row.iter().map(|finding| format!("{:<12}", word(&finding.verdict))).collect();
    let detail = row.iter().map(|finding| detail(&finding.verdict)).collect::<Vec<_>>().join(" | ");
    writeln!(out, "  {} {:<44} {}", words.join(" "), first.attack.name, detail)?;
    if row.iter().any(|finding| matches!(finding.verdict, Verdict::Escaped(_))) {
        writeln!(out, "  {:>width$} it means: {}", "", first.attack.means, width = 13 * row.len() + 43)?;
    }
    Ok(())
}

/// What became of an attack, in a word or two.
pub(super) fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Contained(_) => "contained",
        Verdict::Escaped(_) => "ESCAPED",
        Verdict::CannotBite(_) => "cannot bite",
        Verdict::Error(_) => "error",
    }
}

/// What was seen or said, fit for a terminal.
pub(super) fn detail(verdict: &Verdict) -> String {
    let columns = if matches!(verdict, Verdict::Error(_)) { SAID_OF_AN_ERROR } else { SAID };
    one_line(said(verdict), columns)
}

/// The same where there is room.
pub(super) fn whole(verdict: &Verdict) -> String {
    one_line(said(verdict), SAID_WITH_ROOM)
}

fn said(verdict: &Verdict) -> &str {
    let (Verdict::Contained(text)
    | Verdict::Escaped(text)
    | Verdict::CannotBite(text)
    | Verdict::Error(text)) = verdict;
    text
}

/// What ordinary code needs, with a column for each launcher.
pub(super) fn print_benign(tried: &[(&str, Vec<Use>)], out: &mut impl Write) -> io::Result<()> {
    for (at, (launcher, _)) in tried.iter().enumerate() {
        writeln!(out, "{}: {}", at + 1, one_line(launcher, 200))?;
    }
    for (at, task) in BENIGN.iter().enumerate() {
        let row: Vec<_> = tried.iter().filter_map(|(_, uses)| uses.get(at)).map(describe).collect();
        let words: Vec<_> = row.iter().map(|(word, _)| format!("{word:<12}")).collect();
        let said: Vec<_> = row.iter().map(|(_, said)| said.as_str()).collect();
        writeln!(
            out,
            "{}",
            format!("  {} {:<30} {}", words.join(" "), task.name, said.join(" | ")).trim_end()
        )?;
    }
    Ok(())
}

fn describe(tried: &Use) -> (&'static str, String) {
    match tried {
        Use::Works => ("works", String::new()),
        Use::Broken(said) => ("BROKEN", one_line(said, SAID)),
        Use::CannotTell(said) => ("cannot tell", one_line(said, SAID)),
    }
}

fn summary(findings: &[Finding]) -> String {
    let count = |wanted: &str| findings.iter().filter(|finding| word(&finding.verdict) == wanted).count();
    format!(
        "{} attacks: {} contained, {} ESCAPED, {} cannot bite, {} errors",
        findings.len(),
        count("contained"),
        count("ESCAPED"),
        count("cannot bite"),
        count("error")
    )
}
