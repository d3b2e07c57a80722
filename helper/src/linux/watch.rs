//! Traces that attempts leave in the kernel, so that nobody has to believe what a command prints.

use super::sys::{self, Instruction};
use crate::error::{Context, Result};
use crate::validate::Plan;
use agentkit_protocol::{Attempt, Bytes};
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use nix::sys::stat::{Mode, fstat, utimensat};
use nix::sys::time::TimeSpec;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

const STEP: &str = "watch";
/// What a planted link says: nothing is there, and the attempt fails as on a path that was never granted.
const NOWHERE: &str = "/nonexistent";
/// Where a link's access time starts, in seconds since 1970. The kernel moves it forward when the link is followed,
/// at once if it lies before the change time (`relatime`, see mount(8)).
const NEVER_FOLLOWED: i64 = 1;

/// A planted link.
pub(crate) struct Planted {
    /// Refers to the link itself, whatever becomes of its name.
    pub(crate) link: OwnedFd,
    /// Its change time, in seconds and nanoseconds.
    pub(crate) changed: (i64, i64),
}

/// Plants a dangling link.
pub(crate) fn plant(path: &Path) -> Result<Planted> {
    symlink(NOWHERE, path).context(STEP, format_args!("plant {path:?}"))?;
    let never = TimeSpec::new(NEVER_FOLLOWED, 0);
    utimensat(
        nix::fcntl::AT_FDCWD,
        path,
        &never,
        &TimeSpec::UTIME_NOW,
        nix::sys::stat::UtimensatFlags::NoFollowSymlink,
    )
    .map_err(io::Error::from)
    .context(STEP, format_args!("set the times of {path:?}"))?;
    let link = open(path, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .context(STEP, format_args!("open {path:?}"))?;
    let stat = fstat(&link).map_err(io::Error::from).context(STEP, format_args!("stat {path:?}"))?;
    Ok(Planted { link, changed: (stat.st_ctime, stat.st_ctime_nsec) })
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
    const LOAD_HALF_AFTER: u16 = 0x48;
    const LOAD_BYTE_AFTER: u16 = 0x50;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const SYN: u32 = 0x02;
    const SYN_AND_ACK: u32 = 0x12;
    const ENOUGH_BYTES: u32 = 64;

    let mut filter = vec![
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
    planted: Vec<Planted>,
}

impl Traces {
    /// Takes the handles in the order in which init sends them: the socket if ports are watched, then the links, whose
    /// change times are `changed`.
    pub(crate) fn new(
        plan: &Plan,
        mut handles: impl Iterator<Item = OwnedFd>,
        changed: Vec<(i64, i64)>,
    ) -> Self {
        let connections = if plan.watched_ports.is_empty() { None } else { handles.next() };
        let planted = handles.zip(changed).map(|(link, changed)| Planted { link, changed }).collect();
        Traces { connections, planted }
    }

    /// Reads every trace, in the order of the policy.
    pub(crate) fn read(&self, plan: &Plan) -> Vec<Attempt> {
        let seen = plan.watched_paths.iter().zip(&self.planted).map(|(path, planted)| Attempt::Path {
            path: Bytes::from(path.as_os_str().as_bytes()),
            seen: planted.was_followed(),
        });
        let connections = self.connections.as_ref().map(connections).unwrap_or_default();
        let counted = plan.watched_ports.iter().map(|&port| Attempt::Tcp {
            port,
            count: connections
                .iter()
                .filter(|destination| **destination == (Ipv4Addr::LOCALHOST, port))
                .count() as u64,
        });
        seen.chain(counted).collect()
    }
}

impl Planted {
    /// Whether some process resolved the path. Setting the times by hand moves the change time as well and does not
    /// count.
    fn was_followed(&self) -> bool {
        fstat(&self.link).is_ok_and(|stat| {
            stat.st_atime != NEVER_FOLLOWED && (stat.st_ctime, stat.st_ctime_nsec) == self.changed
        })
    }
}

/// Destination addresses and ports of the packets that the socket holds.
fn connections(socket: &OwnedFd) -> Vec<(Ipv4Addr, u16)> {
    let mut packet = [0; 64];
    let mut found = Vec::new();
    // Nobody sends any more: every process of the jail is dead.
    while let Ok(length) = recv(socket.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
        found.extend(destination(&packet[..length.min(packet.len())]));
    }
    found
}

fn destination(packet: &[u8]) -> Option<(Ipv4Addr, u16)> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    let port: [u8; 2] = packet.get(header + 2..header + 4)?.try_into().ok()?;
    Some((Ipv4Addr::from(address), u16::from_be_bytes(port)))
}
