//! Step 12, outside: the wall clock, the looks at what is used, the kill, and the report.

use super::capabilities;
use super::message::{self, Message};
use super::namespaces::Jail;
use super::sys;
use super::usage::{self, Sample};
use super::watch::Traces;
use crate::error::{Context, Result, failure};
use crate::report::Reporter;
use crate::validate::{self, Plan};
use agentkit_protocol::{
    Bytes, Capabilities, Ended, EndedBy, Event, Failure, FailureKind, Limit, LimitReached, Mechanism, Policy,
    Started, Usage, VERSION,
};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

const STEP: &str = "supervise";
/// How often the jail's use is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How long set-up may take before it counts as hung; a launch takes milliseconds.
const SET_UP: Duration = Duration::from_secs(10);
/// Signals by which a caller or a terminal asks us to stop.
const STOP_SIGNALS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Watches over a jail until nothing of it is left.
pub(crate) fn run(jail: Jail, plan: &Plan, reporter: &mut Reporter) -> Result<Ended> {
    let lifeline = match reporter {
        Reporter::Client(socket) => {
            Some(socket.as_fd().try_clone_to_owned().context(STEP, "duplicate the lifeline")?)
        }
        Reporter::Script(_) => None,
    };
    Supervisor::new(&jail, plan).watch(lifeline.as_ref(), |started| {
        reporter.send(&Event::Started(started));
    })
}

/// Waits for a jail that only goes as far as a probe does.
pub(crate) fn probe(jail: Jail) -> Result<Capabilities> {
    let plan = validate::plan(Policy::new(["true"]))?;
    let mut found = None;
    Supervisor::new(&jail, &plan).watch(None, |started| found = Some(started.capabilities))?;
    found.ok_or_else(|| failure(FailureKind::Host, STEP, "the probe ended without an answer"))
}

struct Supervisor<'a> {
    jail: &'a Jail,
    plan: &'a Plan,
    deadline: Instant,
    started: Option<Running>,
    /// The first cause; what comes later is a consequence.
    cause: Option<std::result::Result<EndedBy, Failure>>,
    peak: Sample,
}

/// What is known once the command runs.
struct Running {
    since: Instant,
    proc: OwnedFd,
    traces: Traces,
}

impl<'a> Supervisor<'a> {
    fn new(jail: &'a Jail, plan: &'a Plan) -> Self {
        let deadline = Instant::now() + SET_UP;
        Supervisor { jail, plan, deadline, started: None, cause: None, peak: Sample::default() }
    }

    fn watch(mut self, lifeline: Option<&OwnedFd>, mut on_start: impl FnMut(Started)) -> Result<Ended> {
        // On every way out, an error's too, the jail is dead.
        let _killer = Killer(self.jail.pidfd.as_fd());
        let signals = stop_signals()?;
        loop {
            let events = Events::wait(self.jail, &signals, lifeline, self.time_to_sleep())?;
            if events.message {
                self.take_message(&mut on_start)?;
            }
            if events.stop {
                self.kill(Ok(EndedBy::Caller));
            }
            self.look_at_clock();
            self.look_at_use();
            if events.dead {
                // What it said last may still be in the channel.
                while self.take_message(&mut on_start)? {}
                return self.bury();
            }
        }
    }

    fn time_to_sleep(&self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if self.started.is_some() { left.min(LOOK) } else { left }
    }

    /// Takes one message of init, if there is one.
    fn take_message(&mut self, on_start: &mut impl FnMut(Started)) -> Result<bool> {
        match message::receive(self.jail.messages.as_fd()).context(STEP, "receive from init")? {
            None => return Ok(false),
            Some((Message::Started { read_back, planted }, descriptors)) => {
                let since = Instant::now();
                let mut descriptors = descriptors.into_iter();
                let proc = descriptors
                    .next()
                    .ok_or_else(|| io::Error::other("no /proc came with it"))
                    .context(STEP, "start")?;
                let traces = Traces::new(self.plan, descriptors, planted);
                self.started = Some(Running { since, proc, traces });
                self.deadline = since + Duration::from_millis(self.plan.limits.wall_ms);
                on_start(Started {
                    version: VERSION,
                    mechanism: Mechanism::Namespaces,
                    helper: own_executable(),
                    capabilities: capabilities::derive(&read_back, self.plan),
                    read_back,
                });
            }
            Some((Message::Ended(ended), _)) => self.kill(Ok(ended)),
            Some((Message::Failed(failure), _)) => self.kill(Err(failure)),
        }
        Ok(true)
    }

    fn look_at_clock(&mut self) {
        if Instant::now() >= self.deadline && self.cause.is_none() {
            let hung = failure(FailureKind::Host, STEP, format_args!("set-up did not end within {SET_UP:?}"));
            self.kill(if self.started.is_some() { Ok(EndedBy::WallClock) } else { Err(hung) });
        }
    }

    fn look_at_use(&mut self) {
        let Some(running) = &self.started else { return };
        // A jail that is just dying may not be readable any more; the end is noticed elsewhere.
        let Ok(sample) = usage::sample(&running.proc) else { return };
        self.peak.tasks = self.peak.tasks.max(sample.tasks);
        self.peak.memory = self.peak.memory.max(sample.memory);
        if sample.memory > self.plan.limits.memory {
            self.kill(Ok(EndedBy::Memory));
        }
    }

    /// Kills init, and the kernel kills everything else in its pid namespace.
    fn kill(&mut self, cause: std::result::Result<EndedBy, Failure>) {
        self.cause.get_or_insert(cause);
        // No such process: it is dead already.
        drop(sys::signal_process(self.jail.pidfd.as_fd(), libc::SIGKILL));
    }

    /// Takes init's exit status, and with it the processor time of all that were waited for.
    fn bury(mut self) -> Result<Ended> {
        let (status, cpu) = sys::wait_with_usage(self.jail.pid).context(STEP, "wait for init")?;
        let running = self.started.take();
        let ended_by = match (self.cause.take(), &running) {
            (Some(cause), _) => cause?,
            // Somebody outside, the kernel's out-of-memory killer for one, killed init and thereby the jail.
            (None, Some(_)) => EndedBy::Signal(libc::WTERMSIG(status)),
            (None, None) => {
                return Err(failure(
                    FailureKind::Host,
                    STEP,
                    format_args!("init died during set-up, wait status {status:#x}"),
                ));
            }
        };
        let wall = running.as_ref().map_or(Duration::ZERO, |running| running.since.elapsed());
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Ok(Ended {
            limits_reached: self.limits_reached(ended_by),
            ended_by,
            usage: Usage {
                wall_us: micros(wall),
                cpu_us: micros(cpu),
                peak_processes: self.peak.tasks,
                peak_memory: self.peak.memory,
            },
            attempts: running.map(|running| running.traces.read(self.plan)).unwrap_or_default(),
        })
    }

    fn limits_reached(&self, ended_by: EndedBy) -> Vec<LimitReached> {
        let limits = &self.plan.limits;
        let reached = |limit, evidence: String| LimitReached { limit, evidence };
        let mut list = Vec::new();
        if self.peak.tasks >= limits.processes {
            list.push(reached(
                Limit::Processes,
                format!("{} tasks seen at a limit of {}", self.peak.tasks, limits.processes),
            ));
        }
        match ended_by {
            EndedBy::WallClock => {
                list.push(reached(Limit::Wall, format!("killed after {} ms", limits.wall_ms)))
            }
            EndedBy::Memory => list.push(reached(
                Limit::Memory,
                format!("killed with {} bytes resident at a limit of {}", self.peak.memory, limits.memory),
            )),
            EndedBy::Signal(libc::SIGXCPU) => {
                list.push(reached(Limit::Cpu, "the command died of SIGXCPU".to_owned()))
            }
            EndedBy::Signal(libc::SIGXFSZ) => {
                list.push(reached(Limit::FileSize, "the command died of SIGXFSZ".to_owned()))
            }
            EndedBy::Exit(_) | EndedBy::Signal(_) | EndedBy::Caller => {}
        }
        list
    }
}

/// Kills the jail when dropped.
struct Killer<'a>(BorrowedFd<'a>);

impl Drop for Killer<'_> {
    fn drop(&mut self) {
        // Fails if it is dead, which is what is wanted.
        drop(sys::signal_process(self.0, libc::SIGKILL));
    }
}

/// What woke the supervisor.
struct Events {
    message: bool,
    dead: bool,
    stop: bool,
}

impl Events {
    fn wait(jail: &Jail, signals: &SignalFd, lifeline: Option<&OwnedFd>, time: Duration) -> Result<Self> {
        let mut sources = vec![
            PollFd::new(jail.messages.as_fd(), PollFlags::POLLIN),
            PollFd::new(jail.pidfd.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        // A client says nothing after its policy: whatever is readable is its end.
        sources.extend(lifeline.map(|lifeline| PollFd::new(lifeline.as_fd(), PollFlags::POLLIN)));
        // Rounded up, so that a deadline has passed when poll says so.
        let timeout = PollTimeout::try_from(time + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX);
        match poll(&mut sources, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(io::Error::from(error)).context(STEP, "poll"),
        }
        let ready = |at: usize| sources.get(at).and_then(PollFd::any).unwrap_or(false);
        Ok(Events { message: ready(0), dead: ready(1), stop: ready(2) || ready(3) })
    }
}

/// The signals that mean "stop", as a descriptor. They are blocked here alone: the jail was made before.
fn stop_signals() -> Result<SignalFd> {
    let mut set = SigSet::empty();
    STOP_SIGNALS.into_iter().for_each(|signal| set.add(signal));
    set.thread_block().map_err(io::Error::from).context(STEP, "block the stop signals")?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC).map_err(io::Error::from).context(STEP, "signalfd")
}

/// Which file enforces; unknown if `/proc` does not say.
fn own_executable() -> Bytes {
    std::env::current_exe().map(|path| Bytes::from(path.as_os_str().as_bytes())).unwrap_or_default()
}
