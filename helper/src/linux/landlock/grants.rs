//! What the command may do where: a domain of Landlock, which forbids all else.

use super::STEP;
use crate::error::{Context, Result};
use crate::linux::sys::{self, Handled};
use crate::linux::task::Task;
use crate::linux::view::{Access, View};
use crate::linux::without_namespaces::{KNOWS_SIGNALS, Private, SIGNALS};
use agentkit_protocol::{Net, ProcFiles};
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, fstat};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// `LANDLOCK_ACCESS_FS_*` of linux/landlock.h.
const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHARACTER_DEVICE: u64 = 1 << 6;
const MAKE_BLOCK_DEVICE: u64 = 1 << 11;
const TRUNCATE: u64 = 1 << 14;
const CONTROL_DEVICE: u64 = 1 << 15;
/// What can be done to something that is no directory.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | CONTROL_DEVICE;
/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `LANDLOCK_ACCESS_NET_CONNECT_TCP`.
const TCP: u64 = 3;
/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET`.
const ABSTRACT_SOCKETS: u64 = 1;

/// Harmless to everybody who may open them.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What a full `/proc` shows. Not what is about processes: with those of the jail it would show all others.
const KERNEL_FILES: [&str; 13] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/fs/pipe-max-size",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
];

/// All rights that a version knows.
fn of_files(version: u32) -> u64 {
    let bits = match version {
        0 | 1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    !(u64::MAX << bits)
}

/// What is handled, and so forbidden unless it is granted. With the host's network, its abstract sockets are part of it.
fn handled(version: u32, net: Net) -> Handled {
    let network = net != Net::Host;
    Handled {
        files: of_files(version),
        ports: if network && version >= 4 { TCP } else { 0 },
        scopes: match (version >= KNOWS_SIGNALS, network) {
            (false, _) => 0,
            (true, false) => SIGNALS,
            (true, true) => SIGNALS | ABSTRACT_SOCKETS,
        },
    }
}

/// A domain that is not yet entered.
pub(super) fn domain(
    view: &View,
    task: &Task,
    private: &Private,
    terminal: Option<BorrowedFd>,
    version: u32,
) -> Result<OwnedFd> {
    let rules =
        sys::create_ruleset(&handled(version, task.plan.net)).context(STEP, "landlock_create_ruleset")?;
    let known = of_files(version);
    let read = known & (EXECUTE | READ_FILE | READ_DIR);
    let write = known & !(MAKE_CHARACTER_DEVICE | MAKE_BLOCK_DEVICE);
    let device = known & (READ_FILE | WRITE_FILE | CONTROL_DEVICE);
    let grant = |place: BorrowedFd, rights: u64, path: &Path| grant(rules.as_fd(), place, rights, path);
    let mut usual: Vec<(&Path, u64)> =
        view.system.binds.iter().map(|(path, _)| (path.as_path(), read)).collect();
    usual.extend(DEVICES.map(|path| (Path::new(path), device)));
    usual.extend(terminal.map(|_| (Path::new("/dev/tty"), device)));
    if task.plan.proc == ProcFiles::Full {
        usual.extend(KERNEL_FILES.map(|path| (Path::new(path), known & READ_FILE)));
    }
    for (path, rights) in usual {
        if let Some(place) = open_if_there(path)? {
            grant(place.as_fd(), rights, path)?;
        }
    }
    if let Some(terminal) = terminal {
        grant(terminal, device, Path::new("the terminal"))?;
    }
    for entry in &view.entries {
        let rights = match entry.access {
            Access::ReadOnly | Access::Readable | Access::Sealed => read,
            Access::Writable => write,
            // The others were refused, or are nothing to be granted.
            Access::Overlaid(_) | Access::Hidden | Access::Private | Access::Pin => continue,
        };
        match entry.place() {
            Err(failure) if failure.errno == Some(libc::EACCES) && task.is_programs(&entry.path) => {}
            place => grant(place?.as_fd(), rights, &entry.path)?,
        }
    }
    for own in [&private.home, &private.temporary, &private.work] {
        let place = open(own, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty());
        let place = place.map_err(io::Error::from).context(STEP, format_args!("open {own:?}"))?;
        grant(place.as_fd(), write, own)?;
    }
    Ok(rules)
}

/// What the host does not have, or closes to the launcher, needs no rule.
fn open_if_there(path: &Path) -> Result<Option<OwnedFd>> {
    match open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).map_err(io::Error::from) {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP)
            ) =>
        {
            Ok(None)
        }
        opened => opened.context(STEP, format_args!("open {path:?}")).map(Some),
    }
}

fn grant(rules: BorrowedFd, place: BorrowedFd, rights: u64, path: &Path) -> Result<()> {
    let stat = fstat(place).map_err(io::Error::from).context(STEP, format_args!("stat {path:?}"))?;
    let is_directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
    let rights = if is_directory { rights } else { rights & OF_FILES };
    sys::allow_below(rules, place, rights).context(STEP, format_args!("landlock_add_rule for {path:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_asked_for_no_more_than_it_knows() {
        for (version, last) in [(1, 12), (2, 13), (3, 14), (4, 14), (5, 15), (7, 15), (99, 15)] {
            assert_eq!(of_files(version).ilog2(), last, "{version}");
        }
        assert_eq!(handled(3, Net::None), Handled { files: of_files(3), ports: 0, scopes: 0 });
        assert_eq!(handled(5, Net::Loopback), Handled { files: of_files(5), ports: 3, scopes: 0 });
        assert_eq!(handled(6, Net::None), Handled { files: of_files(6), ports: 3, scopes: 3 });
        assert_eq!(handled(6, Net::Host), Handled { files: of_files(6), ports: 0, scopes: 2 });
    }
}
