//! Takes events to where they are wanted: to the transcript at once, to the listener by a thread of its own.

use crate::event::{AgentEvent, EventSink};
use crate::transcript::{Recording, Transcript};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Events that wait for a listener that is slower than the run.
const ROOM: usize = 1024;
/// How long such a listener is waited for, each time that it has stopped taking any.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where the events of one run go.
pub(crate) struct Feed {
    /// `None` once the run is over: what a call that was left alone says later is not heard.
    open: Mutex<Option<Open>>,
}

struct Open {
    recording: Option<Recording>,
    listener: Option<Arc<Listener>>,
    failure: Option<String>,
}

impl Feed {
    pub(crate) fn open(sink: Option<&Arc<dyn EventSink>>, transcript: Option<&Arc<Transcript>>) -> Self {
        let (recording, failure) = match transcript.map(Recording::begin).transpose() {
            Ok(recording) => (recording, None),
            Err(why) => (None, Some(why)),
        };
        let listener = sink.and_then(|sink| Listener::start(Arc::clone(sink)));
        Feed { open: Mutex::new(Some(Open { recording, listener, failure })) }
    }

    /// Why something could not be recorded, if it could not.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().as_ref().and_then(|open| open.failure.clone())
    }

    /// Waits until the listener has heard everything, but not for long.
    pub(crate) fn flush(&self) {
        let listener = self.lock().as_ref().and_then(|open| open.listener.clone());
        if let Some(listener) = listener {
            listener.flush();
        }
    }

    /// Emits the last event. The transcript is free for another run then.
    pub(crate) fn close(&self, last: AgentEvent) {
        self.emit(last);
        let listener = self.lock().take().and_then(|open| open.listener);
        if let Some(listener) = listener {
            listener.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for Feed {
    fn emit(&self, event: AgentEvent) {
        let mut open = self.lock();
        let Some(open) = open.as_mut() else { return };
        if let Some(recording) = &open.recording
            && event.is_recorded()
            && let Err(why) = recording.write(&event)
        {
            open.failure = Some(why);
            // A line that could not be written whole is the last one.
            open.recording = None;
        }
        if let Some(listener) = &open.listener {
            listener.push(event);
        }
    }
}

/// A sink with the events that it has not taken yet.
struct Listener {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<AgentEvent>,
    /// The sink is at work on one.
    busy: bool,
    /// The sink has not taken any for so long that nobody waits for it.
    stuck: bool,
    /// Events that the sink will never hear.
    lost: usize,
    /// Nothing more will come, or nobody is there to hear it.
    closed: bool,
}

impl Queue {
    fn is_full(&self) -> bool {
        self.events.len() >= ROOM && !self.closed
    }

    fn is_idle(&self) -> bool {
        self.events.is_empty() && !self.busy
    }
}

impl Listener {
    /// `None` if there is no thread to be had, which no run survives either.
    fn start(sink: Arc<dyn EventSink>) -> Option<Arc<Self>> {
        let listener = Arc::new(Listener { queue: Mutex::default(), changed: Condvar::new() });
        let to = Arc::clone(&listener);
        let thread = thread::Builder::new().name("agentkit-events".to_owned());
        thread.spawn(move || to.deliver(&*sink)).ok().map(|_| listener)
    }

    fn push(&self, event: AgentEvent) {
        let mut queue = self.lock();
        if !queue.stuck {
            let waited = self.changed.wait_timeout_while(queue, PATIENCE, |queue| queue.is_full());
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.stuck = queue.is_full();
        if queue.stuck {
            queue.lost += 1;
        } else if !queue.closed {
            if let lost @ 1.. = std::mem::take(&mut queue.lost) {
                let events = if lost == 1 { "1 event was" } else { &format!("{lost} events were") };
                let warning = format!("{events} lost here: the listener is too slow");
                queue.events.push_back(AgentEvent::Warning(warning));
            }
            queue.events.push_back(event);
        }
        drop(queue);
        self.changed.notify_all();
    }

    /// The body of the thread.
    fn deliver(&self, sink: &dyn EventSink) {
        while let Some(event) = self.next() {
            let heard = catch_unwind(AssertUnwindSafe(|| sink.emit(event)));
            let mut queue = self.lock();
            queue.busy = false;
            if heard.is_err() {
                queue.events.clear();
                queue.closed = true;
            }
            drop(queue);
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<AgentEvent> {
        let waited = self.changed.wait_while(self.lock(), |queue| queue.events.is_empty() && !queue.closed);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        let event = queue.events.pop_front();
        queue.busy = event.is_some();
        drop(queue);
        self.changed.notify_all();
        event
    }

    fn flush(&self) {
        let _ = self.changed.wait_timeout_while(self.lock(), PATIENCE, |queue| !queue.is_idle());
    }

    /// What is left after the wait is still delivered, if the program lives as long.
    fn close(&self) {
        self.flush();
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
