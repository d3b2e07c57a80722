//! The corpus, where there is one.

#[cfg(target_os = "linux")]
pub(crate) use agentkit_attacks::{ENOUGH, UNJUDGED, attacker};

/// The jail runs on Linux alone so far, and so do the attacks.
#[cfg(not(target_os = "linux"))]
mod none {
    pub(crate) const ENOUGH: &str = "";
    pub(crate) const UNJUDGED: &[&[&str]] = &[];

    pub(crate) fn attacker() -> std::io::Result<&'static [u8]> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use none::{ENOUGH, UNJUDGED, attacker};
