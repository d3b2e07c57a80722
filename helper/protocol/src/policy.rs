//! What a caller asks for.

use crate::{Bytes, Control, VERSION};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One run of one command. Unknown fields are refused, and every limit always has a value.
///
/// As JSON, with everything but `version` and `argv` optional:
///
/// ```json
/// {"version": 1, "argv": ["python3", "-c", "print(1)"], "workdir": {"bind": "/srv/job"}, "limits": {"wall_ms": 2000}}
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Must equal [`VERSION`].
    pub version: u16,
    /// The command and its arguments. A name without a slash is looked up in the helper's own `PATH`.
    pub argv: Vec<Bytes>,
    /// Variables the command gets on top of the few that the jail sets (`PATH`, `HOME`, `TMPDIR`, `LANG`, ...).
    /// Nothing of the helper's own environment is passed on.
    #[serde(default)]
    pub env: BTreeMap<String, Bytes>,
    /// The directory the command starts in.
    #[serde(default)]
    pub workdir: WorkDir,
    /// Files that are put into the private `/tmp` before the command starts: plain names and contents.
    #[serde(default)]
    pub files: BTreeMap<String, Bytes>,
    /// The bounds of the run.
    #[serde(default)]
    pub limits: Limits,
    /// Attempts whose traces are to be recorded.
    #[serde(default)]
    pub watch: Watch,
    /// Controls without which nothing may run.
    #[serde(default)]
    pub require: BTreeSet<Control>,
}

impl Policy {
    /// A policy with the defaults for everything but the command.
    pub fn new<I, A>(argv: I) -> Self
    where
        I: IntoIterator<Item = A>,
        A: Into<Bytes>,
    {
        Policy {
            version: VERSION,
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            workdir: WorkDir::default(),
            files: BTreeMap::new(),
            limits: Limits::default(),
            watch: Watch::default(),
            require: BTreeSet::new(),
        }
    }
}

/// Where the command works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkDir {
    /// An empty directory in memory that is gone after the run.
    #[default]
    Scratch,
    /// This host directory, readable and writable, under its own path.
    Bind(Bytes),
}

/// Bounds of one run. Each is always in force; there is no "unlimited".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Wall-clock time in milliseconds, from the start of the command; the whole tree is then killed.
    pub wall_ms: u64,
    /// Processor time in seconds, per process.
    pub cpu_seconds: u64,
    /// Bytes of memory. See the `memory_limited` control for how it is enforced.
    pub memory: u64,
    /// Bytes in all private directories together: `/tmp`, `/dev/shm`, `HOME` and a scratch work dir.
    pub disk: u64,
    /// Bytes of one file.
    pub file_size: u64,
    /// Processes and threads of the run alive at one time, the jail's own two (supervisor and init) included.
    pub processes: u64,
    /// Open descriptors per process.
    pub open_files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            wall_ms: 10_000,
            cpu_seconds: 10,
            memory: 512 << 20,
            disk: 64 << 20,
            file_size: 64 << 20,
            processes: 64,
            open_files: 256,
        }
    }
}

/// Attempts that the kernel itself records, so that a caller can tell "it was stopped" from "it never tried" without
/// believing what the command prints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watch {
    /// Absolute paths, none of them granted: at each an empty directory stands in the jail, and opening it is recorded.
    /// Looking at it without opening it is not.
    pub paths: Vec<Bytes>,
    /// Ports on the jail's own 127.0.0.1: each attempt to open a TCP connection there is counted.
    pub tcp_ports: Vec<u16>,
    /// Whether the making of processes and threads is counted. Each then waits for the supervisor.
    pub forks: bool,
}
