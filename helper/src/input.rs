//! Reads the policy, bounded, from where the caller put it.

use crate::error::{Context, Hint, Result, failure, policy};
use crate::platform;
use agentkit_protocol::{FailureKind, Policy, frame};
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::fd::OwnedFd;

const STEP: &str = "input";

/// Where the policy comes from.
pub(crate) enum Source {
    /// A client's socket on standard input.
    Client,
    /// A script's standard input.
    Stdin,
    /// The command line of a script.
    Flags(Box<Policy>),
    /// Another descriptor of a script, which may ask for a terminal on its command line too.
    File { file: File, tty: bool },
}

/// What a caller hands over.
pub(crate) struct Input {
    pub(crate) policy: Policy,
    pub(crate) stdin: Stdin,
}

/// What the command has to read.
pub(crate) enum Stdin {
    /// Nothing, so that it finds the end at once.
    Nothing,
    /// What a client passed.
    Passed(OwnedFd),
    /// The caller's own standard input.
    Callers,
}

/// Reads one policy in the encoding that this caller speaks.
pub(crate) fn read(source: Source) -> Result<Input> {
    let input = match source {
        Source::Stdin if std::io::stdin().is_terminal() => {
            return Err(policy("there is no policy on standard input, which is a terminal"))
                .hint("see agentkit-jail --help");
        }
        Source::Stdin => Input { policy: parse(std::io::stdin().lock())?, stdin: Stdin::Nothing },
        Source::Flags(policy) => Input { policy: *policy, stdin: Stdin::Callers },
        Source::File { file, tty } => {
            let mut policy = parse(file)?;
            policy.tty |= tty;
            Input { policy, stdin: Stdin::Callers }
        }
        Source::Client => {
            let mut socket = platform::ClientSocket::default();
            let policy = read_frame(&mut socket)?;
            Input { policy, stdin: socket.into_descriptor().map_or(Stdin::Nothing, Stdin::Passed) }
        }
    };
    if input.policy.tty && !matches!(input.stdin, Stdin::Callers) {
        return Err(policy("tty: the policy cannot come on standard input, which has to be the terminal"));
    }
    Ok(input)
}

/// Reads a policy as a frame or as JSON, told apart by the first byte.
pub(crate) fn parse(mut input: impl Read) -> Result<Policy> {
    let mut first = [0];
    match input.read(&mut first).context(STEP, "read the policy")? {
        0 => Err(policy("there is no policy: the input is empty")),
        _ if first == [frame::MAGIC[0]] => {
            let mut input = first.chain(input);
            let policy = read_frame(&mut input)?;
            nothing_left(input)?;
            Ok(policy)
        }
        _ => read_json(first.chain(input)),
    }
}

fn read_frame(input: impl Read) -> Result<Policy> {
    match frame::read(input) {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(policy("the input ended before a policy came")),
        Err(error) => Err(failure(FailureKind::Policy, STEP, format_args!("the policy frame is {error}"))),
    }
}

/// A script sends one policy: what follows it is a mistake that should not go unnoticed.
fn nothing_left(mut input: impl Read) -> Result<()> {
    match input.read(&mut [0]).context(STEP, "read what follows the policy")? {
        0 => Ok(()),
        _ => Err(policy("bytes are left over after the policy frame")),
    }
}

fn read_json(input: impl Read) -> Result<Policy> {
    let mut text = Vec::new();
    let limit = frame::MAX_PAYLOAD as u64;
    input.take(limit.saturating_add(1)).read_to_end(&mut text).context(STEP, "read the policy")?;
    if text.len() > frame::MAX_PAYLOAD {
        return Err(policy(format_args!("oversized: the JSON policy has more than {limit} bytes")));
    }
    serde_json::from_slice(&text)
        .map_err(|error| policy(format_args!("malformed JSON policy: {error}")))
        .hint("--print-policy prints the policy that flags make; all fields are in docs/policy.md")
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentkit_protocol::VERSION;
    use proptest::prelude::*;

    fn message(input: &[u8]) -> String {
        parse(input).expect_err("must be refused").message
    }

    #[test]
    fn both_encodings_carry_the_same_policy() {
        let policy = Policy::new(["sh", "-c", "exit 3"]);
        let json = serde_json::to_vec(&policy).unwrap();
        let frame = frame::encode(&policy).unwrap();
        assert_eq!(parse(&json[..]).unwrap(), policy);
        assert_eq!(parse(&frame[..]).unwrap(), policy);
        assert_eq!(parse(&b"\n {\"version\":1,\"argv\":[\"sh\",\"-c\",\"exit 3\"]}\n"[..]).unwrap(), policy);
    }

    #[test]
    fn every_truncation_is_refused() {
        let policy = Policy::new(["true"]);
        for whole in [serde_json::to_vec(&policy).unwrap(), frame::encode(&policy).unwrap()] {
            for end in 0..whole.len() {
                assert!(parse(&whole[..end]).is_err(), "the first {end} of {} bytes", whole.len());
            }
        }
    }

    #[test]
    fn wrong_inputs_are_named() {
        assert!(message(b"").contains("empty"));
        assert!(message(b"hello").contains("malformed JSON"));
        assert!(message(b"{\"version\":1,\"argv\":[],\"evil\":1}").contains("evil"));
        assert!(message(b"AKJ\0\x02\x00\0\0\0\0").contains("version 2 is not supported"));
        assert!(message(b"AKJ\0\x01\x00\xff\xff\xff\xff").contains("oversized"));
        assert!(message(b"AKX\0\x01\x00\0\0\0\0").contains("not a frame"));
        let mut trailing = frame::encode(&Policy::new(["true"])).unwrap();
        trailing[6] += 1;
        trailing.push(0);
        assert!(message(&trailing).contains("left over"));
        assert!(message(&vec![b' '; frame::MAX_PAYLOAD + 1]).contains("oversized"));
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = parse(&bytes[..]);
            let mut framed = frame::MAGIC.to_vec();
            framed.extend_from_slice(&VERSION.to_le_bytes());
            framed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            framed.extend_from_slice(&bytes);
            let _ = parse(&framed[..]);
        }
    }
}
