//! The python and the shell tool with the real jail: what the model reads, and what the report says.

mod support;

use agentkit_agent::model::ToolCall;
use agentkit_agent::tools::{python, shell};
use agentkit_agent::{Cancel, Context, NoEvents, Registry, ToolError, ToolErrorKind, ToolOutput};
use agentkit_client::{Helper, Limits, Sandbox};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::need::need;
use support::{Stop, trial, with_more_time};

fn main() -> ExitCode {
    agentkit_jail::door();
    support::run(vec![
        trial("what_is_printed_is_the_result", what_is_printed_is_the_result),
        trial("a_failing_program_is_an_error_with_its_output", a_failing_program_is_an_error_with_its_output),
        trial("long_output_says_what_is_left_out", long_output_says_what_is_left_out),
        trial("the_time_left_of_the_run_is_a_limit", the_time_left_of_the_run_is_a_limit),
        trial("nothing_runs_when_no_time_is_left", nothing_runs_when_no_time_is_left),
        trial("the_limit_of_the_sandbox_stays_one", the_limit_of_the_sandbox_stays_one),
        trial("a_cancelled_run_starts_nothing", a_cancelled_run_starts_nothing),
        trial("cancelling_ends_a_program", cancelling_ends_a_program),
        trial("a_missing_sandbox_is_never_taken_for_output", a_missing_sandbox_is_never_taken_for_output),
        trial("a_dry_run_runs_no_code", a_dry_run_runs_no_code),
        trial("a_script_is_run_by_the_shell", a_script_is_run_by_the_shell),
        trial("a_failing_script_is_an_error_with_its_output", a_failing_script_is_an_error_with_its_output),
        trial("a_script_is_confined", a_script_is_confined),
        trial("a_dry_run_runs_no_script", a_dry_run_runs_no_script),
    ])
}

fn sandbox(limits: Limits) -> Result<Sandbox, Stop> {
    for ability in ["userns", "seccomp", "python"] {
        need(ability)?;
    }
    Ok(Sandbox::builder().helper(Helper::OwnExecutable).limits(limits).build()?)
}

fn call(sandbox: Sandbox, context: &Context, code: &str, dry_run: bool) -> Result<ToolOutput, ToolError> {
    let mut registry = Registry::new();
    registry.add(python::tool(sandbox)).expect("a valid tool");
    let arguments = json!({ "code": code }).to_string();
    registry.call(context, &ToolCall { id: "1".into(), name: "python".into(), arguments }, dry_run)
}

fn run(code: &str) -> Result<Result<ToolOutput, ToolError>, Stop> {
    Ok(call(sandbox(Limits::default())?, &Context::detached(), code, false))
}

fn due_in(time: Duration) -> Context {
    Context::new(Some(Instant::now() + time), Cancel::default(), Arc::new(NoEvents))
}

fn check_report(details: &Value, ended: &Value) {
    assert_eq!(&details["ended"], ended);
    assert_eq!(details["mechanism"], "namespaces");
    assert!(details["usage"]["wall_us"].as_u64().is_some_and(|wall| wall > 0), "{details}");
    assert!(details["attempts"].is_array() && details["limits_reached"].is_array(), "{details}");
    assert!(details["capabilities"]["controls"].is_object(), "{details}");
}

fn what_is_printed_is_the_result() -> Result<(), Stop> {
    let output = run("print(6 * 7)")??;
    assert_eq!(output.text, "42");
    check_report(&output.details, &json!({"exit": 0}));
    assert_eq!(run("x = 1")??.text, "(no output)");
    let both = "import sys\nprint('out')\nprint('err', file=sys.stderr)";
    assert_eq!(run(both)??.text, "out\nstderr:\nerr");
    assert_eq!(run("import sys\nprint('err', file=sys.stderr)")??.text, "stderr:\nerr");
    Ok(())
}

fn a_failing_program_is_an_error_with_its_output() -> Result<(), Stop> {
    let error = run("import sys\nprint('out')\nsys.exit('why')")?.expect_err("exit code 1");
    assert_eq!(error.message, "the program failed: exited with code 1\nout\nstderr:\nwhy");
    assert_eq!(error.kind, ToolErrorKind::Failed);
    check_report(&error.details, &json!({"exit": 1}));
    let error = run("import os\nos._exit(3)")?.expect_err("exit code 3");
    assert_eq!(error.message, "the program failed: exited with code 3");
    Ok(())
}

fn long_output_says_what_is_left_out() -> Result<(), Stop> {
    let text = run("print('x' * 1_000_000)")??.text;
    assert!(text.len() < 300_000 && text.contains(" bytes left out "), "{}", text.len());
    Ok(())
}

fn the_time_left_of_the_run_is_a_limit() -> Result<(), Stop> {
    // The probe of the host takes its time, and has to be over before the clock starts.
    let sandbox = sandbox(Limits::default())?;
    with_more_time(Duration::from_millis(700), |time| {
        let error = call(sandbox.clone(), &due_in(time), "while True: pass", false).expect_err("too slow");
        if error.kind == ToolErrorKind::NotRun {
            return Ok(None);
        }
        assert!(
            error.message.starts_with("the program failed: killed at the wall-clock limit of "),
            "{error}"
        );
        assert_eq!(error.details["ended"], "wall_clock");
        Ok(Some(()))
    })
}

fn nothing_runs_when_no_time_is_left() -> Result<(), Stop> {
    let sandbox = Sandbox::builder().helper(Helper::Path("/nonexistent/agentkit-jail".into())).build()?;
    let error = call(sandbox, &due_in(Duration::ZERO), "print(1)", false).expect_err("no time");
    assert_eq!(error, ToolError::new(ToolErrorKind::NotRun, "nothing was run: no time is left of the run"));
    Ok(())
}

fn the_limit_of_the_sandbox_stays_one() -> Result<(), Stop> {
    let sandbox = sandbox(Limits { wall_ms: 300, ..Limits::default() })?;
    let error = call(sandbox, &due_in(Duration::from_secs(3600)), "while True: pass", false);
    let error = error.expect_err("too slow");
    assert_eq!(error.message, "the program failed: killed at the wall-clock limit of 300 ms");
    Ok(())
}

fn a_cancelled_run_starts_nothing() -> Result<(), Stop> {
    let context = Context::detached();
    context.cancel().cancel();
    let error = call(sandbox(Limits::default())?, &context, "print(1)", false).expect_err("cancelled");
    assert!(error.message.starts_with("nothing was run: "), "{error}");
    assert_eq!(error.details, Value::Null);
    Ok(())
}

fn cancelling_ends_a_program() -> Result<(), Stop> {
    let sandbox = sandbox(Limits { wall_ms: 60_000, cpu_seconds: 60, ..Limits::default() })?;
    let context = Context::detached();
    let cancel = context.cancel().clone();
    let started = Instant::now();
    // Whether it comes before or after the start, the call must come back long before the limits.
    let other = std::thread::spawn(move || cancel.cancel());
    let error = call(sandbox, &context, "while True: pass", false).expect_err("cancelled");
    other.join().expect("no panic");
    assert!(started.elapsed() < Duration::from_secs(30), "{error}");
    Ok(())
}

fn a_missing_sandbox_is_never_taken_for_output() -> Result<(), Stop> {
    let sandbox = Sandbox::builder().helper(Helper::Path("/nonexistent/agentkit-jail".into())).build()?;
    let error = call(sandbox, &Context::detached(), "print(1)", false).expect_err("no sandbox");
    let start = "nothing was run, and no other program will run here either: the sandbox is unavailable: ";
    assert!(error.message.starts_with(start), "{error}");
    assert_eq!(error.details["failure"]["kind"], "host");
    Ok(())
}

fn a_dry_run_runs_no_code() -> Result<(), Stop> {
    let sandbox = Sandbox::builder().helper(Helper::Path("/nonexistent/agentkit-jail".into())).build()?;
    let error = call(sandbox, &Context::detached(), "print(1)", true).expect_err("dry run");
    assert_eq!(error.kind, ToolErrorKind::Refused);
    Ok(())
}

fn call_shell(sandbox: Sandbox, script: &str, dry_run: bool) -> Result<ToolOutput, ToolError> {
    let mut registry = Registry::new();
    registry.add(shell::tool(sandbox)).expect("a valid tool");
    let arguments = json!({ "script": script }).to_string();
    let call = ToolCall { id: "1".into(), name: "shell".into(), arguments };
    registry.call(&Context::detached(), &call, dry_run)
}

fn run_script(script: &str) -> Result<Result<ToolOutput, ToolError>, Stop> {
    Ok(call_shell(sandbox(Limits::default())?, script, false))
}

fn a_script_is_run_by_the_shell() -> Result<(), Stop> {
    let output = run_script("n=$((6 * 7))\nprintf '%s\\n' \"$n\" | tr 2 3\necho \"it's\" >&2")??;
    assert_eq!(output.text, "43\nstderr:\nit's");
    check_report(&output.details, &json!({"exit": 0}));
    // Nothing is there to be read, and nothing is kept between calls.
    assert_eq!(run_script("echo x >left; cat")??.text, "(no output)");
    assert_eq!(run_script("cat left 2>/dev/null || echo gone")??.text, "gone");
    Ok(())
}

fn a_failing_script_is_an_error_with_its_output() -> Result<(), Stop> {
    let error = run_script("echo out; exit 3")?.expect_err("exit code 3");
    assert_eq!(error.message, "the program failed: exited with code 3\nout");
    let error = run_script("if")?.expect_err("no script");
    assert!(error.message.starts_with("the program failed: exited with code 2\nstderr:\n"), "{error}");
    Ok(())
}

fn a_script_is_confined() -> Result<(), Stop> {
    let secret = support::temp_dir()?;
    let file = secret.path().join("secret");
    std::fs::write(&file, "outside")?;
    let script = format!("cat '{}' || echo no", file.display());
    assert!(run_script(&script)??.text.starts_with("no"), "{script}");
    assert!(run_script(&format!("echo inside >'{}'", file.display()))?.is_err());
    assert_eq!(std::fs::read_to_string(&file)?, "outside");
    Ok(())
}

fn a_dry_run_runs_no_script() -> Result<(), Stop> {
    let sandbox = Sandbox::builder().helper(Helper::Path("/nonexistent/agentkit-jail".into())).build()?;
    let error = call_shell(sandbox, "echo 1", true).expect_err("dry run");
    assert_eq!(error.kind, ToolErrorKind::Refused);
    Ok(())
}
