//! The command's streams are pipes of the jail's own, and threads copy.
//!
//! A descriptor is more than a place to read from or to write to: on the caller's terminal the command could type into
//! the caller's shell, and what is a file it could read back or overwrite. A client's streams are copied like any others.

use crate::copy::copy;
use crate::deadline;
use crate::error::{Context, Result};
use crate::input::Stdin;
use nix::libc;
use nix::sys::stat::fstat;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

const STEP: &str = "relay";
/// What a caller gets to take the last output once the jail is dead.
const GRACE: Duration = Duration::from_secs(2);
const STACK: usize = 128 << 10;

/// The command's ends of the pipes.
pub(super) struct Streams {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Streams {
    /// In the command, in place of what it has inherited.
    pub(super) fn take_over(&self) -> io::Result<()> {
        dup2_stdin(&self.stdin)?;
        dup2_stdout(&self.stdout)?;
        Ok(dup2_stderr(&self.stderr)?)
    }
}

/// What is to be copied once nothing is forked any more.
pub(super) struct Relays {
    input: Option<(File, PipeWriter)>,
    output: Vec<(PipeReader, File, &'static str)>,
    most: u64,
}

impl Relays {
    /// One pipe for both outputs where they are the same file, which keeps the order of what is written.
    pub(super) fn prepare(stdin: Stdin, most: Option<u64>) -> Result<(Self, Streams)> {
        let callers = |stream: BorrowedFd| {
            stream.try_clone_to_owned().map(File::from).context(STEP, "duplicate a stream")
        };
        let source = match stdin {
            Stdin::Nothing => None,
            Stdin::Passed(passed) => Some(File::from(passed)),
            Stdin::Callers => Some(callers(io::stdin().as_fd())?),
        };
        let (stdin, input) = match source {
            None => (OwnedFd::from(File::open("/dev/null").context(STEP, "open /dev/null")?), None),
            Some(source) => {
                let (reader, writer) = pipe().context(STEP, "pipe")?;
                (reader.into(), Some((source, writer)))
            }
        };
        let (stdout, stderr) = (callers(io::stdout().as_fd())?, callers(io::stderr().as_fd())?);
        let (out, out_end) = pipe().context(STEP, "pipe")?;
        let mut relays = Relays { input, output: Vec::new(), most: most.unwrap_or(u64::MAX) };
        let err_end = if identity(&stdout)? == identity(&stderr)? {
            relays.output.push((out, stdout, "standard output and error"));
            out_end.try_clone().context(STEP, "duplicate a pipe")?
        } else {
            let (err, err_end) = pipe().context(STEP, "pipe")?;
            relays.output.push((out, stdout, "standard output"));
            relays.output.push((err, stderr, "standard error"));
            err_end
        };
        Ok((relays, Streams { stdin, stdout: out_end.into(), stderr: err_end.into() }))
    }

    /// After the last fork.
    pub(super) fn start(self) -> Result<Copying> {
        let most = self.most;
        if let Some((from, to)) = self.input {
            // Nobody waits for it: what it has not copied when the run ends, nobody reads.
            let mut files = (from, File::from(OwnedFd::from(to)));
            let copying = move || drop(copy(&mut files.0, &mut files.1, u64::MAX));
            Builder::new().stack_size(STACK).spawn(copying).context(STEP, "start a thread")?;
        }
        let output = self.output.into_iter().map(|(from, mut to, name)| {
            let (tell, told) = channel();
            let copying = move || {
                let mut from = File::from(OwnedFd::from(from));
                // If nobody listens, the run is over.
                drop(tell.send(copy(&mut from, &mut to, most)));
            };
            Builder::new().stack_size(STACK).spawn(copying).context(STEP, "start a thread")?;
            Ok((told, name))
        });
        Ok(Copying(output.collect::<Result<_>>()?))
    }
}

/// Device and inode.
fn identity(file: &File) -> Result<(libc::dev_t, libc::ino_t)> {
    let stat = fstat(file).map_err(io::Error::from).context(STEP, "stat a standard stream")?;
    Ok((stat.st_dev, stat.st_ino))
}

/// What the threads that copy output will say.
pub(super) struct Copying(Vec<(Receiver<io::Result<u64>>, &'static str)>);

/// What became of the output.
#[derive(Default)]
pub(super) struct Finished {
    /// What did not arrive, and why.
    pub(super) unwritten: Vec<String>,
    /// What was more than may pass.
    pub(super) cut: Vec<String>,
}

impl Copying {
    /// When the jail is dead: waits until everything is copied, but for no caller that takes nothing.
    pub(super) fn finish(self) -> Finished {
        let until = deadline::after(Instant::now(), GRACE);
        let mut finished = Finished::default();
        for (told, name) in self.0 {
            match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Ok(0)) | Err(RecvTimeoutError::Disconnected) => {}
                Ok(Ok(cut)) => finished.cut.push(format!("{name}: {cut} bytes more than may pass")),
                // A reader that went away has seen enough.
                Ok(Err(error)) if matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)) => {}
                Ok(Err(error)) => finished.unwritten.push(format!("{name}: {error}")),
                Err(RecvTimeoutError::Timeout) => {
                    finished
                        .unwritten
                        .push(format!("{name}: it was not read for {} s after the end", GRACE.as_secs()));
                }
            }
        }
        finished
    }
}
