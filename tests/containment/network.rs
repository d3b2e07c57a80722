//! Attacks on what listens on the host.

use crate::calls::calls;
use crate::jail::who::Who;
use crate::scene::{Scene, bites};
use crate::support::listener::Listener;
use crate::support::{PATIENCE, Stop};
use agentkit_protocol::Control;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

calls! {
    also [
        tcp_to_host_loopback,
        multipath_tcp_to_host_loopback,
        udp_to_host_loopback,
        tcp_to_host_ipv6_loopback,
        connection_to_an_abstract_unix_socket,
        connection_to_a_unix_socket_beside_the_work_dir,
        connection_to_a_unix_socket_in_the_work_dir
    ];
    // It reaches the hypervisor from any network namespace.
    multipath_socket: "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)" => "EPROTONOSUPPORT";
    lite_datagram_socket: "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, 136)" => "EPROTONOSUPPORT";
    vsock_socket: "call('socket', 40, socket.SOCK_STREAM, 0)" => "EAFNOSUPPORT";
    netlink_socket: "call('socket', 16, socket.SOCK_RAW, 0)" => "EAFNOSUPPORT";
    packet_socket: "call('socket', 17, socket.SOCK_RAW, 0)" => "EAFNOSUPPORT";
    kernel_crypto_socket: "call('socket', 38, socket.SOCK_SEQPACKET, 0)" => "EAFNOSUPPORT";
    raw_ip_socket: "call('socket', socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)" => "EPERM";
    // The kernel takes the family as an `int`: a filter that compares 64 bits would let this pass.
    netlink_socket_with_garbage_in_the_high_half:
        "call('socket', HIGH | 16, HIGH | socket.SOCK_RAW, HIGH)" => "EAFNOSUPPORT";
}

fn tcp_to_host_loopback(who: Who) -> Result<(), Stop> {
    stream_to_host_loopback(who, "0")
}

/// A protocol of its own that falls back to TCP, and that rules about TCP tend to forget.
fn multipath_tcp_to_host_loopback(who: Who) -> Result<(), Stop> {
    stream_to_host_loopback(who, "262")
}

fn stream_to_host_loopback(who: Who, protocol: &str) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let listener = Listener::start()?;
    let attack = scene
        .attack(
            "import socket\n\
             port, protocol = map(int, arguments)\n\
             try:\n    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)\n\
             except OSError: answer('absent'); sys.exit()\n\
             s.settimeout(30)\n\
             answer(attempt(s.connect, ('127.0.0.1', port)))",
        )
        .knows(listener.address().port().to_string())
        .knows(protocol);
    let outside = attack.bare()?;
    if outside.answer()? == "absent" {
        return Err(Stop::Skip(format!("this kernel has no protocol {protocol}")));
    }
    bites(listener.into_count()? == 1, &outside)?;
    // The port is free again, so it has to be taken again.
    let listener = Listener::start()?;
    let attack = attack.forgets().knows(listener.address().port().to_string()).knows(protocol);
    attack.jailed()?.must_have_attempted()?;
    assert_eq!(listener.into_count()?, 0);
    Ok(())
}

fn udp_to_host_loopback(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let attack = scene
        .attack(
            "import socket\n\
             s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             answer(attempt(s.sendto, b'attack', ('127.0.0.1', int(arguments[0]))))",
        )
        .knows(receiver.local_addr()?.port().to_string());
    let first = || -> std::io::Result<Vec<u8>> {
        // Loopback keeps the order, so nothing of the attack can come after our own word.
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.send_to(b"end", receiver.local_addr()?)?;
        let mut buffer = [0; 16];
        let length = receiver.recv(&mut buffer)?;
        Ok(buffer[..length].to_vec())
    };
    let outside = attack.bare()?;
    bites(first()? == b"attack", &outside)?;
    assert_eq!({ receiver.recv(&mut [0; 16])? }, 3, "our own word");
    attack.jailed()?.must_have_attempted()?;
    assert_eq!(first()?, b"end");
    Ok(())
}

fn tcp_to_host_ipv6_loopback(who: Who) -> Result<(), Stop> {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0))
        .map_err(|error| Stop::Skip(format!("this host has no IPv6 loopback: {error}")))?;
    listener.set_nonblocking(true)?;
    let scene = Scene::new(who)?;
    let attack = scene
        .attack("import socket\nanswer(attempt(socket.create_connection, ('::1', int(arguments[0])), 5))")
        .knows(listener.local_addr()?.port().to_string());
    let outside = attack.bare()?;
    // A connection is in the queue before connect() returns.
    bites(listener.accept().is_ok(), &outside)?;
    attack.jailed()?.must_have_attempted()?;
    assert!(listener.accept().is_err());
    Ok(())
}

const CONNECT_UNIX: &str = "import socket\n\
     for name in arguments:\n\
     \x20   said = attempt(socket.socket(socket.AF_UNIX).connect, name.replace('@', '\\0'))\n\
     answer(said)";

fn connection_to_an_abstract_unix_socket(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene.attack(CONNECT_UNIX);
    let name = format!("{}abstract", attack.marker);
    let listener = abstract_listener(&name)?;
    listener.set_nonblocking(true)?;
    let attack = attack.knows(format!("@{name}"));
    let outside = attack.bare()?;
    bites(listener.accept().is_ok(), &outside)?;
    attack.jailed()?.must_have_attempted()?;
    assert!(listener.accept().is_err());
    Ok(())
}

#[cfg(target_os = "linux")]
fn abstract_listener(name: &str) -> Result<UnixListener, Stop> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    Ok(UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?)
}

#[cfg(not(target_os = "linux"))]
fn abstract_listener(_name: &str) -> Result<UnixListener, Stop> {
    Err(Stop::Skip("this system has no abstract sockets".to_owned()))
}

fn connection_to_a_unix_socket_beside_the_work_dir(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let path = scene.path("neighbour/socket");
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
    listener.set_nonblocking(true)?;
    let attack = scene.attack(CONNECT_UNIX).knows("../neighbour/socket").knows(path);
    let outside = attack.bare()?;
    bites(listener.accept().is_ok() && listener.accept().is_ok(), &outside)?;
    attack.jailed()?.must_have_attempted()?;
    assert!(listener.accept().is_err());
    Ok(())
}

/// A program of the host may listen there: git does (`.git/fsmonitor--daemon.ipc`), so do databases of projects. A
/// socket file is no barrier between network namespaces. Either it cannot be reached, or nobody is told so.
fn connection_to_a_unix_socket_in_the_work_dir(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let path = scene.path("work/socket");
    let listener = UnixListener::bind(&path)?;
    who.own(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
    listener.set_nonblocking(true)?;
    let attack = scene.attack(CONNECT_UNIX).knows("socket");
    let outside = attack.bare()?;
    bites(listener.accept().is_ok(), &outside)?;
    let inside = attack.jailed()?;
    inside.must_have_attempted()?;
    let claim = &inside.started()?.capabilities.controls[&Control::NetworkBlocked];
    assert!(listener.accept().is_err() || !claim.is_full(), "reached, while network_blocked is {claim}");
    Ok(())
}
