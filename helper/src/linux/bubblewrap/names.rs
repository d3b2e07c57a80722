//! Names that the launch and the jail's init have to know alike.

/// Everything private, so that one size bounds it together: what is not a part of it is a link into it.
pub(super) const PRIVATE: &str = "/private";
/// This program inside. By that name every embedding program is its own jail executable too.
pub(super) const OWN_PROGRAM: &str = "/agentkit-jail";
/// Says that this program is init, and by which descriptor it talks to its supervisor. No flag: nobody else says it.
pub(super) const AS_INIT: &str = "--as-init";
