//! Hosts that lack something, imitated for a process and what it starts, on what is the test's own: by filters, namespaces,
//! limits, and by jails.

use crate::jail::stage::helper;
use crate::jail::who::Who;
use crate::support::Stop;
use crate::support::need::need;
use crate::support::seccomp::{ENOSYS, EPERM, preloader, without_user_namespaces};
use std::path::Path;

const EINVAL: u32 = 22;
const EOPNOTSUPP: u32 = 95;
const NO_NAMESPACES: &[(&str, u32)] = &[("clone3", EPERM), ("clone", EPERM), ("unshare", EPERM)];

/// A host, or a place on it to launch from.
pub(crate) struct Host {
    /// Unique, of lower-case words.
    pub(crate) name: &'static str,
    /// For readers of the table.
    pub(crate) is: &'static str,
    /// How it is imitated, for one kind of user; a skip where that cannot be.
    pub(crate) imitate: fn(Who) -> Result<Around, Stop>,
}

/// Words to put before commands.
#[derive(Default)]
pub(crate) struct Around {
    /// Before who measures, and so before all that it starts.
    pub(crate) all: Vec<String>,
    /// Before each launch of the helper alone.
    pub(crate) launches: Vec<String>,
    /// Whether the C library cannot start any there.
    pub(crate) no_threads: bool,
}

pub(crate) const PLAIN: &str = "plain";

pub(crate) const HOSTS: &[Host] = &[
    Host { name: PLAIN, is: "nothing is taken away", imitate: |_| Ok(Around::default()) },
    Host {
        name: "namespaces_forbidden",
        is: "a filter answers `clone`, `clone3` and `unshare` for a namespace with EPERM",
        imitate: |_| refuse(NO_NAMESPACES),
    },
    Host {
        name: "namespaces_forbidden_in_a_container",
        is: "the filter of a container: EPERM for `clone` and `unshare`, ENOSYS for `clone3`, whose flags it cannot see",
        imitate: |_| Ok(Around { all: without_user_namespaces(), ..Around::default() }),
    },
    Host {
        name: "no_user_namespaces",
        is: "a kernel without user namespaces: EINVAL for `clone` and `unshare`, ENOSYS for `clone3`",
        imitate: |_| filter(&[("clone3", ENOSYS), ("clone", EINVAL), ("unshare", EINVAL)]),
    },
    Host {
        name: "no_privileges_in_namespaces",
        is: "a user namespace can be made, but not mount in it, as with AppArmor on Ubuntu 24.04",
        imitate: |_| filter(&["mount", "umount2", "pivot_root"].map(|call| (call, EPERM))),
    },
    Host {
        name: "no_user_namespaces_left",
        is: "`user.max_user_namespaces` is used up",
        imitate: |who| match who {
            Who::Root => {
                let none = "echo 0 >/proc/sys/user/max_user_namespaces; exec \"$@\"";
                all([words(&["python3", "-c", OWN_USERS]), shell(none)].concat())
            }
            Who::User => {
                let one = format!("echo 1 >/proc/sys/user/max_user_namespaces; exec {AS_ORDINARY} \"$@\"");
                all([words(&["unshare", "--user", "--map-root-user"]), shell(&one)].concat())
            }
        },
    },
    Host {
        name: "a_single_uid",
        is: "a user namespace of the launcher's own with one uid in it, as in a rootless container",
        imitate: |_| all(words(&["unshare", "--user", "--map-root-user"])),
    },
    Host {
        name: "masked_proc",
        is: "something is mounted over a part of `/proc`, as in a container",
        imitate: |who| with_mounts(who, "mount --bind /dev/null /proc/cmdline"),
    },
    Host {
        name: "read_only_proc_sys",
        is: "`/proc/sys` is mounted read-only, as in a container",
        imitate: |who| {
            with_mounts(who, "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys")
        },
    },
    Host {
        name: "chroot",
        is: "the launcher's root is not that of its mount namespace",
        imitate: |who| match who {
            Who::Root => {
                all(with(&["unshare", "--mount"], &format!("{ELSEWHERE} && exec chroot /mnt \"$@\"")))
            }
            Who::User => {
                let chroot = "--keep-caps chroot /mnt setpriv --ambient-caps=-all --inh-caps=-all";
                let script = format!("{ELSEWHERE} && exec {AS_ORDINARY} {chroot} \"$@\"");
                all(with(&["unshare", "--user", "--map-root-user", "--mount"], &script))
            }
        },
    },
    Host {
        name: "no_landlock",
        is: "a kernel without Landlock: ENOSYS",
        imitate: |_| filter(&[("landlock_create_ruleset", ENOSYS)]),
    },
    Host {
        name: "landlock_off",
        is: "a kernel started without Landlock: EOPNOTSUPP",
        imitate: |_| filter(&[("landlock_create_ruleset", EOPNOTSUPP)]),
    },
    Host {
        name: "landlock_1",
        is: "Landlock as in Linux 5.13, without truncation, TCP and signals",
        imitate: |_| old_landlock(1),
    },
    Host {
        name: "landlock_5",
        is: "Landlock as in Linux 6.10, without signals",
        imitate: |_| old_landlock(5),
    },
    Host {
        name: "neither_namespaces_nor_landlock",
        is: "EPERM for namespaces, ENOSYS for Landlock",
        imitate: |_| {
            let forbidden = [NO_NAMESPACES, &[("landlock_create_ruleset", ENOSYS)]].concat();
            refuse(&forbidden)
        },
    },
    Host {
        name: "no_seccomp",
        is: "a kernel without filters of system calls",
        imitate: |_| filter(&[("seccomp", EINVAL)]),
    },
    Host {
        name: "no_loopback",
        is: "the loopback of a new network namespace cannot be brought up: EPERM",
        imitate: |_| filter(&[("ioctl", EPERM)]),
    },
    Host {
        name: "root_without_cap_sys_admin",
        is: "uid 0 without CAP_SYS_ADMIN, as in a container",
        imitate: |who| {
            who.must_be_root("lack a capability of root's")?;
            all(words(&["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]))
        },
    },
    Host { name: "in_a_jail", is: "in a jail of this kind", imitate: |_| jails(1, "") },
    Host { name: "in_a_jail_in_a_jail", is: "in a jail in a jail of this kind", imitate: |_| jails(2, "") },
    Host {
        name: "in_a_jail_with_a_work_dir",
        is: "in a jail of this kind that can write files of the host, and so asks about modes",
        imitate: |_| jails(1, "--workdir ."),
    },
    Host { name: "few_files", is: "a launcher with `ulimit -n 8`", imitate: |_| limits("--nofile=8") },
    Host { name: "few_processes", is: "a launcher with `ulimit -u 1`", imitate: |_| limits("--nproc=1") },
    Host {
        name: "little_address_space",
        is: "a launcher with `ulimit -v 32768` (32 MiB)",
        imitate: |_| limits("--as=33554432"),
    },
    Host { name: "small_stack", is: "a launcher with `ulimit -s 64`", imitate: |_| limits("--stack=65536") },
    Host {
        name: "small_files",
        is: "a launcher that may write files of 10 bytes (`RLIMIT_FSIZE`)",
        imitate: |_| limits("--fsize=10"),
    },
    Host {
        name: "no_locked_memory",
        is: "a launcher with `ulimit -l 0`",
        imitate: |_| limits("--memlock=0"),
    },
];

/// Becomes an ordinary user of a user namespace of its own; what its mount namespace is stays.
const AS_ORDINARY: &str = "unshare --user --map-user=1000 --map-group=1000";
const ELSEWHERE: &str = "mount --rbind / /mnt";

/// Makes a user namespace that has all uids, as only root can, and becomes a command in it.
const OWN_USERS: &str = r#"
import ctypes, os, sys
made, told = os.pipe()
parent, child = os.getpid(), os.fork()
if child == 0:
    os.read(made, 1)
    for table in ("uid_map", "gid_map"):
        with open("/proc/%d/%s" % (parent, table), "w") as file:
            file.write("0 0 4294967295")
    os._exit(0)
NEWUSER = 0x10000000
if ctypes.CDLL(None, use_errno=True).unshare(NEWUSER) != 0:
    sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
os.write(told, b"x")
if os.waitpid(child, 0)[1] != 0:
    sys.exit("the maps could not be written")
os.execvp(sys.argv[1], sys.argv[1:])
"#;

/// Answers for the kernel what version of Landlock it has.
const OLD_LANDLOCK: &str = include_str!("old_landlock.py");

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn shell(script: &str) -> Vec<String> {
    words(&["sh", "-c", script, "sh"])
}

fn with(before: &[&str], script: &str) -> Vec<String> {
    [words(before), shell(script)].concat()
}

fn all(all: Vec<String>) -> Result<Around, Stop> {
    need("userns")?;
    Ok(Around { all, ..Around::default() })
}

fn filter(forbidden: &[(&str, u32)]) -> Result<Around, Stop> {
    need("seccomp")?;
    Ok(Around { all: preloader(forbidden), ..Around::default() })
}

/// Around the launcher alone: where `clone3` is refused and not absent, the C library can start no thread.
fn refuse(forbidden: &[(&str, u32)]) -> Result<Around, Stop> {
    Ok(Around { launches: filter(forbidden)?.all, no_threads: true, ..Around::default() })
}

fn limits(limit: &str) -> Result<Around, Stop> {
    Ok(Around { launches: words(&["prlimit", limit, "--"]), ..Around::default() })
}

/// A mount namespace in which something was mounted. An ordinary user's belongs to a user namespace in which it was root for
/// that.
fn with_mounts(who: Who, script: &str) -> Result<Around, Stop> {
    match who {
        Who::Root => all(with(&["unshare", "--mount"], &format!("{script} && exec \"$@\""))),
        Who::User => {
            let script = format!("{script} && exec {AS_ORDINARY} \"$@\"");
            all(with(&["unshare", "--user", "--map-root-user", "--mount"], &script))
        }
    }
}

/// Around the launcher alone: what is traced cannot be traced by anybody else, as attacks do.
fn old_landlock(version: u32) -> Result<Around, Stop> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Stop::Skip("needs the registers of x86_64".into()));
    }
    need("seccomp")?;
    let launches = words(&["python3", "-c", OLD_LANDLOCK, &version.to_string()]);
    Ok(Around { launches, ..Around::default() })
}

/// `more` are flags.
fn jails(levels: usize, more: &str) -> Result<Around, Stop> {
    need("userns")?;
    let own = std::env::current_exe()?;
    let stage = helper().parent().unwrap_or(Path::new("/"));
    let limits =
        "--proc full --wall 60s --cpu 60s --memory 2G --disk 1024G --processes 400 --open-files 1024";
    let mut jail = vec![helper().to_string_lossy().into_owned()];
    jail.extend(limits.split(' ').chain(more.split_whitespace()).map(str::to_owned));
    for shown in [own.as_path(), stage] {
        jail.extend(["--ro".to_owned(), shown.to_string_lossy().into_owned()]);
    }
    jail.push("--".to_owned());
    Ok(Around { all: vec![jail; levels].concat(), ..Around::default() })
}
