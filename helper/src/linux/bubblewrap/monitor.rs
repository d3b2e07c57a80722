//! The bubblewrap outside, which waits for the jail's init and dies with the supervisor.

use super::STEP;
use super::guard::Guard;
use crate::error::{Context, Result, failure};
use crate::linux::message::{self, Message};
use crate::linux::{deadline, supervise, sys};
use agentkit_protocol::{Failure, FailureKind};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

const HINT: &str = "bubblewrap must be 0.8 or newer, and allowed to make user namespaces: see sysctl user.max_user_namespaces and \
    kernel.apparmor_restrict_unprivileged_userns, and the profile that the distribution has for it";
const HINT_OF_SOURCES: &str = "bubblewrap finds what is shown by its path: the launcher, or the user that a root launcher becomes, must be able to \
    reach it";
/// Of what bubblewrap says when it fails.
const MOST_WORDS: usize = 4096;
/// One more than the highest of errno(3).
const ERRNOS: i32 = 134;
/// How many milliseconds it may take to notice that init has ended.
const GRACE: u16 = 2000;

/// One jail's.
pub(crate) struct Monitor {
    pub(super) pid: libc::pid_t,
    pub(super) pidfd: OwnedFd,
}

impl Monitor {
    /// Init's pidfd. Unless it answers, all of the launch is ended, and what bubblewrap `said` is the reason.
    pub(super) fn wait_for_init(&self, guard: Guard, channel: &OwnedFd, said: PipeReader) -> Result<OwnedFd> {
        let nothing = match self.answer(channel) {
            Ok(Some(init)) if self.holds(&init)? => return Ok(init),
            answer => answer.map(drop),
        };
        guard.end_all();
        let status = sys::wait_with_usage(self.pid).context(STEP, "wait for bubblewrap")?.0;
        nothing?;
        Err(reason(&words_in(said).context(STEP, "read what it says")?, status))
    }

    /// Init asked to die with its parent before it answered; whether that lived then is seen now. Without it, init would
    /// outlive the supervisor.
    fn holds(&self, init: &OwnedFd) -> Result<bool> {
        Ok(!has_ended(&self.pidfd, PollTimeout::ZERO)? || has_ended(init, PollTimeout::ZERO)?)
    }

    /// Nothing if bubblewrap ends before it comes to that.
    fn answer(&self, channel: &OwnedFd) -> Result<Option<OwnedFd>> {
        let end = deadline::after(Instant::now(), supervise::SET_UP);
        let mut sources = [channel, &self.pidfd].map(|source| PollFd::new(source.as_fd(), PollFlags::POLLIN));
        while sources.iter().all(|source| !source.any().unwrap_or(false)) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // Something that holds it up, and so no reason for a lesser jail.
                let late = io::Error::from_raw_os_error(libc::ETIMEDOUT);
                return Err(late).context(STEP, format_args!("make a jail within {:?}", supervise::SET_UP));
            }
            match poll(&mut sources, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(io::Error::from(error)).context(STEP, "poll"),
            }
        }
        if !sources.first().is_some_and(|channel| channel.any().unwrap_or(false)) {
            return Ok(None);
        }
        match message::receive(channel.as_fd()).context(STEP, "receive from init")? {
            Some((Message::Ready, descriptors)) => Ok(descriptors.into_iter().next()),
            Some((Message::NotStarted(failure), _)) => Err(failure),
            _ => Ok(None),
        }
    }

    /// Waits for init, by whose end everything in the jail is dead, and for bubblewrap, who has waited for it.
    pub(crate) fn bury(&self, init: &OwnedFd) -> Result<(libc::c_int, Duration)> {
        has_ended(init, PollTimeout::NONE)?;
        if !has_ended(&self.pidfd, GRACE.into())? {
            drop(sys::signal_process(self.pidfd.as_fd(), libc::SIGKILL));
        }
        let (status, cpu) = sys::wait_with_usage(self.pid).context(STEP, "wait for bubblewrap")?;
        // It says as a shell does that init was killed.
        let killed = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status).checked_sub(128)).flatten();
        Ok((killed.filter(|signal| *signal > 0).unwrap_or(status), cpu))
    }
}

/// Whether the process has ended, or ends within that time.
fn has_ended(pidfd: &OwnedFd, timeout: PollTimeout) -> Result<bool> {
    loop {
        match poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(io::Error::from(error)).context(STEP, "poll a process"),
        }
    }
}

/// Does not wait for more: whoever could still write is dead, or as good as.
fn words_in(mut said: PipeReader) -> io::Result<String> {
    fcntl(&said, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let mut words = [0; MOST_WORDS];
    let length = match said.read(&mut words) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        length => length?,
    };
    Ok(String::from_utf8_lossy(words.get(..length).unwrap_or_default()).trim().to_owned())
}

/// Why bubblewrap ended before there was a jail, from its words and its wait status.
fn reason(words: &str, status: libc::c_int) -> Failure {
    if words.is_empty() {
        // It always says why it fails, so that somebody has killed it.
        let message = format_args!("bubblewrap died during set-up, wait status {status:#x}");
        return Failure { errno: Some(libc::EINTR), ..failure(FailureKind::Host, STEP, message) };
    }
    let hint = if words.contains("source path") { HINT_OF_SOURCES } else { HINT };
    Failure { errno: errno_of(words), hint: Some(hint.to_owned()), ..failure(FailureKind::Host, STEP, words) }
}

/// The number of an error whose text is last, as bubblewrap puts it.
fn errno_of(words: &str) -> Option<i32> {
    (1..ERRNOS).find(|errno| {
        let text = io::Error::from_raw_os_error(*errno).to_string();
        text.split_once(" (os error").is_some_and(|(text, _)| words.ends_with(&format!(": {text}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn what_bubblewrap_lacked_is_known_by_its_words() {
        for (words, errno) in [
            ("bwrap: Creating new namespace failed: Resource temporarily unavailable", libc::EAGAIN),
            ("bwrap: Creating new namespace failed: Operation not permitted", libc::EPERM),
            ("bwrap: Can't create file at /x: No space left on device", libc::ENOSPC),
            ("bwrap: pipe2: Too many open files", libc::EMFILE),
        ] {
            assert_eq!(errno_of(words), Some(errno), "{words}");
        }
        assert_eq!(
            errno_of("bwrap: No permissions to create new namespace. See <https://example.com>."),
            None
        );
        assert_eq!(errno_of("bwrap: Unknown option --perms"), None);
    }

    /// In place of bubblewrap a shell. Returns the failure, and whether anything that it has started is left.
    fn fails(script: &str) -> (Failure, bool) {
        let (ours, theirs) = message::channel().unwrap();
        let ((said, words), (mut left, kept)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let mut shell = Command::new("sh");
        let guard = Guard::start().unwrap();
        shell
            .args(["-c", script])
            .process_group(guard.pid)
            .stdout(kept)
            .stderr(words)
            .stdin(Stdio::from(theirs));
        let pid = shell.spawn().unwrap().id().cast_signed();
        drop(shell);
        let monitor = Monitor { pid, pidfd: sys::open_pidfd(pid).unwrap() };
        let failure = monitor.wait_for_init(guard, &ours, said).unwrap_err();
        let mut ready = [PollFd::new(left.as_fd(), PollFlags::POLLIN)];
        // The last writer's end is the end of the pipe.
        let is_gone = poll(&mut ready, 30_000u16).unwrap() == 1 && left.read(&mut [0]).unwrap() == 0;
        (failure, !is_gone)
    }

    #[test]
    fn what_it_says_is_the_reason() {
        let (failure, is_left) = fails("echo 'bwrap: no: Operation not permitted' >&2; exit 1");
        assert_eq!(
            (&failure.message[..], failure.errno),
            ("bwrap: no: Operation not permitted", Some(libc::EPERM))
        );
        assert!(failure.hint.is_some() && !is_left);
    }

    #[test]
    fn whoever_kills_it_brings_about_no_lesser_jail_and_leaves_nothing() {
        let (failure, is_left) = fails("sleep 1000 & kill -KILL $$");
        assert_eq!((failure.errno, is_left), (Some(libc::EINTR), false), "{failure}");
    }
}
