//! The process table as seen from outside.

use std::fs;

/// The live processes, other than this one, whose command line or readable environment contains `marker`. A zombie has
/// neither and is not listed. Give each test a marker of its own.
pub(crate) fn with_marker(marker: &str) -> Vec<u32> {
    let own = std::process::id();
    pids().into_iter().filter(|pid| *pid != own && carries(*pid, marker)).collect()
}

fn pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process may end while it is looked at; then it is not there.
fn carries(pid: u32, marker: &str) -> bool {
    ["cmdline", "environ"].iter().any(|file| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(marker.len()).any(|window| window == marker.as_bytes())
    })
}

/// The live processes that descend from `root`, which itself is not counted. The table is read one process after the
/// other, so this can miss some that are being made and never counts too many.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let parents = parents();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// The parent of a live process.
pub(crate) fn parent(of: u32) -> Option<u32> {
    parents().into_iter().find(|(pid, _)| *pid == of).map(|(_, parent)| parent)
}

/// Every process with its parent. The name, in parentheses, may hold anything; the parent comes two fields after it.
fn parents() -> Vec<(u32, u32)> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    };
    pids().into_iter().filter_map(parent).collect()
}
