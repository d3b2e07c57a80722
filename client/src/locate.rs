//! Which program is the helper.

use crate::error::{host, os};
use agentkit_protocol::Failure;
use std::env;
use std::ffi::OsStr;
use std::path::{self, Path, PathBuf};

/// The file name of the helper, and the name under which a program hands itself over to it.
const NAME: &str = "agentkit-jail";
const DOOR: &str = "call agentkit_jail::door() first thing in main, or choose another Helper";

/// Which program confines the commands. `PATH` is never searched for it: whoever can write there could lift the jail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Helper {
    /// The file `agentkit-jail` beside the current executable, links to that resolved.
    #[default]
    Sibling,
    /// This file; a relative path is relative to the current directory.
    Path(PathBuf),
    /// The current executable itself, started under the name `agentkit-jail`. Only for a program that calls
    /// `agentkit_jail::door()` first thing in `main`.
    OwnExecutable,
}

/// The file to execute, and the name it is told if that is not its path.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) name: Option<&'static str>,
}

impl Helper {
    /// What a person can do about one that exited without an answer.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            // Without the door the whole program ran in place of the helper.
            Helper::OwnExecutable => Some(DOOR),
            Helper::Sibling | Helper::Path(_) => None,
        }
    }

    pub(crate) fn program(&self) -> Result<Program, Failure> {
        match self {
            Helper::Sibling => Ok(Program { path: current_exe()?.with_file_name(NAME), name: None }),
            Helper::Path(path) => path::absolute(path)
                .map(|path| Program { path, name: None })
                .map_err(|error| os("locate the helper", path.display(), &error)),
            Helper::OwnExecutable if was_handed_over() => Err(no_door()),
            Helper::OwnExecutable => Ok(Program { path: own_executable()?, name: Some(NAME) }),
        }
    }
}

/// The path of the running program, links resolved where the file still exists.
fn current_exe() -> Result<PathBuf, Failure> {
    let path =
        env::current_exe().map_err(|error| os("locate the helper", "the current executable", &error))?;
    Ok(path.canonicalize().unwrap_or(path))
}

/// On Linux a link to the running program, which also holds when its file was replaced or removed meanwhile.
fn own_executable() -> Result<PathBuf, Failure> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { current_exe() }
}

/// Whether this very process was started as the helper and went on as if it were not. Without this check it would start
/// itself again, and that one itself, without end.
fn was_handed_over() -> bool {
    env::args_os().next().is_some_and(|name| Path::new(&name).file_name() == Some(OsStr::new(NAME)))
}

fn no_door() -> Failure {
    Failure {
        hint: Some(DOOR.to_owned()),
        ..host("locate the helper", format!("this program was started as {NAME} and did not hand over"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sibling_lies_beside_the_executable() {
        let program = Helper::Sibling.program().expect("an executable");
        assert_eq!(program.path.parent(), current_exe().expect("an executable").parent());
        assert_eq!(program.path.file_name(), Some(OsStr::new(NAME)));
    }

    #[test]
    fn a_bare_name_is_a_file_here_and_never_looked_up_in_path() {
        let program = Helper::Path("agentkit-jail".into()).program().expect("a current directory");
        assert_eq!(program.path, env::current_dir().expect("a current directory").join(NAME));
    }
}
