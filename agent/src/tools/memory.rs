//! Tools that note something and look it up again.

use crate::clip::excerpt;
use crate::nearest::quoted_list;
use crate::tool;
use crate::tool::ToolError;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was remembered. Clones share it, so [`remember()`] and [`recall()`] are built from clones of one; a new one is
/// empty.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<BTreeMap<String, String>>>);

impl Memory {
    /// A call that panicked half-way left the map as it was before or after its one change, so it stays usable.
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores a value under a key, so that `recall` can return it later. A value stored before under the key is replaced.
#[tool(mutates)]
pub fn remember(
    memory: &Memory,
    /// The name to store the value under.
    key: String,
    /// The value to store.
    value: String,
) -> String {
    let reply = format!("stored under `{}`", excerpt(&key, 80));
    match memory.entries().insert(key, value) {
        None => reply,
        Some(_) => format!("{reply}, replacing what was there"),
    }
}

/// Returns the value that `remember` stored under a key.
#[tool]
pub fn recall(
    memory: &Memory,
    /// The name the value was stored under.
    key: String,
) -> Result<String, ToolError> {
    let entries = memory.entries();
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

    #[test]
    fn what_was_remembered_is_recalled() {
        let memory = Memory::default();
        assert_eq!(remember(&memory, "a".to_owned(), "1".to_owned()), "stored under `a`");
        assert_eq!(recall(&memory, "a".to_owned()), Ok("1".to_owned()));
        assert_eq!(
            remember(&memory, "a".to_owned(), "2".to_owned()),
            "stored under `a`, replacing what was there"
        );
        assert_eq!(recall(&memory, "a".to_owned()), Ok("2".to_owned()));
    }

    #[test]
    fn an_unknown_key_lists_the_known_ones() {
        let memory = Memory::default();
        let message = |memory: &Memory| recall(memory, "x".to_owned()).expect_err("nothing there").message;
        assert_eq!(message(&memory), "nothing is stored under `x` (nothing is stored)");
        remember(&memory, "b".to_owned(), String::new());
        remember(&memory, "a".to_owned(), String::new());
        assert_eq!(message(&memory), "nothing is stored under `x` (known: `a`, `b`)");
    }

    #[test]
    fn each_memory_is_its_own() {
        let (one, other) = (Memory::default(), Memory::default());
        remember(&one, "a".to_owned(), "1".to_owned());
        assert!(recall(&other, "a".to_owned()).is_err());
        assert!(recall(&one.clone(), "a".to_owned()).is_ok());
    }

    #[test]
    fn a_panic_under_the_lock_does_not_end_the_memory() {
        let memory = Memory::default();
        let clone = memory.clone();
        let panicked = std::thread::spawn(move || {
            let _entries = clone.entries();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        remember(&memory, "a".to_owned(), "1".to_owned());
        assert_eq!(recall(&memory, "a".to_owned()), Ok("1".to_owned()));
    }
}
