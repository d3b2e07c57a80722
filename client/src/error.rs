//! Why there is no outcome: three different things that call for three different people, and the caller's own wish.

use agentkit_protocol::{Failure, FailureKind};
use std::fmt::Display;
use std::io;

/// Why a command has no [`Outcome`](crate::Outcome).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This host cannot provide the jail, or the helper is missing or died. Someone has to fix the host.
    #[error("the sandbox is unavailable: {0}")]
    Unavailable(Failure),
    /// The policy was refused, or the host enforces less than it requires. The caller has to ask for something else.
    #[error("the sandbox refused: {0}")]
    Refused(Failure),
    /// The command does not exist inside the jail, or is not executable.
    #[error("the command did not start: {0}")]
    NotStarted(Failure),
    /// [`Cancel::cancel`](crate::Cancel::cancel) came before the command started.
    #[error("cancelled before the command started: nothing was run")]
    Cancelled,
}

impl Error {
    /// The details; a cancelled run has none.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Error::Unavailable(failure) | Error::Refused(failure) | Error::NotStarted(failure) => {
                Some(failure)
            }
            Error::Cancelled => None,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure.kind {
            FailureKind::Host => Error::Unavailable(failure),
            FailureKind::Policy | FailureKind::Required => Error::Refused(failure),
            FailureKind::NotFound | FailureKind::NotExecutable => Error::NotStarted(failure),
        }
    }
}

/// A failure of the host or the helper.
pub(crate) fn host(step: &str, message: impl Into<String>) -> Failure {
    Failure {
        kind: FailureKind::Host,
        step: step.to_owned(),
        message: message.into(),
        errno: None,
        hint: None,
    }
}

/// A failed call of the operating system: `what` was done, on what.
pub(crate) fn os(step: &str, what: impl Display, error: &io::Error) -> Failure {
    Failure { errno: error.raw_os_error(), ..host(step, format!("{what}: {error}")) }
}

/// A mistake of the caller.
pub(crate) fn policy(step: &str, message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure { kind: FailureKind::Policy, hint: Some(hint.into()), ..host(step, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_failure_goes_to_the_person_who_can_act() {
        let error = |kind| Error::from(Failure { kind, ..host("step", "message") });
        assert!(matches!(error(FailureKind::Host), Error::Unavailable(_)));
        assert!(matches!(error(FailureKind::Policy), Error::Refused(_)));
        assert!(matches!(error(FailureKind::Required), Error::Refused(_)));
        assert!(matches!(error(FailureKind::NotFound), Error::NotStarted(_)));
        assert!(matches!(error(FailureKind::NotExecutable), Error::NotStarted(_)));
    }

    #[test]
    fn an_error_says_what_why_and_what_to_do() {
        let error = Error::from(policy("language", "no interpreter for \"cobol\"", "use python"));
        assert_eq!(
            error.to_string(),
            "the sandbox refused: language: no interpreter for \"cobol\" (use python)"
        );
    }
}
