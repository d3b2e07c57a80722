//! Traces that attempts leave in the kernel, so that nobody has to believe what a command prints.

use super::sys::{self, Instruction};
use crate::error::{Context, Result};
use crate::validate::Plan;
use agentkit_protocol::{Attempt, Bytes};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use nix::unistd::read;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const STEP: &str = "watch";
const WRITTEN: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE.union(AddWatchFlags::IN_MODIFY);

/// Two listeners, of which one hears when the files at `paths` are opened, and the other when what could be written is
/// closed again, or the length is changed; see inotify(7). Looking at a file, or at its name, is not opening. Each is told of
/// once, so that no number of other events fills a listener's queue.
pub(crate) fn listen_for_opening(paths: &[PathBuf]) -> Result<[OwnedFd; 2]> {
    let listen = |events: AddWatchFlags| {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Inotify::init(flags).map_err(io::Error::from).context(STEP, "inotify_init1")?;
        for path in paths {
            inotify
                .add_watch(path, events | AddWatchFlags::IN_ONESHOT)
                .map_err(io::Error::from)
                .context(STEP, format_args!("inotify_add_watch {path:?}"))?;
        }
        Ok(OwnedFd::from(inotify))
    };
    Ok([listen(AddWatchFlags::IN_OPEN)?, listen(WRITTEN)?])
}

/// A raw socket that receives the first packet of every TCP connection to one of `ports` in this network namespace.
pub(crate) fn listen_for_connections(ports: &[u16]) -> Result<Option<OwnedFd>> {
    if ports.is_empty() {
        return Ok(None);
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Tcp)
        .map_err(io::Error::from)
        .context(STEP, "open a raw socket")?;
    sys::attach_packet_filter(socket.as_fd(), &connection_filter(ports))
        .context(STEP, "attach the packet filter")?;
    Ok(Some(socket))
}

/// Accepts TCP segments with SYN and without ACK to one of the ports. The packet starts with its IPv4 header.
fn connection_filter(ports: &[u16]) -> Vec<Instruction> {
    // Codes of linux/bpf_common.h.
    const LOAD_HEADER_LENGTH: u16 = 0xb1;
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF_AFTER: u16 = 0x48;
    const LOAD_BYTE_AFTER: u16 = 0x50;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const SYN: u32 = 0x02;
    const SYN_AND_ACK: u32 = 0x12;
    const ENOUGH_BYTES: u32 = 64;

    // The destination address is at a fixed place. Whatever is not asked for must not fill the socket's buffer.
    let mut filter = vec![
        (LOAD_WORD, 0, 0, 16),
        (JUMP_IF_EQUAL, 1, 0, Ipv4Addr::LOCALHOST.to_bits()),
        (RETURN, 0, 0, 0),
        (LOAD_HEADER_LENGTH, 0, 0, 0),
        (LOAD_BYTE_AFTER, 0, 0, 13),
        (AND, 0, 0, SYN_AND_ACK),
        (JUMP_IF_EQUAL, 1, 0, SYN),
        (RETURN, 0, 0, 0),
        (LOAD_HALF_AFTER, 0, 0, 2),
    ];
    for &port in ports {
        filter.extend([(JUMP_IF_EQUAL, 0, 1, port.into()), (RETURN, 0, 0, ENOUGH_BYTES)]);
    }
    filter.push((RETURN, 0, 0, 0));
    filter
}

/// The handles on all traces of one run, held by the supervisor.
#[derive(Default)]
pub(crate) struct Traces {
    connections: Option<OwnedFd>,
    /// One for openings, one for writing, if paths are watched.
    files: Vec<OwnedFd>,
}

impl Traces {
    /// Takes the handles in the order in which init sends them: the socket if ports are watched, then the listeners.
    pub(crate) fn new(plan: &Plan, mut handles: impl Iterator<Item = OwnedFd>) -> Self {
        let connections = if plan.watched_ports.is_empty() { None } else { handles.next() };
        Traces { connections, files: handles.collect() }
    }

    /// Reads every trace, in the order of the policy.
    pub(crate) fn read(&self, plan: &Plan) -> Vec<Attempt> {
        let mut heard = self.files.iter().map(heard);
        let (opened, written) = (heard.next().unwrap_or_default(), heard.next().unwrap_or_default());
        // The kernel numbers the watches of a listener from one on.
        let opened = (1_u32..).zip(&plan.watched_paths).map(|(number, path)| Attempt::Path {
            path: Bytes::from(path.as_os_str().as_bytes()),
            seen: opened.contains(&number),
            written: written.contains(&number),
        });
        let connections = self.connections.as_ref().map(connections).unwrap_or_default();
        let counted = plan.watched_ports.iter().map(|&port| Attempt::Tcp {
            port,
            count: connections
                .iter()
                .filter(|destination| **destination == (Ipv4Addr::LOCALHOST, port))
                .count() as u64,
        });
        opened.chain(counted).collect()
    }
}

/// The numbers of the watches that something was heard of. There are other events: the end of a watch is one, and that of
/// the jail's mounts.
fn heard(listener: &OwnedFd) -> Vec<u32> {
    let mut events = [0; 4096];
    let length = read(listener, &mut events).unwrap_or(0);
    // Without names, as here, an event is four numbers of four bytes: of the watch, then the mask; see inotify(7).
    let (events, _) = events.get(..length).unwrap_or_default().as_chunks::<16>();
    let heard = events.iter().filter_map(|&[n, o, p, q, a, b, c, d, ..]| {
        let mask = AddWatchFlags::from_bits_truncate(u32::from_ne_bytes([a, b, c, d]));
        mask.intersects(WRITTEN | AddWatchFlags::IN_OPEN).then_some(u32::from_ne_bytes([n, o, p, q]))
    });
    heard.collect()
}

/// Destination addresses and ports of the packets that the socket holds.
fn connections(socket: &OwnedFd) -> Vec<(Ipv4Addr, u16)> {
    let mut packet = [0; 64];
    let mut found = Vec::new();
    // Nobody sends any more: every process of the jail is dead.
    while let Ok(length) = recv(socket.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
        found.extend(destination(packet.get(..length).unwrap_or(&packet)));
    }
    found
}

fn destination(packet: &[u8]) -> Option<(Ipv4Addr, u16)> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    let port: [u8; 2] = packet.get(header..)?.get(2..4)?.try_into().ok()?;
    Some((Ipv4Addr::from(address), u16::from_be_bytes(port)))
}
