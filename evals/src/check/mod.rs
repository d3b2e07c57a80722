//! Graders: from an answer and the evidence to a judgement.

pub mod decimal;
pub mod evidence;
pub mod phrase;
pub mod text;
pub mod usage;
pub mod value;
pub mod words;
