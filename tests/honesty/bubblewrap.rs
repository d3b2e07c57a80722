//! The mechanism `bubblewrap` by itself, where there is one: what it claims, what it refuses, and that nothing is left of it.

use crate::jail::desk::Desk;
use crate::jail::stage::{helper, unique};
use crate::support::{Stop, eventually, processes};
use agentkit_protocol::{
    Bytes, Choice, Commit, Control, FailureKind, Mechanism, Net, Policy, Probe, Watch, WorkDir,
};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A test by its name.
type Named = (&'static str, fn() -> Result<(), Stop>);

pub(crate) const TESTS: &[Named] = &[
    ("a_probe_claims_what_a_run_reads_back", a_probe_claims_what_a_run_reads_back),
    ("what_it_cannot_do_is_refused_by_name", what_it_cannot_do_is_refused_by_name),
    ("a_work_dir_of_the_host_is_written_as_its_owner", a_work_dir_of_the_host_is_written_as_its_owner),
    ("a_program_that_others_can_change_is_not_run", a_program_that_others_can_change_is_not_run),
    ("nothing_outlives_its_launcher", nothing_outlives_its_launcher),
];

fn policy(script: &str) -> Policy {
    Policy { mechanism: Choice::Bubblewrap, ..Policy::new(["sh", "-c", script]) }
}

fn probe(desk: &Desk) -> Result<Probe, Stop> {
    Ok(serde_json::from_slice(&desk.call(&["--probe", "--json"], b"")?.stdout)?)
}

/// Where there is one that works.
fn desk() -> Result<Desk, Stop> {
    let desk = Desk::anywhere()?;
    match probe(&desk)?.each.get(&Mechanism::Bubblewrap).and_then(|it| it.failure.as_ref()) {
        Some(failure) => Err(Stop::Skip(failure.to_string())),
        None => Ok(desk),
    }
}

fn a_probe_claims_what_a_run_reads_back() -> Result<(), Stop> {
    let desk = desk()?;
    let run = desk.launch(&policy("cat; echo x >/tmp/x && ! echo x >/x; test \"$(ls /proc/cpuinfo)\" = /proc/cpuinfo; ! cat /proc/cpuinfo"))?;
    let started = run.started()?;
    assert_eq!(started.capabilities, probe(&desk)?.each[&Mechanism::Bubblewrap]);
    assert_eq!((started.mechanism, run.status.code()), (Mechanism::Bubblewrap, Some(0)), "{run:?}");
    let state = started.read_back;
    assert_eq!((state.no_new_privs, state.seccomp_mode, state.capabilities), (true, 2, 0));
    assert_eq!(state.own_namespaces, ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]);
    assert!(state.outer_uid != 0 && state.loopback, "{state:?}");
    assert!(started.capabilities.level(Control::FilesystemConfined).is_full());
    assert!(!started.capabilities.level(Control::DiskLimited).is_full());
    let offline = desk.launch(&Policy { net: Net::None, ..policy("true") })?.started()?;
    assert!(!offline.read_back.loopback && offline.capabilities.level(Control::NetworkBlocked).is_full());
    Ok(())
}

fn what_it_cannot_do_is_refused_by_name() -> Result<(), Stop> {
    let desk = desk()?;
    let work = Bytes::from(desk.path("work"));
    let refused = |asked: &Policy, what: &str| -> Result<(), Stop> {
        let run = desk.launch(asked)?;
        let failure = run.failure()?;
        assert_eq!((failure.kind, run.stdout.len()), (FailureKind::Host, 0), "{what}: {failure}");
        assert!(failure.message.contains(what) && failure.hint.is_some(), "{what}: {failure}");
        Ok(())
    };
    let overlay = WorkDir::Overlay { path: work.clone(), commit: Commit::Never };
    refused(&Policy { workdir: overlay, ..policy("echo ran") }, "overlay")?;
    let watch = Watch { paths: vec!["/secret/key".into()], ..Watch::default() };
    refused(&Policy { watch, ..policy("echo ran") }, "watch.paths")?;
    let watch = Watch { tcp_ports: vec![80], ..Watch::default() };
    refused(&Policy { watch, ..policy("echo ran") }, "watch.tcp_ports")?;
    for part in ["hooks", "objects", "refs"] {
        fs::create_dir_all(desk.path("work/.git").join(part))?;
    }
    fs::write(desk.path("work/.git/HEAD"), "ref: refs/heads/x\n")?;
    refused(&Policy { workdir: WorkDir::Bind(work), ..policy("echo ran") }, "git")
}

fn a_work_dir_of_the_host_is_written_as_its_owner() -> Result<(), Stop> {
    let desk = desk()?;
    let asked = Policy { mechanism: Choice::Bubblewrap, ..desk.policy("echo x >new && stat -c %u new .") };
    let run = desk.launch(&asked)?;
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"1000\n1000\n"[..]), "{run:?}");
    let owner = |name| fs::metadata(desk.path(name)).map(|it| std::os::unix::fs::MetadataExt::uid(&it));
    assert_eq!(owner("work/new")?, owner("work")?);
    Ok(())
}

/// Neither by a variable nor by what a jail has written.
fn a_program_that_others_can_change_is_not_run() -> Result<(), Stop> {
    let desk = desk()?;
    let planted = desk.path("work/bwrap");
    fs::write(&planted, "#!/bin/sh\ntouch \"${0%/*}/planted\"\n")?;
    fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    let before = ["sh", "-c", "PATH=\"$0:$PATH\" exec \"$@\"", &desk.path("work").to_string_lossy()]
        .map(str::to_owned);
    let run = desk.call_under(&before, &["--mechanism", "bubblewrap", "--", "echo", "ran"], b"")?;
    assert!(run.stdout == b"ran\n" && !desk.path("work/planted").exists(), "{run:?}");
    Ok(())
}

fn nothing_outlives_its_launcher() -> Result<(), Stop> {
    let _desk = desk()?;
    let marker = unique("bubblewrap-left");
    let script = "setsid sleep 1000 & sleep 1000 & exec sleep 1000";
    let mut launcher = Command::new(helper())
        .args(["--mechanism", "bubblewrap", "--env", &format!("MARKER={marker}"), "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .spawn()?;
    eventually("the command runs", Duration::from_secs(10), || processes::with_marker(&marker).len() > 2)?;
    launcher.kill()?;
    launcher.wait()?;
    eventually("all of it is gone", Duration::from_secs(10), || processes::with_marker(&marker).is_empty())
}
