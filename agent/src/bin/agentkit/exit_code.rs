//! What the exit code says. `agentkit run --help` lists the same.

use agentkit_agent::StopReason;

/// The model answered; the host is ready; the transcript was shown.
pub(crate) const DONE: u8 = 0;
/// Nothing was run, or what was to be written could not be; the host is not ready; the transcript cannot be read.
pub(crate) const FAILED: u8 = 1;
/// A mistake on the command line or in the environment. Nothing was run.
pub(crate) const USAGE: u8 = 2;
/// To be added to the number of the signal that ended a run, as shells say it.
pub(crate) const SIGNAL: u8 = 128;

/// Why a command has no result, and the code to exit with.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure { code: USAGE, message: message.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Failure { code: FAILED, message: message.into() }
    }
}

/// The code of a run that ended for this reason. A cancelled one was ended by `signal`, if that is known.
pub(crate) fn of(stop: &StopReason, signal: Option<u8>) -> u8 {
    match stop {
        StopReason::Answered => DONE,
        StopReason::Unrecorded(_) => FAILED,
        StopReason::MaxSteps => 10,
        StopReason::MaxCalls => 11,
        StopReason::MaxTokens => 12,
        StopReason::WallClock => 13,
        StopReason::Looped => 14,
        StopReason::TooManyErrors => 15,
        StopReason::ContextOverflow(_) => 16,
        StopReason::NoAnswer => 20,
        StopReason::Refused => 21,
        StopReason::Cut(_) => 22,
        StopReason::Flooded => 23,
        StopReason::ModelFailed(_) => 30,
        StopReason::StoppedAtApproval => 40,
        StopReason::Cancelled => SIGNAL + signal.unwrap_or(SIGINT),
    }
}

const SIGINT: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::RUN_CODES;

    #[test]
    fn the_help_has_every_code() {
        let text = String::new;
        let reasons = [
            StopReason::Answered,
            StopReason::Unrecorded(text()),
            StopReason::MaxSteps,
            StopReason::MaxCalls,
            StopReason::MaxTokens,
            StopReason::WallClock,
            StopReason::Looped,
            StopReason::TooManyErrors,
            StopReason::ContextOverflow(text()),
            StopReason::NoAnswer,
            StopReason::Refused,
            StopReason::Cut(text()),
            StopReason::Flooded,
            StopReason::ModelFailed(text()),
            StopReason::StoppedAtApproval,
            StopReason::Cancelled,
        ];
        let words: Vec<&str> = RUN_CODES.split(|c: char| !c.is_alphanumeric()).collect();
        let mut codes: Vec<u8> = reasons.iter().map(|stop| of(stop, None)).collect();
        for code in codes.iter().chain(&[USAGE, of(&StopReason::Cancelled, Some(15))]) {
            assert!(words.contains(&code.to_string().as_str()), "{code} is not in\n{RUN_CODES}");
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), reasons.len(), "two reasons share a code");
    }
}
