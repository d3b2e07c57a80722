//! The exit codes of `agentkit-jail`. Otherwise it exits with the command's own code.

/// The wall clock ran out and the tree was killed. Same as timeout(1).
pub const WALL_CLOCK: i32 = 124;
/// The jail failed or refused and nothing ran; or it broke and everything in it was killed; or what ran could not be
/// committed; or it exited with 0, but its output or the report could not be written.
pub const FAILED: i32 = 125;
/// The command exists but cannot be executed.
pub const NOT_EXECUTABLE: i32 = 126;
/// The command does not exist.
pub const NOT_FOUND: i32 = 127;
/// The command, or the tree with it, was killed by signal `n`: this plus `n`.
pub const SIGNAL: i32 = 128;
