//! What a host enforces, as a table for people: a column for each mechanism, and below what is short of full, and why.

use crate::error::without_step;
use agentkit_protocol::{Capabilities, Control, Level, Mechanism, Probe};
use std::fmt::Write;

const FIRST: usize = 22;
const OTHERS: usize = 15;
/// As wide as the columns of four mechanisms.
const WIDTH: usize = FIRST + 4 * OTHERS;

/// The whole table.
pub(crate) fn of(probe: &Probe) -> String {
    let mut text = String::new();
    // Nothing is lost by writing to a string.
    let _ = match (&probe.best.mechanism, probe.each.is_empty(), &probe.best.failure) {
        (Some(mechanism), ..) => writeln!(text, "{:<FIRST$}{mechanism}", "mechanism"),
        (None, true, Some(failure)) => writeln!(text, "{:<FIRST$}none works here: {failure}", "mechanism"),
        (None, ..) => writeln!(text, "{:<FIRST$}none works here", "mechanism"),
    };
    for (mechanism, capabilities) in &probe.each {
        if let Some(failure) = &capabilities.failure {
            let _ =
                writeln!(text, "{mechanism} does not work here: {}", without_step(mechanism.name(), failure));
        }
    }
    let working: Vec<_> = probe.each.iter().filter(|(_, it)| it.mechanism.is_some()).collect();
    if working.is_empty() {
        return text;
    }
    let (rows, notes) = rows(&working);
    text + "\n" + &rows + "\n" + &notes
}

fn rows(working: &[(&Mechanism, &Capabilities)]) -> (String, String) {
    let (mut rows, mut notes) =
        (line("", working.iter().map(|(mechanism, _)| mechanism.to_string())), String::new());
    let mut reasons: Vec<String> = Vec::new();
    for control in Control::ALL {
        let cells = working.iter().map(|(_, capabilities)| {
            let level = capabilities.level(control);
            let word = match &level {
                Level::Full => "full",
                Level::Polled(_) => "polled",
                Level::Partial(_) => "partial",
                Level::None(_) => "none",
            };
            let Some(reason) = level.reason() else { return word.to_owned() };
            // Mechanisms often have the same one.
            let at = reasons.iter().position(|other| other == reason).unwrap_or(reasons.len());
            let number = at.saturating_add(1);
            if at == reasons.len() {
                notes.push_str(&filled(&format!("({number})"), reason));
                reasons.push(reason.to_owned());
            }
            format!("{word} ({number})")
        });
        rows.push_str(&line(control.name(), cells));
    }
    (rows, notes)
}

/// Words in lines of at most [`WIDTH`], all but the first indented.
fn filled(first: &str, words: &str) -> String {
    let mut text = first.to_owned();
    let mut width = first.len();
    for word in words.split(' ') {
        if width.saturating_add(1).saturating_add(word.len()) > WIDTH {
            text.push_str("\n    ");
            width = 4;
        } else {
            text.push(' ');
            width = width.saturating_add(1);
        }
        text.push_str(word);
        width = width.saturating_add(word.len());
    }
    text + "\n"
}

fn line(first: &str, others: impl Iterator<Item = String>) -> String {
    let cells: String = others.map(|cell| format!("{cell:<OTHERS$}")).collect();
    format!("{first:<FIRST$}{cells}").trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentkit_protocol::{Failure, FailureKind};
    use std::collections::BTreeMap;

    fn failure() -> Failure {
        crate::error::failure(FailureKind::Host, "step", "refused")
    }

    fn working(level: Level) -> Capabilities {
        let mut controls: BTreeMap<_, _> = Control::ALL.into_iter().map(|it| (it, Level::Full)).collect();
        controls.insert(Control::DiskLimited, level);
        Capabilities { mechanism: Some(Mechanism::Landlock), controls, failure: None }
    }

    #[test]
    fn a_column_is_a_mechanism_that_works() {
        let best = working(Level::Polled("now and then".into()));
        let each = [
            (Mechanism::Namespaces, Capabilities::unavailable(failure())),
            (Mechanism::Landlock, best.clone()),
        ];
        let text = of(&Probe { best, each: each.into() });
        assert!(text.starts_with("mechanism             landlock\n"), "{text}");
        assert!(text.contains("namespaces does not work here: step: refused\n"), "{text}");
        assert!(
            text.contains("\ndisk_limited          polled (1)\n") && text.contains("\n(1) now and then\n")
        );
        assert_eq!(text.matches("full\n").count(), Control::ALL.len() - 1, "{text}");
    }

    #[test]
    fn notes_are_filled() {
        let words = "a ".repeat(60) + &"b".repeat(200);
        let text = filled("(1)", &words);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].len() <= WIDTH && lines[0].starts_with("(1) a a"), "{text}");
        assert!(
            lines[1..].iter().all(|line| line.starts_with("    ") && line.as_bytes()[4] != b' '),
            "{text}"
        );
        assert_eq!(text.split_whitespace().skip(1).collect::<Vec<_>>().join(" "), words);
    }

    #[test]
    fn a_host_without_any_has_no_columns() {
        let none = Capabilities::unavailable(failure());
        let each = [(Mechanism::Namespaces, none.clone())].into();
        let text = of(&Probe { best: none, each });
        assert_eq!(
            text,
            "mechanism             none works here\nnamespaces does not work here: step: refused\n"
        );
    }
}
