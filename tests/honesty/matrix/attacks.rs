//! The part of the corpus that tells whether a control holds: for each at least one attack, judged as ever.

use crate::support::Stop;
use agentkit_attacks::{Launcher, Verdict, attempt, corpus};
use agentkit_protocol::{Capabilities, Control, Level};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// By their names in the corpus.
pub(crate) const PART: [&str; 18] = [
    "tcp_to_the_host",
    "connect_to_an_abstract_socket",
    "connect_to_a_socket_in_the_home",
    "read_a_key",
    "append_to_a_file",
    "kill_a_process",
    "read_the_environment_of_a_process",
    "read_the_arguments_of_a_process",
    STORM,
    "memory_of_a_process",
    "disk_by_one_file",
    "cpu_of_many_at_once",
    "memory_file",
    "chroot",
    "nice_below_zero",
    "read_a_secret_variable",
    "read_an_inherited_file",
    "outlive_as_a_daemon",
];

/// Without a jail it makes more processes than others may like.
pub(crate) const STORM: &str = "fork_bomb";

/// They take seconds, and say nothing of a control that has exceptions.
pub(crate) const SLOW: [&str; 4] = [STORM, "memory_of_a_process", "disk_by_one_file", "cpu_of_many_at_once"];

/// What an attack found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) attack: String,
    pub(crate) controls: Vec<Control>,
    pub(crate) verdict: Outcome,
    pub(crate) why: String,
}

/// See [`Verdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Contained,
    Escaped,
    CannotBite,
    Error,
}

/// Whether an attack is worth its time against a jail with such claims.
pub(crate) fn is_wanted(name: &str, claims: &Capabilities) -> bool {
    let is_plain = |control: &Control| matches!(claims.level(*control), Level::Full | Level::None(_));
    !SLOW.contains(&name) || controls(name).iter().any(is_plain)
}

fn controls(name: &str) -> &'static [Control] {
    corpus().find(|attack| attack.name == name).map_or(&[], |attack| attack.controls)
}

/// Performs an attack by a launcher.
pub(crate) fn attack(name: &str, launcher: &Launcher, base: &Path) -> Result<Found, Stop> {
    let attack = corpus().find(|attack| attack.name == name);
    let attack = attack.ok_or_else(|| Stop::Fail(format!("the corpus has no attack {name}")))?;
    let (verdict, why) = match attempt(attack, launcher, base) {
        Verdict::Contained(why) => (Outcome::Contained, why),
        Verdict::Escaped(why) => (Outcome::Escaped, why),
        Verdict::CannotBite(why) => (Outcome::CannotBite, why),
        Verdict::Error(why) => (Outcome::Error, why),
    };
    Ok(Found { attack: name.to_owned(), controls: attack.controls.to_vec(), verdict, why })
}
