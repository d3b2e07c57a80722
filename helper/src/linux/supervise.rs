//! Step 12, outside: the wall clock, the looks at what is used, the kill, and the report.

use super::asked::Asked;
use super::deadline;
use super::forks::Forks;
use super::git::Swept;
use super::jail::Jail;
use super::look::{self, Handles, Looks};
use super::message::{self, Message, Order};
use super::overlay::{self, Layers};
use super::pty::Session;
use super::relay::Finished;
use super::signals::{Signals, Told};
use super::sys;
use super::task::{Entrance, Task};
use super::watch::Traces;
use crate::error::{Context, Result, failure};
use crate::validate::Plan;
use agentkit_protocol::{
    Attempt, Bytes, Commit, Ended, EndedBy, Failure, FailureKind, Limit, LimitReached, Quarantined, Started,
    Usage, VERSION, WorkDir,
};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

const STEP: &str = "supervise";
/// How long set-up may take before it counts as hung; a launch takes milliseconds.
pub(crate) const SET_UP: Duration = Duration::from_secs(10);
/// How long the command may take to end in its own way once a signal asks for it.
const GRACE: Duration = Duration::from_secs(2);
/// Signals that come this soon after the first are the same request: timeout(1) sends one to its child and one to the
/// group, and so does a shell whose user presses Ctrl-C.
const SAME_REQUEST: Duration = Duration::from_millis(100);

/// Why a jail did not come to an end of its own.
pub(crate) enum Failed {
    /// Nothing was executed in it, and nobody has asked for the end: another one may be tried.
    BeforeStart(Failure),
    /// By this signal, before anything was known to be executed in it.
    Stopped(i32, Failure),
    /// There is nothing more to try.
    Finally(Failure),
}

/// Watches over a jail until nothing of it is left.
pub(crate) fn run(
    jail: &Jail,
    task: &Task,
    entrance: &mut Entrance,
    lifeline: Option<&OwnedFd>,
    mut on_start: impl FnMut(Started),
) -> std::result::Result<Ended, Failed> {
    let mut ended = Supervisor::new(jail, task).watch(lifeline, |started| {
        entrance.let_go(task.group.as_ref());
        on_start(started);
    })?;
    take_over(entrance.relays.finish(), &mut ended);
    Ok(ended)
}

fn take_over(Finished { unwritten, cut }: Finished, ended: &mut Ended) {
    ended.unwritten.extend(unwritten);
    let reached = |evidence| LimitReached { limit: Limit::Output, evidence };
    ended.limits_reached.extend(cut.into_iter().map(reached));
}

struct Supervisor<'a> {
    jail: &'a Jail,
    task: &'a Task<'a>,
    plan: &'a Plan,
    deadline: Instant,
    started: Option<Running<'a>>,
    /// What asked for the end first, and when it was passed on.
    stop_asked: Option<(i32, Instant)>,
    /// The command's terminal, if it has one.
    session: Option<Session>,
    /// The first one; what comes later is a consequence.
    cause: Option<Cause>,
    /// The caller has gone.
    is_called_off: bool,
    asked: Option<Asked>,
    /// Init has closed its end: it is dying, and to look there again would be to spin.
    init_is_silent: bool,
}

/// Why it is over.
enum Cause {
    Ended(EndedBy),
    /// Init says so, before it started the command.
    NotStarted(Failure),
    /// The command may have run, and nobody can watch it any more.
    Broke(Failure),
}

/// What is known once the command runs.
struct Running<'a> {
    since: Instant,
    looks: Looks<'a>,
    /// Not at once: most commands end before, and would be held up by it.
    next_look: Instant,
    overlay: Option<(Layers, Commit)>,
    traces: Traces,
    /// What set-up took has been given back.
    is_small: bool,
}

impl<'a> Supervisor<'a> {
    fn new(jail: &'a Jail, task: &'a Task<'a>) -> Self {
        let deadline = deadline::after(Instant::now(), SET_UP);
        Supervisor {
            jail,
            task,
            plan: task.plan,
            deadline,
            started: None,
            stop_asked: None,
            session: None,
            cause: None,
            is_called_off: false,
            asked: None,
            init_is_silent: false,
        }
    }

    fn watch(
        mut self,
        lifeline: Option<&OwnedFd>,
        mut on_start: impl FnMut(Started),
    ) -> std::result::Result<Ended, Failed> {
        // On every way out, a panic too, the jail is dead.
        let _killer = Killer(self.jail);
        if let Err(failure) = self.follow(lifeline, &mut on_start) {
            self.kill(Cause::Broke(failure));
        }
        self.bury(&mut on_start)
    }

    /// Until the jail is dead or has to be.
    fn follow(&mut self, lifeline: Option<&OwnedFd>, on_start: &mut impl FnMut(Started)) -> Result<()> {
        let signals = Signals::open()?;
        loop {
            // Before the start there is nothing to count by; whoever asks that early waits a moment.
            let asked = self.asked.as_ref().filter(|_| self.started.is_some()).and_then(Asked::listener);
            let messages = Some(&self.jail.messages).filter(|_| !self.init_is_silent);
            let lifeline = lifeline.filter(|_| !self.is_called_off);
            let sources =
                Sources { messages, pidfd: &self.jail.pidfd, signals: signals.descriptor(), asked, lifeline };
            let events = sources.wait(self.time_to_sleep())?;
            if events.message {
                self.init_is_silent = !self.take_message(on_start)?;
            }
            if events.hung_up {
                self.call_off();
            }
            // Those that were there together came together, however long it takes to take them.
            let now = Instant::now();
            while events.signal
                && let Some(told) = signals.take()?
            {
                self.heed(told, now);
            }
            self.look_at_clock();
            let alive = self.look_at_use(events.asked && self.plan.watch_forks);
            if let Some(asked) = &mut self.asked {
                if let (Some(forks), Some(alive)) = (&mut asked.forks, alive) {
                    forks.look(alive, self.plan.limits.processes);
                }
                if events.asked {
                    let jail = self.jail;
                    asked.answer(alive.unwrap_or(0), self.plan.limits.processes, |question, waits| {
                        jail.held_by.change_attributes(question, &waits)
                    });
                }
            }
            if events.dead {
                // What it said last may still be in the channel.
                while self.cause.is_none() && self.take_message(on_start)? {}
            }
            if events.dead || self.cause.is_some() {
                return Ok(());
            }
        }
    }

    fn time_to_sleep(&self) -> Duration {
        let next =
            self.started.as_ref().map_or(self.deadline, |running| running.next_look.min(self.deadline));
        let next = self.stop_asked.map_or(next, |(_, when)| next.min(deadline::after(when, GRACE)));
        next.saturating_duration_since(Instant::now())
    }

    /// Takes one message of init, if there is one.
    fn take_message(&mut self, on_start: &mut impl FnMut(Started)) -> Result<bool> {
        match message::receive(self.jail.messages.as_fd()).context(STEP, "receive from init")? {
            None => Ok(false),
            Some((message, descriptors)) => self.take_in(message, descriptors, on_start).map(|()| true),
        }
    }

    fn take_in(
        &mut self,
        message: Message,
        descriptors: Vec<OwnedFd>,
        on_start: &mut impl FnMut(Started),
    ) -> Result<()> {
        match message {
            Message::Started { read_back } => {
                let since = Instant::now();
                let mut descriptors = descriptors.into_iter();
                let mut handle = |what: &str| {
                    let missing = || io::Error::other(format!("no handle on {what} came with it"));
                    descriptors.next().ok_or_else(missing).context(STEP, "start")
                };
                let (proc, private) = (handle("/proc")?, handle("the private directories")?);
                let sockets = if read_back.sockets_tell { Some(handle("the sockets")?) } else { None };
                let written = self.plan.writes_to_bound_workdir();
                let workdir = if written { Some(handle("the work dir")?) } else { None };
                if let Some(caller) = &self.task.terminal {
                    self.session =
                        Some(Session::start(handle("the terminal")?, caller, self.plan.limits.output)?);
                }
                let overlay = match self.plan.workdir {
                    WorkDir::Overlay { commit, .. } => {
                        let (upper, host) = (handle("the upper layer")?, handle("the work dir")?);
                        Some((Layers { upper, host, path: self.jail.directory.clone() }, commit))
                    }
                    WorkDir::Scratch | WorkDir::ScratchAt(_) | WorkDir::Bind(_) => None,
                };
                let looks = Looks::new(
                    &self.plan.limits,
                    self.task.group.as_ref(),
                    Handles {
                        proc,
                        private,
                        init: self.jail.init_in_proc(),
                        among_others: self.jail.held_by.is_among_others(),
                        sockets,
                        workdir,
                    },
                );
                let traces = Traces::new(self.plan, descriptors);
                self.started = Some(Running {
                    since,
                    looks,
                    next_look: deadline::after(since, look::INTERVAL),
                    overlay,
                    traces,
                    is_small: false,
                });
                self.deadline = deadline::after(since, Duration::from_millis(self.plan.limits.wall_ms));
                on_start(Started {
                    version: VERSION,
                    mechanism: self.jail.held_by.mechanism(),
                    passed_over: Vec::new(),
                    helper: own_executable(),
                    capabilities: self.jail.held_by.capabilities(&read_back, self.plan),
                    read_back,
                });
                if self.is_called_off {
                    self.kill(Cause::Ended(EndedBy::Caller));
                }
            }
            Message::Asks => {
                let topics = self.jail.held_by.topics(self.plan);
                self.asked = descriptors.into_iter().next().map(|listener| Asked::new(listener, topics));
            }
            Message::Ended(end) => {
                let mut running = self.started.as_mut();
                if let Some(running) = &mut running {
                    running.looks.saw_at_the_end(end.left);
                }
                // The command may have died of it before the next look.
                let out_of_memory = running.is_some_and(|running| running.looks.kernels_kills() > 0);
                self.kill(Cause::Ended(if out_of_memory { EndedBy::Memory } else { end.by }));
            }
            Message::Gone => {}
            // Waited for before.
            #[cfg(feature = "bubblewrap")]
            Message::Ready => {}
            Message::NotStarted(_) if self.is_called_off => {
                self.kill(Cause::Ended(EndedBy::Caller));
            }
            Message::NotStarted(failure) => self.kill(Cause::NotStarted(failure)),
            Message::Broke(failure) => self.kill(Cause::Broke(failure)),
        }
        Ok(())
    }

    /// Nobody waits for the command any more. Before the start only init knows whether it runs already, so init is told not to
    /// begin with it, and says what has come of that.
    fn call_off(&mut self) {
        self.is_called_off = true;
        if self.started.is_some() {
            return self.kill(Cause::Ended(EndedBy::Caller));
        }
        // If init is gone, that is seen by itself.
        drop(message::send(self.jail.messages.as_fd(), &Order::End, &[]));
        self.deadline = self.deadline.min(deadline::after(Instant::now(), GRACE));
    }

    /// The command is asked to end, once it has started. If it does not in time, or this comes again, it is killed.
    fn heed(&mut self, told: Told, now: Instant) {
        match (told, self.stop_asked) {
            (Told::Resized, _) => {
                if let Some(session) = &self.session {
                    session.resize();
                }
            }
            (Told::Die(signal), _) => self.kill(Cause::Ended(EndedBy::Stopped(signal))),
            (Told::Stop(signal), None) => {
                self.stop_asked = Some((signal, now));
                self.pass_on(signal);
            }
            (Told::Stop(signal), Some((first, when)))
                if now.saturating_duration_since(when) < SAME_REQUEST =>
            {
                if signal != first {
                    self.pass_on(signal);
                }
            }
            (Told::Stop(_), Some((first, _))) => self.kill(Cause::Ended(EndedBy::Stopped(first))),
        }
    }

    /// Init hands it to the command, or keeps it until there is one. If it is dead, it is all over anyway.
    fn pass_on(&self, signal: i32) {
        drop(sys::signal_process(self.jail.pidfd.as_fd(), signal));
    }

    fn look_at_clock(&mut self) {
        if let Some((signal, when)) = self.stop_asked
            && when.elapsed() >= GRACE
        {
            self.kill(Cause::Ended(EndedBy::Stopped(signal)));
        }
        if Instant::now() >= self.deadline && self.cause.is_none() {
            let hung = match self.is_called_off {
                true => format!("the caller went away, and set-up did not end within {GRACE:?}"),
                false => format!("set-up did not end within {SET_UP:?}"),
            };
            let hung = failure(FailureKind::Host, STEP, hung);
            self.kill(match self.started {
                Some(_) => Cause::Ended(EndedBy::WallClock),
                None => Cause::Broke(hung),
            });
        }
    }

    /// Looks at what is used when it is time to, or when it has to be known at once. Returns how many processes and
    /// threads the run has now.
    fn look_at_use(&mut self, at_once: bool) -> Option<u64> {
        let running =
            self.started.as_mut().filter(|running| at_once || running.next_look <= Instant::now())?;
        let seen = running.looks.look();
        if !running.is_small {
            running.is_small = true;
            sys::give_memory_back();
        }
        running.next_look = deadline::after(Instant::now(), running.looks.interval);
        if let Some(passed) = seen.passed {
            self.kill(Cause::Ended(passed));
        }
        Some(seen.alive)
    }

    fn kill(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        self.jail.end();
    }

    /// Waits until everything is dead, and sums up.
    fn bury(mut self, on_start: &mut impl FnMut(Started)) -> std::result::Result<Ended, Failed> {
        let mut running = self.started.take();
        let mut heard = Vec::new();
        let gone = self.jail.wait_until_gone(&mut heard);
        if let Some(running) = &mut running {
            running.looks.end();
        }
        let buried = self.jail.bury();
        let (status, cpu) = match gone.and(buried) {
            Ok(waited) => waited,
            Err(failure) => return Err(self.broke(failure)),
        };
        if let Some(running) = &mut running {
            running.looks.look_at_what_is_left();
        }
        // It was killed before all was heard that it said, and may have come further than is known.
        if running.is_none() {
            let _ = heard.into_iter().try_for_each(|(said, with)| self.take_in(said, with, on_start));
            while self.take_message(on_start).unwrap_or(false) {}
            running = self.started.take();
        }
        // Before there was an init that could have passed it on.
        let unheard = self.stop_asked.filter(|_| running.is_none());
        let unheard = unheard.map(|(signal, _)| Cause::Ended(EndedBy::Stopped(signal)));
        let ended_by = match (self.cause.take().or(unheard), &running) {
            (Some(Cause::Ended(EndedBy::Stopped(signal))), None) => return Err(self.stopped(signal)),
            (Some(Cause::Ended(ended_by)), _) => ended_by,
            (Some(Cause::NotStarted(failure)), _) if self.stop_asked.is_some() => {
                return Err(Failed::Finally(failure));
            }
            (Some(Cause::NotStarted(failure)), _) => return Err(Failed::BeforeStart(failure)),
            (Some(Cause::Broke(failure)), _) => return Err(self.broke(failure)),
            (None, Some(running)) if running.looks.kernels_kills() > 0 => EndedBy::Memory,
            // Somebody outside, the host's out-of-memory killer for one, killed init and thereby the jail.
            (None, Some(_)) if libc::WIFSIGNALED(status) => EndedBy::Signal(libc::WTERMSIG(status)),
            (None, Some(_)) => {
                let message = "init could not say how the command ended";
                return Err(self.broke(failure(FailureKind::Host, STEP, message)));
            }
            (None, None) => {
                let message = format_args!("init died during set-up, wait status {status:#x}");
                return Err(self.broke(failure(FailureKind::Host, STEP, message)));
            }
        };
        let running = running.as_ref();
        let wanted = |commit: Commit| if self.stop_asked.is_some() { Commit::Never } else { commit };
        let at_limit = self.forks().map(|forks| forks.at_limit);
        let output = self.session.take().map(Session::finish).unwrap_or_default();
        let usage =
            running.map_or_else(Usage::default, |running| running.looks.usage(running.since.elapsed(), cpu));
        // Only now can nothing be added any more.
        let Swept { quarantined, unchecked } = self.task.guards.sweep();
        let mut ended = Ended {
            limits_reached: running
                .map_or_else(Vec::new, |running| running.looks.limits_reached(ended_by, at_limit)),
            ended_by,
            usage,
            attempts: self.attempts(running),
            changes: running
                .and_then(|running| running.overlay.as_ref())
                .map(|(layers, commit)| overlay::settle(layers, wanted(*commit), self.plan.git, ended_by)),
            quarantined,
            unchecked,
            unwritten: Vec::new(),
        };
        take_over(output, &mut ended);
        Ok(ended)
    }

    fn forks(&self) -> Option<&Forks> {
        self.asked.as_ref().and_then(|asked| asked.forks.as_ref())
    }

    /// It is told like a failure, which is what a report without a start holds.
    fn stopped(&self, signal: i32) -> Failed {
        let message =
            format!("signal {signal} asked for the end during set-up, and everything in the jail was killed");
        Failed::Stopped(signal, self.with_what_was_left(failure(FailureKind::Host, STEP, message)))
    }

    /// Nobody can watch it any more.
    fn broke(&self, failure: Failure) -> Failed {
        let message =
            format!("{}; the command may have run, and everything in the jail was killed", failure.message);
        Failed::Finally(self.with_what_was_left(Failure { message, ..failure }))
    }

    /// What the command has left is put aside all the same. Nothing is committed.
    fn with_what_was_left(&self, failure: Failure) -> Failure {
        let Swept { quarantined, unchecked } = self.task.guards.sweep();
        let moved = quarantined.iter().map(|Quarantined { from, to }| format!("; {from:?} is now {to:?}"));
        let unchecked = unchecked.iter().map(|what| format!("; not looked at: {what}"));
        let left: String = moved.chain(unchecked).collect();
        Failure { message: failure.message + &left, ..failure }
    }

    fn attempts(&self, running: Option<&Running<'_>>) -> Vec<Attempt> {
        let forks = self.forks().map(|forks| Attempt::Forks { count: forks.count, at_limit: forks.at_limit });
        running
            .map(|running| running.traces.read(self.plan))
            .unwrap_or_default()
            .into_iter()
            .chain(forks)
            .collect()
    }
}

/// Kills the jail when dropped.
struct Killer<'a>(&'a Jail);

impl Drop for Killer<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What can wake the supervisor.
struct Sources<'a> {
    messages: Option<&'a OwnedFd>,
    /// Readable once init, and with it the jail, is dead.
    pidfd: &'a OwnedFd,
    signals: BorrowedFd<'a>,
    /// A client says nothing after its policy: whatever is readable is its end.
    lifeline: Option<&'a OwnedFd>,
    /// Readable when somebody waits for an answer before a fork.
    asked: Option<&'a OwnedFd>,
}

/// What woke the supervisor.
struct Events {
    message: bool,
    dead: bool,
    signal: bool,
    hung_up: bool,
    asked: bool,
}

impl Sources<'_> {
    fn wait(&self, time: Duration) -> Result<Events> {
        let watched = [
            self.messages.map(AsFd::as_fd),
            Some(self.pidfd.as_fd()),
            Some(self.signals),
            self.lifeline.map(AsFd::as_fd),
            self.asked.map(AsFd::as_fd),
        ];
        let mut sources: Vec<PollFd> =
            watched.iter().flatten().map(|source| PollFd::new(*source, PollFlags::POLLIN)).collect();
        // Rounded up, so that a deadline has passed when poll says so.
        let timeout = PollTimeout::try_from(time.saturating_add(Duration::from_micros(999)))
            .unwrap_or(PollTimeout::MAX);
        match poll(&mut sources, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(io::Error::from(error)).context(STEP, "poll"),
        }
        let mut ready = sources.iter().map(|source| source.any().unwrap_or(false));
        let mut next = |is_watched: bool| is_watched && ready.next().unwrap_or(false);
        let (message, dead, signal) = (next(self.messages.is_some()), next(true), next(true));
        let hung_up = next(self.lifeline.is_some());
        Ok(Events { message, dead, signal, hung_up, asked: next(self.asked.is_some()) })
    }
}

/// Which file enforces; unknown if `/proc` does not say.
fn own_executable() -> Bytes {
    std::env::current_exe().map(|path| Bytes::from(path.as_os_str().as_bytes())).unwrap_or_default()
}
