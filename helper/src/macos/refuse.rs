//! What a policy can ask for and macOS does not have. It is refused by name: nothing is left out silently.

use crate::error::{Hint, Result, failure};
use crate::validate::Plan;
use agentkit_protocol::{FailureKind, Mechanism, WorkDir};
use nix::unistd::getuid;

const STEP: &str = "seatbelt";

/// Before anything else happens.
pub(super) fn what_cannot_be_had(plan: &Plan) -> Result<()> {
    let reasons = [
        (
            !plan.mechanism.allows(Mechanism::Seatbelt),
            "mechanism: macOS has seatbelt and no other",
            "leave it out, or set it to auto",
        ),
        (
            getuid().is_root(),
            "root keeps its power over the host in a sandbox",
            "run it as an ordinary user, for instance with sudo -u",
        ),
        (
            matches!(plan.workdir, WorkDir::Overlay { .. }),
            "workdir: there is no overlay on macOS",
            "copy the directory and bind the copy",
        ),
        (
            plan.tty,
            "tty: no terminal of the jail's own is made on macOS yet",
            "leave it out: output is copied",
        ),
        (
            !plan.watched_paths.is_empty(),
            "watch.paths: macOS tells nobody which file was opened",
            "leave it out",
        ),
        (
            !plan.watched_ports.is_empty(),
            "watch.tcp_ports: macOS has no loopback of a jail's own",
            "leave it out",
        ),
        (plan.watch_forks, "watch.forks: macOS lets nobody count them", "leave it out"),
    ];
    match reasons.into_iter().find(|(applies, ..)| *applies) {
        Some((_, message, hint)) => Err(failure(FailureKind::Host, STEP, message)).hint(hint),
        None => Ok(()),
    }
}
