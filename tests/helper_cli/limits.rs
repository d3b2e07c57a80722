//! Limits that are met by harmless programs, and the launcher's own.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::support::Stop;
use crate::tests;
use agentkit_protocol::{Bytes, EndedBy, Limit, Policy, Probe, WorkDir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;

tests![
    a_file_size_limit_is_named,
    a_process_limit_is_named,
    a_processor_limit_is_named,
    the_launchers_own_limits_are_named,
    the_smallest_limit_of_open_files_binds_the_command_alone,
    other_processes_of_the_launcher_do_not_count,
    node_starts_within_512_megabytes,
    java_starts_within_512_megabytes,
    go_starts_within_512_megabytes
];

/// SIGXFSZ kills without words, and a shell says no more than a number.
fn a_file_size_limit_is_named() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let limit_of = |script: &str| {
        let mut policy = desk.policy(script);
        policy.limits.file_size = 1 << 20;
        desk.launch(&policy)
    };
    let alone = limit_of("exec head -c 9M /dev/zero > f")?;
    assert_eq!(alone.ended()?.ended_by, EndedBy::Signal(25), "{alone:?}");
    let in_shell = limit_of("head -c 9M /dev/zero > f; exit $?")?;
    assert_eq!(in_shell.ended()?.ended_by, EndedBy::Exit(153), "{in_shell:?}");
    for run in [alone, in_shell] {
        let (ended, said) = (run.ended()?, text(&run.stderr));
        assert!(
            said.contains("died of SIGXFSZ at a file size limit of 1048576 bytes (see --file-size)\n"),
            "{said}"
        );
        assert!(ended.limits_reached.iter().any(|reached| reached.limit == Limit::FileSize), "{ended:?}");
    }
    assert_eq!(desk.path("work/f").metadata()?.len(), 1 << 20);
    Ok(())
}

/// Also if the command ends as soon as it meets it, which no look from outside is fast enough for.
fn a_process_limit_is_named() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let with_children = |number: u64| {
        let mut policy = desk.policy("i=0; while [ $i -lt $0 ]; do sleep 60 & i=$((i+1)); done");
        policy.argv.push(Bytes::from(number.to_string().as_bytes()));
        policy.limits.processes = 10;
        desk.launch(&policy)
    };
    for (number, is_met) in [(5, false), (12, true)] {
        let ended = with_children(number)?.ended()?;
        let met = ended.limits_reached.iter().any(|reached| reached.limit == Limit::Processes);
        assert_eq!(met, is_met, "{number}: {ended:?}");
    }
    Ok(())
}

fn a_processor_limit_is_named() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut policy = desk.policy("exec sh -c 'while :; do :; done'");
    policy.limits.cpu_seconds = 1;
    let run = desk.launch(&policy)?;
    let (ended, said) = (run.ended()?, text(&run.stderr));
    // On a busy host we can be first.
    assert!(matches!(ended.ended_by, EndedBy::Signal(24) | EndedBy::Cpu), "{ended:?}");
    assert!(said.contains("limit of 1 s (see --cpu)\n"), "{said}");
    assert!(ended.limits_reached.iter().any(|reached| reached.limit == Limit::Cpu), "{ended:?}");
    Ok(())
}

fn the_launchers_own_limits_are_named() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy = desk.policy("ulimit -n");
    // Shells name it differently.
    let before = "ulimit -n 100; ulimit -v 4000000; ulimit -s 4096; ulimit -S -u 5000 2> /dev/null || ulimit -S -p 5000";
    let run = desk.launch_after(before, &json(&policy)?)?;
    assert_eq!((run.status.code(), text(&run.stdout)), (Some(0), "100\n".to_owned()));
    let state = run.started()?.read_back;
    assert_eq!(state.rlimits["nofile"], 100);
    let own = [("as", 4_000_000 << 10), ("nofile", 100), ("nproc", 5000), ("stack", 4 << 20)];
    assert_eq!(state.launchers_limits, own.map(|(name, value)| (name.to_owned(), value)).into());
    Ok(())
}

/// What sets it up opens more, and what it tries must not fail for want of a descriptor.
fn the_smallest_limit_of_open_files_binds_the_command_alone() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let probe: Probe = serde_json::from_slice(&desk.call(&["--probe", "--json"], b"")?.stdout)?;
    for (mechanism, _) in probe.each.iter().filter(|(_, it)| it.mechanism.is_some()) {
        let mut policy = Policy::new(["/bin/sh", "-c", "ulimit -Sn; ulimit -Hn"]);
        (policy.limits.open_files, policy.mechanism) = (5, (*mechanism).into());
        let run = desk.launch(&policy)?;
        assert_eq!(
            (run.status.code(), text(&run.stdout)),
            (Some(0), "5\n5\n".to_owned()),
            "{mechanism}: {run:?}"
        );
        let started = run.started()?;
        assert_eq!(started.read_back.rlimits["nofile"], 5);
        assert_eq!(started.capabilities, probe.each[mechanism], "{mechanism}");
    }
    Ok(())
}

/// Somebody with 300 processes of their own gets as many in the jail as somebody without.
fn other_processes_of_the_launcher_do_not_count() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let others = "for at in $(seq 300); do sleep 60 > /dev/null 2>&1 & echo $!; done > ../sleepers";
    let mut policy = desk.policy("for at in $(seq 40); do sleep 60 & done; echo all; kill $(jobs -p); wait");
    policy.limits.processes = 64;
    let run = desk.launch_after(others, &json(&policy)?)?;
    let sleepers = std::fs::read_to_string(desk.path("sleepers"))?;
    for pid in sleepers.split_whitespace().filter_map(|pid| pid.parse().ok()) {
        kill(Pid::from_raw(pid), Signal::SIGKILL)?;
    }
    assert_eq!(sleepers.lines().count(), 300);
    assert_eq!(text(&run.stdout), "all\n", "{run:?}");
    assert!(run.ended()?.usage.peak_processes <= 64, "{run:?}");
    Ok(())
}

/// Their run times reserve far more than they use, so that a limit on address space would end them.
fn starts(program: &str, arguments: &[&str]) -> Result<(), Stop> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| Path::new(&directory).join(program).exists()) {
        return Err(Stop::Skip(format!("there is no {program} here")));
    }
    let desk = Desk::new()?;
    let argv = [program].into_iter().chain(arguments.iter().copied());
    let mut policy = Policy { workdir: WorkDir::Scratch, ..Policy::new(argv) };
    policy.limits.memory = 512 << 20;
    let run = desk.launch(&policy)?;
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    Ok(())
}

fn node_starts_within_512_megabytes() -> Result<(), Stop> {
    starts("node", &["-e", "1"])
}

fn java_starts_within_512_megabytes() -> Result<(), Stop> {
    starts("java", &["-version"])
}

fn go_starts_within_512_megabytes() -> Result<(), Stop> {
    starts("go", &["version"])
}
