//! `agentkit-evals audit` as a user runs it: the corpus of attacks against the jail, and against launchers that are none.

#[path = "support/mod.rs"]
mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use support::need::need;
use support::processes::with_marker;
use support::user::{UNPRIVILEGED_ID, current_uid, may_become_another, unprivileged};
use support::{PATIENCE, Stop, eventually, trial};
use tempfile::TempDir;

const EVALS: &str = env!("CARGO_BIN_EXE_agentkit-evals");

/// What takes nothing that everybody shares.
const WITHOUT_RESOURCES: &str = "network,filesystem,processes,kernel,leakage,terminal,persistence";
/// What does is found to bite before each audit anyway. It takes long, so one audit performs it, beside everything else.
const RESOURCES: &str = "resources";

fn main() -> ExitCode {
    support::run(vec![
        trial("the_jail_keeps_what_it_claims", || {
            keeps_what_it_claims(Who::Own, &[RESOURCES, WITHOUT_RESOURCES])
        }),
        trial("the_jail_of_an_ordinary_user_keeps_what_it_claims", || {
            // Who runs these tests as an ordinary user has the others too.
            keeps_what_it_claims(Who::Ordinary, &[WITHOUT_RESOURCES])
        }),
        trial("by_bubblewrap_it_keeps_what_it_claims", || {
            need("bubblewrap")?;
            by_itself_it_keeps_what_it_claims("bubblewrap", "filesystem,leakage")
        }),
        trial("without_namespaces_it_keeps_what_it_claims", || {
            by_itself_it_keeps_what_it_claims("landlock", "network,leakage")
        }),
        trial("claims_are_compared_in_both_directions", claims_are_compared_in_both_directions),
        trial("a_launcher_that_confines_nothing_is_found_out", a_launcher_that_confines_nothing_is_found_out),
        trial("a_launcher_that_runs_nothing_contains_nothing", a_launcher_that_runs_nothing_contains_nothing),
        trial("a_daemon_is_seen_every_time", a_daemon_is_seen_every_time),
        trial("a_directory_of_any_name_will_do", a_directory_of_any_name_will_do),
        trial("what_cannot_be_printed_is_still_reported", what_cannot_be_printed_is_still_reported),
        trial("a_launcher_that_runs_nothing_is_asked_once", a_launcher_that_runs_nothing_is_asked_once),
        trial("two_launchers_side_by_side", two_launchers_side_by_side),
        trial("ordinary_code_works_in_the_jail", || ordinary_code_works(Who::Own)),
        trial("ordinary_code_works_in_the_jail_of_an_ordinary_user", || ordinary_code_works(Who::Ordinary)),
        trial("an_interrupt_leaves_nothing", an_interrupt_leaves_nothing),
        trial("mistakes_exit_with_2_and_one_line", mistakes_exit_with_2_and_one_line),
        trial("an_empty_launcher_is_refused", an_empty_launcher_is_refused),
        trial("the_list_names_every_attack", the_list_names_every_attack),
    ])
}

/// Who audits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Who runs the tests.
    Own,
    /// Somebody without privileges, if that is root.
    Ordinary,
}

/// A directory to work in, and how to run things there.
struct Bench {
    who: Who,
    directory: TempDir,
    /// Whether programs are only looked for where every user can reach them.
    plain_path: bool,
}

impl Bench {
    fn new(who: Who) -> Result<Self, Stop> {
        if !cfg!(target_os = "linux") {
            return Err(Stop::Skip("the attacks are on Linux sandboxes".into()));
        }
        if who == Who::Ordinary && current_uid().map_err(Stop::Fail)? != 0 {
            return Err(Stop::Skip("who runs the tests is an ordinary user already".into()));
        }
        if who == Who::Ordinary {
            may_become_another()?;
        }
        let directory = tempfile::Builder::new().prefix("audit-test-").tempdir_in("/var/tmp")?;
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755))?;
        if who == Who::Ordinary {
            lchown(directory.path(), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID))?;
        }
        Ok(Bench { who, directory, plain_path: false })
    }

    fn command(&self, program: &Path) -> Result<Command, Stop> {
        let mut command = match self.who {
            Who::Own => Command::new(program),
            Who::Ordinary => unprivileged(program)?,
        };
        command.stdin(Stdio::null()).env("HOME", self.directory.path());
        if self.plain_path {
            command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        }
        Ok(command)
    }

    fn audit(&self, arguments: &[&str]) -> Result<Output, Stop> {
        Ok(self.command(Path::new(EVALS))?.arg("audit").args(arguments).output()?)
    }

    /// Runs it with a report, and checks that nothing else was left; returns the findings.
    fn findings(&self, arguments: &[&str]) -> Result<(Output, Vec<Value>), Stop> {
        let report = self.directory.path().join("report.json");
        let json = report.to_str().unwrap_or_default();
        let output = self.audit(&[&["--json", json], arguments].concat())?;
        let text = std::fs::read_to_string(&report)
            .map_err(|why| Stop::Fail(format!("no report ({why}): {output:?}")))?;
        std::fs::remove_file(&report)?;
        let left: Vec<_> = std::fs::read_dir(self.directory.path())?.flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        let report: Value = serde_json::from_str(&text)?;
        Ok((output, report["findings"].as_array().cloned().unwrap_or_default()))
    }

    /// What the jail claims for a run with such a directory, control by control: `full`, or what it falls short of.
    fn claims(&self, mechanism: &str) -> Result<BTreeMap<String, Value>, Stop> {
        let [jail, work] = ["agentkit-jail", "work"].map(|name| self.directory.path().join(name));
        symlink(EVALS, &jail)?;
        self.command(Path::new("/bin/mkdir"))?.arg(&work).status()?;
        let policy = json!({
            "version": 1, "argv": ["true"], "proc": "full", "workdir": { "bind": work }, "mechanism": mechanism
        });
        let mut shell = self.command(Path::new("/bin/sh"))?;
        shell.args(["-c", r#"printf %s "$2" | "$1" --report-fd 3 3>&1"#, "-"]).arg(&jail);
        let output = shell.arg(policy.to_string()).output()?;
        std::fs::remove_file(&jail)?;
        std::fs::remove_dir(&work)?;
        let started = String::from_utf8_lossy(&output.stdout);
        let started: Value = serde_json::from_str(started.lines().next().unwrap_or_default())
            .map_err(|why| Stop::Fail(format!("no report ({why}): {output:?}")))?;
        Ok(serde_json::from_value(started["started"]["capabilities"]["controls"].clone())?)
    }
}

fn is(finding: &Value, verdict: &str) -> bool {
    finding["verdict"].get(verdict).is_some()
}

/// No attack breaks a claim, no control is disclaimed that stops all its attacks, and each could be tried. The parts are
/// audited at the same time.
fn keeps_what_it_claims(who: Who, parts: &[&str]) -> Result<(), Stop> {
    need("userns")?;
    let claims = Bench::new(who)?.claims("auto")?;
    let audit = |families: &str| Ok(Bench::new(who)?.findings(&["--families", families])?.1);
    let found: Vec<Result<Vec<Value>, Stop>> = std::thread::scope(|scope| {
        let audits: Vec<_> = parts.iter().map(|part| scope.spawn(|| audit(part))).collect();
        let ended = audits.into_iter().map(|audit| audit.join());
        ended.map(|end| end.unwrap_or_else(|_| Err(Stop::Fail("an audit panicked".into())))).collect()
    });
    let mut findings = Vec::new();
    for found in found {
        let found = found?;
        assert!(found.iter().any(|finding| is(finding, "contained")), "{found:#?}");
        findings.extend(found);
    }
    let wrong = disagreements(&claims, &findings);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The same of another mechanism, by the attacks on what it may claim in full.
fn by_itself_it_keeps_what_it_claims(mechanism: &str, families: &str) -> Result<(), Stop> {
    need("userns")?;
    // Whom root becomes under landlock reaches no interpreter in root's home.
    let bench = Bench { plain_path: mechanism == "landlock", ..Bench::new(Who::Own)? };
    let claims = bench.claims(mechanism)?;
    let by_it = |what: [&str; 2]| bench.findings(&[&["--mechanism", mechanism], &what[..]].concat());
    let outlive =
        "outlive_as_a_daemon,outlive_deaf_to_signals,outlive_under_another_name,outlive_a_killed_launcher";
    let (output, mut findings) = by_it(["--families", families])?;
    findings.extend(by_it(["--attacks", outlive])?.1);
    assert!(findings.iter().any(|finding| is(finding, "contained")), "{output:?}");
    let wrong = disagreements(&claims, &findings);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Where claims, control by control, and what the attacks on each found are not the same.
fn disagreements(claims: &BTreeMap<String, Value>, findings: &[Value]) -> Vec<String> {
    let names = |finding: &Value, control: &str| {
        finding["controls"].as_array().is_some_and(|names| names.iter().any(|name| name == control))
    };
    let untried = findings.iter().filter(|finding| is(finding, "error"));
    let mut wrong: Vec<String> = untried.map(|finding| format!("not tried: {finding:#}")).collect();
    for (control, level) in claims {
        let concerned = || findings.iter().filter(|finding| names(finding, control));
        let escaped = || concerned().filter(|finding| is(finding, "escaped"));
        if level == "full" {
            wrong.extend(escaped().map(|finding| format!("{control} is full: {finding:#}")));
        }
        let all_fail = concerned().any(|finding| is(finding, "contained")) && escaped().next().is_none();
        if level.get("none").is_some() && all_fail {
            wrong.push(format!("{control} is {level}, but all attacks on it fail"));
        }
    }
    wrong
}

fn claims_are_compared_in_both_directions() -> Result<(), Stop> {
    let differ = |level: Value, verdicts: &[&str]| {
        let finding = |verdict: &&str| json!({ "controls": ["a", "b"], "verdict": { *verdict: "why" } });
        let findings: Vec<_> = verdicts.iter().map(finding).collect();
        !disagreements(&[("a".to_owned(), level)].into(), &findings).is_empty()
    };
    let none = || json!({ "none": "why" });
    assert!(differ(json!("full"), &["contained", "escaped"]) && !differ(json!("full"), &["contained"]));
    assert!(differ(none(), &["contained", "cannot_bite"]) && !differ(none(), &["contained", "escaped"]));
    // What never bites says nothing, and a part may be broken or not.
    assert!(!differ(none(), &["cannot_bite"]) && !differ(json!("full"), &["cannot_bite"]));
    for verdict in ["contained", "escaped"] {
        assert!(!differ(json!({ "partial": "why" }), &[verdict]));
    }
    assert!(differ(json!({ "partial": "why" }), &["error"]));
    Ok(())
}

/// Whatever bites at all escapes from it, so that no verdict is a matter of course.
fn a_launcher_that_confines_nothing_is_found_out() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    let (output, findings) = bench.findings(&["--launcher", "env", "--families", WITHOUT_RESOURCES])?;
    let tame: Vec<_> =
        findings.iter().filter(|finding| !is(finding, "escaped") && !is(finding, "cannot_bite")).collect();
    assert!(tame.is_empty(), "{tame:#?}");
    assert!(findings.iter().any(|finding| is(finding, "escaped")) && output.status.code() == Some(1));
    Ok(())
}

/// Each tries to get away from whoever looks at the moment when the launcher ends.
fn a_daemon_is_seen_every_time() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    let daemons =
        "outlive_as_a_daemon,outlive_deaf_to_signals,outlive_holding_the_output,outlive_under_another_name";
    for _ in 0..4 {
        let (_, findings) = bench.findings(&["--launcher", "env", "--attacks", daemons])?;
        assert!(findings.len() == 4 && findings.iter().all(|it| is(it, "escaped")), "{findings:#?}");
    }
    Ok(())
}

/// What the host's git executes there names a path with a quote.
fn a_directory_of_any_name_will_do() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    let odd = bench.directory.path().join("it's \"my\" \\ place");
    std::fs::create_dir(&odd)?;
    let options = ["--launcher", "env", "--attacks", "git_hook,git_setting,git_bare_repository_further_down"];
    let output = bench.audit(&[&options[..], &["--in", odd.to_str().unwrap_or_default()]].concat())?;
    let text = String::from_utf8(output.stdout)?;
    assert!(text.matches("  ESCAPED ").count() == 3 || text.contains("there is no git"), "{text}");
    Ok(())
}

fn what_cannot_be_printed_is_still_reported() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    let [json, junit] = ["findings.json", "junit.xml"].map(|name| bench.directory.path().join(name));
    let mut command = bench.command(Path::new(EVALS))?;
    command.args(["audit", "--attacks", "read_a_key", "--launcher", "env", "--json"]).arg(&json);
    let full = std::fs::File::create("/dev/full")?;
    let output = command.arg("--junit").arg(&junit).stdout(full).output()?;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json)?)?;
    assert_eq!(report["launchers"][0]["escaped"], 1, "{report:#}");
    assert!(report["host"]["kernel"].is_string() && report["host"]["uid"].is_u64(), "{report:#}");
    assert!(std::fs::read_to_string(&junit)?.contains("<failure "));
    Ok(())
}

/// It might hang, which takes half a minute each time.
fn a_launcher_that_runs_nothing_is_asked_once() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    let tools = tempfile::Builder::new().prefix("audit-test-").tempdir_in("/var/tmp")?;
    let starts = tools.path().join("starts");
    let launcher = format!("sh -c 'echo x >>{}; exit 3'", starts.display());
    let (_, findings) = bench.findings(&["--launcher", &launcher, "--families", "terminal"])?;
    assert!(findings.len() > 2 && findings.iter().all(|it| is(it, "error")), "{findings:#?}");
    assert_eq!(std::fs::read_to_string(&starts)?.lines().count(), 1);
    Ok(())
}

/// That nothing happened is no containment.
fn a_launcher_that_runs_nothing_contains_nothing() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    for launcher in ["/nonexistent/launcher", "true"] {
        let (output, findings) = bench.findings(&["--attacks", "read_a_key", "--launcher", launcher])?;
        assert!(findings.len() == 1 && is(&findings[0], "error"), "{findings:#?}");
        assert_eq!(output.status.code(), Some(2));
    }
    Ok(())
}

fn two_launchers_side_by_side() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    let junit = bench.directory.path().join("junit.xml");
    let options = ["--launcher", "env", "--compare", "env -i", "--attacks", "read_a_key", "--junit"];
    let output = bench.audit(&[&options[..], &[junit.to_str().unwrap_or_default()]].concat())?;
    let text = String::from_utf8(output.stdout)?;
    assert!(text.contains("ESCAPED      ESCAPED      read_a_key"), "{text}");
    assert!(text.contains("1: env\n2: env -i\n") && text.contains("it means: "), "{text}");
    let xml = std::fs::read_to_string(junit)?;
    assert_eq!(xml.matches("<failure ").count(), 2, "{xml}");
    Ok(())
}

fn ordinary_code_works(who: Who) -> Result<(), Stop> {
    need("userns")?;
    let bench = Bench::new(who)?;
    let output = bench.audit(&["--benign"])?;
    let text = String::from_utf8(output.stdout)?;
    assert!(!text.contains("BROKEN") && output.status.success(), "{text}");
    let count = |word: &str| text.lines().filter(|line| line.trim_start().starts_with(word)).count();
    assert!(count("works") > 15 && count("works") + count("cannot tell") > 30, "{text}");
    Ok(())
}

/// Neither the launcher, nor what left its group, nor whom the attack was aimed at; and no directory.
fn an_interrupt_leaves_nothing() -> Result<(), Stop> {
    // What does nothing but hold is how a launcher is tried out. Both shells wait for somebody who writes to the pipe, the second one where no signal to the group reaches it.
    const HANG: &str = r#"#!/bin/sh
[ "$4" != hold ] || { shift; exec "$@"; }
mkfifo "$1.pipe"
setsid sh -c ': >"$1"; : <"$1.pipe"' - "$@" &
: <"$1.pipe"
"#;
    for signal in ["INT", "TERM"] {
        let bench = Bench::new(Who::Own)?;
        let tools = tempfile::Builder::new().prefix("audit-test-").tempdir_in("/var/tmp")?;
        let [hang, ready] = ["hang", "ready"].map(|name| tools.path().join(name));
        std::fs::write(&hang, HANG)?;
        let marker = format!("agentkit-interrupt-{signal}-{}", std::process::id());
        let launcher = format!("sh {} {}", hang.display(), ready.display());
        let mut audit = bench.command(Path::new(EVALS))?;
        audit.args(["audit", "--attacks", "read_the_environment_of_a_process", "--launcher", &launcher]);
        let mut audit = audit.env("AGENTKIT_MARKER", &marker).stdout(Stdio::null()).spawn()?;
        let under_way = eventually("the launcher hangs", PATIENCE, || ready.exists());
        let others = with_marker(&marker).len().saturating_sub(1);
        Command::new("kill").args([format!("-{signal}"), audit.id().to_string()]).status()?;
        let status = audit.wait()?;
        under_way?;
        assert!(others >= 3, "two shells and a victim, not {others}");
        assert_eq!(status.code(), Some(130));
        // What was killed is gone a moment later.
        eventually("every process is gone", PATIENCE, || with_marker(&marker).is_empty())?;
        assert_eq!(std::fs::read_dir(bench.directory.path())?.count(), 0);
    }
    Ok(())
}

fn mistakes_exit_with_2_and_one_line() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    for (mistake, hint) in [
        (&["--attacks", "nonsense"][..], "--list"),
        (&["--families", "nonsense"], "filesystem"),
        (&["--families", "network", "--attacks", "read_a_key"], "drop one"),
        (&["--in", "/nonexistent/directory"], "--in"),
        (&["--json", "/nonexistent/directory/report"], "/nonexistent"),
    ] {
        let output = bench.audit(mistake)?;
        let said = String::from_utf8(output.stderr)?;
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(hint), "{said}");
    }
    Ok(())
}

/// Without one the attacks would be performed on the host, by a slip in a script for instance.
fn an_empty_launcher_is_refused() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    for option in ["--launcher", "--compare"] {
        let output = bench.audit(&[option, " ", "--attacks", "read_a_key"])?;
        let said = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("must name a launcher"), "{said}");
    }
    Ok(())
}

fn the_list_names_every_attack() -> Result<(), Stop> {
    let bench = Bench::new(Who::Own)?;
    let output = bench.audit(&["--list"])?;
    let text = String::from_utf8(output.stdout)?;
    assert!(text.lines().count() >= 90, "{} attacks", text.lines().count());
    assert!(text.lines().any(|line| line.starts_with("filesystem   read_a_key ")), "{text}");
    Ok(())
}
