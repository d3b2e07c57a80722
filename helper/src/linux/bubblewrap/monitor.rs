//! The bubblewrap outside, which waits for the jail's init and dies with the supervisor.

use super::STEP;
use super::guard::Guard;
use super::words::{Words, errno_of, hint, lacks_a_source};
use crate::error::{Context, Result, failure};
use crate::linux::message::{self, Message};
use crate::linux::signals::Signals;
use crate::linux::{deadline, supervise, sys};
use agentkit_protocol::{Failure, FailureKind};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How many milliseconds it may take to notice that init has ended.
const GRACE: u16 = 2000;

/// Who may ask for the end before there is an init that could be told.
pub(super) struct Caller<'a> {
    /// Left to the supervisor, who takes them.
    signals: Signals,
    lifeline: Option<&'a OwnedFd>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(lifeline: Option<&'a OwnedFd>) -> Result<Self> {
        Ok(Caller { signals: Signals::open_for_end()?, lifeline })
    }
}

/// What came first.
enum Answer {
    Init(OwnedFd),
    /// Bubblewrap has ended before it came to that.
    Ended,
    /// The caller has had enough.
    Stop,
}

/// One jail's.
pub(crate) struct Monitor {
    pub(super) pid: libc::pid_t,
    pub(super) pidfd: OwnedFd,
}

impl Monitor {
    /// Init's pidfd, or nothing if the caller asked for the end. Unless init answers, all of the launch is ended, and what
    /// bubblewrap `said` is the reason.
    pub(super) fn wait_for_init(
        &self,
        guard: Guard,
        channel: &OwnedFd,
        said: PipeReader,
        caller: &Caller,
    ) -> Result<Option<OwnedFd>> {
        let mut words = Words::of(said).context(STEP, "read what bubblewrap says")?;
        let nothing = match self.answer(channel, &mut words, caller) {
            Ok(Answer::Init(init)) if self.holds(&init)? => return Ok(Some(init)),
            Ok(Answer::Stop) => {
                guard.end_all();
                return Ok(None);
            }
            answer => answer.map(drop),
        };
        guard.end_all();
        let status = sys::wait_with_usage(self.pid).context(STEP, "wait for bubblewrap")?.0;
        nothing?;
        Err(reason(&words.finish().context(STEP, "read what bubblewrap says")?, status))
    }

    /// Init asked to die with its parent before it answered; whether that lived then is seen now. Without it, init would
    /// outlive the supervisor.
    fn holds(&self, init: &OwnedFd) -> Result<bool> {
        Ok(!has_ended(&self.pidfd, PollTimeout::ZERO)? || has_ended(init, PollTimeout::ZERO)?)
    }

    fn answer(&self, channel: &OwnedFd, words: &mut Words, caller: &Caller) -> Result<Answer> {
        let end = deadline::after(Instant::now(), supervise::SET_UP);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // Something that holds it up, and so no reason for a lesser jail.
                let late = io::Error::from_raw_os_error(libc::ETIMEDOUT);
                return Err(late).context(STEP, format_args!("make a jail within {:?}", supervise::SET_UP));
            }
            let [answered, ended, asked, hung_up, said] = ready(
                [
                    Some(channel.as_fd()),
                    Some(self.pidfd.as_fd()),
                    Some(caller.signals.descriptor()),
                    caller.lifeline.map(AsFd::as_fd),
                    words.descriptor(),
                ],
                left,
            )?;
            if said {
                words.hear().context(STEP, "read what bubblewrap says")?;
            }
            if asked || hung_up {
                return Ok(Answer::Stop);
            }
            if answered {
                return match message::receive(channel.as_fd()).context(STEP, "receive from init")? {
                    Some((Message::Ready, descriptors)) => {
                        Ok(descriptors.into_iter().next().map_or(Answer::Ended, Answer::Init))
                    }
                    Some((Message::NotStarted(failure), _)) => Err(failure),
                    // Init is gone, and bubblewrap says in a moment what of.
                    _ => has_ended(&self.pidfd, GRACE.into()).map(|_| Answer::Ended),
                };
            }
            if ended {
                return Ok(Answer::Ended);
            }
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

/// Which of them can be read, once one can or the time is over.
fn ready<const N: usize>(sources: [Option<BorrowedFd>; N], longest: Duration) -> Result<[bool; N]> {
    let mut watched: Vec<_> =
        sources.iter().flatten().map(|source| PollFd::new(*source, PollFlags::POLLIN)).collect();
    match poll(&mut watched, PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(io::Error::from(error)).context(STEP, "poll"),
    }
    let mut found = watched.iter().map(|source| source.any().unwrap_or(false));
    Ok(sources.map(|source| source.is_some() && found.next().unwrap_or(false)))
}

/// Why bubblewrap ended before there was a jail, from its words and its wait status.
fn reason(words: &str, status: libc::c_int) -> Failure {
    let errno = errno_of(words, status);
    if words.is_empty() {
        let message = format_args!("bubblewrap ended during set-up without a word, wait status {status:#x}");
        return Failure { errno, ..failure(FailureKind::Host, STEP, message) };
    }
    let hint = hint(words, errno).to_owned();
    let kind = if lacks_a_source(words, errno) { FailureKind::Policy } else { FailureKind::Host };
    Failure { errno, hint: Some(hint), ..failure(kind, STEP, words) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    /// In place of bubblewrap a shell. Returns its failure, and whether anything that it has started is left.
    fn fails(script: &str) -> (Failure, bool) {
        let (answer, is_left) = answers(script, None);
        (answer.unwrap_err(), is_left)
    }

    fn answers(script: &str, lifeline: Option<&OwnedFd>) -> (Result<Option<OwnedFd>>, bool) {
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
        let caller = Caller::new(lifeline).unwrap();
        let answer = monitor.wait_for_init(guard, &ours, said, &caller);
        let mut ready = [PollFd::new(left.as_fd(), PollFlags::POLLIN)];
        // The last writer's end is the end of the pipe.
        let is_gone = poll(&mut ready, 30_000u16).unwrap() == 1 && left.read(&mut [0]).unwrap() == 0;
        (answer, !is_gone)
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
    fn whoever_takes_away_what_is_shown_brings_about_no_lesser_jail() {
        for (words, kind) in [
            ("Can't find source path /srv/a: No such file or directory", FailureKind::Policy),
            ("Can't get type of source /srv/a: Permission denied", FailureKind::Policy),
            ("Can't mount proc on /newroot/proc: No such file or directory", FailureKind::Host),
            ("Can't find source path /srv/a: Cannot allocate memory", FailureKind::Host),
        ] {
            let (failure, _) = fails(&format!("echo \"bwrap: {words}\" >&2; exit 1"));
            assert_eq!(failure.kind, kind, "{words}");
        }
    }

    #[test]
    fn whoever_kills_it_brings_about_no_lesser_jail_and_leaves_nothing() {
        let (failure, is_left) = fails("sleep 1000 & kill -KILL $$");
        assert_eq!((failure.errno, is_left), (Some(libc::EINTR), false), "{failure}");
    }

    #[test]
    fn who_ends_it_without_a_word_is_told_from_who_killed_it() {
        let (failure, is_left) = fails("exit 3");
        assert_eq!((failure.errno, is_left), (None, false), "{failure}");
    }

    #[test]
    fn however_much_it_says_it_is_not_held_up() {
        let (failure, _) =
            fails("head -c 300000 /dev/zero >&2; echo ': No space left on device' >&2; exit 1");
        assert_eq!(failure.errno, Some(libc::ENOSPC));
    }

    #[test]
    fn a_caller_who_is_gone_ends_it_at_once() {
        let (lifeline, gone) = io::pipe().unwrap();
        drop(gone);
        let (answer, is_left) = answers("sleep 1000 & sleep 1000", Some(&lifeline.into()));
        assert!(matches!(answer, Ok(None)) && !is_left, "{answer:?}");
    }
}
