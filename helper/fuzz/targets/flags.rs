#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agentkit_jail::fuzzing::flags(bytes));
