//! `agentkit-jail` as a shell script meets it: what it reads, what it prints, how it exits, and how it is ended.

#[path = "helper_cli/codes.rs"]
mod codes;
#[path = "helper_cli/ends.rs"]
mod ends;
#[path = "helper_cli/flags.rs"]
mod flags;
#[path = "helper_cli/git.rs"]
mod git;
#[path = "helper_cli/interpreters.rs"]
mod interpreters;
mod jail;
#[path = "helper_cli/judge.rs"]
mod judge;
#[path = "helper_cli/limits.rs"]
mod limits;
#[path = "helper_cli/lost.rs"]
mod lost;
#[path = "helper_cli/overlay.rs"]
mod overlay;
#[path = "helper_cli/refusals.rs"]
mod refusals;
#[path = "helper_cli/streams.rs"]
mod streams;
mod support;
#[path = "helper_cli/tty.rs"]
mod tty;
#[path = "helper_cli/view.rs"]
mod view;
#[path = "helper_cli/work_dirs.rs"]
mod work_dirs;

use jail::stage::Stage;
use std::process::ExitCode;
use support::{Stop, trial};

/// A test by its name.
type Named = (&'static str, fn() -> Result<(), Stop>);

/// The tests of a module, by the names of their functions.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[$crate::Named] = &[$((stringify!($name), $name)),+];
    };
}
pub(crate) use tests;

fn main() -> ExitCode {
    let modules = [
        codes::TESTS,
        ends::TESTS,
        flags::TESTS,
        git::TESTS,
        interpreters::TESTS,
        limits::TESTS,
        lost::TESTS,
        overlay::TESTS,
        refusals::TESTS,
        streams::TESTS,
        tty::TESTS,
        view::TESTS,
        work_dirs::TESTS,
    ];
    Stage::run(|| {
        support::run(modules.iter().copied().flatten().map(|(name, test)| trial(name, test)).collect())
    })
}
