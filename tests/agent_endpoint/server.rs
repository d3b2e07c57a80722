//! A server that answers one request after the other as it is told, and what came of asking it.

use crate::request::read_request;
use agentkit_agent::model::openai::OpenAi;
use agentkit_agent::model::retry::Waiter;
use agentkit_agent::model::{Message, Reply, Request};
use agentkit_agent::{AgentEvent, Cancel, Context, EventSink, Model, ModelError};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const KEY: &str = "sk-test-0123456789abcdef";

/// What the server does with one connection.
pub(crate) enum Answer {
    /// Sends these bytes and closes.
    Bytes(Vec<u8>),
    /// Sends these bytes and says no more until the client gives up.
    Unended(Vec<u8>),
    /// Sends the first bytes, then the second time and again until the client gives up.
    Endless(Vec<u8>, &'static [u8]),
    /// Closes without a word.
    Close,
    /// Says nothing until the client gives up.
    Stall,
    /// Says nothing until the test ends.
    StallUntil(Receiver<()>),
}

pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
    Answer::Bytes([head.as_bytes(), body.as_bytes()].concat())
}

pub(crate) fn json_answer(status: &str, body: &str) -> Answer {
    answer(status, "content-type: application/json\r\n", body)
}

pub(crate) fn good() -> Answer {
    json_answer("200 OK", r#"{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#)
}

/// A stream of these events, as far as they go.
pub(crate) fn stream(events: &[&str]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let events = events.iter().map(|data| format!("data: {data}\n\n"));
    [head.to_owned()].into_iter().chain(events).collect::<String>().into_bytes()
}

/// Answers one connection after the other and keeps what was sent.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    thread: Option<JoinHandle<()>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        let thread = std::thread::spawn(move || {
            for answer in answers {
                let Ok((stream, _)) = listener.accept() else { return };
                let Some(request) = read_request(&stream) else { return };
                // Before the answer: once the client has that, the test may look.
                kept.lock().expect("lock").push(request);
                respond(stream, answer);
            }
        });
        Server { address, thread: Some(thread), requests }
    }

    /// Gives these answers, one after the other, on the first connection.
    pub(crate) fn on_one_connection(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        let thread = std::thread::spawn(move || {
            let Ok((mut stream, _)) = listener.accept() else { return };
            for answer in answers {
                let Some(request) = read_request(&stream) else { return };
                kept.lock().expect("lock").push(request);
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        Server { address, thread: Some(thread), requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("lock").clone()
    }
}

impl Server {
    /// What was asked, once all of it was read: the server may be behind a client that does not wait for it.
    fn finish(mut self) -> Vec<String> {
        self.stop();
        self.requests()
    }

    fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // Wakes a server that still waits for connections: one without a request ends it.
        drop(TcpStream::connect(self.address));
        let _ = thread.join();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn respond(mut stream: TcpStream, answer: Answer) {
    match answer {
        // The client may have gone away meanwhile; that is its right.
        Answer::Bytes(bytes) => drop(stream.write_all(&bytes)),
        Answer::Unended(bytes) => {
            drop(stream.write_all(&bytes));
            drop(stream.read(&mut [0]));
        }
        Answer::Endless(bytes, more) => {
            let mut sent = stream.write_all(&bytes);
            let (_never, pause) = channel::<()>();
            while sent.is_ok() {
                // Slow enough that no bound on bytes is reached.
                let _ = pause.recv_timeout(Duration::from_millis(2));
                sent = stream.write_all(more);
            }
        }
        Answer::Close => {}
        Answer::Stall => drop(stream.read(&mut [0])),
        Answer::StallUntil(end) => drop(end.recv()),
    }
}

/// Notes the waits instead of waiting.
#[derive(Default)]
pub(crate) struct NoWaiting {
    pub(crate) waits: Mutex<Vec<Duration>>,
}

impl Waiter for NoWaiting {
    fn sleep(&self, duration: Duration, _cancel: &Cancel) {
        self.waits.lock().expect("lock").push(duration);
    }

    fn jitter(&self) -> f64 {
        0.5
    }

    fn date(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(784_111_777 - 20)
    }
}

#[derive(Default)]
pub(crate) struct Events(pub(crate) Mutex<Vec<AgentEvent>>);

impl EventSink for Events {
    fn emit(&self, event: AgentEvent) {
        self.0.lock().expect("lock").push(event);
    }
}

/// What came of asking a server.
pub(crate) struct Asked {
    pub(crate) result: Result<Reply, ModelError>,
    pub(crate) requests: Vec<String>,
    pub(crate) waits: Vec<u128>,
    pub(crate) events: Vec<AgentEvent>,
}

impl Asked {
    pub(crate) fn message(&self) -> &str {
        &self.result.as_ref().expect_err("it failed").message
    }
}

pub(crate) fn reply(model: &OpenAi, prompt: &str) -> Result<Reply, ModelError> {
    let messages = [Message::User(prompt.to_owned())];
    model.reply(&Context::detached(), &Request { messages: &messages, tools: &[] })
}

pub(crate) fn ask(answers: Vec<Answer>) -> Asked {
    ask_within(answers, None, "hi")
}

pub(crate) fn ask_within(answers: Vec<Answer>, budget: Option<Duration>, prompt: &str) -> Asked {
    ask_as(answers, budget, prompt, |model| model)
}

/// With a client that is set up like this.
pub(crate) fn ask_as(
    answers: Vec<Answer>,
    budget: Option<Duration>,
    prompt: &str,
    set_up: impl FnOnce(OpenAi) -> OpenAi,
) -> Asked {
    let server = Server::start(answers);
    let (waiter, events) = (Arc::new(NoWaiting::default()), Arc::new(Events::default()));
    let model = OpenAi::new("m", &server.url(), Some(KEY)).expect("usable");
    let model = set_up(model.waiter(Arc::clone(&waiter) as Arc<dyn Waiter>));
    let deadline = budget.map(|budget| Instant::now() + budget);
    let context = Context::new(deadline, Cancel::default(), Arc::clone(&events) as Arc<dyn EventSink>);
    let messages = [Message::User(prompt.to_owned())];
    let result = model.reply(&context, &Request { messages: &messages, tools: &[] });
    let waits = waiter.waits.lock().expect("lock").iter().map(Duration::as_millis).collect();
    let events = events.0.lock().expect("lock").clone();
    Asked { result, requests: server.finish(), waits, events }
}
