//! What a test needs from its host: met, skipped with the reason, or a failure where the host is supposed to have it.

use super::{Stop, user};
use std::fs;
use std::process::{Command, Stdio};

/// Names a host's abilities that must be there: a skip for the lack of one becomes a failure. Comma separated.
pub(crate) const REQUIRE: &str = "AGENTKIT_TEST_REQUIRE";

/// Err is the reason why the host lacks the ability.
type Check = fn() -> Result<(), String>;

/// The abilities, by name, and how each is found. None of the checks uses the code under test.
const ABILITIES: [(&str, Check); 6] = [
    ("userns", user_namespaces),
    ("seccomp", seccomp_filters),
    ("bubblewrap", bubblewrap),
    ("python", python),
    ("root", root),
    ("unprivileged", unprivileged),
];

/// Fine if the host has `ability`; else a skip with the reason, or a failure if [`REQUIRE`] names it.
pub(crate) fn need(ability: &str) -> Result<(), Stop> {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    judge(ability, &required, check_of(ability)?())
}

/// The rule of [`need`], without the host.
pub(crate) fn judge(ability: &str, required: &str, found: Result<(), String>) -> Result<(), Stop> {
    let mut demanded = false;
    for name in required.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        check_of(name)?;
        demanded |= name == ability;
    }
    match found {
        Ok(()) => Ok(()),
        Err(reason) if demanded => Err(Stop::Fail(format!("{REQUIRE} demands {ability}, but {reason}"))),
        Err(reason) => Err(Stop::Skip(format!("needs {ability}: {reason}"))),
    }
}

/// A misspelt name would otherwise require nothing.
fn check_of(ability: &str) -> Result<Check, Stop> {
    let known = ABILITIES.iter().find(|(name, _)| *name == ability);
    known.map(|(_, check)| *check).ok_or_else(|| Stop::Fail(format!("no such ability: {ability}")))
}

/// Some hosts let the namespace be made and deny the mounts in it, so a mount is part of the question.
fn user_namespaces() -> Result<(), String> {
    let all = ["--user", "--map-root-user", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork"];
    let mut unshare = Command::new("unshare");
    succeeds(unshare.args(all).args(["mount", "-t", "tmpfs", "none", "/mnt"]))
}

fn seccomp_filters() -> Result<(), String> {
    let list = "/proc/sys/kernel/seccomp/actions_avail";
    let actions = fs::read_to_string(list).map_err(|error| format!("{list}: {error}"))?;
    if actions.split_whitespace().any(|action| action == "errno") {
        return Ok(());
    }
    Err(format!("{list} has no errno"))
}

fn bubblewrap() -> Result<(), String> {
    succeeds(Command::new("bwrap").args(["--unshare-all", "--ro-bind", "/", "/", "true"]))
}

fn python() -> Result<(), String> {
    succeeds(Command::new("python3").args(["-c", "import ctypes"]))
}

fn root() -> Result<(), String> {
    match user::current_uid()? {
        0 => Ok(()),
        uid => Err(format!("this is uid {uid}")),
    }
}

fn unprivileged() -> Result<(), String> {
    match user::current_uid()? {
        0 => Err("this is root".into()),
        _ => Ok(()),
    }
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let last = message.trim().lines().next_back().unwrap_or("no message").to_owned();
    Err(format!("{program} failed with {}: {last}", output.status))
}
