//! The overlay work dir: the host directory below, every change above it in the private pool, and after the run a
//! comparison of the two and, where the policy asks for it, a commit.
//!
//! The command can reach neither layer itself: it sees the overlay alone, which stores attributes of the command's own
//! under other names than those that mean something to overlayfs. The supervisor has a descriptor of each layer from
//! before the command started, and uses them when the whole tree is dead. What it finds above is hostile all the same,
//! and what it finds below may change while it looks: it moves by [`Trail`](super::tree::Trail).

mod attributes;
mod commit;
mod entry;
#[cfg(feature = "namespaces")]
mod mount;
mod record;
mod settle;
mod staging;
mod walk;

#[cfg(feature = "namespaces")]
pub(crate) use mount::mount;
pub(crate) use settle::settle;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

const STEP: &str = "overlay";

/// Both layers, for the time after the run.
#[derive(Debug)]
pub(crate) struct Layers {
    /// What the run wrote.
    pub(crate) upper: OwnedFd,
    /// The host directory, as the jail's user: for a root launcher with its owner mapped.
    pub(crate) host: OwnedFd,
    /// How that is called outside.
    pub(crate) path: PathBuf,
}
