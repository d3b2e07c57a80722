//! Systems without a mechanism: every question gets an honest no, and nothing runs.

use crate::Outcome;
use crate::cli::{Caller, PolicyFrom};
use crate::error::{Result, failure};
use crate::input::{Source, Stdin};
use crate::report::Reporter;
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Choice, Failure, FailureKind, Probe};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

fn no_mechanism() -> Failure {
    let message = format_args!("agentkit-jail has no mechanism for {} yet", std::env::consts::OS);
    failure(FailureKind::Host, "mechanism", message)
}

fn standard_input() -> Result<OwnedFd> {
    io::stdin().as_fd().try_clone_to_owned().map_err(|error| failure(FailureKind::Host, "input", error))
}

pub(crate) fn sanitize(caller: Caller) -> Result<(Reporter, Source)> {
    match caller {
        Caller::Client => Ok((client_reporter()?, Source::Client)),
        Caller::Script { policy: PolicyFrom::Stdin, .. } => Ok((Reporter::stderr(), Source::Stdin)),
        Caller::Script { policy: PolicyFrom::Flags(policy), .. } => {
            Ok((Reporter::stderr(), Source::Flags(policy)))
        }
        Caller::Script { .. } => Err(no_mechanism()),
    }
}

/// The signals that matter to a command are not touched where none runs.
pub(crate) fn prepare_process() -> Result<()> {
    Ok(())
}

pub(crate) fn client_reporter() -> Result<Reporter> {
    standard_input().map(Reporter::client)
}

/// The client's socket on standard input.
#[derive(Default)]
pub(crate) struct ClientSocket(());

impl Read for ClientSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::stdin().lock().read(buffer)
    }
}

impl ClientSocket {
    pub(crate) fn into_descriptor(self) -> Option<OwnedFd> {
        None
    }
}

pub(crate) fn launch(_plan: &Plan, _stdin: Stdin, _reporter: &mut Reporter) -> Result<Outcome> {
    Err(no_mechanism())
}

pub(crate) fn probe(_choice: Choice) -> Capabilities {
    Capabilities::unavailable(no_mechanism())
}

pub(crate) fn probe_each(choice: Choice) -> Probe {
    Probe { best: probe(choice), each: BTreeMap::new() }
}
