//! `agentkit-evals audit`: the attacks of `agentkit-attacks` against the jail or any other launcher.

mod json;
mod junit;
mod table;

use crate::cli::{AuditArgs, exit_code};
use crate::file::ReportFile;
use crate::interrupt::{Removable, clean_up_on_interrupt};
use agentkit_attacks::{
    Attack, BENIGN, Family, Finding, Launcher, Use, Verdict, audit, corpus, end_all, runs_anything,
    try_benign,
};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditError {
    #[error("there is no family `{0}`; the families are {1}")]
    UnknownFamily(String, String),
    #[error("there is no attack `{0}`; --list lists them")]
    UnknownAttack(String),
    #[error("no attack is in the chosen families and in --attacks at once; drop one of the two filters")]
    NothingSelected,
    #[error("cannot prepare for an interrupt: {0}")]
    Interrupt(io::Error),
    #[error("cannot make a directory to work in, in {0}: {1}; --in names another place")]
    Directory(PathBuf, io::Error),
    #[error("cannot write {0}: {1}")]
    Report(PathBuf, io::Error),
    #[error("cannot print the table: {0}")]
    Print(io::Error),
}

/// A launcher and what the attacks on it found, in the order of the corpus.
pub(crate) struct Audited {
    /// As it was asked for.
    pub(crate) launcher: String,
    pub(crate) findings: Vec<Finding>,
}

/// Runs it; returns the exit code.
pub(crate) fn run(args: &AuditArgs, out: &mut impl Write) -> Result<u8, AuditError> {
    let selected = select(args)?;
    if args.list {
        return table::list(&selected, out).map(|()| exit_code::PASSED).map_err(AuditError::Print);
    }
    clean_up_on_interrupt(end_all).map_err(AuditError::Interrupt)?;
    let json = args.json.as_deref().map(open).transpose()?;
    let junit = args.junit.as_deref().map(open).transpose()?;
    let place = args.place();
    let directory = |why| AuditError::Directory(place.clone(), why);
    let make = || tempfile::Builder::new().prefix(".agentkit-audit-").tempdir_in(&place);
    let (base, _removable) = Removable::make(make, tempfile::TempDir::path).map_err(directory)?;
    let helper = base.path().join(agentkit_jail::NAME);
    // Under this name this program is the jail.
    let own = std::env::current_exe();
    own.and_then(|own| std::os::unix::fs::symlink(own, &helper)).map_err(directory)?;
    let jail = if args.benign {
        Launcher::jail_to_work_in(&helper, args.mechanism)
    } else {
        Launcher::jail_to_attack(&helper, args.mechanism)
    };
    let launchers = args.launchers().map(|launcher| (launcher, resolve(launcher, &jail)));
    if args.benign {
        let tried: Vec<_> =
            launchers.map(|(name, launcher)| (name, benign(&launcher, base.path()))).collect();
        table::print_benign(&tried, out).map_err(AuditError::Print)?;
        let broken = tried.iter().flat_map(|(_, uses)| uses).any(|it| matches!(it, Use::Broken(_)));
        return Ok(if broken { exit_code::FAILED } else { exit_code::PASSED });
    }
    let audited: Vec<_> = launchers
        .map(|(name, launcher)| Audited {
            launcher: name.to_owned(),
            findings: attack_all(&selected, &launcher, base.path()),
        })
        .collect();
    // What cannot be printed is still reported.
    let printed = table::print(&audited, out).map_err(AuditError::Print);
    let json = finish(json, args.json.as_deref(), || json::report(&audited));
    let junit = finish(junit, args.junit.as_deref(), || junit::report(&audited));
    printed.and(json).and(junit)?;
    Ok(exit_of(&audited))
}

fn select(args: &AuditArgs) -> Result<Vec<&'static Attack>, AuditError> {
    let is_family = |name: &String| Family::ALL.iter().any(|family| family.to_string() == *name);
    if let Some(unknown) = args.families.iter().find(|name| !is_family(name)) {
        let known = Family::ALL.map(|family| family.to_string()).join(", ");
        return Err(AuditError::UnknownFamily(unknown.clone(), known));
    }
    if let Some(unknown) = args.attacks.iter().find(|name| !corpus().any(|attack| attack.name == **name)) {
        return Err(AuditError::UnknownAttack(unknown.clone()));
    }
    let wanted = |attack: &&Attack| {
        let by_name = args.attacks.is_empty() || args.attacks.iter().any(|name| name == attack.name);
        by_name && (args.families.is_empty() || args.families.contains(&attack.family.to_string()))
    };
    let selected: Vec<_> = corpus().filter(wanted).collect();
    if selected.is_empty() { Err(AuditError::NothingSelected) } else { Ok(selected) }
}

fn resolve(launcher: &str, jail: &Launcher) -> Launcher {
    match launcher {
        AuditArgs::JAIL => jail.clone(),
        template => Launcher::Template(template.to_owned()),
    }
}

fn attack_all(selected: &[&'static Attack], launcher: &Launcher, base: &Path) -> Vec<Finding> {
    let runs = runs_anything(launcher, base);
    with_progress(
        selected,
        |attack| attack.name,
        |attack| match &runs {
            Ok(()) => audit(attack, launcher, base),
            Err(why) => Finding { attack, verdict: Verdict::Error(why.clone()) },
        },
    )
}

fn benign(launcher: &Launcher, base: &Path) -> Vec<Use> {
    let tasks: Vec<_> = BENIGN.iter().collect();
    with_progress(&tasks, |task| task.name, |task| try_benign(task, launcher, base))
}

/// One after the other: most measure something that others would disturb. The bar is drawn on standard error, and only if
/// that is a terminal.
fn with_progress<T, R>(
    all: &[&'static T],
    name: fn(&T) -> &'static str,
    each: impl Fn(&'static T) -> R,
) -> Vec<R> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    let bar =
        ProgressBar::new(all.len() as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let done = all.iter().map(|one| {
        bar.set_message(name(one));
        let result = each(one);
        bar.inc(1);
        result
    });
    let done = done.collect();
    bar.finish_and_clear();
    done
}

fn open(path: &Path) -> Result<ReportFile, AuditError> {
    ReportFile::open(path).map_err(|why| AuditError::Report(path.to_owned(), why))
}

fn finish(
    file: Option<ReportFile>,
    path: Option<&Path>,
    report: impl FnOnce() -> io::Result<String>,
) -> Result<(), AuditError> {
    let (Some(file), Some(path)) = (file, path) else { return Ok(()) };
    report().and_then(|text| file.finish(&text)).map_err(|why| AuditError::Report(path.to_owned(), why))
}

/// An escape outweighs what could not be judged.
fn exit_of(audited: &[Audited]) -> u8 {
    let any = |wanted: fn(&Verdict) -> bool| {
        audited.iter().flat_map(|audited| &audited.findings).any(|finding| wanted(&finding.verdict))
    };
    if any(|verdict| matches!(verdict, Verdict::Escaped(_))) {
        exit_code::FAILED
    } else if any(|verdict| matches!(verdict, Verdict::Error(_))) {
        exit_code::HARNESS
    } else {
        exit_code::PASSED
    }
}

/// The findings of one family.
fn of(audited: &Audited, family: Family) -> impl Iterator<Item = &Finding> {
    audited.findings.iter().filter(move |finding| finding.attack.family == family)
}
