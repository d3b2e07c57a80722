//! The socket to the helper: the policy goes out, events come in.

use crate::error::{host, os};
use crate::pipes::is_temporary;
use agentkit_protocol::frame::{self, FrameError, HEADER};
use agentkit_protocol::{Event, Failure};
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// What goes to the helper: bytes, and with the first of them at most one descriptor.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptor: Option<OwnedFd>,
}

/// Our end of the socket. Its write half is the lifeline: the helper kills everything when that is shut down.
pub(crate) struct Channel {
    socket: UnixStream,
    outgoing: Outgoing,
    sent: usize,
    received: Vec<u8>,
    open: bool,
}

impl Channel {
    pub(crate) fn new(socket: UnixStream, outgoing: Outgoing) -> Result<Self, Failure> {
        socket.set_nonblocking(true).map_err(|error| failed(&error))?;
        Ok(Channel { socket, outgoing, sent: 0, received: Vec::new(), open: true })
    }

    /// Whether the helper's end is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The descriptor to wait for and for what, until the helper has closed its end.
    pub(crate) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags =
            if self.has_unsent() { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
        self.open.then(|| (self.socket.as_fd(), flags))
    }

    /// Moves what can be moved in both directions.
    pub(crate) fn transfer(&mut self, buffer: &mut [u8]) -> Result<(), Failure> {
        if self.has_unsent() {
            self.send()?;
        }
        match self.socket.read(buffer) {
            Ok(0) => self.open = false,
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) if is_temporary(&error) => {}
            // The helper closed its end before it had read everything.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => self.open = false,
            Err(error) => return Err(failed(&error)),
        }
        Ok(())
    }

    /// The next event that has arrived in full.
    pub(crate) fn next_event(&mut self) -> Result<Option<Event>, Failure> {
        let Some(header) = self.received.first_chunk::<HEADER>() else { return Ok(None) };
        let end = HEADER + frame::payload_length(header).map_err(|error| garbage(&error))?;
        let Some(payload) = self.received.get(HEADER..end) else { return Ok(None) };
        let event = frame::decode_payload(payload).map_err(|error| garbage(&error))?;
        self.received.drain(..end);
        Ok(Some(event))
    }

    /// Tells the helper to kill the run. What it has to say about that can still be read.
    pub(crate) fn hang_up(&mut self) {
        self.forget_unsent();
        // Fails only if the helper is gone already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    fn has_unsent(&self) -> bool {
        self.sent < self.outgoing.bytes.len()
    }

    fn send(&mut self) -> Result<(), Failure> {
        let unsent = [IoSlice::new(&self.outgoing.bytes[self.sent..])];
        let descriptor = self.outgoing.descriptor.as_ref().map(|descriptor| [descriptor.as_raw_fd()]);
        let rights = descriptor.as_ref().map(|descriptor| ControlMessage::ScmRights(descriptor));
        match sendmsg::<()>(self.socket.as_raw_fd(), &unsent, rights.as_slice(), MsgFlags::empty(), None) {
            Ok(count) => {
                self.sent += count;
                // Our copy has to go, or the command's stdin would keep a reader for ever.
                self.outgoing.descriptor = None;
                if !self.has_unsent() {
                    self.forget_unsent();
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            // The helper does not listen any more. What it said before tells why.
            Err(Errno::EPIPE | Errno::ECONNRESET) => self.forget_unsent(),
            Err(errno) => return Err(failed(&errno.into())),
        }
        Ok(())
    }

    /// Also gives the memory back: a policy can carry megabytes of files.
    fn forget_unsent(&mut self) {
        (self.outgoing, self.sent) = (Outgoing::default(), 0);
    }
}

fn failed(error: &io::Error) -> Failure {
    os("talk to the helper", "its socket", error)
}

fn garbage(error: &FrameError) -> Failure {
    let hint =
        "is it an agentkit-jail of the same version, and does it hand over before it does anything else?";
    Failure { hint: Some(hint.to_owned()), ..host("talk to the helper", format!("its answer is {error}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentkit_protocol::{Ended, EndedBy, Usage};
    use std::io::Write;

    fn pair() -> (Channel, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("socketpair");
        (Channel::new(ours, Outgoing::default()).expect("channel"), theirs)
    }

    fn event(code: i32) -> Event {
        Event::Ended(Ended {
            ended_by: EndedBy::Exit(code),
            limits_reached: Vec::new(),
            usage: Usage::default(),
            attempts: Vec::new(),
            changes: None,
            quarantined: Vec::new(),
            unchecked: Vec::new(),
            unwritten: Vec::new(),
        })
    }

    #[test]
    fn a_frame_may_come_in_single_bytes() {
        let (mut channel, mut helper) = pair();
        let bytes = frame::encode(&event(7)).expect("encode");
        let mut seen = Vec::new();
        for byte in bytes {
            assert!(seen.is_empty());
            helper.write_all(&[byte]).expect("write");
            channel.transfer(&mut [0; 16]).expect("transfer");
            seen.extend(channel.next_event().expect("no garbage"));
        }
        assert_eq!(seen, [event(7)]);
    }

    #[test]
    fn two_frames_may_come_at_once_and_then_the_end() {
        let (mut channel, mut helper) = pair();
        let bytes = [event(1), event(2)].map(|event| frame::encode(&event).expect("encode")).concat();
        helper.write_all(&bytes).expect("write");
        drop(helper);
        channel.transfer(&mut [0; 4096]).expect("transfer");
        channel.transfer(&mut [0; 4096]).expect("transfer");
        assert!(!channel.is_open() && channel.interest().is_none());
        assert_eq!(channel.next_event().expect("no garbage"), Some(event(1)));
        assert_eq!(channel.next_event().expect("no garbage"), Some(event(2)));
        assert_eq!(channel.next_event().expect("no garbage"), None);
    }

    #[test]
    fn garbage_and_oversized_announcements_are_refused() {
        let oversized = [&frame::MAGIC[..], &agentkit_protocol::VERSION.to_le_bytes(), &[0xff; 4]].concat();
        for (bytes, why) in [(&b"Traceback (most"[..], "not a frame"), (&oversized, "oversized")] {
            let (mut channel, mut helper) = pair();
            helper.write_all(bytes).expect("write");
            channel.transfer(&mut [0; 64]).expect("transfer");
            let failure = channel.next_event().expect_err("garbage");
            assert!(failure.message.contains(why), "{failure}");
        }
    }

    #[test]
    fn a_large_policy_goes_out_in_pieces_with_its_descriptor() {
        let (ours, mut theirs) = UnixStream::pair().expect("socketpair");
        let (reader, writer) = io::pipe().expect("pipe");
        let bytes = vec![7; 3 << 20];
        let outgoing = Outgoing { bytes: bytes.clone(), descriptor: Some(reader.into()) };
        let mut channel = Channel::new(ours, outgoing).expect("channel");
        let (mut got, mut buffer) = (0, vec![0; 1 << 16]);
        while channel.has_unsent() {
            channel.transfer(&mut buffer).expect("transfer");
            got += theirs.read(&mut buffer).expect("read");
        }
        channel.hang_up();
        got += std::iter::from_fn(|| theirs.read(&mut buffer).ok().filter(|count| *count > 0)).sum::<usize>();
        assert_eq!(got, bytes.len());
        // Plain reads threw the descriptor away and our copy is closed: the pipe has no reader left.
        let error = (&writer).write(b"x").expect_err("a pipe without a reader");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
