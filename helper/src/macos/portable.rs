//! The files of this mechanism that ask nothing of macOS, for their tests on other systems.

mod capabilities;
mod private;
mod profile;
mod program;
mod refuse;
mod view;
