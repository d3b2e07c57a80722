//! The list of changes, which stays small whatever a run did.

use agentkit_protocol::{Bytes, Change, ChangeKind, Changes, EntryKind, KeptBack};
use std::collections::BTreeMap;

const MOST_CHANGES: usize = 4096;
const MOST_PATH_BYTES: usize = 256 << 10;

/// Collects changes.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) changes: Changes,
    /// Where in the list a path is.
    listed: BTreeMap<Vec<u8>, usize>,
    path_bytes: usize,
    is_full: bool,
}

impl Record {
    pub(super) fn add(
        &mut self,
        path: &[u8],
        kind: ChangeKind,
        entry: EntryKind,
        kept_back: Option<KeptBack>,
    ) {
        self.changes.total = self.changes.total.saturating_add(1);
        self.changes.kept_back = self.changes.kept_back.saturating_add(u64::from(kept_back.is_some()));
        let path_bytes = self.path_bytes.saturating_add(path.len());
        // Once something was left out, all the rest is: the list is a beginning, not a selection.
        self.is_full |= self.changes.list.len() >= MOST_CHANGES || path_bytes > MOST_PATH_BYTES;
        if !self.is_full {
            self.path_bytes = path_bytes;
            self.listed.insert(path.to_vec(), self.changes.list.len());
            let change = Change { path: Bytes::from(path), kind, entry, committed: false, kept_back };
            self.changes.list.push(change);
        }
    }

    /// The host has this change, if it is one.
    pub(super) fn committed(&mut self, path: &[u8]) {
        if let Some(change) = self.change(path) {
            change.committed = change.kept_back.is_none();
        }
    }

    /// The host has this new directory, or whatever it is, and with it everything in it that is not kept back.
    pub(super) fn committed_with_all_below(&mut self, path: &[u8]) {
        self.committed(path);
        let start = [path, b"/"].concat();
        let below = self.listed.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start));
        for (_, &index) in below {
            if let Some(change) = self.changes.list.get_mut(index) {
                change.committed = change.kept_back.is_none();
            }
        }
    }

    /// It turned out that something of it has to stay.
    pub(super) fn keep_back(&mut self, path: &[u8], reason: KeptBack) {
        self.changes.kept_back = self.changes.kept_back.saturating_add(1);
        if let Some(change) = self.change(path) {
            change.kept_back = Some(reason);
        }
    }

    fn change(&mut self, path: &[u8]) -> Option<&mut Change> {
        self.listed.get(path).and_then(|&index| self.changes.list.get_mut(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_a_bounded_beginning_and_the_counts_are_not() {
        let add = |record: &mut Record, path: &[u8]| {
            record.add(path, ChangeKind::Created, EntryKind::Special, Some(KeptBack::Special));
        };
        let mut many = Record::default();
        (0..5000).for_each(|_| add(&mut many, b"x"));
        assert_eq!(
            (many.changes.list.len(), many.changes.total, many.changes.kept_back),
            (MOST_CHANGES, 5000, 5000)
        );
        let mut long = Record::default();
        add(&mut long, b"x");
        add(&mut long, &vec![b'x'; MOST_PATH_BYTES]);
        add(&mut long, b"y");
        assert_eq!((long.changes.list.len(), long.changes.total), (1, 3));
    }

    #[test]
    fn what_is_committed_is_told_by_path() {
        let paths = ["d", "d/a", "d/a/x", "d/p", "d-", "e"];
        let committed = |act: &dyn Fn(&mut Record)| {
            let mut record = Record::default();
            for path in paths {
                let kept_back = (path == "d/p").then_some(KeptBack::Special);
                record.add(path.as_bytes(), ChangeKind::Created, EntryKind::File, kept_back);
            }
            act(&mut record);
            let list = record.changes.list.into_iter().filter(|change| change.committed);
            list.map(|change| String::from_utf8(change.path.0).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(committed(&|record| record.committed(b"d")), ["d"]);
        assert_eq!(committed(&|record| record.committed_with_all_below(b"d")), ["d", "d/a", "d/a/x"]);
        for path in ["", "d/", "d/p", "x"] {
            assert!(committed(&|record| record.committed(path.as_bytes())).is_empty(), "{path}");
        }
        let mut record = Record::default();
        record.add(b"d", ChangeKind::Deleted, EntryKind::Directory, None);
        record.keep_back(b"d", KeptBack::HostExecuted);
        record.committed(b"d");
        assert_eq!((record.changes.kept_back, record.changes.list[0].committed), (1, false));
    }
}
