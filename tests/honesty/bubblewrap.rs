//! The mechanism `bubblewrap` by itself, where there is one: what it claims, what it refuses, and that nothing is left of it.

use crate::Named;
use crate::jail::desk::{Desk, json, me};
use crate::jail::stage::{helper, unique};
use crate::jail::who::Who;
use crate::support::need::need;
use crate::support::{PATIENCE, Stop, eventually, processes};
use agentkit_protocol::{
    Access, Bytes, Choice, Commit, Control, Event, FailureKind, GitNames, Level, Mechanism, Net, Policy,
    Probe, ProcFiles, Rule, Watch, WorkDir,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::{fs, io};

pub(crate) const TESTS: &[Named] = &[
    ("a_probe_claims_what_a_run_reads_back", a_probe_claims_what_a_run_reads_back),
    ("what_it_cannot_do_is_refused_by_name", what_it_cannot_do_is_refused_by_name),
    ("a_work_dir_of_the_host_is_written_as_its_owner", a_work_dir_of_the_host_is_written_as_its_owner),
    ("rules_mean_what_they_mean_elsewhere", rules_mean_what_they_mean_elsewhere),
    ("rules_on_what_it_makes_itself", rules_on_what_it_makes_itself),
    ("what_walks_a_tree_finds_what_is_in_it", what_walks_a_tree_finds_what_is_in_it),
    ("a_work_dir_in_a_place_that_is_private", a_work_dir_in_a_place_that_is_private),
    ("what_the_host_mounts_meanwhile_is_told", what_the_host_mounts_meanwhile_is_told),
    ("what_could_not_be_restricted_is_not_shown", what_could_not_be_restricted_is_not_shown),
    ("the_kernels_settings_are_only_read", the_kernels_settings_are_only_read),
    ("a_program_that_others_can_change_is_not_run", a_program_that_others_can_change_is_not_run),
    ("whoever_may_execute_it_can_start_it", whoever_may_execute_it_can_start_it),
    (
        "whoever_asks_for_the_end_need_not_wait_for_bubblewrap",
        whoever_asks_for_the_end_need_not_wait_for_bubblewrap,
    ),
    ("the_command_gets_nothing_of_what_set_it_up", the_command_gets_nothing_of_what_set_it_up),
    ("nobody_reads_a_policy_in_a_command_line", nobody_reads_a_policy_in_a_command_line),
    ("nothing_outlives_its_launcher", nothing_outlives_its_launcher),
];

/// Of the host's it shows the system directories alone.
fn policy(script: &str) -> Policy {
    let env = [("PATH".to_owned(), "/usr/bin:/bin".into())].into();
    Policy { mechanism: Choice::Bubblewrap, env, ..Policy::new(["/bin/sh", "-c", script]) }
}

/// Where there is one that works.
fn desk() -> Result<Desk, Stop> {
    need("bubblewrap")?;
    Desk::anywhere()
}

fn rule(desk: &Desk, path: &str, access: Access) -> Rule {
    Rule { path: Bytes::from(desk.path(path)), access }
}

fn a_probe_claims_what_a_run_reads_back() -> Result<(), Stop> {
    let desk = desk()?;
    let plain = ["env", "PATH=/usr/bin:/bin"].map(str::to_owned);
    let probe = desk.call_under(&plain, &["--probe", "--json"], b"")?;
    let probe: Probe = serde_json::from_slice(&probe.stdout)?;
    let run = desk.launch(&policy("cat; echo x >/tmp/x && touch /dev/null && ! echo x >/x"))?;
    let started = run.started()?;
    assert_eq!(started.capabilities, probe.each[&Mechanism::Bubblewrap]);
    assert_eq!((started.mechanism, run.status.code()), (Mechanism::Bubblewrap, Some(0)), "{run:?}");
    let state = started.read_back;
    assert_eq!((state.no_new_privs, state.seccomp_mode, state.capabilities), (true, 2, 0));
    assert_eq!(state.own_namespaces, ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]);
    assert!(state.outer_uid != 0 && state.loopback, "{state:?}");
    let files = started.capabilities.level(Control::FilesystemConfined);
    assert!(
        files.reason().is_some_and(|why| why.contains("but the times of the host's /dev/null")),
        "{files:?}"
    );
    assert!(!started.capabilities.level(Control::DiskLimited).is_full());
    let offline = desk.launch(&Policy { net: Net::None, ..policy("true") })?.started()?;
    assert!(!offline.read_back.loopback && offline.capabilities.level(Control::NetworkBlocked).is_full());
    Ok(())
}

fn what_it_cannot_do_is_refused_by_name() -> Result<(), Stop> {
    let desk = desk()?;
    for path in ["work/.git/hooks", "work/.git/objects", "work/.git/refs", "shown/part", "work/part"] {
        fs::create_dir_all(desk.path(path))?;
    }
    fs::write(desk.path("work/.git/HEAD"), "ref: refs/heads/x\n")?;
    let refused = |asked: Policy, what: &str| -> Result<(), Stop> {
        let run = desk.launch(&asked)?;
        let failure = run.failure()?;
        assert_eq!((failure.kind, run.stdout.len()), (FailureKind::Host, 0), "{what}: {failure}");
        assert!(failure.message.contains(what) && failure.hint.is_some(), "{what}: {failure}");
        Ok(())
    };
    let work = Bytes::from(desk.path("work"));
    let overlay = WorkDir::Overlay { path: work.clone(), commit: Commit::Never };
    refused(Policy { workdir: overlay, ..policy("echo ran") }, "overlay")?;
    let watch = Watch { paths: vec!["/secret/key".into()], ..Watch::default() };
    refused(Policy { watch, ..policy("echo ran") }, "watch.paths")?;
    let watch = Watch { tcp_ports: vec![80], ..Watch::default() };
    refused(Policy { watch, ..policy("echo ran") }, "watch.tcp_ports")?;
    let bound = Policy { workdir: WorkDir::Bind(work), ..policy("echo ran") };
    refused(bound.clone(), "git")?;
    // What lies in something that is shown: by the time it is mounted there, a link could lead elsewhere.
    for access in [Access::Ro, Access::Rw, Access::Hide, Access::Tmpfs] {
        let rules = vec![rule(&desk, "work/part", access)];
        refused(Policy { rules, git: GitNames::Off, ..bound.clone() }, "work/part")?;
        if access != Access::Ro {
            let rules = vec![rule(&desk, "shown", Access::Ro), rule(&desk, "shown/part", access)];
            refused(Policy { rules, ..policy("echo ran") }, "shown/part")?;
        }
    }
    Ok(())
}

fn a_work_dir_of_the_host_is_written_as_its_owner() -> Result<(), Stop> {
    let desk = desk()?;
    let asked = Policy { mechanism: Choice::Bubblewrap, ..desk.policy("echo x >new && stat -c %u new .") };
    let run = desk.launch(&asked)?;
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"1000\n1000\n"[..]), "{run:?}");
    let owner = |name| fs::metadata(desk.path(name)).map(|it| it.uid());
    assert_eq!(owner("work/new")?, owner("work")?);
    Ok(())
}

fn rules_mean_what_they_mean_elsewhere() -> Result<(), Stop> {
    let desk = desk()?;
    for path in ["read", "write", "empty", "hidden", "hidden/shown"] {
        fs::create_dir(desk.path(path))?;
        fs::write(desk.path(path).join("file"), path)?;
    }
    let accesses = [
        ("read", Access::Ro),
        ("write", Access::Rw),
        ("empty", Access::Tmpfs),
        ("hidden", Access::Hide),
        ("hidden/shown", Access::Ro),
    ];
    let rules: Vec<_> = accesses.map(|(path, access)| rule(&desk, path, access)).to_vec();
    let script = format!(
        "cd {}; cat read/file write/file hidden/shown/file; ls empty; cat hidden/file; \
         for path in read write empty hidden hidden/shown; do echo x >$path/new && echo $path; done; \
         head -c 1000000 /dev/zero >empty/large && echo large",
        desk.path("").display()
    );
    for mechanism in [Choice::Bubblewrap, Choice::Namespaces] {
        let run = desk.launch(&Policy { mechanism, rules: rules.clone(), ..policy(&script) })?;
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert_eq!(said, "readwritehidden/shownwrite\nempty\nlarge\n", "{mechanism:?}: {run:?}");
        assert!(desk.path("write/new").exists() && !desk.path("empty/new").exists(), "{run:?}");
        let workdir = WorkDir::ScratchAt(Bytes::from(desk.path("read")));
        let script = format!("[ . -ef '{}' ] && ls; echo x >file", desk.path("read").display());
        let run = desk.launch(&Policy { mechanism, workdir, ..policy(&script) })?;
        assert_eq!((run.status.code(), run.stdout.len()), (Some(0), 0), "{run:?}");
        assert_eq!(fs::read(desk.path("read/file"))?, b"read");
    }
    Ok(())
}

/// Though `/tmp` and the others are links.
fn what_walks_a_tree_finds_what_is_in_it() -> Result<(), Stop> {
    let desk = desk()?;
    let script = "for place in \"$PWD\" \"$HOME\" \"$TMPDIR\"; do echo x >\"$place/made\"; find \"$place\" -type f; done | wc -l; \
                  mkdir in; cp -r \"$PWD\" \"$TMPDIR/copy\"; ls \"$TMPDIR/copy\"; cat /tmp/given; cat /tmp/copy/made ~/made";
    let files = [("given".to_owned(), "given\n".into())].into();
    let run = desk.launch(&Policy { files, ..policy(script) })?;
    assert_eq!(String::from_utf8_lossy(&run.stdout), "4\nin\nmade\ngiven\nx\nx\n", "{run:?}");
    Ok(())
}

/// Places where it has made something by the time a rule comes, or has something private by way of a link: they show what
/// `namespaces` shows there, or are refused by name.
fn rules_on_what_it_makes_itself() -> Result<(), Stop> {
    let desk = desk()?;
    let private = tempfile::tempdir_in("/tmp")?;
    fs::set_permissions(&private, fs::Permissions::from_mode(0o755))?;
    fs::create_dir_all(private.path().join("dir/below"))?;
    fs::write(private.path().join("dir/file"), "content")?;
    std::os::unix::fs::symlink(format!("../..{}", desk.path("work").display()), private.path().join("link"))?;
    let tmp = |name: &str| private.path().join(name).display().to_string();
    let [dir, below, file, link] = ["dir", "dir/below", "dir/file", "link"].map(tmp);
    let system =
        ["/lib", "/lib64", "/bin", "/sbin", "/bin/sh", "/usr/lib", "/etc/localtime", "/etc/ssl/certs"];
    let accounts = ["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf"];
    let script = format!(
        "for path in /lib /lib64 /bin /sbin /etc /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf /etc/resolv.conf /etc/ssl /etc/ssl/certs /etc/localtime /home /work {dir} {below} {file} {link} {link}/.; do \
             if [ -d $path ]; then echo $path: $path/*; elif read line <$path; then echo $path: $line; \
             else [ -e $path ] && echo $path closed; fi; (: >$path/new) && echo writable && rm $path/new; done 2>/dev/null; true"
    );
    let each = |access, paths: &[&str]| -> Vec<Rule> {
        paths.iter().map(|path| Rule { path: (*path).into(), access }).collect()
    };
    let cases = [
        (Net::Loopback, [each(Access::Ro, &system), each(Access::Ro, &[&dir, &link])].concat(), true),
        (Net::Loopback, each(Access::Ro, &["/etc"]), true),
        (Net::Loopback, each(Access::Ro, &accounts), true),
        (Net::Loopback, each(Access::Hide, &accounts), true),
        (Net::Loopback, each(Access::Hide, &["/etc/ssl", "/etc/localtime", "/sbin", &dir]), true),
        (Net::Loopback, each(Access::Hide, &[&file]), true),
        (Net::Loopback, each(Access::Hide, &["/etc"]), true),
        (Net::Loopback, each(Access::Rw, &[&link]), true),
        (Net::Loopback, each(Access::Rw, &[&dir]), true),
        (Net::Loopback, [each(Access::Tmpfs, &[&dir]), each(Access::Rw, &[&below])].concat(), true),
        (Net::Loopback, each(Access::Tmpfs, &[&dir, &below, &link]), true),
        (Net::Loopback, each(Access::Tmpfs, &["/etc"]), false),
        (Net::Loopback, each(Access::Tmpfs, &["/etc/ssl"]), false),
        (Net::Host, Vec::new(), true),
        (Net::Host, each(Access::Hide, &["/etc/hosts"]), true),
        (Net::Host, each(Access::Ro, &["/etc"]), true),
    ];
    for (net, rules, is_shown) in cases {
        let asked = Policy { net, rules, ..policy(&script) };
        let run = desk.launch(&asked)?;
        if is_shown {
            let usual = desk.launch(&Policy { mechanism: Choice::Namespaces, ..asked.clone() })?;
            let [said, usual] = [&run, &usual].map(|run| String::from_utf8_lossy(&run.stdout).into_owned());
            assert!(run.status.success(), "{asked:?}: {run:?}");
            let differing = said.lines().zip(usual.lines()).find(|(one, other)| one != other);
            assert!(said == usual, "{differing:?}: {:?}", asked.rules);
        } else {
            let failure = run.failure()?;
            let is_named = failure.message.contains("the mechanism bubblewrap cannot");
            assert!(is_named && failure.hint.is_some(), "{asked:?}: {failure}");
        }
    }
    Ok(())
}

/// The way to it leads through a link of the jail's own.
fn a_work_dir_in_a_place_that_is_private() -> Result<(), Stop> {
    let desk = desk()?;
    let private = tempfile::tempdir_in("/tmp")?;
    fs::set_permissions(&private, fs::Permissions::from_mode(0o755))?;
    let work = private.path().join("work");
    fs::create_dir(&work)?;
    let script = "echo x >new && find \"$PWD\" && cd / && cd \"$OLDPWD\" && cat new; echo y >../other";
    let rules = [Vec::new(), vec![Rule { path: Bytes::from(work.clone()), access: Access::Ro }]];
    for rules in rules {
        let asked = Policy { workdir: WorkDir::Bind(Bytes::from(work.clone())), rules, ..policy(script) };
        let run = desk.launch(&asked)?;
        let usual = desk.launch(&Policy { mechanism: Choice::Namespaces, ..asked.clone() })?;
        assert_eq!((run.status, &run.stdout), (usual.status, &usual.stdout), "{run:?}, {usual:?}");
        assert_eq!(work.join("new").exists(), asked.rules.is_empty(), "{run:?}");
        assert!(!private.path().join("other").exists());
        drop(fs::remove_file(work.join("new")));
    }
    Ok(())
}

/// It arrives inside, with the host's own rights, where the host's mounts tell others of what comes below them.
fn what_the_host_mounts_meanwhile_is_told() -> Result<(), Stop> {
    need("root")?;
    let desk = desk()?;
    fs::create_dir(desk.path("shown"))?;
    fs::write(desk.path("file"), "")?;
    let level = |propagation: &str, rules: Vec<Rule>| -> Result<Level, Stop> {
        let before = format!(
            "exec unshare --mount --propagation {propagation} \
             setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\" --report-fd 3 3>&1"
        );
        let before = ["sh", "-c", &before].map(str::to_owned);
        let run = desk.call_under(&before, &[], &json(&Policy { rules, ..policy("true") })?)?;
        let first = run.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
        match serde_json::from_slice(first)? {
            Event::Started(started) => Ok(started.capabilities.level(Control::FilesystemConfined).clone()),
            other => Err(Stop::Fail(format!("{other:?}"))),
        }
    };
    let shown = || vec![rule(&desk, "shown", Access::Ro)];
    for shown in [shown(), vec![rule(&desk, "file", Access::Ro)], vec![rule(&desk, "shown", Access::Rw)]] {
        let partial = level("shared", shown)?;
        assert!(partial.reason().is_some_and(|why| why.contains("the host mounts")), "{partial:?}");
    }
    for level in [level("private", shown())?, level("shared", Vec::new())?] {
        assert!(level.reason().is_some_and(|why| !why.contains("the host mounts")), "{level:?}");
    }
    Ok(())
}

/// A mount in a directory that is closed to bubblewrap stays as it is, and somebody could open that directory.
fn what_could_not_be_restricted_is_not_shown() -> Result<(), Stop> {
    need("root")?;
    let desk = desk()?;
    fs::create_dir_all(desk.path("shown/closed/in"))?;
    let script = "mount -t tmpfs none shown/closed/in; chmod \"$0\" shown/closed; \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    let place = desk.path("").to_string_lossy().into_owned();
    let run = |mode: &str, access| {
        let before = ["unshare", "--mount", "--wd", &place, "sh", "-c", script, mode];
        let asked = Policy { rules: vec![rule(&desk, "shown", access)], ..policy("echo ran") };
        desk.call_under(&before.map(str::to_owned), &[], &json(&asked)?)
    };
    for access in [Access::Ro, Access::Rw] {
        assert_eq!(run("0755", access)?.stdout, b"ran\n");
        let refused = run("0700", access)?;
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.stdout.is_empty() && why.contains("shown/closed/in"), "{access:?}: {refused:?}");
    }
    Ok(())
}

fn the_kernels_settings_are_only_read() -> Result<(), Stop> {
    let desk = desk()?;
    let script = "cat /proc/sys/kernel/hostname; for file in $(find /proc/sys -type f -perm -2); do : <>$file && echo $file; done";
    for mechanism in [Choice::Bubblewrap, Choice::Namespaces] {
        let run = desk.launch(&Policy { mechanism, proc: ProcFiles::Full, ..policy(script) })?;
        assert_eq!(run.stdout, b"jail\n", "{mechanism:?}: {run:?}");
    }
    Ok(())
}

/// Neither by a variable nor by what a jail has written.
fn a_program_that_others_can_change_is_not_run() -> Result<(), Stop> {
    let desk = desk()?;
    let planted = desk.path("work/bwrap");
    fs::write(&planted, "#!/bin/sh\ntouch \"${0%/*}/planted\"\n")?;
    fs::set_permissions(&planted, PermissionsExt::from_mode(0o777))?;
    let before = ["sh", "-c", "PATH=\"$0:$PATH\" exec \"$@\"", &desk.path("work").to_string_lossy()]
        .map(str::to_owned);
    let run = desk.call_under(&before, &["--mechanism", "bubblewrap", "--", "echo", "ran"], b"")?;
    assert!(run.stdout == b"ran\n" && !desk.path("work/planted").exists(), "{run:?}");
    // Root's own, and so what root's jail can write: by another name.
    if me() == Who::Root {
        fs::set_permissions(&planted, PermissionsExt::from_mode(0o755))?;
        let script = "mount --bind /dev/null \"$(realpath /usr/bin/bwrap)\"; mount --bind . /opt; PATH=/opt:/usr/bin:/bin exec \"$0\"";
        let before = ["unshare", "--mount", "sh", "-c", script].map(str::to_owned);
        let asked = Policy { mechanism: Choice::Bubblewrap, git: GitNames::Off, ..desk.policy("echo ran") };
        let run = desk.call_under(&before, &[], &json(&asked)?)?;
        let why = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(why.contains("/opt/bwrap") && run.stdout.is_empty(), "{run:?}");
        assert!(!desk.path("work/planted").exists(), "{run:?}");
    }
    Ok(())
}

/// Neither does bubblewrap take the launcher for a set-user-id one, nor init need to read its own file.
fn whoever_may_execute_it_can_start_it() -> Result<(), Stop> {
    need("root")?;
    let desk = desk()?;
    let copy = desk.path("helper");
    fs::copy(helper(), &copy)?;
    fs::set_permissions(&copy, PermissionsExt::from_mode(0o711))?;
    let run = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["--inh-caps", "+net_raw", "--ambient-caps", "+net_raw"])
        .arg(&copy)
        .args(["--mechanism", "bubblewrap", "--", "echo", "ran"])
        .stdin(Stdio::null())
        .output()?;
    assert_eq!(run.stdout, b"ran\n", "{run:?}");
    fs::set_permissions(&copy, PermissionsExt::from_mode(0o700))?;
    let run = Command::new(&copy)
        .args(["--mechanism", "bubblewrap", "--", "echo", "ran"])
        .stdin(Stdio::null())
        .output()?;
    let why = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.stdout.is_empty() && why.contains("chmod a+x"), "{why}");
    Ok(())
}

/// Bubblewrap is not done yet, and there is no init that a signal could be passed on to.
fn whoever_asks_for_the_end_need_not_wait_for_bubblewrap() -> Result<(), Stop> {
    need("root")?;
    let desk = desk()?;
    let slow = desk.path("slow");
    let marker = unique("bubblewrap-slow");
    fs::write(&slow, format!("#!/bin/sh\nMARKER={marker} exec sleep 1000\n"))?;
    fs::set_permissions(&slow, PermissionsExt::from_mode(0o755))?;
    let script = "mount --bind \"$0\" \"$(realpath /usr/bin/bwrap)\"; PATH=/usr/bin:/bin exec \"$@\"";
    let mut launcher = Command::new("unshare");
    launcher.args(["--mount", "sh", "-c", script]).args([slow.as_os_str(), helper().as_os_str()]);
    launcher.args(["--mechanism", "bubblewrap", "--", "true"]).stdin(Stdio::null());
    let mut launcher = Killed(launcher.spawn()?);
    eventually("bubblewrap runs", PATIENCE, || !processes::with_marker(&marker).is_empty())?;
    kill(Pid::from_raw(launcher.0.id().cast_signed()), Signal::SIGTERM).map_err(io::Error::from)?;
    // Not what is told once set-up has taken too long.
    assert_eq!(launcher.0.wait()?.code(), Some(128 + 15));
    assert!(processes::with_marker(&marker).is_empty());
    Ok(())
}

/// No descriptor, no way to run the helper inside, no session of the caller's.
fn the_command_gets_nothing_of_what_set_it_up() -> Result<(), Stop> {
    let desk = desk()?;
    let script = "ls /proc/self/fd | grep -v '^[0123]$'; /agentkit-jail --version; cut -d' ' -f6 /proc/self/stat; \
                  cut -d' ' -f6 /proc/$$/stat; echo $$";
    let run = desk.launch(&policy(script))?;
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let said: Vec<&str> = said.lines().collect();
    let [session, shells, shell] = said[..] else { return Err(Stop::Fail(format!("{run:?}"))) };
    assert!(session == shells && shells == shell, "{run:?}");
    // What the kernel executes in the name of init, which was this program.
    for interpreter in ["/agentkit-jail", "/proc/self/exe"] {
        let script = desk.path("work/script");
        fs::write(&script, format!("#!{interpreter}\n"))?;
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755))?;
        let argv = vec![script.as_os_str().as_encoded_bytes().into(), "--version".into()];
        let run = desk.launch(&Policy { mechanism: Choice::Bubblewrap, argv, ..desk.policy("") })?;
        let is_walled = run.started().is_ok_and(|started| !started.read_back.landlock);
        assert!(run.stdout.is_empty() && (run.failure().is_ok() || is_walled), "{interpreter}: {run:?}");
    }
    Ok(())
}

/// Everybody on the host can read one.
fn nobody_reads_a_policy_in_a_command_line() -> Result<(), Stop> {
    let desk = desk()?;
    let secret = unique("bubblewrap-secret");
    fs::create_dir(desk.path(&secret))?;
    let asked = Policy {
        rules: vec![rule(&desk, &secret, Access::Ro)],
        env: [("MARKER".to_owned(), Bytes::from(secret.as_bytes()))].into(),
        ..policy("echo started; exec sleep 1000")
    };
    let launcher = Command::new(helper()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut launcher = Killed(launcher);
    serde_json::to_writer(launcher.0.stdin.take().ok_or_else(|| Stop::Fail("no pipe".into()))?, &asked)?;
    eventually("the command runs", PATIENCE, || !processes::with_marker(&secret).is_empty())?;
    let lines: Vec<_> = fs::read_dir("/proc")?
        .flatten()
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect();
    assert!(
        lines.iter().any(|line| line.starts_with("bwrap\0"))
            && !lines.iter().any(|line| line.contains(&secret))
    );
    Ok(())
}

/// A launcher that does not outlive its test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn nothing_outlives_its_launcher() -> Result<(), Stop> {
    let _desk = desk()?;
    let marker = unique("bubblewrap-left");
    let script = "setsid sleep 1000 & sleep 1000 & exec sleep 1000";
    let mut launcher = Command::new(helper())
        .args(["--mechanism", "bubblewrap", "--env", &format!("MARKER={marker}"), "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .spawn()?;
    eventually("the command runs", PATIENCE, || processes::with_marker(&marker).len() > 2)?;
    launcher.kill()?;
    launcher.wait()?;
    eventually("all of it is gone", PATIENCE, || processes::with_marker(&marker).is_empty())
}
