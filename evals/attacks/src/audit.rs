//! The corpus against a launcher.

use crate::attack::{Attack, Staged};
use crate::launcher::Launcher;
use crate::run::{Run, perform};
use crate::scene::Scene;
use serde::Serialize;
use std::io;
use std::path::Path;

/// What an attack found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was tried and failed: what the attacker said of it.
    Contained(String),
    /// It succeeded: how the host saw that.
    Escaped(String),
    /// It proves nothing on this host, since it fails without any sandbox: why.
    CannotBite(String),
    /// It could not be tried, or not be judged: why.
    Error(String),
}

/// One attack's.
#[derive(Debug)]
pub struct Finding {
    /// The attack.
    pub attack: &'static Attack,
    /// What it found.
    pub verdict: Verdict,
}

/// Performs one attack, first without any sandbox, and then by a launcher. `base` is a directory to work in, best a home.
pub fn audit(attack: &'static Attack, launcher: &Launcher, base: &Path) -> Finding {
    let verdict = match attempt(attack, &Launcher::Bare, base) {
        Verdict::Escaped(_) => attempt(attack, launcher, base),
        Verdict::Contained(said) => Verdict::CannotBite(format!("without any sandbox: {said}")),
        other => other,
    };
    Finding { attack, verdict }
}

/// Performs one attack by a launcher alone: only if it escapes is it known to bite.
pub fn attempt(attack: &'static Attack, launcher: &Launcher, base: &Path) -> Verdict {
    try_by(attack, launcher, base).unwrap_or_else(|error| Verdict::Error(error.to_string()))
}

fn try_by(attack: &Attack, launcher: &Launcher, base: &Path) -> io::Result<Verdict> {
    let scene = Scene::new(base)?;
    let staged = match (attack.stage)(&scene) {
        Ok(staged) => staged,
        Err(reason) => return Ok(Verdict::CannotBite(reason.to_string())),
    };
    let (run, evidence) = perform(launcher, &scene, staged)?;
    Ok(match evidence {
        Some(evidence) => Verdict::Escaped(evidence),
        None if run.tried() => Verdict::Contained(run.says()),
        None => Verdict::Error(not_run(&run)),
    })
}

/// Whether a launcher runs the attacker at all, found out by one that does nothing; if not, why. Each attack would find the
/// same, with a launcher that hangs for half a minute each.
pub fn runs_anything(launcher: &Launcher, base: &Path) -> Result<(), String> {
    let try_it = || {
        let scene = Scene::new(base)?;
        let enough = scene.enough().into_os_string();
        perform(launcher, &scene, Staged::new(["hold".into(), "0".into(), enough], |_: &Run| None))
    };
    match try_it() {
        Ok((run, _)) if run.tried() => Ok(()),
        Ok((run, _)) => Err(not_run(&run)),
        Err(error) => Err(error.to_string()),
    }
}

fn not_run(run: &Run) -> String {
    let (says, status) = (run.says(), run.status.to_string());
    let status = if says.contains(&status) { String::new() } else { format!(" ({status})") };
    format!("the attacker was not run{status}: {says}")
}
