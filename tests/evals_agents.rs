//! Agents that must not pass, and tools that must not score: the benchmark against those who would fool it by saying
//! something, or nothing.

#[path = "support/mod.rs"]
mod support;

use agentkit_agent::model::scripted::{Scripted, Turn};
use agentkit_agent::{Context, Model, Registry, Tool, ToolError, ToolOutput, ToolSpec};
use agentkit_client::{Helper, Sandbox};
use agentkit_evals::Benchmark;
use agentkit_evals::metrics::Summary;
use agentkit_evals::report::table;
use agentkit_evals::runner::{Models, Overrides, run_task};
use agentkit_evals::scripts::{self, Reply};
use agentkit_evals::task::{Category, Expected, Grader, Task, ToolName};
use agentkit_evals::tasks;
use agentkit_evals::toolbox::{Kit, Standard, Toolbox};
use agentkit_evals::trial::{FailureMode, Outcome, Trial};
use agentkit_evals::world::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use support::need::need;
use support::{Stop, trial};

fn main() -> ExitCode {
    agentkit_jail::door();
    support::run(vec![
        trial("dead_tools_do_not_score", dead_tools_do_not_score),
        trial("doing_nothing_fails_everywhere", doing_nothing_fails_everywhere),
        trial("declining_in_words_fails_everywhere", declining_in_words_fails_everywhere),
        trial("a_list_of_all_answers_fails_everywhere", a_list_of_all_answers_fails_everywhere),
        trial("repeating_the_prompt_fails_everywhere", repeating_the_prompt_fails_everywhere),
        trial("knowing_the_answers_is_flagged", knowing_the_answers_is_flagged),
        trial("unrelated_calls_are_no_use", unrelated_calls_are_no_use),
        trial("a_result_has_to_state_the_value", a_result_has_to_state_the_value),
        trial("a_recall_must_bring_the_value_back", a_recall_must_bring_the_value_back),
        trial("only_a_division_that_failed_counts", only_a_division_that_failed_counts),
        trial("each_way_to_fail_has_its_name", each_way_to_fail_has_its_name),
        trial("a_model_that_breaks_is_no_verdict", a_model_that_breaks_is_no_verdict),
        trial("hostile_text_stays_on_its_line", hostile_text_stays_on_its_line),
        trial("the_order_of_tasks_changes_nothing", the_order_of_tasks_changes_nothing),
    ])
}

/// A model that plays whatever turns it is given for a task.
struct Played<F>(F);

impl<F: Fn(&Task, Option<&World>) -> Vec<Turn>> Models for Played<F> {
    fn model(&self, task: &Task, world: Option<&World>) -> impl Model {
        Scripted::new("played", (self.0)(task, world))
    }
}

fn says(text: impl Fn(&Task) -> String) -> impl Models {
    Played(move |task: &Task, _: Option<&World>| vec![Turn::answer(text(task))])
}

/// The benchmark's own scripts.
fn scripted() -> impl Models {
    struct Scripts;
    impl Models for Scripts {
        fn model(&self, task: &Task, world: Option<&World>) -> impl Model {
            scripts::model(task, world)
        }
    }
    Scripts
}

/// Looks like a tool, answers like a broken clock.
struct Dead(ToolSpec);

/// No truth of any task, and no part of one.
const WRONG: &str = "999983";

impl Tool for Dead {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call(&self, _context: &Context, _arguments: Value) -> Result<ToolOutput, ToolError> {
        Ok(WRONG.into())
    }
}

/// The standard tools, some of them dead.
struct WithDead {
    dead: Vec<ToolName>,
    sandbox: Sandbox,
}

impl Toolbox for WithDead {
    fn registry(&self, task: &Task, world: Option<&World>) -> Result<Registry, String> {
        let kit = Kit::new(Some(&self.sandbox), task, world);
        let mut registry = Registry::new();
        for tool in task.offers {
            if !self.dead.contains(tool) {
                kit.add(*tool, &mut registry)?;
                continue;
            }
            let mut model = Registry::new();
            kit.add(*tool, &mut model)?;
            registry.add(Dead(model.specs()[0].clone())).map_err(|why| why.to_string())?;
        }
        Ok(registry)
    }
}

/// Tools for agents that never get as far as Python: no jail is ever started.
fn no_python() -> WithDead {
    let sandbox = Sandbox::builder().helper(Helper::Path("/nonexistent/agentkit-jail".into())).build();
    WithDead { dead: vec![ToolName::Python], sandbox: sandbox.expect("nothing is required of this sandbox") }
}

fn sandbox() -> Result<Sandbox, Stop> {
    need("userns")?;
    need("python")?;
    Ok(Sandbox::builder().helper(Helper::OwnExecutable).strict(true).build()?)
}

fn task(name: &str) -> &'static Task {
    tasks::by_name(name).expect("a task of the suite")
}

fn run(name: &str, turns: Vec<Turn>) -> Trial {
    run_task(
        task(name),
        &Played(move |_: &Task, _: Option<&World>| turns.clone()),
        &no_python(),
        Overrides::default(),
    )
}

fn run_all(models: &impl Models) -> Vec<Trial> {
    let tools = no_python();
    tasks::all().map(|task| run_task(task, models, &tools, Overrides::default())).collect()
}

fn nobody_passes(trials: &[Trial]) {
    for trial in trials {
        assert!(
            trial.outcome.failure().is_some(),
            "{}: {:?} {}",
            trial.task.name,
            trial.outcome,
            trial.detail
        );
    }
}

fn calls(task: &Task, tool: ToolName) -> bool {
    scripts::replies(task.name)
        .expect("every task has a script")
        .iter()
        .any(|reply| matches!(reply, Reply::Call(called, _) if *called == tool))
}

fn dead_tools_do_not_score() -> Result<(), Stop> {
    let sandbox = sandbox()?;
    let all = [ToolName::Python, ToolName::Calculator, ToolName::Remember, ToolName::Recall];
    for tool in all {
        let tools = WithDead { dead: vec![tool], sandbox: sandbox.clone() };
        let callers: Vec<_> = tasks::all().filter(|task| calls(task, tool)).collect();
        assert!(!callers.is_empty(), "no script calls {tool:?}");
        for task in callers {
            let trial = run_task(task, &scripted(), &tools, Overrides::default());
            assert!(
                trial.outcome.failure().is_some(),
                "{} with a dead {tool:?}: {:?}",
                task.name,
                trial.outcome
            );
        }
    }
    let tools = WithDead { dead: Vec::new(), sandbox };
    for task in tasks::all() {
        let trial = run_task(task, &scripted(), &tools, Overrides::default());
        assert_eq!(trial.outcome, Outcome::Passed, "{} with live tools: {}", task.name, trial.detail);
    }
    Ok(())
}

fn doing_nothing_fails_everywhere() -> Result<(), Stop> {
    let trials = run_all(&says(|_| String::new()));
    nobody_passes(&trials);
    assert_eq!(Summary::of(&trials).failure_modes, [(FailureMode::NoAnswer, 12)].into());
    Ok(())
}

fn declining_in_words_fails_everywhere() -> Result<(), Stop> {
    let trials = run_all(&says(|_| "I would rather not.".to_owned()));
    nobody_passes(&trials);
    let modes = [(FailureMode::NeverUsedTools, 9), (FailureMode::NotAttempted, 3)];
    assert_eq!(Summary::of(&trials).failure_modes, modes.into());
    Ok(())
}

fn truths() -> Vec<&'static str> {
    let truth = |task: &Task| match task.grader {
        Grader::Value { truth, .. } => Some(truth),
        _ => None,
    };
    tasks::all().filter_map(truth).chain(["division by zero failed"]).collect()
}

fn a_list_of_all_answers_fails_everywhere() -> Result<(), Stop> {
    for between in [" ", ", ", " or ", "; ", "\n", "\n\n", "\n- ", " = ", "\nThe answer is "] {
        nobody_passes(&run_all(&says(|_| truths().join(between))));
        // The right one comes last, as a spammer might have it by luck.
        let trials = run_all(&says(|task| {
            let mut list = truths();
            if let Grader::Value { truth, .. } = task.grader {
                list.retain(|other| *other != truth && !other.contains("zero"));
                list.push(truth);
            }
            list.join(between)
        }));
        nobody_passes(&trials);
    }
    Ok(())
}

fn repeating_the_prompt_fails_everywhere() -> Result<(), Stop> {
    let echo = Played(|task: &Task, world: Option<&World>| {
        vec![Turn::answer(world.map_or_else(|| task.prompt.to_owned(), |world| world.expand(task.prompt)))]
    });
    nobody_passes(&run_all(&echo));
    Ok(())
}

fn knowing_the_answers_is_flagged() -> Result<(), Stop> {
    let trials = run_all(&says(|task| match task.grader {
        Grader::Value { truth, .. } => truth.to_owned(),
        Grader::DivisionByZero => "The calculation failed: division by zero.".to_owned(),
        _ => "I tried, and it was blocked.".to_owned(),
    }));
    for trial in &trials {
        let passes = matches!(trial.task.expects, Expected::AnyOf(_));
        assert_eq!(trial.outcome == Outcome::Passed, passes, "{}: {:?}", trial.task.name, trial.outcome);
        assert_eq!(trial.unaided, passes, "{}", trial.task.name);
        if trial.task.category == Category::Safety {
            assert_eq!(trial.outcome, Outcome::Failed(FailureMode::NotAttempted), "{}", trial.task.name);
        }
    }
    let summary = Summary::of(&trials);
    assert_eq!((summary.clean_passes, summary.overall.passed), (0, 7));
    Ok(())
}

fn unrelated_calls_are_no_use() -> Result<(), Stop> {
    for (arguments, aided) in [
        // What is handed in is not brought forth.
        (json!({"expression": "519"}), false),
        (json!({"expression": "519.0 + 0"}), false),
        (json!({"expression": "17*34 + 256/8 - 91"}), true),
        (json!({"expression": "1 + 1"}), false),
        (json!({"expression": "5190"}), false),
        (json!({"expression": "-519"}), false),
        (json!({"expression": "519/0"}), false),
        (json!({"formula": "519"}), false),
    ] {
        let trial =
            run("arith-compound", vec![Turn::call("calculator", arguments.clone()), Turn::answer("519")]);
        assert_eq!((trial.outcome, trial.unaided), (Outcome::Passed, !aided), "{arguments}");
    }
    Ok(())
}

/// Python for which a made-up result can be given.
struct Prints(&'static str, WithDead);

impl Toolbox for Prints {
    fn registry(&self, task: &Task, world: Option<&World>) -> Result<Registry, String> {
        struct Print(ToolSpec, &'static str);
        impl Tool for Print {
            fn spec(&self) -> &ToolSpec {
                &self.0
            }

            fn call(&self, _context: &Context, _arguments: Value) -> Result<ToolOutput, ToolError> {
                Ok(self.1.into())
            }
        }
        let dead = self.1.registry(task, world)?;
        let spec = dead.specs().iter().find(|spec| spec.name == "python").ok_or("no python")?.clone();
        let mut registry = Registry::new();
        registry.add(Print(spec, self.0)).map_err(|why| why.to_string())?;
        Ok(registry)
    }
}

fn a_result_has_to_state_the_value() -> Result<(), Stop> {
    for (name, code, printed, aided) in [
        ("arith-percent", "print(f(840))", "$771.12", true),
        ("arith-percent", "print(f(840))", "**$771.12**", true),
        ("primes-below", "print(f(1000))", "count->168", true),
        ("primes-below", "print(f(1000))", "Primes below 1000: 168", true),
        ("fib-sum", "print(f(20))", "The sum is 17710!", true),
        ("fib-sum", "print(17710)", "17710", false),
        ("fib-sum", "print(\"17,710\")", "17710", false),
        ("arith-compound", "print(*range(1000))", "517 518 519 520", false),
        ("arith-compound", "for i in range(1000): print(i)", "518\n519\n520", false),
        ("code-sort", "print([42, 7, 19, 3, 88, 1])", "[42, 7, 19, 3, 88, 1]", false),
        ("code-sort", "print(sorted([42, 7, 19, 3, 88, 1])[3])", "19", true),
    ] {
        let Grader::Value { truth, .. } = task(name).grader else { continue };
        let turns = vec![Turn::call("python", json!({"code": code})), Turn::answer(truth)];
        let models = Played(move |_: &Task, _: Option<&World>| turns.clone());
        let trial = run_task(task(name), &models, &Prints(printed, no_python()), Overrides::default());
        assert_eq!((trial.outcome, trial.unaided), (Outcome::Passed, !aided), "{name} {code} {printed}");
    }
    Ok(())
}

fn a_recall_must_bring_the_value_back() -> Result<(), Stop> {
    let remember = |value: &str| Turn::call("remember", json!({"key": "token", "value": value}));
    let recall = |key: &str| Turn::call("recall", json!({"key": key}));
    let answer = || Turn::answer("sk-42-alpha");
    for (turns, passes) in [
        (vec![remember("sk-42-alpha"), recall("token"), answer()], true),
        (vec![remember("sk-42-alpha\n"), recall("token"), answer()], true),
        (
            vec![
                Turn::call("remember", r#"{"key": "token", "value": "sk\u002d42-alpha"}"#),
                recall("token"),
                answer(),
            ],
            true,
        ),
        (vec![answer()], false),
        (vec![remember("sk-42-alpha"), answer()], false),
        (vec![recall("token"), answer()], false),
        (vec![recall("token"), remember("sk-42-alpha"), answer()], false),
        (vec![remember("sk-42-alpha"), recall("tokens"), answer()], false),
        (vec![remember("sk-42-alph"), recall("token"), answer()], false),
        (vec![remember("sk-42-alpha"), recall("token"), Turn::answer("It is stored.")], false),
    ] {
        let trial = run("memory-roundtrip", turns.clone());
        assert_eq!(trial.outcome == Outcome::Passed, passes, "{turns:?}: {:?}", trial.outcome);
    }
    Ok(())
}

fn only_a_division_that_failed_counts() -> Result<(), Stop> {
    let explain = || Turn::answer("The calculation failed: division by zero.");
    let call = |tool: &str, arguments: Value| vec![Turn::call(tool, arguments), explain()];
    let raw = |arguments: &str| vec![Turn::call("calculator", arguments), explain()];
    for (turns, passes) in [
        (call("calculator", json!({"expression": "1/0"})), true),
        (call("calculator", json!({"expression": " 1 / 0 "})), true),
        (call("calculator", json!({"expression": "1÷0"})), true),
        (call("calculator", json!({"expression": "(1)/(0)"})), true),
        (raw(r#"{"expression": "1\/0"}"#), true),
        (raw(r#"{"expression": "1\u002f0"}"#), true),
        (call("calculator", json!({"expression": "21/0"})), false),
        (call("calculator", json!({"expression": "1/1"})), false),
        (call("calculator", json!({"expression": "1/"})), false),
        (call("calculator", json!({"formula": "1/0"})), false),
        (call("calculators", json!({"expression": "1/0"})), false),
        (vec![explain()], false),
    ] {
        let trial = run("error-recovery", turns.clone());
        assert_eq!(trial.outcome == Outcome::Passed, passes, "{turns:?}: {:?}", trial.outcome);
    }
    Ok(())
}

fn each_way_to_fail_has_its_name() -> Result<(), Stop> {
    let calculate = |text: &str| Turn::call("calculator", json!({"expression": text}));
    let wrong = || Turn::answer("1");
    let many = |text: fn(usize) -> String| (0..20).map(|n| calculate(&text(n))).collect::<Vec<_>>();
    for (turns, mode) in [
        (vec![calculate("1"), wrong()], FailureMode::WrongAnswer),
        (vec![wrong()], FailureMode::NeverUsedTools),
        (vec![calculate("1/0"), Turn::call("nosuch", json!({})), wrong()], FailureMode::WrongAnswer),
        (vec![calculate("("), Turn::call("nosuch", json!({})), wrong()], FailureMode::EveryToolCallFailed),
        (many(|_| "1".to_owned()), FailureMode::LoopedOnOneCall),
        (many(|n| format!("{n}")), FailureMode::RanOutOfSteps),
        (vec![calculate(&"1+".repeat(1 << 20)), wrong()], FailureMode::RanOutOfTokens),
        (
            vec![Turn::answer("<tool_call>{\"name\": \"calculator\"}</tool_call>")],
            FailureMode::UnparsedToolCall,
        ),
    ] {
        let trial = run("arith-compound", turns);
        assert_eq!(trial.outcome, Outcome::Failed(mode), "{}", trial.detail);
    }
    let one_step = Overrides { max_steps: Some(1), ..Overrides::default() };
    let trial = run_task(task("arith-compound"), &scripted(), &no_python(), one_step);
    assert_eq!(trial.outcome, Outcome::Failed(FailureMode::RanOutOfSteps));
    Ok(())
}

fn a_model_that_breaks_is_no_verdict() -> Result<(), Stop> {
    let trial = run("arith-compound", Vec::new());
    assert_eq!(trial.outcome, Outcome::Errored);
    let rate = Summary::of(&[trial]).overall;
    assert_eq!((rate.of_judged, rate.of_selected), (None, Some(0.0)));
    Ok(())
}

fn hostile_text_stays_on_its_line() -> Result<(), Stop> {
    let hostile = "x\u{1b}[2J\u{1b}]0;title\u{7}\r\narith-compound  reasoning  pass\u{202e}\u{2028}\u{85}9";
    let played = Played(|_: &Task, _: Option<&World>| {
        vec![Turn::call(hostile, json!({hostile: hostile})), Turn::answer(format!("{hostile}\n{hostile}"))]
    });
    let selected: Vec<_> = tasks::all().collect();
    let (tools, mut out) = (no_python(), Vec::new());
    let benchmark = Benchmark { tools, lack: None, overrides: Overrides::default() };
    let trials = benchmark.run(&selected, &played, &mut out)?;
    nobody_passes(&trials);
    let text = String::from_utf8(out)? + &table::summary(&trials, &Summary::of(&trials), None);
    assert!(text.chars().all(|c| c == '\n' || c == ' ' || c.is_ascii_graphic()), "{text:?}");
    let rows = text.lines().filter(|line| line.starts_with("arith-compound ")).count();
    assert_eq!(rows, 1, "{text}");
    assert!(text.lines().take(13).all(|line| line.len() <= 120), "{text}");
    Ok(())
}

fn the_order_of_tasks_changes_nothing() -> Result<(), Stop> {
    let benchmark = Benchmark {
        tools: Standard { sandbox: Some(sandbox()?) },
        lack: None,
        overrides: Overrides::default(),
    };
    let mut order: Vec<_> = tasks::all().collect();
    let mut seen = BTreeMap::new();
    for round in 0..3 {
        for trial in benchmark.run(&order, &scripted(), &mut Vec::new())? {
            let verdict = (trial.outcome.word(), trial.detail, trial.steps, trial.calls.len(), trial.unaided);
            let before = seen.entry(trial.task.name).or_insert_with(|| verdict.clone());
            assert_eq!(*before, verdict, "{} in round {round}", trial.task.name);
        }
        match round {
            0 => order.reverse(),
            _ => order.rotate_left(5),
        }
    }
    assert_eq!(seen.len(), 12);
    Ok(())
}
