//! What the report says of a denial: what was seen from outside, and nothing that the command's words suggest.

use crate::jail::desk::Desk;
use crate::support::Stop;
use crate::tests;
use agentkit_protocol::{Attempt, Bytes, EndedBy, Policy, Watch};

tests![words_that_sound_like_a_denial, a_denial_without_words];

/// At a path of the host that a jail does not have.
const SECRET: &str = "/srv/agentkit-case/key";

fn attempts(script: &str) -> Result<(EndedBy, Vec<Attempt>, usize), Stop> {
    let desk = Desk::new()?;
    let watch = Watch { paths: vec![Bytes::from(SECRET)], ..Watch::default() };
    let ended = desk.launch(&Policy { watch, ..desk.policy(script) })?.ended()?;
    Ok((ended.ended_by, ended.attempts, ended.limits_reached.len()))
}

fn seen(seen: bool) -> Vec<Attempt> {
    vec![Attempt::Path { path: Bytes::from(SECRET), seen, written: false }]
}

fn words_that_sound_like_a_denial() -> Result<(), Stop> {
    let loud =
        format!("echo 'sh: {SECRET}: Permission denied; Killed; memory limit' >&2; echo denied; exit 1");
    assert_eq!(attempts(&loud)?, (EndedBy::Exit(1), seen(false), 0));
    Ok(())
}

fn a_denial_without_words() -> Result<(), Stop> {
    let quiet = format!("cat {SECRET} 2>/dev/null; exit 1");
    assert_eq!(attempts(&quiet)?, (EndedBy::Exit(1), seen(true), 0));
    Ok(())
}
