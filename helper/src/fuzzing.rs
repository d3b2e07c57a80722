//! What reads bytes that others wrote, one function for each kind, with what has to hold of the outcome.
//!
//! For `helper/fuzz` and for the test that reads its corpus again: `--cfg fuzzing` is set by `cargo fuzz` alone, so that no
//! build that is shipped has this.

use crate::cli::{self, Caller, Command, PolicyFrom};
use crate::{input, validate};
use agentkit_protocol::{Capabilities, Event, Policy, frame};
use serde::{Serialize, de::DeserializeOwned};
use std::ffi::OsStr;
use std::fmt::Debug;
use std::os::unix::ffi::OsStrExt;

#[cfg(target_os = "linux")]
pub use crate::platform::fuzzing::{git_index, git_settings, kernel_files, programs};

/// What a client sends, or what it is sent: a frame, or the payload of one.
pub fn frames(bytes: &[u8]) {
    each_frame::<Policy>(bytes);
    each_frame::<Event>(bytes);
    each_frame::<Capabilities>(bytes);
}

/// A message that is understood is the same after another trip.
fn each_frame<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let known = [frame::read::<T>(bytes).ok().flatten(), frame::decode_payload(bytes).ok()];
    for message in known.into_iter().flatten() {
        let again = frame::encode(&message).expect("what was decoded fits");
        assert_eq!(frame::read::<T>(&again[..]).expect("it was just encoded"), Some(message));
    }
}

/// A script's standard input.
pub fn json(bytes: &[u8]) {
    if let Ok(policy) = input::parse(bytes) {
        let text = serde_json::to_vec(&policy).expect("a policy has a form in JSON");
        assert_eq!(input::parse(&text[..]).expect("it was just printed"), policy);
    }
}

/// A policy as a payload, which can be anything that has its type.
pub fn plans(payload: &[u8]) {
    if let Ok(policy) = frame::decode_payload::<Policy>(payload) {
        judge(policy);
    }
}

/// The command line, one argument a line.
pub fn flags(lines: &[u8]) {
    let arguments: Vec<_> =
        lines.split(|byte| *byte == b'\n').map(|line| OsStr::from_bytes(line).to_owned()).collect();
    match cli::parse(&arguments) {
        Ok(
            Command::Print(policy) | Command::Run(Caller::Script { policy: PolicyFrom::Flags(policy), .. }),
        ) => judge(*policy),
        Ok(_) => {}
        Err(message) => assert!(!message.is_empty()),
    }
}

/// A policy that is accepted is so too as it is printed, and its plan keeps what later steps rely on.
fn judge(policy: Policy) {
    let text = serde_json::to_vec(&policy).expect("a policy has a form in JSON");
    assert_eq!(input::parse(&text[..]).expect("it was just printed"), policy);
    let Ok(plan) = validate::plan(policy) else { return };
    assert!(plan.argv.first().is_some_and(|program| !program.is_empty()));
    assert!(plan.rules.is_sorted_by(|(path, _), (next, _)| path < next));
    for path in plan.rules.iter().map(|(path, _)| path).chain(&plan.watched_paths) {
        assert!(path.is_absolute() && path.components().all(|part| part.as_os_str() != ".."), "{path:?}");
    }
    for (name, _) in &plan.files {
        assert!(name.components().count() == 1 && name.file_name() == Some(name.as_os_str()), "{name:?}");
    }
    assert!(plan.env.iter().all(|(name, value)| !name.contains('=') && !value.0.contains(&0)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// What fuzzing has come to is read again by every build.
    #[test]
    fn the_corpus_holds() {
        type Target = fn(&[u8]);
        let portable: [(&str, Target); 4] =
            [("frames", frames), ("json", json), ("plans", plans), ("flags", flags)];
        #[cfg(target_os = "linux")]
        let of_platform: [(&str, Target); 4] = [
            ("git_index", git_index),
            ("git_settings", git_settings),
            ("kernel_files", kernel_files),
            ("programs", programs),
        ];
        #[cfg(not(target_os = "linux"))]
        let of_platform: [(&str, Target); 0] = [];
        for (name, target) in portable.into_iter().chain(of_platform) {
            let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
            let mut read = 0;
            for entry in std::fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{corpus:?}: {error}")) {
                target(&std::fs::read(entry.unwrap().path()).unwrap());
                read += 1;
            }
            assert!(read > 0, "{corpus:?} is empty");
        }
    }
}
