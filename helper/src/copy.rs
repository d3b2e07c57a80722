//! Copies between what the command and the caller hold.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Returns how much was read beyond what may pass. By a buffer: `std::io::copy` would splice, which keeps the pipe locked
/// for as long as the caller takes nothing. A command that writes to it then waits for the lock, and not even SIGKILL ends
/// that.
pub(crate) fn copy(from: &mut File, to: &mut File, most: u64) -> io::Result<u64> {
    let mut buffer = [0; 16 << 10];
    let (mut left, mut cut) = (most, 0_u64);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(cut),
            Ok(length) => {
                let passes = length.min(usize::try_from(left).unwrap_or(usize::MAX));
                write_all(to, buffer.get(..passes).ok_or(io::ErrorKind::InvalidData)?)?;
                left = left.saturating_sub(passes as u64);
                cut = cut.saturating_add(length.saturating_sub(passes) as u64);
            }
            // A terminal whose other end is gone has an error in place of an end.
            Err(error) => match wait_if_temporary(error, from.as_fd(), PollFlags::POLLIN) {
                Ok(()) => {}
                Err(_) => return Ok(cut),
            },
        }
    }
}

fn write_all(to: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = bytes.get(length..).ok_or(io::ErrorKind::InvalidData)?,
            Err(error) => wait_if_temporary(error, to.as_fd(), PollFlags::POLLOUT)?,
        }
    }
    Ok(())
}

/// Whoever else uses the caller's stream may have made it non-blocking.
fn wait_if_temporary(error: io::Error, stream: BorrowedFd, event: PollFlags) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::WouldBlock => {
            poll(&mut [PollFd::new(stream, event)], PollTimeout::NONE)?;
            Ok(())
        }
        _ => Err(error),
    }
}
