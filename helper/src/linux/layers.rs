//! What the mechanism consists of: each part can be left out on purpose, to see which attacks then succeed.
//!
//! Only by a build with the feature `mutants`, which the tests make for themselves and whose capabilities say so. In every
//! other build no layer can be off, and the compiler drops the questions.

use agentkit_protocol::Level;

/// One part.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "mutants", derive(Debug))]
pub(crate) enum Layer {
    /// Inherited descriptors are closed.
    Descriptors,
    /// The command's variables are made from nothing.
    Environment,
    /// Root becomes somebody else.
    Identity,
    /// A user namespace of its own. To do without takes root.
    UserNamespace,
    PidNamespace,
    IpcNamespace,
    UtsNamespace,
    CgroupNamespace,
    NetworkNamespace,
    /// No user namespace in that one, by the kernel's own count.
    NestedNamespaces,
    /// The jail dies with its supervisor.
    DeathSignal,
    /// Init's text of the launcher is wiped.
    LaunchersText,
    /// Init is closed to its children.
    Dumpable,
    /// Session and process group of its own.
    Session,
    Keyring,
    /// Pipes in place of the caller's streams.
    Streams,
    /// The jail's own root directory, of what is granted.
    View,
    /// Its own `/proc`.
    Proc,
    /// What a full `/proc` does not show, or not let write.
    KernelFiles,
    /// The size of the private directories.
    Sizes,
    /// Names that git of the host would act on.
    Git,
    /// Limits of each process.
    Rlimits,
    /// What the supervisor adds up.
    Looks,
    /// Capabilities and ways to new ones.
    Privileges,
    Landlock,
    Filter,
    /// Set-group-id bits, which the supervisor is asked about.
    Modes,
}

#[cfg(not(feature = "mutants"))]
impl Layer {
    pub(crate) const fn is_off(self) -> bool {
        false
    }
}

#[cfg(feature = "mutants")]
mod mutants {
    use super::{Layer, Level};
    use std::sync::OnceLock;

    /// Names of layers, as they are written here, with commas between them.
    const OFF: &str = "AGENTKIT_JAIL_WITHOUT";
    /// Read once, since init wipes its variables.
    static NAMES: OnceLock<String> = OnceLock::new();

    fn names() -> &'static str {
        NAMES.get_or_init(|| std::env::var(OFF).unwrap_or_default())
    }

    impl Layer {
        pub(crate) fn is_off(self) -> bool {
            let name = format!("{self:?}");
            names().split(',').any(|off| off == name)
        }
    }

    /// A build that can be broken claims nothing.
    pub(crate) fn claim(_: Level) -> Level {
        Level::None(format!("a build for tests, whose parts can be left out ({OFF}={:?})", names()))
    }
}

#[cfg(feature = "mutants")]
pub(crate) use mutants::claim;

/// What may be said of a control.
#[cfg(not(feature = "mutants"))]
pub(crate) fn claim(level: Level) -> Level {
    level
}
