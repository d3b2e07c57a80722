//! Step 6: the jail's own network namespace, with nothing but a loopback, which programs need to talk to themselves.
//!
//! To make it takes the kernel as long as all mounts together, and neither needs the other: a thread does it meanwhile.

use crate::error::{Context, Result};
use crate::linux::layers::Layer;
use crate::linux::{sockets, sys, watch};
use crate::validate::Plan;
use agentkit_protocol::Net;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{Builder, JoinHandle};

const STEP: &str = "network";
/// Enough for a few calls, and less to give back.
const STACK: usize = 64 << 10;

/// What is open in the namespace.
pub(crate) struct Network {
    /// Hosts that take capabilities away from user namespaces refuse to raise it, and a policy may not want one; the network
    /// is then just as blocked.
    pub(crate) loopback: io::Result<()>,
    /// See [`sockets::open`].
    pub(crate) sockets: Option<OwnedFd>,
    /// See [`watch::listen_for_connections`].
    pub(crate) connections: Option<OwnedFd>,
}

/// One that is being made.
pub(crate) struct Begun(JoinHandle<Result<(Option<OwnedFd>, Network)>>);

/// Begins to make it. Until [`Begun::enter`] this thread is in the launcher's.
pub(crate) fn begin(plan: &Plan) -> Result<Begun> {
    sys::share_heap();
    let (net, ports) = (plan.net, plan.watched_ports.clone());
    let thread =
        Builder::new().stack_size(STACK).spawn(move || make(net, &ports)).context(STEP, "start a thread")?;
    Ok(Begun(thread))
}

impl Begun {
    /// Waits for it and enters it; the thread is gone then.
    pub(crate) fn enter(self) -> Result<Network> {
        let panicked = |_| io::Error::other("the thread panicked");
        let (namespace, network) = self.0.join().map_err(panicked).context(STEP, "make the namespace")??;
        if let Some(namespace) = namespace {
            setns(namespace, CloneFlags::CLONE_NEWNET).map_err(io::Error::from).context(STEP, "setns")?;
        }
        Ok(network)
    }
}

fn make(net: Net, watched_ports: &[u16]) -> Result<(Option<OwnedFd>, Network)> {
    if net == Net::Host || Layer::NetworkNamespace.is_off() {
        // What would tell about sockets would tell about the host's.
        return Ok((None, Network { loopback: Ok(()), sockets: None, connections: None }));
    }
    unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from).context(STEP, "unshare CLONE_NEWNET")?;
    // Any socket stands for its namespace.
    let any = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(io::Error::from)
        .context(STEP, "open a socket")?;
    let namespace = sys::namespace_of_socket(any.as_fd()).context(STEP, "ioctl SIOCGSKNS")?;
    let loopback = match net {
        Net::None => Err(io::Error::other("the policy wants none")),
        Net::Loopback | Net::Host => sys::raise_loopback(any.as_fd()),
    };
    let connections = match &loopback {
        Ok(()) => watch::listen_for_connections(watched_ports)?,
        Err(_) if watched_ports.is_empty() => None,
        Err(error) => {
            return Err(io::Error::from(error.kind()))
                .context(STEP, "raise the loopback, which watched ports need");
        }
    };
    Ok((Some(namespace), Network { loopback, sockets: sockets::open()?, connections }))
}
