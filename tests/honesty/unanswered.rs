//! A file system that does not answer, such as a sshfs whose other end is gone, is the command's trouble and nobody else's: the
//! supervisor, who is asked to change modes and times in there, does not wait for it.

use crate::jail::desk::{Desk, json};
use crate::support::{Stop, need::need, user::UNPRIVILEGED_ID};
use agentkit_protocol::{Access, Bytes, Choice, Mechanism, Policy, Probe, Rule, WorkDir};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Before the helper, as an ordinary user: a FUSE mount that nobody serves. It is there as long as the shell, and whoever waits for it.
const MOUNT: &str = r#"exec 3<>/dev/fuse
    mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0,allow_other hung "$DEAD" || exit 99
    PATH=/usr/bin:/bin setpriv --reuid="$ID" --regid="$ID" --clear-groups timeout --signal=KILL 20 "$0" "$@" 3<&-"#;

/// All calls that are asked about, by path, from a directory, by a link and by a descriptor.
const ASK: &str = r#"
import os, sys
dead, work, all_times = sys.argv[1], sys.argv[2], sys.argv[3] == "times"
os.symlink(dead, "link")
place = os.open(dead, os.O_PATH)
ways = {
    "path": lambda: os.chmod(dead + "/x", 0o2755),
    "link": lambda: os.chmod("link/x", 0o2755),
    "itself": lambda: os.chmod(dead, 0o2755),
    "directory": lambda: os.chmod("x", 0o2755, dir_fd=place),
    "descriptor": lambda: os.fchmod(place, 0o2755),
}
if all_times:
    ways["times"] = lambda: os.utime(dead + "/x")
    ways["times of the link"] = lambda: os.utime("link")
for name, way in ways.items():
    try:
        way()
        print("done", name)
    except PermissionError:
        pass
os.mkdir("d")
os.chmod("d", 0o2755)
os.chmod(work + "/../work/d", 0o2750)
print(oct(os.stat("d").st_mode & 0o7777))
"#;

pub(crate) fn nobody_waits_for_a_file_system_that_does_not_answer() -> Result<(), Stop> {
    need("root")?;
    need("python")?;
    if fs::File::open("/dev/fuse").is_err() {
        return Err(Stop::Skip("the host has no /dev/fuse".into()));
    }
    let desk = Desk::anywhere()?;
    std::os::unix::fs::chown(desk.path("work"), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID))?;
    let probe: Probe = serde_json::from_slice(&desk.call(&["--probe", "--json"], b"")?.stdout)?;
    for (choice, mechanism) in [
        (Choice::Namespaces, Mechanism::Namespaces),
        (Choice::Bubblewrap, Mechanism::Bubblewrap),
        (Choice::Landlock, Mechanism::Landlock),
        (Choice::Rlimits, Mechanism::Rlimits),
    ] {
        if probe.each.get(&mechanism).is_none_or(|it| it.failure.is_some()) {
            continue;
        }
        let (shown, work) = (desk.path("outputs").join(mechanism.to_string()), desk.path("work"));
        let dead = shown.join("dead");
        fs::create_dir_all(&dead)?;
        for place in [&desk.path("outputs"), &shown, &dead] {
            fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
        }
        let text = |path: &std::path::Path| Bytes::from(path.to_path_buf());
        let without_namespaces = matches!(choice, Choice::Landlock | Choice::Rlimits);
        let times = if without_namespaces { "times" } else { "" };
        let mut asked = Policy { mechanism: choice, ..Policy::new(["python3", "-c", ASK]) };
        asked.argv.extend([text(&dead), text(&work), times.into()]);
        asked.workdir = WorkDir::Bind(text(&work));
        asked.limits.wall_ms = 10_000;
        asked.limits.disk = crate::jail::stage::ROOM_FOR_ALL;
        if choice != Choice::Rlimits {
            asked.rules = vec![Rule { path: text(&shown), access: Access::Ro }];
        }
        let settings = [format!("DEAD={}", dead.display()), format!("ID={UNPRIVILEGED_ID}")];
        let under = ["unshare", "--mount", "env", &settings[0], &settings[1], "sh", "-c", MOUNT];
        let under = under.map(str::to_owned);
        let run = desk.call_under(&under, &[], &json(&asked)?)?;
        assert_eq!(
            (run.status.code(), String::from_utf8_lossy(&run.stdout).as_ref()),
            (Some(0), "0o2750\n"),
            "{mechanism}: {run:?}"
        );
        fs::remove_dir(work.join("d"))?;
        fs::remove_file(work.join("link"))?;
    }
    Ok(())
}
