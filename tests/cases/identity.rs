//! Who the command is, and what it finds where it expects something of its own.

use crate::jail::desk::Desk;
use crate::jail::stage::helper;
use crate::support::need::need;
use crate::support::user::UNPRIVILEGED_ID;
use crate::support::{PATIENCE, Stop, eventually};
use crate::tests;
use agentkit_protocol::{Bytes, Event, Policy, WorkDir};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

tests![
    a_home_that_can_be_written,
    a_command_of_root_is_an_ordinary_user,
    a_command_of_root_is_nobody_elses_user,
    a_repository_of_another_user,
    a_socket_in_a_deep_directory
];

/// Root's jails are this user where the pool of uids is not mapped.
const NOBODY: u32 = 65534;

fn a_home_that_can_be_written() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script = "mkdir -p ~/.cache/x && : > ~/.cache/x/y && cd && pwd && echo \"$HOME\"";
    let run = desk.launch(&desk.policy(script))?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(run.status.success() && lines.len() == 2 && lines[0] == lines[1], "{run:?}");
    // It is the jail's, and the launcher's is not there.
    let home = std::env::var("HOME").unwrap_or_default();
    assert!(lines[0] != home && !fs::exists(format!("{}/.cache/x/y", lines[0]))?, "{text}");
    Ok(())
}

/// Neither root, for whom `tar` restores owners and fails, nor the overflow id, whose files seem to be everybody's.
fn a_command_of_root_is_an_ordinary_user() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    fs::write(desk.path("work/file"), "of a user")?;
    fs::write(desk.path("work/foreign"), "of another")?;
    for (name, id) in [("work", UNPRIVILEGED_ID), ("work/file", UNPRIVILEGED_ID), ("work/foreign", 4321)] {
        lchown(desk.path(name), Some(id), Some(id))?;
    }
    let script = "id -u && id -g && whoami && stat -c %u file foreign && tar cf t.tar --owner=4321 --group=4321 file && \
                  mkdir out && tar xf t.tar -C out && stat -c %u out/file";
    let run = desk.launch(&desk.policy(script))?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines, ["1000", "1000", "jail", "1000", "65534", "1000"], "{run:?}");
    // Outside it belongs to whom the directory belongs to.
    assert_eq!(fs::metadata(desk.path("work/out/file"))?.uid(), UNPRIVILEGED_ID);
    Ok(())
}

/// What a jail left behind, or one that is claimed in another network namespace, can have the uid that comes next.
fn a_command_of_root_is_nobody_elses_user() -> Result<(), Stop> {
    need("root")?;
    Desk::new()?;
    let mut last = (0, 0);
    // Another test takes all names of the pool for a moment.
    let is_first = eventually("it is the first", PATIENCE, || {
        last = outer_uid_beside(|_| Ok(None)).unwrap_or_default();
        last.1 == NOBODY || last.0 == last.1 && last.0 != 0
    });
    if last.1 == NOBODY {
        return Err(Stop::Skip("needs more ids than this container has".into()));
    }
    is_first?;
    // It has begun by the time that this returns.
    let (taken, found) = outer_uid_beside(|uid| {
        Ok(Some(Command::new("cat").uid(uid).gid(uid).stdin(Stdio::piped()).spawn()?))
    })?;
    assert!(found != taken && found != NOBODY, "{found} beside a process of {taken}");
    Ok(())
}

/// The uid that the launch comes to first, for it goes by its own number, and the one that it has beside `other`.
fn outer_uid_beside(other: impl Fn(u32) -> io::Result<Option<Child>>) -> Result<(u32, u32), Stop> {
    let script = "read go; exec \"$0\" --report-fd 3 -- true 3>&1";
    let mut launcher = Command::new("sh");
    launcher.args(["-c", script]).arg(helper()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut launcher = launcher.spawn()?;
    let first = 1_900_000_000 + launcher.id() % 4096;
    let other = other(first);
    drop(launcher.stdin.take().map(|mut pipe| pipe.write_all(b"go\n")));
    let output = launcher.wait_with_output()?;
    if let Some(mut other) = other? {
        drop(other.stdin.take());
        other.wait()?;
    }
    match serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Event>().next() {
        Some(Ok(Event::Started(started))) => Ok((first, started.read_back.outer_uid)),
        _ => Err(Stop::Fail(format!("no start: {output:?}"))),
    }
}

/// Git refuses to work in a repository that is somebody else's. Nobody else can enter this one, either.
fn a_repository_of_another_user() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    lchown(desk.path("work"), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID))?;
    let made = Command::new("setpriv")
        .args(["--reuid", &UNPRIVILEGED_ID.to_string(), "--clear-groups", "git", "init", "-q"])
        .current_dir(desk.path("work"))
        .env("HOME", desk.path("work"))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return Err(Stop::Skip("git is not installed".into()));
    }
    fs::set_permissions(desk.path("work"), fs::Permissions::from_mode(0o700))?;
    let run = desk.launch(&desk.policy("git status --porcelain && git config core.bare"))?;
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"false\n"[..]), "{run:?}");
    Ok(())
}

/// The address of a unix socket has 108 bytes. The jail's own directories are short, whatever the launcher's are.
fn a_socket_in_a_deep_directory() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let deep = desk.path("work").join("d".repeat(100)).join("e".repeat(100));
    fs::create_dir_all(&deep)?;
    let script = "import os, socket, tempfile\n\
                  for where in ('socket', os.path.join(tempfile.mkdtemp(), 'socket')):\n\
                  \tserver = socket.socket(socket.AF_UNIX)\n\tserver.bind(where)\n\tserver.listen()\n\
                  \tsocket.socket(socket.AF_UNIX).connect(where)\n\tprint('connected')";
    let policy = Policy {
        workdir: WorkDir::Bind(Bytes::from(deep.clone())),
        ..Policy::new(["python3", "-Ic", script])
    };
    let launcher = format!("export TMPDIR='{}'", deep.display());
    let run = desk.launch_after(&launcher, &crate::jail::desk::json(&policy)?)?;
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"connected\nconnected\n"[..]), "{run:?}");
    Ok(())
}
