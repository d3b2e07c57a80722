//! The process table as the host sees it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The live processes of an attack: those with its marker among their arguments. A zombie has none.
pub(crate) fn of(marker: &OsStr) -> Vec<u32> {
    let is_one = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|word| word == marker.as_bytes())
    };
    pids().filter(is_one).collect()
}

/// The live processes that run a program.
pub(crate) fn running(program: &Path) -> Vec<u32> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let Some(program) = identity(program) else { return Vec::new() };
    pids().filter(|pid| identity(Path::new(&format!("/proc/{pid}/exe"))) == Some(program)).collect()
}

/// A field of proc_pid_stat(5) by its number there, from the third on.
pub(crate) fn stat(pid: u32, field: usize) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The second one is a name, which can hold anything.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split_whitespace().nth(field - 3).map(str::to_owned)
}

/// What follows the name of a line of `/proc/PID/FILE`.
pub(crate) fn line(pid: u32, file: &str, name: &str) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/{file}")).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
}

/// Every process, with zombies.
pub(crate) fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
