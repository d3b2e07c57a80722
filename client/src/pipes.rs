//! The command's three streams, moved without ever blocking.

use crate::error::os;
use crate::output::{Collector, Output};
use agentkit_protocol::Failure;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Our end of stdout or stderr.
pub(crate) struct Drain {
    pipe: Option<File>,
    collector: Collector,
}

impl Drain {
    pub(crate) fn new(pipe: OwnedFd, cap: usize) -> Result<Self, Failure> {
        Ok(Drain { pipe: Some(nonblocking(pipe)?), collector: Collector::new(cap) })
    }

    /// The descriptor to wait for, until the stream has ended.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(File::as_fd)
    }

    /// Takes in what is there, at most one buffer full.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<(), Failure> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        match pipe.read(buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) => self.collector.push(&buffer[..count]),
            Err(error) if is_temporary(&error) => {}
            Err(error) => return Err(os("read the output", "a pipe", &error)),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Output {
        self.collector.finish()
    }
}

/// Our end of stdin, and what is to go through it.
pub(crate) struct Feed {
    pipe: File,
    bytes: Vec<u8>,
    written: usize,
}

impl Feed {
    /// A pipe that will carry `bytes`, and the end to read them from.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<(Self, OwnedFd), Failure> {
        let (reader, writer) = io::pipe().map_err(|error| os("write the input", "pipe", &error))?;
        Ok((Feed { pipe: nonblocking(writer.into())?, bytes, written: 0 }, reader.into()))
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Writes what fits. False when nothing more is to be written: all is written, or nobody reads any more.
    pub(crate) fn write(&mut self) -> Result<bool, Failure> {
        match self.pipe.write(&self.bytes[self.written..]) {
            Ok(count) => self.written += count,
            Err(error) if is_temporary(&error) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(false),
            Err(error) => return Err(os("write the input", "a pipe", &error)),
        }
        Ok(self.written < self.bytes.len())
    }
}

/// Whether a call only has to be made again later.
pub(crate) fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The two ends of a pipe are separate in this: the command's end goes on blocking.
fn nonblocking(pipe: OwnedFd) -> Result<File, Failure> {
    fcntl(&pipe, FcntlArg::F_GETFL)
        .map(|flags| OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK)
        .and_then(|flags| fcntl(&pipe, FcntlArg::F_SETFL(flags)))
        .map_err(|errno| os("prepare the streams", "fcntl on a pipe", &errno.into()))?;
    Ok(File::from(pipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_takes_what_is_there_and_sees_the_end() {
        let (reader, mut writer) = io::pipe().expect("pipe");
        let mut drain = Drain::new(reader.into(), 1024).expect("drain");
        let mut buffer = [0; 4];
        drain.read(&mut buffer).expect("an empty pipe is no error");
        writer.write_all(b"hello").expect("write");
        drain.read(&mut buffer).expect("read");
        drain.read(&mut buffer).expect("read");
        drop(writer);
        assert!(drain.descriptor().is_some());
        drain.read(&mut buffer).expect("read");
        assert!(drain.descriptor().is_none());
        assert_eq!(drain.finish().bytes(), b"hello");
    }

    #[test]
    fn a_feed_waits_for_a_slow_reader() {
        let bytes: Vec<u8> = (0..300_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let (mut feed, reader) = Feed::new(bytes.clone()).expect("pipe");
        assert!(feed.write().expect("write"), "a pipe does not hold 300 kB");
        assert!(feed.write().expect("a full pipe is no error"));
        let mut reader = File::from(reader);
        let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
        while feed.write().expect("write") {
            let count = reader.read(&mut buffer).expect("read");
            got.extend_from_slice(&buffer[..count]);
        }
        drop(feed);
        reader.read_to_end(&mut got).expect("read");
        assert_eq!(got, bytes);
    }

    #[test]
    fn a_feed_without_a_reader_is_done() {
        let (mut feed, reader) = Feed::new(vec![0; 100]).expect("pipe");
        drop(reader);
        assert!(!feed.write().expect("nobody reads: no error"));
    }
}
