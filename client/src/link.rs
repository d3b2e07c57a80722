//! One helper and everything that connects us to it, moved by one `poll` loop.

use crate::cancel::Subscription;
use crate::channel::{Channel, Outgoing};
use crate::error::{host, os};
use crate::launch::{Process, launch};
use crate::locate::Helper;
use crate::output::Output;
use crate::pipes::{Drain, Feed};
use agentkit_protocol::{Event, Failure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long a helper that has nothing more to say may take to be gone.
const FAREWELL: Duration = Duration::from_secs(2);
/// One buffer for everything that is read, as large as a pipe usually is.
const BUFFER: usize = 64 << 10;
/// How much of what a dead helper left on stderr goes into the error.
const LAST_WORDS: usize = 2 << 10;

/// A running helper.
pub(crate) struct Link {
    /// What to do if it exits without an answer.
    hint: Option<&'static str>,
    process: Process,
    channel: Channel,
    stdin: Option<Feed>,
    stdout: Drain,
    stderr: Drain,
    buffer: Vec<u8>,
    close_told: bool,
}

/// What one turn of the loop brought.
pub(crate) enum Turn {
    /// The helper said something.
    Event(Box<Event>),
    /// The helper closed its end and everything it said has been told. Comes once.
    Closed,
    /// The deadline has passed.
    Deadline,
    /// The run was cancelled.
    Cancelled,
    /// Some bytes were moved.
    Moved,
}

#[derive(Clone, Copy)]
enum Source {
    Channel,
    Stdin,
    Stdout,
    Stderr,
    Cancel,
}

impl Link {
    /// Starts the helper. `message` is what goes to it, `stdin` what goes to the command.
    pub(crate) fn open(
        helper: &Helper,
        arguments: &[&str],
        message: Vec<u8>,
        stdin: Option<Vec<u8>>,
        cap: usize,
    ) -> Result<Self, Failure> {
        let (stdin, descriptor) = stdin.map(Feed::new).transpose()?.unzip();
        let (process, ends) = launch(helper, arguments)?;
        Ok(Link {
            hint: helper.hint(),
            process,
            channel: Channel::new(ends.socket, Outgoing { bytes: message, descriptor })?,
            stdin,
            stdout: Drain::new(ends.stdout, cap)?,
            stderr: Drain::new(ends.stderr, cap)?,
            buffer: vec![0; BUFFER],
            close_told: false,
        })
    }

    /// Waits until something can be moved, moves it, and says what came of it.
    pub(crate) fn turn(&mut self, deadline: Instant, cancel: Option<&Subscription>) -> Result<Turn, Failure> {
        if let Some(event) = self.channel.next_event()? {
            return Ok(Turn::Event(Box::new(event)));
        }
        if !self.channel.is_open() && !self.close_told {
            self.close_told = true;
            return Ok(Turn::Closed);
        }
        // Looked at on every turn: under a flood of output `poll` never times out.
        if Instant::now() >= deadline {
            return Ok(Turn::Deadline);
        }
        let mut turn = Turn::Moved;
        for source in self.wait(deadline, cancel)? {
            match source {
                Source::Channel => self.channel.transfer(&mut self.buffer)?,
                Source::Stdin => self.feed()?,
                Source::Stdout => self.stdout.read(&mut self.buffer)?,
                Source::Stderr => self.stderr.read(&mut self.buffer)?,
                Source::Cancel => turn = Turn::Cancelled,
            }
        }
        Ok(turn)
    }

    /// Tells the helper to kill the run and to report.
    pub(crate) fn hang_up(&mut self) {
        self.channel.hang_up();
    }

    /// Takes what is still in the pipes and ends the helper.
    pub(crate) fn finish(mut self) -> (Output, Output) {
        self.drain();
        (self.stdout.finish(), self.stderr.finish())
    }

    /// The failure of a helper that closed its end without an answer.
    pub(crate) fn died(mut self) -> Failure {
        self.drain();
        let (status, hint) = match self.process.reap() {
            Ok(status) => (status.to_string(), self.hint.filter(|_| status.code().is_some())),
            Err(error) => (error.to_string(), None),
        };
        let stderr = self.stderr.finish();
        let bytes = stderr.bytes();
        let last_words = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LAST_WORDS)..]);
        let said = match last_words.trim() {
            "" => "nothing".to_owned(),
            text => format!("\"{}\"", text.escape_debug()),
        };
        let message = format!("the helper died: {status}; it left {said} on stderr");
        Failure { hint: hint.map(str::to_owned), ..host("run the helper", message) }
    }

    /// Reads to the end of all three streams. They end when the helper is gone, for it holds them to its last moment;
    /// one that does not go is killed later.
    fn drain(&mut self) {
        self.stdin = None;
        self.channel.hang_up();
        let deadline = Instant::now() + FAREWELL;
        while self.channel.is_open()
            || self.stdout.descriptor().is_some()
            || self.stderr.descriptor().is_some()
        {
            match self.turn(deadline, None) {
                Ok(Turn::Deadline) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }

    fn feed(&mut self) -> Result<(), Failure> {
        if let Some(feed) = &mut self.stdin
            && !feed.write()?
        {
            self.stdin = None;
        }
        Ok(())
    }

    fn wait(&self, deadline: Instant, cancel: Option<&Subscription>) -> Result<Vec<Source>, Failure> {
        let read = |pipe: Option<_>| pipe.map(|pipe| (pipe, PollFlags::POLLIN));
        let interests: [(Source, Option<(BorrowedFd<'_>, PollFlags)>); 5] = [
            (Source::Channel, self.channel.interest()),
            (Source::Stdin, self.stdin.as_ref().map(|feed| (feed.descriptor(), PollFlags::POLLOUT))),
            (Source::Stdout, read(self.stdout.descriptor())),
            (Source::Stderr, read(self.stderr.descriptor())),
            (Source::Cancel, read(cancel.map(Subscription::as_fd))),
        ];
        let (sources, mut descriptors): (Vec<Source>, Vec<PollFd<'_>>) = interests
            .into_iter()
            .filter_map(|(source, interest)| interest.map(|(fd, flags)| (source, PollFd::new(fd, flags))))
            .unzip();
        match poll(&mut descriptors, timeout(deadline)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(os("wait for the helper", "poll", &errno.into())),
        }
        let is_ready = |descriptor: &PollFd<'_>| descriptor.revents().is_some_and(|flags| !flags.is_empty());
        Ok(sources
            .into_iter()
            .zip(&descriptors)
            .filter(|(_, fd)| is_ready(fd))
            .map(|(source, _)| source)
            .collect())
    }
}

/// Rounded up, so that the last millisecond is waited for and not spun through.
fn timeout(deadline: Instant) -> PollTimeout {
    let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}
