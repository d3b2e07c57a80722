//! The client library: in a process that lives long, and in one that is killed.

use agentkit_client::{Cancel, Error, Helper, Outcome, Sandbox};
use agentkit_protocol::Policy;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One launch as a program makes it that uses the library and requires nothing.
pub(crate) fn run(helper: &Path, policy: &Policy, cancel: &Cancel) -> Result<Outcome, Error> {
    let mut builder = Sandbox::builder()
        .helper(Helper::Path(helper.to_owned()))
        .limits(policy.limits.clone())
        .workdir(policy.workdir.clone())
        .proc_files(policy.proc);
    for rule in &policy.rules {
        builder = builder.rule(OsStr::from_bytes(&rule.path.0), rule.access);
    }
    let sandbox = builder.build()?;
    let mut command =
        sandbox.command(policy.argv.iter().map(|word| OsStr::from_bytes(&word.0))).cancel(cancel);
    for (name, value) in &policy.env {
        command = command.env(name, OsStr::from_bytes(&value.0));
    }
    for (name, contents) in &policy.files {
        command = command.file(name, contents.0.clone());
    }
    command.run()
}
