//! The wall clock, the looks at what is used, the kill, and the report.

use super::Jail;
use super::capabilities::{self, Evidence, Found};
use super::child::{self, Child, Task};
use super::events::Event;
use super::look::Looks;
use super::relay::{Copying, Relays};
use super::sys;
use crate::deadline;
use crate::error::{Context, Result};
use crate::report::Reporter;
use crate::validate::Plan;
use agentkit_protocol::{
    Bytes, Capabilities, Ended, EndedBy, Event as Report, Failure, Limit, LimitReached, Mechanism, ReadBack,
    Started, VERSION,
};
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpid, getuid};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

const STEP: &str = "supervise";
/// How long the command may take to end in its own way once a signal asks for it.
const GRACE: Duration = Duration::from_secs(2);
/// Signals that come this soon after the first are the same request: timeout(1) sends one to its child and one to the
/// group, and so does a shell whose user presses Ctrl-C.
const SAME_REQUEST: Duration = Duration::from_millis(100);

/// Runs a task to its end.
pub(super) fn run(
    jail: &Jail,
    plan: &Plan,
    (task, relays): (Task, Relays),
    reporter: &mut Reporter,
) -> Result<Ended> {
    let events = &jail.events;
    if let Reporter::Client(socket) = reporter {
        events.watch_lifeline(socket.as_fd())?;
    }
    let mut child = child::start(&task)?;
    // Its ends of the pipes: as long as we held them, the copiers would wait for us.
    drop(task);
    let (found, capabilities) = confine(jail, plan, &mut child)?;
    let pid = child.pid;
    events.watch_child(pid)?;
    // From here on nothing is forked, so that there can be threads.
    let copying = relays.start()?;
    child.go()?;
    reporter.send(&Report::Started(started(jail, found, capabilities)));
    let looks = Looks::new(&plan.limits, &jail.mark, &jail.private);
    Run { jail, plan, pid, looks, stop_asked: None }.finish(copying).map_err(broke)
}

/// It could not be watched any more. The keeper kills what is left.
fn broke(failure: Failure) -> Failure {
    Failure {
        message: format!("{}; the command may have run, and what is left of it is killed", failure.message),
        ..failure
    }
}

/// Goes as far as the command would be executed.
pub(super) fn probe(jail: &Jail, plan: &Plan, task: &Task) -> Result<Capabilities> {
    let mut child = child::start(task)?;
    let (_, capabilities) = confine(jail, plan, &mut child)?;
    let pid = child.pid;
    child.go()?;
    sys::wait_with_usage(pid).context(STEP, "wait for the probe")?;
    Ok(capabilities)
}

/// The child waits for leave; without it, it ends when this process does, or the keeper kills it.
fn confine(jail: &Jail, plan: &Plan, child: &mut Child) -> Result<(Found, Capabilities)> {
    let found = child.ready()?;
    let is_marked =
        jail.mark.is_on(child.pid) == Some(true) && jail.mark.is_on(getpid().as_raw()) == Some(false);
    let is_confined = sys::is_confined(child.pid);
    let evidence =
        Evidence { found: &found, is_confined, is_marked, workdir_read_only: jail.workdir_read_only };
    let capabilities = capabilities::derive(&evidence, plan);
    capabilities::check(&capabilities, plan)?;
    Ok((found, capabilities))
}

fn started(jail: &Jail, found: Found, capabilities: Capabilities) -> Started {
    let uid = getuid().as_raw();
    let helper =
        std::env::current_exe().map(|path| Bytes::from(path.as_os_str().as_bytes())).unwrap_or_default();
    let read_back = ReadBack {
        uid,
        outer_uid: uid,
        limits_bind: true,
        workdir_read_only: jail.workdir_read_only,
        rlimits: found.rlimits,
        ..ReadBack::default()
    };
    let (mechanism, passed_over) = (Mechanism::Seatbelt, Vec::new());
    Started { version: VERSION, mechanism, passed_over, helper, capabilities, read_back }
}

/// A command that runs.
struct Run<'a> {
    jail: &'a Jail,
    plan: &'a Plan,
    pid: i32,
    looks: Looks<'a>,
    /// What asked for the end first, and when it was passed on.
    stop_asked: Option<(i32, Instant)>,
}

impl Run<'_> {
    fn finish(mut self, copying: Copying) -> Result<Ended> {
        let cause = self.follow()?;
        self.jail.mark.kill_all()?;
        let (status, cpu) = sys::wait_with_usage(self.pid).context(STEP, "wait for the command")?;
        let ended_by = cause.unwrap_or_else(|| own_end(status));
        let (usage, mut limits_reached) = self.looks.end(cpu, ended_by);
        let output = copying.finish();
        let cut = output.cut.into_iter().map(|evidence| LimitReached { limit: Limit::Output, evidence });
        limits_reached.extend(cut);
        Ok(Ended {
            ended_by,
            limits_reached,
            usage,
            attempts: Vec::new(),
            changes: None,
            quarantined: Vec::new(),
            unchecked: Vec::new(),
            unwritten: output.unwritten,
        })
    }

    /// Until the command has ended, or everything has to: why, if it was not the command.
    fn follow(&mut self) -> Result<Option<EndedBy>> {
        let deadline = deadline::after(Instant::now(), Duration::from_millis(self.plan.limits.wall_ms));
        loop {
            let patience = self.stop_asked.map(|(_, when)| deadline::after(when, GRACE));
            let next = patience.into_iter().fold(deadline.min(self.looks.next()), Instant::min);
            let events = self.jail.events.wait(next.saturating_duration_since(Instant::now()))?;
            if events.contains(&Event::Dead) {
                return Ok(None);
            }
            for event in events {
                if let Some(end) = self.heed(event) {
                    return Ok(Some(end));
                }
            }
            let now = Instant::now();
            match self.stop_asked {
                Some((signal, when)) if deadline::after(when, GRACE) <= now => {
                    return Ok(Some(EndedBy::Stopped(signal)));
                }
                _ if deadline <= now => return Ok(Some(EndedBy::WallClock)),
                _ => {}
            }
            if let Some(passed) = self.looks.look()? {
                return Ok(Some(passed));
            }
        }
    }

    /// The command is asked to end. If it does not in time, or this comes again, all is killed.
    fn heed(&mut self, event: Event) -> Option<EndedBy> {
        match (event, self.stop_asked) {
            (Event::Dead, _) => None,
            (Event::HungUp, _) => Some(EndedBy::Caller),
            (Event::Die(signal), _) => Some(EndedBy::Stopped(signal)),
            (Event::Stop(signal), None) => {
                self.stop_asked = Some((signal, Instant::now()));
                self.pass_on(signal);
                None
            }
            (Event::Stop(signal), Some((first, when))) if when.elapsed() < SAME_REQUEST => {
                if signal != first {
                    self.pass_on(signal);
                }
                None
            }
            (Event::Stop(_), Some((first, _))) => Some(EndedBy::Stopped(first)),
        }
    }

    /// To the group that the command leads. If that is dead, it is all over anyway.
    fn pass_on(&self, signal: i32) {
        let _ = Signal::try_from(signal).map(|signal| killpg(Pid::from_raw(self.pid), signal));
    }
}

/// From a wait status, see wait(2).
fn own_end(status: i32) -> EndedBy {
    if libc::WIFEXITED(status) {
        EndedBy::Exit(libc::WEXITSTATUS(status))
    } else {
        EndedBy::Signal(libc::WTERMSIG(status))
    }
}
