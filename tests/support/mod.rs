//! What the suites share. Included by path (`#[path = "support/mod.rs"] mod support;`) from suites of several packages,
//! so it needs nothing but the standard library, `libtest-mimic` and `tempfile`.
#![allow(dead_code, reason = "each suite compiles its own copy and uses a part of it")]

pub(crate) mod listener;
pub(crate) mod need;
pub(crate) mod outside;
pub(crate) mod processes;
pub(crate) mod seccomp;
pub(crate) mod user;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Why a test ended early. Every error turns into [`Stop::Fail`], so test bodies use `?` throughout.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It cannot run on this host, for this reason. Never counted as passed.
    Skip(String),
    /// It went wrong.
    Fail(String),
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Fail(error.to_string())
    }
}

/// One test: its body asks [`need::need`] for what it depends on, then asserts or returns an error.
pub(crate) fn trial(name: &str, body: impl FnOnce() -> Result<(), Stop> + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || match body() {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::Skip(reason)) => Ok(Completion::ignored_with(reason)),
        Err(Stop::Fail(reason)) => Err(Failed::from(reason)),
    })
}

/// The `main` of a suite with `harness = false`. As in the built-in harness, `RUST_TEST_THREADS` says how many run at once.
pub(crate) fn run(trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if let Some(number) = std::env::var_os("RUST_TEST_THREADS").filter(|_| arguments.test_threads.is_none()) {
        let number = number.to_str().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
        arguments.test_threads = Some(number.expect("RUST_TEST_THREADS is a positive number"));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// All of both, the few at equal distances: while those wait, for each other too, the others have the processors.
pub(crate) fn spread(few: Vec<Trial>, others: Vec<Trial>) -> Vec<Trial> {
    let distance = others.len() / few.len().max(1);
    let mut others = others.into_iter();
    let mut all = Vec::new();
    for one in few {
        all.push(one);
        all.extend(others.by_ref().take(distance));
    }
    all.extend(others);
    all
}

/// A directory of this test's own, removed when dropped. Only its owner can look into it.
pub(crate) fn temp_dir() -> std::io::Result<tempfile::TempDir> {
    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("agentkit-test-").permissions(private).tempdir()
}

/// Makes an executable file with this content. Another process writes it: a test that forks meanwhile would inherit our
/// descriptor, and a file that somebody has open for writing cannot be executed.
pub(crate) fn write_program(path: &Path, content: &[u8]) -> Result<(), Stop> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(path).stdin(Stdio::piped());
    let mut child = writer.spawn()?;
    child.stdin.take().map(|mut stdin| stdin.write_all(content)).transpose()?;
    if child.wait()?.success() { Ok(()) } else { Err(Stop::Fail(format!("cannot write {path:?}"))) }
}

/// How long something may take that comes in milliseconds, before it counts as hung: a busy host may give it no processor
/// for seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something outside this process that sends no event (a process that dies, a file that appears), and fails
/// with `what` after `limit`. Never a substitute for an event that could be waited for.
pub(crate) fn eventually(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> bool,
) -> Result<(), Stop> {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() > deadline {
            return Err(Stop::Fail(format!("not within {limit:?}: {what}")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Gives `attempt` more and more time, until it comes to the point that the test is about. The clock may stop it before
/// that, and it then returns nothing.
pub(crate) fn with_more_time<T>(
    least: Duration,
    mut attempt: impl FnMut(Duration) -> Result<Option<T>, Stop>,
) -> Result<T, Stop> {
    let mut time = least;
    for _ in 0..4 {
        if let Some(found) = attempt(time)? {
            return Ok(found);
        }
        time *= 4;
    }
    Err(Stop::Fail(format!("it did not come to the point, not even within {:?}", time / 4)))
}

/// Fails unless `action` takes less than `limit` once, in some tries. What has to wait as long never does; what need not
/// may be kept from its processor now and then.
pub(crate) fn sometimes_within(
    limit: Duration,
    mut action: impl FnMut() -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut took = Vec::new();
    while took.len() < 10 {
        let begin = Instant::now();
        action()?;
        match begin.elapsed() {
            time if time < limit => return Ok(()),
            time => took.push(time),
        }
    }
    Err(Stop::Fail(format!("never within {limit:?}: {took:?}")))
}
