//! Tools that come with the runtime.

mod arithmetic;
mod calculate;
mod memory;
mod ratio;
mod run_python;

pub use calculate::calculator;
pub use memory::{Memory, recall, remember};
pub use run_python::python;
