//! Who runs the tests, and running a command as somebody without privileges.

use super::Stop;
use std::path::Path;
use std::process::Command;

/// An id that no account has and that the jail does not map to.
pub(crate) const UNPRIVILEGED_ID: u32 = 61_234;

/// The effective user id of this process.
pub(crate) fn current_uid() -> Result<u32, String> {
    let output = Command::new("id").arg("-u").output().map_err(|error| format!("id: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|error| format!("id -u printed {text:?}: {error}"))
}

/// `own` leaves tests that become somebody else to a run by such a user; see the README of the suites.
const USERS: &str = "AGENTKIT_TEST_USERS";

/// A skip where ordinary users have a run of their own.
pub(crate) fn may_become_another() -> Result<(), Stop> {
    match std::env::var(USERS).as_deref() {
        Err(_) | Ok("all") => Ok(()),
        Ok("own") => Err(Stop::Skip(format!("{USERS}=own: an ordinary user runs it"))),
        Ok(other) => Err(Stop::Fail(format!("{USERS} is {other:?}; it can be `own` or `all`"))),
    }
}

/// `program` as a command of [`UNPRIVILEGED_ID`], with no group and no capability; for a root test only. A skip if that
/// user cannot reach the program, as in a checkout under root's home.
pub(crate) fn unprivileged(program: &Path) -> Result<Command, Stop> {
    let reachable = setpriv().args(["test", "-x"]).arg(program).status()?;
    if !reachable.success() {
        return Err(Stop::Skip(format!("needs a path open to other users: {}", program.display())));
    }
    let mut command = setpriv();
    command.arg(program);
    Ok(command)
}

fn setpriv() -> Command {
    let id = UNPRIVILEGED_ID.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps", "-all"]);
    command
}
