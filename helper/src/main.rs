//! `agentkit-jail`: all of it lives in the library, so that other programs can offer the same door.

fn main() {
    std::process::exit(agentkit_jail::main());
}
