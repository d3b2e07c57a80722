//! Two views of the same trials.

pub mod escape;
pub mod json;
pub(crate) mod patient;
pub mod table;
