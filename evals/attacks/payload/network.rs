//! Reaching a network or a socket of the host.
//!
//! An address is written `KIND:REST`: `inet:PORT`, `inet6:PORT`, `mapped:PORT`, `unix:PATH`, `abstract:NAME`.

use crate::nr;
use crate::sys::{call, uring};
use crate::{Named, Outcome};
use std::ffi::{OsStr, OsString, c_long};
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

pub const ATTACKS: &[Named] = &[
    ("tcp", tcp),
    ("connect", connect),
    ("connect_with_high_bits", connect_with_high_bits),
    ("connect_fast", connect_fast),
    ("connect_by_ring", connect_by_ring),
    ("send", send),
    ("send_from_pair", send_from_pair),
    ("look_up", look_up),
    ("list_links", list_links),
    ("list_sockets", list_sockets),
    ("send_by_netlink", send_by_netlink),
    ("forge_datagram", forge_datagram),
    ("forge_refusal", forge_refusal),
    ("sniff", sniff),
    ("hold_vsock_port", hold_vsock_port),
    ("kernel_crypto", kernel_crypto),
    ("listen", listen),
    ("listen_abstract", listen_abstract),
];

const UNIX: usize = 1;
const INET: usize = 2;
const INET6: usize = 10;
const NETLINK: usize = 16;
const PACKET: usize = 17;
const ALG: usize = 38;
const VSOCK: usize = 40;

const STREAM: usize = 1;
const DATAGRAM: usize = 2;
const RAW: usize = 3;
const SEQPACKET: usize = 5;

const DONT_WAIT: usize = 0x40;
const FAST_OPEN: usize = 0x2000_0000;

/// What waits for the host to notice waits so long.
const PATIENCE: Duration = Duration::from_millis(600);

/// Connects to the port of the first argument, on the host's loopback or at the address of the second.
fn tcp(arguments: &[OsString]) -> Outcome {
    const LONGEST: Duration = Duration::from_secs(2);
    let host = arguments.get(1).map_or(Ipv4Addr::LOCALHOST, |text| text.to_string_lossy().parse().expect("an address"));
    TcpStream::connect_timeout(&(host, number(arguments, 0)).into(), LONGEST).map(drop)
}

/// Connects a stream to the address of the first argument, by the protocol of the second.
fn connect(arguments: &[OsString]) -> Outcome {
    let (family, address) = address(&arguments[0]);
    let socket = socket(family, STREAM, number::<usize>(arguments, 1))?;
    connect_socket(socket, &address)
}

/// The kernel takes the arguments of socket() as `int`: a filter that compares 64 bits may let these pass.
fn connect_with_high_bits(arguments: &[OsString]) -> Outcome {
    const HIGH: usize = 0xdead_beef << 32;
    let (family, address) = address(&arguments[0]);
    let socket = socket(HIGH | family, HIGH | STREAM, HIGH)?;
    connect_socket(socket, &address)
}

/// Connects by sending: connect() is never called.
fn connect_fast(arguments: &[OsString]) -> Outcome {
    let (family, address) = address(&arguments[0]);
    let socket = socket(family, STREAM, 0)?;
    send_on(socket, b"attack", FAST_OPEN, &address)
}

/// Sends a datagram to the address of the first argument: the text of the second.
fn send(arguments: &[OsString]) -> Outcome {
    let (family, address) = address(&arguments[0]);
    send_on(socket(family, DATAGRAM, 0)?, arguments[1].as_bytes(), 0, &address)
}

/// The same from a socket that no call of socket() made, and that is connected elsewhere.
fn send_from_pair(arguments: &[OsString]) -> Outcome {
    let mut pair = [0_i32; 2];
    call(nr::SOCKETPAIR, [UNIX, DATAGRAM, 0, pair.as_mut_ptr() as usize, 0, 0])?;
    let (_, address) = address(&arguments[0]);
    send_on(pair[0] as usize, arguments[1].as_bytes(), 0, &address)
}

/// Asks the resolver at the port of the first argument for the name of the second: the question carries the secret.
fn look_up(arguments: &[OsString]) -> Outcome {
    // Number 1, a standard question with recursion, one question, nothing else.
    let mut question = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in arguments[1].as_bytes().split(|byte| *byte == b'.') {
        question.push(label.len() as u8);
        question.extend(label);
    }
    // The end of the name; type TXT, class IN.
    question.extend([0, 0, 16, 0, 1]);
    send_on(socket(INET, DATAGRAM, 0)?, &question, 0, &inet(number(arguments, 0)))
}

/// Prints what the kernel tells of all network interfaces.
fn list_links(_: &[OsString]) -> Outcome {
    const GET_LINK: u16 = 18;
    print_dump(0, GET_LINK, &[0; 16])
}

/// Prints what the kernel tells of all TCP sockets over IPv4.
fn list_sockets(_: &[OsString]) -> Outcome {
    const BY_FAMILY: u16 = 20;
    const SOCKET_DIAGNOSIS: usize = 4;
    let mut request = [0; 56];
    // Family, protocol, and below the mask of all states.
    request[..2].copy_from_slice(&[INET as u8, 6]);
    request[4..8].fill(0xff);
    print_dump(SOCKET_DIAGNOSIS, BY_FAMILY, &request)
}

/// Asks the kernel by netlink for a list, and prints it as hexadecimal digits.
fn print_dump(protocol: usize, kind: u16, request: &[u8]) -> Outcome {
    const REQUEST_AND_DUMP: u16 = 0x301;
    let socket = socket(NETLINK, RAW, protocol)?;
    let mut message = (16 + request.len() as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST_AND_DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(request);
    send_on(socket, &message, 0, &netlink(0))?;
    // The kernel answers within the calls: where there is nothing more, there was no more.
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = receive(socket, &mut buffer) {
        let digits: String = buffer[..length].iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{digits}");
    }
    Ok(())
}

/// Sends the text of the second argument to the process at the netlink port of the first.
fn send_by_netlink(arguments: &[OsString]) -> Outcome {
    const BETWEEN_USERS: usize = 2;
    let socket = socket(NETLINK, DATAGRAM, BETWEEN_USERS)?;
    send_on(socket, arguments[1].as_bytes(), 0, &netlink(number(arguments, 0)))
}

/// Sends the text of the second argument to the port of the first as if it came from a resolver's port.
fn forge_datagram(arguments: &[OsString]) -> Outcome {
    const UDP: usize = 17;
    let text = arguments[1].as_bytes();
    let mut datagram = udp_header(53, number(arguments, 0), text.len()).to_vec();
    datagram.extend(text);
    send_on(socket(INET, RAW, UDP)?, &datagram, 0, &inet(0))
}

/// Tells the host that what it sent from the port of the first argument to that of the second was refused.
fn forge_refusal(arguments: &[OsString]) -> Outcome {
    const ICMP: usize = 1;
    // Port unreachable; the check sum comes later.
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    // The header of the datagram that is said to be refused.
    message.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    message.extend(udp_header(number(arguments, 0), number(arguments, 1), 0));
    let sum = check_sum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    send_on(socket(INET, RAW, ICMP)?, &message, 0, &inet(0))
}

/// Without a check sum, which IPv4 allows.
fn udp_header(from: u16, to: u16, length: usize) -> [u8; 8] {
    let [[a, b], [c, d], [e, f]] = [from, to, 8 + length as u16].map(u16::to_be_bytes);
    [a, b, c, d, e, f, 0, 0]
}

/// RFC 1071, of an even number of bytes.
fn check_sum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Listens to all traffic of the machine until something secret passes, and prints that.
fn sniff(_: &[OsString]) -> Outcome {
    const EVERYTHING: u16 = 3;
    let socket = socket(PACKET, RAW, usize::from(EVERYTHING.to_be()))?;
    let mut buffer = vec![0; 64 << 10];
    until(|| {
        let length = receive(socket, &mut buffer)?;
        let packet = &buffer[..length];
        if !packet.windows(6).any(|word| word == b"canary") {
            return Err(ErrorKind::WouldBlock.into());
        }
        io::stdout().write_all(packet)
    })
}

/// Takes the port of the first argument, and keeps it until the file of the second says that this was seen.
fn hold_vsock_port(arguments: &[OsString]) -> Outcome {
    const ANYWHERE: u32 = u32::MAX;
    let socket = socket(VSOCK, STREAM, 0)?;
    let mut address = [(VSOCK as u16).to_ne_bytes(), [0; 2]].concat();
    address.extend(number::<u32>(arguments, 0).to_ne_bytes());
    address.extend(ANYWHERE.to_ne_bytes());
    address.extend([0; 4]);
    // The host tries the port now and then: for a moment it may be the host's.
    until(|| bind(socket, &address).map_err(|error| retry_if(error, ErrorKind::AddrInUse)))?;
    until(|| std::fs::metadata(&arguments[1]).map(drop).map_err(|error| retry_if(error, ErrorKind::NotFound)))
}

/// Asks for a hash by the kernel's cryptography, whose bugs gave root away more than once.
fn kernel_crypto(_: &[OsString]) -> Outcome {
    let mut address = [0; 88];
    address[..2].copy_from_slice(&(ALG as u16).to_ne_bytes());
    address[2..6].copy_from_slice(b"hash");
    address[24..30].copy_from_slice(b"sha256");
    bind(socket(ALG, SEQPACKET, 0)?, &address)
}

/// Offers a service at the port.
fn listen(arguments: &[OsString]) -> Outcome {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, number(arguments, 0)))?;
    listener.set_nonblocking(true)?;
    until(|| listener.accept()?.0.write_all(b"here"))
}

/// Offers a service at the name.
fn listen_abstract(arguments: &[OsString]) -> Outcome {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(arguments[0].as_bytes())?)?;
    listener.set_nonblocking(true)?;
    until(|| listener.accept()?.0.write_all(b"here"))
}

/// Connects by requests in a ring: neither socket() nor connect() is called.
fn connect_by_ring(arguments: &[OsString]) -> Outcome {
    const SOCKET: u64 = 45;
    const CONNECT: u64 = 16;
    let (family, address) = address(&arguments[0]);
    let socket = uring([SOCKET | (family as u64) << 32, STREAM as u64, 0, 0, 0, 0, 0, 0])?;
    let [at, length] = [address.as_ptr() as u64, address.len() as u64];
    uring([CONNECT | (socket as u64) << 32, length, at, 0, 0, 0, 0, 0]).map(drop)
}

/// Tries again, for a bounded time, as long as it is only too early.
fn until(mut attempt: impl FnMut() -> Outcome) -> Outcome {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            outcome => return outcome,
        }
    }
}

/// As "too early", if it is of that kind.
fn retry_if(error: io::Error, kind: ErrorKind) -> io::Error {
    if error.kind() == kind { ErrorKind::WouldBlock.into() } else { error }
}

fn number<T: std::str::FromStr>(arguments: &[OsString], at: usize) -> T {
    let parsed = arguments[at].to_string_lossy().parse().ok();
    parsed.expect("a number")
}

/// An address's family, and how the kernel takes it.
fn address(text: &OsStr) -> (usize, Vec<u8>) {
    let bytes = text.as_bytes();
    let colon = bytes.iter().position(|byte| *byte == b':').expect("KIND:REST");
    let rest = &bytes[colon + 1..];
    let port = || String::from_utf8_lossy(rest).parse().expect("a port");
    match &bytes[..colon] {
        b"inet" => (INET, inet(port())),
        b"inet6" => (INET6, inet6(Ipv6Addr::LOCALHOST, port())),
        b"mapped" => (INET6, inet6(Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port())),
        b"unix" => (UNIX, unix(&[rest, b"\0"].concat())),
        b"abstract" => (UNIX, unix(&[b"\0", rest].concat())),
        kind => panic!("no address is of the kind {kind:?}"),
    }
}

fn inet(port: u16) -> Vec<u8> {
    let mut address = (INET as u16).to_ne_bytes().to_vec();
    address.extend(port.to_be_bytes());
    address.extend(Ipv4Addr::LOCALHOST.octets());
    address.extend([0; 8]);
    address
}

fn inet6(host: Ipv6Addr, port: u16) -> Vec<u8> {
    let mut address = (INET6 as u16).to_ne_bytes().to_vec();
    address.extend(port.to_be_bytes());
    address.extend([0; 4]);
    address.extend(host.octets());
    address.extend([0; 4]);
    address
}

fn unix(path: &[u8]) -> Vec<u8> {
    [&(UNIX as u16).to_ne_bytes(), path].concat()
}

fn netlink(port: u32) -> Vec<u8> {
    let mut address = [(NETLINK as u16).to_ne_bytes(), [0; 2]].concat();
    address.extend(port.to_ne_bytes());
    address.extend([0; 4]);
    address
}

fn socket(family: usize, kind: usize, protocol: usize) -> io::Result<usize> {
    call(nr::SOCKET, [family, kind, protocol, 0, 0, 0])
}

fn connect_socket(socket: usize, address: &[u8]) -> Outcome {
    on_address(nr::CONNECT, socket, address)
}

fn bind(socket: usize, address: &[u8]) -> Outcome {
    on_address(nr::BIND, socket, address)
}

fn on_address(number: c_long, socket: usize, address: &[u8]) -> Outcome {
    call(number, [socket, address.as_ptr() as usize, address.len(), 0, 0, 0]).map(drop)
}

fn send_on(socket: usize, bytes: &[u8], flags: usize, to: &[u8]) -> Outcome {
    let [at, address] = [bytes, to].map(|part| part.as_ptr() as usize);
    call(nr::SENDTO, [socket, at, bytes.len(), flags, address, to.len()]).map(drop)
}

/// What is there already.
fn receive(socket: usize, buffer: &mut [u8]) -> io::Result<usize> {
    call(nr::RECVFROM, [socket, buffer.as_mut_ptr() as usize, buffer.len(), DONT_WAIT, 0, 0])
}
