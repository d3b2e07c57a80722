//! The tests of what the other suites rely on: a helper that sees nothing would let every attack pass.

#[path = "support/mod.rs"]
mod support;

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use support::listener::{Listener, PAGE};
use support::need::{judge, need};
use support::outside::Snapshot;
use support::{
    Stop, eventually, processes, seccomp, sometimes_within, temp_dir, trial, user, with_more_time,
    write_program,
};

fn main() -> ExitCode {
    support::run(vec![
        trial("a_missing_ability_is_a_skip", a_missing_ability_is_a_skip),
        trial("a_required_ability_that_is_missing_fails", a_required_ability_that_is_missing_fails),
        trial("unknown_abilities_fail", unknown_abilities_fail),
        trial("a_new_file_is_seen", a_new_file_is_seen),
        trial("a_new_mount_is_seen", a_new_mount_is_seen),
        trial("processes_are_found_by_marker", processes_are_found_by_marker),
        trial("connections_are_counted", connections_are_counted),
        trial("the_listener_answers_web_requests", the_listener_answers_web_requests),
        trial("waiting_ends", waiting_ends),
        trial("tries_end", tries_end),
        trial("the_preloader_forbids_what_it_names", the_preloader_forbids_what_it_names),
        trial("user_namespaces_can_be_forbidden", user_namespaces_can_be_forbidden),
        trial("a_command_runs_without_privileges", a_command_runs_without_privileges),
    ])
}

fn a_missing_ability_is_a_skip() -> Result<(), Stop> {
    let found = judge("python", "userns, seccomp", Err("it is not here".into()));
    assert!(matches!(found, Err(Stop::Skip(reason)) if reason == "needs python: it is not here"));
    Ok(())
}

fn a_required_ability_that_is_missing_fails() -> Result<(), Stop> {
    let found = judge("python", "userns, python", Err("it is not here".into()));
    assert!(
        matches!(found, Err(Stop::Fail(reason)) if reason.contains("demands python, but it is not here"))
    );
    judge("python", "userns, python", Ok(()))
}

fn unknown_abilities_fail() -> Result<(), Stop> {
    assert!(matches!(need("phyton"), Err(Stop::Fail(_))));
    assert!(matches!(judge("python", "phyton", Ok(())), Err(Stop::Fail(_))));
    Ok(())
}

fn a_new_file_is_seen() -> Result<(), Stop> {
    let directory = temp_dir()?;
    std::fs::write(directory.path().join("old"), "")?;
    let before = Snapshot::take(&[directory.path()])?;
    std::fs::write(directory.path().join("new"), "")?;
    let added: Vec<String> = before.added()?.into_iter().filter(|line| line.starts_with("file")).collect();
    assert_eq!(added, [format!("file {}", directory.path().join("new").display())]);
    Ok(())
}

fn a_new_mount_is_seen() -> Result<(), Stop> {
    need("userns")?;
    // In a mount namespace of its own, where a second copy of this program would have to look: so only the table is
    // compared, before and after one mount.
    let script = "cat /proc/self/mountinfo; echo; mount -t tmpfs none /mnt; cat /proc/self/mountinfo";
    let output = Command::new("unshare").args(["-Urm", "sh", "-c", script]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (before, after) = text.split_once("\n\n").ok_or(Stop::Fail(text.clone()))?;
    let before = support::outside::mounts(before);
    let added: Vec<String> = support::outside::mounts(after).difference(&before).cloned().collect();
    assert!(matches!(&added[..], [one] if one.starts_with("mount ") && one.ends_with(" /mnt")), "{added:?}");
    Ok(())
}

fn processes_are_found_by_marker() -> Result<(), Stop> {
    if !Path::new("/proc/self/cmdline").exists() {
        return Err(Stop::Skip("needs /proc".into()));
    }
    let marker = format!("support-marker-{}", std::process::id());
    assert_eq!(processes::with_marker(&marker), []);
    // Started, and past its exec, once it has said a word; it ends when its input does.
    let mut by_name = talker(Command::new("sh").args(["-c", "echo; read end", &marker]))?;
    let mut by_environment =
        talker(Command::new("sh").args(["-c", "echo; read end"]).env("MARKER", &marker))?;
    let mut expected = vec![by_name.id(), by_environment.id()];
    let mut found = processes::with_marker(&marker);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    for child in [&mut by_name, &mut by_environment] {
        drop(child.stdin.take());
        child.wait()?;
    }
    assert_eq!(processes::with_marker(&marker), []);
    Ok(())
}

fn talker(command: &mut Command) -> Result<Child, Stop> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.as_mut().ok_or(Stop::Fail("no pipe".into()))?;
    output.read_exact(&mut [0])?;
    Ok(child)
}

fn connections_are_counted() -> Result<(), Stop> {
    assert_eq!(Listener::start()?.into_count()?, 0);
    let listener = Listener::start()?;
    for _ in 0..3 {
        // Gone before it is accepted, and without a word: still a connection.
        drop(TcpStream::connect(listener.address())?);
    }
    assert_eq!(listener.into_count()?, 3);
    Ok(())
}

fn the_listener_answers_web_requests() -> Result<(), Stop> {
    let listener = Listener::start()?;
    let mut stream = TcpStream::connect(listener.address())?;
    std::io::Write::write_all(&mut stream, b"GET / HTTP/1.0\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    assert!(reply.starts_with("HTTP/1.0 200 ") && reply.ends_with(PAGE), "{reply}");
    assert_eq!(listener.into_count()?, 1);
    Ok(())
}

fn waiting_ends() -> Result<(), Stop> {
    let never = eventually("pigs fly", Duration::from_millis(5), || false);
    assert!(matches!(never, Err(Stop::Fail(reason)) if reason.ends_with("pigs fly")));
    let mut looks = 0;
    eventually("a third look", Duration::from_secs(60), || {
        looks += 1;
        looks == 3
    })
}

/// What always takes as long fails, and what comes to no point however long it gets; what is slow but once does not.
fn tries_end() -> Result<(), Stop> {
    let (mut tries, long) = (0, Duration::from_millis(2));
    let always = sometimes_within(long, || {
        tries += 1;
        std::thread::sleep(long);
        Ok(())
    });
    assert!(matches!(always, Err(Stop::Fail(_))) && tries == 10);
    sometimes_within(long * 100, || {
        tries += 1;
        std::thread::sleep(if tries == 11 { long * 100 } else { Duration::ZERO });
        Ok(())
    })?;
    let mut times = Vec::new();
    let never = with_more_time(long, |time| {
        times.push(time);
        Ok(None::<()>)
    });
    assert!(matches!(never, Err(Stop::Fail(reason)) if reason.ends_with("within 128ms")));
    assert_eq!(times, [1, 4, 16, 64].map(|more| long * more));
    assert_eq!(with_more_time(long, |time| Ok((time > long).then_some(time)))?, long * 4);
    Ok(())
}

fn the_preloader_forbids_what_it_names() -> Result<(), Stop> {
    need("seccomp")?;
    need("python")?;
    let script =
        "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); l.unshare(0); print(ctypes.get_errno())";
    let run = |prefix: Vec<String>| {
        Command::new(&prefix[0]).args(&prefix[1..]).args(["python3", "-c", script]).output()
    };
    let forbidden = run(seccomp::preloader(&[("unshare", seccomp::ENOSYS)]))?;
    assert_eq!(String::from_utf8_lossy(&forbidden.stdout), "38\n", "{forbidden:?}");
    let other = run(seccomp::preloader(&[("setns", seccomp::ENOSYS)]))?;
    assert_eq!(String::from_utf8_lossy(&other.stdout), "0\n", "{other:?}");
    Ok(())
}

fn user_namespaces_can_be_forbidden() -> Result<(), Stop> {
    need("userns")?;
    need("seccomp")?;
    need("python")?;
    let prefix = seccomp::without_user_namespaces();
    let under = |words: &[&str]| Command::new(&prefix[0]).args(&prefix[1..]).args(words).output();
    let unshare = under(&["unshare", "--user", "true"])?;
    assert!(!unshare.status.success() && String::from_utf8_lossy(&unshare.stderr).contains("not permitted"));
    // Processes and threads go on working.
    let threads = "import subprocess, threading; t = threading.Thread(target=lambda: subprocess.run(['true'], \
                   check=True)); t.start(); t.join(); print('fine')";
    let ordinary = under(&["python3", "-c", threads])?;
    assert_eq!(String::from_utf8_lossy(&ordinary.stdout), "fine\n", "{ordinary:?}");
    Ok(())
}

fn a_command_runs_without_privileges() -> Result<(), Stop> {
    need("root")?;
    let output = user::unprivileged(Path::new("/bin/sh"))?.args(["-c", "id -u; id -G"]).output()?;
    let id = user::UNPRIVILEGED_ID;
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{id}\n{id}\n"));
    let closed = temp_dir()?;
    let program = closed.path().join("program");
    write_program(&program, &std::fs::read("/bin/sh")?)?;
    assert!(matches!(user::unprivileged(&program), Err(Stop::Skip(_))));
    Ok(())
}
