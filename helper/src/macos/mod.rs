//! The `seatbelt` mechanism of macOS, one file a step.
//!
//! ```text
//! agentkit-jail (supervisor: wall clock, looks, report; threads copy the streams)
//!    ├─fork─> keeper (kills the jail if the supervisor is killed)
//!    └─fork─> profile, limits, trial of both ─exec─> the command
//! ```

mod capabilities;
mod child;
mod events;
mod keeper;
mod limits;
mod look;
mod mark;
mod private;
mod profile;
mod program;
mod refuse;
mod relay;
mod sanitize;
mod supervise;
mod sys;
mod view;

pub(crate) use crate::client_socket::ClientSocket;
pub(crate) use crate::sanitize::{client_reporter, sanitize};
pub(crate) use sanitize::{close_all_but_streams_and, prepare_process};
pub(crate) use sys::{adopt, started_with_privilege};

use crate::Outcome;
use crate::error::{Context, Result, failure};
use crate::input::Stdin;
use crate::report::Reporter;
use crate::validate::{self, Plan};
use agentkit_protocol::{Bytes, Capabilities, Choice, FailureKind, GitNames, Mechanism, Net, Policy, Probe};
use child::{Command, Task};
use events::Events;
use keeper::Keeper;
use mark::Mark;
use nix::unistd::getuid;
use private::Private;
use profile::{Access, Profile};
use relay::Relays;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use view::View;

const STEP: &str = "seatbelt";

/// Runs the command of a plan; returns when it and everything it left behind is dead.
pub(crate) fn launch(plan: &Plan, stdin: Stdin, reporter: &mut Reporter) -> Result<Outcome> {
    refuse::what_cannot_be_had(plan)?;
    let mark = Mark::new()?;
    let private = Private::make(&plan.files)?;
    let mut view = View::of(plan, &private)?;
    let program = program::find(plan, &view)?;
    program::grant(&program, &mut view);
    let command = command(plan, &program, &view, &private)?;
    let jail = Jail::new(mark, private, view.access(&view.workdir) == Some(Access::Readable))?;
    let (relays, streams) = Relays::prepare(stdin, plan.limits.output)?;
    let listener = listener()?;
    let task = jail.task(plan, &view, (Some(command), streams, &listener))?;
    let mut ended = supervise::run(&jail, plan, (task, relays), reporter)?;
    ended.unchecked.extend(jail.dissolve());
    Ok(Outcome::Ended(Box::new(ended)))
}

/// The only mechanism there is.
pub(crate) fn probe_each(choice: Choice) -> Probe {
    let best = probe(choice);
    Probe { each: [(Mechanism::Seatbelt, best.clone())].into(), best }
}

/// Goes the whole way of [`launch`] for an empty policy, up to the point where the command would be executed.
pub(crate) fn probe(mechanism: Choice) -> Capabilities {
    let outcome = validate::plan(Policy { mechanism, ..Policy::new(["true"]) }).and_then(|plan| {
        refuse::what_cannot_be_had(&plan)?;
        let mark = Mark::new()?;
        let private = Private::make(&plan.files)?;
        let view = View::of(&plan, &private)?;
        let jail = Jail::new(mark, private, false)?;
        let (_, streams) = Relays::prepare(Stdin::Nothing, None)?;
        let listener = listener()?;
        let task = jail.task(&plan, &view, (None, streams, &listener))?;
        supervise::probe(&jail, &plan, &task)
    });
    outcome.unwrap_or_else(Capabilities::unavailable)
}

/// What exists outside for one run. Dropped, the keeper kills what is in it and removes what is left.
struct Jail {
    keeper: Keeper,
    events: Events,
    mark: Mark,
    private: Private,
    /// Whether the work dir is a host directory that cannot be written.
    workdir_read_only: bool,
}

impl Jail {
    fn new(mark: Mark, private: Private, workdir_read_only: bool) -> Result<Self> {
        // Ignored from here on, which the keeper inherits.
        let events = Events::listen()?;
        let keeper = Keeper::start(&mark, &private)?;
        Ok(Jail { keeper, events, mark, private, workdir_read_only })
    }

    fn task(
        &self,
        plan: &Plan,
        view: &View,
        (command, streams, listener): (Option<Command>, relay::Streams, &TcpListener),
    ) -> Result<Task> {
        let profile = Profile {
            grants: &view.grants,
            spellings: &view.spellings,
            private: &self.private.base,
            protects_git: plan.git == GitNames::Protect && plan.writes_host_files(),
            shares_network: plan.net == Net::Host,
            mark: self.mark.name().to_str().unwrap_or_default(),
        };
        let text = profile.text().map_err(|unsayable| failure(FailureKind::Host, STEP, unsayable))?;
        let present =
            sys::processes_of(getuid().as_raw()).context(STEP, "count the processes of this user")?;
        Ok(Task {
            profile: c_string(text)?,
            command,
            directory: view.workdir.clone(),
            streams,
            limits: plan.limits.clone(),
            present: present.len() as u64,
            canary: self.private.canary.clone(),
            listener: listener.local_addr().context(STEP, "ask for the listener's port")?,
        })
    }

    /// When everything in it is dead. Returns what is left, and why.
    fn dissolve(self) -> Option<String> {
        let Jail { keeper, private, .. } = self;
        let left = private.remove().err();
        keeper.dismiss();
        left.map(|error| {
            format!("{:?}, the jail's own directories, could not be removed: {error}", private.base)
        })
    }
}

/// Nobody may reach it from the jail.
fn listener() -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context(STEP, "listen on the loopback")
}

fn c_string(bytes: impl Into<Vec<u8>>) -> Result<CString> {
    sys::c_string(bytes).context(STEP, "make a C string")
}

fn command(plan: &Plan, program: &Path, view: &View, private: &Private) -> Result<Command> {
    let argv = plan.argv.iter().map(|argument| c_string(argument_inside(plan, argument.to_bytes(), private)));
    let env = environment(plan, view, private).into_iter().map(c_string);
    Ok(Command {
        path: c_string(program.as_os_str().as_bytes())?,
        argv: argv.collect::<Result<_>>()?,
        env: env.collect::<Result<_>>()?,
    })
}

/// There is no private `/tmp` under that name: an argument that is one of the policy's files by its path there names the
/// same file where it is.
fn argument_inside(plan: &Plan, argument: &[u8], private: &Private) -> Vec<u8> {
    let file = plan
        .files
        .iter()
        .find(|(name, _)| argument.strip_prefix(b"/tmp/") == Some(name.as_os_str().as_bytes()));
    let path = file.map(|(name, _)| private.tmp.join(name).into_os_string());
    path.map_or_else(|| argument.to_vec(), |path| path.as_bytes().to_vec())
}

/// What the jail sets, then what the policy adds. Nothing is inherited.
fn environment(plan: &Plan, view: &View, private: &Private) -> Vec<Vec<u8>> {
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let mut variables: BTreeMap<&str, Vec<u8>> = [
        ("HOME", bytes(&private.home)),
        ("LANG", b"en_US.UTF-8".to_vec()),
        ("LOGNAME", b"jail".to_vec()),
        ("PATH", bytes(Path::new(&program::search_path(view)))),
        ("PWD", bytes(&view.workdir_spelling)),
        ("SHELL", b"/bin/sh".to_vec()),
        ("TMPDIR", bytes(&private.tmp)),
        ("USER", b"jail".to_vec()),
    ]
    .into();
    variables.extend(plan.env.iter().map(|(name, Bytes(value))| (name.as_str(), value.clone())));
    variables.into_iter().map(|(name, value)| [name.as_bytes(), b"=", &value].concat()).collect()
}
