//! The corpus against a launcher.

use crate::attack::Attack;
use crate::launcher::Launcher;
use crate::run::perform;
use crate::scene::Scene;
use serde::Serialize;
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
    Finding { attack, verdict: find(attack, launcher, base).unwrap_or_else(|verdict| verdict) }
}

fn find(attack: &Attack, launcher: &Launcher, base: &Path) -> Result<Verdict, Verdict> {
    let error = |error: std::io::Error| Verdict::Error(error.to_string());
    let perform_by = |launcher: &Launcher| {
        let scene = Scene::new(base).map_err(error)?;
        let staged = (attack.stage)(&scene).map_err(|reason| Verdict::CannotBite(reason.to_string()))?;
        perform(launcher, &scene, staged).map_err(error)
    };
    let (run, evidence) = perform_by(&Launcher::Bare)?;
    if evidence.is_none() {
        return Ok(Verdict::CannotBite(format!("without any sandbox: {}", run.says())));
    }
    let (run, evidence) = perform_by(launcher)?;
    match evidence {
        Some(evidence) => Ok(Verdict::Escaped(evidence)),
        None if run.tried() => Ok(Verdict::Contained(run.says())),
        None => Err(Verdict::Error(format!("the attacker was not run ({}): {}", run.status, run.says()))),
    }
}
