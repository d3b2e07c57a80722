//! The supervisor's side of a jail whose processes are ended by its init.

use super::private::Private;
use super::wall::Wall;
use super::{STEP, end};
use crate::error::{Context, Result};
use crate::linux::asked::Topics;
use crate::linux::attributes;
use crate::linux::follow::Root;
use crate::linux::jail::{Heard, HeldBy, Jail};
use crate::linux::message::{self, Message, Order};
use crate::linux::{deadline, sys, usage};
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Mechanism, ReadBack};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long init may take to end everything, and then to remove what is private, before it is killed: somebody may have
/// stopped it. What it has not done, be that only slow, is done in [`HeldBy::bury`].
const LONGEST: Duration = Duration::from_secs(2);

/// What the supervisor has of it.
pub(crate) struct Tree {
    wall: Box<dyn Wall>,
    /// Removed at the latest when this is dropped.
    private: Private,
    /// Where the command may change attributes of files.
    roots: Vec<Root>,
}

impl Tree {
    pub(super) fn new(wall: Box<dyn Wall>, private: Private, roots: Vec<Root>) -> Self {
        Tree { wall, private, roots }
    }
}

impl HeldBy for Tree {
    fn mechanism(&self) -> Mechanism {
        self.wall.mechanism()
    }

    fn capabilities(&self, state: &ReadBack, plan: &Plan) -> Capabilities {
        self.wall.derive(state, plan)
    }

    fn change_attributes(&self, question: &libc::seccomp_notif, waits: &dyn Fn() -> bool) -> nix::Result<()> {
        attributes::change(question, &self.roots, waits)
    }

    fn topics(&self, plan: &Plan) -> Topics {
        self.wall.topics(plan)
    }

    fn is_among_others(&self) -> bool {
        true
    }

    /// Init has everything ended. If it is dead, that is done in [`HeldBy::bury`].
    fn end(&self, jail: &Jail) {
        drop(message::send(jail.messages.as_fd(), &Order::End, &[]));
        drop(sys::signal_process(jail.pidfd.as_fd(), libc::SIGCONT));
    }

    /// Until init says that nobody is left, or is dead itself. It may also say that it could not come to that.
    fn wait_until_gone(&self, jail: &Jail, heard: &mut Heard) -> Result<()> {
        let end = deadline::after(Instant::now(), LONGEST);
        // After an error it is dead, and after its end there is nothing more to hear.
        while wait(&jail.messages, end) {
            match message::receive::<Message>(jail.messages.as_fd()) {
                Ok(Some((Message::Gone, _)) | None) | Err(_) => return Ok(()),
                Ok(Some((Message::Broke(failure), _))) => return Err(failure),
                Ok(Some(other)) => heard.push(other),
            }
        }
        drop(sys::signal_process(jail.pidfd.as_fd(), libc::SIGKILL));
        Ok(())
    }

    /// Lets init remove what is private, and waits for it. What it did not do, since somebody killed it, is done here.
    fn bury(&self, jail: &Jail) -> Result<(libc::c_int, Duration)> {
        // As long as it was not waited for, the number is its own.
        let proc = File::open("/proc").map(OwnedFd::from).context(STEP, "open /proc")?;
        let started = usage::starts(&proc, jail.pid.unsigned_abs());
        // For init the end of the supervisor, by which it sees that nothing more is asked for.
        let _ = shutdown(jail.messages.as_raw_fd(), Shutdown::Both);
        let end = deadline::after(Instant::now(), LONGEST);
        if !wait(&jail.pidfd, end) {
            drop(sys::signal_process(jail.pidfd.as_fd(), libc::SIGKILL));
        }
        let waited = sys::wait_with_usage(jail.pid).context(STEP, "wait for init")?;
        if waited.0 != 0 {
            // Somebody killed it, or it could not come to the end of all.
            let session = nix::unistd::getsid(None).map_or(0, |session| session.as_raw().unsigned_abs());
            // All that the supervisor has started itself is in its own session, or older than the jail.
            end::strays(self.wall.version(), |child| {
                child.session != session && started.is_none_or(|started| child.started >= started)
            })?;
        }
        self.private.remove().context(STEP, format_args!("remove {:?}", self.private.path))?;
        Ok(waited)
    }
}

/// Whether something can be read, or has come to its end, before that time.
fn wait(source: &OwnedFd, end: Instant) -> bool {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(source.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) => return false,
            Err(nix::errno::Errno::EINTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}
