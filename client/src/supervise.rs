//! Following one run from the helper's first word to its last, and bounding the time that takes.

use crate::cancel::Subscription;
use crate::error::{Error, host};
use crate::link::{Link, Turn};
use crate::outcome::{Outcome, wall};
use agentkit_protocol::{Ended, Event, FailureKind, Limits, Started};
use std::time::{Duration, Instant};

/// What the helper gets on top of the wall-clock limit, which it enforces itself: to set up, to kill and to report.
const GRACE: Duration = Duration::from_secs(5);
/// What the helper gets to start the command. It gives up by itself after ten seconds, and then says at which step.
const START: Duration = Duration::from_secs(15);
/// What the helper gets to kill and report once it was told to.
const LAST_GRACE: Duration = Duration::from_secs(3);
/// A bound that keeps the arithmetic of deadlines in range.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Follows the run to its end. A helper that does not come to one is killed when `link` is dropped.
pub(crate) fn supervise(
    mut link: Link,
    limits: Limits,
    settling: Duration,
    cancel: Option<&Subscription>,
) -> Result<Outcome, Error> {
    let mut run = Run::new(&limits, settling);
    loop {
        match link.turn(run.deadline, cancel.filter(|_| !run.cancelled))? {
            Turn::Moved => {}
            Turn::Cancelled => run.cancel(&mut link),
            Turn::Deadline if run.hung_up => return Err(run.overdue()),
            Turn::Deadline => run.hang_up(&mut link),
            Turn::Closed => return Err(link.died().into()),
            Turn::Event(event) => {
                if let Some(end) = run.hear(*event).transpose() {
                    let (stdout, stderr) = link.finish();
                    return end.map(|(started, ended)| Outcome { stdout, stderr, started, ended, limits });
                }
            }
        }
    }
}

/// How far a run has come.
struct Run<'a> {
    limits: &'a Limits,
    /// What the helper gets after the run, on top of everything else.
    settling: Duration,
    deadline: Instant,
    started: Option<Started>,
    cancelled: bool,
    hung_up: bool,
}

impl<'a> Run<'a> {
    fn new(limits: &'a Limits, settling: Duration) -> Self {
        Run {
            limits,
            settling,
            deadline: Instant::now() + START,
            started: None,
            cancelled: false,
            hung_up: false,
        }
    }

    fn cancel(&mut self, link: &mut Link) {
        self.cancelled = true;
        self.hang_up(link);
    }

    fn hang_up(&mut self, link: &mut Link) {
        link.hang_up();
        self.hung_up = true;
        // A commit that has begun is better finished than cut off.
        self.deadline = Instant::now() + LAST_GRACE + self.settling;
    }

    /// Takes in one event; the last one gives the end of the run.
    fn hear(&mut self, event: Event) -> Result<Option<(Started, Ended)>, Error> {
        match (event, self.started.take()) {
            (Event::Started(started), None) => {
                self.start(started);
                Ok(None)
            }
            (Event::Ended(ended), Some(started)) => Ok(Some((started, ended))),
            (Event::Ended(_), None) if self.cancelled => Err(Error::Cancelled),
            // If it is the host's, the command may have run all the same.
            (Event::Failed(failure), None) if self.cancelled && failure.kind != FailureKind::Host => {
                Err(Error::Cancelled)
            }
            (Event::Ended(_), None) if self.hung_up => Err(self.overdue()),
            (Event::Failed(failure), _) => Err(failure.into()),
            (event, _) => Err(host("run the helper", format!("it spoke out of turn: {event:?}")).into()),
        }
    }

    fn start(&mut self, started: Started) {
        self.started = Some(started);
        if !self.hung_up {
            self.deadline = backstop(self.limits) + self.settling;
        }
    }

    /// The error of a helper that did not do its work in time.
    fn overdue(&self) -> Error {
        let message = match self.started {
            None => format!("it did not start the command within {} s", START.as_secs()),
            Some(_) => {
                let limit = wall(self.limits.wall_ms);
                format!("it did not end the run, not at its wall-clock limit of {limit} and not when told to")
            }
        };
        host("run the helper", message).into()
    }
}

/// When a run that begins now has ended, if the helper does its work.
fn backstop(limits: &Limits) -> Instant {
    Instant::now() + Duration::from_millis(limits.wall_ms).min(LONGEST) + GRACE
}
