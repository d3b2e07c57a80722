//! Public bug reports on other launchers, each with the value that is right here. `docs/cases.md` and `docs/holes.md` list
//! all of them with the test that covers each; here are those that no other suite has.

#[path = "../jail/mod.rs"]
mod jail;
#[path = "../support/mod.rs"]
mod support;

mod holes;
mod hosts;
mod identity;
mod limits;
mod meaning;
mod starting;

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
    let modules =
        [holes::TESTS, hosts::TESTS, identity::TESTS, limits::TESTS, meaning::TESTS, starting::TESTS];
    Stage::run(|| {
        support::run(modules.iter().copied().flatten().map(|(name, test)| trial(name, test)).collect())
    })
}
