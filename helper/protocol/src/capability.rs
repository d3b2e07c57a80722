//! What a host enforces, control by control.

use crate::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One promise of the jail. Controls are stated one by one, never as a single bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// No network and no host socket can be reached.
    NetworkBlocked,
    /// Nothing outside the granted view can be read or written.
    FilesystemConfined,
    /// Host processes can neither be seen nor signalled.
    ProcessesIsolated,
    /// The number of processes is bounded: a fork bomb stops at the limit.
    ProcessesContained,
    /// The memory of the whole tree is bounded. `full` is the kernel's own bound, a cgroup's, of memory and of what lies in the
    /// private directories together: `limits.memory` and `limits.disk`. At `limits.memory` alone it is polled all the same.
    MemoryLimited,
    /// The bytes on disk of the whole tree are bounded.
    DiskLimited,
    /// The processor time of the whole tree is bounded.
    CpuLimited,
    /// The kernel interface is narrowed by a system-call filter.
    SyscallsFiltered,
    /// No capability is held and none can be gained.
    PrivilegesDropped,
    /// Nothing of the caller's environment or descriptors is visible.
    EnvironmentScrubbed,
    /// Every process of the run is dead when the run is reported as ended.
    KilledAsATree,
}

impl Control {
    /// Every control, in the order of reports.
    pub const ALL: [Control; 11] = [
        Control::NetworkBlocked,
        Control::FilesystemConfined,
        Control::ProcessesIsolated,
        Control::ProcessesContained,
        Control::MemoryLimited,
        Control::DiskLimited,
        Control::CpuLimited,
        Control::SyscallsFiltered,
        Control::PrivilegesDropped,
        Control::EnvironmentScrubbed,
        Control::KilledAsATree,
    ];

    /// The name used in policies, reports and messages.
    pub fn name(self) -> &'static str {
        match self {
            Control::NetworkBlocked => "network_blocked",
            Control::FilesystemConfined => "filesystem_confined",
            Control::ProcessesIsolated => "processes_isolated",
            Control::ProcessesContained => "processes_contained",
            Control::MemoryLimited => "memory_limited",
            Control::DiskLimited => "disk_limited",
            Control::CpuLimited => "cpu_limited",
            Control::SyscallsFiltered => "syscalls_filtered",
            Control::PrivilegesDropped => "privileges_dropped",
            Control::EnvironmentScrubbed => "environment_scrubbed",
            Control::KilledAsATree => "killed_as_a_tree",
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far a control holds. Only [`Level::Full`] satisfies a requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The kernel enforces it, and that was read back after set-up.
    Full,
    /// The supervisor looks from time to time and kills: what happens between two looks can overshoot.
    Polled(String),
    /// It holds with the exception named here.
    Partial(String),
    /// It is not enforced, for the reason named here.
    None(String),
}

impl Level {
    /// Whether the control holds without exception.
    pub fn is_full(&self) -> bool {
        *self == Level::Full
    }

    /// Why the control is less than full, if it is.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Level::Full => None,
            Level::Polled(why) | Level::Partial(why) | Level::None(why) => Some(why),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Full => f.write_str("full"),
            Level::Polled(why) => write!(f, "polled: {why}"),
            Level::Partial(why) => write!(f, "partial: {why}"),
            Level::None(why) => write!(f, "none: {why}"),
        }
    }
}

/// How the jail confines, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// Linux namespaces, made by the helper itself.
    Namespaces,
    /// Linux namespaces, made by bubblewrap, for hosts where no other program may make them.
    Bubblewrap,
    /// A profile of macOS's sandbox, which its tools call seatbelt.
    Seatbelt,
    /// Landlock and a stricter system-call filter, for hosts without user namespaces. It confines less: see the
    /// capabilities.
    Landlock,
    /// Limits, a watched tree, and a system-call filter where the kernel has them: it confines no file, and is taken only by
    /// its name.
    Rlimits,
}

impl Mechanism {
    /// Its name in policies, flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Namespaces => "namespaces",
            Mechanism::Bubblewrap => "bubblewrap",
            Mechanism::Seatbelt => "seatbelt",
            Mechanism::Landlock => "landlock",
            Mechanism::Rlimits => "rlimits",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the jail enforces on this host: the answer of a probe, or the read-back of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// The mechanism that was used, if any works here.
    pub mechanism: Option<Mechanism>,
    /// A level for every [`Control`].
    pub controls: BTreeMap<Control, Level>,
    /// Why no mechanism works here, or no better one: the failing step, its errno and what a person can do about it.
    pub failure: Option<Failure>,
}

/// The answer of `--probe` to programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Of the mechanism that a run gets which leaves the choice to the jail and requires nothing.
    #[serde(flatten)]
    pub best: Capabilities,
    /// Of every mechanism, each tried for itself.
    pub each: BTreeMap<Mechanism, Capabilities>,
}

impl Capabilities {
    /// The answer of a host where nothing could be set up.
    pub fn unavailable(failure: Failure) -> Self {
        let why = failure.to_string();
        let controls = Control::ALL.iter().map(|control| (*control, Level::None(why.clone()))).collect();
        Capabilities { mechanism: None, controls, failure: Some(failure) }
    }

    /// The level of one control; a control that the answer leaves out is not enforced.
    pub fn level(&self, control: Control) -> Level {
        self.controls.get(&control).cloned().unwrap_or_else(|| Level::None("not reported".to_owned()))
    }

    /// Those of `required` that are not fully enforced, with the reason.
    pub fn missing(&self, required: impl IntoIterator<Item = Control>) -> Vec<(Control, Level)> {
        required
            .into_iter()
            .map(|control| (control, self.level(control)))
            .filter(|(_, level)| !level.is_full())
            .collect()
    }
}
