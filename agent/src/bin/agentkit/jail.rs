//! Where the code of a run works, or why none runs.

use crate::cli::RunArgs;
use crate::exit_code::Failure;
use crate::live::Live;
use crate::paint::Tone;
use crate::toolbox::{bound, scratch};
use agentkit_client::Sandbox;
use std::path::PathBuf;

/// The sandbox of a run.
pub(crate) struct Jail {
    /// Why there is none, if there is none.
    pub(crate) sandbox: Result<Sandbox, String>,
    /// The user's own, in which calls work.
    pub(crate) directory: Option<PathBuf>,
    /// The user is asked before each call in it.
    pub(crate) asks: bool,
    /// No code is run.
    dry_run: bool,
}

impl Jail {
    /// # Errors
    /// If this host has sandboxes, and none of them can work in the directory.
    pub(crate) fn find(args: &RunArgs, directory: Option<PathBuf>) -> Result<Self, Failure> {
        let sandbox = match (scratch(), &directory) {
            (Ok(_), Some(directory)) => Ok(bound(directory).map_err(|why| {
                Failure::failed(format!("--workdir {}: code cannot work there: {why}", directory.display()))
            })?),
            (found, _) => found.map_err(|why| why.to_string()),
        };
        Ok(Jail { sandbox, directory, asks: !args.yes, dry_run: args.dry_run })
    }

    /// Tells the user what is ahead.
    pub(crate) fn introduce(&self, live: &Live) {
        let (tone, text) = match (&self.sandbox, &self.directory) {
            (Ok(_), _) if self.dry_run => (Tone::Good, "ready; in a dry run no code is run in it".to_owned()),
            (Ok(_), None) => {
                (Tone::Good, "ready; each call has an empty directory, which is gone after it".to_owned())
            }
            (Ok(_), Some(directory)) => {
                let asks = if self.asks {
                    "each call there is asked about"
                } else {
                    "calls there are not asked about"
                };
                (Tone::Good, format!("ready; work dir {}, {asks}", directory.display()))
            }
            (Err(why), _) => {
                let refused =
                    "none on this host, so python and shell are refused (agentkit doctor says what to do)";
                (Tone::Bad, format!("{refused}: {why}"))
            }
        };
        live.say("jail", tone, &text);
    }
}
