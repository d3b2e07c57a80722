//! The mechanism `landlock` by itself: what it claims, what it refuses, and that nothing is left of it.

use crate::Named;
use crate::jail::desk::{Desk, json, me};
use crate::jail::stage::helper;
use crate::leftovers;
use crate::support::Stop;
use crate::support::need::need;
use agentkit_protocol::{
    Access, Attack, Bytes, Choice, Commit, Control, FailureKind, GitNames, Level, Mechanism, Policy, Probe,
    Rule, Watch, WorkDir,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const TESTS: &[Named] = &[
    ("a_probe_claims_what_a_run_reads_back", a_probe_claims_what_a_run_reads_back),
    ("what_takes_mounts_is_refused_by_name", what_takes_mounts_is_refused_by_name),
    ("what_it_lacks_fails_a_requirement", what_it_lacks_fails_a_requirement),
    ("a_host_without_it_says_what_to_do", a_host_without_it_says_what_to_do),
    ("a_work_dir_of_the_host_is_written_as_its_owner", a_work_dir_of_the_host_is_written_as_its_owner),
    ("files_of_the_policy_are_found", files_of_the_policy_are_found),
    ("attributes_change_only_where_files_may_be_written", attributes_change_only_where_files_may_be_written),
    ("what_is_left_is_ended", || leftovers::what_is_left_is_ended(&desk()?, Choice::Landlock)),
    ("whoever_of_the_jail_is_killed", || {
        leftovers::whoever_of_the_jail_is_killed(&desk()?, Choice::Landlock)
    }),
    ("an_init_that_is_stopped_is_not_waited_for", || {
        leftovers::an_init_that_is_stopped_is_not_waited_for(&desk()?, Choice::Landlock, true)
    }),
    ("a_jail_within_a_jail_has_no_network", a_jail_within_a_jail_has_no_network),
    ("root_without_mounts_shows_what_others_may_read", root_without_mounts_shows_what_others_may_read),
    ("what_is_closed_to_whom_root_becomes_is_told", what_is_closed_to_whom_root_becomes_is_told),
    ("too_few_descriptors_leave_nothing", too_few_descriptors_leave_nothing),
    ("what_proc_does_not_show_is_not_claimed", what_proc_does_not_show_is_not_claimed),
    ("input_that_nobody_ends_holds_up_nothing", input_that_nobody_ends_holds_up_nothing),
    ("a_copier_that_is_stopped_at_once_is_not_left", a_copier_that_is_stopped_at_once_is_not_left),
];

/// Nothing else can be tested beside them.
pub(crate) const STORMS: &[Named] =
    &[("who_is_gone_before_it_is_seen_is_ended", who_is_gone_before_it_is_seen_is_ended)];

fn policy(script: &str) -> Policy {
    Policy { mechanism: Choice::Landlock, ..Policy::new(["sh", "-c", script]) }
}

/// Where this kernel has it.
fn desk() -> Result<Desk, Stop> {
    let desk = Desk::anywhere()?;
    let text = desk.call(&["--probe", "--json"], b"")?.stdout;
    let answer: Probe = serde_json::from_slice(&text)?;
    match answer.each.get(&Mechanism::Landlock).and_then(|it| it.failure.as_ref()) {
        Some(failure) if failure.message.contains("for its version") => Err(Stop::Skip(failure.to_string())),
        _ => Ok(desk),
    }
}

fn a_probe_claims_what_a_run_reads_back() -> Result<(), Stop> {
    let desk = desk()?;
    let run = desk.launch(&policy("pwd; test \"$PWD\" = \"$(pwd)\" && cd && pwd; echo x >\"$TMPDIR/x\""))?;
    let started = run.started()?;
    let answer: Probe = serde_json::from_slice(&desk.call(&["--probe", "--json"], b"")?.stdout)?;
    assert_eq!(started.capabilities, answer.each[&Mechanism::Landlock]);
    assert_eq!(
        (started.mechanism, started.passed_over.len(), run.status.code()),
        (Mechanism::Landlock, 0, Some(0))
    );
    let state = started.read_back;
    assert_eq!((state.no_new_privs, state.seccomp_mode, state.capabilities), (true, 2, 0));
    assert!(state.uid != 0 && state.own_namespaces.is_empty() && !state.loopback, "{state:?}");
    let domain = state.domain.ok_or_else(|| Stop::Fail("no domain".into()))?;
    assert!(
        [Attack::Read, Attack::Write, Attack::Socket].iter().all(|it| domain.refused.contains(it)),
        "{domain:?}"
    );
    assert_eq!(domain.exclusive_user, need("root").is_ok());
    assert!(started.capabilities.level(Control::NetworkBlocked).is_full());
    let directory =
        String::from_utf8_lossy(&run.stdout).lines().next().map(PathBuf::from).unwrap_or_default();
    assert!(directory.is_absolute() && !directory.exists(), "{directory:?} is left");
    Ok(())
}

fn what_takes_mounts_is_refused_by_name() -> Result<(), Stop> {
    let desk = desk()?;
    let work = Bytes::from(desk.path("work"));
    let rule =
        |path: &str, access| Policy { rules: vec![Rule { path: path.into(), access }], ..policy("echo ran") };
    let bound = Policy { workdir: WorkDir::Bind(work.clone()), ..policy("echo ran") };
    let hooks = desk.path("work/.git/hooks");
    let refused = |asked: &Policy, what: &str| -> Result<(), Stop> {
        let run = desk.launch(asked)?;
        let failure = run.failure()?;
        assert_eq!((failure.kind, run.stdout.len()), (FailureKind::Policy, 0), "{what}: {failure}");
        assert!(failure.message.contains(what) && failure.hint.is_some(), "{what}: {failure}");
        Ok(())
    };
    refused(&rule("/usr/share", Access::Hide), "hide")?;
    refused(&rule("/var/tmp", Access::Tmpfs), "tmpfs")?;
    let overlay = WorkDir::Overlay { path: work.clone(), commit: Commit::Never };
    refused(&Policy { workdir: overlay, ..policy("echo ran") }, "overlay")?;
    refused(&Policy { workdir: WorkDir::ScratchAt(work), ..policy("echo ran") }, "tmpfs")?;
    let watch = Watch { paths: vec!["/secret/key".into()], ..Watch::default() };
    refused(&Policy { watch, ..policy("echo ran") }, "watch.paths")?;
    let watch = Watch { tcp_ports: vec![80], ..Watch::default() };
    refused(&Policy { watch, ..policy("echo ran") }, "watch.tcp_ports")?;
    fs::create_dir_all(desk.path("work/sub"))?;
    let protected = Rule { path: Bytes::from(desk.path("work/sub")), access: Access::Ro };
    refused(&Policy { rules: vec![protected], ..bound.clone() }, "protect")?;
    fs::create_dir_all(&hooks)?;
    fs::write(desk.path("work/.git/HEAD"), "ref: refs/heads/x\n")?;
    for part in ["objects", "refs"] {
        fs::create_dir(desk.path("work/.git").join(part))?;
    }
    refused(&bound, "git")?;
    let hint = desk.launch(&bound)?.failure()?.hint.unwrap_or_default();
    assert!(hint.contains("--git off") && hint.contains("namespaces"), "{hint}");
    let run = desk.launch(&Policy { git: GitNames::Off, ..bound })?;
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    Ok(())
}

/// It is the host's, and the looks go through it.
fn what_proc_does_not_show_is_not_claimed() -> Result<(), Stop> {
    need("root")?;
    let desk = desk()?;
    let probe = |before: &[&str]| -> Result<Probe, Stop> {
        let before: Vec<_> = before.iter().map(|word| (*word).to_owned()).collect();
        Ok(serde_json::from_slice(&desk.call_under(&before, &["--probe", "--json"], b"")?.stdout)?)
    };
    let hiding = "mount -t proc -o hidepid=2 proc /proc; exec \"$0\" \"$@\"";
    let found = &probe(&["unshare", "--mount", "sh", "-c", hiding])?.each[&Mechanism::Landlock];
    for control in [Control::MemoryLimited, Control::DiskLimited] {
        let level = found.level(control);
        assert!(matches!(&level, Level::None(why) if why.contains("hidepid")), "{control}: {level}");
    }
    let of_outside = probe(&["unshare", "--pid", "--fork", "--kill-child"])?;
    let failure = of_outside.each[&Mechanism::Landlock].failure.as_ref();
    assert!(
        failure.is_some_and(|it| it.message.contains("another pid namespace") && it.hint.is_some()),
        "{failure:?}"
    );
    assert_eq!(of_outside.best.mechanism, Some(Mechanism::Namespaces));
    Ok(())
}

fn what_it_lacks_fails_a_requirement() -> Result<(), Stop> {
    let desk = desk()?;
    let answer: Probe = serde_json::from_slice(&desk.call(&["--probe", "--json"], b"")?.stdout)?;
    for (control, level) in &answer.each[&Mechanism::Landlock].controls {
        let run = desk.launch(&Policy { require: [*control].into(), ..policy("echo ran") })?;
        match level {
            Level::Full => assert_eq!(run.status.code(), Some(0), "{control}: {run:?}"),
            // Where it can, it makes a cgroup for that.
            _ if *control == Control::MemoryLimited => {}
            _ => {
                let failure = run.failure()?;
                assert_eq!(
                    (failure.kind, run.stdout.len()),
                    (FailureKind::Required, 0),
                    "{control}: {failure}"
                );
                assert!(failure.message.contains(control.name()), "{failure}");
            }
        }
    }
    Ok(())
}

fn a_host_without_it_says_what_to_do() -> Result<(), Stop> {
    let desk = desk()?;
    let before =
        crate::support::seccomp::preloader(&[("landlock_create_ruleset", crate::support::seccomp::ENOSYS)]);
    let run = desk.call_under(&before, &[], &json(&policy("echo ran"))?)?;
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!((run.status.code(), run.stdout.len()), (Some(125), 0), "{run:?}");
    assert!(said.contains("Linux 5.13") && said.contains("lsm="), "{said}");
    Ok(())
}

fn a_work_dir_of_the_host_is_written_as_its_owner() -> Result<(), Stop> {
    let desk = desk()?;
    let work = WorkDir::Bind(Bytes::from(desk.path("work")));
    let run =
        desk.launch(&Policy { workdir: work.clone(), ..policy("echo x >made; mkdir d; mv made d; pwd") })?;
    if me().must_be_root("map").is_ok() && run.status.code() == Some(125) {
        // Without user namespaces root cannot give it to anybody, and says so.
        let failure = run.failure()?;
        assert!(failure.hint.is_some() && !desk.path("work/d").exists(), "{failure}");
        return Ok(());
    }
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    let owner = |path: PathBuf| Ok::<_, Stop>(std::os::unix::fs::MetadataExt::uid(&fs::metadata(path)?));
    assert_eq!(owner(desk.path("work/d/made"))?, owner(desk.path("work"))?);
    let rules = vec![Rule { path: Bytes::from(desk.path("work")), access: Access::Ro }];
    let read =
        desk.launch(&Policy { workdir: work, rules, ..policy("cat d/made; ! echo y >d/made && ! rm -r d") })?;
    assert_eq!((read.status.code(), &read.stdout[..]), (Some(0), &b"x\n"[..]), "{read:?}");
    Ok(())
}

fn files_of_the_policy_are_found() -> Result<(), Stop> {
    let desk = desk()?;
    let files: BTreeMap<_, _> = [("main.sh".to_owned(), Bytes::from("echo \"$0\" >&2; echo found"))].into();
    let run =
        desk.launch(&Policy { files, mechanism: Choice::Landlock, ..Policy::new(["sh", "/tmp/main.sh"]) })?;
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"found\n"[..]), "{run:?}");
    Ok(())
}

/// Landlock knows no attributes: it is the supervisor who changes them. Times can also be changed by whoever may write, as
/// everybody may here.
fn attributes_change_only_where_files_may_be_written() -> Result<(), Stop> {
    let desk = desk()?;
    let [outside, shown, open, granted] =
        ["outside", "shown", "open", "granted"].map(|name| desk.path("outputs").join(name));
    fs::set_permissions(desk.path("outputs"), fs::Permissions::from_mode(0o755))?;
    fs::create_dir(&shown)?;
    for (file, mode) in [(&outside, 0o644), (&shown.join("file"), 0o644), (&open, 0o666), (&granted, 0o644)] {
        fs::write(file, "")?;
        fs::set_permissions(file, fs::Permissions::from_mode(mode))?;
    }
    let script = format!(
        r#"
cd "$HOME"; mkdir d; echo x >d/f; ln -s d l; ln -s {outside} out
chmod 700 d/f && [ "$(stat -c %a d/f)" = 700 ] || echo chmod
touch -d 2001-02-03 l/f && [ "$(stat -c %Y d/f)" -lt 1000000000 ] || echo touch
chmod 2755 d || echo group of a directory
chmod 600 {granted} && touch -d 2001-02-03 {granted} || echo granted
ln -s {granted} to && chmod 640 to && touch to || echo link to what is granted
cp -a d e && [ "$(stat -c %a e/f)" = 700 ] || echo copy
for it in out {outside} {shown}/file {shown} /usr/bin ../../../{outside} {open} "$HOME/.." "$HOME/../closed"; do
    chmod 777 "$it" && echo "chmod $it"
    touch -c "$it" && echo "touch now $it"
    touch -c -d 2001-02-03 "$it" && echo "touch $it"
done
chmod 4755 d/f && echo set-user-id
! chmod 2755 d/f || echo set-group-id
exec 2>&1
"#,
        granted = granted.display(),
        open = open.display(),
        outside = outside.display(),
        shown = shown.display()
    );
    let rules = [(shown, Access::Ro), (granted.clone(), Access::Rw)];
    let rules = rules.map(|(path, access)| Rule { path: Bytes::from(path), access }).to_vec();
    let run = desk.launch(&Policy { rules, ..policy(&script) })?;
    assert_eq!((run.status.code(), String::from_utf8_lossy(&run.stdout).as_ref()), (Some(0), ""), "{run:?}");
    let mode = |path: &Path| Ok::<_, Stop>(fs::metadata(path)?.permissions().mode() & 0o7777);
    assert_eq!((mode(&outside)?, mode(&granted)?), (0o644, 0o640));
    Ok(())
}

/// A program that does nothing but fork, and whose parent ends at once. Its processes have a new number before anybody who
/// looked for the old one can send a signal.
#[cfg(target_arch = "x86_64")]
fn successor() -> Vec<u8> {
    const CODE: &[u8] = &[
        0xb8, 57, 0, 0, 0, 0x0f, 0x05, // fork
        0x85, 0xc0, 0x7e, 0xf5, // as the child, or after a failure: once more
        0xb8, 231, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, // exit_group(0)
    ];
    const PLACE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let size = HEADERS + CODE.len() as u64;
    // The two headers of elf(5), in words.
    let words =
        [0x0001_0102_464c_457f, 0, 0x0000_0001_003e_0002, PLACE + HEADERS, 64, 0, 0x0038_0040_0000_0000, 1];
    let segment = [0x0000_0005_0000_0001, 0, PLACE, PLACE, size, size, 0x1000];
    words.into_iter().chain(segment).flat_map(u64::to_le_bytes).chain(CODE.iter().copied()).collect()
}

#[cfg(target_arch = "x86_64")]
fn who_is_gone_before_it_is_seen_is_ended() -> Result<(), Stop> {
    let desk = desk()?;
    let version =
        |run: &crate::jail::run::Run| Ok::<_, Stop>(run.started()?.read_back.domain.map(|it| it.version));
    if version(&desk.launch(&policy("true"))?)?.is_none_or(|version| version < 6) {
        return Err(Stop::Skip("Landlock knows signals since Linux 6.12".into()));
    }
    let marker = crate::jail::stage::unique("landlock-successors");
    let script = "cp \"$TMPDIR/successor\" . && chmod +x successor; i=0
        while [ $i -lt 40 ]; do ./successor & i=$((i+1)); done; ./successor";
    let files = [("successor".to_owned(), Bytes::from(successor()))].into();
    let mut asked = Policy { files, ..policy(script) };
    asked.env.insert("MARKER".into(), Bytes::from(marker.as_str()));
    asked.limits.processes = 1000;
    asked.limits.wall_ms = 1000;
    // Hunted one by one they last for longer, and more of them for as long as they like.
    crate::support::sometimes_within(std::time::Duration::from_secs(4), || {
        let run = desk.launch(&asked)?;
        run.started()?;
        assert!(run.failure().is_err(), "{run:?}");
        assert_eq!(crate::support::processes::with_marker(&marker), [0; 0]);
        Ok(())
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn who_is_gone_before_it_is_seen_is_ended() -> Result<(), Stop> {
    Err(Stop::Skip("the program is one for x86-64".into()))
}

/// Its own mechanism may be any: the inner one has no namespaces left.
fn a_jail_within_a_jail_has_no_network() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let stage = helper().parent().unwrap_or(Path::new("/"));
    let script = format!("{} --report-fd 3 echo inner 3>&1", helper().display());
    let rules = vec![Rule { path: Bytes::from(stage.as_os_str().as_encoded_bytes()), access: Access::Ro }];
    // Nothing of the host's but the system directories.
    let env = [("PATH".to_owned(), "/usr/bin:/bin".into())].into();
    let run = desk.launch(&Policy { rules, env, ..Policy::new(["sh", "-c", &script]) })?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success() && text.contains("inner\n"), "{run:?}");
    assert!(
        text.contains(r#""mechanism":"landlock""#) && text.contains(r#""network_blocked":"full""#),
        "{text}"
    );
    Ok(())
}

/// Who copies it waits for more, and no signal of the supervisor's reaches anybody outside the jail.
fn input_that_nobody_ends_holds_up_nothing() -> Result<(), Stop> {
    desk()?;
    let (_kept, theirs) = std::os::unix::net::UnixStream::pair()?;
    let mut command = Command::new(helper());
    command.args(["--mechanism", "landlock", "--", "true"]).stdin(std::os::fd::OwnedFd::from(theirs));
    let mut launcher = command.spawn()?;
    let ended = crate::support::eventually("it ends", crate::support::PATIENCE, || {
        launcher.try_wait().is_ok_and(|status| status.is_some())
    });
    launcher.kill()?;
    assert!(launcher.wait()?.success() && ended.is_ok());
    Ok(())
}

/// Before it could ask the kernel to end it with the supervisor. It blocks more signals than that right afterwards, by which
/// it is seen whether it was early enough.
fn a_copier_that_is_stopped_at_once_is_not_left() -> Result<(), Stop> {
    desk()?;
    for _ in 0..200 {
        let (_kept, theirs) = std::os::unix::net::UnixStream::pair()?;
        let mut command = Command::new(helper());
        command.args(["--mechanism", "landlock", "--", "true"]).stdin(std::os::fd::OwnedFd::from(theirs));
        let mut launcher = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let children = format!("/proc/{0}/task/{0}/children", launcher.id());
        let copier = loop {
            let found = fs::read_to_string(&children).unwrap_or_default();
            if let Some(pid) = found.split_whitespace().next().and_then(|pid| pid.parse().ok()) {
                break nix::unistd::Pid::from_raw(pid);
            }
            if launcher.try_wait()?.is_some() {
                return Err(Stop::Skip("nobody is told of children (CONFIG_PROC_CHILDREN)".into()));
            }
        };
        // It may be gone.
        let _ = nix::sys::signal::kill(copier, nix::sys::signal::Signal::SIGSTOP);
        let state = || fs::read_to_string(format!("/proc/{copier}/status")).unwrap_or_default();
        let before = state();
        launcher.wait()?;
        let is_left = state().contains("State:\tT");
        if is_left {
            nix::sys::signal::kill(copier, nix::sys::signal::Signal::SIGKILL)
                .map_err(std::io::Error::from)?;
        }
        assert!(!is_left, "{copier} is left");
        let blocked = before.lines().find_map(|line| line.strip_prefix("SigBlk:\t"));
        let blocked = blocked.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(u64::MAX);
        if blocked >> (nix::libc::SIGSEGV - 1) & 1 == 0 {
            return Ok(());
        }
    }
    Err(Stop::Skip("it was never stopped early enough".into()))
}

/// In a chroot, and without CAP_SYS_ADMIN, no owner can be mapped. What does not need that works; the rest is refused with
/// what to do, once.
fn root_without_mounts_shows_what_others_may_read() -> Result<(), Stop> {
    need("root")?;
    let desk = desk()?;
    let (work, id) = (desk.path("work"), crate::support::user::UNPRIVILEGED_ID);
    std::os::unix::fs::chown(&work, Some(id), Some(id))?;
    fs::write(work.join("file"), "content")?;
    let here = WorkDir::Bind(Bytes::from(work.clone()));
    let rules = vec![Rule { path: Bytes::from(work.clone()), access: Access::Ro }];
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".into())]);
    let base = Policy { env, ..Policy::new(["/bin/sh", "-c", "cat file; echo x >new || exit 7"]) };
    let unprivileged = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"].map(str::to_owned);
    let chroot = ["unshare", "--mount", "sh", "-c", "mount --rbind / /mnt && exec chroot /mnt \"$@\"", "sh"];
    let chroot = chroot.map(str::to_owned);
    for before in [&unprivileged[..], &chroot] {
        // The rest of this host's hosts does not look like one where nothing works at all.
        for mechanism in [Choice::Auto, Choice::Landlock] {
            let read = Policy { workdir: here.clone(), rules: rules.clone(), mechanism, ..base.clone() };
            let run = desk.call_under(before, &[], &json(&read)?)?;
            assert_eq!(
                (run.status.code(), &run.stdout[..]),
                (Some(7), &b"content"[..]),
                "{mechanism:?}: {run:?}"
            );

            let write = Policy { workdir: here.clone(), mechanism, ..base.clone() };
            let run = desk.call_under(before, &[], &json(&write)?)?;
            let said = String::from_utf8_lossy(&run.stderr).into_owned();
            assert_eq!((run.status.code(), run.stdout.len()), (Some(125), 0), "{run:?}");
            assert!(said.contains("landlock: \"") && said.contains(&format!("--reuid={id} ")), "{said}");
            assert!(
                said.matches("open_tree").count() < 2 && said.matches("switched off").count() < 2,
                "{said}"
            );
        }
        fs::set_permissions(&work, fs::Permissions::from_mode(0o700))?;
        let closed = Policy { workdir: here.clone(), rules: rules.clone(), ..base.clone() };
        let run = desk.call_under(before, &[], &json(&closed)?)?;
        assert_eq!((run.status.code(), run.stdout.len()), (Some(125), 0), "{run:?}");
        fs::set_permissions(&work, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Root itself can reach it.
fn what_is_closed_to_whom_root_becomes_is_told() -> Result<(), Stop> {
    need("root")?;
    let desk = desk()?;
    let closed = desk.path("closed");
    fs::create_dir_all(closed.join("below"))?;
    fs::copy("/bin/true", closed.join("program"))?;
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
    let rules = vec![Rule { path: Bytes::from(closed.join("below")), access: Access::Ro }];
    let failure = desk.launch(&Policy { rules, ..policy("echo ran") })?.failure()?;
    assert!(
        failure.hint.is_some_and(|hint| hint.contains("the user that root becomes")),
        "{}",
        failure.message
    );
    let program = Policy { argv: vec![Bytes::from(closed.join("program"))], ..policy("") };
    let failure = desk.launch(&program)?.failure()?;
    assert_eq!(failure.kind, FailureKind::NotExecutable, "{failure}");
    assert!(failure.hint.is_some_and(|hint| hint.contains("/usr/bin/python3")), "{}", failure.message);
    Ok(())
}

/// To remove directories takes some, too.
fn too_few_descriptors_leave_nothing() -> Result<(), Stop> {
    let desk = desk()?;
    fs::write(desk.path("policy"), json(&policy("echo ran"))?)?;
    let (mut refused, mut ran) = (0, 0);
    for descriptors in (5..40).step_by(5).chain(42..52) {
        let mut launcher = Command::new("prlimit");
        launcher.arg(format!("--nofile={descriptors}")).arg("--").arg(helper());
        launcher.stdin(fs::File::open(desk.path("policy"))?).stdout(Stdio::piped()).stderr(Stdio::piped());
        let launcher = launcher.spawn()?;
        let number = launcher.id();
        let run = launcher.wait_with_output()?;
        assert_eq!(leftovers::private(number), Vec::<PathBuf>::new(), "with {descriptors}: {run:?}");
        match run.status.code() {
            Some(0) => ran += 1,
            _ => refused += usize::from(run.stdout.is_empty()),
        }
    }
    assert!(refused > 3 && ran > 3, "{refused} {ran}");
    Ok(())
}
