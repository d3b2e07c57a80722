//! Makes the ids of calls unique, since models leave them out and use them twice.

use crate::message::ToolCall;
use std::collections::HashSet;

/// Call ids of a conversation so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    taken: HashSet<String>,
    /// The number of the last one made up. It only grows: to count from one again for each would take n * n steps.
    made_up: usize,
}

impl Ids {
    /// Gives each call an id of its own: the one it has if that is new, otherwise one made up.
    pub(crate) fn make_unique(&mut self, calls: &mut [ToolCall]) {
        for call in calls {
            call.id = self.unique(&call.id);
        }
    }

    fn unique(&mut self, id: &str) -> String {
        let mut unique = id.to_owned();
        while unique.trim().is_empty() || self.taken.contains(&unique) {
            self.made_up += 1;
            unique = format!("call_{}", self.made_up);
        }
        self.taken.insert(unique.clone());
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_unique_whatever_was_taken_before() {
        let mut ids = Ids::default();
        let given = ["", "call_1", "call_2", " ", "x", "x", "call_4"];
        let unique = given.map(|id| ids.unique(id));
        assert_eq!(unique, ["call_1", "call_2", "call_3", "call_4", "x", "call_5", "call_6"]);
    }
}
