//! How the helper exits, and how a caller tells its codes from the command's own.

use super::judge::refused;
use crate::jail::desk::Desk;
use crate::jail::stage::helper;
use crate::support::{Stop, write_program};
use crate::tests;
use agentkit_protocol::{Bytes, Ended, EndedBy, FailureKind, Policy};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

tests![
    exit_codes_of_the_command_come_through,
    a_signal_is_128_more,
    the_wall_clock_is_124,
    a_refusal_is_125,
    a_refusal_that_cannot_be_told_is_125,
    a_file_that_cannot_be_executed_is_126,
    a_missing_command_is_127,
    the_report_tells_the_commands_own_codes_apart
];

fn run(desk: &Desk, script: &str) -> Result<(Option<i32>, Ended), Stop> {
    let run = desk.launch(&desk.policy(script))?;
    Ok((run.status.code(), run.ended()?))
}

fn exit_codes_of_the_command_come_through() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for code in [0, 1, 2, 63, 64, 123, 128, 129, 200, 254, 255] {
        let (status, ended) = run(&desk, &format!("exit {code}"))?;
        assert_eq!((status, ended.ended_by), (Some(code), EndedBy::Exit(code)));
    }
    Ok(())
}

fn a_signal_is_128_more() -> Result<(), Stop> {
    let desk = Desk::new()?;
    // The last has a number but no name.
    for signal in [1, 2, 6, 9, 11, 13, 15, 40] {
        let (status, ended) = run(&desk, &format!("kill -{signal} $$; sleep 5"))?;
        assert_eq!((status, ended.ended_by), (Some(128 + signal), EndedBy::Signal(signal)));
    }
    Ok(())
}

fn the_wall_clock_is_124() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut policy = desk.policy("sleep 60");
    policy.limits.wall_ms = 100;
    let run = desk.launch(&policy)?;
    assert_eq!((run.status.code(), run.ended()?.ended_by), (Some(124), EndedBy::WallClock));
    Ok(())
}

fn a_refusal_is_125() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut policy = desk.tracer();
    policy.limits.processes = 0;
    assert_eq!(refused(&desk, &desk.launch(&policy)?, 125)?, FailureKind::Policy);
    Ok(())
}

/// Where the message cannot be written, the code still says it.
fn a_refusal_that_cannot_be_told_is_125() -> Result<(), Stop> {
    for arguments in [&["--walls"][..], &["--wall", "0", "true"]] {
        let full = File::options().write(true).open("/dev/full")?;
        let status = Command::new(helper()).args(arguments).stderr(full).status()?;
        assert_eq!(status.code(), Some(125), "{arguments:?}");
    }
    Ok(())
}

fn a_file_that_cannot_be_executed_is_126() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::write(desk.path("work/plain"), "#!/bin/sh\necho x > ran\n")?;
    for command in ["./plain", "/etc/passwd", "/usr"] {
        let policy = Policy { argv: vec![Bytes::from(command)], ..desk.tracer() };
        assert_eq!(refused(&desk, &desk.launch(&policy)?, 126)?, FailureKind::NotExecutable, "{command}");
    }
    // Shells guess that it is for them; execve does not.
    write_program(&desk.path("work/no-first-line"), b"echo x > ran\n")?;
    let run = desk.launch(&Policy { argv: vec![Bytes::from("./no-first-line")], ..desk.tracer() })?;
    assert_eq!(refused(&desk, &run, 126)?, FailureKind::NotExecutable);
    assert!(run.failure()?.hint.is_some_and(|hint| hint.contains("#!/bin/sh")), "{run:?}");
    Ok(())
}

fn a_missing_command_is_127() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::write(desk.path("work/script"), "#!/no/such/interpreter\n")?;
    fs::set_permissions(desk.path("work/script"), fs::Permissions::from_mode(0o755))?;
    for command in ["no-such-command", "./missing", "/no/such/command", "/usr/bin/no/such", "./script"] {
        let policy = Policy { argv: vec![Bytes::from(command)], ..desk.tracer() };
        assert_eq!(refused(&desk, &desk.launch(&policy)?, 127)?, FailureKind::NotFound, "{command}");
    }
    Ok(())
}

fn the_report_tells_the_commands_own_codes_apart() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for code in [124, 125, 126, 127, 137] {
        let (status, ended) = run(&desk, &format!("exit {code}"))?;
        assert_eq!((status, ended.ended_by), (Some(code), EndedBy::Exit(code)));
        assert_eq!(ended.limits_reached, []);
    }
    Ok(())
}
