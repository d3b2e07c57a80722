//! The memory of sockets: what is sent and not yet read belongs to no process.
//!
//! The kernel tells by sock_diag(7), to everybody, about the sockets of the network namespace that the asking socket was
//! made in.

use super::{deadline, pace, proc_files};
use crate::error::{Context, Result};
use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

const STEP: &str = "sockets";
/// What a socket costs the kernel without anything in it, with its file: about.
const EMPTY: u64 = 2 << 10;
/// A message of one byte costs the kernel this much.
const SMALLEST_MESSAGE: u64 = 768;
/// So many datagrams wait at a socket at most: one more than `net.unix.max_dgram_qlen`, which no jail can change.
const DATAGRAMS: u64 = 11;
/// The kernel makes no datagram of a dump longer than the room that it is given, if that is two pages at least.
const LONGEST: usize = 8 << 10;
/// Values of linux/sock_diag.h, linux/unix_diag.h and linux/inet_diag.h.
const BY_FAMILY: u16 = 20;
const SHOW_NAME_PEER_QUEUES_AND_MEMORY: u32 = 0x01 | 0x04 | 0x10 | 0x20;
const UNIX_NAME: u16 = 0;
const UNIX_PEER: u16 = 2;
const UNIX_QUEUES: u16 = 4;
const UNIX_MEMORY: u16 = 5;
const INET_MEMORY: u16 = 7;
/// How long the fixed part of an answer is.
const UNIX_ANSWER: usize = 16;
const INET_ANSWER: usize = 72;

/// In the jail, before it gives up its view of the kernel: the socket to ask by. `None` where the kernel has no
/// sock_diag.
pub(crate) fn open() -> Result<Option<OwnedFd>> {
    let protocol = SockProtocol::NetlinkSockDiag;
    match socket(AddressFamily::Netlink, SockType::Datagram, SockFlag::SOCK_CLOEXEC, protocol) {
        Ok(socket) if dump(&socket, &unix_request(), |_| ()).is_ok() => Ok(Some(socket)),
        Ok(_) | Err(nix::errno::Errno::EPROTONOSUPPORT) => Ok(None),
        Err(error) => Err(io::Error::from(error)).context(STEP, "open a sock_diag socket"),
    }
}

/// Asks about the sockets of the jail.
pub(crate) struct Sockets {
    diag: OwnedFd,
    largest_buffer: u64,
    internet: u64,
    ask_again: Instant,
}

impl Sockets {
    pub(crate) fn new(diag: OwnedFd) -> Self {
        let largest = proc_files::read("/proc/sys/net/core/wmem_max").ok();
        // Twice what a program asks for is what the kernel gives, see socket(7).
        let largest_buffer =
            largest.and_then(|text| text.trim().parse().ok()).unwrap_or(212_992_u64).saturating_mul(2);
        Sockets { diag, largest_buffer, internet: 0, ask_again: Instant::now() }
    }

    /// Bytes held in queues, if there can be so many that they matter: `spare` is how much of the limit is left.
    pub(crate) fn memory(&mut self, spare: u64) -> u64 {
        let unix = self.unix();
        unix.saturating_add(self.internet(spare.saturating_sub(unix)))
    }

    fn unix(&self) -> u64 {
        let mut total = 0_u64;
        let count = |answer: &[u8]| {
            total = total.saturating_add(unix_memory(answer, self.largest_buffer));
        };
        drop(dump(&self.diag, &unix_request(), count));
        total
    }

    /// To find them the kernel goes through the host's whole table, which takes milliseconds; so first the cheap
    /// question whether all of the host together have as much.
    fn internet(&mut self, spare: u64) -> u64 {
        if hosts_internet_memory().is_some_and(|all| all <= spare) {
            self.internet = 0;
        } else if Instant::now() >= self.ask_again {
            let began = pace::time_spent();
            self.internet = self.ask_about_internet();
            self.ask_again = deadline::after(Instant::now(), pace::rest_after(began));
        }
        self.internet
    }

    fn ask_about_internet(&self) -> u64 {
        let mut total = 0_u64;
        for family in [libc::AF_INET, libc::AF_INET6] {
            for protocol in [libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
                let request = inet_request(family as u8, protocol as u8);
                let count = |answer: &[u8]| total = total.saturating_add(inet_memory(answer));
                // A protocol that this kernel does not have needs no memory.
                drop(dump(&self.diag, &request, count));
            }
        }
        total
    }
}

/// What all TCP and UDP sockets of the host hold. `/proc/net/sockstat` has it for whichever namespace.
fn hosts_internet_memory() -> Option<u64> {
    parse_sockstat(&proc_files::read("/proc/self/net/sockstat").ok()?)
}

/// The numbers after `mem`, in pages.
fn parse_sockstat(text: &str) -> Option<u64> {
    let pages = |line: &str| -> Option<u64> {
        let mut words = line.split_ascii_whitespace();
        words.find(|word| *word == "mem")?;
        words.next()?.parse().ok()
    };
    let mut found = text.lines().filter_map(pages).peekable();
    found.peek()?;
    Some(found.fold(0_u64, u64::saturating_add).saturating_mul(4096))
}

/// `struct unix_diag_req`: every state, every inode.
fn unix_request() -> Vec<u8> {
    let words = [u32::MAX, 0, SHOW_NAME_PEER_QUEUES_AND_MEMORY, u32::MAX, u32::MAX];
    [libc::AF_UNIX as u8, 0, 0, 0]
        .into_iter()
        .chain(words.iter().flat_map(|word| word.to_ne_bytes()))
        .collect()
}

/// `struct inet_diag_req_v2`: every state, every address.
fn inet_request(family: u8, protocol: u8) -> Vec<u8> {
    let mut request = vec![family, protocol, 1 << (INET_MEMORY - 1), 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.extend([0; 48]);
    request
}

/// Sends a request and takes every answer to it.
fn dump(diag: &OwnedFd, request: &[u8], mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let length = (request.len() as u32).saturating_add(16);
    let header =
        [&length.to_ne_bytes()[..], &BY_FAMILY.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8]].concat();
    send(diag.as_raw_fd(), &[&header, request].concat(), MsgFlags::empty())?;
    let mut buffer = vec![0; LONGEST];
    loop {
        let length = recv(diag.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT)?;
        if !take_messages(buffer.get(..length).unwrap_or_default(), &mut take)? {
            return Ok(());
        }
    }
}

/// Takes the messages of one datagram; false after the last one of the dump. See netlink(7).
pub(crate) fn take_messages(mut bytes: &[u8], take: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    while let Some(length) = number(bytes, 0) {
        let kind = half(bytes, 4).unwrap_or(0);
        let Some(body) = bytes.get(16..length as usize) else { break };
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(false),
            libc::NLMSG_ERROR => {
                let errno = number(body, 0).unwrap_or(0) as i32;
                return Err(io::Error::from_raw_os_error(errno.wrapping_neg()));
            }
            _ => take(body),
        }
        bytes = bytes.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// What a unix socket has sent and nobody has read. What a closed one has sent is charged to nobody, but waits at its
/// peer, where only the bytes show: in the worst case each is a message of its own.
///
/// Of datagrams only the first one shows, and who has sent them can be closed, or be another than the peer of now. So
/// they count with the most that there can be: from many where anybody can send, since it has a name, and else from one.
pub(crate) fn unix_memory(answer: &[u8], largest_buffer: u64) -> u64 {
    let attributes = answer.get(UNIX_ANSWER..).unwrap_or_default();
    let sent = attribute(attributes, UNIX_MEMORY).map_or(0, memory_of);
    let waiting = attribute(attributes, UNIX_QUEUES).and_then(|value| number(value, 0)).unwrap_or(0);
    let peer_is_gone = attribute(attributes, UNIX_PEER).and_then(|value| number(value, 0)) == Some(0);
    let orphaned = if peer_is_gone { (u64::from(waiting) * SMALLEST_MESSAGE).min(largest_buffer) } else { 0 };
    let has_name = attribute(attributes, UNIX_NAME).is_some();
    let unseen = match answer.get(1).map(|kind| i32::from(*kind)) {
        Some(libc::SOCK_DGRAM) if has_name => largest_buffer.saturating_mul(DATAGRAMS),
        Some(libc::SOCK_DGRAM) => largest_buffer,
        _ => orphaned,
    };
    EMPTY.saturating_add(sent).saturating_add(unseen)
}

pub(crate) fn inet_memory(answer: &[u8]) -> u64 {
    let attributes = answer.get(INET_ANSWER..).unwrap_or_default();
    attribute(attributes, INET_MEMORY).map_or(0, memory_of).saturating_add(EMPTY)
}

/// Of `SK_MEMINFO_*`: received, sent, reserved ahead, queued for sending, options, backlog. A packet that is sent and not
/// yet acknowledged can be in two of them.
fn memory_of(value: &[u8]) -> u64 {
    // The first, third, fifth to eighth number of four bytes.
    [0, 8, 16, 20, 24, 28].into_iter().filter_map(|at| number(value, at)).map(u64::from).sum()
}

/// The value of a routing attribute: each begins with its length and its type and is padded to four bytes.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (length, kind) = (usize::from(half(bytes, 0)?), half(bytes, 2)?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_sent_and_not_read_is_counted() {
        let Some(diag) = open().unwrap() else { return };
        let sockets = Sockets::new(diag);
        let before = sockets.unix();
        // Enough to be told from what other programs of this host do meanwhile.
        let pairs: Vec<_> = (0..64).map(|_| UnixStream::pair().unwrap()).collect();
        for (one, _other) in &pairs {
            (&*one).write_all(&[0; 100 << 10]).unwrap();
        }
        assert!(sockets.unix() >= before / 2 + 64 * (100 << 10));
    }

    #[test]
    fn the_hosts_memory_is_the_sum_of_all_protocols() {
        let text =
            "sockets: used 9\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 3\nUDP: inuse 0 mem 2\nRAW: inuse 0\n";
        assert_eq!(parse_sockstat(text), Some(5 * 4096));
        assert_eq!(parse_sockstat("sockets: used 9\n"), None);
        assert!(hosts_internet_memory().is_some());
    }

    #[test]
    fn a_closed_sender_counts_as_the_worst_it_can_have_sent() {
        let attribute = |kind: u16, words: &[u32]| {
            let value: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            [&(4 + value.len() as u16).to_ne_bytes()[..], &kind.to_ne_bytes(), &value].concat()
        };
        let answer = |peer: u32| {
            let queues = attribute(UNIX_QUEUES, &[10, 0]);
            [vec![0; UNIX_ANSWER], attribute(UNIX_PEER, &[peer]), queues].concat()
        };
        assert_eq!(unix_memory(&answer(7), 1 << 20), EMPTY);
        assert_eq!(unix_memory(&answer(0), 1 << 20), EMPTY + 10 * SMALLEST_MESSAGE);
        assert_eq!(unix_memory(&answer(0), 1 << 10), EMPTY + 1024);
    }

    #[test]
    fn datagrams_count_as_the_most_there_can_be() {
        let mut answer = vec![0; UNIX_ANSWER];
        answer[1] = libc::SOCK_DGRAM as u8;
        assert_eq!(unix_memory(&answer, 1 << 20), EMPTY + (1 << 20));
        answer.extend([6_u16, UNIX_NAME].iter().flat_map(|half| half.to_ne_bytes()));
        answer.extend(*b"\0x\0\0");
        assert_eq!(unix_memory(&answer, 1 << 20), EMPTY + (11 << 20));
    }

    proptest! {
        #[test]
        fn no_answer_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(take_messages(&bytes, &mut |_: &[u8]| ()));
            unix_memory(&bytes, 1 << 20);
            inet_memory(&bytes);
        }
    }
}
