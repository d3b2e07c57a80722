//! Holes that other launchers had. `docs/holes.md` lists them with the test for each; here are those that no other suite
//! has.

use crate::jail::desk::Desk;
use crate::support::need::need;
use crate::support::user::UNPRIVILEGED_ID;
use crate::support::{PATIENCE, Stop, eventually};
use crate::tests;
use agentkit_protocol::{Bytes, FailureKind, Policy, WorkDir};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::{Command, Output, Stdio};

tests![
    the_launcher_as_interpreter,
    groups_of_the_launcher,
    capabilities_the_launcher_hands_on,
    names_that_somebody_else_has_taken,
    a_work_dir_by_way_of_a_process
];

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// Until the command is executed, `/proc/self/exe` is the launcher. If a script's first line makes the jail execute that,
/// there is a process in it through which the launcher's file can be written once it has ended.
fn the_launcher_as_interpreter() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script = desk.path("work/script");
    fs::write(&script, "#!/proc/self/exe\necho interpreted\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    symlink("/proc/self/exe", desk.path("work/link"))?;
    // A shell is its interpreter then, outside as inside.
    let bare =
        Command::new("/bin/sh").args(["-c", "exec ./script"]).current_dir(desk.path("work")).output()?;
    assert_eq!(bare.stdout, b"interpreted\n", "{bare:?}");
    let by_shell = desk.launch(&desk.policy("exec ./script"))?;
    assert_eq!(by_shell.stdout, b"interpreted\n", "{by_shell:?}");
    if !by_shell.started()?.read_back.landlock {
        return Err(Stop::Skip(
            "needs Landlock: without it the launcher runs in the jail, and only refuses".into(),
        ));
    }
    for name in ["./script", "./link", "/proc/self/exe", "/proc/1/exe"] {
        let run = desk.launch(&Policy { argv: vec![name.into(), "--version".into()], ..desk.policy("") })?;
        assert_eq!(run.failure()?.kind, FailureKind::NotExecutable, "{name}: {run:?}");
        assert!(run.status.code() == Some(126) && run.stdout.is_empty(), "{name}: {run:?}");
    }
    Ok(())
}

/// Root's other groups open files to root's jail that the user it becomes could not open.
fn groups_of_the_launcher() -> Result<(), Stop> {
    const GROUP: u32 = 4242;
    need("root")?;
    let desk = Desk::new()?;
    let file = desk.path("file");
    fs::write(&file, "of the group")?;
    chown(&file, None, Some(GROUP))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640))?;
    let file = file.to_string_lossy();
    let (id, group) = (UNPRIVILEGED_ID.to_string(), GROUP.to_string());
    let bare = Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--groups", &group, "cat", &file])
        .output()
        .map_err(|why| Stop::Skip(format!("no setpriv here: {why}")))?;
    assert_eq!(bare.stdout, b"of the group", "{bare:?}");
    let script = "id -G; cat \"$0\"";
    let member = ["setpriv".to_owned(), "--groups".to_owned(), group];
    let jailed = desk.call_under(&member, &["--ro", &file, "sh", "-c", script, &file], b"")?;
    assert!(text(&jailed).starts_with("1000\n") && text(&jailed).contains("Permission denied"), "{jailed:?}");
    Ok(())
}

/// What is inheritable survives the change of the user, and a program with file capabilities takes it up.
fn capabilities_the_launcher_hands_on() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    let own = ["--inh-caps=+chown,+kill", "--ambient-caps=+chown,+kill"];
    let grep = ["grep", "^Cap", "/proc/self/status"];
    let bare = Command::new("setpriv").args(own).args(grep).output();
    let bare = bare.map_err(|why| Stop::Skip(format!("no setpriv here: {why}")))?;
    if !bare.status.success() {
        return Err(Stop::Skip(format!("this root has no capabilities to hand on: {}", text(&bare))));
    }
    assert!(text(&bare).contains("CapInh:\t0000000000000021"), "{bare:?}");
    let wrapper: Vec<_> = ["setpriv"].iter().chain(&own).map(|word| (*word).to_owned()).collect();
    let jailed = desk.call_under(&wrapper, &grep, b"")?;
    let sets = text(&jailed);
    assert!(
        sets.lines().count() == 5 && sets.lines().all(|set| set.ends_with("\t0000000000000000")),
        "{sets}"
    );
    Ok(())
}

/// By such a name a jail of root's claims a user for itself. Anybody can take them all, and must not thereby keep root
/// from having jails, or give one of them the rights of root.
fn names_that_somebody_else_has_taken() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    let script = "import resource, socket, sys\n\
                  resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))\n\
                  sockets, taken = [], 0\n\
                  for uid in range(1900000000, 1900000000 + 4096):\n\
                  \tsockets.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))\n\
                  \ttry: sockets[-1].bind(f'\\0agentkit-jail/uid/{uid}')\n\
                  \texcept OSError: continue\n\
                  \ttaken += 1\n\
                  print(taken, flush=True)\n\
                  sys.stdin.read()";
    let mut squatter =
        Command::new("python3").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut said = String::new();
    if let Some(stdout) = squatter.stdout.take() {
        BufReader::new(stdout).read_line(&mut said)?;
    }
    let run = desk.launch(&desk.policy("echo ran"));
    drop(squatter.stdin.take());
    eventually("the names are free again", PATIENCE, || {
        squatter.try_wait().is_ok_and(|ended| ended.is_some())
    })?;
    // All but those of jails that ran just then.
    assert!(said.trim().parse::<u32>().is_ok_and(|taken| taken > 4000), "{said:?}");
    let run = run?;
    assert!(run.stdout == b"ran\n" && run.started()?.read_back.outer_uid >= 65_534, "{run:?}");
    Ok(())
}

/// Links of `/proc` lead where no path leads: to the launcher's own descriptors, to the root of somebody else.
fn a_work_dir_by_way_of_a_process() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let launch = |path: &str| {
        let workdir = WorkDir::Bind(Bytes::from(path));
        desk.launch_after(
            "exec 7</etc",
            &serde_json::to_vec(&Policy { workdir, ..desk.policy("pwd -P; ls") })?,
        )
    };
    for path in [
        "/proc/self/fd/7",
        "/dev/fd/7",
        "/proc/self/fd",
        "/proc/self/root",
        "/proc/self/root/etc",
        "/proc/1/root/etc",
    ] {
        let run = launch(path)?;
        assert!(run.status.code() == Some(125) && run.stdout.is_empty(), "{path}: {run:?}");
    }
    // Where it leads to a directory that could be named as well, it is that one.
    fs::write(desk.path("work/own"), "")?;
    let run = launch("/proc/self/cwd")?;
    assert!(String::from_utf8_lossy(&run.stdout).ends_with("/work\nown\n"), "{run:?}");
    Ok(())
}
