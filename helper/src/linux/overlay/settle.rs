//! After the run: whether to commit, and the way through both layers.

use super::Layers;
use super::walk::Walk;
use agentkit_protocol::{Changes, Commit, Committed, EndedBy, GitNames};
use nix::sys::signal::{SigSet, Signal};

/// Compares the layers of a run that is over, and commits where the policy asks for it.
pub(crate) fn settle(layers: &Layers, commit: Commit, git: GitNames, ended_by: EndedBy) -> Changes {
    let asked = match commit {
        Commit::Never => false,
        Commit::OnSuccess => ended_by == EndedBy::Exit(0),
        Commit::Always => !matches!(ended_by, EndedBy::Caller | EndedBy::Stopped(_)),
    };
    if asked {
        // A launcher's limit on the size of files is to be an error and not our end.
        let mut too_large = SigSet::empty();
        too_large.add(Signal::SIGXFSZ);
        let _ = too_large.thread_block();
    }
    match Walk::new(layers, asked, git == GitNames::Protect) {
        Ok(walk) => walk.finish(),
        Err(failure) => Changes { commit: Committed::Failed(failure), ..Changes::default() },
    }
}
