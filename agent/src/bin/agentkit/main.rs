//! The command `agentkit`: gives a task to a model, looks at what this host can enforce, shows recorded runs.

mod approve;
mod cli;
mod doctor;
mod exit_code;
mod interrupt;
mod jail;
mod json_lines;
mod live;
mod paint;
mod plain;
mod replay;
mod run;
mod screen;
mod settings;
mod toolbox;
mod words;

use cli::Command;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all, and before any thread: under the name `agentkit-jail` this program is the jail.
    agentkit_jail::door();
    let outcome = match cli::read() {
        Ok(Command::Run(args)) => run::run(&args),
        Ok(Command::Doctor(args)) => doctor::run(&args),
        Ok(Command::Replay(args)) => replay::run(&args),
        Err(failure) => Err(failure),
    };
    outcome
        .unwrap_or_else(|failure| {
            // Nobody is left to tell if this fails too; the exit code still does.
            let _ = writeln!(io::stderr(), "agentkit: {}", plain::one_line(&failure.message, 2000));
            failure.code
        })
        .into()
}
