//! What this host gives: the whole way of a launch, up to the point where the command would be executed.

use super::mechanism::{self, BUILT, leads_on, with_hint};
use super::program::{Program, Surroundings};
use super::sanitize::prepare_process;
use super::sys::{self, Forked};
use super::workdir::WorkPath;
use crate::error::{Context, Hint, Result, failure};
use crate::validate;
use agentkit_protocol::{Capabilities, Choice, Failure, FailureKind, Mechanism, Policy, Probe};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const STEP: &str = "probe";
/// How long one mechanism may take; a launch takes milliseconds.
const LONGEST: Duration = Duration::from_secs(2);

/// Every mechanism for itself, or only the one that is chosen, each in a process of its own: a launch gives up what the next
/// one may need.
pub(crate) fn probe_each(choice: Choice) -> Probe {
    let one = |mechanism| apart(mechanism).map_err(with_hint).unwrap_or_else(Capabilities::unavailable);
    let asked = BUILT.iter().filter(|mechanism| choice == Choice::Auto || choice.allows(**mechanism));
    let each: BTreeMap<_, _> = asked.map(|mechanism| (*mechanism, one(*mechanism))).collect();
    if each.is_empty() {
        return Probe { best: probe(choice), each };
    }
    let mut failures = Vec::new();
    // What a run gets that makes this choice.
    for (mechanism, capabilities) in each.iter().filter(|(mechanism, _)| choice.allows(**mechanism)) {
        match &capabilities.failure {
            Some(failure) => {
                failures.push((*mechanism, failure.clone()));
                if !leads_on(failure) {
                    break;
                }
            }
            None => return Probe { best: after(failures, capabilities.clone()), each },
        }
    }
    Probe { best: Capabilities::unavailable(mechanism::of_all(failures)), each }
}

/// With why no better mechanism works.
fn after(failures: Vec<(Mechanism, Failure)>, found: Capabilities) -> Capabilities {
    let failure = (!failures.is_empty()).then(|| mechanism::of_all(failures));
    Capabilities { failure, ..found }
}

/// With the first of these mechanisms that works.
pub(crate) fn probe(choice: Choice) -> Capabilities {
    whole_way(choice).unwrap_or_else(Capabilities::unavailable)
}

fn whole_way(choice: Choice) -> Result<Capabilities> {
    prepare_process()?;
    // With that a run closes what it has inherited. Nothing is open so far up.
    sys::close_range(i32::MAX, i32::MAX)
        .context(STEP, "close_range")
        .hint("the kernel must be 5.9 or newer")?;
    let plan = validate::plan(Policy { mechanism: choice, ..Policy::new(["true"]) })?;
    let workdir = WorkPath::find(&plan)?;
    // What `PATH` leads to is part of the view of every run.
    let around = Surroundings::of_this_process(&workdir, &[], &plan)?;
    let program = Program::find(&plan.argv, &around).ok();
    let mut found = None;
    mechanism::run(&plan, &workdir, Vec::new(), program.as_ref(), None, None, |started| {
        let failures = started.passed_over.into_iter().map(|it| (it.mechanism, it.failure));
        found = Some(after(failures.collect(), started.capabilities));
    })?;
    found.ok_or_else(|| failure(FailureKind::Host, STEP, "the probe ended without an answer"))
}

fn apart(mechanism: Mechanism) -> Result<Capabilities> {
    let (mut answer, mut tell) = io::pipe().context(STEP, "pipe")?;
    match sys::fork().context(STEP, "fork")? {
        Forked::Child => {
            drop(answer);
            let told = serde_json::to_vec(&probe(mechanism.into())).map(|text| tell.write_all(&text));
            std::process::exit(i32::from(!matches!(told, Ok(Ok(())))))
        }
        Forked::Parent { pid, .. } => {
            drop(tell);
            let text = read_in_time(&mut answer, mechanism);
            let pidfd = sys::open_pidfd(pid).context(STEP, "pidfd_open")?;
            // It has said all, or has not come to it in time.
            drop(sys::signal_process(pidfd.as_fd(), libc::SIGKILL));
            sys::wait_with_usage(pid).context(STEP, "wait")?;
            serde_json::from_slice(&text?).map_err(io::Error::other).context(STEP, "read the answer")
        }
    }
}

fn read_in_time(answer: &mut PipeReader, mechanism: Mechanism) -> Result<Vec<u8>> {
    let operation = format!("try {mechanism}");
    let begin = Instant::now();
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let left = LONGEST.saturating_sub(begin.elapsed());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let ready = poll(&mut [PollFd::new(answer.as_fd(), PollFlags::POLLIN)], timeout);
        if ready.map_err(io::Error::from).context(STEP, &operation)? == 0 {
            // A run waits longer: nothing that a lesser mechanism would have to be promised for.
            let late =
                failure(FailureKind::Host, STEP, format_args!("{operation}: no answer within {LONGEST:?}"));
            return Err(Failure { errno: Some(libc::ETIMEDOUT), ..late });
        }
        match answer.read(&mut buffer).context(STEP, &operation)? {
            0 => return Ok(text),
            length => text.extend_from_slice(buffer.get(..length).unwrap_or_default()),
        }
    }
}
