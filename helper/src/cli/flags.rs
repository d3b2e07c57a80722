//! Every flag, once: help, manual and completions say what stands here.

use super::call::Call;
use super::profile;
use super::units;
use super::values::{commit, controls, descriptor, known, rule, variable, work_dir};
use agentkit_protocol::{Access, Control, Policy};
use std::ffi::OsStr;

/// One flag.
pub(super) struct Flag {
    pub(super) name: &'static str,
    /// What its value is; empty if it takes none.
    pub(super) value: &'static str,
    /// For people.
    pub(super) help: &'static str,
    pub(super) set: Set,
}

/// What a flag changes. One without a value is given an empty one.
pub(super) enum Set {
    /// The policy, which then comes from nowhere else.
    Policy(fn(&mut Policy, &OsStr) -> Result<(), String>),
    /// How it is read, and what is done with it.
    Call(fn(&mut Call, &str) -> Result<(), String>),
}

use Set::{Call as OfCall, Policy as OfPolicy};

/// In the order of the help, which is also the order in which they are applied: a profile is what the others change.
#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag("--profile", "NAME", profile::HELP, OfPolicy(profile::choose)),
    flag("--workdir", "DIR[:MODE]", "work in DIR: bind writes there (default), overlay keeps changes apart, scratch is empty", OfPolicy(work_dir)),
    flag("--commit", "WHEN", "with overlay: never (default), on_success or always write the changes to DIR", OfPolicy(commit)),
    flag("--ro", "PATH", "show this path of the host, to be read; of the work dir: work there and change nothing", OfPolicy(|policy, path| rule(policy, path, Access::Ro))),
    flag("--rw", "PATH", "show it, to be read and written", OfPolicy(|policy, path| rule(policy, path, Access::Rw))),
    flag("--hide", "PATH", "hide it where something around it is shown", OfPolicy(|policy, path| rule(policy, path, Access::Hide))),
    flag("--tmpfs", "PATH", "show an empty private directory there", OfPolicy(|policy, path| rule(policy, path, Access::Tmpfs))),
    flag("--env", "NAME[=VALUE]", "set a variable of the command; without VALUE, to the caller's", OfPolicy(variable)),
    flag("--net", "WHAT", "loopback (default): one of its own; none; or host: all that you can reach", OfPolicy(|policy, what| known(what).map(|it| policy.net = it))),
    flag("--proc", "WHAT", "of /proc: processes, or full for ps, free and runtimes", OfPolicy(|policy, what| known(what).map(|it| policy.proc = it))),
    flag("--wall", "TIME", "wall-clock time: 10s, 5m", OfPolicy(|policy, time| units::milliseconds(time).map(|it| policy.limits.wall_ms = it))),
    flag("--cpu", "TIME", "processor time of everything together", OfPolicy(|policy, time| units::seconds(time).map(|it| policy.limits.cpu_seconds = it))),
    flag("--memory", "SIZE", "memory of everything together: 512M, 2G", OfPolicy(|policy, size| units::bytes(size).map(|it| policy.limits.memory = it))),
    flag("--disk", "SIZE", "private files together, and what the work dir gains", OfPolicy(|policy, size| units::bytes(size).map(|it| policy.limits.disk = it))),
    flag("--file-size", "SIZE", "size of a file", OfPolicy(|policy, size| units::bytes(size).map(|it| policy.limits.file_size = it))),
    flag("--processes", "N", "processes and threads at one time, the jail's two included", OfPolicy(|policy, n| units::count(n).map(|it| policy.limits.processes = it))),
    flag("--open-files", "N", "open files of a process", OfPolicy(|policy, n| units::count(n).map(|it| policy.limits.open_files = it))),
    flag("--output", "SIZE", "bytes that pass on each output stream; the rest is counted and thrown away", OfPolicy(|policy, size| units::bytes(size).map(|it| policy.limits.output = Some(it)))),
    flag("--git", "WHAT", "protect (default) names that git executes, or off", OfPolicy(|policy, what| known(what).map(|it| policy.git = it))),
    flag("--require", "CONTROL,...", "run only if these are fully enforced; --probe lists them", OfPolicy(controls)),
    flag("--strict", "", "require network_blocked and filesystem_confined", OfPolicy(|policy, _| { policy.require.extend([Control::NetworkBlocked, Control::FilesystemConfined]); Ok(()) })),
    flag("--mechanism", "NAME", "auto (the best), namespaces, bubblewrap, landlock, seatbelt; or rlimits (files open)", OfPolicy(|policy, name| known(name).map(|it| policy.mechanism = it))),
    flag("--tty", "", "on a terminal: give the command one of its own, of the same size", OfCall(|call, _| { call.tty = true; Ok(()) })),
    flag("--policy-fd", "N", "read the policy from descriptor N, in place of flags that make one", OfCall(|call, n| descriptor(n).map(|it| call.policy_fd = Some(it)))),
    flag("--report-fd", "N", "write the report to descriptor N, one JSON object a line", OfCall(|call, n| descriptor(n).map(|it| call.report_fd = Some(it)))),
    flag("--print-policy", "", "print the policy that the flags make, and run nothing", OfCall(|call, _| { call.print_policy = true; Ok(()) })),
    flag("--probe", "", "try the complete set-up and print what this host enforces", OfCall(|call, _| { call.probe = true; Ok(()) })),
    flag("--json", "", "with --probe: as JSON", OfCall(|call, _| { call.json = true; Ok(()) })),
    flag("--client", "", "speak frames with a client on standard input, and end with it", OfCall(|call, _| { call.client = true; Ok(()) })),
    flag("--help", "", "print this", OfCall(|call, _| { call.help = true; Ok(()) })),
    flag("--version", "", "print the version", OfCall(|call, _| { call.version = true; Ok(()) })),
];

const fn flag(name: &'static str, value: &'static str, help: &'static str, set: Set) -> Flag {
    Flag { name, value, help, set }
}
