//! What happened.

use crate::{Bytes, Capabilities, Mechanism};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What the helper tells its caller: [`Event::Started`] then [`Event::Ended`], or [`Event::Failed`] in place of either.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The answer to `--probe`.
    Capabilities(Capabilities),
    /// Everything is in force and the command was executed.
    Started(Started),
    /// The command and every process it left behind are dead.
    Ended(Ended),
    /// The command did not run. After [`Event::Started`]: it could not be watched any more, so everything in the jail was
    /// killed and nothing is committed; the message also says what was put aside.
    Failed(Failure),
}

/// What was in force when the command started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The version of this message.
    pub version: u16,
    /// The mechanism in use.
    pub mechanism: Mechanism,
    /// Better ones that were tried before, and what they failed at; nothing ran under them.
    pub passed_over: Vec<PassedOver>,
    /// The executable that enforces the policy.
    pub helper: Bytes,
    /// What is enforced, derived from `read_back`.
    pub capabilities: Capabilities,
    /// The kernel's own answers, read inside the jail after set-up and before the command.
    pub read_back: ReadBack,
}

/// A mechanism that this host did not give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    /// Which.
    pub mechanism: Mechanism,
    /// The step that failed.
    pub failure: Failure,
}

/// The state of the jail's init just before the command starts, all of which the command inherits; under the
/// mechanisms `landlock` and `rlimits` that of the process that becomes the command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBack {
    /// `NoNewPrivs` of `/proc/self/status`.
    pub no_new_privs: bool,
    /// `Seccomp` of `/proc/self/status`; 2 is filter mode.
    pub seccomp_mode: u8,
    /// All five capability sets (inheritable, permitted, effective, bounding, ambient), or-ed together; under `landlock`
    /// and `rlimits` without the bounding set, which only root may change, and which bounds nothing where no new privileges
    /// are left.
    pub capabilities: u64,
    /// Namespaces whose id differs from the launcher's, by name.
    pub own_namespaces: Vec<String>,
    /// The uid inside, and the uid as the launcher's namespace sees it.
    pub uid: u32,
    /// See `uid`.
    pub outer_uid: u32,
    /// Whether the process limit binds the jail's user, which it does unless that is root's uid to the kernel. Where the
    /// launcher is in a user namespace itself, no number tells, and it was tried out.
    pub limits_bind: bool,
    /// Only under the mechanisms `landlock` and `rlimits`.
    pub domain: Option<Domain>,
    /// Whether Landlock forbids changes of mounts and device nodes too, as was tried. Kernels before Linux 5.19, or
    /// started without it, cannot; capabilities and filter forbid both in any case.
    pub landlock: bool,
    /// Whether a loopback is up: the jail's own, unless the policy shares the host's network.
    pub loopback: bool,
    /// Whether the kernel tells the supervisor what the jail's sockets hold.
    pub sockets_tell: bool,
    /// The limit in bytes of the cgroup that the tree is in: memory and disk together, since files in memory are memory
    /// to the kernel. Only where `memory_limited` is required.
    pub memory_group: Option<u64>,
    /// Whether the work dir is a host directory that cannot be written, since a rule, its mount or its file system makes it
    /// read-only.
    pub workdir_read_only: bool,
    /// Whether the installation of a program that lies outside the system directories is shown as it is on the host, so that
    /// a socket or pipe of a host program in it could be used. Otherwise it is shown through an overlay, which has none.
    pub installations_as_on_host: bool,
    /// Whether changes of attributes of files are refused (EPERM) that the supervisor would judge, since a filter around the
    /// launcher has the one listener that the kernel allows, as in a jail that can write files of the host: under `landlock`
    /// and `rlimits` all of modes and times, otherwise the set-group-id bit of directories.
    pub attributes_refused: bool,
    /// Soft limits in force, by their `RLIMIT_` name in lower case.
    pub rlimits: BTreeMap<String, u64>,
    /// The launcher's own limits that bind as well: those lower than what was asked for, `as` and `stack` if they are lower
    /// than usual, and its `nproc` if it has one, toward which other processes of the launcher's user count too.
    pub launchers_limits: BTreeMap<String, u64>,
}

/// What is kept from the command without namespaces: by a domain of Landlock, and by the filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// The version of Landlock, see landlock(7); 0 under `rlimits`, which makes no domain.
    pub version: u32,
    /// What was tried in vain on things outside, just before the command was executed.
    pub refused: BTreeSet<Attack>,
    /// Whether no other process has the command's user.
    pub exclusive_user: bool,
    /// How many processes and threads of that user were alive outside of the run: they count toward its process limit,
    /// which was raised by as many.
    pub others: u64,
    /// Whether the host's `/proc` hides processes that may not be traced (`hidepid`), so that one can keep out of what is
    /// added up.
    pub hidden: bool,
}

/// One thing that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attack {
    /// To open a file to read it.
    Read,
    /// To open it to write.
    Write,
    /// To empty it.
    Empty,
    /// To list the directory that it is in.
    List,
    /// To remove it.
    Remove,
    /// To change its owner.
    ChangeOwner,
    /// To signal the jail's init.
    Signal,
    /// To get a socket, or a pair that reaches others.
    Socket,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The cause.
    pub ended_by: EndedBy,
    /// Limits that the run was seen to touch, with the evidence. Touching one is not the cause of the end. The limit on open
    /// files is never among them: a call fails for it (`EMFILE`), and the kernel tells only the caller.
    pub limits_reached: Vec<LimitReached>,
    /// What the run used.
    pub usage: Usage,
    /// One entry for each thing watched, in the order of the policy: paths, ports, forks.
    pub attempts: Vec<Attempt>,
    /// What the run changed in an overlay work dir; nothing for every other kind.
    pub changes: Option<Changes>,
    /// What the run made or changed under [names that host programs act on](crate::GitNames), and where it is now. At most
    /// 256 are listed of each writable directory; more are moved all the same, and `unchecked` says so. Whoever changes such a name from outside while
    /// the command runs finds it here too: nobody can tell who it was.
    pub quarantined: Vec<Quarantined>,
    /// Where it could not be made sure that no such name was left, and why. Empty if everything was looked at.
    pub unchecked: Vec<String>,
    /// Output of the command that could not be written to the caller's streams: which, and why. A reader that went away
    /// is none: it has seen enough.
    pub unwritten: Vec<String>,
}

/// What lies above an overlay work dir at the end of a run, compared with the host directory below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The changes, parents before what is in them. At most 4,096, and no more once their paths make 256 KiB together.
    pub list: Vec<Change>,
    /// How many there are, also those that `list` has no room for.
    pub total: u64,
    /// How many of them a commit leaves out.
    pub kept_back: u64,
    /// What became of the commit.
    pub commit: Committed,
}

/// One changed name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative to the work dir, which itself is `.`.
    pub path: Bytes,
    /// How it differs from what the host had.
    pub kind: ChangeKind,
    /// What is there now, or for a deletion was.
    pub entry: EntryKind,
    /// Whether the host has it now.
    pub committed: bool,
    /// Why no commit takes it to the host. What the host has under that name stays as it is; of a directory that was
    /// deleted or replaced, only what leads to a name that has to stay.
    pub kept_back: Option<KeptBack>,
}

/// How something differs from what the host had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The host had nothing there.
    Created,
    /// Content, mode, modification time or the target of a link are others. For a directory only the mode counts.
    Modified,
    /// The host had something of another kind there.
    Replaced,
    /// It is gone, for a directory with everything in it.
    Deleted,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which can say anything. A commit makes it as it is and follows none.
    Link,
    /// A FIFO, socket or device.
    Special,
}

/// Why a commit leaves something out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptBack {
    /// A name by which programs of the host are made to execute something; see the policy's `git`.
    HostExecuted,
    /// FIFOs, sockets and devices only mean something to the run that made them.
    Special,
}

/// What became of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Committed {
    /// The policy did not ask for it, or not after such an end of the run.
    #[default]
    No,
    /// Everything is on the host that is not kept back.
    Yes,
    /// The comparison or the commit stopped here. Each change says whether the host has it; no file is half-written.
    /// Nothing was replaced or deleted unless everything new that had no name on the host is there. Room for all
    /// content is found first: a commit without it has changed nothing.
    Failed(Failure),
}

/// Something that was moved to where host programs do not look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// Where it was, as a path of the host. Cut off after 4,096 bytes.
    pub from: Bytes,
    /// Where it is: in a directory `.agentkit-quarantine` (with a number, if there is one already) in the work dir, which
    /// only its owner can enter. A file `HEAD` in it is called `HEAD.quarantined` now, so that git takes no part of it for
    /// a repository. A work dir's own `HEAD`, without which it is no bare repository, is moved alone.
    pub to: Bytes,
}

/// Why a run ended. Only limits for which *we* killed appear here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The command exited with this code.
    Exit(i32),
    /// The command died of this signal.
    Signal(i32),
    /// We killed the tree at its wall-clock limit.
    WallClock,
    /// We killed the tree at its memory limit.
    Memory,
    /// We killed the tree when it had used its processor time.
    Cpu,
    /// We killed the tree when it had added too much to a bound work dir.
    Disk,
    /// The caller went away or cancelled, and we killed the tree.
    Caller,
    /// The helper got this signal, and we killed the tree, since the command had not ended in time.
    Stopped(i32),
}

/// The name of a limit of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Wall-clock time.
    Wall,
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Bytes or files in the private directories, or bytes in a bound work dir.
    Disk,
    /// The size of one file; only known where it killed the command.
    FileSize,
    /// The number of processes; known where as many were there at a look, every 10 ms, or when the command ended.
    Processes,
    /// Bytes of an output stream; the rest was thrown away.
    Output,
}

/// A limit that was touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitReached {
    /// Which.
    pub limit: Limit,
    /// What was seen, for instance `peak of 32 processes at a limit of 32`.
    pub evidence: String,
}

/// What a run used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall-clock time in microseconds, from start of the command to the end of its tree.
    pub wall_us: u64,
    /// Processor time of the tree in microseconds. Of processes that nobody waited for, what was last seen of them, so a
    /// lower bound.
    pub cpu_us: u64,
    /// The largest number of processes and threads of the run seen at one time from outside, the jail's own two
    /// included. Sampled, so a lower bound.
    pub peak_processes: u64,
    /// The most memory seen at one time, in bytes: resident, page tables, swapped, and queues of sockets. Sampled, so a
    /// very short run can show 0. Pages that processes share count once for each, but once altogether where the sum
    /// would be over the limit; shared memory that no process holds counts only where it could pass the limit.
    pub peak_memory: u64,
    /// The most that files in the private directories took at one time, in bytes, the files of the policy included; and
    /// the most that the file system of a bound work dir had less than earlier in the run, whoever took it.
    pub written: u64,
}

/// What became of what was watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt {
    /// Whether a process opened or changed what stands at the watched path. Other attempts are not recorded.
    Path {
        /// The path, as in the policy.
        path: Bytes,
        /// Whether it was opened at least once, to read or to write.
        seen: bool,
        /// Whether it was opened at least once so that it could be written, or was given another length.
        #[serde(default)]
        written: bool,
    },
    /// How often a TCP connection to the watched port was tried.
    Tcp {
        /// The port.
        port: u16,
        /// Connection attempts seen; a lower bound under a flood.
        count: u64,
    },
    /// How often a process or thread was to be made.
    Forks {
        /// All attempts, successful or not.
        count: u64,
        /// Attempts at a time when the run had as many as it may have.
        at_limit: u64,
    },
}

/// Who has to act on a failure. The three never mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The policy is malformed or contradicts itself: the caller's mistake.
    Policy,
    /// This host cannot provide the jail.
    Host,
    /// The host provides less than the policy requires.
    Required,
    /// The command does not exist (exit code 127).
    NotFound,
    /// The command exists but cannot be executed (exit code 126).
    NotExecutable,
}

/// Why a command did not run, or could not be watched to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Whose move it is.
    pub kind: FailureKind,
    /// The step of the launch, for instance `namespaces`.
    pub step: String,
    /// What was done on what and what came of it, for instance `clone3: Operation not permitted`.
    pub message: String,
    /// The operating system's error number, if one was involved.
    pub errno: Option<i32>,
    /// What a person can do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
