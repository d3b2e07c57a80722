//! Attacks on a sandbox, judged from outside it.
//!
//! Each is performed twice: without any sandbox, where it has to succeed, since an attack that cannot proves nothing; and
//! by a launcher. Whether it succeeded is seen from the host, never read from what the attacker says: by a canary that
//! came out, a listener that was reached, a process that died.
//!
//! [`UNJUDGED`] has attacks without that, for whoever needs many of them and looks at something else.
//!
//! Nothing aims at an address off the machine, and every attack is bounded.

#![cfg(target_os = "linux")]

mod attack;
mod audit;
mod benign;
mod family;
mod judge;
mod launcher;
mod processes;
mod run;
mod scene;
mod under_way;
mod unjudged;
mod victim;

pub use attack::{Attack, CannotBite, Family};
pub use audit::{Finding, Verdict, attempt, audit, runs_anything};
pub use benign::{BENIGN, Task, Use, try_benign};
pub use family::corpus;
pub use launcher::Launcher;
pub use under_way::end_all;
pub use unjudged::{ENOUGH, UNJUDGED, attacker};
