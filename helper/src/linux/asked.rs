//! What the kernel asks the supervisor about before it does it (`SECCOMP_RET_USER_NOTIF`, Linux 5.0). It allows a process
//! one listener, so that all questions come on the same one. Where a filter around the launcher has it already, another
//! jail's for instance, that one must not do for the command what this jail keeps from it: the calls are refused, and of
//! two filters' answers the refusal counts (seccomp(2)).

#[cfg(without_namespaces)]
use super::attributes;
use super::forks::Forks;
use super::layers::Layer;
use super::modes;
use super::sys::{self, Instruction};
use crate::validate::Plan;
use nix::libc;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Answers of a filter, see linux/seccomp.h: the listener's, or EPERM.
const USER_NOTIF: u32 = 0x7fc0_0000;
const REFUSE: u32 = 0x0005_0000 | libc::EPERM as u32;

/// What is asked about.
#[derive(Clone, Copy, Default)]
pub(crate) struct Topics {
    forks: bool,
    modes: bool,
    #[cfg(without_namespaces)]
    attributes: bool,
}

impl Topics {
    pub(crate) fn of(plan: &Plan) -> Self {
        let modes = plan.writes_host_files() && !Layer::Modes.is_off();
        Topics {
            forks: plan.watch_forks,
            modes,
            #[cfg(without_namespaces)]
            attributes: false,
        }
    }

    /// Where nothing else keeps the command from the attributes of files: all changes of them.
    #[cfg(without_namespaces)]
    pub(crate) fn and_attributes(self) -> Self {
        Topics { attributes: true, modes: false, ..self }
    }

    #[cfg(without_namespaces)]
    fn of_attributes(self) -> &'static [libc::c_long] {
        if self.attributes { attributes::CALLS } else { &[] }
    }

    #[cfg(not(without_namespaces))]
    fn of_attributes(self) -> &'static [libc::c_long] {
        &[]
    }

    pub(crate) fn are_none(self) -> bool {
        !self.forks && !self.modes && self.of_attributes().is_empty()
    }

    /// In the process that becomes the command, before it does: from here on the supervisor is asked, by who holds the
    /// descriptor. Without one nobody can be, and what is asked about is refused.
    pub(crate) fn ask_supervisor(self) -> io::Result<Option<OwnedFd>> {
        match sys::load_notifying_filter(&self.filter(USER_NOTIF)) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => self.refuse().map(|()| None),
            loaded => loaded.map(Some),
        }
    }

    fn refuse(self) -> io::Result<()> {
        if self.forks {
            // Not by its number: it is no shortage that ends with time.
            return Err(io::Error::other("a filter around this process has its listener already (EBUSY)"));
        }
        sys::load_seccomp_filter(&self.filter(REFUSE))
    }

    fn filter(self, answer: u32) -> Vec<Instruction> {
        // Codes of linux/bpf_common.h, offsets and actions of linux/seccomp.h. The prelude of the main filter has checked
        // the architecture.
        const LOAD_WORD: u16 = 0x20;
        const JUMP_IF_EQUAL: u16 = 0x15;
        const JUMP_IF_ANY_BIT: u16 = 0x45;
        const RETURN: u16 = 0x06;
        const ALLOW: u32 = 0x7fff_0000;
        const ARGUMENTS: u32 = 16;
        let mut filter = vec![(LOAD_WORD, 0, 0, 0)];
        let forks = super::forks::CALLS.into_iter().filter(|_| self.forks);
        for call in forks.chain(self.of_attributes().iter().copied()) {
            filter.extend([(JUMP_IF_EQUAL, 0, 1, call as u32), (RETURN, 0, 0, answer)]);
        }
        for (call, mode) in modes::CALLS.into_iter().filter(|_| self.modes) {
            filter.extend([
                (JUMP_IF_EQUAL, 0, 4, call as u32),
                // The lower half, which is all that the kernel looks at.
                (LOAD_WORD, 0, 0, ARGUMENTS.saturating_add((mode as u32).saturating_mul(8))),
                (JUMP_IF_ANY_BIT, 0, 1, libc::S_ISGID),
                (RETURN, 0, 0, answer),
                (RETURN, 0, 0, ALLOW),
            ]);
        }
        filter.push((RETURN, 0, 0, ALLOW));
        filter
    }
}

/// The supervisor's side.
pub(crate) struct Asked {
    listener: OwnedFd,
    topics: Topics,
    pub(crate) forks: Option<Forks>,
}

impl Asked {
    pub(crate) fn new(listener: OwnedFd, topics: Topics) -> Self {
        Asked { listener, topics, forks: topics.forks.then(Forks::default) }
    }

    /// Readable when somebody waits for an answer that can be given now.
    pub(crate) fn listener(&self) -> Option<&OwnedFd> {
        Some(&self.listener).filter(|_| !self.holds_forks())
    }

    fn holds_forks(&self) -> bool {
        self.forks.as_ref().is_some_and(|forks| forks.held)
    }

    /// Answers one that waits: whoever asks all the time must not keep the supervisor from all else. `alive` are the
    /// processes and threads of the run at this moment, if forks are asked about; `change` changes attributes of files.
    pub(crate) fn answer(
        &mut self,
        alive: u64,
        limit: u64,
        change: impl FnOnce(&libc::seccomp_notif, &dyn Fn() -> bool) -> nix::Result<()>,
    ) {
        if self.holds_forks() {
            return;
        }
        // Whoever asked may have been killed meanwhile, before the question or before the answer.
        let Ok(question) = sys::receive_notification(self.listener.as_fd()) else { return };
        let call = libc::c_long::from(question.data.nr);
        let waits = || sys::is_waiting(self.listener.as_fd(), question.id);
        let of_modes = modes::CALLS.iter().any(|(mode_call, _)| *mode_call == call);
        drop(if of_modes || self.topics.of_attributes().contains(&call) {
            let errno = change(&question, &waits).err().map_or(0, |errno| errno as i32);
            sys::answer_notified(self.listener.as_fd(), question.id, errno)
        } else {
            if let Some(forks) = &mut self.forks {
                forks.let_one_through(alive, limit);
            }
            sys::continue_notified(self.listener.as_fd(), question.id)
        });
    }
}
