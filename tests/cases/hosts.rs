//! Hosts that allow less than one would think.

use crate::jail::desk::{Desk, json};
use crate::support::need::need;
use crate::support::seccomp::preloader;
use crate::support::{Stop, listener::Listener};
use crate::tests;
use agentkit_protocol::{Bytes, Choice, Control, FailureKind, Mechanism, Policy, Probe};
use std::fs;
use std::os::unix::fs::PermissionsExt;

tests![
    a_namespace_without_its_privileges,
    a_root_without_cap_sys_admin,
    a_temporary_directory_that_is_missing,
    a_temporary_directory_without_execution,
    a_loopback_of_its_own
];

const EACCES: u32 = 13;

/// Ubuntu since 23.10: the namespace is made, and the first mount in it is denied.
fn a_namespace_without_its_privileges() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let before = preloader(&[("mount", EACCES)]);
    let probe = desk.call_under(&before, &["--probe", "--json"], b"")?;
    let mut answer: Probe = serde_json::from_slice(&probe.stdout)?;
    let namespaces = answer.each.remove(&Mechanism::Namespaces);
    let failure =
        namespaces.and_then(|it| it.failure).ok_or_else(|| Stop::Fail("there is no reason".into()))?;
    assert_eq!((&failure.step[..], failure.kind, failure.errno), ("mounts", FailureKind::Host, Some(13)));
    assert!(failure.hint.is_some_and(|hint| hint.contains("AppArmor")), "{}", failure.message);
    let strict = Policy { require: [Control::FilesystemConfined].into(), ..desk.tracer() };
    let run = desk.call_under(&before, &[], &json(&strict)?)?;
    assert_eq!((run.status.code(), desk.ran()), (Some(125), false), "{run:?}");
    Ok(())
}

/// uid 0 of a container need not be able to mount anything outside a user namespace.
fn a_root_without_cap_sys_admin() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    let before = |path: &str| {
        ["env", &format!("PATH={path}/usr/bin:/bin"), "setpriv", "--bounding-set", "-sys_admin"]
            .map(str::to_owned)
    };
    // What lies in root's home takes what it lacks to be shown. Most commands do without.
    let home = desk.path("home");
    fs::create_dir_all(home.join("tool/bin"))?;
    fs::copy("/bin/true", home.join("tool/bin/tool"))?;
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700))?;
    let asked = |argv: &[&str]| {
        let argv = argv.iter().map(|word| Bytes::from(*word));
        json(&Policy { mechanism: Choice::Namespaces, ..Policy::new(argv) })
    };
    for path in [String::new(), format!("{}:", home.join("tool/bin").display())] {
        let before = before(&path);
        let scratch = desk.call_under(&before, &[], &asked(&["sh", "-c", "echo ran; id -u"])?)?;
        let said = (scratch.status.code(), &scratch.stdout[..]);
        assert_eq!(said, (Some(0), &b"ran\n1000\n"[..]), "{scratch:?}");
    }
    let closed =
        desk.call_under(&before(&format!("{}:", home.join("tool/bin").display())), &[], &asked(&["tool"])?)?;
    let message = String::from_utf8_lossy(&closed.stderr).into_owned();
    assert!(
        closed.status.code() == Some(125) && message.contains("tool/bin/tool\" is closed to"),
        "{closed:?}"
    );
    let before = before("");
    // So does mapping the owner of a host directory. It says so, and nothing changes hands on disk.
    let bound = desk.call_under(&before, &[], &json(&desk.tracer())?)?;
    let message = String::from_utf8_lossy(&bound.stderr).into_owned();
    assert_eq!((bound.status.code(), desk.ran()), (Some(125), false), "{bound:?}");
    assert!(message.contains(&desk.path("work").display().to_string()), "{message}");
    Ok(())
}

fn a_temporary_directory_that_is_missing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let run = desk.launch_after(
        "export TMPDIR=/nonexistent",
        &json(&desk.policy("mktemp && cd \"$TMPDIR\" && pwd"))?,
    )?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success() && text.lines().all(|line| line.starts_with("/tmp")), "{run:?}");
    Ok(())
}

/// The helper does not start from there, and what the command makes there can be executed.
fn a_temporary_directory_without_execution() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    let script = "exec unshare --mount --propagation private sh -c 'mount -t tmpfs -o noexec,mode=1777 t /tmp && exec \"$@\"' sh \"$@\"";
    let before = ["sh", "-c", script, "sh"].map(str::to_owned);
    let policy = desk.policy("cp /bin/true /tmp/own && /tmp/own && echo ran");
    let run = desk.call_under(&before, &[], &json(&policy)?)?;
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"ran\n"[..]), "{run:?}");
    Ok(())
}

/// A test suite binds and connects on 127.0.0.1, and meets nobody of the host's there.
fn a_loopback_of_its_own() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let listener = Listener::start()?;
    let script = "import socket, sys\nport = int(sys.argv[1])\nown = socket.create_server(('127.0.0.1', 0))\n\
                  socket.create_connection(own.getsockname(), 5).close()\n\
                  try: socket.create_connection(('127.0.0.1', port), 5)\nexcept ConnectionRefusedError: pass\n\
                  socket.create_server(('127.0.0.1', port))\nprint('both')";
    let run =
        desk.launch(&Policy::new(["python3", "-Ic", script, &listener.address().port().to_string()]))?;
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"both\n"[..]), "{run:?}");
    assert_eq!(listener.into_count()?, 0, "the host's listener was reached");
    Ok(())
}
