//! The benchmark's command.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all, and before any thread: under the name `agentkit-jail` this program is the jail.
    agentkit_jail::door();
    agentkit_evals::main()
}
