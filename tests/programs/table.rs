//! The table in `docs/programs.md`.

use crate::list::Program;
use crate::support::Stop;
use std::fs;

pub(crate) const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/programs.md");
const HEAD: &str = "| program | what it does in the jail | root launches | a user launches | measured with |\n|---|---|---|---|---|\n";

/// The rows, and the text in front of them.
pub(crate) struct Table {
    text: String,
    pub(crate) rows: Vec<Row>,
}

#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) does: String,
    /// In the order of `Who`: root, user.
    pub(crate) outcomes: [String; 2],
    pub(crate) version: String,
}

impl Program {
    /// For the names of tests.
    pub(crate) fn key(&self) -> String {
        let words = format!("{} {}", self.name, self.does).to_lowercase();
        words
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join("_")
    }
}

impl Row {
    /// One that nothing is known of yet.
    pub(crate) fn of(program: &Program) -> Row {
        let unknown = || "not measured".to_owned();
        Row {
            name: program.name.to_owned(),
            does: program.does.to_owned(),
            outcomes: [unknown(), unknown()],
            version: String::new(),
        }
    }

    fn parse(line: &str) -> Option<Row> {
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        let [name, does, root, user, version] = <[String; 5]>::try_from(cells).ok()?;
        Some(Row { name, does, outcomes: [root, user], version })
    }

    fn line(&self) -> String {
        let Row { name, does, outcomes: [root, user], version } = self;
        format!("| {name} | {does} | {root} | {user} | {version} |\n")
    }
}

impl Table {
    pub(crate) fn read() -> Result<Table, Stop> {
        let whole = fs::read_to_string(FILE)?;
        let (text, table) = whole
            .split_once(HEAD)
            .ok_or_else(|| Stop::Fail(format!("{FILE} has no table that begins with {HEAD}")))?;
        let rows: Option<Vec<Row>> = table.lines().map(Row::parse).collect();
        let rows = rows.ok_or_else(|| Stop::Fail(format!("{FILE}: a row has not five cells")))?;
        Ok(Table { text: text.to_owned(), rows })
    }

    pub(crate) fn row(&self, program: &Program) -> Option<&Row> {
        self.rows.iter().find(|row| (&row.name[..], &row.does[..]) == (program.name, program.does))
    }

    pub(crate) fn write(&self) -> Result<(), Stop> {
        let rows: String = self.rows.iter().map(Row::line).collect();
        Ok(fs::write(FILE, format!("{}{HEAD}{rows}", self.text))?)
    }
}
