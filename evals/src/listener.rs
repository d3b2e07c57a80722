//! A page on this host's loopback that counts who comes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long one visitor may keep the others waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// A live listener on 127.0.0.1.
#[derive(Debug)]
pub(crate) struct Page {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    last: Sender<SocketAddr>,
    thread: Option<JoinHandle<u64>>,
}

impl Page {
    /// Serves `body` on a free port.
    pub(crate) fn serve(body: String) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let closing = Arc::new(AtomicBool::new(false));
        let (last, last_visitor) = channel();
        let seen = Arc::clone(&closing);
        let thread = std::thread::Builder::new()
            .name("loopback page".to_owned())
            .spawn(move || count_visitors(&listener, &body, &seen, &last_visitor))?;
        Ok(Page { address, closing, last, thread: Some(thread) })
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Stops and says how many connections arrived, all that came before this call included.
    pub(crate) fn close(mut self) -> io::Result<u64> {
        self.stop()
    }

    /// Connections are accepted in order, so one of our own marks the end of the others.
    fn stop(&mut self) -> io::Result<u64> {
        let Some(thread) = self.thread.take() else { return Ok(0) };
        self.closing.store(true, Ordering::SeqCst);
        let mark = TcpStream::connect(self.address)?;
        let _ = self.last.send(mark.local_addr()?);
        thread.join().map_err(|_| io::Error::other("the listener's thread panicked"))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn count_visitors(
    listener: &TcpListener,
    body: &str,
    closing: &AtomicBool,
    last: &Receiver<SocketAddr>,
) -> u64 {
    let (mut count, mut end) = (0, None);
    for visitor in listener.incoming() {
        let Ok(visitor) = visitor else { continue };
        if closing.load(Ordering::SeqCst) && end.is_none() {
            end = last.recv().ok();
        }
        if end.is_some() && visitor.peer_addr().ok() == end {
            break;
        }
        count += 1;
        // A visitor that hangs up early has still arrived.
        let _ = answer(visitor, body);
    }
    count
}

fn answer(mut visitor: TcpStream, body: &str) -> io::Result<()> {
    visitor.set_read_timeout(Some(PATIENCE))?;
    visitor.set_write_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
    // In one piece, so that a visitor who reads only once has the page.
    visitor.write_all((head + body).as_bytes())?;
    visitor.shutdown(Shutdown::Write)?;
    // Closing with unread bytes would reset the connection before the visitor has read the answer.
    io::copy(&mut visitor.take(64 << 10), &mut io::sink()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_came() {
        assert_eq!(Page::serve(String::new()).unwrap().close().unwrap(), 0);
    }

    #[test]
    fn every_visitor_counts_and_reads_the_page() {
        let page = Page::serve("hello".to_owned()).unwrap();
        let mut text = String::new();
        let mut visitor = TcpStream::connect(page.address).unwrap();
        visitor.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        visitor.shutdown(Shutdown::Write).unwrap();
        visitor.read_to_string(&mut text).unwrap();
        drop(TcpStream::connect(page.address).unwrap());
        assert!(text.ends_with("\r\n\r\nhello"), "{text}");
        assert_eq!(page.close().unwrap(), 2);
    }
}
