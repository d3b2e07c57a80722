//! The client's socket on standard input, with the descriptor that may ride on its first bytes.

use crate::platform;
#[cfg(not(target_os = "linux"))]
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use std::io::{self, IoSliceMut, Read};
use std::os::fd::OwnedFd;

#[cfg(target_os = "linux")]
const CLOSE_ON_EXEC: MsgFlags = MsgFlags::MSG_CMSG_CLOEXEC;
/// macOS has no flag that does it on the way.
#[cfg(not(target_os = "linux"))]
const CLOSE_ON_EXEC: MsgFlags = MsgFlags::empty();

/// Reads bytes and keeps the first descriptor that arrives with them.
#[derive(Default)]
pub(crate) struct ClientSocket {
    descriptor: Option<OwnedFd>,
}

impl ClientSocket {
    /// What the client passed as the command's standard input.
    pub(crate) fn into_descriptor(self) -> Option<OwnedFd> {
        self.descriptor
    }
}

impl Read for ClientSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = nix::cmsg_space!([i32; 1]);
        let mut parts = [IoSliceMut::new(buffer)];
        // Not buffered beyond what is asked for: whatever follows the policy belongs to the lifeline.
        let message = recvmsg::<()>(0, &mut parts, Some(&mut space), CLOSE_ON_EXEC)?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = control {
                for descriptor in numbers.into_iter().map(platform::adopt) {
                    // In time: nothing is forked yet.
                    #[cfg(not(target_os = "linux"))]
                    fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
                    self.descriptor.get_or_insert(descriptor);
                }
            }
        }
        Ok(message.bytes)
    }
}
