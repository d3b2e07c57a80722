//! Graders: from an answer and the evidence to a judgement.

pub mod decimal;
mod equation;
pub mod evidence;
mod lead_in;
pub mod phrase;
mod text;
pub mod usage;
pub mod value;
mod words;
