//! The jail's own network namespace: nothing but a loopback, which programs need to talk to themselves.

use super::sys;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Raises the loopback, by any socket of the namespace. Hosts that take capabilities away from user namespaces refuse it;
/// the network is then just as blocked.
pub(crate) fn raise_loopback(by: Option<&OwnedFd>) -> io::Result<()> {
    match by {
        Some(socket) => sys::raise_loopback(socket.as_fd()),
        None => {
            let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
            sys::raise_loopback(socket.as_fd())
        }
    }
}
