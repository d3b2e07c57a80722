//! What a process has itself: a client that lives long must not have more after many launches than after some.

use crate::support::{Stop, eventually};
use std::fs;
use std::time::Duration;

/// So many KiB the memory may grow. The allocator's own moods are half of that, whether 200 launches follow or 2,000.
const FLAT: u64 = 160;

#[derive(Debug)]
pub(crate) struct Own {
    descriptors: usize,
    threads: usize,
    /// In KiB, of the heap and the stacks.
    memory: u64,
}

impl Own {
    pub(crate) fn now() -> Result<Own, Stop> {
        let status = fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let memory = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        let unknown = || Stop::Fail("the kernel does not tell this process's memory".into());
        Ok(Own {
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            threads: threads()?,
            memory: memory.ok_or_else(unknown)?,
        })
    }

    /// Fails if there is more now; returns by how many KiB the memory has grown.
    pub(crate) fn must_be_all_there_is(&self, patience: Duration) -> Result<u64, Stop> {
        // A thread whose end was waited for is seen for a moment longer.
        let few = || threads().is_ok_and(|threads| threads <= self.threads);
        eventually("no more threads than before", patience, few)?;
        self.must_be_all_of(&Own::now()?)
    }

    fn must_be_all_of(&self, now: &Own) -> Result<u64, Stop> {
        let grown = now.memory.saturating_sub(self.memory);
        if now.descriptors > self.descriptors || now.threads > self.threads || grown > FLAT {
            return Err(Stop::Fail(format!("{self:?} before and {now:?} now")));
        }
        Ok(grown)
    }
}

fn threads() -> Result<usize, Stop> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// A comparison that accepts everything would let everything pass.
pub(crate) fn what_is_more_is_seen() -> Result<(), Stop> {
    let own = |descriptors, threads, memory| Own { descriptors, threads, memory };
    let before = own(6, 1, 500);
    assert_eq!(before.must_be_all_of(&own(5, 1, 500 + FLAT))?, FLAT);
    for more in [own(7, 1, 500), own(6, 2, 500), own(6, 1, 501 + FLAT)] {
        assert!(before.must_be_all_of(&more).is_err(), "{more:?}");
    }
    Ok(())
}
