//! What wakes the supervisor.

use super::sys;
use crate::error::{Context, Result};
use nix::errno::Errno;
use nix::libc::{self, timespec};
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

const STEP: &str = "events";
/// By these a caller or a terminal asks for the end. They are passed on to the command.
const STOP: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
/// These mean nothing here, and a process dies of them.
const DIE: [i32; 7] = [
    libc::SIGALRM,
    libc::SIGPROF,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGVTALRM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];
/// By these a terminal suspends whom it belongs to: suspended, the supervisor would bound nothing.
const SUSPEND: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The command has ended.
    Dead,
    /// The client is gone.
    HungUp,
    /// The end is asked for.
    Stop(i32),
    /// A signal that nobody asks for the end with.
    Die(i32),
}

/// A kqueue, see kqueue(2). It hears of signals that are ignored, and no fork inherits it.
pub(super) struct Events(Kqueue);

impl Events {
    /// From here on signals wait here. To be called before the fork, so that none is lost.
    pub(super) fn listen() -> Result<Self> {
        let queue = Kqueue::new().map_err(io::Error::from).context(STEP, "kqueue")?;
        let events = Events(queue);
        for signal in STOP.into_iter().chain(DIE) {
            let number = usize::try_from(signal).unwrap_or_default();
            events
                .add(number, EventFilter::EVFILT_SIGNAL, FilterFlag::empty())
                .context(STEP, "listen for signals")?;
        }
        STOP.into_iter().chain(DIE).chain(SUSPEND).for_each(sys::ignore_signal);
        Ok(events)
    }

    /// Tells of its death, and at once if it is dead.
    pub(super) fn watch_child(&self, pid: i32) -> Result<()> {
        let number = usize::try_from(pid).unwrap_or_default();
        self.add(number, EventFilter::EVFILT_PROC, FilterFlag::NOTE_EXIT)
            .context(STEP, "listen for the command's end")
    }

    /// A client says nothing after its policy: whatever can be read is its end.
    pub(super) fn watch_lifeline(&self, socket: BorrowedFd) -> Result<()> {
        let number = usize::try_from(socket.as_raw_fd()).unwrap_or_default();
        self.add(number, EventFilter::EVFILT_READ, FilterFlag::empty())
            .context(STEP, "listen for the client's end")
    }

    fn add(&self, number: usize, filter: EventFilter, what: FilterFlag) -> io::Result<()> {
        let change = KEvent::new(number, filter, EvFlags::EV_ADD, what, 0, 0);
        self.0.kevent(&[change], &mut [], Some(seconds(Duration::ZERO)))?;
        Ok(())
    }

    /// Waits for this long at most.
    pub(super) fn wait(&self, time: Duration) -> Result<Vec<Event>> {
        let nothing = KEvent::new(0, EventFilter::EVFILT_READ, EvFlags::empty(), FilterFlag::empty(), 0, 0);
        let mut found = [nothing; 16];
        let count = match self.0.kevent(&[], &mut found, Some(seconds(time))) {
            Err(Errno::EINTR) => 0,
            count => count.map_err(io::Error::from).context(STEP, "kevent")?,
        };
        Ok(found.iter().take(count).filter_map(meaning).collect())
    }
}

fn meaning(event: &KEvent) -> Option<Event> {
    let signal = i32::try_from(event.ident()).unwrap_or_default();
    match event.filter().ok()? {
        EventFilter::EVFILT_PROC => Some(Event::Dead),
        EventFilter::EVFILT_READ => Some(Event::HungUp),
        EventFilter::EVFILT_SIGNAL if STOP.contains(&signal) => Some(Event::Stop(signal)),
        EventFilter::EVFILT_SIGNAL => Some(Event::Die(signal)),
        _ => None,
    }
}

fn seconds(time: Duration) -> timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    timespec { tv_sec, tv_nsec: i64::from(time.subsec_nanos()) }
}
