//! Step 10: what is in force, asked of the kernel and not copied from the request.

use super::layers::Layer;
use super::limits;
use super::proc_files;
use crate::error::{Context, Result};
use agentkit_protocol::{Limits, ReadBack};
use serde::{Deserialize, Serialize};
use std::io;

const STEP: &str = "read back";
const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];

/// The identities of a process's namespaces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Namespaces(Vec<String>);

impl Namespaces {
    /// Those of the calling process.
    pub(crate) fn of_this_process() -> Result<Self> {
        let read = |name: &&str| {
            let path = format!("/proc/self/ns/{name}");
            let id = std::fs::read_link(&path).context(STEP, format_args!("read the link {path}"))?;
            Ok(id.to_string_lossy().into_owned())
        };
        NAMESPACES.iter().map(read).collect::<Result<_>>().map(Namespaces)
    }

    /// Whether the user namespace is the first one, whose id is fixed (`PROC_USER_INIT_INO` of the kernel): ids in it are
    /// those that the kernel goes by.
    pub(crate) fn are_the_first_users(&self) -> bool {
        self.0.first().is_some_and(|user| user == "user:[4026531837]")
    }

    /// The names of those that differ.
    fn differing(&self, other: &Namespaces) -> Vec<String> {
        let pairs = self.0.iter().zip(&other.0).zip(NAMESPACES);
        pairs.filter(|((ours, theirs), _)| ours != theirs).map(|(_, name)| name.to_owned()).collect()
    }
}

/// Reads the state of this process, which the command inherits. What its steps found out is for the caller to add.
pub(crate) fn read(asked: &Limits, launcher: &Namespaces) -> Result<ReadBack> {
    let status = Status::of_this_process()?;
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let capabilities = sets.iter().try_fold(0, |all, set| Ok(all | status.hexadecimal(set)?));
    let map = match Layer::UserNamespace.is_off() {
        true => "0 0 1".to_owned(),
        false => proc_files::read("/proc/self/uid_map").context(STEP, "read /proc/self/uid_map")?,
    };
    let mut ids = map.split_whitespace().map(str::parse);
    let (Some(Ok(uid)), Some(Ok(outer_uid)), Some(Ok(1)), None) =
        (ids.next(), ids.next(), ids.next(), ids.next())
    else {
        return Err(io::Error::other(format!("not exactly one id is mapped: {map:?}")))
            .context(STEP, "/proc/self/uid_map");
    };
    let limits = limits::InForce::read(asked)?;
    Ok(ReadBack {
        no_new_privs: status.field("NoNewPrivs")? == "1",
        seccomp_mode: status.number("Seccomp")?,
        capabilities: capabilities?,
        own_namespaces: launcher.differing(&Namespaces::of_this_process()?),
        uid,
        outer_uid,
        limits_bind: if launcher.are_the_first_users() { outer_uid != 0 } else { limits::bind_this_user()? },
        rlimits: limits.own,
        launchers_limits: limits.launchers,
        ..ReadBack::default()
    })
}

/// The same of a process that has no id map of its own. `status` is its `/proc/self/status`, opened when that could be.
#[cfg(without_namespaces)]
pub(crate) fn read_open(status: std::fs::File, limits: limits::InForce) -> Result<ReadBack> {
    let status = proc_files::read_all(status).map(Status).context(STEP, "read /proc/self/status")?;
    // Without the bounding set: no new privileges are left for it to bound.
    let sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"];
    let uid = nix::unistd::getuid().as_raw();
    Ok(ReadBack {
        no_new_privs: status.field("NoNewPrivs")? == "1",
        seccomp_mode: status.number("Seccomp")?,
        capabilities: sets.iter().try_fold(0, |all, set| Ok(all | status.hexadecimal(set)?))?,
        uid,
        outer_uid: uid,
        rlimits: limits.own,
        launchers_limits: limits.launchers,
        ..ReadBack::default()
    })
}

/// `/proc/self/status`, see proc_pid_status(5).
struct Status(String);

impl Status {
    fn of_this_process() -> Result<Self> {
        proc_files::read("/proc/self/status").map(Status).context(STEP, "read /proc/self/status")
    }

    fn field(&self, name: &str) -> Result<&str> {
        proc_files::status_field(&self.0, name)
            .ok_or_else(|| io::Error::other("it is not there"))
            .context(STEP, format_args!("field {name} of /proc/self/status"))
    }

    fn number(&self, name: &str) -> Result<u8> {
        self.field(name)?.parse().map_err(io::Error::other).context(STEP, format_args!("field {name}"))
    }

    fn hexadecimal(&self, name: &str) -> Result<u64> {
        u64::from_str_radix(self.field(name)?, 16)
            .map_err(io::Error::other)
            .context(STEP, format_args!("field {name}"))
    }
}
