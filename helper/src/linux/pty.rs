//! With `tty`: the command gets a terminal of the jail's own, and its traffic is copied from and to the caller's.
//!
//! The caller's terminal itself never enters the jail: on it one could type into the caller's shell, read what is typed
//! there later, or leave it in a state of one's choice. What the command *prints* does reach it, control sequences and all.

use super::relay::{Copiers, Finished};
use super::sys;
use crate::error::{Context, Hint, Result, policy};
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::Mode;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, isatty, tcgetpgrp};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

const STEP: &str = "pty";

/// The caller's terminal as it was found on standard input.
#[derive(Clone)]
pub(crate) struct Terminal {
    modes: Termios,
    size: libc::winsize,
    /// What it understands, for `TERM`: the one thing about it that programs must be told.
    pub(crate) kind: Vec<u8>,
}

impl Terminal {
    /// Refuses what could not be copied, or not without disturbing others.
    pub(crate) fn of_caller() -> Result<Self> {
        let stdin = io::stdin();
        if !isatty(&stdin).unwrap_or(false) {
            return Err(policy("tty: standard input is no terminal"));
        }
        if tcgetpgrp(&stdin).is_ok_and(|group| group != getpgrp()) {
            return Err(policy("tty: a background process cannot have the terminal"));
        }
        let modes =
            tcgetattr(&stdin).map_err(io::Error::from).context(STEP, "tcgetattr on standard input")?;
        let size = sys::terminal_size(stdin.as_fd()).context(STEP, "TIOCGWINSZ on standard input")?;
        Ok(Terminal { modes, size, kind: kind_of_terminal() })
    }
}

/// As the launcher's environment says, which init forgets.
fn kind_of_terminal() -> Vec<u8> {
    let kind = std::env::var_os("TERM").map(OsStringExt::into_vec).unwrap_or_default();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
    match kind.len() {
        1..=64 if kind.iter().all(is_plain) => kind,
        _ => b"dumb".to_vec(),
    }
}

/// In the jail: both ends of its terminal.
pub(crate) struct Pair {
    /// For the supervisor.
    pub(crate) master: OwnedFd,
    /// For the command. Kept open until the jail ends: without any, the copier outside would take that for the end.
    pub(crate) slave: OwnedFd,
}

impl Pair {
    /// In the modes and the size of the caller's.
    pub(crate) fn open(like: &Terminal) -> Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = open("/dev/ptmx", flags, Mode::empty())
            .map_err(io::Error::from)
            .context(STEP, "open the jail's /dev/ptmx")?;
        sys::unlock_terminal(master.as_fd()).context(STEP, "TIOCSPTLCK on the jail's terminal")?;
        let slave = sys::open_terminal(master.as_fd())
            .context(STEP, "TIOCGPTPEER on the jail's terminal")
            .hint("the kernel must be 4.13 or newer")?;
        tcsetattr(&slave, SetArg::TCSANOW, &like.modes)
            .map_err(io::Error::from)
            .context(STEP, "tcsetattr on the jail's terminal")?;
        sys::set_terminal_size(slave.as_fd(), &like.size)
            .context(STEP, "TIOCSWINSZ on the jail's terminal")?;
        Ok(Pair { master, slave })
    }
}

/// Outside, while the command runs. Dropped or finished when the jail is dead, it copies what is left and then gives the
/// caller's terminal back as it was.
pub(crate) struct Session {
    copiers: Copiers,
    master: OwnedFd,
    _raw: Raw,
}

impl Session {
    pub(crate) fn start(master: OwnedFd, caller: &Terminal, most: Option<u64>) -> Result<Self> {
        let raw = Raw::enter(&caller.modes)?;
        let mut copiers = Copiers::default();
        let (stdin, stdout) = (io::stdin(), io::stdout());
        copiers.copy_input(stdin.as_fd(), master.as_fd())?;
        copiers.copy_output(master.as_fd(), stdout.as_fd(), "standard output", most)?;
        let session = Session { copiers, master, _raw: raw };
        // It may have changed since it was looked at, before anybody waited for news of it.
        session.resize();
        Ok(session)
    }

    /// See [`Copiers::finish`].
    pub(crate) fn finish(mut self) -> Finished {
        self.copiers.finish()
    }

    /// A terminal that was taken away has no size any more, and then none is needed.
    pub(crate) fn resize(&self) {
        let stdin = io::stdin();
        drop(
            sys::terminal_size(stdin.as_fd())
                .and_then(|size| sys::set_terminal_size(self.master.as_fd(), &size)),
        );
    }
}

/// The caller's terminal passes every key on, for as long as this exists: the jail's own gives them their meaning.
struct Raw(Termios);

impl Raw {
    fn enter(found: &Termios) -> Result<Self> {
        let mut modes = found.clone();
        cfmakeraw(&mut modes);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &modes)
            .map_err(io::Error::from)
            .context(STEP, "make the terminal raw")?;
        Ok(Raw(found.clone()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Fails if the terminal is gone.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
    }
}
