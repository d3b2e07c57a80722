//! What an attack is.

use crate::judge::Judge;
use crate::scene::Scene;
use agentkit_protocol::Control;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The interpreter, as shells call it.
pub(crate) const PYTHON: &str = "python3";

/// What is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Networks, and sockets of the host.
    Network,
    /// Files outside the granted directory.
    Filesystem,
    /// Other processes, and the end of the run.
    Processes,
    /// What everybody shares.
    Resources,
    /// The kernel's interface.
    Kernel,
    /// What the launcher did not mean to tell.
    Leakage,
    /// The caller's terminal.
    Terminal,
    /// What a run leaves for programs of the host.
    Persistence,
}

impl Family {
    /// Every family, in the order of reports.
    pub const ALL: [Family; 8] = [
        Family::Network,
        Family::Filesystem,
        Family::Processes,
        Family::Resources,
        Family::Kernel,
        Family::Leakage,
        Family::Terminal,
        Family::Persistence,
    ];
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Network => "network",
            Family::Filesystem => "filesystem",
            Family::Processes => "processes",
            Family::Resources => "resources",
            Family::Kernel => "kernel",
            Family::Leakage => "leakage",
            Family::Terminal => "terminal",
            Family::Persistence => "persistence",
        })
    }
}

/// One attack.
pub struct Attack {
    /// Unique in the corpus, of lower-case words.
    pub name: &'static str,
    /// What is attacked.
    pub family: Family,
    /// What it would mean if it succeeded, for somebody who runs strangers' code.
    pub means: &'static str,
    /// The controls that should stop it.
    pub controls: &'static [Control],
    /// Prepares the host's side.
    pub(crate) stage: fn(&Scene) -> Result<Staged, CannotBite>,
}

impl Attack {
    /// One of a family.
    pub(crate) const fn new(
        family: Family,
        name: &'static str,
        means: &'static str,
        controls: &'static [Control],
        stage: fn(&Scene) -> Result<Staged, CannotBite>,
    ) -> Self {
        Attack { name, family, means, controls, stage }
    }
}

impl fmt::Debug for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attack").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why an attack proves nothing on this host.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotBite(pub(crate) String);

impl From<io::Error> for CannotBite {
    fn from(error: io::Error) -> Self {
        CannotBite(format!("the host's side cannot be prepared: {error}"))
    }
}

/// Who performs an attack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attacker {
    /// The static program.
    Native,
    /// The script, by whichever interpreter the launcher finds.
    Python,
    /// The static program as it lies in another place.
    NativeAs(PathBuf),
}

/// An attack about to be performed.
pub(crate) struct Staged {
    pub(crate) attacker: Attacker,
    /// The attacker's own name of the attack, and its arguments.
    pub(crate) argv: Vec<OsString>,
    /// Shell commands of whoever calls the launcher, in the process that becomes it: to open descriptors, for instance.
    pub(crate) before: String,
    /// Whether whoever calls the launcher leads a session: the first terminal that it opens becomes its own.
    pub(crate) leads_a_session: bool,
    pub(crate) judge: Box<dyn Judge>,
}

impl Staged {
    pub(crate) fn new(
        argv: impl IntoIterator<Item = impl Into<OsString>>,
        judge: impl Judge + 'static,
    ) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Staged {
            attacker: Attacker::Native,
            argv,
            before: String::new(),
            leads_a_session: false,
            judge: Box::new(judge),
        }
    }

    /// One more argument.
    pub(crate) fn with(mut self, argument: impl Into<OsString>) -> Self {
        self.argv.push(argument.into());
        self
    }

    /// By the attacker in Python.
    pub(crate) fn in_python(mut self) -> Result<Self, CannotBite> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |directory: PathBuf| access(&directory.join(PYTHON), AccessFlags::X_OK).is_ok();
        if !std::env::split_paths(&path).any(is_there) {
            return Err(CannotBite(format!("no {PYTHON} in PATH")));
        }
        self.attacker = Attacker::Python;
        Ok(self)
    }

    /// By a copy of the native attacker.
    pub(crate) fn by_copy(mut self, at: PathBuf) -> Self {
        self.attacker = Attacker::NativeAs(at);
        self
    }

    /// See [`Staged::before`].
    pub(crate) fn before(mut self, before: impl Into<String>) -> Self {
        self.before = before.into();
        self
    }

    /// See [`Staged::leads_a_session`].
    pub(crate) fn leads_a_session(mut self) -> Self {
        self.leads_a_session = true;
        self
    }
}
