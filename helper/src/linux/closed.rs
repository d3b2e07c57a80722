//! What is asked for only for a program's sake, as all that `PATH` leads to, helps nobody where the user that root becomes
//! cannot reach it.

use super::resolve::open_real;
use super::task::Task;
use super::view::{Entry, View};
use crate::error::{Hint, Result, failure};
use agentkit_protocol::FailureKind;
use std::io;
use std::path::Path;

const STEP: &str = "program";
const HINT: &str = "name a program that everybody can execute, or start it as an ordinary user; root opens it ahead only with \
    CAP_SYS_ADMIN, and for the mechanism that is tried first (--mechanism)";

/// Leaves that out of the view which is not in reach by what root has opened ahead. The command itself cannot do without.
pub(super) fn leave_out(task: &Task, view: &mut View, in_reach: impl Fn(&Entry) -> bool) -> Result<()> {
    let is_closed =
        |path: &Path| open_real(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    let is_left_out =
        |entry: &Entry| !in_reach(entry) && task.is_programs(&entry.path) && is_closed(&entry.path);
    let left_out: Vec<_> = view.entries.extract_if(.., |entry| is_left_out(entry)).collect();
    let mut programs = task.program.iter().map(|program| &program.path);
    match programs.find(|program| left_out.iter().any(|entry| program.starts_with(&entry.path))) {
        None => Ok(()),
        Some(program) => {
            let message = format_args!("{program:?} is closed to the user that root becomes");
            Err(failure(FailureKind::Host, STEP, message)).hint(HINT)
        }
    }
}
