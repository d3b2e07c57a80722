//! A helper that confines nothing and does what the first word of the command says.

use agentkit_client::{
    Bytes, Capabilities, Ended, EndedBy, Failure, FailureKind, Helper, Mechanism, Sandbox, Started, Usage,
};
use agentkit_protocol::{Event, Policy, ReadBack, VERSION, frame};
use nix::sys::signal::{Signal, raise};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn main() -> ExitCode {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().expect("stdin"));
    let name = std::env::args().next().expect("a name");
    match Path::new(&name).file_name().and_then(|name| name.to_str()) {
        Some("hang") => hang(),
        Some("die") => return die(),
        Some("refuse-unread") => tell(&mut socket, &Event::Failed(failure())),
        _ => return obey_policy(socket),
    }
    ExitCode::SUCCESS
}

fn obey_policy(mut socket: UnixStream) -> ExitCode {
    let mut first = [0];
    let descriptor = receive(&socket, &mut first);
    let policy: Policy = frame::read(first.chain(&socket)).expect("a policy").expect("a policy");
    let word = |index: usize| String::from_utf8(policy.argv[index].0.clone()).expect("UTF-8");
    match word(0).as_str() {
        "speak" => run(&mut socket, 3, speak),
        "print-environment" => {
            run(&mut socket, 0, || std::env::vars().for_each(|(name, _)| println!("{name}")))
        }
        "print-descriptors" => print_descriptors(socket),
        "copy-stdin" => run(&mut socket, 0, || copy(descriptor.expect("a descriptor"))),
        "hold-stdin" => run(&mut socket, 0, || assert!(descriptor.is_some())),
        "close-stdin" => {
            run(&mut socket, 0, || nix::unistd::close(descriptor.expect("a descriptor")).expect("close"))
        }
        "flood" => run(&mut socket, 0, flood),
        "die" => return die(),
        "start-and-die" => {
            tell(&mut socket, &started());
            raise(Signal::SIGTERM).expect("raise");
        }
        "babble" => socket.write_all(b"Hello, I am no frame at all").expect("write"),
        "end-without-start" => tell(&mut socket, &ended(EndedBy::Exit(0))),
        "end-and-stay" => {
            run(&mut socket, 0, || print!("done"));
            hang();
        }
        "hang" => {
            tell(&mut socket, &started());
            hang();
        }
        "obey" => {
            tell(&mut socket, &started());
            wait_to_be_told(&mut socket, &word(1));
            tell(&mut socket, &ended(EndedBy::Caller));
        }
        "fail-when-told" => {
            wait_to_be_told(&mut socket, &word(1));
            tell(&mut socket, &Event::Failed(failure()));
        }
        "no-door" => run(&mut socket, 0, || {
            let sandbox =
                Sandbox::builder().helper(Helper::OwnExecutable).build().expect("nothing is required");
            println!("{}", sandbox.run(["speak"]).expect_err("a second start"));
        }),
        other => panic!("no such behaviour: {other}"),
    }
    ExitCode::SUCCESS
}

/// Reads the first byte of the policy and the descriptor that came with it.
fn receive(socket: &UnixStream, first: &mut [u8; 1]) -> Option<RawFd> {
    let mut space = nix::cmsg_space!(RawFd);
    let mut buffers = [IoSliceMut::new(first)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut buffers, Some(&mut space), MsgFlags::empty())
        .expect("recvmsg");
    message.cmsgs().expect("control messages").find_map(|control| match control {
        ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
        _ => None,
    })
}

fn run(socket: &mut UnixStream, code: i32, command: impl FnOnce()) {
    tell(socket, &started());
    command();
    io::stdout().flush().expect("flush");
    tell(socket, &ended(EndedBy::Exit(code)));
}

fn speak() {
    println!("to stdout");
    eprintln!("to stderr");
}

/// Lists what this process was given: all that is open but for our copy of the socket and the listing itself.
fn print_descriptors(mut socket: UnixStream) {
    let (ours, mut open) = (socket.as_raw_fd().to_string(), Vec::new());
    for entry in std::fs::read_dir("/proc/self/fd").expect("/proc") {
        let entry = entry.expect("an entry");
        let is_listing = entry.path().read_link().is_ok_and(|target| target.ends_with("fd"));
        open.extend(Some(entry.file_name()).filter(|name| !is_listing && *name != *ours));
    }
    run(&mut socket, 0, || open.iter().for_each(|name| println!("{}", name.display())));
}

fn copy(descriptor: RawFd) {
    let mut stdin = File::open(format!("/dev/fd/{descriptor}")).expect("the passed descriptor");
    nix::unistd::close(descriptor).expect("close");
    io::copy(&mut stdin, &mut io::stdout()).expect("copy");
}

fn flood() {
    let megabyte = vec![b'x'; 1 << 20];
    let mut stdout = File::from(io::stdout().as_fd().try_clone_to_owned().expect("stdout"));
    (0..200).for_each(|_| stdout.write_all(&megabyte).expect("write"));
}

fn wait_to_be_told(socket: &mut UnixStream, meeting: &str) {
    drop(UnixStream::connect(meeting).expect("the test listens"));
    assert_eq!(socket.read(&mut [0]).expect("the lifeline"), 0);
}

fn die() -> ExitCode {
    eprintln!("boom\nbang");
    ExitCode::from(9)
}

/// Until it is killed.
fn hang() {
    loop {
        std::thread::park();
    }
}

fn tell(socket: &mut UnixStream, event: &Event) {
    socket.write_all(&frame::encode(event).expect("encode")).expect("the client listens");
}

fn started() -> Event {
    Event::Started(Started {
        version: VERSION,
        mechanism: Mechanism::Namespaces,
        passed_over: Vec::new(),
        helper: Bytes::from("a test"),
        capabilities: Capabilities::unavailable(failure()),
        read_back: ReadBack::default(),
    })
}

fn ended(ended_by: EndedBy) -> Event {
    Event::Ended(Ended {
        ended_by,
        limits_reached: Vec::new(),
        usage: Usage::default(),
        attempts: Vec::new(),
        changes: None,
        quarantined: Vec::new(),
        unchecked: Vec::new(),
        unwritten: Vec::new(),
    })
}

fn failure() -> Failure {
    Failure { kind: FailureKind::Policy, step: "test".into(), message: "no".into(), errno: None, hint: None }
}
