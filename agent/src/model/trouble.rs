//! Why a server was not heard to the end.

use super::retry::Class;
use std::fmt;
use std::io;
use std::time::Duration;

/// How long a server is waited for. Each applies to one attempt, and the run's own deadline to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To look up its name, and again until the connection stands, encryption included.
    pub connect: Duration,
    /// From then, and the request sent, to the first byte of its answer. A server that does not stream thinks its whole
    /// reply through before.
    pub first_byte: Duration,
    /// From any byte of the answer to the next. Comments that keep a stream alive count.
    pub idle: Duration,
    /// For all of it.
    pub total: Duration,
}

impl Default for Timeouts {
    /// 10 s to connect, 5 min for the first byte, 1 min between bytes, 10 min in all.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Timeouts { connect: seconds(10), first_byte: seconds(300), idle: seconds(60), total: seconds(600) }
    }
}

/// Why no more is heard.
#[derive(Debug)]
pub(super) enum Trouble {
    /// One of [`Timeouts`] was reached.
    Late(Limit, Duration),
    /// The run is out of time or cancelled.
    Over,
    Transport(ureq::Error),
    NoThread(io::Error),
}

/// Which of [`Timeouts`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    Connect,
    FirstByte,
    Idle,
    Total,
}

impl Trouble {
    /// Whether another attempt may get further.
    pub(super) fn class(&self) -> Class {
        match self {
            // Among others a certificate that is not trusted.
            Trouble::Transport(ureq::Error::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Class::Lasting
            }
            Trouble::Late(..)
            | Trouble::Transport(
                ureq::Error::Io(_)
                | ureq::Error::HostNotFound
                | ureq::Error::ConnectionFailed
                | ureq::Error::Protocol(_),
            ) => Class::Passing,
            Trouble::Over | Trouble::NoThread(_) | Trouble::Transport(_) => Class::Lasting,
        }
    }

    /// The end of a body that is not complete.
    pub(super) fn unexpected_end() -> Self {
        Trouble::Transport(
            io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ended before the reply did").into(),
        )
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Late(Limit::Connect, limit) => {
                write!(f, "timeout: connect: there was no connection within {limit:?}")
            }
            Trouble::Late(Limit::FirstByte, limit) => {
                write!(f, "timeout: first byte: there was no answer within {limit:?}")
            }
            Trouble::Late(Limit::Idle, limit) => write!(f, "timeout: idle: nothing came for {limit:?}"),
            Trouble::Late(Limit::Total, limit) => {
                write!(f, "timeout: total: the answer was not complete after {limit:?}")
            }
            Trouble::Over => f.write_str("out of time or cancelled"),
            Trouble::Transport(error) => error.fmt(f),
            Trouble::NoThread(error) => write!(f, "there is no thread for the request: {error}"),
        }
    }
}
