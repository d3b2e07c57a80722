//! What a policy's rules show, in every order and spelling.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::support::need::need;
use crate::support::{Stop, outside::Snapshot};
use crate::tests;
use agentkit_protocol::{
    Access, Bytes, Choice, Commit, Control, FailureKind, GitNames, Level, Mechanism, Policy, ProcFiles, Rule,
    WorkDir,
};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

tests![
    the_longest_path_decides,
    rules_beside_the_work_dir,
    unusual_names_in_rules,
    rules_by_way_of_links,
    a_socket_by_way_of_var_run,
    a_way_out_that_a_jail_has_made,
    what_is_renamed_meanwhile_brings_about_no_lesser_jail,
    absent_paths_leave_nothing,
    rules_that_would_hand_over_the_host,
    rules_that_disagree,
    many_rules,
    rules_on_the_system,
    what_is_shown_can_hold_sockets,
    the_callers_spelling_of_the_work_dir,
    a_read_only_work_dir,
    a_work_dir_that_a_rule_makes_read_only,
    rules_on_the_work_dir,
    files_go_from_one_directory_to_another,
    mounts_with_flags,
    a_host_with_many_mounts,
    a_host_with_its_root_twice,
    a_full_proc,
    the_hosts_proc_in_what_is_shown,
    the_hosts_proc_in_a_system_directory,
    what_the_host_can_uncover,
    rules_in_an_overlay,
    the_same_time_zone,
];

fn rule(path: impl AsRef<Path>, access: Access) -> Rule {
    Rule { path: Bytes::from(path.as_ref().to_path_buf()), access }
}

/// A policy without a host directory but by its rules.
fn scratch(script: &str, rules: Vec<Rule>) -> Policy {
    Policy { rules, ..Policy::new(["sh", "-c", script]) }
}

/// Every combination of three nested rules, given in changing order, against what the longest path says.
fn the_longest_path_decides() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let directories = ["top", "top/middle", "top/middle/low"].map(|below| desk.path("work").join(below));
    let script = "for at in top top/middle top/middle/low; do\n\
                  cat $at/old 2>/dev/null || echo hidden\n\
                  (echo x > $at/new) 2>/dev/null && echo writable || echo sealed\n\
                  done";
    let accesses = [None, Some(Access::Ro), Some(Access::Rw), Some(Access::Hide), Some(Access::Tmpfs)];
    for number in 0..125_usize {
        let chosen = [number / 25, number / 5 % 5, number % 5].map(|at| accesses[at]);
        let mut rules: Vec<Rule> =
            directories.iter().zip(chosen).filter_map(|(path, access)| Some(rule(path, access?))).collect();
        let turn = number % rules.len().max(1);
        rules.rotate_left(turn);
        for directory in &directories {
            fs::create_dir(directory)?;
            fs::write(directory.join("old"), "host\n")?;
        }
        let run = desk.launch(&Policy { rules, ..desk.policy(script) })?;
        let mut access = Access::Rw;
        let mut expected = String::new();
        for (directory, chosen) in directories.iter().zip(chosen) {
            access = chosen.unwrap_or(access);
            expected += if matches!(access, Access::Ro | Access::Rw) { "host\n" } else { "hidden\n" };
            expected += if matches!(access, Access::Rw | Access::Tmpfs) { "writable\n" } else { "sealed\n" };
            assert_eq!(directory.join("new").exists(), access == Access::Rw, "{chosen:?}");
        }
        // Below an empty directory of the jail's own there is nothing unless a rule says so.
        let hollow =
            |at: usize| chosen[at].is_none() && chosen[..at].iter().any(|it| it == &Some(Access::Tmpfs));
        if !hollow(1) && !hollow(2) {
            assert_eq!(text(&run.stdout), expected, "{chosen:?}: {run:?}");
        }
        fs::remove_dir_all(&directories[0])?;
    }
    Ok(())
}

fn rules_beside_the_work_dir() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir_all(desk.path("data/closed"))?;
    fs::write(desk.path("data/file"), "data\n")?;
    let data = desk.path("data");
    let script = format!("cd {}; cat file; echo x > new; ls; ls closed", data.display());
    let rules = vec![rule(&data, Access::Ro), rule(data.join("closed"), Access::Hide)];
    let run = desk.launch(&scratch(&script, rules))?;
    assert_eq!(text(&run.stdout), "data\nclosed\nfile\n", "{run:?}");
    assert!(!data.join("new").exists());
    let run = desk.launch(&scratch(&script, vec![rule(&data, Access::Rw)]))?;
    assert_eq!(
        (text(&run.stdout), fs::read(data.join("new"))?),
        ("data\nclosed\nfile\nnew\n".into(), b"x\n".to_vec())
    );
    Ok(())
}

fn unusual_names_in_rules() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for name in [&b"a b"[..], b"a\nb", b"x\xff\xfe", b"'\"$(id)`\\", b"-rf", b" (deleted)", &[b'n'; 255]] {
        let path = desk.path("work").join(OsStr::from_bytes(name));
        fs::create_dir(&path)?;
        fs::write(path.join("f"), "seen")?;
        let policy =
            |access| Policy { rules: vec![rule(&path, access)], ..desk.policy("cat ./*/f; echo x > ./*/g") };
        let run = desk.launch(&policy(Access::Ro))?;
        assert_eq!((text(&run.stdout), path.join("g").exists()), ("seen".into(), false), "{run:?}");
        let run = desk.launch(&policy(Access::Hide))?;
        assert_eq!((text(&run.stdout), path.join("g").exists()), (String::new(), false), "{run:?}");
        fs::remove_dir_all(&path)?;
    }
    Ok(())
}

fn rules_by_way_of_links() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir(desk.path("real"))?;
    fs::write(desk.path("real/file"), "data")?;
    symlink("real", desk.path("first"))?;
    symlink(desk.path("first"), desk.path("second"))?;
    let file = desk.path("second/file");
    let script = format!("cat {}; readlink {}", file.display(), desk.path("second").display());
    for path in [desk.path("second"), file.clone()] {
        let run = desk.launch(&scratch(&script, vec![rule(&path, Access::Ro)]))?;
        assert_eq!(text(&run.stdout), format!("data{}\n", desk.path("first").display()), "{path:?}: {run:?}");
    }
    Ok(())
}

/// `/var/run` is a link of the system's own, absolute or not.
fn a_socket_by_way_of_var_run() -> Result<(), Stop> {
    let desk = Desk::new()?;
    if fs::read_link("/var/run").is_err() {
        return Err(Stop::Skip("/var/run is no link here".into()));
    }
    let bind = "import socket; socket.socket(socket.AF_UNIX).bind(\"/run/d/x\")";
    let before = mounted(&format!(
        "mount -t tmpfs -o mode=755 none /run; mkdir /run/d; echo > /run/d/y; python3 -c '{bind}'"
    ))?;
    let policy = scratch(
        "test -S /var/run/d/x && test -S /run/d/x && ls /run/d",
        vec![rule("/var/run/d/x", Access::Ro)],
    );
    let output = desk.call_under(&before, &[], &json(&policy)?)?;
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "x\n".into()), "{output:?}");
    Ok(())
}

/// A run leaves a link in its work dir, and the next policy names a path that leads through it.
fn a_way_out_that_a_jail_has_made() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir_all(desk.path("secret/below"))?;
    fs::write(desk.path("secret/id"), "canary")?;
    fs::set_permissions(desk.path("secret"), fs::Permissions::from_mode(0o777))?;
    fs::set_permissions(desk.path("secret/id"), fs::Permissions::from_mode(0o666))?;
    let plant = format!("ln -s '{}' out; mkdir in; ln -s in within", desk.path("secret").display());
    assert_eq!(desk.launch(&desk.policy(&plant))?.status.code(), Some(0));
    let work = desk.path("work");
    let script = format!(
        "cat '{0}/id'; echo evil >'{0}/id'; cat below/id; echo evil >../id",
        work.join("out").display()
    );
    let refused = |asked: &Policy| -> Result<(), Stop> {
        let run = desk.launch(asked)?;
        let failure = run.failure()?;
        assert_eq!(failure.kind, FailureKind::Policy, "{failure}");
        assert!(failure.message.contains("leads out") && failure.hint.is_some(), "{failure}");
        assert_eq!(fs::read(desk.path("secret/id"))?, b"canary");
        Ok(())
    };
    for mechanism in [Choice::Namespaces, Choice::Landlock] {
        for (name, access) in
            [("out", Access::Ro), ("out", Access::Rw), ("out/id", Access::Ro), ("out/below", Access::Rw)]
        {
            let rules = vec![rule(work.join(name), access)];
            refused(&Policy { mechanism, rules, git: GitNames::Off, ..desk.policy(&script) })?;
        }
        // What a rule lets the jail write is no other.
        let workdir = WorkDir::Bind(Bytes::from(work.join("out/below")));
        let rules = vec![rule(&work, Access::Rw)];
        refused(&Policy { mechanism, rules, workdir, git: GitNames::Off, ..desk.policy(&script) })?;
    }
    // What stays inside widens nothing, nor does what hides more.
    for rules in [vec![rule(work.join("within"), Access::Ro)], vec![rule(work.join("out"), Access::Hide)]] {
        let run = desk.launch(&Policy { rules, ..desk.policy("echo ran") })?;
        assert_eq!(text(&run.stdout), "ran\n", "{run:?}");
    }
    Ok(())
}

/// Whoever can write beside what is shown must not choose how it is confined.
fn what_is_renamed_meanwhile_brings_about_no_lesser_jail() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir_all(desk.path("work/sub/bin"))?;
    fs::copy("/bin/true", desk.path("work/sub/bin/tool"))?;
    let renames = "import os, sys\nos.chdir(sys.argv[1])\nprint(flush=True)\nwhile True: os.rename('sub', 'sub2'); os.rename('sub2', 'sub')";
    let mut renamer = Command::new("python3");
    let mut renamer = renamer.args(["-Ic", renames]).arg(desk.path("work")).stdout(Stdio::piped()).spawn()?;
    let began = renamer.stdout.take().map_or(Ok(0), |mut said| said.read(&mut [0]));
    let launches = || -> Result<(), Stop> {
        began?;
        let path = format!("PATH={}:$PATH", desk.path("work/sub/bin").display());
        let sub = desk.path("work/sub");
        let here = Policy { workdir: WorkDir::Bind(Bytes::from(sub.clone())), ..desk.policy("true") };
        for number in 0..60_usize {
            let run = match number % 3 {
                0 => desk.launch(&scratch("true", vec![rule(&sub, Access::Ro)]))?,
                1 => desk.launch(&here)?,
                _ => desk.launch_after(&path, &json(&scratch("true", Vec::new()))?)?,
            };
            if let Ok(started) = run.started() {
                assert_eq!(started.mechanism, Mechanism::Namespaces, "{run:?}");
            } else {
                assert_eq!(run.status.code(), Some(125), "{run:?}");
            }
        }
        Ok(())
    };
    let outcome = launches();
    renamer.kill()?;
    renamer.wait()?;
    outcome
}

fn absent_paths_leave_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::write(desk.path("work/file"), "")?;
    symlink("nowhere", desk.path("work/dangling"))?;
    let before = Snapshot::take(&[desk.path("").as_path(), desk.path("work").as_path()])?;
    for access in [Access::Ro, Access::Rw, Access::Hide, Access::Tmpfs] {
        let absent = ["work/.env", "work/a/b/c", "work/file/x", "work/dangling", "aside"];
        let rules = absent.iter().map(|below| rule(desk.path(below), access)).collect();
        let run = desk.launch(&Policy { rules, ..desk.policy("ls") })?;
        assert_eq!(text(&run.stdout), "dangling\nfile\n", "{run:?}");
    }
    fs::remove_file(desk.path("work/dangling"))?;
    assert_eq!(before.added()?.len(), 0);
    Ok(())
}

fn rules_that_would_hand_over_the_host() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let link = desk.path("work/link");
    symlink("/proc", &link)?;
    let refused = |path: &Path, access| -> Result<(), Stop> {
        let run = desk.launch(&Policy { rules: vec![rule(path, access)], ..desk.tracer() })?;
        let failure = run.failure()?;
        assert_eq!((run.status.code(), failure.kind), (Some(125), FailureKind::Policy), "{path:?}");
        assert!(failure.message.contains("rules") && !desk.ran(), "{failure}");
        Ok(())
    };
    for path in ["/", "/proc", "/proc/self", "/dev", "/dev/stdout", "/run", "/var/run", "/tmp", "/home"] {
        refused(Path::new(path), Access::Ro)?;
    }
    refused(&link, Access::Ro)?;
    for path in ["/usr", "/etc", "/bin", "/var", "/run", "/opt", "/var/lib", "/usr/share/doc"] {
        refused(Path::new(path), Access::Rw)?;
    }
    refused(&desk.path("work"), Access::Hide)?;
    Ok(())
}

fn rules_that_disagree() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir(desk.path("work/real"))?;
    symlink("real", desk.path("work/link"))?;
    let rules = vec![rule(desk.path("work/real"), Access::Ro), rule(desk.path("work/link"), Access::Hide)];
    let run = desk.launch(&Policy { rules, ..desk.tracer() })?;
    assert!(run.failure()?.message.contains("disagree"), "{run:?}");
    Ok(())
}

/// As many as a policy of a large project has; in argv they would not fit.
fn many_rules() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut rules = Vec::new();
    for directory in 0..20 {
        fs::create_dir(desk.path("work").join(format!("d{directory}")))?;
        for file in 0..1000 {
            let path = desk.path("work").join(format!("d{directory}/f{file}"));
            fs::write(&path, "")?;
            rules.push(rule(path, Access::Hide));
        }
    }
    let script = "for file in d*/*; do [ -r $file ] && echo $file; done; echo x > d7/new; echo all";
    let run = desk.launch(&Policy { rules, ..desk.policy(script) })?;
    assert_eq!(text(&run.stdout), "d7/new\nall\n".replace("d7/new\n", ""), "{run:?}");
    assert!(desk.path("work/d7/new").exists());
    Ok(())
}

fn rules_on_the_system() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script =
        "ls /usr/share | grep -c . ; ls /usr/share/doc; cat /etc/hostname; cat /etc/passwd | grep -c jail";
    let rules = vec![rule("/usr/share/doc", Access::Hide), rule("/etc/passwd", Access::Hide)];
    let run = desk.launch(&scratch(script, rules))?;
    let lines: Vec<_> = text(&run.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "only the first and the last command say anything: {run:?}");
    assert_eq!(lines[1], "0");
    Ok(())
}

fn what_is_shown_can_hold_sockets() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for (access, full) in [(Access::Ro, false), (Access::Hide, true)] {
        let run = desk.launch(&scratch("true", vec![rule(desk.path("work"), access)]))?;
        let level = &run.started()?.capabilities.controls[&Control::NetworkBlocked];
        assert_eq!(*level == Level::Full, full, "{level:?}");
    }
    Ok(())
}

fn the_callers_spelling_of_the_work_dir() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir_all(desk.path("work/deep"))?;
    symlink("work", desk.path("link"))?;
    for spelling in [desk.path("link"), desk.path("link/deep")] {
        let script = format!("pwd; pwd -P; cd / && cd '{}' && echo x > here", spelling.display());
        let workdir = WorkDir::Bind(Bytes::from(spelling.clone()));
        let run = desk.launch(&Policy { workdir, ..desk.policy(&script) })?;
        let real = spelling.canonicalize()?;
        assert_eq!(text(&run.stdout), format!("{}\n{}\n", spelling.display(), real.display()), "{run:?}");
        assert!(real.join("here").exists());
    }
    Ok(())
}

/// Words that prepare the mounts of a namespace of their own, and start the rest in it.
fn mounted(script: &str) -> Result<Vec<String>, Stop> {
    need("root")?;
    let script = format!("set -e; {script}; exec \"$@\"");
    Ok(["unshare", "-m", "--propagation", "private", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec())
}

fn a_read_only_work_dir() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let path = desk.path("work").display().to_string();
    let before = mounted(&format!("exec 3>&2; mount -t tmpfs -o ro none '{path}'"))?;
    let policy = desk.policy("echo ran; echo x > f");
    let output = desk.call_under(&before, &["--report-fd", "3"], &json(&policy)?)?;
    let report = text(&output.stderr);
    assert!(text(&output.stdout) == "ran\n" && report.contains("\"workdir_read_only\":true"), "{output:?}");
    let run = desk.launch(&policy)?;
    assert!(!run.started()?.read_back.workdir_read_only);
    Ok(())
}

/// By a rule. Also one whose owner alone can read it, and in a directory that is writable.
fn a_work_dir_that_a_rule_makes_read_only() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir_all(desk.path("work/.git/hooks"))?;
    fs::write(desk.path("work/kept"), "kept\n")?;
    fs::set_permissions(desk.path("work/kept"), fs::Permissions::from_mode(0o600))?;
    fs::set_permissions(desk.path("work"), fs::Permissions::from_mode(0o700))?;
    symlink("work", desk.path("link"))?;
    let ro = |path: &str| rule(desk.path(path), Access::Ro);
    let script = "cat kept; for f in new kept .git/hooks/x; do echo x >$f; done 2>/dev/null; mv ../work ../w 2>/dev/null; \
                  chmod 777 . 2>/dev/null; cd ../link && cat kept; echo x > /tmp/f && cat /tmp/f";
    let outer = rule(desk.path(""), Access::Rw);
    let link = WorkDir::Bind(Bytes::from(desk.path("link")));
    for (rules, workdir) in [
        (vec![ro("work")], desk.policy("").workdir),
        (vec![ro("work"), outer.clone()], desk.policy("").workdir),
        (vec![ro("link")], link.clone()),
        (vec![ro("link"), outer, ro("work")], link),
    ] {
        // Nothing of the private `/tmp` is in the work dir, so the limit is the kernel's.
        let require = if rules.len() == 1 { [Control::DiskLimited].into() } else { Default::default() };
        let asked = Policy { rules, workdir, require, ..desk.policy(script) };
        let run = desk.launch(&asked)?;
        let said = text(&run.stdout);
        assert!(
            said.starts_with("kept\n")
                && said.ends_with("x\n")
                && said.lines().all(|it| it == "kept" || it == "x"),
            "{run:?}"
        );
        let (started, ended) = (run.started()?, run.ended()?);
        assert!(started.read_back.workdir_read_only, "{started:?}");
        assert!(ended.quarantined.is_empty() && ended.unchecked.is_empty(), "{ended:?}");
        assert_eq!(fs::read_to_string(desk.path("work/kept"))?, "kept\n");
        assert!(!desk.path("work/new").exists() && !desk.path("work/.git/hooks/x").exists());
        assert_eq!(fs::metadata(desk.path("work"))?.permissions().mode() & 0o777, 0o700);
    }
    Ok(())
}

/// Landlock's first version would forbid it.
fn files_go_from_one_directory_to_another() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script = "for place in . /tmp; do\n\
                  cd $place && mkdir a b && echo text >a/file && before=$(stat -c %i a/file)\n\
                  mv a/file b && ln b/file a/again && mv b/file .\n\
                  [ $before = $(stat -c %i file) ] && [ file -ef a/again ] || exit 1\n\
                  done";
    let bind = desk.policy(script);
    let overlay = WorkDir::Overlay { path: Bytes::from(desk.path("work")), commit: Commit::Never };
    for workdir in [overlay, WorkDir::Scratch, bind.workdir.clone()] {
        let run = desk.launch(&Policy { workdir, ..bind.clone() })?;
        assert!(run.status.success(), "{run:?}");
    }
    Ok(())
}

/// Nothing else can be asked for there, nor by another spelling.
fn rules_on_the_work_dir() -> Result<(), Stop> {
    let desk = Desk::new()?;
    symlink("work", desk.path("link"))?;
    let overlay = WorkDir::Overlay { path: Bytes::from(desk.path("work")), commit: Commit::Never };
    let bind = desk.policy("").workdir;
    let on = |workdir: &WorkDir, rules: &[(&str, Access)]| {
        let rules = rules.iter().map(|(path, access)| rule(desk.path(path), *access)).collect();
        desk.launch(&Policy { workdir: workdir.clone(), rules, ..desk.policy("true") })
    };
    assert_eq!(on(&bind, &[("work", Access::Rw)])?.status.code(), Some(0));
    for (workdir, rules) in [
        (&bind, &[("work", Access::Hide)][..]),
        (&bind, &[("work", Access::Tmpfs)]),
        (&bind, &[("link", Access::Ro)]),
        (&bind, &[("work", Access::Ro), ("link", Access::Rw)]),
        (&overlay, &[("work", Access::Ro)]),
    ] {
        let failure = on(workdir, rules)?.failure()?;
        assert!(
            failure.kind == FailureKind::Policy && failure.message.contains("is the work dir"),
            "{failure}"
        );
    }
    Ok(())
}

/// A mount's own restrictions stay, whatever the rule; and the private `/tmp` is none of the host's.
fn mounts_with_flags() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let path = desk.path("work").display().to_string();
    let flags = "nosuid,nodev,noexec,mode=1777";
    let before = mounted(&format!(
        "mount -t tmpfs -o {flags} none '{path}'; mount -t tmpfs -o {flags} none /tmp; mkdir '{path}/sub'; \
         mount -t tmpfs none '{path}/sub'; echo host > '{path}/sub/file'"
    ))?;
    let script = "printf '#!/bin/sh\\necho started\\n' > tool; chmod +x tool; ./tool; cp tool $(mktemp -d /tmp/d.XXXX)/t; /tmp/d.*/t;\
                  cat sub/file; echo x > sub/new; ls sub";
    let rules = vec![rule(desk.path("work/sub"), Access::Ro)];
    let output = desk.call_under(&before, &[], &json(&Policy { rules, ..desk.policy(script) })?)?;
    assert_eq!(text(&output.stdout), "started\nhost\nfile\n", "{output:?}");
    // What is mounted below a read-only directory is read-only, too.
    let policy =
        scratch(&format!("echo x > '{path}/sub/new'; cat '{path}/sub/file'"), vec![rule(&path, Access::Ro)]);
    let output = desk.call_under(&before, &[], &json(&policy)?)?;
    assert_eq!(text(&output.stdout), "host\n", "{output:?}");
    assert!(text(&output.stderr).contains("Read-only"), "{output:?}");
    Ok(())
}

fn a_host_with_many_mounts() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let path = desk.path("outputs").display().to_string();
    let before =
        mounted(&format!("i=0; while [ $i -lt 300 ]; do mount --bind '{path}' '{path}'; i=$((i+1)); done"))?;
    let output = desk.call_under(&before, &[], &json(&desk.policy("grep -c . /proc/self/mountinfo"))?)?;
    let inside: usize = text(&output.stdout).trim().parse().unwrap_or(usize::MAX);
    assert!(inside < 60, "{output:?}");
    Ok(())
}

/// As after a start from an initial file system, which stays below.
fn a_host_with_its_root_twice() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let over = "mount --rbind / /mnt; cd /mnt; mount --move . /; exec chroot . \"$@\"";
    let output = desk.call_under(&mounted(over)?, &[], &json(&desk.tracer())?)?;
    assert!(output.status.success() && desk.ran() && output.stderr.is_empty(), "{output:?}");
    // Who is left below is in a chroot, to the kernel.
    let only = Policy { mechanism: Choice::Namespaces, ..scratch("echo ran", Vec::new()) };
    let output = desk.call_under(&mounted("mount --bind / /")?, &[], &json(&only)?)?;
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(125), String::new()), "{output:?}");
    assert!(text(&output.stderr).contains("in a chroot there are none"), "{output:?}");
    Ok(())
}

fn a_full_proc() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script = "[ -d /proc/1 ] && grep -q MemTotal /proc/meminfo && grep -q processor /proc/cpuinfo && echo readable\n\
                  for file in kallsyms kcore keys timer_list sysrq-trigger cmdline modules fs bus irq; do\n\
                  cat /proc/$file/* /proc/$file 2>/dev/null; ls /proc/$file/ 2>/dev/null; done\n\
                  cat /proc/sys/kernel/random/boot_id 2>/dev/null; (echo 1 > /proc/sys/vm/swappiness) 2>/dev/null || echo sealed; ls /proc/sys | head -1";
    let policy = Policy { proc: ProcFiles::Full, ..desk.policy(script) };
    assert_eq!(text(&desk.launch(&policy)?.stdout), "readable\nsealed\nabi\n");
    Ok(())
}

/// As in a chroot that somebody works in.
fn the_hosts_proc_in_what_is_shown() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::create_dir_all(desk.path("work/a b/proc"))?;
    let path = desk.path("work/a b/proc").display().to_string();
    let before = mounted(&format!("mount -t proc none '{path}'"))?;
    let script = format!("ls '{path}' || cat '{path}/1/cmdline' || echo hidden; ls '{path}/..'");
    let shown = scratch(&script, vec![rule(desk.path("work"), Access::Ro)]);
    let asked = scratch(&script, vec![rule(&path, Access::Ro)]);
    for policy in [shown, asked] {
        let output = desk.call_under(&before, &[], &json(&policy)?)?;
        assert!(text(&output.stdout).starts_with("hidden\n"), "{output:?}");
    }
    // Its owner cannot be mapped, so that a root launcher cannot make what it is in writable.
    let output = desk.call_under(&before, &[], &json(&desk.tracer())?)?;
    assert!(output.status.code() == Some(125) && !desk.ran(), "{output:?}");
    assert!(text(&output.stderr).contains("mounted in it"), "{output:?}");
    Ok(())
}

/// Without any rule: what every jail sees can hold it too.
fn the_hosts_proc_in_a_system_directory() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let path = "/usr/share";
    let before = mounted(&format!(
        "mount -t tmpfs none {path}; mkdir -p {path}/a/proc; mount -t proc none {path}/a/proc"
    ))?;
    let script = format!("ls {path}/a/proc || cat {path}/a/proc/1/cmdline || echo hidden; ls {path}/a");
    let output = desk.call_under(&before, &[], &json(&scratch(&script, Vec::new()))?)?;
    assert_eq!(text(&output.stdout), "hidden\nproc\n", "{output:?}");
    Ok(())
}

/// A rename of the host takes the jail's mount away with the name. Said wherever it can happen, and nowhere else.
fn what_the_host_can_uncover() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for name in ["secret", "work/secret"] {
        fs::write(desk.path(name), "")?;
    }
    let [beside, within, root] = ["secret", "work/secret", ""].map(|name| desk.path(name));
    let overlay = WorkDir::Overlay { path: Bytes::from(desk.path("work")), commit: Commit::Never };
    let bind = desk.policy("true").workdir;
    for (workdir, rules, full) in [
        (bind.clone(), vec![], true),
        (bind.clone(), vec![rule(&within, Access::Hide)], false),
        (bind.clone(), vec![rule(&within, Access::Ro)], false),
        (bind, vec![rule(&beside, Access::Hide), rule(&beside, Access::Hide)], true),
        (overlay, vec![rule(&within, Access::Hide)], true),
        (WorkDir::Scratch, vec![rule(&beside, Access::Ro)], true),
        (WorkDir::Scratch, vec![rule(&root, Access::Ro), rule(&within, Access::Ro)], true),
        (WorkDir::Scratch, vec![rule(&root, Access::Ro), rule(&within, Access::Hide)], false),
        (WorkDir::Scratch, vec![rule(Path::new("/usr/share"), Access::Hide)], false),
    ] {
        let asked = format!("{workdir:?} {rules:?}");
        let run = desk.launch(&Policy { workdir, rules, ..Policy::new(["true"]) })?;
        let level = &run.started()?.capabilities.controls[&Control::FilesystemConfined];
        assert!(
            matches!((level, full), (Level::Full, true) | (Level::Partial(_), false)),
            "{asked}: {level:?}"
        );
    }
    Ok(())
}

fn rules_in_an_overlay() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for directory in ["closed", "sealed/deep"] {
        fs::create_dir_all(desk.path("work").join(directory))?;
        fs::write(desk.path("work").join(directory).join("file"), "host\n")?;
    }
    let script = "cat closed/file || echo hidden; cat sealed/deep/file\n\
                  (echo x > sealed/deep/new) || echo read-only; (mv sealed moved) || echo fixed\n\
                  echo x > sealed/new; echo x > new; ls; ls sealed";
    let rules =
        vec![rule(desk.path("work/closed"), Access::Hide), rule(desk.path("work/sealed/deep"), Access::Ro)];
    let path = Bytes::from(desk.path("work"));
    let workdir = WorkDir::Overlay { path, commit: Commit::OnSuccess };
    let run = desk.launch(&Policy { workdir, rules, ..desk.policy(script) })?;
    if run.report.iter().any(|line| line.contains("overlay") && line.contains("failed")) {
        return Err(Stop::Skip(format!("this host has no overlays: {run:?}")));
    }
    let all = "hidden\nhost\nread-only\nfixed\nclosed\nnew\nsealed\ndeep\nnew\n";
    assert_eq!(text(&run.stdout), all, "{run:?}");
    assert!(desk.path("work/new").exists() && !desk.path("work/sealed/deep/new").exists());
    assert_eq!(fs::read(desk.path("work/closed/file"))?, b"host\n");
    Ok(())
}

fn the_same_time_zone() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let outside = std::process::Command::new("date").arg("+%z %Z").output()?;
    assert_eq!(text(&desk.launch(&desk.policy("date '+%z %Z'"))?.stdout), text(&outside.stdout));
    let elsewhere = desk.launch(&desk.policy("TZ=Asia/Tokyo date +%z"))?;
    if Path::new("/usr/share/zoneinfo/Asia/Tokyo").exists() {
        assert_eq!(text(&elsewhere.stdout), "+0900\n");
    }
    Ok(())
}
