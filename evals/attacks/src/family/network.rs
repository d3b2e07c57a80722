//! Networks, and sockets of the host.

use crate::attack::Family::Network;
use crate::attack::{Attack, CannotBite, Staged};
use crate::judge::{Evidence, Judge};
use crate::run::Run;
use crate::scene::Scene;
use agentkit_protocol::Control;
use nix::fcntl::OFlag;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, VsockAddr, bind, getsockname,
    recv, socket,
};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const BLOCKED: &[Control] = &[Control::NetworkBlocked];

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        Network,
        "tcp_to_the_host",
        "code that you run talks to servers on your machine, and by the same way to any other",
        BLOCKED,
        tcp_to_the_host,
    ),
    Attack::new(
        Network,
        "tcp_to_an_address_of_the_host",
        "code that you run has a loopback of its own, and from there the way out to your machine and any other",
        BLOCKED,
        tcp_to_an_address_of_the_host,
    ),
    Attack::new(
        Network,
        "tcp_over_ipv6",
        "code that you run talks to servers over IPv6, which rules about IPv4 do not know",
        BLOCKED,
        tcp_over_ipv6,
    ),
    Attack::new(
        Network,
        "tcp_to_a_mapped_address",
        "code that you run reaches IPv4 servers by sockets of IPv6, where rules about either look away",
        BLOCKED,
        tcp_to_a_mapped_address,
    ),
    Attack::new(
        Network,
        "tcp_with_high_bits",
        "code that you run gets sockets from a system-call filter that reads more bits than the kernel",
        BLOCKED,
        tcp_with_high_bits,
    ),
    Attack::new(
        Network,
        "multipath_tcp",
        "code that you run talks to servers by a protocol that rules about TCP forget",
        BLOCKED,
        multipath_tcp,
    ),
    Attack::new(
        Network,
        "tcp_fast_open",
        "code that you run talks to servers although connecting is forbidden: it just sends",
        BLOCKED,
        tcp_fast_open,
    ),
    Attack::new(
        Network,
        "tcp_by_io_uring",
        "code that you run talks to servers by requests that no system-call filter sees",
        BLOCKED,
        tcp_by_io_uring,
    ),
    Attack::new(
        Network,
        "udp_to_the_host",
        "code that you run sends your data away in single datagrams",
        BLOCKED,
        udp_to_the_host,
    ),
    Attack::new(
        Network,
        "udp_over_ipv6",
        "code that you run sends your data away in datagrams of IPv6",
        BLOCKED,
        udp_over_ipv6,
    ),
    Attack::new(
        Network,
        "secret_in_a_dns_question",
        "code that you run sends your data away as names that a resolver is asked for",
        BLOCKED,
        secret_in_a_dns_question,
    ),
    Attack::new(
        Network,
        "forge_a_datagram",
        "code that you run answers in the name of other programs, such as your resolver",
        BLOCKED,
        forge_a_datagram,
    ),
    Attack::new(
        Network,
        "forge_an_icmp_refusal",
        "code that you run breaks the connections of your other programs",
        BLOCKED,
        forge_an_icmp_refusal,
    ),
    Attack::new(
        Network,
        "sniff_the_traffic",
        "code that you run reads what your other programs send and receive",
        BLOCKED,
        sniff_the_traffic,
    ),
    Attack::new(
        Network,
        "list_interfaces_by_netlink",
        "code that you run learns the hardware addresses of your machine",
        BLOCKED,
        list_interfaces_by_netlink,
    ),
    Attack::new(
        Network,
        "list_sockets_by_netlink",
        "code that you run learns which servers and connections your machine has",
        BLOCKED,
        list_sockets_by_netlink,
    ),
    Attack::new(
        Network,
        "list_sockets_by_proc",
        "code that you run learns from a file which servers and connections your machine has",
        BLOCKED,
        list_sockets_by_proc,
    ),
    Attack::new(
        Network,
        "list_unix_sockets_by_proc",
        "code that you run learns which daemons listen on your machine, and where in your home",
        BLOCKED,
        list_unix_sockets_by_proc,
    ),
    Attack::new(
        Network,
        "netlink_message_to_a_process",
        "code that you run talks to your other programs by way of the kernel's own message bus",
        BLOCKED,
        netlink_message_to_a_process,
    ),
    Attack::new(
        Network,
        "take_a_vsock_port",
        "code that you run talks to the hypervisor below your machine: network namespaces do not stop it",
        &[Control::NetworkBlocked, Control::SyscallsFiltered],
        take_a_vsock_port,
    ),
    // Other than all the rest, it asks for nothing that a network namespace could keep.
    Attack::new(
        Network,
        "use_kernel_crypto",
        "code that you run reaches the kernel's cryptography, where bugs gave root away more than once",
        &[Control::SyscallsFiltered],
        use_kernel_crypto,
    ),
    Attack::new(
        Network,
        "connect_to_an_abstract_socket",
        "code that you run talks to programs of your desktop, such as the message bus or the X server",
        BLOCKED,
        connect_to_an_abstract_socket,
    ),
    Attack::new(
        Network,
        "connect_to_a_socket_in_the_home",
        "code that you run talks to your agents and daemons, such as the one that holds your keys",
        BLOCKED,
        connect_to_a_socket_in_the_home,
    ),
    Attack::new(
        Network,
        "connect_to_a_socket_beside_the_directory",
        "code that you run talks to daemons by a file that is shown to it read-only, which is no barrier",
        BLOCKED,
        connect_to_a_socket_beside_the_directory,
    ),
    Attack::new(
        Network,
        "connect_to_a_socket_in_tmp",
        "code that you run talks to programs that listen in the shared directory for temporary files",
        BLOCKED,
        connect_to_a_socket_in_tmp,
    ),
    Attack::new(
        Network,
        "connect_to_a_socket_through_a_link",
        "code that you run reaches a daemon by a link that lies in the directory it was given",
        BLOCKED,
        connect_to_a_socket_through_a_link,
    ),
    Attack::new(
        Network,
        "connect_to_a_socket_in_the_directory",
        "code that you run talks to a daemon that listens in its directory, as those of git do",
        BLOCKED,
        connect_to_a_socket_in_the_directory,
    ),
    Attack::new(
        Network,
        "write_to_a_pipe_in_the_directory",
        "code that you run gives orders to a program that takes them from a named pipe in its directory",
        BLOCKED,
        write_to_a_pipe_in_the_directory,
    ),
    Attack::new(
        Network,
        "datagram_to_a_socket_in_the_home",
        "code that you run writes to daemons that take datagrams, such as the system's log",
        BLOCKED,
        datagram_to_a_socket_in_the_home,
    ),
    Attack::new(
        Network,
        "datagram_pair_to_an_abstract_socket",
        "code that you run reaches other programs although no system call gave it a socket with a name",
        BLOCKED,
        datagram_pair_to_an_abstract_socket,
    ),
    Attack::new(
        Network,
        "datagram_pair_to_a_socket_in_the_home",
        "code that you run reaches your daemons although no system call gave it a socket with a name",
        BLOCKED,
        datagram_pair_to_a_socket_in_the_home,
    ),
    Attack::new(
        Network,
        "offer_a_service",
        "code that you run poses as a server on your machine, to you and to your network",
        BLOCKED,
        offer_a_service,
    ),
    Attack::new(
        Network,
        "offer_an_abstract_socket",
        "code that you run poses as a daemon, and your programs tell it what is meant for that",
        BLOCKED,
        offer_an_abstract_socket,
    ),
    Attack::new(
        Network,
        "python_fetch_from_the_host",
        "a script fetches from and sends to any server, with nothing but Python's own library",
        BLOCKED,
        |_| tcp_in_python("fetch"),
    ),
];

type Stage = Result<Staged, CannotBite>;

fn tcp_to_the_host(_: &Scene) -> Stage {
    let (listener, port) = tcp_listener((Ipv4Addr::LOCALHOST, 0).into())?;
    Ok(Staged::new(["tcp".to_owned(), port.to_string()], accepts_tcp(listener)))
}

/// By the address that other machines know: a sandbox whose network has a bridge to the host's reaches it there, and its own
/// loopback says nothing of that. Nothing leaves the machine.
fn tcp_to_an_address_of_the_host(_: &Scene) -> Stage {
    let own = own_address()
        .ok_or_else(|| CannotBite("this host has no address but that of its loopback".to_owned()))?;
    let (listener, port) = tcp_listener((own, 0).into())?;
    Ok(Staged::new(["tcp".to_owned(), port.to_string(), own.to_string()], accepts_tcp(listener)))
}

fn own_address() -> Option<Ipv4Addr> {
    let all = getifaddrs().ok()?.filter(|one| one.flags.contains(InterfaceFlags::IFF_UP));
    let addresses = all.filter_map(|one| Some(one.address?.as_sockaddr_in()?.ip()));
    addresses.into_iter().find(|address| !address.is_loopback() && !address.is_unspecified())
}

fn tcp_over_ipv6(_: &Scene) -> Stage {
    let (listener, port) = tcp_listener((Ipv6Addr::LOCALHOST, 0).into())
        .map_err(|error| CannotBite(format!("this host has no IPv6 loopback: {error}")))?;
    Ok(Staged::new(["connect", &format!("inet6:{port}"), "0"], accepts_tcp(listener)))
}

fn tcp_to_a_mapped_address(_: &Scene) -> Stage {
    tcp("connect", "mapped", "0")
}

fn tcp_with_high_bits(_: &Scene) -> Stage {
    tcp("connect_with_high_bits", "inet", "0")
}

fn multipath_tcp(_: &Scene) -> Stage {
    tcp("connect", "inet", "262")
}

fn tcp_fast_open(_: &Scene) -> Stage {
    tcp("connect_fast", "inet", "0")
}

fn tcp_by_io_uring(_: &Scene) -> Stage {
    tcp("connect_by_ring", "inet", "0")
}

/// A connection to a listener of IPv4, by an address of another kind perhaps.
fn tcp(attack: &str, kind: &str, protocol: &str) -> Stage {
    let (listener, port) = tcp_listener((Ipv4Addr::LOCALHOST, 0).into())?;
    Ok(Staged::new([attack, &format!("{kind}:{port}"), protocol], accepts_tcp(listener)))
}

fn udp_to_the_host(scene: &Scene) -> Stage {
    let (receiver, port) = udp_receiver((Ipv4Addr::LOCALHOST, 0).into())?;
    let text = marker(scene);
    Ok(Staged::new(["send", &format!("inet:{port}"), &text.clone()], receives_udp(receiver, text)))
}

fn udp_over_ipv6(scene: &Scene) -> Stage {
    let (receiver, port) = udp_receiver((Ipv6Addr::LOCALHOST, 0).into())
        .map_err(|error| CannotBite(format!("this host has no IPv6 loopback: {error}")))?;
    let text = marker(scene);
    Ok(Staged::new(["send", &format!("inet6:{port}"), &text.clone()], receives_udp(receiver, text)))
}

fn secret_in_a_dns_question(scene: &Scene) -> Stage {
    let (receiver, port) = udp_receiver((Ipv4Addr::LOCALHOST, 0).into())?;
    let label = marker(scene).replace('.', "");
    let name = format!("{label}.invalid");
    Ok(Staged::new(["look_up", &port.to_string(), &name], receives_udp(receiver, label)))
}

fn forge_a_datagram(scene: &Scene) -> Stage {
    let (receiver, port) = udp_receiver((Ipv4Addr::LOCALHOST, 0).into())?;
    let text = marker(scene);
    Ok(Staged::new(["forge_datagram", &port.to_string(), &text.clone()], receives_udp(receiver, text)))
}

fn forge_an_icmp_refusal(_: &Scene) -> Stage {
    let (sender, from) = udp_receiver((Ipv4Addr::LOCALHOST, 0).into())?;
    // It is there, so that nothing but the forgery says that it is not.
    let (receiver, to) = udp_receiver((Ipv4Addr::LOCALHOST, 0).into())?;
    sender.connect(receiver.local_addr()?)?;
    let refused = move |_: &Run| {
        let error = sender.take_error().ok().flatten();
        drop(receiver);
        error.map(|error| format!("the socket of another program was told: {error}"))
    };
    Ok(Staged::new(["forge_refusal".to_owned(), from.to_string(), to.to_string()], refused))
}

/// Two programs of the host that talk all the time.
struct Talk {
    sender: UdpSocket,
    receiver: UdpSocket,
    canary: String,
}

impl Judge for Talk {
    fn watch(&mut self) {
        if let Ok(to) = self.receiver.local_addr() {
            // What does not arrive is said again.
            let _ = self.sender.send_to(self.canary.as_bytes(), to);
        }
    }

    fn judge(self: Box<Self>, run: &Run) -> Option<Evidence> {
        run.contains(&self.canary).then(|| "what was sent between other programs came out".to_owned())
    }
}

fn sniff_the_traffic(scene: &Scene) -> Stage {
    let (sender, _) = udp_receiver((Ipv4Addr::LOCALHOST, 0).into())?;
    let (receiver, _) = udp_receiver((Ipv4Addr::LOCALHOST, 0).into())?;
    let (_, canary) = scene.canary()?;
    Ok(Staged::new(["sniff"], Talk { sender, receiver, canary }))
}

fn list_interfaces_by_netlink(_: &Scene) -> Stage {
    let address = hardware_address()
        .ok_or_else(|| CannotBite("this host has no interface with a hardware address".to_owned()))?;
    let came_out =
        move |run: &Run| run.contains(&address).then(|| "the hardware address came out".to_owned());
    Ok(Staged::new(["list_links"], came_out))
}

/// One of the host's, as hexadecimal digits.
fn hardware_address() -> Option<String> {
    let interfaces = fs::read_dir("/sys/class/net").ok()?.flatten();
    let addresses = interfaces.filter_map(|entry| fs::read_to_string(entry.path().join("address")).ok());
    addresses
        .map(|address| address.trim().replace(':', ""))
        .find(|address| address.len() == 12 && address.bytes().any(|digit| digit != b'0'))
}

fn list_sockets_by_netlink(_: &Scene) -> Stage {
    let (listener, port) = tcp_listener((Ipv4Addr::LOCALHOST, 0).into())?;
    // As struct inet_diag_sockid has it: its port, no peer's port, its address.
    let entry = format!("{port:04x}00007f000001");
    let came_out = move |run: &Run| {
        drop(listener);
        run.contains(&entry)
            .then(|| "the address of a listener came out, which the attacker was not told".to_owned())
    };
    Ok(Staged::new(["list_sockets"], came_out))
}

fn list_sockets_by_proc(_: &Scene) -> Stage {
    let (listener, port) = tcp_listener((Ipv4Addr::LOCALHOST, 0).into())?;
    // The kernel prints the address as one number of the machine's own byte order.
    let address = u32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets());
    let entry = format!("{address:08X}:{port:04X} ");
    let came_out = move |run: &Run| {
        drop(listener);
        run.contains(&entry).then(|| "the address of a listener came out".to_owned())
    };
    Ok(Staged::new(["read", "/proc/net/tcp"], came_out))
}

fn list_unix_sockets_by_proc(scene: &Scene) -> Stage {
    let path = scene.secret().join("socket");
    let listener = UnixListener::bind(&path)?;
    let name = path.to_string_lossy().into_owned();
    let came_out = move |run: &Run| {
        drop(listener);
        run.contains(&name).then(|| "the path of a listener came out".to_owned())
    };
    Ok(Staged::new(["read", "/proc/net/unix"], came_out))
}

fn netlink_message_to_a_process(scene: &Scene) -> Stage {
    let socket = open(AddressFamily::Netlink, SockType::Datagram, SockProtocol::NetlinkUserSock)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(io::Error::from)?;
    let own: NetlinkAddr = getsockname(socket.as_raw_fd()).map_err(io::Error::from)?;
    let text = marker(scene);
    let argv = ["send_by_netlink".to_owned(), own.pid().to_string(), text.clone()];
    let arrived = move |_: &Run| {
        let mut buffer = [0; 256];
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).ok()?;
        (buffer[..length] == *text.as_bytes()).then(|| "the message arrived at another process".to_owned())
    };
    Ok(Staged::new(argv, arrived))
}

/// Looks whether somebody else has a port of vsock. To connect to one would leave the machine, so nobody does.
struct VsockPort {
    port: u32,
    seen: bool,
    /// To tell the attacker.
    file: PathBuf,
}

impl Judge for VsockPort {
    fn watch(&mut self) {
        if !self.seen && taken(self.port).unwrap_or(false) {
            self.seen = true;
            // Without it the attacker waits a little longer.
            let _ = fs::write(&self.file, "");
        }
    }

    fn judge(self: Box<Self>, _: &Run) -> Option<Evidence> {
        self.seen.then(|| "the port was taken for the whole machine".to_owned())
    }
}

fn take_a_vsock_port(scene: &Scene) -> Stage {
    let port = vsock_port(scene);
    match taken(port) {
        Ok(false) => {}
        Ok(true) => return Err(CannotBite(format!("port {port} of vsock is taken"))),
        Err(error) => return Err(CannotBite(format!("this host has no vsock: {error}"))),
    }
    let file = scene.granted().join("seen");
    let argv = ["hold_vsock_port".into(), port.to_string().into(), file.clone().into_os_string()];
    Ok(Staged::new(argv, VsockPort { port, seen: false, file }))
}

/// Audits that go on at the same time use different ones.
fn vsock_port(scene: &Scene) -> u32 {
    const FIRST: u32 = 50_000;
    let mix = |sum: u32, byte: &u8| sum.wrapping_mul(31).wrapping_add(u32::from(*byte));
    FIRST + scene.marker().as_encoded_bytes().iter().fold(0, mix) % 1_000_000
}

fn taken(port: u32) -> io::Result<bool> {
    const ANYWHERE: u32 = u32::MAX;
    let socket = open(AddressFamily::Vsock, SockType::Stream, None)?;
    match bind(socket.as_raw_fd(), &VsockAddr::new(ANYWHERE, port)) {
        Ok(()) => Ok(false),
        Err(nix::Error::EADDRINUSE) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn use_kernel_crypto(_: &Scene) -> Stage {
    // Such a socket concerns nobody but its maker: that the kernel gave it is all there is to see.
    let went_through = |run: &Run| (run.says() == "done").then(|| "the kernel prepared a hash".to_owned());
    Ok(Staged::new(["kernel_crypto"], went_through))
}

fn connect_to_an_abstract_socket(scene: &Scene) -> Stage {
    let name = marker(scene);
    let listener = UnixListener::bind_addr(&UnixAddress::from_abstract_name(&name)?)?;
    Ok(Staged::new(["connect", &format!("abstract:{name}"), "0"], accepts_unix(listener)?))
}

fn connect_to_a_socket_in_the_home(scene: &Scene) -> Stage {
    let path = scene.secret().join("socket");
    connect_to(&path, &path)
}

/// In a directory that the attacker's own shares a parent with, and by a path that says so.
fn connect_to_a_socket_beside_the_directory(scene: &Scene) -> Stage {
    let sibling = scene.own().with_file_name("sibling");
    fs::create_dir(&sibling)?;
    connect_to(&sibling.join("socket"), &scene.granted().join("../sibling/socket"))
}

fn connect_to_a_socket_in_tmp(_: &Scene) -> Stage {
    let directory = tempfile::Builder::new().prefix(".agentkit-audit-").tempdir_in("/tmp")?;
    let path = directory.path().join("socket");
    connect_until(&path, &path, Some(directory))
}

fn connect_to_a_socket_through_a_link(scene: &Scene) -> Stage {
    let [path, link] = [scene.secret(), scene.granted()].map(|directory| directory.join("socket"));
    symlink(&path, &link)?;
    connect_to(&path, &link)
}

fn connect_to_a_socket_in_the_directory(scene: &Scene) -> Stage {
    let path = scene.granted().join("socket");
    connect_to(&path, &path)
}

fn write_to_a_pipe_in_the_directory(scene: &Scene) -> Stage {
    let path = scene.granted().join("pipe");
    mkfifo(&path, Mode::S_IRWXU).map_err(io::Error::from)?;
    // Opened for both, it waits for no other side, and keeps what a writer left.
    let flags = OFlag::O_NONBLOCK.bits();
    let mut pipe = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path)?;
    let text = marker(scene);
    let argv: [OsString; 3] = ["append".into(), path.into(), text.clone().into()];
    let came =
        move |_: &Run| arrived(&text, |buffer| pipe.read(buffer)).map(|_| "the pipe gave it out".to_owned());
    Ok(Staged::new(argv, came))
}

fn datagram_to_a_socket_in_the_home(scene: &Scene) -> Stage {
    datagram(scene, "send")
}

fn datagram_pair_to_a_socket_in_the_home(scene: &Scene) -> Stage {
    datagram(scene, "send_from_pair")
}

fn datagram(scene: &Scene, attack: &str) -> Stage {
    let path = scene.secret().join("socket");
    let receiver = UnixDatagram::bind(&path)?;
    let text = marker(scene);
    let argv = [attack.to_owned(), format!("unix:{}", path.display()), text.clone()];
    Ok(Staged::new(argv, receives_unix(receiver, text)?))
}

fn datagram_pair_to_an_abstract_socket(scene: &Scene) -> Stage {
    let text = marker(scene);
    let receiver = UnixDatagram::bind_addr(&UnixAddress::from_abstract_name(&text)?)?;
    let argv = ["send_from_pair".to_owned(), format!("abstract:{text}"), text.clone()];
    Ok(Staged::new(argv, receives_unix(receiver, text)?))
}

/// A client of the host that looks for a service.
struct Client<F> {
    /// What a service says, if there is one.
    ask: F,
    heard: bool,
}

impl<F: FnMut() -> io::Result<Vec<u8>>> Judge for Client<F> {
    fn watch(&mut self) {
        self.heard = self.heard || (self.ask)().is_ok_and(|word| word == b"here");
    }

    fn judge(self: Box<Self>, _: &Run) -> Option<Evidence> {
        self.heard.then(|| "a client of the host was served by the attacker".to_owned())
    }
}

/// Nobody is waited for longer.
const PATIENCE: Duration = Duration::from_millis(300);

fn offer_a_service(_: &Scene) -> Stage {
    let (listener, port) = tcp_listener((Ipv4Addr::LOCALHOST, 0).into())?;
    // Whoever takes the port in between does not say the word.
    drop(listener);
    let ask = move || {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(io::Error::other("it happened to connect to itself"));
        }
        word(stream)
    };
    Ok(Staged::new(["listen".to_owned(), port.to_string()], Client { ask, heard: false }))
}

fn offer_an_abstract_socket(scene: &Scene) -> Stage {
    let name = marker(scene);
    let argv = ["listen_abstract".to_owned(), name.clone()];
    let ask = move || {
        let stream = UnixStream::connect_addr(&UnixAddress::from_abstract_name(&name)?)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        word(stream)
    };
    Ok(Staged::new(argv, Client { ask, heard: false }))
}

fn word(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut word = vec![0; 4];
    stream.read_exact(&mut word)?;
    Ok(word)
}

/// A connection to the socket at `path`, which the attacker knows by another path perhaps.
fn connect_to(path: &Path, known: &Path) -> Stage {
    connect_until(path, known, None)
}

/// The same; `directory` goes when it is judged.
fn connect_until(path: &Path, known: &Path, directory: Option<TempDir>) -> Stage {
    let accepts = accepts_unix(UnixListener::bind(path)?)?;
    let judge = move |run: &Run| {
        let evidence = accepts(run);
        drop(directory);
        evidence
    };
    Ok(Staged::new(["connect", &format!("unix:{}", known.display()), "0"], judge))
}

fn marker(scene: &Scene) -> String {
    scene.marker().to_string_lossy().into_owned()
}

fn open(
    family: AddressFamily,
    kind: SockType,
    protocol: impl Into<Option<SockProtocol>>,
) -> io::Result<OwnedFd> {
    Ok(socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol)?)
}

fn tcp_listener(address: SocketAddr) -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

fn udp_receiver(address: SocketAddr) -> io::Result<(UdpSocket, u16)> {
    let receiver = UdpSocket::bind(address)?;
    receiver.set_nonblocking(true)?;
    let port = receiver.local_addr()?.port();
    Ok((receiver, port))
}

/// A connection that was made waits in the listener's queue, even when its maker is gone.
fn accepts_tcp(listener: TcpListener) -> impl FnOnce(&Run) -> Option<Evidence> {
    move |_: &Run| listener.accept().is_ok().then(|| "a connection arrived".to_owned())
}

fn accepts_unix(listener: UnixListener) -> io::Result<impl FnOnce(&Run) -> Option<Evidence>> {
    listener.set_nonblocking(true)?;
    Ok(move |_: &Run| listener.accept().is_ok().then(|| "a connection arrived".to_owned()))
}

/// Whether a datagram arrived that holds the text. Loopback delivers within the sender's call.
fn receives_udp(receiver: UdpSocket, text: String) -> impl FnOnce(&Run) -> Option<Evidence> {
    move |_: &Run| arrived(&text, |buffer| receiver.recv(buffer))
}

fn receives_unix(receiver: UnixDatagram, text: String) -> io::Result<impl FnOnce(&Run) -> Option<Evidence>> {
    receiver.set_nonblocking(true)?;
    Ok(move |_: &Run| arrived(&text, |buffer| receiver.recv(buffer)))
}

fn arrived(text: &str, mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>) -> Option<Evidence> {
    let mut buffer = [0; 512];
    while let Ok(length) = receive(&mut buffer) {
        if String::from_utf8_lossy(&buffer[..length]).contains(text) {
            return Some("the datagram arrived".to_owned());
        }
    }
    None
}

fn tcp_in_python(attack: &str) -> Stage {
    let (listener, port) = tcp_listener((Ipv4Addr::LOCALHOST, 0).into())?;
    Staged::new([attack.to_owned(), port.to_string()], accepts_tcp(listener)).in_python()
}
