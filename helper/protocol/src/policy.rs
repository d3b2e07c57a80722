//! What a caller asks for.

use crate::{Bytes, Control, Mechanism, VERSION};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One run of one command. Unknown fields are refused, and every limit always has a value.
///
/// In JSON everything but `version` and `argv` is optional.
///
/// ```json
/// {"version": 1, "argv": ["python3", "-c", "print(1)"], "workdir": {"bind": "/srv/job"}, "limits": {"wall_ms": 2000}}
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Must be [`VERSION`], which is 1.
    pub version: u16,
    /// The command and its arguments. A name without a slash is looked up in the helper's own `PATH`, not in one that `env`
    /// sets: that is for what the command starts.
    pub argv: Vec<Bytes>,
    /// Variables the command gets on top of the few that the jail sets (`PATH`, `HOME`, `TMPDIR`, `LANG`, ...).
    /// Nothing of the helper's own environment is passed on.
    #[serde(default)]
    pub env: BTreeMap<String, Bytes>,
    /// The directory the command starts in.
    #[serde(default)]
    pub workdir: WorkDir,
    /// What else of the host is seen, and how. The longest path that holds a file decides about it, whatever the order.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// How much of `/proc` there is.
    #[serde(default)]
    pub proc: ProcFiles,
    /// Which network there is.
    #[serde(default)]
    pub net: Net,
    /// Whether names that host programs act on are protected where the jail can write.
    #[serde(default)]
    pub git: GitNames,
    /// Whether the command gets a terminal of its own in place of the caller's. Only for a script whose standard input is
    /// a terminal, with the policy on another descriptor.
    #[serde(default)]
    pub tty: bool,
    /// Files that are put into the private `/tmp` before the command starts: plain names and contents. Where that directory
    /// has another name (`TMPDIR`; under all mechanisms but `namespaces`), an argument that is exactly `/tmp/NAME` of one of them
    /// becomes its real path.
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
    /// How the jail is to confine.
    #[serde(default)]
    pub mechanism: Choice,
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
            rules: Vec::new(),
            proc: ProcFiles::default(),
            net: Net::default(),
            git: GitNames::default(),
            tty: false,
            files: BTreeMap::new(),
            limits: Limits::default(),
            watch: Watch::default(),
            require: BTreeSet::new(),
            mechanism: Choice::default(),
        }
    }
}

/// Which mechanism may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The first that this host can give, best first: the launch itself is the trial, and a failure at any step before the
    /// command is executed leads to the next one. One that lacks what `require` names, or cannot do what the policy asks
    /// for, is passed over. The report says which were, and why. What is only used up (descriptors, memory, room on a disk)
    /// leads to no other, or whoever uses it up could bring about a lesser jail.
    #[default]
    Auto,
    /// [`Mechanism::Namespaces`] or none.
    Namespaces,
    /// [`Mechanism::Bubblewrap`] or none.
    Bubblewrap,
    /// [`Mechanism::Landlock`] or none.
    Landlock,
    /// [`Mechanism::Seatbelt`] or none.
    Seatbelt,
    /// [`Mechanism::Rlimits`] or none. No other choice leads there: it would run what is not trusted with the user's files
    /// open to it.
    Rlimits,
}

impl From<Mechanism> for Choice {
    fn from(mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::Namespaces => Choice::Namespaces,
            Mechanism::Bubblewrap => Choice::Bubblewrap,
            Mechanism::Landlock => Choice::Landlock,
            Mechanism::Seatbelt => Choice::Seatbelt,
            Mechanism::Rlimits => Choice::Rlimits,
        }
    }
}

impl Choice {
    /// Every choice there is, each mechanism after the better ones.
    pub const ALL: [Choice; 6] = [
        Choice::Auto,
        Choice::Namespaces,
        Choice::Bubblewrap,
        Choice::Landlock,
        Choice::Seatbelt,
        Choice::Rlimits,
    ];

    /// Its name in policies and flags.
    pub fn name(self) -> &'static str {
        self.only().map_or("auto", Mechanism::name)
    }

    /// Whether it leaves room for this one.
    pub fn allows(self, mechanism: Mechanism) -> bool {
        self.only().map_or(mechanism != Mechanism::Rlimits, |only| only == mechanism)
    }

    /// The one that it leaves, unless it leaves the choice.
    fn only(self) -> Option<Mechanism> {
        match self {
            Choice::Auto => None,
            Choice::Namespaces => Some(Mechanism::Namespaces),
            Choice::Bubblewrap => Some(Mechanism::Bubblewrap),
            Choice::Landlock => Some(Mechanism::Landlock),
            Choice::Seatbelt => Some(Mechanism::Seatbelt),
            Choice::Rlimits => Some(Mechanism::Rlimits),
        }
    }
}

/// Where the command works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkDir {
    /// An empty directory in memory that is gone after the run; under `landlock` and `rlimits` one of the
    /// host's.
    #[default]
    Scratch,
    /// This host directory, readable and writable, under its own path. With a rule `ro` for the same path as it is
    /// written here it is read-only.
    Bind(Bytes),
    /// This host directory under its own path, with all changes kept apart in memory: in the bound of `limits.disk`,
    /// which a file counts toward as a whole as soon as it is opened for writing. Files of another owner than the
    /// directory's can be read and not changed.
    ///
    /// A commit takes over regular files, directories and links: content, permissions without set-user-id and its kind,
    /// the modification time of files. Each file appears complete or not at all; all together do not. New files belong
    /// to the owner of the directory. Links are made as they are and never followed, as with a work dir that is bound.
    /// Names that the run gave to one file are names of one file again, extended attributes stay behind, and a change that
    /// somebody else made to the same name during the run is overwritten. See [`Changes`](crate::Changes).
    ///
    /// All that is new is made first, in directories called `.agentkit-commit-…`, then gets its names, then replaces what
    /// was there; deletions come last. So a commit needs room for the new beside the old, and one that finds none leaves
    /// everything as it was. A helper that is killed meanwhile leaves these directories behind.
    Overlay {
        /// The host directory.
        path: Bytes,
        /// What becomes of the changes. They are reported in any case.
        #[serde(default)]
        commit: Commit,
    },
    /// An empty directory in memory at the absolute path of this host directory, which is not seen: a rule `tmpfs` for it, in
    /// which the command starts.
    ScratchAt(Bytes),
}

/// How long, in seconds, the helper may take after a run to compare an overlay work dir with the host and to commit it.
/// What it has not done by then it gives up, and says so.
pub const LONGEST_SETTLING: u64 = 300;

/// When the changes above an overlay work dir are written to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commit {
    /// They are discarded.
    #[default]
    Never,
    /// If the command exited with 0, unless the caller asked for the end.
    OnSuccess,
    /// However the run ended, unless the caller went away or asked for the end.
    Always,
}

/// How one host path is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// An absolute path of the host; inside it has the same name. One that does not exist grants nothing, and nothing is
    /// made on the host for it. A link is followed once: the rule is about what it leads to, and in a writable directory
    /// neither the link of a protected path nor a directory on the way to it can be replaced by the jail.
    ///
    /// If a program of the host puts another file in the place of one that is hidden or protected, or removes it, while
    /// the command runs (editors save that way, and so does git), the jail sees the new one as it sees what lies around
    /// it: the kernel takes the cover away with the name. `filesystem_confined` is `partial` where that can happen, which
    /// is in every host directory that the jail sees. A rule on a whole directory is lifted only with that directory.
    pub path: Bytes,
    /// What can be done there.
    pub access: Access,
}

/// What can be done below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read and execute; nothing below can be changed.
    Ro,
    /// Read, write and execute.
    Rw,
    /// Neither read nor write, but for what another rule shows in it. A path that does not exist when the run starts is
    /// not visible either, unless it comes into being in a directory that the jail sees.
    Hide,
    /// An empty private directory, in the same bound as all the others (`limits.disk`).
    Tmpfs,
}

/// How much of `/proc` the command sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcFiles {
    /// The jail's processes alone (`subset=pid`, Linux 5.8). Enough for snippets. Nothing at all under the mechanism
    /// `landlock`, which cannot show some processes and not others; under `rlimits` the host's in any case.
    #[default]
    Processes,
    /// Also what `ps`, `free` and `os.cpus()` read, with `/proc/sys` read-only. Under `landlock` what is not about processes:
    /// enough for `free` and `os.cpus()`, not for `ps`.
    Full,
}

/// Which network the command has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Net {
    /// Sockets of the internet's families are refused.
    None,
    /// The jail's own loopback, for programs that talk to themselves, where the host allows to raise one.
    #[default]
    Loopback,
    /// The host's, with its abstract sockets and its names: everything that the launcher can reach. `network_blocked` is
    /// then `none`. A run that reads untrusted text and has this can send what it reads anywhere.
    Host,
}

/// What happens to names in a writable host directory by which host programs are made to execute something:
/// git's `hooks`, `config` and their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitNames {
    /// Existing ones are read-only, new ones are put aside after the run and reported. Only with [`WorkDir::Bind`]; a commit of
    /// an overlay leaves them out.
    #[default]
    Protect,
    /// The jail may change them like any other file.
    Off,
}

/// Bounds of one run. Each but `output` is always in force; there is no "unlimited".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Wall-clock time in milliseconds, from the start of the command; the whole tree is then killed.
    pub wall_ms: u64,
    /// Processor time in seconds. A process gets SIGXCPU at it; the tree is killed shortly after all of its processes
    /// together have passed it.
    pub cpu_seconds: u64,
    /// Bytes of memory. See the `memory_limited` control for how it is enforced.
    pub memory: u64,
    /// Bytes in all private directories together: `/tmp`, `/dev/shm`, `HOME`, a scratch work dir and what lies above an
    /// overlay. And bytes that the run adds to a bound work dir.
    pub disk: u64,
    /// Bytes of one file.
    pub file_size: u64,
    /// Processes and threads of the run alive at one time, the jail's own two (supervisor and init) included.
    pub processes: u64,
    /// Open descriptors per process.
    pub open_files: u64,
    /// Bytes that pass on each of the two output streams, or on both together where they are one file. What comes after them
    /// is read and counted, and thrown away; the command goes on. Without it, all that the caller takes.
    pub output: Option<u64>,
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
            output: None,
        }
    }
}

/// Attempts that the kernel itself records, so that a caller can tell "it was stopped" from "it never tried" without
/// believing what the command prints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watch {
    /// Absolute paths, at most 16, none of them granted: at each an empty file stands in the jail, in a file
    /// system that is full. To open it is recorded, and whether that was to write it or its length was changed. Every other
    /// attempt is not: to execute it, rename it or remove it, which fails, to change its mode or times, and to look at it
    /// without opening it.
    pub paths: Vec<Bytes>,
    /// Ports on the jail's own 127.0.0.1: each attempt to open a TCP connection there is counted.
    pub tcp_ports: Vec<u16>,
    /// Whether the making of processes and threads is counted. Each then waits for the supervisor.
    pub forks: bool,
}
