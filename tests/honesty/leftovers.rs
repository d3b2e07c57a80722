//! Nothing is left of a jail whose tree is kept together by an init without a namespace, whatever it leaves and whoever of
//! it is killed.

use crate::jail::desk::{Desk, json};
use crate::jail::stage::{helper, unique};
use crate::support::{PATIENCE, Stop, eventually, processes, with_more_time};
use agentkit_protocol::{Bytes, Choice, Policy};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn policy(mechanism: Choice, script: &str) -> Policy {
    let mut policy = Policy { mechanism, ..Policy::new(["sh", "-c", script]) };
    policy.limits.wall_ms = 60_000;
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
        let command = processes::with_marker(&marker);
        let parent = command.iter().filter_map(|pid| processes::parent(*pid));
        let inits: Vec<u32> = parent.filter(|pid| processes::parent(*pid) == Some(launcher.id())).collect();
        let killed = if init { inits[0] } else { launcher.id() };
        Command::new("kill").args(["-KILL", &killed.to_string()]).status()?;
        let status = launcher.wait()?;
        eventually("nothing of it is alive", PATIENCE, || processes::with_marker(&marker).is_empty())?;
        eventually("its directory is gone", PATIENCE, || private(launcher.id()).is_empty())?;
        assert!(!status.success(), "{status:?}");
    }
    Ok(())
}
