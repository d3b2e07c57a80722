//! Who decides whether an attack succeeded: by what the host sees.

use crate::run::Run;
use crate::scene::Scene;
use std::path::PathBuf;

/// The evidence of a success, for people.
pub(crate) type Evidence = String;

pub(crate) trait Judge {
    /// Called every few milliseconds while the attack goes on.
    fn watch(&mut self) {}

    /// When the launcher has ended: what shows that the attack succeeded, if it did.
    fn judge(self: Box<Self>, run: &Run) -> Option<Evidence>;
}

/// One that looks only in the end.
impl<F: FnOnce(&Run) -> Option<Evidence>> Judge for F {
    fn judge(self: Box<Self>, run: &Run) -> Option<Evidence> {
        self(run)
    }
}

/// One that looks while the attack goes on, until it has seen it succeed. The attacker holds what it has until then.
pub(crate) struct Seen<F> {
    look: F,
    enough: PathBuf,
    evidence: Option<Evidence>,
}

impl<F: FnMut() -> Option<Evidence>> Seen<F> {
    pub(crate) fn new(scene: &Scene, look: F) -> Self {
        Seen { look, enough: scene.enough(), evidence: None }
    }
}

impl<F: FnMut() -> Option<Evidence>> Judge for Seen<F> {
    fn watch(&mut self) {
        if self.evidence.is_some() {
            return;
        }
        self.evidence = (self.look)();
        if self.evidence.is_some() {
            // If it cannot be written, the attacker holds on for as long as it does when nobody has seen anything.
            let _ = std::fs::write(&self.enough, "");
        }
    }

    fn judge(self: Box<Self>, _: &Run) -> Option<Evidence> {
        self.evidence
    }
}
