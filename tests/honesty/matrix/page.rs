//! The tables in `docs/honesty.md`: what was measured, on what kernel, as whom.

use super::attacks::Outcome;
use super::compare::{is_short, tried};
use super::hosts::{HOSTS, PLAIN};
use super::judge::{Attacked, Measured};
use crate::jail::who::Who;
use crate::support::Stop;
use agentkit_protocol::{Capabilities, Control, Failure, Level, Mechanism, Probe};
use nix::errno::Errno;
use std::fmt::Write;
use std::fs;

pub(crate) const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/honesty.md");
const MEASURED_ON: &str = "Measured on Linux ";
const HOSTS_HEAD: &str = "\n## Hosts\n\n| host | what is imitated |\n|---|---|\n";
const CONFINED: &str = "| host | mechanism | network | files | processes | their number | memory | disk | processor | calls | privileges | environment | end |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
const REFUSED: &str = "| host | mechanism | step | errno | what to do |\n|---|---|---|---|---|\n";
/// Of a level that no attack could try.
const UNTRIED: &str = " –";

/// A line of a table: the host, the mechanism, and what is said of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row(Vec<String>);

/// The document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// In front of what is generated.
    text: String,
    kernel: String,
    hosts: Vec<Row>,
    /// As root, and as an ordinary user.
    rows: [Vec<Row>; 2],
}

impl Row {
    fn of(cells: impl IntoIterator<Item = impl Into<String>>) -> Row {
        Row(cells.into_iter().map(|cell| cell.into().replace('|', "/")).collect())
    }

    fn parse(line: &str) -> Option<Row> {
        let cells = line.strip_prefix("| `")?.strip_suffix(" |")?.replacen('`', "", 1);
        Some(Row::of(cells.split(" | ")))
    }

    fn host(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    fn is_refusal(&self) -> bool {
        self.0.len() == 5
    }

    /// Without what attacks add.
    fn claims(&self) -> Row {
        Row::of(self.0.iter().map(|cell| cell.trim_end_matches(UNTRIED)))
    }

    fn line(&self) -> String {
        let (host, rest) = self.0.split_at(1);
        format!("| `{}` | {} |\n", host.concat(), rest.join(" | "))
    }
}

/// What was found on a host. The mechanism that a run gets which leaves the choice is in bold type.
pub(crate) fn rows(host: &str, measured: &Measured) -> Vec<Row> {
    let best = measured.probe.best.mechanism;
    let row = |(mechanism, claims): (&Mechanism, &Capabilities)| {
        let attacked = measured.each.get(mechanism).and_then(|cell| cell.attacked.as_ref());
        let is_tried = |control| attacked.is_none_or(|jail: &Attacked| tells(control, jail, measured));
        row(host, *mechanism, best, claims, is_tried)
    };
    in_order(measured.probe.each.iter().map(row))
}

/// What is confined comes before what is refused, as in the document.
fn in_order(rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let (refused, confined): (Vec<_>, Vec<_>) = rows.partition(Row::is_refusal);
    [confined, refused].concat()
}

fn tells(control: Control, attacked: &Attacked, measured: &Measured) -> bool {
    tried(control, attacked, &measured.bare).iter().any(|found| found.verdict != Outcome::Error)
}

fn row(
    host: &str,
    mechanism: Mechanism,
    best: Option<Mechanism>,
    claims: &Capabilities,
    is_tried: impl Fn(Control) -> bool,
) -> Row {
    let name = if best == Some(mechanism) { format!("**{mechanism}**") } else { mechanism.to_string() };
    let start = [host.to_owned(), name];
    if let (None, Some(Failure { step, errno, hint, .. })) = (claims.mechanism, &claims.failure) {
        let step = if is_short(*errno) { "any" } else { step };
        let errno = errno.map_or_else(|| "–".to_owned(), |errno| format!("{:?}", Errno::from_raw(errno)));
        return Row::of(start.into_iter().chain([step.to_owned(), errno, hint.clone().unwrap_or_default()]));
    }
    let level = |control: &Control| {
        let (word, needs_an_attack) = match claims.level(*control) {
            Level::Full => ("full", true),
            Level::Polled(_) => ("polled", false),
            Level::Partial(_) => ("part", false),
            Level::None(_) => ("none", true),
        };
        format!("{word}{}", if needs_an_attack && !is_tried(*control) { UNTRIED } else { "" })
    };
    Row::of(start.into_iter().chain(Control::ALL.iter().map(level)))
}

impl Page {
    pub(crate) fn read() -> Result<Page, Stop> {
        Page::parse(&fs::read_to_string(FILE)?)
            .ok_or_else(|| Stop::Fail(format!("{FILE} has not the tables")))
    }

    fn parse(page: &str) -> Option<Page> {
        let (text, rest) = page.split_once(MEASURED_ON)?;
        let (kernel, rest) = rest.split_once(".\n")?;
        let (_, rest) = rest.split_once(HOSTS_HEAD)?;
        let (hosts, rest) = rest.split_once(&heading(Who::Root))?;
        let (root, user) = rest.split_once(&heading(Who::User))?;
        let rows = |text: &str| text.lines().filter_map(Row::parse).collect();
        Some(Page {
            text: text.into(),
            kernel: kernel.into(),
            hosts: rows(hosts),
            rows: [rows(root), rows(user)],
        })
    }

    fn rows(&self, who: Who, host: &str) -> impl Iterator<Item = &Row> {
        self.rows[who as usize].iter().filter(move |row| row.host() == host)
    }

    /// Whether it tells of a host such as this one: of such a kernel, and with these mechanisms when nothing is taken away.
    fn is_of(&self, who: Who, kernel: &str, plain: &Probe) -> bool {
        let row = |(mechanism, claims): (&Mechanism, _)| {
            row(PLAIN, *mechanism, plain.best.mechanism, claims, |_| true)
        };
        let said: Vec<Row> = self.rows(who, PLAIN).map(Row::claims).collect();
        self.kernel == series(kernel) && said == in_order(plain.each.iter().map(row))
    }

    /// Where the document says something else of a host, if it tells of such a one at all.
    pub(crate) fn differs(&self, who: Who, host: &str, measured: &Measured, plain: &Probe) -> Option<String> {
        let found = rows(host, measured);
        let is_same = !self.is_of(who, &measured.kernel, plain) || self.rows(who, host).eq(found.iter());
        (!is_same).then(|| {
            let said: String = self.rows(who, host).map(Row::line).collect();
            let found: String = found.iter().map(Row::line).collect();
            format!("{FILE} says\n{said}and this was measured:\n{found}AGENTKIT_DOCS=write writes it anew")
        })
    }

    pub(crate) fn replace(&mut self, who: Who, host: &str, measured: &Measured) {
        self.kernel = series(&measured.kernel).to_owned();
        let mut all = std::mem::take(&mut self.rows[who as usize]);
        all.retain(|row| row.host() != host && HOSTS.iter().any(|known| known.name == row.host()));
        all.extend(rows(host, measured));
        all.sort_by_key(|row| HOSTS.iter().position(|host| host.name == row.host()));
        self.rows[who as usize] = all;
        self.hosts = known();
    }

    /// Whether it has the hosts of these tests.
    pub(crate) fn is_whole(&self) -> bool {
        let is_known = |row: &Row| HOSTS.iter().any(|host| host.name == row.host());
        let has_root = |host: &super::hosts::Host| self.rows(Who::Root, host.name).next().is_some();
        self.hosts == known() && self.rows.iter().flatten().all(is_known) && HOSTS.iter().all(has_root)
    }

    pub(crate) fn write(&self) -> Result<(), Stop> {
        Ok(fs::write(FILE, self.to_text()?)?)
    }

    fn to_text(&self) -> Result<String, Stop> {
        let lines = |rows: &mut dyn Iterator<Item = &Row>| rows.map(Row::line).collect::<String>();
        let mut text = format!("{}{MEASURED_ON}{}.\n{HOSTS_HEAD}", self.text, self.kernel);
        text += &lines(&mut self.hosts.iter());
        for who in [Who::Root, Who::User] {
            let rows = || self.rows[who as usize].iter();
            write!(text, "{}{CONFINED}{}", heading(who), lines(&mut rows().filter(|row| !row.is_refusal())))?;
            write!(text, "\nRefused:\n\n{REFUSED}{}", lines(&mut rows().filter(|row| row.is_refusal())))?;
        }
        Ok(text)
    }
}

fn known() -> Vec<Row> {
    HOSTS.iter().map(|host| Row::of([host.name, host.is])).collect()
}

fn heading(who: Who) -> String {
    let launcher = match who {
        Who::Root => "root",
        Who::User => "an ordinary user",
    };
    format!("\n## Launched by {launcher}\n\n")
}

/// `6.18` of `6.18.44-generic`.
fn series(release: &str) -> &str {
    let end = release.match_indices('.').nth(1).map_or(release.len(), |(at, _)| at);
    &release[..end]
}

/// What is read is what was written.
pub(crate) fn a_page_is_read_as_it_was_written() -> Result<(), Stop> {
    let claims = |mechanism| Capabilities {
        mechanism,
        controls: [(Control::NetworkBlocked, Level::Full)].into(),
        failure: None,
    };
    let works = row(
        PLAIN,
        Mechanism::Landlock,
        Some(Mechanism::Landlock),
        &claims(Some(Mechanism::Landlock)),
        |_| false,
    );
    let failure = Failure {
        kind: agentkit_protocol::FailureKind::Host,
        step: "step".into(),
        message: "no".into(),
        errno: Some(1),
        hint: Some("this | or that".into()),
    };
    let refused = Capabilities { failure: Some(failure), ..claims(None) };
    let refused = row(PLAIN, Mechanism::Namespaces, None, &refused, |_| true);
    assert!(works.line().starts_with("| `plain` | **landlock** | full – | none – | "), "{works:?}");
    assert_eq!(refused.line(), "| `plain` | namespaces | step | EPERM | this / or that |\n");
    let page = Page {
        text: "text\n".into(),
        kernel: "6.18".into(),
        hosts: known(),
        rows: [vec![works], vec![refused]],
    };
    assert_eq!(Page::parse(&page.to_text()?), Some(page));
    assert_eq!([series("6.18.44-generic"), series("7.0"), series("")], ["6.18", "7.0", ""]);
    Ok(())
}
