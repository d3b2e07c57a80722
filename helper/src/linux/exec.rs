//! Step 11: the command.

use super::asked::Topics;
use super::layers::Layer;
use super::limits;
use super::message::{self, Message};
use super::program::{self, Program};
use super::resolve::is_scarcity;
use super::signals;
use super::sys;
use crate::error::{Context, Hint, Result, failure};
use crate::validate::Plan;
use agentkit_protocol::{Bytes, FailureKind};
use nix::libc;
use nix::unistd::{chdir, dup2_stderr, dup2_stdin, dup2_stdout, setsid};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const STEP: &str = "exec";
const FIRST_AFTER_STREAMS: i32 = 3;
const ONE_LISTENER: &str = "the kernel allows one listener: if something around this process has one already, as some \
    jails and containers do, forks cannot be watched (watch.forks)";
const OUT_OF_REACH: &str = "the way to it is closed to the jail's user: the policy hides it, or root launches, whose jail is \
    another user's; then name a program that everybody can execute, such as /usr/bin/python3, or start it as an ordinary user";
/// Where policies find the private directory for temporary files.
pub(crate) const TEMPORARY: &str = "/tmp";

/// Where the command reads and writes.
pub(crate) enum Streams<'a> {
    /// Input from here, or from nothing; output where init's goes.
    Input(Option<OwnedFd>),
    /// All three, and the session, on a terminal of the jail's own.
    Terminal {
        own: BorrowedFd<'a>,
        /// The value of `TERM`.
        kind: &'a [u8],
    },
}

/// Where the command finds what is its own.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// Where it starts.
    pub(crate) directory: &'a Path,
    /// The same as the caller spelled it.
    pub(crate) spelling: &'a Path,
    pub(crate) home: &'a Path,
    /// For temporary files.
    pub(crate) temporary: &'a Path,
    /// Variables for programs that would be misled by what else they find.
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

/// It was really executed.
pub(crate) struct Executed {
    pub(crate) pid: libc::pid_t,
    /// See [`ReadBack::attributes_refused`](agentkit_protocol::ReadBack::attributes_refused).
    pub(crate) attributes_refused: bool,
}

/// Everything that execve needs, made before the fork.
pub(crate) struct Command<'a> {
    path: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    directory: PathBuf,
    streams: Streams<'a>,
    topics: Topics,
    open_files: u64,
}

impl<'a> Command<'a> {
    pub(crate) fn new(
        plan: &Plan,
        program: &Program,
        places: Places,
        streams: Streams<'a>,
        topics: Topics,
    ) -> Result<Self> {
        let c_string =
            |bytes: Vec<u8>| CString::new(bytes).map_err(io::Error::from).context(STEP, "make a C string");
        let path = c_string(of_file(plan, places, program.path.as_os_str().as_bytes()))?;
        let argv = program.argv.iter().map(|word| c_string(of_file(plan, places, word.to_bytes())));
        let mut argv = argv.collect::<Result<Vec<_>>>()?;
        if let Some(name) = argv.first_mut().filter(|name| name.to_bytes().starts_with(b"/")) {
            // Interpreters find their library from it, and a link among its parents does not exist inside.
            *name = path.clone();
        }
        let env =
            environment(plan, program, places, &streams).into_iter().map(c_string).collect::<Result<_>>()?;
        let directory = places.directory.to_path_buf();
        let open_files = plan.limits.open_files;
        Ok(Command { path, argv, env, directory, streams, topics, open_files })
    }

    /// Starts the command. `confine` is what is left to be done in its own
    /// process, in the memory of this one.
    pub(crate) fn start(self, channel: &OwnedFd, confine: &dyn Fn() -> Result<()>) -> Result<Executed> {
        // It is in the same memory.
        let prepared = Cell::new(None);
        let become_command = || {
            prepared.set(Some(self.prepare(channel, confine)?));
            Ok(sys::execute(&self.path, &self.argv, &self.env))
        };
        let pid = sys::spawn(&become_command).context(STEP, "clone")?.map_err(|not: Result<io::Error>| {
            not.map_or_else(
                |failure| failure,
                |error| self.not_started(error.raw_os_error().unwrap_or(libc::EIO)),
            )
        })?;
        match prepared.get() {
            Some(attributes_refused) => Ok(Executed { pid, attributes_refused }),
            None => Err(failure(FailureKind::Host, STEP, "the process died that was to become the command")),
        }
    }

    /// Between clone and exec. Returns whether attributes of files are refused since nobody can be asked.
    fn prepare(&self, channel: &OwnedFd, confine: &dyn Fn() -> Result<()>) -> Result<bool> {
        // A session of its own: no controlling terminal, and a group that the caller's signals do not reach.
        if !Layer::Session.is_off() {
            setsid().map_err(io::Error::from).context(STEP, "setsid")?;
        }
        // std ignores it at start; the command expects the default.
        sys::reset_signal(libc::SIGPIPE).context(STEP, "reset SIGPIPE")?;
        signals::unblock().context(STEP, "unblock signals")?;
        self.connect_streams().context(STEP, "connect the command's streams")?;
        chdir(&self.directory)
            .map_err(io::Error::from)
            .context(STEP, format_args!("enter {:?}", self.directory))?;
        confine()?;
        let mut attributes_refused = false;
        if !self.topics.are_none() {
            let listener = self.topics.ask_supervisor();
            let listener =
                listener.context(STEP, "load a filter that asks the supervisor").hint(ONE_LISTENER)?;
            attributes_refused = listener.is_none();
            if let Some(listener) = listener {
                message::send(channel.as_fd(), &Message::Asks, &[listener.as_fd()])
                    .context(STEP, "pass on whom the filter asks")?;
            }
        }
        limits::settle(self.open_files).context(STEP, "setrlimit RLIMIT_NOFILE")?;
        let closed =
            if Layer::Descriptors.is_off() { Ok(()) } else { sys::close_on_exec(FIRST_AFTER_STREAMS) };
        closed.context(STEP, "close_range")?;
        // Last of all: whoever goes on from here is told to have started.
        match message::is_waiting(channel.as_fd()).context(STEP, "poll the channel")? {
            true => Err(failure(FailureKind::Host, STEP, "it was called off before it started")),
            false => Ok(attributes_refused),
        }
    }

    /// The copies without the flag that closes them. Without input the command has init's, the jail's own /dev/null.
    fn connect_streams(&self) -> io::Result<()> {
        match &self.streams {
            Streams::Input(stdin) => {
                if let Some(stdin) = stdin {
                    dup2_stdin(stdin)?;
                }
            }
            Streams::Terminal { own, .. } => {
                sys::take_terminal(*own)?;
                dup2_stdin(own)?;
                dup2_stdout(own)?;
                dup2_stderr(own)?;
            }
        }
        Ok(())
    }

    fn not_started(&self, errno: i32) -> agentkit_protocol::Failure {
        let kind = match errno {
            libc::ENOENT | libc::ENOTDIR => FailureKind::NotFound,
            _ if is_scarcity(&io::Error::from_raw_os_error(errno)) => FailureKind::Host,
            _ => FailureKind::NotExecutable,
        };
        let error = nix::errno::Errno::from_raw(errno);
        let hint = match errno {
            libc::ENOENT => Some(self.what_is_missing()),
            libc::ENOEXEC => Some(
                "it is neither a program for this machine nor a script whose first line names its interpreter, such as \
                 #!/bin/sh"
                    .to_owned(),
            ),
            libc::EACCES if self.is_out_of_reach() => Some(OUT_OF_REACH.to_owned()),
            libc::EACCES => {
                Some("it is not readable and executable for the jail's user, or is not in the jail's view".to_owned())
            }
            _ => None,
        };
        let message = format!("execute {:?} in {:?}: {}", self.path, self.directory, error.desc());
        agentkit_protocol::Failure { errno: Some(errno), hint, ..failure(kind, STEP, message) }
    }

    /// Whether the way to it is closed to this user.
    fn is_out_of_reach(&self) -> bool {
        let path = self.directory.join(OsStr::from_bytes(self.path.to_bytes()));
        path.symlink_metadata().is_err_and(|error| error.raw_os_error() == Some(libc::EACCES))
    }

    fn what_is_missing(&self) -> String {
        let path = self.directory.join(OsStr::from_bytes(self.path.to_bytes()));
        match program::leads_to(&path) {
            Some(end) => format!(
                "it leads to {end:?}: if the host has that, name its directory in PATH or grant it by a rule, because \
                 files where a jail can write grant nothing"
            ),
            None => "the file, or the interpreter or loader that it names, does not exist inside the jail: of the \
                     host's files only those are there that the work dir or a rule shows"
                .to_owned(),
        }
    }
}

/// The path of one of the policy's files, as the policy calls it, leads to where that is. Anything else stays what it is.
fn of_file(plan: &Plan, places: Places, word: &[u8]) -> Vec<u8> {
    let name = word.strip_prefix(TEMPORARY.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
    let is_file = |name: &&[u8]| plan.files.iter().any(|(file, _)| file.as_os_str().as_bytes() == *name);
    match name.filter(is_file) {
        Some(name) => places.temporary.join(OsStr::from_bytes(name)).into_os_string().into_encoded_bytes(),
        None => word.to_vec(),
    }
}

/// What the jail sets, then what the policy adds. Nothing is inherited.
fn environment(plan: &Plan, program: &Program, places: Places, streams: &Streams) -> Vec<Vec<u8>> {
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let mut variables: BTreeMap<&str, Vec<u8>> = [
        ("HOME", bytes(places.home)),
        ("LANG", b"C.UTF-8".to_vec()),
        ("LOGNAME", b"jail".to_vec()),
        ("PATH", program.search_path.as_bytes().to_vec()),
        ("PWD", bytes(places.spelling)),
        ("SHELL", b"/bin/sh".to_vec()),
        ("TMPDIR", bytes(places.temporary)),
        ("USER", b"jail".to_vec()),
    ]
    .into();
    variables.extend(places.variables.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())));
    let cargo_home = program.cargo_home.iter().map(|home| bytes(home));
    variables.extend(cargo_home.map(|home| ("CARGO_HOME", home)));
    if let Streams::Terminal { kind, .. } = streams {
        variables.insert("TERM", kind.to_vec());
    }
    let launchers: Vec<_> = if Layer::Environment.is_off() { std::env::vars().collect() } else { Vec::new() };
    variables.extend(launchers.iter().map(|(name, value)| (name.as_str(), value.as_bytes().to_vec())));
    variables.extend(plan.env.iter().map(|(name, Bytes(value))| (name.as_str(), value.clone())));
    variables.into_iter().map(|(name, value)| [name.as_bytes(), b"=", &value].concat()).collect()
}
