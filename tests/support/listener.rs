//! A loopback listener that tells how many connections arrived.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What a connection is answered with, as a small web page.
pub(crate) const PAGE: &str = "agentkit listener";

/// Answers every connection to a port of 127.0.0.1 with [`PAGE`] until it is asked for the count.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    /// Where our own last connection comes from, once it exists.
    last: Arc<Mutex<Option<SocketAddr>>>,
    server: JoinHandle<io::Result<usize>>,
}

impl Listener {
    /// Listens on a free port.
    pub(crate) fn start() -> io::Result<Listener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let last = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&last);
        let server = thread::spawn(move || serve(&listener, &shared));
        Ok(Listener { address, last, server })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops, and returns how many connections arrived until now. The kernel hands them over in order, so a last one
    /// of our own comes after all others; the lock keeps the server from judging it before its address is known.
    pub(crate) fn into_count(self) -> io::Result<usize> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let own = TcpStream::connect(self.address)?;
        *last = Some(own.local_addr()?);
        drop(last);
        self.server.join().map_err(|_| io::Error::other("the listener panicked"))?
    }
}

fn serve(listener: &TcpListener, last: &Mutex<Option<SocketAddr>>) -> io::Result<usize> {
    for count in 0.. {
        let (stream, peer) = listener.accept()?;
        if *last.lock().unwrap_or_else(PoisonError::into_inner) == Some(peer) {
            return Ok(count);
        }
        thread::spawn(move || answer(stream));
    }
    unreachable!("more connections than numbers")
}

/// Reads the request first: closing a socket with unread bytes resets the connection. A peer that sends nothing, or is
/// gone, is its own business: it has been counted.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut request = [0; 4096];
    let _ = stream.read(&mut request)?;
    let length = PAGE.len();
    write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{PAGE}")
}
