//! Real programs in the jail, as somebody would use it to work on a project, against the table in `docs/programs.md`.
//!
//! `AGENTKIT_DOCS=write` makes the table anew on a host that has the programs. A program that a host lacks is
//! skipped by name, and its row stays as it was measured elsewhere.

#[path = "../jail/mod.rs"]
mod jail;
#[path = "../support/mod.rs"]
mod support;

mod list;
mod table;

use agentkit_protocol::{Bytes, Limits, Policy, ProcFiles, WorkDir};
use jail::launch::Launch;
use jail::run::Run;
use jail::stage::{self, Stage};
use jail::who::Who;
use libtest_mimic::Trial;
use list::{PROGRAMS, Program, Work};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use support::{Stop, trial};
use table::{Row, Table};
use tempfile::TempDir;

/// The same for everybody: no version managers of whoever runs the tests.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn main() -> ExitCode {
    Stage::run(|| match std::env::var("AGENTKIT_DOCS").as_deref() {
        Ok("write") => write_table(),
        _ => support::run(trials()),
    })
}

fn trials() -> Vec<Trial> {
    let one = |program: &'static Program, who: Who| {
        let name = format!("{}::{}", program.key(), who.name());
        trial(&name, move || as_the_table_says(program, who))
    };
    let runs = PROGRAMS.iter().flat_map(|program| Who::everybody().iter().map(move |who| one(program, *who)));
    runs.chain([trial("the_table_lists_these_programs", the_table_lists_these_programs)]).collect()
}

fn as_the_table_says(program: &'static Program, who: Who) -> Result<(), Stop> {
    let table = Table::read()?;
    let said = table.row(program).and_then(|row| row.outcomes.get(who as usize)).cloned();
    let (outcome, run) = outcome(program, who)?;
    assert_eq!(Some(&outcome), said.as_ref(), "{}: {run:?}", table::FILE);
    Ok(())
}

fn the_table_lists_these_programs() -> Result<(), Stop> {
    let rows = Table::read()?.rows;
    let listed: Vec<_> = rows.iter().map(|row| (&row.name[..], &row.does[..])).collect();
    let known: Vec<_> = PROGRAMS.iter().map(|program| (program.name, program.does)).collect();
    assert_eq!(listed, known, "AGENTKIT_DOCS=write makes {} anew", table::FILE);
    Ok(())
}

fn write_table() -> ExitCode {
    let measured = Table::read().and_then(|mut table| {
        let rows = PROGRAMS.iter().map(|program| measure(program, table.row(program)));
        table.rows = rows.collect::<Result<_, Stop>>()?;
        table.write()
    });
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            eprintln!("{stop:?}");
            ExitCode::FAILURE
        }
    }
}

/// The row of a program, as it was where this host cannot tell.
fn measure(program: &'static Program, old: Option<&Row>) -> Result<Row, Stop> {
    let mut row = old.cloned().unwrap_or_else(|| Row::of(program));
    for who in Who::everybody() {
        match outcome(program, *who) {
            Ok((outcome, run)) => {
                eprintln!(
                    "{} {}: {outcome} {}",
                    program.key(),
                    who.name(),
                    String::from_utf8_lossy(&run.stderr)
                );
                row.outcomes[*who as usize] = outcome;
                if *who == Who::everybody()[0] {
                    row.version = version(program, *who)?.unwrap_or_default();
                }
            }
            Err(Stop::Skip(reason)) => eprintln!("{} {}: {reason}", program.key(), who.name()),
            Err(stop) => return Err(stop),
        }
    }
    Ok(row)
}

/// What it came to, in a few words.
fn outcome(program: &'static Program, who: Who) -> Result<(String, Run), Stop> {
    who.can_launch()?;
    if version(program, who)?.is_none() {
        return Err(Stop::Skip(format!("{} is not installed for a launcher {}", program.name, who.name())));
    }
    let corner = Corner::new(who)?;
    let policy = corner.policy(&program.work)?;
    let run = corner.launch().jail(&serde_json::to_vec(&policy)?)?.finish()?;
    let last = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes).trim().lines().next_back().unwrap_or_default().to_owned()
    };
    let outcome = match run.status.code() {
        Some(0) => last(&run.stdout),
        _ => format!("fails: {}", last(&run.stderr).replace('|', "/")),
    };
    Ok((outcome, run))
}

/// The version of a program as this launcher would start it outside.
fn version(program: &Program, who: Who) -> Result<Option<String>, Stop> {
    let path = match program.work {
        // Installed under a home, as a rule.
        Work::Cargo => return Ok(rust(who)?.map(|(_, version)| version)),
        _ => PATH,
    };
    let output = who
        .shell()?
        .env("PATH", path)
        .env("HOME", "/")
        .args(["-c", program.version])
        .current_dir("/")
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then_some(said))
}

/// The directory of the compiler's own programs, without the ones that choose among several, and cargo's version.
fn rust(who: Who) -> Result<Option<(PathBuf, String)>, Stop> {
    let script = "bin=$(rustc --print sysroot)/bin && echo $bin && $bin/cargo --version";
    let home = std::env::var_os("HOME").unwrap_or_default();
    let output = who.shell()?.args(["-c", script]).env("HOME", home).current_dir("/").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = said.split_once('\n').filter(|_| output.status.success());
    Ok(found.map(|(bin, version)| (bin.into(), version.trim().to_owned())))
}

/// A launcher's own directories.
struct Corner {
    who: Who,
    root: TempDir,
}

impl Corner {
    fn new(who: Who) -> Result<Corner, Stop> {
        let corner = Corner { who, root: stage::open_directory()? };
        for name in ["work", "home", "outputs"] {
            fs::create_dir(corner.path(name))?;
            who.own(&corner.path(name))?;
        }
        // As directories are that a group shares: whatever is made there has the bit, too.
        fs::set_permissions(corner.path("work"), fs::Permissions::from_mode(0o2775))?;
        Ok(corner)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// A project's directory, and limits that work should not notice.
    fn policy(&self, work: &Work) -> Result<Policy, Stop> {
        let policy = Policy {
            workdir: WorkDir::Bind(Bytes::from(self.path("work"))),
            proc: ProcFiles::Full,
            limits: Limits {
                wall_ms: 25_000,
                cpu_seconds: 60,
                memory: 4 << 30,
                disk: 1 << 30,
                file_size: 8 << 30,
                processes: 600,
                open_files: 1024,
                output: None,
            },
            ..Policy::new([] as [Bytes; 0])
        };
        match work {
            Work::Script(interpreter, name, text) => {
                Ok(with_file(policy, Path::new(interpreter), name, text))
            }
            Work::Venv(name, text) => Ok(with_file(policy, &self.make_venv()?, name, text)),
            Work::Cargo => self.make_package(policy),
        }
    }

    fn make_venv(&self) -> Result<PathBuf, Stop> {
        let made = self.path("home/.v");
        let mut command = self.who.shell()?;
        command.args(["-c", "exec python3 -m venv --without-pip \"$0\""]).arg(&made).current_dir("/");
        let output = command.env("PATH", PATH).output()?;
        if output.status.success() {
            return Ok(made.join("bin/python3"));
        }
        Err(Stop::Skip(format!("no virtual environment: {}", String::from_utf8_lossy(&output.stderr))))
    }

    fn make_package(&self, policy: Policy) -> Result<Policy, Stop> {
        let (bin, _) = rust(self.who)?.ok_or_else(|| Stop::Skip("there is no Rust".into()))?;
        fs::create_dir(self.path("work/src"))?;
        fs::write(self.path("work/Cargo.toml"), include_str!("cargo.toml"))?;
        fs::write(self.path("work/src/main.rs"), include_str!("cargo.rs"))?;
        for name in ["work/src", "work/src/main.rs", "work/Cargo.toml"] {
            self.who.own(&self.path(name))?;
        }
        let path = format!("{}:{PATH}", bin.display());
        let argv = [Bytes::from(bin.join("cargo")), "run".into(), "--quiet".into(), "--offline".into()];
        Ok(Policy { argv: argv.into(), env: [("PATH".to_owned(), Bytes::from(path))].into(), ..policy })
    }

    fn launch(&self) -> Launch<'_> {
        let env = vec![("PATH".to_owned(), PATH.into()), ("HOME".to_owned(), self.path("home").into())];
        Launch { env, ..Launch::plain(self.who, self.path("outputs"), self.path("work")) }
    }
}

fn with_file(policy: Policy, interpreter: &Path, name: &str, text: &str) -> Policy {
    Policy {
        argv: [Bytes::from(interpreter.to_path_buf()), Bytes::from(format!("/tmp/{name}"))].into(),
        files: [(name.to_owned(), Bytes::from(text))].into(),
        ..policy
    }
}
