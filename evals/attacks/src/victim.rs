//! A process of the user, to be attacked.

use crate::under_way::{Noted, spawn};
use std::io;
use std::process::{Child, Command, Stdio};

/// It ends with the attack.
pub(crate) struct Victim {
    child: Child,
    _noted: Noted,
}

impl Victim {
    pub(crate) fn new(command: &mut Command) -> io::Result<Self> {
        // It may complain of what is done to it.
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (child, noted) = spawn(command, None)?;
        Ok(Victim { child, _noted: noted })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_dead(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may be dead: that was the attack.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
