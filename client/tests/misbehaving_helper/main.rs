//! The client against helpers that are slow, silent, dead, babbling or disobedient, which the real one hopefully
//! never is. This program is its own helper: see `helper.rs`.

mod helper;

use agentkit_client::{Cancel, EndedBy, Error, FailureKind, Helper, Outcome, Sandbox};
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Set when this program runs itself to look at a process that does nothing else.
const ALONE: &str = "AGENTKIT_TEST_ALONE";

fn main() -> ExitCode {
    if std::env::args_os().any(|argument| argument == "--client") {
        return helper::main();
    }
    if let Some(scenario) = std::env::var_os(ALONE) {
        alone(&scenario);
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // Nearly all that they do is to wait: as many at once as there are.
    let tests = tests();
    arguments.test_threads = arguments.test_threads.or(Some(tests.len()));
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn tests() -> Vec<Trial> {
    macro_rules! trials {
        ($($name:ident),* $(,)?) => { vec![$(Trial::test(stringify!($name), || { $name(); Ok::<(), Failed>(()) })),*] };
    }
    let mut trials = trials![
        output_and_exit_code_come_back,
        nothing_of_the_caller_is_passed_on,
        stdin_reaches_a_reader,
        ten_megabytes_for_a_command_that_holds_stdin_and_never_reads,
        ten_megabytes_for_a_command_that_closes_stdin,
        a_helper_that_dies_at_once,
        a_helper_that_dies_after_the_start,
        a_helper_that_babbles,
        a_helper_that_speaks_out_of_turn,
        a_helper_that_refuses_before_it_has_read_everything,
        a_helper_that_stays_after_the_end,
        a_helper_that_ignores_everything_is_killed,
        a_helper_that_misses_its_own_deadline_is_told_to_stop,
        cancel_from_another_thread,
        cancel_before_the_start,
        cancelled_before_the_call,
        a_probe_without_an_answer,
        a_probe_that_dies,
        a_program_without_a_door_does_not_start_itself_for_ever,
    ];
    if cfg!(target_os = "linux") {
        trials.extend(trials![a_flood_leaves_memory_bounded, a_run_leaves_no_process_and_no_descriptor]);
    }
    trials
}

fn sandbox() -> Sandbox {
    Sandbox::builder().helper(Helper::OwnExecutable).build().expect("nothing is required")
}

const HOUR: Duration = Duration::from_secs(3600);

fn run(behaviour: &str) -> Result<Outcome, Error> {
    sandbox().run([behaviour])
}

fn unavailable(result: Result<Outcome, Error>) -> String {
    match result {
        Err(Error::Unavailable(failure)) => failure.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Fails if `action` takes long: far more than it needs, also on a busy host, and far less than a hang. Whether it was waited
/// for the right thing, the result says.
fn within<T>(action: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = action();
    assert!(start.elapsed() < Duration::from_secs(60), "it took {:?}", start.elapsed());
    result
}

fn output_and_exit_code_come_back() {
    let outcome = run("speak").expect("an outcome");
    assert_eq!((outcome.stdout.text(), outcome.stderr.text()), ("to stdout\n".into(), "to stderr\n".into()));
    assert_eq!((outcome.exit_code(), outcome.describe()), (Some(3), "exited with code 3".to_owned()));
    assert!(!outcome.success());
}

fn nothing_of_the_caller_is_passed_on() {
    let variables = run("print-environment").expect("an outcome").stdout.text();
    assert!(variables.contains("PATH\n"));
    for name in variables.lines() {
        assert!(
            ["PATH", "HOME", "PYENV_VERSION", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "CARGO_HOME"]
                .contains(&name),
            "{name}"
        );
    }
    if cfg!(target_os = "linux") {
        let text = run("print-descriptors").expect("an outcome").stdout.text();
        assert_eq!(text.lines().map(str::to_owned).collect::<BTreeSet<_>>(), inherited());
    }
}

/// The three standard streams, and what whoever started this program left open for everyone.
fn inherited() -> BTreeSet<String> {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let entries = std::fs::read_dir("/proc/self/fdinfo").expect("/proc").filter_map(Result::ok);
    let kept = entries.filter(|entry| {
        // Another test's descriptor may be gone by now.
        let info = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        flags.is_some_and(|flags| u32::from_str_radix(flags.trim(), 8).expect("octal") & CLOSE_ON_EXEC == 0)
    });
    kept.map(|entry| entry.file_name().into_string().expect("a number")).collect()
}

fn stdin_reaches_a_reader() {
    let bytes: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let sandbox =
        Sandbox::builder().helper(Helper::OwnExecutable).output_cap(bytes.len()).build().expect("sandbox");
    let outcome = sandbox.command(["copy-stdin"]).stdin(bytes.clone()).run().expect("an outcome");
    assert_eq!(outcome.stdout.total(), bytes.len() as u64);
    assert!(outcome.stdout.bytes() == bytes);
    assert_eq!(sandbox.command(["copy-stdin"]).stdin("").run().expect("an outcome").stdout.total(), 0);
}

fn ten_megabytes_for_a_command_that_holds_stdin_and_never_reads() {
    let outcome = within(|| sandbox().command(["hold-stdin"]).stdin(vec![0; 10 << 20]).run());
    assert!(outcome.expect("an outcome").success());
}

fn ten_megabytes_for_a_command_that_closes_stdin() {
    let outcome = within(|| sandbox().command(["close-stdin"]).stdin(vec![0; 10 << 20]).run());
    assert!(outcome.expect("an outcome").success());
}

fn a_helper_that_dies_at_once() {
    let text = unavailable(run("die"));
    assert!(
        text.contains("the helper died: exit status: 9") && text.contains("left \"boom\\nbang\" on stderr"),
        "{text}"
    );
    // So does a program that is to be its own helper and has no door.
    assert!(text.contains("call agentkit_jail::door() first thing in main"), "{text}");
}

fn a_helper_that_dies_after_the_start() {
    let text = unavailable(run("start-and-die"));
    assert!(text.contains("the helper died: signal: 15") && text.contains("nothing on stderr"), "{text}");
    assert!(!text.contains("door"), "{text}");
}

fn a_helper_that_babbles() {
    let text = unavailable(run("babble"));
    assert!(text.contains("not a frame: it starts with \"Hell\""), "{text}");
}

fn a_helper_that_speaks_out_of_turn() {
    let text = unavailable(run("end-without-start"));
    assert!(text.contains("out of turn: Ended"), "{text}");
}

fn a_helper_that_refuses_before_it_has_read_everything() {
    let (file, refuser) = (vec![0; 10 << 20], renamed("refuse-unread"));
    let sandbox = Sandbox::builder().helper(refuser.helper()).build().expect("sandbox");
    let Err(Error::Refused(failure)) = sandbox.command(["x"]).file("big", file).run() else {
        panic!("not refused")
    };
    assert_eq!(failure.message, "no");
}

fn a_helper_that_stays_after_the_end() {
    let outcome = within(|| run("end-and-stay")).expect("an outcome");
    assert_eq!(outcome.stdout.text(), "done");
}

fn a_helper_that_ignores_everything_is_killed() {
    let command = sandbox();
    let result = within(|| command.command(["hang"]).wall(Duration::from_millis(20)).run());
    let text = unavailable(result);
    assert!(text.contains("not at its wall-clock limit of 20 ms and not when told to"), "{text}");
}

fn a_helper_that_misses_its_own_deadline_is_told_to_stop() {
    let listener = Meeting::new();
    let sandbox = sandbox();
    let command = sandbox.command(listener.arguments("obey")).wall(Duration::from_millis(20));
    let outcome = within(|| command.run()).expect("an outcome");
    assert_eq!(outcome.ended.ended_by, EndedBy::Caller);
}

fn cancel_from_another_thread() {
    let (sandbox, cancel, meeting) = (sandbox(), Cancel::new(), Meeting::new());
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            meeting.wait_for_helper();
            cancel.cancel();
        });
        within(|| sandbox.command(meeting.arguments("obey")).wall(HOUR).cancel(&cancel).run())
    });
    assert_eq!(outcome.expect("an outcome").describe(), "killed because the caller cancelled");
}

fn cancel_before_the_start() {
    let (sandbox, cancel, meeting) = (sandbox(), Cancel::new(), Meeting::new());
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            meeting.wait_for_helper();
            cancel.cancel();
        });
        within(|| sandbox.command(meeting.arguments("fail-when-told")).wall(HOUR).cancel(&cancel).run())
    });
    assert_eq!(result.expect_err("nothing ran"), Error::Cancelled);
}

fn cancelled_before_the_call() {
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(
        sandbox().command(["speak"]).cancel(&cancel).run().expect_err("nothing ran"),
        Error::Cancelled
    );
}

fn a_probe_without_an_answer() {
    let silent = renamed("hang");
    let sandbox = Sandbox::builder().helper(silent.helper()).build().expect("non-strict never probes");
    let capabilities = within(|| sandbox.capabilities().clone());
    assert_eq!(capabilities.failure.expect("a failure").message, "no answer within 2 s");
}

fn a_probe_that_dies() {
    let dying = renamed("die");
    let builder = Sandbox::builder().helper(dying.helper());
    let Err(Error::Refused(failure)) = builder.strict(true).build() else { panic!("not refused") };
    assert_eq!(failure.kind, FailureKind::Required);
    let why = "network_blocked, filesystem_confined: none: run the helper: the helper died: exit status: 9";
    assert!(failure.message.contains(why), "{failure}");
}

/// The behaviour makes the helper go on as this program would if it had no door: it runs a sandbox of its own.
fn a_program_without_a_door_does_not_start_itself_for_ever() {
    let outcome = within(|| run("no-door")).expect("an outcome");
    assert!(outcome.stdout.text().contains("started as agentkit-jail and did not hand over"), "{outcome:?}");
}

fn a_flood_leaves_memory_bounded() {
    run_alone("flood");
}

fn a_run_leaves_no_process_and_no_descriptor() {
    run_alone("leftovers");
}

fn run_alone(scenario: &str) {
    let program = std::env::current_exe().expect("an executable");
    let output = Command::new(program).env(ALONE, scenario).output().expect("this program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What happens in a process of its own, so that its memory, children and descriptors are those of the client.
fn alone(scenario: &OsStr) {
    if scenario == "flood" {
        flood();
    } else {
        leftovers();
    }
}

fn flood() {
    const MEGABYTES: u64 = 200;
    let before = peak_memory();
    let outcome = run("flood").expect("an outcome");
    assert_eq!(outcome.stdout.total(), MEGABYTES << 20);
    assert_eq!((outcome.stdout.bytes().len(), outcome.stdout.truncated()), (256 << 10, true));
    assert!(outcome.stdout.text().contains("bytes left out"));
    let grown = peak_memory() - before;
    assert!(grown < 2 << 20, "the peak grew by {grown} bytes for a cap of 256 KiB");
}

fn leftovers() {
    let state =
        || (list("/proc/self/fd"), std::fs::read_to_string("/proc/thread-self/children").expect("children"));
    let before = state();
    for behaviour in ["speak", "die", "babble", "end-without-start", "end-and-stay"] {
        drop(run(behaviour));
    }
    let cancel = Cancel::new();
    drop(sandbox().command(["hold-stdin"]).stdin(vec![0; 1 << 20]).cancel(&cancel).run());
    assert!(sandbox().capabilities().failure.is_some());
    assert_eq!(before, state());
}

fn list(directory: &str) -> usize {
    std::fs::read_dir(directory).expect(directory).count()
}

/// `VmHWM` of this process, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    let kibibytes: u64 = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    kibibytes << 10
}

/// A socket on which the helper tells the test that it has come to the interesting point.
struct Meeting {
    listener: UnixListener,
    directory: tempfile::TempDir,
}

impl Meeting {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Meeting { listener: UnixListener::bind(directory.path().join("here")).expect("bind"), directory }
    }

    fn arguments(&self, behaviour: &str) -> [std::ffi::OsString; 2] {
        [behaviour.into(), self.directory.path().join("here").into()]
    }

    fn wait_for_helper(&self) {
        self.listener.accept().expect("accept");
    }
}

/// This program under another name: what a helper does before it has read a policy depends on its name.
struct Renamed(tempfile::TempDir, &'static str);

impl Renamed {
    fn helper(&self) -> Helper {
        Helper::Path(self.0.path().join(self.1))
    }
}

fn renamed(name: &'static str) -> Renamed {
    let directory = tempfile::tempdir().expect("a directory");
    let own: &Path = &std::env::current_exe().expect("an executable");
    symlink(own, directory.path().join(name)).expect("symlink");
    Renamed(directory, name)
}
