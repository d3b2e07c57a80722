//! How the helper is found and started.

use crate::jail::desk::{Desk, json};
use crate::jail::stage::helper;
use crate::support::Stop;
use crate::tests;
use agentkit_protocol::{Bytes, Policy};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

tests![a_helper_however_it_is_called, a_host_without_programs];

/// It must not have to find itself again inside.
fn a_helper_however_it_is_called() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir_all(desk.path("home/.local/bin"))?;
    symlink(helper(), desk.path("home/.local/bin/jail"))?;
    symlink("home/.local/bin/jail", desk.path("second"))?;
    let policy = json(&desk.tracer())?;
    let path = format!("{}:/usr/bin:/bin", desk.path("home/.local/bin").display());
    let ways = [
        ("../second", None),
        (".././home/../home/.local/bin/jail", None),
        ("jail", None),
        ("../second", Some("another")),
        ("../second", Some("")),
        ("/proc/self/cwd/../second", None),
    ];
    for (program, name) in ways {
        let mut command = Command::new(program);
        if let Some(name) = name {
            command.arg0(name);
        }
        command.env("PATH", &path);
        command.current_dir(desk.path("work")).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn()?;
        child.stdin.take().map(|mut stdin| stdin.write_all(&policy)).transpose()?;
        assert!(child.wait()?.success() && desk.ran(), "{program} as {name:?}");
    }
    Ok(())
}

/// It needs no program of the host's, and without one that the policy names nothing runs, least of all unconfined.
fn a_host_without_programs() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let touch = desk.path("touched");
    let named = Policy { argv: ["touch".into(), Bytes::from(touch.clone())].into(), ..desk.tracer() };
    let under = ["/usr/bin/env", "PATH=/nowhere"].map(str::to_owned);
    let run = desk.call_under(&under, &[], &json(&named)?)?;
    assert_eq!((run.status.code(), touch.exists()), (Some(127), false), "{run:?}");
    let absolute =
        Policy { argv: ["/bin/sh".into(), "-c".into(), "echo ran; : > ran".into()].into(), ..desk.tracer() };
    let run = desk.call_under(&under, &[], &json(&absolute)?)?;
    assert_eq!((run.status.code(), &run.stdout[..], desk.ran()), (Some(0), &b"ran\n"[..], true), "{run:?}");
    Ok(())
}
