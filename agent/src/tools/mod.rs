//! Tools that come with the runtime.

mod arithmetic;
mod calculate;
mod notes;
mod ratio;
mod run_python;
mod run_shell;
mod sandboxed;

pub use calculate::calculator;
pub use notes::{recall, remember};
pub use run_python::python;
pub use run_shell::shell;
