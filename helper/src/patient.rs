//! Writing to somebody who may not read: another thread waits in place of the supervisor, whose limits must go on.
//!
//! Nothing else bounds a write to a descriptor of the caller's: its flags are the caller's too, and what can be written
//! according to poll(2) somebody else may have written meanwhile, the command for one.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// What a reader gets to take the next piece at the end.
const GRACE: Duration = Duration::from_secs(2);
/// A reader that takes as much as this still reads. (A pipe is writable when it has room for it.)
const PIECE: usize = 4096;
const STACK: usize = 64 << 10;

/// Writes in the order it is told to, until a write fails.
pub(crate) struct Patient {
    /// Gone when it is finished.
    to_write: Option<Sender<Vec<u8>>>,
    /// Something for each piece that was written, or the error; closed when all are.
    written: Receiver<io::Result<()>>,
}

impl Patient {
    /// Starts the thread. The process must not fork any more.
    pub(crate) fn start(mut file: File) -> io::Result<Self> {
        let (to_write, bytes) = channel::<Vec<u8>>();
        let (tell, written) = channel();
        Builder::new().stack_size(STACK).spawn(move || {
            for bytes in bytes {
                for piece in bytes.chunks(PIECE) {
                    let result = file.write_all(piece);
                    let failed = result.is_err();
                    if tell.send(result).is_err() || failed {
                        return;
                    }
                }
            }
        })?;
        Ok(Patient { to_write: Some(to_write), written })
    }

    /// To be written when there is time. Whether it is, [`Patient::finish`] tells.
    pub(crate) fn write(&self, bytes: Vec<u8>) {
        if let Some(to_write) = &self.to_write {
            // Fails after an error, which is the one to tell.
            drop(to_write.send(bytes));
        }
    }

    /// Waits until everything is written, but not for a reader that takes nothing: it loses the rest.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.to_write = None;
        loop {
            match self.written.recv_timeout(GRACE) {
                Ok(result) => result?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    let message = format!("nothing was read for {} s", GRACE.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};
    use std::os::fd::OwnedFd;

    #[test]
    fn more_than_a_pipe_holds_comes_in_order() {
        let (mut reader, writer) = pipe().unwrap();
        let mut patient = Patient::start(File::from(OwnedFd::from(writer))).unwrap();
        patient.write(vec![1; 100_000]);
        patient.write(vec![2; 100_000]);
        let read = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        patient.finish().unwrap();
        let all = read.join().unwrap().unwrap();
        assert!(all.len() == 200_000 && all.is_sorted());
    }

    #[test]
    fn a_reader_that_is_gone_or_takes_nothing_loses_the_rest() {
        let kind = |keep: bool| {
            let (reader, writer) = pipe().unwrap();
            let reader = keep.then_some(reader);
            let mut patient = Patient::start(File::from(OwnedFd::from(writer))).unwrap();
            patient.write(vec![0; 100_000]);
            let result = patient.finish();
            drop(reader);
            result.unwrap_err().kind()
        };
        assert_eq!(kind(false), io::ErrorKind::BrokenPipe);
        assert_eq!(kind(true), io::ErrorKind::TimedOut);
    }
}
