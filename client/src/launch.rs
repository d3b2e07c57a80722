//! Starting the helper.

use crate::error::os;
use crate::locate::{Helper, Program};
use agentkit_protocol::Failure;
use std::env;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// What the helper needs to look up commands and to find interpreters. It passes none of them on.
const ENVIRONMENT: [&str; 6] =
    ["PATH", "HOME", "PYENV_VERSION", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "CARGO_HOME"];

/// A running helper. It is killed and reaped when this is dropped, whatever the reason.
pub(crate) struct Process(Child);

/// Our ends of what connects us to the helper.
pub(crate) struct Ends {
    pub(crate) socket: UnixStream,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// Starts the helper with a socket for its stdin and pipes for its stdout and stderr.
pub(crate) fn launch(helper: &Helper, arguments: &[&str]) -> Result<(Process, Ends), Failure> {
    let program = helper.program()?;
    let failed = |error: io::Error| not_started(&program, &error);
    let (socket, theirs) = UnixStream::pair().map_err(failed)?;
    let (stdout, their_stdout) = io::pipe().map_err(failed)?;
    let (stderr, their_stderr) = io::pipe().map_err(failed)?;
    // No `pre_exec`: it would force a fork of the whole caller in place of the far cheaper posix_spawn.
    let mut command = Command::new(&program.path);
    command
        .args(arguments)
        .env_clear()
        .envs(ENVIRONMENT.iter().filter_map(|name| Some((name, env::var_os(name)?))));
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(their_stdout).stderr(their_stderr);
    if let Some(name) = program.name {
        command.arg0(name);
    }
    let child = command.spawn().map_err(failed)?;
    Ok((Process(child), Ends { socket, stdout: stdout.into(), stderr: stderr.into() }))
}

fn not_started(program: &Program, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        ErrorKind::NotFound => "build or install agentkit-jail, or name its file with SandboxBuilder::helper",
        ErrorKind::PermissionDenied => "make it executable, and its directories searchable, for this user",
        _ => return os("start the helper", program.path.display(), error),
    };
    Failure { hint: Some(hint.to_owned()), ..os("start the helper", program.path.display(), error) }
}

impl Process {
    /// Kills the helper if it is still there, and waits for it.
    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.0.kill()?;
        self.0.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.reap();
    }
}
