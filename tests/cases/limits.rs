//! Limits that must not hit what they are not about.

use crate::jail::desk::Desk;
use crate::support::Stop;
use crate::tests;
use agentkit_protocol::{EndedBy, Limits, Policy};
use std::process::{Child, Command, Stdio};

tests![processes_of_the_same_user_outside, programs_that_reserve_address_space];

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
    let run = desk.launch(&Policy { limits, ..desk.policy("true & true & wait; echo ran") })?;
    assert_eq!((run.ended()?.ended_by, &run.stdout[..]), (EndedBy::Exit(0), &b"ran\n"[..]), "{run:?}");
    Ok(())
}

/// Runtimes reserve many times the memory that they use, and by default the limit is 512 MiB.
fn programs_that_reserve_address_space() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut tried = 0;
    for (program, script) in [
        ("node", "node -e 'console.log(1)'"),
        ("java", "java -XX:-UsePerfData -version 2>&1 | grep -q version && echo 1"),
    ] {
        let look = format!("PATH=/usr/bin:/bin; command -v {program} >/dev/null");
        if !Command::new("/bin/sh").args(["-c", &look]).status()?.success() {
            continue;
        }
        tried += 1;
        let run = desk.launch(&desk.policy(script))?;
        assert_eq!((run.ended()?.ended_by, &run.stdout[..]), (EndedBy::Exit(0), &b"1\n"[..]), "{run:?}");
    }
    if tried == 0 { Err(Stop::Skip("neither node nor java is installed".into())) } else { Ok(()) }
}
