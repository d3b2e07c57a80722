//! Attacks on the real `agentkit-jail`, one a function, named after what is attempted.
//!
//! Each is performed twice: without a jail, where it has to succeed, and in one, where it has to fail. Which of the two
//! it was is judged from the host: by the canary that came out or not, the listener, the file, the process table. Only
//! where the kernel's interface itself is attacked is the errno the evidence, and it has to differ from the one outside.
//! Root attacks as root and as somebody without privileges.

#[path = "../jail/mod.rs"]
mod jail;
#[path = "../support/mod.rs"]
mod support;

mod calls;
mod environment;
mod filesystem;
mod kernel;
mod network;
mod overlays;
mod persistence;
mod planting;
mod processes;
mod resources;
mod rules;
mod scene;
mod traces;

use jail::stage::Stage;
use jail::who::Who;
use libtest_mimic::Trial;
use std::process::ExitCode;
use support::Stop;

/// An attack by its name.
type Named = (&'static str, fn(Who) -> Result<(), Stop>);

/// The attacks of a module, by the names of their functions.
macro_rules! attacks {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const ATTACKS: &[$crate::Named] = &[$((stringify!($name), $name)),+];
    };
}
pub(crate) use attacks;

fn main() -> ExitCode {
    let modules = [
        ("environment", environment::ATTACKS),
        ("filesystem", filesystem::ATTACKS),
        ("kernel", kernel::ATTACKS),
        ("network", network::ATTACKS),
        ("overlays", overlays::ATTACKS),
        ("persistence", persistence::ATTACKS),
        ("planting", planting::ATTACKS),
        ("processes", processes::ATTACKS),
        ("resources", resources::ATTACKS),
        ("rules", rules::ATTACKS),
        ("traces", traces::ATTACKS),
    ];
    Stage::run(|| {
        support::run(modules.iter().flat_map(|(module, attacks)| trials(module, attacks)).collect())
    })
}

fn trials(module: &'static str, attacks: &'static [Named]) -> impl Iterator<Item = Trial> {
    let performances =
        attacks.iter().flat_map(|attack| Who::everybody().iter().map(move |who| (attack, *who)));
    performances.map(move |((name, attack), who)| {
        support::trial(&format!("{module}::{name}::{}", who.name()), move || attack(who))
    })
}
