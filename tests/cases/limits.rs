//! Limits that must not hit what they are not about.

use crate::jail::desk::Desk;
use crate::support::Stop;
use crate::tests;
use agentkit_protocol::{Choice, EndedBy, Limits, Policy};
use std::process::{Child, Command, Stdio};

tests![processes_of_the_same_user_outside];

/// Killed when dropped.
struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A browser has hundreds. The kernel counts them by user, across all namespaces.
fn processes_of_the_same_user_outside() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut sleepers = Sleepers(Vec::new());
    for _ in 0..60 {
        sleepers.0.push(Command::new("sleep").arg("60").stdin(Stdio::null()).spawn()?);
    }
    let limits = Limits { processes: 10, ..Limits::default() };
    let run =
        desk.launch(&Policy { limits: limits.clone(), ..desk.policy("true & true & wait; echo ran") })?;
    assert_eq!((run.ended()?.ended_by, &run.stdout[..]), (EndedBy::Exit(0), &b"ran\n"[..]), "{run:?}");
    // Without a namespace they do count, and so the limit is higher.
    let asked = Policy {
        limits,
        mechanism: Choice::Landlock,
        ..Policy::new(["sh", "-c", "true & true & wait; echo ran"])
    };
    let run = desk.launch(&asked)?;
    match run.failure() {
        Ok(failure) if failure.message.contains("landlock_create_ruleset") => {}
        _ => {
            assert_eq!((run.ended()?.ended_by, &run.stdout[..]), (EndedBy::Exit(0), &b"ran\n"[..]), "{run:?}")
        }
    }
    Ok(())
}
