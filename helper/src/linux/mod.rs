//! Linux: what every mechanism needs, one file a step, and the mechanisms, each in a folder of its own.

#![cfg_attr(
    not(feature = "namespaces"),
    allow(
        dead_code,
        unused_imports,
        reason = "a build without the best mechanism has calls and steps that only that one needs"
    )
)]

#[cfg(not(any(with_namespaces, without_namespaces)))]
compile_error!(
    "the jail needs a mechanism: build it with the feature `namespaces`, `bubblewrap`, `landlock` or `rlimits`"
);

mod asked;
#[cfg(without_namespaces)]
mod attributes;
#[cfg(feature = "bubblewrap")]
mod bubblewrap;
mod cgroup;
mod claims;
#[cfg(with_namespaces)]
mod closed;
mod cpu;
mod descriptors;
mod disk;
#[cfg(with_namespaces)]
mod enclosed;
mod exec;
mod follow;
mod forks;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod git;
mod identity;
mod jail;
#[cfg(feature = "landlock")]
mod landlock;
mod layers;
mod limits;
mod look;
mod mechanism;
mod memory;
mod message;
mod modes;
mod mount_table;
#[cfg(feature = "namespaces")]
mod namespaces;
mod overlay;
mod own_changes;
#[cfg(with_namespaces)]
mod own_files;
mod owner_map;
mod pace;
mod privileges;
mod probe;
mod proc_files;
mod program;
mod pty;
mod read_back;
mod reap;
mod relay;
mod resolve;
#[cfg(feature = "rlimits")]
mod rlimits;
mod sanitize;
mod seccomp;
#[cfg(with_namespaces)]
mod second_wall;
mod shared;
mod signals;
mod sockets;
mod supervise;
mod sys;
mod task;
mod tree;
mod usage;
mod vfork;
mod view;
mod watch;
#[cfg(without_namespaces)]
mod without_namespaces;
mod workdir;

pub(crate) use crate::client_socket::ClientSocket;
pub(crate) use crate::sanitize::{client_reporter, sanitize};
#[cfg(feature = "bubblewrap")]
pub(crate) use bubblewrap::go_on_inside;
pub(crate) use probe::{probe, probe_each};
pub(crate) use sanitize::{close_all_but_streams_and, prepare_process};
pub(crate) use sys::{adopt, started_with_privilege};

use crate::Outcome;
use crate::deadline;
use crate::error::{Context, Result};
use crate::input::Stdin;
use crate::report::Reporter;
use crate::validate::Plan;
use agentkit_protocol::Event;
use program::{Program, Surroundings};
use pty::Terminal;
use std::os::fd::AsFd;
use task::Command;
use workdir::WorkPath;

/// Runs the command of a plan; returns when it and everything it left behind is dead.
pub(crate) fn launch(plan: &Plan, stdin: Stdin, reporter: &mut Reporter) -> Result<Outcome> {
    let workdir = WorkPath::find(plan)?;
    let rules = view::find_all(&plan.rules, &workdir)?;
    let around = Surroundings::of_this_process(&workdir, &rules, plan)?;
    let program = Program::find(&plan.argv, &around)?;
    let terminal = if plan.tty { Some(Terminal::of_caller()?) } else { None };
    let lifeline = match reporter {
        Reporter::Client(socket) => {
            Some(socket.as_fd().try_clone_to_owned().context("supervise", "duplicate the lifeline")?)
        }
        Reporter::Script(_) => None,
    };
    let command = Command { stdin, from_client: lifeline.is_some(), terminal };
    mechanism::run(plan, &workdir, rules, Some(&program), Some(command), lifeline.as_ref(), |started| {
        reporter.send(&Event::Started(started));
    })
}
