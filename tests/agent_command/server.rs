//! An endpoint on loopback that answers as told and keeps what it was asked.

use crate::request::read_request;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is done with one request.
pub(crate) enum Answer {
    /// These bytes.
    Bytes(String),
    /// Nothing, until the client goes away.
    Never,
}

/// A text that ends the run.
pub(crate) fn says(text: &str) -> Answer {
    reply(&json!({"role": "assistant", "content": text}), "stop")
}

/// One call of a tool.
pub(crate) fn calls(name: &str, arguments: &Value) -> Answer {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    let call = json!({"id": "call_1", "type": "function", "function": function});
    reply(&json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
}

fn reply(message: &Value, finish: &str) -> Answer {
    let usage = json!({"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100});
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    status("200 OK", "application/json", &json!({"choices": [choice], "usage": usage}).to_string())
}

/// A text in these pieces.
pub(crate) fn streams(pieces: &[&str]) -> Answer {
    let mut body = String::new();
    for piece in pieces {
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": piece}}]});
        body += &format!("data: {chunk}\n\n");
    }
    let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    body += &format!("data: {last}\n\ndata: [DONE]\n\n");
    status("200 OK", "text/event-stream", &body)
}

pub(crate) fn status(status: &str, kind: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Bytes(format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))
}

/// Answers one request after the other.
pub(crate) struct Server {
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
    requests: Receiver<String>,
}

impl Server {
    pub(crate) fn start(answers: Vec<Answer>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (sender, requests) = channel();
        let thread = std::thread::spawn(move || {
            for answer in answers {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let Some(request) = read_request(&stream) else { return };
                if sender.send(request).is_err() {
                    return;
                }
                match answer {
                    // The client may have gone away meanwhile; that is its right.
                    Answer::Bytes(bytes) => drop(stream.write_all(bytes.as_bytes())),
                    Answer::Never => drop(stream.read(&mut [0])),
                }
            }
        });
        Ok(Server { address, thread: Some(thread), requests })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request, as soon as it has come.
    pub(crate) fn request(&self) -> String {
        self.requests.recv_timeout(Duration::from_secs(30)).expect("a request")
    }

    /// The body of the next request.
    pub(crate) fn body(&self) -> Value {
        let request = self.request();
        let body = request.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        serde_json::from_str(body).expect("a JSON body")
    }

    /// Whether a request has come that was not looked at.
    pub(crate) fn was_asked(&self) -> bool {
        self.requests.try_recv().is_ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Wakes a server that still waits: a connection without a request ends it.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
