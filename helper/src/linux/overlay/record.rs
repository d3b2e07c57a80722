//! The list of changes, which stays small whatever a run did.

use agentkit_protocol::{Bytes, Change, ChangeKind, Changes, EntryKind, KeptBack};

const MOST_CHANGES: usize = 4096;
const MOST_PATH_BYTES: usize = 256 << 10;

/// Collects changes.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) changes: Changes,
    path_bytes: usize,
    is_full: bool,
}

impl Record {
    pub(super) fn add(
        &mut self,
        path: &[u8],
        kind: ChangeKind,
        entry: EntryKind,
        committed: bool,
        kept_back: Option<KeptBack>,
    ) {
        self.changes.total += 1;
        self.changes.kept_back += u64::from(kept_back.is_some());
        let path_bytes = self.path_bytes + path.len();
        // Once something was left out, all the rest is: the list is a beginning, not a selection.
        self.is_full |= self.changes.list.len() >= MOST_CHANGES || path_bytes > MOST_PATH_BYTES;
        if !self.is_full {
            self.path_bytes = path_bytes;
            self.changes.list.push(Change { path: Bytes::from(path), kind, entry, committed, kept_back });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_a_bounded_beginning_and_the_counts_are_not() {
        let add = |record: &mut Record, path: &[u8]| {
            record.add(path, ChangeKind::Created, EntryKind::Special, false, Some(KeptBack::Special));
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
}
