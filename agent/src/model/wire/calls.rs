//! Calls of tools, put together from what a message or the pieces of a stream say about them.

use super::literal::Literal;
use super::node::Node;
use crate::model::ToolCall;
use std::collections::HashMap;

/// More calls in one reply than these are no reply: each would cost memory and an answer.
const MAX_CALLS: usize = 10_000;

/// The calls so far, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Where the latest call under an index is.
    by_index: HashMap<u64, usize>,
    /// Where the latest call of an id is.
    by_id: HashMap<String, usize>,
}

/// Parts that never come stay empty, and the loop answers the call with what is wrong.
#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: Literal,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes the calls of a whole message: each is one.
    pub(super) fn add_all(&mut self, listed: &[Node<'_>]) -> Result<(), String> {
        if listed.len() > MAX_CALLS {
            return Err(format!("the reply makes {} calls, more than {MAX_CALLS}", listed.len()));
        }
        for item in listed {
            let at = self.open()?;
            self.calls[at].add(text(item, "id"), item.member("function").as_ref());
        }
        Ok(())
    }

    /// Takes a piece of a call.
    pub(super) fn add_piece(&mut self, piece: &Node<'_>) -> Result<(), String> {
        let function = piece.member("function");
        let at = match self.continued(piece, function.as_ref()) {
            Some(at) => at,
            None => self.open()?,
        };
        let call = &mut self.calls[at];
        call.add(text(piece, "id"), function.as_ref());
        if let Some(index) = index(piece) {
            self.by_index.insert(index, at);
        }
        if !call.id.is_empty() && self.by_id.get(&call.id) != Some(&at) {
            self.by_id.insert(call.id.clone(), at);
        }
        Ok(())
    }

    /// Takes what a `function_call` says, the form before there were parallel calls: all of it is one call.
    pub(super) fn add_legacy(&mut self, function: &Node<'_>) -> Result<(), String> {
        let at = if self.calls.is_empty() { self.open()? } else { 0 };
        self.calls[at].add(String::new(), Some(function));
        Ok(())
    }

    /// The call that the piece goes on with: the latest under its index, or of its id where it has none, or the latest
    /// of all where it has neither. Indexes are left out, or the same for every call, and names repeated in each piece;
    /// so another id or another name than that call's is told for a new call.
    fn continued(&self, piece: &Node<'_>, function: Option<&Node<'_>>) -> Option<usize> {
        let id = text(piece, "id");
        let at = match (index(piece), id.is_empty()) {
            (Some(index), _) => *self.by_index.get(&index)?,
            (None, false) => *self.by_id.get(&id)?,
            (None, true) => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[at];
        let differs = |new: &str, old: &str| !new.is_empty() && !old.is_empty() && new != old;
        let name = function.map(|function| text(function, "name")).unwrap_or_default();
        (!differs(&id, &call.id) && !differs(&name, &call.name)).then_some(at)
    }

    fn open(&mut self) -> Result<usize, String> {
        if self.calls.len() == MAX_CALLS {
            return Err(format!("the reply makes more than {MAX_CALLS} calls"));
        }
        self.calls.push(Call::default());
        Ok(self.calls.len() - 1)
    }

    pub(super) fn into_calls(self) -> Vec<ToolCall> {
        let finished = self.calls.into_iter();
        finished
            .map(|Call { id, name, arguments }| ToolCall { id, name, arguments: arguments.into_text() })
            .collect()
    }
}

impl Call {
    /// Id and name are said as a whole, arguments bit by bit.
    fn add(&mut self, id: String, function: Option<&Node<'_>>) {
        let set = |part: &mut String, said: String| {
            if !said.is_empty() {
                *part = said;
            }
        };
        set(&mut self.id, id);
        if let Some(function) = function {
            set(&mut self.name, text(function, "name"));
            if let Some(arguments) = function.member("arguments") {
                self.arguments.push(&arguments);
            }
        }
    }
}

fn index(piece: &Node<'_>) -> Option<u64> {
    piece.member("index")?.count()
}

/// A text member, empty where there is none.
fn text(node: &Node<'_>, name: &str) -> String {
    node.member(name).and_then(|member| member.text()).unwrap_or_default()
}
