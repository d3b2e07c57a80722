//! One exchange with a server: a request goes out, and what comes back is handed on as it comes.
//!
//! Each exchange has a thread that waits for the server, so that whoever asked can stop waiting at any time, and an agent
//! with one connection that can be cut without touching those of others. Both are gone soon after the exchange is
//! dropped; agents of exchanges that ended well are kept, with their open connection.

use super::trouble::{Limit, Timeouts, Trouble};
use crate::context::Context;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use ureq::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Proxy, RequestBuilder, Timeout};

/// How often the total time and the cancellation are looked at. What the server says is taken at once.
const LOOK: Duration = Duration::from_millis(10);
/// How long the end of a body is waited for of which no more is needed, so that the connection can be used again.
const LINGER: Duration = Duration::from_millis(100);
/// Bytes handed on at once, and how many such pieces may wait.
const PIECE: usize = 16 << 10;
const PIECES: usize = 16;
/// Connections kept open.
const MAX_KEPT: usize = 4;

/// Makes exchanges.
pub(super) struct Http {
    pub(super) timeouts: Timeouts,
    pub(super) proxy: Option<Proxy>,
    /// Mozilla's list unless set.
    pub(super) roots: Option<RootCerts>,
    kept: Arc<Mutex<Vec<Agent>>>,
}

/// What is sent.
pub(super) struct Outgoing {
    pub(super) url: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Posted; without one it is a `GET`.
    pub(super) body: Option<Arc<str>>,
}

/// What a server says.
enum Said {
    Head(StatusCode, HeaderMap),
    Bytes(Vec<u8>),
    End,
}

impl Http {
    pub(super) fn new(proxy: Option<Proxy>) -> Self {
        Http { timeouts: Timeouts::default(), proxy, roots: None, kept: Arc::default() }
    }

    /// Sends the request on a thread of its own.
    pub(super) fn send(&self, outgoing: Outgoing) -> Result<Exchange, Trouble> {
        let agent = lock(&self.kept).pop().unwrap_or_else(|| self.agent());
        let (sender, receiver) = sync_channel(PIECES);
        let of_thread = agent.clone();
        let work = move || {
            let end = talk(&of_thread, &outgoing, &sender).map(|()| Said::End);
            // Nobody may be listening any more.
            let _ = sender.send(end);
        };
        thread::Builder::new().name("agentkit-http".to_owned()).spawn(work).map_err(Trouble::NoThread)?;
        let now = Instant::now();
        Ok(Exchange {
            timeouts: self.timeouts,
            kept: Arc::clone(&self.kept),
            agent: Some(agent),
            receiver,
            started: now,
            heard: None,
            has_ended: false,
        })
    }

    fn agent(&self) -> Agent {
        let Timeouts { connect, first_byte, .. } = self.timeouts;
        let tls = TlsConfig::builder().root_certs(self.roots.clone().unwrap_or(RootCerts::WebPki));
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect would take the key to wherever it leads.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(self.proxy.clone())
            .tls_config(tls.build())
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .timeout_recv_response(Some(first_byte));
        config.build().new_agent()
    }
}

/// The certificates of authorities in a PEM file.
pub(super) fn roots(file: &Path) -> Result<RootCerts, String> {
    let pem = std::fs::read(file).map_err(|error| error.to_string())?;
    let items = parse_pem(&pem).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let certificates: Vec<_> = items
        .into_iter()
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    match certificates.len() {
        0 => Err("there is no certificate in it; it has to be a PEM file".to_owned()),
        _ => Ok(RootCerts::new_with_certs(&certificates)),
    }
}

fn talk(
    agent: &Agent,
    outgoing: &Outgoing,
    sender: &SyncSender<Result<Said, ureq::Error>>,
) -> Result<(), ureq::Error> {
    let Outgoing { url, headers, body } = outgoing;
    let answer = match body {
        Some(body) => with(headers, agent.post(url)).send(&**body),
        None => with(headers, agent.get(url)).call(),
    };
    let (head, body) = answer?.into_parts();
    let mut is_heard = sender.send(Ok(Said::Head(head.status, head.headers))).is_ok();
    let mut reader = body.into_reader();
    while is_heard {
        let mut piece = vec![0; PIECE];
        let length = reader.read(&mut piece).map_err(ureq::Error::from)?;
        if length == 0 {
            break;
        }
        piece.truncate(length);
        is_heard = sender.send(Ok(Said::Bytes(piece))).is_ok();
    }
    Ok(())
}

fn with<B>(headers: &[(HeaderName, HeaderValue)], request: RequestBuilder<B>) -> RequestBuilder<B> {
    headers.iter().fold(request, |request, (name, value)| request.header(name, value))
}

/// A request that is under way.
pub(super) struct Exchange {
    timeouts: Timeouts,
    kept: Arc<Mutex<Vec<Agent>>>,
    agent: Option<Agent>,
    receiver: Receiver<Result<Said, ureq::Error>>,
    started: Instant,
    /// When the last byte came.
    heard: Option<Instant>,
    has_ended: bool,
}

impl Exchange {
    /// The beginning of the answer.
    pub(super) fn head(&mut self, context: &Context) -> Result<(StatusCode, HeaderMap), Trouble> {
        loop {
            if let Said::Head(status, headers) = self.next(context)? {
                return Ok((status, headers));
            }
        }
    }

    /// The next piece of the body, or its end.
    pub(super) fn piece(&mut self, context: &Context) -> Result<Option<Vec<u8>>, Trouble> {
        match self.next(context)? {
            Said::Bytes(bytes) => Ok(Some(bytes)),
            Said::Head(..) | Said::End => Ok(None),
        }
    }

    fn next(&mut self, context: &Context) -> Result<Said, Trouble> {
        loop {
            // Also between bytes that never stop coming.
            self.check(context)?;
            match self.receiver.recv_timeout(LOOK) {
                Ok(said) => return self.hear(said),
                // The thread says how it ended, unless it panicked.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Trouble::Transport(io::Error::other("the HTTP library panicked").into()));
                }
                Err(RecvTimeoutError::Timeout) => self.check_idle()?,
            }
        }
    }

    fn hear(&mut self, said: Result<Said, ureq::Error>) -> Result<Said, Trouble> {
        self.heard = Some(Instant::now());
        let Timeouts { connect, first_byte, .. } = self.timeouts;
        let said = said.map_err(|error| match error {
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                Trouble::Late(Limit::Connect, connect)
            }
            ureq::Error::Timeout(Timeout::RecvResponse) => Trouble::Late(Limit::FirstByte, first_byte),
            other => Trouble::Transport(other),
        })?;
        self.has_ended = matches!(said, Said::End);
        Ok(said)
    }

    fn check(&self, context: &Context) -> Result<(), Trouble> {
        let total = self.timeouts.total;
        if context.cancel().is_cancelled() || context.remaining().is_some_and(|left| left.is_zero()) {
            return Err(Trouble::Over);
        }
        if self.started.elapsed() >= total {
            return Err(Trouble::Late(Limit::Total, total));
        }
        Ok(())
    }

    fn check_idle(&self) -> Result<(), Trouble> {
        let idle = self.timeouts.idle;
        match self.heard {
            Some(heard) if heard.elapsed() >= idle => Err(Trouble::Late(Limit::Idle, idle)),
            _ => Ok(()),
        }
    }

    /// Nothing that comes from here on matters, except whether it ends, which frees the connection for others.
    pub(super) fn leave(mut self) {
        let until = Instant::now() + LINGER;
        while !self.has_ended {
            let left = until.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left) {
                Ok(Ok(said)) => self.has_ended = matches!(said, Said::End),
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(agent) = self.agent.take() else { return };
        if !self.has_ended {
            // Cuts the connection, which ends the thread.
            return agent.shutdown();
        }
        let mut kept = lock(&self.kept);
        if kept.len() < MAX_KEPT {
            kept.push(agent);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
