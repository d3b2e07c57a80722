//! Two views of the same trials.

pub mod escape;
pub mod json;
pub mod table;
