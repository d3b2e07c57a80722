//! `agentkit-jail`: all of it lives in the library, so that other programs can offer the same door.

#![cfg_attr(all(target_os = "linux", target_env = "gnu"), no_main)]

/// What std does before its own `main` takes some twenty calls, a fiftieth of a launch: a handler that explains stack
/// overflows, mostly. The rest is done by the jail's first step.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library calls this very name; there is no other of it")]
#[unsafe(no_mangle)]
extern "C" fn main() -> std::ffi::c_int {
    agentkit_jail::main()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() {
    std::process::exit(agentkit_jail::main());
}
