//! Notices a model that makes the same call over and over.

use crate::bounds::Bounds;
use crate::json;
use crate::message::ToolCall;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// The rule: a repeat is the same tool with the same canonical arguments *and* the same result. A call or a result
/// that was not seen before is progress and clears every count, so varying arguments, polling with changing results
/// and looking again after a change are no loop, while two calls in turn are. Results that differ only by a time
/// stamp or a process id are different.
#[derive(Debug)]
pub(crate) struct Repeats {
    limit: usize,
    /// The last result of every call so far.
    known: HashMap<Digest, Digest>,
    /// Repeats since the last progress.
    counts: HashMap<Digest, Count>,
    /// Seeded at random, so that nobody can find two texts with one digest.
    hashers: [RandomState; 2],
}

/// Calls and results are as long as a model and its tools like; for telling them apart 128 bits do.
pub(crate) type Digest = [u64; 2];

#[derive(Debug, Default)]
struct Count {
    times: usize,
    /// The step in which the limit was reached.
    advised_in: usize,
}

/// What to do with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Run,
    /// It was advised against in this same reply, so the model has not read the advice yet.
    Skip,
    /// It was advised against, and comes again.
    Stop,
}

impl Repeats {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Repeats {
            limit: bounds.repeat_limit.max(1),
            known: HashMap::new(),
            counts: HashMap::new(),
            hashers: std::array::from_fn(|_| RandomState::new()),
        }
    }

    /// Equal for equal calls: arguments that differ in white space, order of keys or spelling of a number are the same.
    pub(crate) fn key(&self, call: &ToolCall) -> Digest {
        self.digest(&(&call.name, json::canonical(&call.arguments)))
    }

    /// Judges a call of the reply number `step`.
    pub(crate) fn judge(&self, key: &Digest, step: usize) -> Verdict {
        match self.counts.get(key) {
            Some(count) if count.times >= self.limit && count.advised_in == step => Verdict::Skip,
            Some(count) if count.times >= self.limit => Verdict::Stop,
            _ => Verdict::Run,
        }
    }

    /// Notes the result of a call; true when it is the last one within the limit.
    pub(crate) fn note(&mut self, key: Digest, is_error: bool, text: &str, step: usize) -> bool {
        let outcome = self.digest(&(is_error, text));
        if self.known.insert(key, outcome) != Some(outcome) {
            self.counts.clear();
        }
        let count = self.counts.entry(key).or_default();
        count.times += 1;
        count.advised_in = step;
        count.times == self.limit
    }

    fn digest(&self, value: &impl std::hash::Hash) -> Digest {
        [self.hashers[0].hash_one(value), self.hashers[1].hash_one(value)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(limit: usize) -> Repeats {
        Repeats::new(&Bounds { repeat_limit: limit, ..Bounds::default() })
    }

    fn key(repeats: &Repeats, arguments: &str) -> Digest {
        repeats.key(&ToolCall { id: String::new(), name: "t".to_owned(), arguments: arguments.to_owned() })
    }

    /// Plays `(arguments, result)` pairs, one a step, and returns the number of the call that is stopped.
    fn stopped_at<'a>(limit: usize, plays: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<usize> {
        let mut repeats = repeats(limit);
        for (step, (arguments, result)) in (1..).zip(plays) {
            let key = key(&repeats, arguments);
            if repeats.judge(&key, step) == Verdict::Stop {
                return Some(step);
            }
            repeats.note(key, false, result, step);
        }
        None
    }

    #[test]
    fn the_call_after_the_limit_is_stopped() {
        for limit in 1..6 {
            assert_eq!(stopped_at(limit, [("{}", "same"); 20]), Some(limit + 1), "{limit}");
        }
        assert_eq!(stopped_at(0, [("{}", "same"); 20]), Some(2));
    }

    #[test]
    fn spelling_does_not_hide_a_repeat() {
        let plays = [(r#"{"a":1,"b":2}"#, "x"), (r#"{ "b": 2, "a": 1 }"#, "x"), (r#"{"a":1.0,"b":2}"#, "x")];
        assert_eq!(stopped_at(2, plays), Some(3));
    }

    #[test]
    fn changing_results_and_varying_arguments_are_progress() {
        let polling: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        assert_eq!(stopped_at(3, polling.iter().map(|result| ("{}", result.as_str()))), None);
        let varying: Vec<String> = (0..50).map(|n| format!("{{\"n\":{n}}}")).collect();
        assert_eq!(stopped_at(3, varying.iter().map(|arguments| (arguments.as_str(), "same"))), None);
    }

    #[test]
    fn a_look_after_each_change_is_no_loop() {
        let changes: Vec<String> = (0..20).map(|n| format!("{{\"edit\":{n}}}")).collect();
        let plays = changes.iter().flat_map(|edit| [(edit.as_str(), "done"), ("{}", "tests fail")]);
        assert_eq!(stopped_at(3, plays), None);
    }

    #[test]
    fn two_calls_in_turn_are_a_loop() {
        let turns = std::iter::repeat_n([("{}", "x"), (r#"{"a":1}"#, "y")], 20).flatten();
        assert_eq!(stopped_at(3, turns), Some(8));
    }

    #[test]
    fn a_twin_in_the_same_reply_is_skipped_since_the_advice_was_not_read() {
        let mut repeats = repeats(2);
        let key = key(&repeats, "{}");
        assert!(!repeats.note(key, false, "x", 1));
        assert!(repeats.note(key, false, "x", 1));
        assert_eq!(repeats.judge(&key, 1), Verdict::Skip);
        assert_eq!(repeats.judge(&key, 2), Verdict::Stop);
    }
}
