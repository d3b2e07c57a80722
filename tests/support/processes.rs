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
