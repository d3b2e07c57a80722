//! `agentkit replay`: a recorded run on the same screen as a live one, but on standard output.

use crate::cli::ReplayArgs;
use crate::exit_code::{DONE, Failure};
use crate::paint::{Paint, Tone};
use crate::screen::Screen;
use agentkit_agent::transcript::{self, Recorded};
use std::io;

/// Runs the command and returns what to exit with.
pub(crate) fn run(args: &ReplayArgs) -> Result<u8, Failure> {
    let recorded = transcript::read(&args.file).map_err(|why| Failure::failed(why.to_string()))?;
    match show(&recorded) {
        // Who has seen enough, as `head` has, is no failure.
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(DONE),
        Err(why) => Err(Failure::failed(format!("cannot write to standard output: {why}"))),
        Ok(()) => Ok(DONE),
    }
}

fn show(recorded: &Recorded) -> io::Result<()> {
    let stdout = io::stdout();
    let paint = Paint::on(&stdout);
    let mut screen = Screen::new(stdout.lock(), paint, false);
    for entry in &recorded.entries {
        screen.hear(&entry.event)?;
    }
    if let Some(warning) = recorded.warning() {
        screen.say("warn", Tone::Doubtful, &warning)?;
    }
    if recorded.stop().is_none() {
        let unfinished =
            "the transcript ends here, before the end of the run (agentkit run --resume goes on)";
        screen.say("warn", Tone::Doubtful, unfinished)?;
    }
    Ok(())
}
