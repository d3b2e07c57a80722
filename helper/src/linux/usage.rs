//! What the jail uses right now, read through its own `/proc`.
//!
//! The descriptor lists exactly the jail's processes, keeps working after the jail gave up everything, and needs no
//! walk over the host's processes.

use nix::dir::Dir;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

/// One look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Processes and threads, the jail's init included.
    pub(crate) tasks: u64,
    /// Resident memory in bytes; pages that processes share count once for each.
    pub(crate) memory: u64,
}

/// Adds up all processes of the `/proc` behind `proc`.
pub(crate) fn sample(proc: &OwnedFd) -> io::Result<Sample> {
    let mut total = Sample::default();
    let mut directory = Dir::openat(proc.as_fd(), ".", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    for entry in directory.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        // A process that ended between the two calls uses nothing.
        if let Some(process) = stat(proc, name.to_string_lossy().as_ref()) {
            total.tasks += process.tasks;
            total.memory = total.memory.saturating_add(process.memory);
        }
    }
    Ok(total)
}

fn stat(proc: &OwnedFd, pid: &str) -> Option<Sample> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let file = openat(proc.as_fd(), format!("{pid}/stat").as_str(), flags, Mode::empty()).ok()?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text).ok()?;
    parse_stat(&text)
}

/// Fields 20 (`num_threads`) and 24 (`rss`, in pages) of proc_pid_stat(5). The name in field 2 may hold anything,
/// parentheses too, so the fields are counted from its last one.
fn parse_stat(text: &str) -> Option<Sample> {
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Sample { tasks: number(20)?, memory: number(24)?.saturating_mul(page_size()) })
}

fn page_size() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().map_or(4096, i64::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 7 18 19 20 100 22 23";
        let plain = parse_stat(&format!("12 (sh) {rest}")).unwrap();
        let hostile = parse_stat(&format!("12 (a) R 1 (b) ) {rest}")).unwrap();
        assert_eq!(plain, Sample { tasks: 7, memory: 100 * page_size() });
        assert_eq!(plain, hostile);
        assert_eq!(parse_stat("12 (sh) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_is_seen() {
        let proc = OwnedFd::from(File::open("/proc").unwrap());
        let all = sample(&proc).unwrap();
        assert!(all.tasks >= 1 && all.memory >= page_size(), "{all:?}");
    }
}
