//! What the suites of `agentkit-jail` share: who launches, one launch, and what came of it.
#![allow(dead_code, reason = "each suite compiles its own copy and uses a part of it")]

pub(crate) mod desk;
pub(crate) mod launch;
pub(crate) mod run;
pub(crate) mod stage;
pub(crate) mod who;
