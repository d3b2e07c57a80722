//! The mechanism `rlimits` by itself: each claim against an attack, in both directions, and what it refuses.

use crate::jail::desk::{Desk, json};
use crate::jail::run::Run;
use crate::jail::stage::unique;
use crate::leftovers;
use crate::support::listener::Listener;
use crate::support::need::need;
use crate::support::seccomp::{ENOSYS, EPERM, preloader};
use crate::support::{PATIENCE, Stop, eventually, processes};
use crate::{Named, reporting};
use agentkit_protocol::{
    Access, Bytes, Choice, Commit, Control, EndedBy, Event, FailureKind, GitNames, Level, Limits, Mechanism,
    Net, Policy, Probe, Rule, Started, Watch, WorkDir,
};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

pub(crate) const TESTS: &[Named] = &[
    ("it_is_taken_by_its_name_alone", it_is_taken_by_its_name_alone),
    ("a_probe_claims_what_a_run_reads_back", a_probe_claims_what_a_run_reads_back),
    ("files_and_processes_are_as_open_as_it_says", files_and_processes_are_as_open_as_it_says),
    ("the_environment_is_as_open_as_it_says", the_environment_is_as_open_as_it_says),
    ("the_network_is_as_closed_as_it_says", the_network_is_as_closed_as_it_says),
    ("a_host_without_filters_filters_nothing", a_host_without_filters_filters_nothing),
    ("limits_end_what_passes_them", limits_end_what_passes_them),
    ("whoever_kills_its_watchers_is_not_ended", whoever_kills_its_watchers_is_not_ended),
    ("what_is_left_is_ended", || leftovers::what_is_left_is_ended(&Desk::anywhere()?, Choice::Rlimits)),
    ("whoever_of_the_jail_is_killed", || {
        leftovers::whoever_of_the_jail_is_killed(&Desk::anywhere()?, Choice::Rlimits)
    }),
    ("an_init_that_is_stopped_is_not_waited_for", || {
        leftovers::an_init_that_is_stopped_is_not_waited_for(&Desk::anywhere()?, Choice::Rlimits, false)
    }),
    ("what_it_cannot_keep_is_refused_by_name", what_it_cannot_keep_is_refused_by_name),
    ("what_it_lacks_fails_a_requirement", what_it_lacks_fails_a_requirement),
];

fn policy(script: &str) -> Policy {
    Policy { mechanism: Choice::Rlimits, ..Policy::new(["bash", "-c", script]) }
}

fn probe(desk: &Desk, before: &[String]) -> Result<Probe, Stop> {
    Ok(serde_json::from_slice(&desk.call_under(before, &["--probe", "--json"], b"")?.stdout)?)
}

fn text(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// Where it is all there is, whoever does not name it gets nothing, and learns of the others.
fn it_is_taken_by_its_name_alone() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let bare = preloader(&[
        ("clone3", ENOSYS),
        ("clone", EPERM),
        ("unshare", EPERM),
        ("landlock_create_ruleset", ENOSYS),
    ]);
    let asked = Policy::new(["sh", "-c", "echo ran"]);
    let run = desk.call_under(&bare, &[], &json(&asked)?)?;
    assert_eq!((run.status.code(), run.stdout.len()), (Some(125), 0), "{run:?}");
    let answer = probe(&desk, &bare)?;
    assert_eq!((answer.best.mechanism, answer.each[&Mechanism::Rlimits].failure.as_ref()), (None, None));
    let named = desk.call_under(&bare, &[], &json(&Policy { mechanism: Choice::Rlimits, ..asked })?)?;
    assert_eq!((named.status.code(), &named.stdout[..]), (Some(0), &b"ran\n"[..]), "{named:?}");
    Ok(())
}

fn a_probe_claims_what_a_run_reads_back() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let run = desk.launch(&policy("pwd; exec 2>&1; ! unshare --user true"))?;
    let started = run.started()?;
    assert_eq!(started.capabilities, probe(&desk, &[])?.each[&Mechanism::Rlimits]);
    assert_eq!((started.mechanism, run.status.code()), (Mechanism::Rlimits, Some(0)), "{run:?}");
    let state = started.read_back;
    assert_eq!((state.no_new_privs, state.seccomp_mode, state.capabilities), (true, 2, 0));
    assert!(state.uid != 0 && state.own_namespaces.is_empty() && !state.landlock, "{state:?}");
    assert_eq!(state.domain.map(|it| (it.version, it.exclusive_user)), Some((0, need("root").is_ok())));
    let directory = text(&run).lines().next().map(PathBuf::from).unwrap_or_default();
    assert!(directory.is_absolute() && !directory.exists(), "{directory:?} is left");
    Ok(())
}

/// What is not confined is open, or it would be said of nothing.
fn files_and_processes_are_as_open_as_it_says() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let outside = desk.path("outputs/outside");
    fs::set_permissions(desk.path("outputs"), fs::Permissions::from_mode(0o755))?;
    fs::write(&outside, "read\n")?;
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o666))?;
    let mut neighbour = Command::new("sleep").arg("1000").spawn()?;
    let script = format!(
        "cat {0}; echo written >{0}; tr '\\0' ' ' </proc/{1}/cmdline; kill {1} && echo killed",
        outside.display(),
        neighbour.id()
    );
    let run = desk.launch(&policy(&script))?;
    let (reached, same_user) = (text(&run), need("root").is_err());
    neighbour.kill()?;
    neighbour.wait()?;
    let levels = run.started()?.capabilities;
    let is_none = |control| matches!(levels.level(control), Level::None(_));
    assert!(is_none(Control::FilesystemConfined), "{levels:?}");
    assert_eq!(is_none(Control::ProcessesIsolated), same_user, "{levels:?}");
    assert!(reached.starts_with("read\nsleep 1000"), "{run:?}");
    assert_eq!(
        (fs::read_to_string(&outside)?, reached.contains("killed")),
        ("written\n".to_owned(), same_user)
    );
    Ok(())
}

/// The command finds what this process was started with where it is the same user. Its own supervisor and init are closed.
fn the_environment_is_as_open_as_it_says() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let script = format!(
        "env; echo; cat /proc/{}/environ && echo found
        above=$(cut -d ' ' -f 4 /proc/$PPID/stat)
        for pid in $PPID $above $(cat /proc/$above/task/$above/children); do
            [ $pid = $PPID ] || [ $pid = $above ] || echo copier
            cat /proc/$pid/environ || cat /proc/$pid/mem || ls /proc/$pid/fd && echo open; true
            : >/proc/$pid/mem && echo open; true
        done",
        std::process::id()
    );
    let run = desk.launch(&policy(&script))?;
    let (found, own) = (text(&run), text(&run).split("\n\n").next().unwrap_or_default().to_owned());
    assert!(own.contains("HOME=") && !own.contains("CARGO"), "{own}");
    assert!(found.contains("copier") && !found.contains("open"), "{run:?}");
    let level = run.started()?.capabilities.level(Control::EnvironmentScrubbed);
    let is_told = matches!(&level, Level::Partial(why) if why.contains("in /proc"));
    assert_eq!(found.contains("found"), is_told, "{level}");
    Ok(())
}

fn the_network_is_as_closed_as_it_says() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let listener = Listener::start()?;
    let call = format!("echo hello >/dev/tcp/127.0.0.1/{}", listener.address().port());
    let pipe = desk.path("outputs/pipe");
    fs::set_permissions(desk.path("outputs"), fs::Permissions::from_mode(0o755))?;
    Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status()?;
    // For both ways, so that opening it waits for nobody.
    let mut host = fs::File::options().read(true).write(true).open(&pipe)?;
    let closed = desk.launch(&policy(&format!("{call} && echo sent; echo piped >{}", pipe.display())))?;
    let mut piped = [0; 6];
    host.read_exact(&mut piped)?;
    let open = desk.launch(&Policy { net: Net::Host, ..policy(&format!("{call} && echo sent")) })?;
    let level = |run: &Run| Ok::<_, Stop>(run.started()?.capabilities.level(Control::NetworkBlocked));
    assert!(matches!(level(&closed)?, Level::Partial(_)) && !text(&closed).contains("sent"), "{closed:?}");
    assert_eq!(&piped, b"piped\n");
    assert!(matches!(level(&open)?, Level::None(_)) && text(&open).contains("sent"), "{open:?}");
    assert_eq!(listener.into_count()?, 1);
    Ok(())
}

fn a_host_without_filters_filters_nothing() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let listener = Listener::start()?;
    let call = format!("echo hello >/dev/tcp/127.0.0.1/{}", listener.address().port());
    let before = [&reporting()[..], &preloader(&[("seccomp", ENOSYS)])].concat();
    let run = |asked: &Policy| desk.call_under(&before, &["--report-fd", "3"], &json(asked)?);
    let output = run(&policy(&call))?;
    let events = String::from_utf8_lossy(&output.stdout).into_owned();
    let started: Option<Started> = events.lines().find_map(|line| match serde_json::from_str(line) {
        Ok(Event::Started(started)) => Some(started),
        _ => None,
    });
    let levels = started.ok_or_else(|| Stop::Fail(format!("{output:?}")))?.capabilities;
    for control in [Control::NetworkBlocked, Control::SyscallsFiltered] {
        let level = levels.level(control);
        assert!(
            matches!(&level, Level::None(why) if why.contains("seccomp: ") && why.contains("38")),
            "{level}"
        );
    }
    let privileges = levels.level(Control::PrivilegesDropped);
    assert!(matches!(&privileges, Level::Partial(why) if why.contains("user namespace")), "{privileges}");
    assert_eq!(listener.into_count()?, 1);
    let watched = run(&Policy { watch: Watch { forks: true, ..Watch::default() }, ..policy("echo ran") })?;
    let said = String::from_utf8_lossy(&watched.stderr).into_owned();
    assert!(watched.status.code() == Some(125) && said.contains("watch.forks"), "{watched:?}");
    Ok(())
}

fn limits_end_what_passes_them() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    fs::set_permissions(desk.path("outputs"), fs::Permissions::from_mode(0o777))?;
    let with = |limits: Limits, script: &str| desk.launch(&Policy { limits, ..policy(script) });
    let few = Limits { processes: 8, ..Limits::default() };
    let forks = with(few, "exec sh -c 'for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done' 2>&1")?;
    assert!(text(&forks).contains("fork"), "{forks:?}");
    let small = Limits { memory: 64 << 20, ..Limits::default() };
    let grows = with(small, "a=x; while :; do a=$a$a; done")?;
    assert_eq!(grows.ended()?.ended_by, EndedBy::Memory);
    let disk = Limits { disk: 1 << 20, ..Limits::default() };
    let fill = "head -c 20M /dev/zero >";
    assert_eq!(with(disk.clone(), &format!("{fill}~/file; sleep 1000"))?.ended()?.ended_by, EndedBy::Disk);
    // As it says, elsewhere nobody counts.
    let elsewhere = desk.path("outputs/file");
    assert_eq!(with(disk, &format!("{fill}{}", elsewhere.display()))?.ended()?.ended_by, EndedBy::Exit(0));
    assert_eq!(fs::metadata(&elsewhere)?.len(), 20 << 20);
    let short = Limits { wall_ms: 100, ..Limits::default() };
    assert_eq!(with(short, "sleep 1000")?.ended()?.ended_by, EndedBy::WallClock);
    Ok(())
}

/// Why so little of it is full.
fn whoever_kills_its_watchers_is_not_ended() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let marker = unique("rlimits-watchers");
    let home = desk.path("outputs/home");
    fs::set_permissions(desk.path("outputs"), fs::Permissions::from_mode(0o777))?;
    let mut asked = policy(
        "cd; pwd >\"$HERE\"; setsid sleep 1000 >/dev/null 2>&1 & kill -STOP $PPID; kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat) $PPID; sleep 1000",
    );
    asked.env.insert("MARKER".into(), Bytes::from(marker.as_str()));
    asked.env.insert("HERE".into(), Bytes::from(home.clone()));
    asked.limits.wall_ms = 10_000;
    let run = desk.launch(&asked);
    let left = processes::with_marker(&marker).len();
    for pid in processes::with_marker(&marker) {
        Command::new("kill").args(["-KILL", &pid.to_string()]).status()?;
    }
    eventually("all is gone", PATIENCE, || processes::with_marker(&marker).is_empty())?;
    // The directory that holds all private ones.
    let home = fs::read_to_string(home).map_err(|error| Stop::Fail(format!("{error}: {run:?}")))?;
    let home = PathBuf::from(home.trim_end());
    fs::remove_dir_all(home.parent().ok_or_else(|| Stop::Fail(format!("{home:?}")))?)?;
    assert!(run?.left.len() + left > 0, "a killed launcher and init leave nothing");
    let levels = &probe(&desk, &[])?.each[&Mechanism::Rlimits];
    for control in [Control::KilledAsATree, Control::MemoryLimited, Control::DiskLimited, Control::CpuLimited]
    {
        let level = levels.level(control);
        assert!(matches!(&level, Level::Partial(why) if why.contains("kills the supervisor")), "{level}");
    }
    Ok(())
}

fn what_it_cannot_keep_is_refused_by_name() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let work = Bytes::from(desk.path("work"));
    let bound = Policy { workdir: WorkDir::Bind(work.clone()), ..policy("echo ran") };
    let refused = |asked: &Policy, what: &str| -> Result<(), Stop> {
        let run = desk.launch(asked)?;
        let failure = run.failure()?;
        assert_eq!((failure.kind, run.stdout.len()), (FailureKind::Policy, 0), "{what}: {failure}");
        let named = failure.message.contains("rlimits") && failure.message.contains(what);
        assert!(named && failure.hint.is_some(), "{what}: {failure}");
        Ok(())
    };
    for (access, what) in [(Access::Ro, "written (ro)"), (Access::Hide, "hide"), (Access::Tmpfs, "(tmpfs)")] {
        let rules = vec![Rule { path: Bytes::from(desk.path("outputs")), access }];
        let asked = Policy { rules, ..policy("echo ran") };
        refused(&asked, what)?;
        let hint = desk.launch(&asked)?.failure()?.hint.unwrap_or_default();
        assert!(hint.contains("`landlock`"), "{hint}");
    }
    let rules = vec![Rule { path: work.clone(), access: Access::Ro }];
    refused(&Policy { rules, ..bound.clone() }, "written (ro)")?;
    let overlay = WorkDir::Overlay { path: work.clone(), commit: Commit::Never };
    refused(&Policy { workdir: overlay, ..policy("echo ran") }, "overlay")?;
    refused(&Policy { workdir: WorkDir::ScratchAt(work.clone()), ..policy("echo ran") }, "(tmpfs)")?;
    let watch = Watch { paths: vec!["/secret/key".into()], ..Watch::default() };
    refused(&Policy { watch, ..policy("echo ran") }, "watch.paths")?;
    for part in ["hooks", "objects", "refs"] {
        fs::create_dir_all(desk.path("work/.git").join(part))?;
    }
    fs::write(desk.path("work/.git/HEAD"), "ref: refs/heads/x\n")?;
    refused(&bound, "git")?;
    assert!(desk.launch(&bound)?.failure()?.hint.is_some_and(|hint| hint.contains("--git off")));
    // What it can keep is what there is to it: a directory of the host's, written as its owner.
    let own = Policy { git: GitNames::Off, workdir: WorkDir::Bind(work), ..policy("pwd; echo x >made") };
    let run = desk.launch(&own)?;
    if need("root").is_ok() && run.status.code() == Some(125) {
        assert!(run.failure()?.hint.is_some(), "{run:?}");
        return Ok(());
    }
    assert_eq!((run.status.code(), text(&run).trim()), (Some(0), &*desk.path("work").to_string_lossy()));
    Ok(())
}

fn what_it_lacks_fails_a_requirement() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    for (control, level) in &probe(&desk, &[])?.each[&Mechanism::Rlimits].controls {
        let run = desk.launch(&Policy { require: [*control].into(), ..policy("true") })?;
        match level {
            Level::Full => assert_eq!(run.status.code(), Some(0), "{control}: {run:?}"),
            // Where root can, it makes a cgroup for that.
            _ if *control == Control::MemoryLimited && run.status.success() => {
                assert!(
                    run.started()?.capabilities.level(*control).is_full() && need("root").is_ok(),
                    "{run:?}"
                );
            }
            _ => {
                let failure = run.failure()?;
                assert!(
                    failure.kind == FailureKind::Required && failure.message.contains(control.name()),
                    "{control}: {failure}"
                );
            }
        }
    }
    let strict = desk.call(&["--mechanism", "rlimits", "--strict", "--", "echo", "ran"], b"")?;
    let said = String::from_utf8_lossy(&strict.stderr).into_owned();
    assert_eq!((strict.status.code(), strict.stdout.len()), (Some(125), 0), "{strict:?}");
    assert!(said.contains("network_blocked is") && said.contains("filesystem_confined is"), "{said}");
    Ok(())
}
