//! A process of the user, to be attacked.

use std::io;
use std::process::{Child, Command, Stdio};

/// It ends with the attack.
pub(crate) struct Victim(Child);

impl Victim {
    pub(crate) fn new(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map(Victim)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_dead(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may be dead: that was the attack.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
