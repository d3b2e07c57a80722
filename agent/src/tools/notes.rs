//! Tools that note something and look it up again, later in the same run.

use crate::clip::excerpt;
use crate::context::Context;
use crate::nearest::quoted_list;
use crate::tool;
use crate::tool_result::ToolError;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was remembered in a run. It is part of the run's state, so no other run sees it.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<String, String>>);

impl Notes {
    /// A call that panicked half-way left the map as it was before or after its one change, so it stays usable.
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores a value under a key, so that `recall` can return it later. A value stored before under the key is replaced.
// It counts as changing something, so that a call of `recall` after it in the same reply waits for it.
#[tool(mutates)]
pub fn remember(
    context: &Context,
    /// The name to store the value under.
    key: String,
    /// The value to store.
    value: String,
) -> String {
    let reply = format!("stored under `{}`", excerpt(&key, 80));
    match context.state().get::<Notes>().entries().insert(key, value) {
        None => reply,
        Some(_) => format!("{reply}, replacing what was there"),
    }
}

/// Returns the value that `remember` stored under a key.
#[tool]
pub fn recall(
    context: &Context,
    /// The name the value was stored under.
    key: String,
) -> Result<String, ToolError> {
    let notes = context.state().get::<Notes>();
    let entries = notes.entries();
    let known = match entries.len() {
        0 => "nothing is stored".to_owned(),
        _ => format!("known: {}", quoted_list(entries.keys().map(String::as_str))),
    };
    let missing = || ToolError::failed(format!("nothing is stored under `{}` ({known})", excerpt(&key, 80)));
    entries.get(&key).cloned().ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scripted::{Scripted, Turn};
    use crate::{Agent, Registry, Trajectory};
    use serde_json::json;

    #[test]
    fn what_was_remembered_is_recalled() {
        let run = Context::detached();
        assert_eq!(remember(&run, "a".to_owned(), "1".to_owned()), "stored under `a`");
        assert_eq!(recall(&run, "a".to_owned()), Ok("1".to_owned()));
        assert_eq!(
            remember(&run, "a".to_owned(), "2".to_owned()),
            "stored under `a`, replacing what was there"
        );
        assert_eq!(recall(&run, "a".to_owned()), Ok("2".to_owned()));
    }

    #[test]
    fn an_unknown_key_lists_the_known_ones() {
        let run = Context::detached();
        let message = || recall(&run, "x".to_owned()).expect_err("nothing there").message;
        assert_eq!(message(), "nothing is stored under `x` (nothing is stored)");
        remember(&run, "b".to_owned(), String::new());
        remember(&run, "a".to_owned(), String::new());
        assert_eq!(message(), "nothing is stored under `x` (known: `a`, `b`)");
    }

    fn registry() -> Registry {
        let mut registry = Registry::new();
        registry.add(remember::tool()).expect("valid");
        registry.add(recall::tool()).expect("valid");
        registry
    }

    #[test]
    fn a_run_that_goes_on_has_its_notes() {
        let turns = vec![
            Turn::call("remember", json!({"key": "a", "value": "1"})),
            Turn::answer("done"),
            Turn::call("recall", json!({"key": "a"})),
            Turn::answer("done"),
        ];
        let agent = Agent::new(Scripted::new("notes", turns), registry());
        let first = agent.run("first");
        assert_eq!(texts(&agent.continue_with(first.conversation, "second")), ["1"]);
    }

    #[test]
    fn two_runs_of_one_agent_never_see_the_notes_of_each_other() {
        let recall = || Turn::call("recall", json!({"key": "a"}));
        let turns = vec![
            recall(),
            Turn::call("remember", json!({"key": "a", "value": "1"})),
            recall(),
            Turn::answer("done"),
        ];
        let agent = Agent::new(Scripted::new("notes", turns), registry());
        let wanted = ["nothing is stored under `a` (nothing is stored)", "stored under `a`", "1"];
        assert_eq!(texts(&agent.run("first")), wanted);
        assert_eq!(texts(&agent.run("second")), wanted);
    }

    fn texts(run: &Trajectory) -> Vec<&str> {
        let text = run.calls().map(|call| match &call.result {
            Ok(output) => output.text.as_str(),
            Err(error) => error.message.as_str(),
        });
        text.collect()
    }

    #[test]
    fn a_panic_under_the_lock_does_not_end_the_notes() {
        let run = Context::detached();
        let notes = run.state().get::<Notes>();
        let panicked = std::thread::spawn(move || {
            let _entries = notes.entries();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        remember(&run, "a".to_owned(), "1".to_owned());
        assert_eq!(recall(&run, "a".to_owned()), Ok("1".to_owned()));
    }
}
