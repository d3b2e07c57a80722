//! Everything that init and the supervisor say to each other: one datagram a message, descriptors with the first.

use super::limits;
use super::mount_table::MountTable;
use super::read_back::Namespaces;
use super::reap::End;
use super::sys;
use crate::error::{Context, Result};
use agentkit_protocol::{Bytes, Failure, ReadBack, frame};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recv, recvmsg, sendmsg,
    socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

const STEP: &str = "message";
/// The jail's `/proc`, a private directory, a sock_diag socket, the work dir or two layers of an overlay, a terminal, a packet
/// socket, and two listeners for watched paths.
pub(crate) const MOST_DESCRIPTORS: usize = 9;

/// What init says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Init is there, which its supervisor has not started itself. Comes with its pidfd.
    #[cfg(feature = "bubblewrap")]
    Ready,
    /// Everything is in force and the command was executed. Comes with descriptors: `/proc`, a private
    /// directory, the socket that tells about sockets if `read_back` has it, the work dir if it is the host's, the
    /// terminal's outer end if the policy asks for one, the upper layer and the host directory if the work dir is an
    /// overlay, then the traces.
    Started {
        /// What the kernel says is in force.
        read_back: ReadBack,
    },
    /// From here on some calls wait for an answer. Comes with the descriptor to give it on.
    Asks,
    /// The command has ended.
    Ended(End),
    /// Of what it left behind nothing is alive any more; only where init has to see to that.
    Gone,
    /// The command was not started.
    NotStarted(Failure),
    /// The command was started, and then init could not go on.
    Broke(Failure),
}

/// What the supervisor says, once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outside {
    /// The launcher's, which the jail's must differ from.
    pub(crate) namespaces: Namespaces,
    /// Where processes of the host can be seen.
    pub(crate) processes: Vec<Bytes>,
    /// Whether `/proc` hides those that this process may not trace.
    pub(crate) hidden: bool,
}

impl Outside {
    pub(crate) fn look() -> Result<Self> {
        let mounts = MountTable::of_this_process(STEP)?;
        let processes = mounts.of_processes().map(|path| Bytes::from(path.as_os_str().as_bytes())).collect();
        Ok(Outside { namespaces: Namespaces::of_this_process()?, processes, hidden: mounts.hide_processes() })
    }
}

/// What the supervisor says later on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// What has not been started is not to be. Where killing init does not end the rest, that is to end too.
    End,
}

/// The supervisor's end and init's.
pub(crate) fn channel() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(io::Error::from)
        .context(STEP, "socketpair")
}

/// Sends one message.
pub(crate) fn send(
    channel: BorrowedFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd],
) -> io::Result<()> {
    let bytes = frame::encode(message).map_err(io::Error::other)?;
    let numbers: Vec<i32> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let control = if numbers.is_empty() { &[][..] } else { &rights[..] };
    let parts = [IoSlice::new(&bytes)];
    let send = || sendmsg::<()>(channel.as_raw_fd(), &parts, control, MsgFlags::MSG_NOSIGNAL, None);
    match send() {
        Err(Errno::ETOOMANYREFS) => limits::with_all_files(send)?,
        sent => sent?,
    };
    Ok(())
}

/// Whether there is something to receive, or the other end is closed.
pub(crate) fn is_waiting(channel: BorrowedFd) -> io::Result<bool> {
    let mut ends = [PollFd::new(channel, PollFlags::POLLIN)];
    poll(&mut ends, PollTimeout::ZERO)?;
    Ok(ends.iter().any(|end| end.any().unwrap_or(true)))
}

/// Receives one message; `None` when the other end is closed.
pub(crate) fn receive<M: DeserializeOwned>(channel: BorrowedFd) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    match receive_now(channel) {
        // The other end was closed without having read everything. That is told once, and may be told before what it has
        // said itself, to whichever call comes next.
        Err(error) if error.raw_os_error() == Some(libc::ECONNRESET) => receive_now(channel),
        received => received,
    }
}

fn receive_now<M: DeserializeOwned>(channel: BorrowedFd) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    // A buffer for the largest would have to be cleared every time.
    let length = recv(channel.as_raw_fd(), &mut [], MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC)?;
    let mut bytes = vec![0; length];
    let mut space = nix::cmsg_space!([i32; MOST_DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received =
        recvmsg::<()>(channel.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    // The kernel leaves out those that this process has no room for.
    if received.flags.contains(MsgFlags::MSG_CTRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let mut descriptors = Vec::new();
    for control in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            descriptors.extend(numbers.into_iter().map(sys::adopt));
        }
    }
    let length = received.bytes;
    bytes.truncate(length);
    let message = frame::read(bytes.as_slice()).map_err(io::Error::other)?;
    Ok(message.map(|message| (message, descriptors)))
}

#[cfg(test)]
mod tests {
    use super::{channel, receive, send};
    use std::os::fd::AsFd;

    #[test]
    fn the_last_word_is_heard_whenever_the_channel_is_closed() {
        for _ in 0..2_000 {
            let (here, there) = channel().unwrap();
            send(here.as_fd(), &"never read", &[]).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    send(there.as_fd(), &"the last word", &[]).unwrap();
                    drop(there);
                });
                let (word, _) = receive::<String>(here.as_fd()).unwrap().unwrap();
                assert_eq!(word, "the last word");
            });
            assert!(receive::<String>(here.as_fd()).unwrap().is_none());
        }
    }
}
