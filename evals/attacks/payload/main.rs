//! The attacker: `attacker NAME ARGUMENT...` tries one attack and says what came of it. Nobody believes what it says: it
//! only tells that it tried.
//!
//! It is one static program without any crate, so that it runs wherever a sandbox lets anything run.

mod nr;
mod sys;

mod filesystem;
mod kernel;
mod leakage;
mod network;
mod persistence;
mod processes;
mod resources;
mod terminal;

use std::env::args_os;
use std::ffi::OsString;

/// What an attack comes to: that it went through, or why not.
type Outcome = std::io::Result<()>;
/// By name.
type Named = (&'static str, fn(&[OsString]) -> Outcome);

fn main() {
    let words: Vec<OsString> = args_os().collect();
    // The second word marks the process for those who watch it.
    let [_, _, name, arguments @ ..] = words.as_slice() else {
        eprintln!("attacker MARKER NAME ARGUMENT...");
        std::process::exit(2);
    };
    let families = [
        filesystem::ATTACKS,
        kernel::ATTACKS,
        leakage::ATTACKS,
        network::ATTACKS,
        persistence::ATTACKS,
        processes::ATTACKS,
        resources::ATTACKS,
        terminal::ATTACKS,
    ];
    let mut all = families.iter().flat_map(|family| family.iter());
    let Some((_, attack)) = all.find(|(known, _)| name == known) else {
        eprintln!("there is no attack {name:?}");
        std::process::exit(2);
    };
    println!("trying");
    match attack(arguments) {
        Ok(()) => println!("tried: done"),
        Err(error) => println!("tried: {error}"),
    }
}
