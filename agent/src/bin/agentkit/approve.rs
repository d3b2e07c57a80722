//! Asks the user before code runs in a directory of theirs.

use crate::live::Live;
use crate::plain::one_line;
use agentkit_agent::model::ToolCall;
use agentkit_agent::{Approver, Decision};
use nix::sys::termios::{FlushArg, tcflush};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Counts as changing something, and changes nothing but the run's own notes.
const HARMLESS: &str = "remember";

/// Asks on the terminal. Where there is none, the answer is no.
pub(crate) struct Ask {
    live: Arc<Live>,
    directory: String,
    is_all_allowed: AtomicBool,
}

impl Ask {
    /// Questions are shown by `live`, and are about this directory.
    pub(crate) fn new(live: Arc<Live>, directory: &Path) -> Self {
        let directory = one_line(&directory.to_string_lossy(), usize::MAX);
        Ask { live, directory, is_all_allowed: AtomicBool::new(false) }
    }

    fn ask(&self, call: &ToolCall) -> Decision {
        let stdin = io::stdin();
        if !(stdin.is_terminal() && io::stderr().is_terminal()) {
            return Decision::Deny(
                "nobody could be asked, since there is no terminal; the user can allow it beforehand with --yes"
                    .to_owned(),
            );
        }
        // What was typed before the question is no answer to it. A terminal that went away has none to give.
        let _ = tcflush(&stdin, FlushArg::TCIFLUSH);
        self.live.ask(
            call,
            &format!("run it in {}? [y]es, [a]ll from now on, [s]top, [n]o, or why not:", self.directory),
        );
        let mut line = String::new();
        match stdin.read_line(&mut line) {
            Ok(1..) => {
                self.live.answered();
                self.understand(line.trim())
            }
            Ok(0) | Err(_) => Decision::Stop,
        }
    }

    fn understand(&self, answer: &str) -> Decision {
        match answer {
            "y" | "yes" => Decision::Allow,
            "a" | "all" => {
                self.is_all_allowed.store(true, Ordering::SeqCst);
                Decision::Allow
            }
            "s" | "stop" => Decision::Stop,
            "" | "n" | "no" => Decision::Deny("the user said no".to_owned()),
            reason => Decision::Deny(format!("the user said no: {reason}")),
        }
    }
}

impl Approver for Ask {
    fn decide(&self, call: &ToolCall) -> Decision {
        if call.name == HARMLESS || self.is_all_allowed.load(Ordering::SeqCst) {
            return Decision::Allow;
        }
        self.ask(call)
    }
}
