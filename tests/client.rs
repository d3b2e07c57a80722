//! The client with the real helper: what a caller is told is what happened.

mod support;

use agentkit_client::{
    Cancel, Choice, Commit, Committed, Control, EndedBy, Error, FailureKind, Helper, Limits, Mechanism,
    Outcome, Sandbox, SandboxBuilder, WorkDir,
};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;
use support::need::need;
use support::{PATIENCE, Stop, eventually, processes, seccomp, sometimes_within, trial};

/// Set when this program runs itself: the scenario that needs a process of its own.
const ALONE: &str = "AGENTKIT_TEST_ALONE";

fn main() -> ExitCode {
    match std::env::var(ALONE).as_deref() {
        Ok("flood") => return alone(flood()),
        Ok("strict") => return alone(strict_is_refused()),
        _ => {}
    }
    support::run(vec![
        trial("python_says_hello", python_says_hello),
        trial("exit_codes_come_back", exit_codes_come_back),
        trial("a_signal_is_no_exit_code", a_signal_is_no_exit_code),
        trial("a_missing_command_is_not_started", a_missing_command_is_not_started),
        trial("a_file_without_x_is_not_started", a_file_without_x_is_not_started),
        trial("a_bad_policy_is_refused", a_bad_policy_is_refused),
        trial("stdin_reaches_the_command", stdin_reaches_the_command),
        trial("without_stdin_there_is_nothing_to_read", without_stdin_there_is_nothing_to_read),
        trial("ten_megabytes_for_a_command_that_reads_none", ten_megabytes_for_a_command_that_reads_none),
        trial("files_and_variables_arrive", files_and_variables_arrive),
        trial("the_callers_environment_stays_out", the_callers_environment_stays_out),
        trial("the_wall_clock_stops_a_sleeper", the_wall_clock_stops_a_sleeper),
        trial("orphans_that_hold_the_pipes_do_not_hold_the_caller", orphans_do_not_hold_the_caller),
        trial("cancel_kills_the_tree", cancel_kills_the_tree),
        trial("a_cancel_during_the_start_says_whether_it_ran", a_cancel_during_the_start_says_whether_it_ran),
        trial("changes_above_a_work_dir_come_back", changes_above_a_work_dir_come_back),
        trial("many_threads_share_a_sandbox", many_threads_share_a_sandbox),
        trial("a_flood_leaves_memory_bounded", a_flood_leaves_memory_bounded),
        trial("a_host_with_namespaces_satisfies_strict", a_host_with_namespaces_satisfies_strict),
        trial(
            "bounded_memory_is_had_where_a_group_can_be_made",
            bounded_memory_is_had_where_a_group_can_be_made,
        ),
        trial("strict_is_refused_without_user_namespaces", strict_is_refused_without_user_namespaces),
        trial("a_program_that_is_no_helper", a_program_that_is_no_helper),
    ])
}

fn builder() -> SandboxBuilder {
    Sandbox::builder().helper(Helper::Path(env!("CARGO_BIN_EXE_agentkit-jail").into()))
}

/// A sandbox, on a host that can have one.
fn sandbox() -> Result<Sandbox, Stop> {
    need("userns")?;
    need("seccomp")?;
    Ok(builder().build()?)
}

fn shell(script: &str) -> Result<Outcome, Stop> {
    Ok(sandbox()?.run(["sh", "-c", script])?)
}

fn python_says_hello() -> Result<(), Stop> {
    need("python")?;
    let outcome =
        sandbox()?.run_code("python", "import sys\nprint('hello')\nprint('oops', file=sys.stderr)")?;
    assert_eq!((outcome.stdout.text(), outcome.stderr.text()), ("hello\n".into(), "oops\n".into()));
    assert!(outcome.success());
    let helper =
        PathBuf::from(OsString::from(String::from_utf8_lossy(&outcome.started.helper.0).into_owned()));
    assert_eq!(helper.canonicalize()?, PathBuf::from(env!("CARGO_BIN_EXE_agentkit-jail")).canonicalize()?);
    Ok(())
}

fn exit_codes_come_back() -> Result<(), Stop> {
    // 124 to 127 and 137 are codes with which the helper itself says something to a shell: here they are the command's.
    for code in [0, 1, 7, 124, 125, 126, 127, 137, 255] {
        let outcome = shell(&format!("exit {code}"))?;
        assert_eq!((outcome.exit_code(), outcome.success()), (Some(code), code == 0));
    }
    Ok(())
}

fn a_signal_is_no_exit_code() -> Result<(), Stop> {
    let outcome = shell("kill -KILL $$")?;
    assert_eq!((outcome.ended.ended_by, outcome.exit_code()), (EndedBy::Signal(9), None));
    assert_eq!(outcome.describe(), "died of signal 9 (SIGKILL)");
    Ok(())
}

fn a_missing_command_is_not_started() -> Result<(), Stop> {
    let Err(Error::NotStarted(failure)) = sandbox()?.run(["no-such-command-here"]) else {
        panic!("it started")
    };
    assert_eq!(failure.kind, FailureKind::NotFound);
    assert!(failure.message.contains("no-such-command-here"), "{failure}");
    Ok(())
}

fn a_file_without_x_is_not_started() -> Result<(), Stop> {
    let result = sandbox()?.command(["/etc/passwd"]).run();
    let Err(Error::NotStarted(failure)) = result else { panic!("{result:?}") };
    assert_eq!(failure.kind, FailureKind::NotExecutable);
    Ok(())
}

fn a_bad_policy_is_refused() -> Result<(), Stop> {
    let result = sandbox()?.command(["true"]).file("../escape", "x").run();
    let Err(Error::Refused(failure)) = result else { panic!("{result:?}") };
    assert_eq!(failure.kind, FailureKind::Policy);
    let nothing: [&str; 0] = [];
    assert!(matches!(sandbox()?.run(nothing), Err(Error::Refused(_))));
    Ok(())
}

fn stdin_reaches_the_command() -> Result<(), Stop> {
    let bytes: Vec<u8> = (0..500_000u32).flat_map(u32::to_le_bytes).collect();
    need("userns")?;
    let outcome = builder().output_cap(bytes.len()).build()?.command(["cat"]).stdin(bytes.clone()).run()?;
    assert!(outcome.success() && outcome.stdout.bytes() == bytes);
    Ok(())
}

fn without_stdin_there_is_nothing_to_read() -> Result<(), Stop> {
    let outcome = sandbox()?.run(["cat"])?;
    assert_eq!((outcome.exit_code(), outcome.stdout.total()), (Some(0), 0));
    Ok(())
}

fn ten_megabytes_for_a_command_that_reads_none() -> Result<(), Stop> {
    for script in ["sleep 0.1", "exec <&-; sleep 0.1"] {
        let outcome = sandbox()?.command(["sh", "-c", script]).stdin(vec![0; 10 << 20]).run()?;
        assert!(outcome.success(), "{script}: {}", outcome.describe());
    }
    Ok(())
}

fn files_and_variables_arrive() -> Result<(), Stop> {
    need("userns")?;
    let sandbox = builder().env("ONE", "1").env("TWO", "1").build()?;
    let command = sandbox.command(["sh", "-c", "cat /tmp/data; echo $ONE$TWO"]);
    let outcome = command.file("data", "contents ").env("TWO", "2").run()?;
    assert_eq!(outcome.stdout.text(), "contents 12\n");
    Ok(())
}

fn the_callers_environment_stays_out() -> Result<(), Stop> {
    let variables = sandbox()?.run(["env"])?.stdout.text();
    for name in ["CARGO", "PYENV_VERSION", ALONE] {
        assert!(!variables.contains(name), "{variables}");
    }
    Ok(())
}

fn the_wall_clock_stops_a_sleeper() -> Result<(), Stop> {
    let sandbox = sandbox()?;
    sometimes_within(Duration::from_secs(3), || {
        let outcome = sandbox.command(["sleep", "1000"]).wall(Duration::from_millis(300)).run()?;
        assert_eq!(outcome.ended.ended_by, EndedBy::WallClock);
        assert_eq!(outcome.describe(), "killed at the wall-clock limit of 300 ms");
        Ok(())
    })
}

fn orphans_do_not_hold_the_caller() -> Result<(), Stop> {
    // Whoever waited for the end of the output would give up after two seconds.
    sometimes_within(Duration::from_secs(2), || {
        let outcome = shell("sleep 1000 & setsid sleep 1000 & echo done")?;
        assert_eq!((outcome.stdout.text(), outcome.exit_code()), ("done\n".into(), Some(0)));
        Ok(())
    })
}

fn cancel_kills_the_tree() -> Result<(), Stop> {
    // Whoever runs this test at the same time has processes of their own.
    let marker = format!("agentkit-test-cancel-marker-{}", std::process::id());
    let (sandbox, cancel) = (sandbox()?, Cancel::new());
    let hour = Duration::from_secs(3600);
    let script = "sh -c 'sleep 1000; :' $0 & wait";
    let outcome = thread::scope(|scope| {
        let run =
            scope.spawn(|| sandbox.command(["sh", "-c", script, &marker]).wall(hour).cancel(&cancel).run());
        let seen = eventually("two processes", PATIENCE, || processes::with_marker(&marker).len() >= 2);
        // Whether they were seen or not, or the scope would wait for the wall clock.
        cancel.cancel();
        let outcome = run.join().expect("no panic");
        seen.and_then(|()| Ok(outcome?))
    })?;
    assert_eq!(outcome.ended.ended_by, EndedBy::Caller);
    assert_eq!(processes::with_marker(&marker), []);
    Ok(())
}

/// Whether it came in time is for the run to say: the command may be at work before anybody outside has heard of it.
fn a_cancel_during_the_start_says_whether_it_ran() -> Result<(), Stop> {
    sandbox()?;
    let directory = support::temp_dir()?;
    let ran = directory.path().join("ran");
    // As soon as it is seen to run, and at moments of which most lie before.
    let moments = || (0..6).map(|_| None).chain((0..15).map(|at| Some(Duration::from_micros(at * 400))));
    let choices = [Choice::Namespaces, Choice::Landlock];
    for (choice, moment) in choices.into_iter().flat_map(|choice| moments().map(move |it| (choice, it))) {
        let workdir = WorkDir::Bind(directory.path().to_path_buf().into());
        let (sandbox, cancel) = (builder().mechanism(choice).workdir(workdir).build()?, Cancel::new());
        let command = sandbox.command(["sh", "-c", "echo x > ran; exec sleep 1000"]).cancel(&cancel);
        let result = thread::scope(|scope| {
            let run = scope.spawn(|| command.run());
            while moment.is_none() && !ran.exists() && !run.is_finished() {
                thread::yield_now();
            }
            thread::sleep(moment.unwrap_or_default());
            cancel.cancel();
            run.join().expect("no panic")
        });
        match result {
            Ok(outcome) => assert_eq!(outcome.ended.ended_by, EndedBy::Caller, "{choice:?} {moment:?}"),
            Err(error) => {
                assert_eq!((error, ran.exists()), (Error::Cancelled, false), "{choice:?} {moment:?}");
            }
        }
        if ran.exists() {
            std::fs::remove_file(&ran)?;
        }
    }
    Ok(())
}

fn changes_above_a_work_dir_come_back() -> Result<(), Stop> {
    sandbox()?;
    let directory = support::temp_dir()?;
    let made = directory.path().join("made");
    for (commit, committed) in [(Commit::Never, Committed::No), (Commit::OnSuccess, Committed::Yes)] {
        let workdir = WorkDir::Overlay { path: directory.path().to_path_buf().into(), commit };
        let outcome = builder().workdir(workdir).build()?.run(["sh", "-c", "echo x > made"])?;
        assert!(outcome.success(), "{}", outcome.describe());
        let changes = outcome.changes().cloned().unwrap_or_default();
        assert_eq!((changes.total, &changes.list[0].path), (1, &"made".into()));
        assert_eq!((made.exists(), &changes.commit), (committed == Committed::Yes, &committed));
    }
    Ok(())
}

fn many_threads_share_a_sandbox() -> Result<(), Stop> {
    let sandbox = sandbox()?;
    let outcomes: Vec<_> = thread::scope(|scope| {
        let run = |code: i32| sandbox.run(["sh".to_owned(), "-c".to_owned(), format!("exit {code}")]);
        let threads: Vec<_> = (0..16).map(|code| scope.spawn(move || run(code))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for (code, outcome) in (0..).zip(outcomes) {
        assert_eq!(outcome?.exit_code(), Some(code));
    }
    Ok(())
}

fn a_flood_leaves_memory_bounded() -> Result<(), Stop> {
    sandbox()?;
    run_alone(&[], "flood")
}

/// 200 MB through a cap of 256 KiB, in a process that has never held more.
fn flood() -> Result<(), Stop> {
    const BYTES: u64 = 200 << 20;
    let sandbox = sandbox()?;
    // What a first run needs anyway, such as the pages of the code, comes and goes by hundreds of KiB with the page cache.
    sandbox.run(["true"])?;
    let before = peak_memory()?;
    let script = format!("head -c {BYTES} /dev/zero; echo end");
    let outcome = sandbox.run(["sh", "-c", &script])?;
    assert!(outcome.success(), "{}", outcome.describe());
    assert_eq!((outcome.stdout.total(), outcome.stdout.bytes().len()), (BYTES + 4, 256 << 10));
    assert!(outcome.stdout.truncated() && outcome.stdout.bytes().ends_with(b"\0end\n"));
    let grown = peak_memory()? - before;
    assert!(grown < 2 << 20, "the peak grew by {grown} bytes for a cap of 256 KiB");
    Ok(())
}

/// `VmHWM` of this process, in bytes.
fn peak_memory() -> Result<u64, Stop> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes << 10)
}

fn a_host_with_namespaces_satisfies_strict() -> Result<(), Stop> {
    sandbox()?;
    let sandbox = builder().strict(true).build()?;
    let capabilities = sandbox.capabilities();
    assert_eq!(capabilities.failure, None);
    assert_eq!(capabilities.controls.len(), Control::ALL.len());
    // What a run reads back inside the jail is what the probe promised.
    assert_eq!(&sandbox.run(["true"])?.started.capabilities, capabilities);
    Ok(())
}

/// The probe makes no control group, and says `polled`.
fn bounded_memory_is_had_where_a_group_can_be_made() -> Result<(), Stop> {
    let without = sandbox()?;
    let limits = Limits { memory: 64 << 20, ..Limits::default() };
    let sandbox = match builder().require([Control::MemoryLimited]).limits(limits).build() {
        Ok(sandbox) => sandbox,
        Err(Error::Refused(failure)) => {
            assert!(failure.message.contains("memory_limited is required"), "{failure}");
            return Err(Stop::Skip(failure.to_string()));
        }
        Err(other) => panic!("{other}"),
    };
    assert!(!without.capabilities().level(Control::MemoryLimited).is_full());
    let started = sandbox.run(["true"])?.started;
    assert!(started.capabilities.level(Control::MemoryLimited).is_full(), "{started:?}");
    Ok(())
}

fn strict_is_refused_without_user_namespaces() -> Result<(), Stop> {
    need("python")?;
    need("seccomp")?;
    run_alone(&seccomp::without_user_namespaces(), "strict")
}

/// On a host that forbids user namespaces.
fn strict_is_refused() -> Result<(), Stop> {
    let result = builder().strict(true).build();
    let Err(Error::Refused(failure)) = result else { panic!("{result:?}") };
    assert_eq!(failure.kind, FailureKind::Required);
    assert!(
        failure.message.starts_with("filesystem_confined: partial: ")
            && failure.message.contains("namespaces: clone"),
        "{failure}"
    );
    let only = builder().mechanism(Choice::Namespaces).build()?.run(["true"]);
    assert!(matches!(only, Err(Error::Unavailable(_))), "{only:?}");
    // Without a requirement what is left will do, and the outcome says so.
    let started = builder().limits(Limits::default()).build()?.run_code("sh", "true")?.started;
    assert_eq!((started.mechanism, started.passed_over.len()), (Mechanism::Landlock, 2), "{started:?}");
    let chosen = builder().mechanism(Choice::Landlock).require([Control::NetworkBlocked]).build()?;
    assert_eq!(chosen.capabilities().mechanism, Some(Mechanism::Landlock));
    Ok(())
}

fn a_program_that_is_no_helper() -> Result<(), Stop> {
    let sandbox = Sandbox::builder().helper(Helper::Path("/bin/ls".into())).build()?;
    let Err(Error::Unavailable(failure)) = sandbox.run(["true"]) else { panic!("it ran") };
    assert!(failure.message.contains("--client"), "its complaint should be passed on: {failure}");
    Ok(())
}

/// Runs a scenario in a process of its own, `before` in front of its command line.
fn run_alone(before: &[String], scenario: &str) -> Result<(), Stop> {
    let program = std::env::current_exe()?.into_os_string();
    let words: Vec<OsString> = before.iter().map(OsString::from).chain([program]).collect();
    let output = Command::new(&words[0]).args(&words[1..]).env(ALONE, scenario).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Stop::Fail(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

fn alone(result: Result<(), Stop>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Skip(reason) | Stop::Fail(reason)) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}
