//! Asking the helper what this host enforces.

use crate::error::host;
use crate::link::{Link, Turn};
use crate::locate::Helper;
use agentkit_protocol::{Capabilities, Choice, Event, Failure};
use std::time::{Duration, Instant};

/// How long the helper may take to try the complete path.
const DEADLINE: Duration = Duration::from_secs(2);
/// A probe has no output: this is for the last words of a helper that dies.
const OUTPUT_CAP: usize = 8 << 10;

/// What this host enforces by the best of the mechanisms that may be used. A helper that cannot be asked is an answer too: nothing is enforced, for that reason.
pub(crate) fn probe(helper: &Helper, choice: Choice) -> Capabilities {
    ask(helper, choice).unwrap_or_else(Capabilities::unavailable)
}

fn ask(helper: &Helper, choice: Choice) -> Result<Capabilities, Failure> {
    let arguments = ["--probe", "--client", "--mechanism", choice.name()];
    let arguments = if choice == Choice::Auto { &arguments[..2] } else { &arguments[..] };
    let mut link = Link::open(helper, arguments, Vec::new(), None, OUTPUT_CAP)?;
    let deadline = Instant::now() + DEADLINE;
    loop {
        match link.turn(deadline, None)? {
            Turn::Moved | Turn::Cancelled => {}
            Turn::Deadline => {
                return Err(host("probe", format!("no answer within {} s", DEADLINE.as_secs())));
            }
            Turn::Closed => return Err(link.died()),
            Turn::Event(event) => {
                link.finish();
                return answer(*event);
            }
        }
    }
}

fn answer(event: Event) -> Result<Capabilities, Failure> {
    match event {
        Event::Capabilities(capabilities) => Ok(capabilities),
        Event::Failed(failure) => Err(failure),
        other => Err(host("probe", format!("the helper spoke out of turn: {other:?}"))),
    }
}
