//! The calls of one reply, in order, and which of them can be run next.

use crate::bounds::Bounds;
use crate::message::ToolCall;
use crate::repeat::{Repeats, Verdict};
use crate::tool::ToolSpec;
use std::collections::{HashSet, VecDeque};

/// Calls that have no result yet. The first ones may be under way.
#[derive(Debug)]
pub(crate) struct CallQueue {
    waiting: VecDeque<ToolCall>,
    /// How many of them are under way.
    running: usize,
    approval: Approval,
    ask_before_changes: bool,
    max_parallel: usize,
    /// Names of the tools that change something.
    mutating: HashSet<String>,
}

/// How far it is with the approval of the first one.
#[derive(Debug, PartialEq, Eq)]
enum Approval {
    Open,
    Asked,
    Given,
}

/// What is next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// No call waits.
    Nothing,
    /// The first has to be approved.
    Approve(ToolCall),
    /// These can be run side by side; the last `newly` of them were not handed out before.
    Run { calls: Vec<ToolCall>, newly: usize },
    /// A call waits, and none is left to be run.
    NoneLeft,
    /// The first was advised against in this same reply.
    Twin,
    /// The first was advised against.
    Loop,
}

impl CallQueue {
    pub(crate) fn new(bounds: &Bounds, tools: &[ToolSpec]) -> Self {
        let mutating = tools.iter().filter(|tool| tool.mutates).map(|tool| tool.name.clone());
        CallQueue {
            waiting: VecDeque::new(),
            running: 0,
            approval: Approval::Open,
            ask_before_changes: false,
            max_parallel: bounds.max_parallel_calls.max(1),
            mutating: mutating.collect(),
        }
    }

    pub(crate) fn ask_before_changes(&mut self) {
        self.ask_before_changes = true;
    }

    pub(crate) fn fill(&mut self, calls: &[ToolCall]) {
        self.waiting = calls.iter().cloned().collect();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running > 0
    }

    /// A tool that does not exist changes nothing.
    pub(crate) fn mutates(&self, call: &ToolCall) -> bool {
        self.mutating.contains(&call.name)
    }

    /// What can be done with the first call, and with those after it that can be run beside it: a call that changes
    /// something is run alone, and so is one that is the same as another, since what comes of it depends on the other's
    /// result. No more than `left` are run.
    pub(crate) fn next(&mut self, repeats: &Repeats, step: usize, left: usize) -> Ahead {
        if self.running > 0 {
            return Ahead::Run { calls: self.waiting.range(..self.running).cloned().collect(), newly: 0 };
        }
        let Some(first) = self.waiting.front() else { return Ahead::Nothing };
        if left == 0 {
            return Ahead::NoneLeft;
        }
        match repeats.judge(&repeats.key(first), step) {
            Verdict::Skip => return Ahead::Twin,
            Verdict::Stop => return Ahead::Loop,
            Verdict::Run if self.has_to_ask(first) => {
                let first = first.clone();
                self.approval = Approval::Asked;
                return Ahead::Approve(first);
            }
            Verdict::Run => {}
        }
        self.running = if self.mutates(first) { 1 } else { self.side_by_side(repeats, step, left) };
        Ahead::Run { calls: self.waiting.range(..self.running).cloned().collect(), newly: self.running }
    }

    fn has_to_ask(&self, call: &ToolCall) -> bool {
        self.ask_before_changes && self.mutates(call) && self.approval != Approval::Given
    }

    fn side_by_side(&self, repeats: &Repeats, step: usize, left: usize) -> usize {
        let mut keys = HashSet::new();
        let beside = self.waiting.iter().take(left.min(self.max_parallel)).take_while(|call| {
            let key = repeats.key(call);
            !self.mutates(call) && repeats.judge(&key, step) == Verdict::Run && keys.insert(key)
        });
        beside.count()
    }

    /// Without a question there is no approval.
    pub(crate) fn approve(&mut self) {
        if self.approval == Approval::Asked {
            self.approval = Approval::Given;
        }
    }

    /// What was handed out last was not begun.
    pub(crate) fn take_back(&mut self) {
        self.running = 0;
    }

    /// Takes the first call out, if it was handed out: to be run, or to be asked about.
    pub(crate) fn take_answered(&mut self) -> Option<ToolCall> {
        if self.running == 0 && self.approval != Approval::Asked { None } else { self.take() }
    }

    /// Takes the first call out.
    pub(crate) fn take(&mut self) -> Option<ToolCall> {
        self.running = self.running.saturating_sub(1);
        self.approval = Approval::Open;
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn queue(max_parallel_calls: usize, calls: &[&str]) -> (CallQueue, Repeats) {
        let bounds = Bounds { max_parallel_calls, ..Bounds::default() };
        let change = ToolSpec {
            name: "change".to_owned(),
            description: String::new(),
            parameters: Value::Null,
            mutates: true,
        };
        let mut queue = CallQueue::new(&bounds, &[change]);
        let call =
            |name: &&str| ToolCall { id: String::new(), name: (*name).to_owned(), arguments: String::new() };
        queue.fill(&calls.iter().map(call).collect::<Vec<_>>());
        (queue, Repeats::new(&bounds))
    }

    /// The names of the calls of each batch, with no more than `left` calls in all.
    fn batches(max_parallel: usize, calls: &[&str], mut left: usize) -> Vec<String> {
        let (mut queue, repeats) = queue(max_parallel, calls);
        let mut batches = Vec::new();
        while let Ahead::Run { calls, newly } = queue.next(&repeats, 1, left) {
            assert_eq!(calls.len(), newly);
            left -= newly;
            calls.iter().for_each(|_| drop(queue.take_answered()));
            batches.push(calls.into_iter().map(|call| call.name).collect::<Vec<_>>().join(" "));
        }
        batches
    }

    #[test]
    fn what_changes_something_is_run_alone() {
        assert_eq!(batches(4, &["a", "b", "change", "c", "d"], 9), ["a b", "change", "c d"]);
        assert_eq!(batches(4, &["change", "change", "a"], 9), ["change", "change", "a"]);
    }

    #[test]
    fn no_more_run_side_by_side_than_may() {
        assert_eq!(batches(2, &["a", "b", "c", "d", "e"], 9), ["a b", "c d", "e"]);
        assert_eq!(batches(0, &["a", "b"], 9), ["a", "b"]);
        assert_eq!(batches(4, &["a", "b", "c"], 2), ["a b"]);
    }

    #[test]
    fn the_same_call_is_not_run_beside_itself() {
        assert_eq!(batches(4, &["a", "b", "a", "b", "b"], 9), ["a b", "a b", "b"]);
    }

    #[test]
    fn what_nobody_was_asked_about_is_not_approved() {
        let (mut queue, repeats) = queue(4, &["change", "a"]);
        queue.ask_before_changes();
        queue.approve();
        assert_eq!(queue.take_answered(), None);
        assert!(matches!(queue.next(&repeats, 1, 9), Ahead::Approve(_)));
        queue.approve();
        assert!(matches!(queue.next(&repeats, 1, 9), Ahead::Run { newly: 1, .. }));
        assert!(queue.take_answered().is_some());
        queue.approve();
        assert_eq!(queue.take_answered(), None);
    }

    #[test]
    fn what_is_under_way_is_handed_out_again_but_not_as_new() {
        let (mut queue, repeats) = queue(4, &["a", "b", "c"]);
        queue.next(&repeats, 1, 9);
        queue.take();
        let Ahead::Run { calls, newly: 0 } = queue.next(&repeats, 1, 0) else { panic!("they are under way") };
        assert_eq!(calls.len(), 2);
    }
}
