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
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
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

/// Attacks on resources mostly wait, and what stops them looks now and then, which it must get to do in time: two at once,
/// however many tests are.
static LANES: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

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
        ("rules", rules::ATTACKS),
        ("traces", traces::ATTACKS),
    ];
    Stage::run(|| {
        let others = modules.iter().flat_map(|(module, attacks)| {
            performances(attacks).map(move |(attack, who)| {
                support::trial(&named(module, attack, who), move || (attack.1)(who))
            })
        });
        let resources = resources::ATTACKS.chunks(1).zip(LANES.iter().cycle()).flat_map(|(attack, lane)| {
            performances(attack).map(move |(attack, who)| {
                support::trial(&named("resources", attack, who), move || {
                    let _turn = lane.lock().unwrap_or_else(PoisonError::into_inner);
                    (attack.1)(who)
                })
            })
        });
        support::run(support::spread(resources.collect(), others.collect()))
    })
}

/// Each attack, by each who can perform it.
fn performances(attacks: &'static [Named]) -> impl Iterator<Item = (&'static Named, Who)> {
    attacks.iter().flat_map(|attack| Who::everybody().iter().map(move |who| (attack, *who)))
}

fn named(module: &str, attack: &Named, who: Who) -> String {
    format!("{module}::{}::{}", attack.0, who.name())
}
