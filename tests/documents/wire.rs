//! The frame in the helper's README is what the protocol makes of its policy, byte for byte.

use crate::jail::desk::Desk;
use crate::support::Stop;
use agentkit_protocol::{Policy, frame};
use std::fs;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const MARK: &str = "<!-- example: frame -->\n```text\n";

pub(crate) fn the_frame_of_the_readme() -> Result<(), Stop> {
    let text = fs::read_to_string(FILE)?;
    let example = text.split_once(MARK).and_then(|(_, rest)| rest.split_once("```"));
    let (example, _) = example.ok_or_else(|| Stop::Fail(format!("{FILE} has no frame")))?;
    // Behind two spaces is what they mean.
    let words = example.lines().filter_map(|line| line.split("  ").next()).flat_map(str::split_whitespace);
    let bytes = words.map(|word| u8::from_str_radix(word, 16)).collect::<Result<Vec<_>, _>>()?;
    let expected = frame::encode(&Policy::new(["true"]))?;
    assert_eq!(bytes, expected, "it would be {expected:02x?}");
    let run = Desk::new()?.call(&[], &bytes)?;
    assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
    Ok(())
}
