//! The jail, broken on purpose: for each attack of the corpus, the parts of the jail that have to be left out together
//! until it succeeds. Where there are several, each alone is enough to stop it: that is defence in depth.
//!
//! It takes a build of its own, `cargo test -p agentkit-jail --features mutants --test mutants`, since no other jail can be
//! broken.

#[path = "../support/mod.rs"]
mod support;
mod table;

use agentkit_attacks::{Attack, Family, Launcher, Verdict, attempt, corpus};
use agentkit_protocol::{Choice, Control};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use support::need::need;
use support::user::current_uid;
use support::{Stop, trial};
use table::{HELD_BY_LUCK, INSEPARABLE, LAYERS, SETS};

const HELPER: &str = env!("CARGO_BIN_EXE_agentkit-jail");
/// What an ordinary user's jail cannot do without, or never has: it stays who it is.
const OF_ROOT: [&str; 2] = ["UserNamespace", "Identity"];
/// What is off for nothing where neither jail nor victim is root's.
const ROOTS_OWN: [&str; 2] = ["Identity", "Privileges"];
/// Some attacks are judged by what the whole host has: of those there is one at a time. The others take little of it.
static HOST: Mutex<()> = Mutex::new(());

fn main() -> ExitCode {
    let performed = |attack: &'static Attack| trial(attack.name, move || in_turn(attack, it_takes_its_set));
    let (resources, each): (Vec<_>, Vec<_>) = corpus().partition(|attack| is_of_resources(attack));
    let resources = resources.into_iter().map(performed);
    let others = [
        trial("the_table_is_about_the_corpus", the_table_is_about_the_corpus),
        trial("controls_are_those_of_the_layers", controls_are_those_of_the_layers),
        trial("capabilities_show_that_it_can_be_broken", capabilities_show_that_it_can_be_broken),
    ];
    let others = each.into_iter().map(performed).chain(others);
    support::run(support::spread(resources.collect(), others.collect()))
}

fn in_turn(attack: &'static Attack, test: fn(&'static Attack) -> Result<(), Stop>) -> Result<(), Stop> {
    need("userns")?;
    let _turn = is_of_resources(attack).then(|| HOST.lock().unwrap_or_else(PoisonError::into_inner));
    test(attack)
}

fn is_of_resources(attack: &Attack) -> bool {
    attack.family == Family::Resources
}

/// It escapes when the whole set is off, and not when a single one of it is put back.
fn it_takes_its_set(attack: &'static Attack) -> Result<(), Stop> {
    if let Some((_, reason)) = INSEPARABLE.iter().chain(HELD_BY_LUCK).find(|(name, _)| *name == attack.name) {
        return Err(Stop::Skip((*reason).to_owned()));
    }
    let Some(set) = set_of(attack) else {
        cannot_bite(attack)?;
        return Err(Stop::Fail(format!("it is not in the table; its set may be {:?}", search(attack)?)));
    };
    let is_root = is_root()?;
    if set.contains(&"UserNamespace") && !is_root {
        return Err(Stop::Skip(
            "the user namespace alone stops it, which only root can do without".to_owned(),
        ));
    }
    let mut set = set.to_vec();
    set.retain(|layer| is_root || !ROOTS_OWN.contains(layer));
    let verdict = attempt_without(attack, &set)?;
    if !matches!(verdict, Verdict::Escaped(_)) {
        cannot_bite(attack)?;
        let found = search(attack)?;
        return Err(Stop::Fail(format!("without {set:?}: {verdict:?}; its set may be {found:?}")));
    }
    for layer in &set {
        let fewer = without(&set, layer);
        if let Verdict::Escaped(evidence) = attempt_without(attack, &fewer)? {
            return Err(Stop::Fail(format!("{layer} does not stop it: {fewer:?} off, {evidence}")));
        }
    }
    Ok(())
}

/// What cannot succeed without a jail either proves nothing here.
fn cannot_bite(attack: &'static Attack) -> Result<(), Stop> {
    let directory = directory()?;
    match attempt(attack, &Launcher::Bare, directory.path()) {
        Verdict::Escaped(_) => Ok(()),
        other => Err(Stop::Skip(format!("cannot bite here: {other:?}"))),
    }
}

/// The table does not know the set of an attack, or it has changed: a smallest one, by putting back whatever it can
/// succeed with. There may be others.
fn search(attack: &'static Attack) -> Result<Vec<&'static str>, Stop> {
    let is_root = is_root()?;
    let mut off: Vec<_> = LAYERS.map(|(layer, _)| layer).to_vec();
    off.retain(|layer| is_root || !OF_ROOT.contains(layer));
    loop {
        let before = off.len();
        for (layer, _) in LAYERS {
            let fewer = without(&off, layer);
            if fewer.len() < off.len() && matches!(attempt_without(attack, &fewer)?, Verdict::Escaped(_)) {
                off = fewer;
            }
        }
        // One that could not be put back before may be now that others are.
        if off.len() == before {
            return Ok(off);
        }
    }
}

/// Performs it in a jail that lacks some of its layers.
fn attempt_without(attack: &'static Attack, layers: &[&str]) -> Result<Verdict, Stop> {
    let directory = directory()?;
    let helper = directory.path().join("jail");
    let script = format!("#!/bin/sh\nexec env AGENTKIT_JAIL_WITHOUT={} {HELPER} \"$@\"\n", layers.join(","));
    support::write_program(&helper, script.as_bytes())?;
    Ok(attempt(attack, &Launcher::jail_to_attack(&helper, Choice::Namespaces), directory.path()))
}

fn directory() -> Result<tempfile::TempDir, Stop> {
    let directory = tempfile::Builder::new().prefix("mutants-").tempdir_in("/var/tmp")?;
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755))?;
    Ok(directory)
}

fn set_of(attack: &Attack) -> Option<&'static [&'static str]> {
    SETS.iter().find(|(_, attacks)| attacks.contains(&attack.name)).map(|(set, _)| *set)
}

fn without<'a>(layers: &[&'a str], one: &str) -> Vec<&'a str> {
    layers.iter().copied().filter(|layer| *layer != one).collect()
}

fn is_root() -> Result<bool, Stop> {
    Ok(current_uid().map_err(Stop::Fail)? == 0)
}

/// Each attack and each layer stands in it once, and it has no others.
fn the_table_is_about_the_corpus() -> Result<(), Stop> {
    let known: BTreeSet<_> = corpus().map(|attack| attack.name).collect();
    let mut seen = BTreeSet::new();
    let listed = SETS.iter().flat_map(|(_, attacks)| attacks.iter().copied());
    let others = INSEPARABLE.iter().chain(HELD_BY_LUCK).map(|(name, _)| *name);
    for name in listed.chain(others) {
        assert!(known.contains(name) && seen.insert(name), "{name} is no attack, or stands there twice");
    }
    let off: BTreeSet<_> = SETS.iter().flat_map(|(set, _)| set.iter().copied()).collect();
    let idle: Vec<_> = LAYERS.iter().map(|(layer, _)| *layer).filter(|layer| !off.contains(layer)).collect();
    assert_eq!(idle, table::SEEN_BY_NO_ATTACK, "a layer that stops no attack proves nothing");
    Ok(())
}

/// An attack names a control that one of its layers stands for: else claims would be checked by attacks that do not
/// concern them.
fn controls_are_those_of_the_layers() -> Result<(), Stop> {
    let mut wrong = Vec::new();
    for attack in corpus() {
        let Some(set) = set_of(attack).filter(|set| !set.is_empty()) else { continue };
        let layers = LAYERS.iter().filter(|(layer, _)| set.contains(layer));
        let stand_for: BTreeSet<Control> =
            layers.flat_map(|(_, controls)| controls.iter().copied()).collect();
        if !attack.controls.iter().any(|control| stand_for.contains(control)) {
            wrong.push(format!(
                "{}: {:?}, but its layers {set:?} are {stand_for:?}",
                attack.name, attack.controls
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Nobody can take such a build for another one.
fn capabilities_show_that_it_can_be_broken() -> Result<(), Stop> {
    need("userns")?;
    let probe = Command::new(Path::new(HELPER)).args(["--probe", "--json"]).output()?;
    let found: serde_json::Value = serde_json::from_slice(&probe.stdout)?;
    for control in Control::ALL {
        let level = found["controls"][control.name()]["none"].as_str().unwrap_or_default();
        assert!(level.contains("a build for tests"), "{found:#}");
    }
    Ok(())
}
