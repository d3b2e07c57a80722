//! Step 9: the system-call filter, compiled from `profiles/seccomp` at build time.

use super::sys::{self, Instruction};
use crate::error::{Context, Result};

const STEP: &str = "seccomp";

/// The prelude, then one program for each errno. The kernel runs all of them and takes the strictest answer.
static FILTERS: &[&[Instruction]] = include!(concat!(env!("OUT_DIR"), "/seccomp_filters.rs"));

/// Loads the filter; it cannot be taken off again.
pub(crate) fn load() -> Result<()> {
    FILTERS.iter().try_for_each(|filter| sys::load_seccomp_filter(filter).context(STEP, "load a filter"))
}
