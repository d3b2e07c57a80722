//! Signals are blocked from just before the jail is made, so that none is lost and none ends the supervisor before it has
//! taken the jail down: it reads them from a descriptor, and init waits for those that it passes on.

use super::sys;
use crate::error::{Context, Result};
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

const STEP: &str = "signals";
/// By these a caller or a terminal asks for the end. They are passed on to the command.
const STOP: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
/// These say that this process is broken.
const FAULTS: [Signal; 7] = [
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGSEGV,
    Signal::SIGSYS,
    Signal::SIGTRAP,
];
/// These mean nothing to the supervisor. By the first three a terminal suspends whom it belongs to: suspended, it would
/// bound nothing while the jail runs on.
const UNHEARD: [Signal; 7] = [
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGCHLD,
    Signal::SIGCONT,
    Signal::SIGPIPE,
    Signal::SIGURG,
];

/// Most commands end within this time, and init need not make itself small for those.
pub(super) const SOON: Duration = Duration::from_millis(10);

fn all_but(signals: impl IntoIterator<Item = Signal>) -> SigSet {
    let mut set = SigSet::all();
    signals.into_iter().for_each(|signal| set.remove(signal));
    set
}

/// Blocks them in this process and in what it forks.
pub(super) fn block() -> Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&all_but(FAULTS)), None)
        .map_err(io::Error::from)
        .context(STEP, "block signals")
}

/// Blocks nothing any more. For the command, which must not inherit it.
pub(super) fn unblock() -> io::Result<()> {
    Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?)
}

/// What the supervisor is told by signals.
pub(super) struct Signals(SignalFd);

/// One signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The end is asked for.
    Stop(i32),
    /// A signal without a meaning here, of which a process dies.
    Die(i32),
    /// The caller's terminal has another size.
    Resized,
}

impl Signals {
    pub(super) fn open() -> Result<Self> {
        Self::of(&all_but(FAULTS.into_iter().chain(UNHEARD)))
    }

    /// Those that ask for the end, for whoever only looks whether there is one: all of them wait until they are taken.
    #[cfg(feature = "bubblewrap")]
    pub(super) fn open_for_end() -> Result<Self> {
        Self::of(&all_but(FAULTS.into_iter().chain(UNHEARD).chain([Signal::SIGWINCH])))
    }

    fn of(wanted: &SigSet) -> Result<Self> {
        SignalFd::with_flags(wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map(Signals)
            .map_err(io::Error::from)
            .context(STEP, "signalfd")
    }

    /// Readable when there is something to take.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes the next one, if there is one.
    pub(super) fn take(&self) -> Result<Option<Told>> {
        let signal = self.0.read_signal().map_err(io::Error::from).context(STEP, "read a signal")?;
        Ok(signal.map(|info| match info.ssi_signo as i32 {
            libc::SIGWINCH => Told::Resized,
            number if STOP.iter().any(|stop| *stop as i32 == number) => Told::Stop(number),
            number => Told::Die(number),
        }))
    }
}

/// What an init is told that has no pid namespace to tell it who sends: of its children, and by these what is to be passed
/// on.
#[cfg(without_namespaces)]
pub(super) fn open_as_init() -> Result<SignalFd> {
    let mut wanted = SigSet::empty();
    STOP.into_iter().chain([Signal::SIGCHLD]).for_each(|signal| wanted.add(signal));
    SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(io::Error::from)
        .context(STEP, "signalfd")
}

/// What init waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForInit {
    /// A child has ended.
    Child,
    /// The supervisor passes this signal on.
    PassOn(i32),
    /// The time is up.
    Late,
}

/// What the jail's own processes send to their init has no effect, as everywhere, but for this: while one of them waits
/// there, the kernel drops another of the same number. So a command that floods init may miss that it is asked to end; it
/// is killed in time all the same.
pub(super) fn wait_as_init(deadline: Instant) -> Result<ForInit> {
    let wanted = STOP.into_iter().chain([Signal::SIGCHLD]).collect();
    let mut longest = SOON;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(ForInit::Late);
        }
        match sys::wait_for_signal(&wanted, left.min(longest)).context(STEP, "wait for a signal")? {
            Some((libc::SIGCHLD, _)) => return Ok(ForInit::Child),
            Some((signal, true)) => return Ok(ForInit::PassOn(signal)),
            Some((_, false)) => {}
            None => {
                sys::give_memory_back();
                longest = Duration::MAX;
            }
        }
    }
}
