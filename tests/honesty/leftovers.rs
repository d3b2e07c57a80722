//! Nothing is left of a jail whose tree is kept together by an init without a namespace, whatever it leaves and whoever of
//! it is killed.

use crate::jail::desk::{Desk, json};
use crate::jail::stage::{ROOM_FOR_ALL, helper, unique};
use crate::support::{PATIENCE, Stop, eventually, processes, with_more_time};
use agentkit_protocol::{Bytes, Choice, Policy};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn policy(mechanism: Choice, script: &str) -> Policy {
    let mut policy = Policy { mechanism, ..Policy::new(["sh", "-c", script]) };
    policy.limits.wall_ms = 60_000;
    policy.limits.disk = ROOM_FOR_ALL;
    policy
}

/// The private directories of a launcher with this number.
pub(crate) fn private(launcher: u32) -> Vec<PathBuf> {
    let name = format!("agentkit-jail-{launcher}-");
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains(&name)).collect()
}

/// Daemons that hear no signal, a heap of processes that fork, and a tree that is hard to remove.
const LEAVE: &str = r#"
trap '' TERM HUP INT
mkdir -p "$HOME/a/b"; mkdir -m 0 "$HOME/a/closed"; ln -s / "$HOME/a/link"; mkfifo "$HOME/a/fifo"
for i in 1 2 3; do (setsid sh -c 'trap "" TERM HUP; (sleep 1000; :) & sleep 1000; :' &); done
f() { while :; do sleep 1000 & sleep 0; done; }
f 2>/dev/null &
echo ready; exec >&-
"#;

pub(crate) fn what_is_left_is_ended(desk: &Desk, mechanism: Choice) -> Result<(), Stop> {
    let marker = unique("left");
    let mut asked = policy(mechanism, LEAVE);
    asked.env.insert("MARKER".into(), Bytes::from(marker.as_str()));
    asked.limits.processes = 24;
    let run = desk.launch(&asked)?;
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"ready\n"[..]), "{run:?}");
    assert_eq!(processes::with_marker(&marker), [0; 0]);
    Ok(())
}

/// A jail under way, found by a marker in the environment of its processes; its launcher has none.
fn under_way(desk: &Desk, mechanism: Choice, marker: &str) -> Result<Child, Stop> {
    let mut asked = policy(mechanism, &format!("{LEAVE}\nexec sleep 1000"));
    asked.env.insert("MARKER".into(), Bytes::from(marker));
    asked.limits.processes = 24;
    fs::write(desk.path("policy"), json(&asked)?)?;
    // Whoever else has processes of this user just now may keep these from being made.
    with_more_time(Duration::from_secs(5), |time| {
        let input = fs::File::open(desk.path("policy"))?;
        let mut launcher = Command::new(helper());
        let mut launcher = launcher.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        if eventually("the command runs", time, || processes::with_marker(marker).len() > 6).is_ok() {
            return Ok(Some(launcher));
        }
        launcher.kill()?;
        launcher.wait()?;
        eventually("nothing of it is alive", PATIENCE, || processes::with_marker(marker).is_empty())?;
        Ok(None)
    })
}

pub(crate) fn whoever_of_the_jail_is_killed(desk: &Desk, mechanism: Choice) -> Result<(), Stop> {
    fs::set_permissions(desk.path("outputs"), fs::Permissions::from_mode(0o755))?;
    for init in [false, true] {
        let marker = unique("killed");
        let mut launcher = under_way(desk, mechanism, &marker)?;
        let killed = if init { init_of(&launcher, &marker)? } else { launcher.id() };
        signal(killed, Signal::SIGKILL)?;
        let status = launcher.wait()?;
        is_gone(&launcher, &marker)?;
        assert!(!status.success(), "{status:?}");
    }
    Ok(())
}

/// It is stopped once, or time and again.
pub(crate) fn an_init_that_is_stopped_is_not_waited_for(
    desk: &Desk,
    mechanism: Choice,
    again: bool,
) -> Result<(), Stop> {
    fs::set_permissions(desk.path("outputs"), fs::Permissions::from_mode(0o755))?;
    let marker = unique("stopped");
    let mut launcher = under_way(desk, mechanism, &marker)?;
    let init = init_of(&launcher, &marker)?;
    signal(init, Signal::SIGSTOP)?;
    // By this the supervisor ends it all at once.
    signal(launcher.id(), Signal::SIGUSR1)?;
    let mut status = None;
    eventually("the launcher ends", PATIENCE, || {
        if again {
            // It may be gone.
            drop(signal(init, Signal::SIGSTOP));
        }
        status = launcher.try_wait().ok().flatten();
        status.is_some()
    })?;
    is_gone(&launcher, &marker)?;
    assert_eq!(status.and_then(|status| status.code()), Some(128 + Signal::SIGUSR1 as i32));
    Ok(())
}

fn signal(process: u32, signal: Signal) -> Result<(), Stop> {
    Ok(kill(Pid::from_raw(process.cast_signed()), signal).map_err(std::io::Error::from)?)
}

fn init_of(launcher: &Child, marker: &str) -> Result<u32, Stop> {
    let command = processes::with_marker(marker);
    let mut parents = command.iter().filter_map(|pid| processes::parent(*pid));
    let init = parents.find(|pid| processes::parent(*pid) == Some(launcher.id()));
    init.ok_or_else(|| Stop::Fail("the jail has no init".into()))
}

fn is_gone(launcher: &Child, marker: &str) -> Result<(), Stop> {
    eventually("nothing of it is alive", PATIENCE, || processes::with_marker(marker).is_empty())?;
    eventually("its directory is gone", PATIENCE, || private(launcher.id()).is_empty())
}
