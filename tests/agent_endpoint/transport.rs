//! Time-outs, proxies, certificates and the paths of Azure.

use super::request::read_request;
use super::server::{Answer, KEY, NoWaiting, Server, answer, ask_as, good, reply, stream};
use agentkit_agent::model::openai::{OpenAi, Timeouts};
use agentkit_agent::model::{ModelError, Reply, Request};
use agentkit_agent::{Cancel, Context, Model, NoEvents};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(600);

/// What each attempt came to, when all four failed.
fn failure(answer: impl Fn() -> Answer, timeouts: Timeouts) -> String {
    let ask = |_| ask_as((0..4).map(|_| answer()).collect(), None, "hi", |model| model.timeouts(timeouts));
    // A client that gets no processor for so long may be too late to send anything.
    let asked = (0..10).map(ask).find(|asked| asked.requests.len() == 4).expect("four requests");
    asked.message().to_owned()
}

#[test]
fn each_time_out_is_one_of_its_own() {
    let long = Timeouts { connect: LONG, first_byte: LONG, idle: LONG, total: LONG };
    let started = Instant::now();
    let message = failure(|| Answer::Stall, Timeouts { first_byte: SHORT, ..long });
    assert!(message.contains("timeout: first byte: there was no answer within 100ms"), "{message}");
    let message = failure(|| Answer::Unended(stream(&[])), Timeouts { idle: SHORT, ..long });
    assert!(message.contains("timeout: idle: nothing came for 100ms"), "{message}");
    let alive = || Answer::Endless(stream(&[]), b": ping\n\n");
    let message = failure(alive, Timeouts { idle: LONG, total: SHORT, ..long });
    assert!(message.contains("timeout: total: the answer was not complete after 100ms"), "{message}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn what_keeps_a_stream_alive_resets_the_idle_clock_only() {
    // The server says something every few milliseconds, and the total is more than what may be idle.
    let timeouts = Timeouts {
        idle: Duration::from_millis(1_000),
        total: Duration::from_millis(1_500),
        ..Timeouts::default()
    };
    let why = |_| {
        let answers = vec![Answer::Endless(stream(&[]), b":\n"), good()];
        let asked = ask_as(answers, None, "hi", |model| model.timeouts(timeouts));
        format!("{:?}: {:?}", asked.result.map(|reply| reply.text), asked.events)
    };
    // A server that gets no processor for so long falls silent: then it is not to blame.
    let tries: Vec<String> = (0..10).map(why).take_while(|why| !why.contains("timeout: total")).collect();
    assert!(tries.len() < 10, "{tries:?}");
}

#[test]
fn encryption_that_never_comes_about_is_no_connection() {
    // It accepts, by the backlog of the operating system, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let url = format!("https://{}", silent.local_addr().expect("an address"));
    let timeouts = Timeouts { connect: SHORT, ..Timeouts::default() };
    let model = OpenAi::new("m", &url, None).expect("usable").timeouts(timeouts);
    let error = reply(&model.waiter(Arc::new(NoWaiting::default())), "hi").expect_err("no connection");
    assert!(error.message.contains("timeout: connect: there was no connection within 100ms"), "{error}");
}

#[test]
fn a_cancellation_cuts_the_connection() {
    let server = Server::start(vec![Answer::Stall]);
    let model = OpenAi::new("m", &server.url(), None).expect("usable");
    let cancel = Cancel::new();
    let context = Context::new(None, cancel.clone(), Arc::new(NoEvents));
    let asking = std::thread::spawn(move || model.reply(&context, &Request { messages: &[], tools: &[] }));
    while server.requests().is_empty() {
        std::thread::yield_now();
    }
    cancel.cancel();
    let error = asking.join().expect("no panic").expect_err("cancelled");
    assert!(error.message.contains("out of time or cancelled"), "{error}");
    // Waits for the server, which waits for the client to go away.
    drop(server);
}

#[test]
fn a_cancellation_ends_a_wait_between_attempts() {
    let limited = answer("429 Too Many Requests", "retry-after: 200\r\n", "");
    let server = Server::start(vec![limited]);
    let model = OpenAi::new("m", &server.url(), None).expect("usable");
    let (cancel, retrying) = (Cancel::new(), Arc::new(super::server::Events::default()));
    let context = Context::new(None, cancel.clone(), Arc::clone(&retrying) as _);
    let asking = std::thread::spawn(move || model.reply(&context, &Request { messages: &[], tools: &[] }));
    while retrying.0.lock().expect("lock").is_empty() {
        std::thread::yield_now();
    }
    let cancelled = Instant::now();
    cancel.cancel();
    assert!(asking.join().expect("no panic").is_err());
    assert!(cancelled.elapsed() < Duration::from_secs(10), "{:?}", cancelled.elapsed());
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_redirect_is_shown_and_not_followed() {
    let elsewhere = Server::start(vec![good()]);
    let moved = format!("location: {}/{KEY}\r\n", elsewhere.url());
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let asked = ask_as(vec![answer(status, &moved, ""), good()], None, "hi", |model| model);
        let message = asked.message();
        assert!(
            message.contains(&format!("status {status}")) && message.contains(&elsewhere.url()),
            "{message}"
        );
        assert!(message.contains("is not followed") && !message.contains(KEY), "{message}");
        assert_eq!(asked.requests.len(), 1);
    }
    assert!(elsewhere.requests().is_empty(), "the key stays here");
}

#[test]
fn a_deployment_of_azure_has_its_own_path_and_header() {
    for end in ["/", "/chat/completions"] {
        let server = Server::start(vec![good()]);
        let base = format!("{}/openai/deployments/d{end}?api-version=2024-10-21", server.url());
        reply(&OpenAi::new("m", &base, Some(KEY)).expect("usable"), "hi").expect("a reply");
        let request = server.requests()[0].to_lowercase();
        assert!(
            request.starts_with("post /openai/deployments/d/chat/completions?api-version=2024-10-21 "),
            "{request}"
        );
        assert!(
            request.contains(&format!("\r\napi-key: {KEY}\r\n")) && !request.contains("authorization"),
            "{request}"
        );
    }
    for base in ["http://a/?api-version=1", "http://a/d?api-version=1&key=secret", "http://a/d?api-version="]
    {
        let error = OpenAi::new("m", base, None).expect_err(base).message;
        assert!(error.starts_with("the base URL cannot be used") && !error.contains("secret"), "{error}");
    }
}

/// A server on loopback for one connection, and where it is.
fn serve(talk: impl FnOnce(std::net::TcpStream) + Send + 'static) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("an address").to_string();
    (address, std::thread::spawn(move || talk(listener.accept().expect("a connection").0)))
}

fn good_bytes() -> Vec<u8> {
    match good() {
        Answer::Bytes(bytes) => bytes,
        _ => unreachable!("it is bytes"),
    }
}

#[test]
fn a_proxy_is_asked_for_a_tunnel_and_gets_no_key() {
    let (address, proxy) = serve(|mut stream| {
        let asked = read_request(&stream).expect("a request for a tunnel");
        assert!(asked.starts_with("CONNECT endpoint.invalid:80 HTTP/1.1\r\n"), "{asked}");
        // `user:pass` in base 64.
        assert!(asked.contains("Basic dXNlcjpwYXNz") && !asked.contains(KEY), "{asked}");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("sent");
        let request = read_request(&stream).expect("a request");
        assert!(request.starts_with("POST /v1/chat/completions ") && request.contains(KEY), "{request}");
        stream.write_all(&good_bytes()).expect("sent");
    });
    let model = OpenAi::new("m", "http://endpoint.invalid", Some(KEY)).expect("usable");
    let model = model.proxy(Some(&format!("http://user:pass@{address}"))).expect("usable");
    assert!(!format!("{model:?}").contains("pass"), "{model:?}");
    assert_eq!(reply(&model, "hi").map(|reply| reply.text), Ok("hello".to_owned()));
    proxy.join().expect("the proxy saw what it had to see");
    let refused = model.proxy(Some("gopher://user:secret@host")).expect_err("no such proxy");
    assert!(!refused.message.contains("secret"), "{refused}");
}

const CERTIFICATE: &[u8] = include_bytes!("tls/server.pem");
const ITS_KEY: &[u8] = include_bytes!("tls/server.key");
const AUTHORITY: &[u8] = include_bytes!("tls/authority.pem");

/// Asks a server that has the test certificate.
fn over_tls(set_up: impl FnOnce(OpenAi) -> OpenAi) -> Result<Reply, ModelError> {
    let (address, server) = serve(|stream| {
        let certificates = CertificateDer::pem_slice_iter(CERTIFICATE);
        let certificates = certificates.collect::<Result<_, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_slice(ITS_KEY).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .expect("usable");
        let connection = rustls::ServerConnection::new(Arc::new(config)).expect("a connection");
        let mut tls = rustls::StreamOwned::new(connection, stream);
        let mut request = Vec::new();
        // A client that does not trust the certificate goes away.
        while !request.ends_with(b"}") {
            let mut byte = [0];
            if tls.read_exact(&mut byte).is_err() {
                return;
            }
            request.push(byte[0]);
        }
        let _ = tls.write_all(&good_bytes());
        let _ = tls.flush();
    });
    let model = OpenAi::new("m", &format!("https://{address}"), Some(KEY)).expect("usable");
    let result = reply(&set_up(model), "hi");
    server.join().expect("no panic");
    result
}

#[test]
fn only_authorities_it_is_told_to_trust_are_trusted() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("authority.pem"), AUTHORITY).expect("written");
    std::fs::write(file("server.key"), ITS_KEY).expect("written");
    let trusted = over_tls(|model| model.trust(&file("authority.pem")).expect("usable"));
    assert_eq!(trusted.map(|reply| reply.text), Ok("hello".to_owned()));
    // The server takes one connection: a second attempt would be another error.
    let error = over_tls(|model| model).expect_err("nobody knows it");
    assert!(error.message.contains("UnknownIssuer"), "{error}");
    let model = || OpenAi::new("m", "https://127.0.0.1:1", None).expect("usable");
    for (name, why) in [("server.key", "there is no certificate in it"), ("none.pem", "No such file")] {
        let error = model().trust(&file(name)).expect_err(name).message;
        assert!(error.contains(name) && error.contains(why), "{error}");
    }
}
