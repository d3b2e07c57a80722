//! Failures: which step, what was done on what, the errno, and what a person can do about it.

use agentkit_protocol::{Failure, FailureKind, Mechanism};
use std::fmt::Display;
use std::io;

/// What a person can do where the kernel refuses user namespaces.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there are none elsewhere"))]
pub(crate) const NO_USER_NAMESPACES: &str = "unprivileged user namespaces seem to be switched off: see sysctl \
    user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, or the \
    container's seccomp profile; in a chroot there are none";

/// What is added for a root launcher: a probe, which needs no directory, would not tell otherwise.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there are none elsewhere"))]
pub(crate) const NONE_FOR_ROOT: &str = "Where root is refused them too, it has no directory of the host's to give to be written: \
    start it as the owner of the work dir";

/// The result of a step of the launch.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A failure that no system call caused.
pub(crate) fn failure(kind: FailureKind, step: &str, message: impl Display) -> Failure {
    Failure { kind, step: step.to_owned(), message: message.to_string(), errno: None, hint: None }
}

/// The caller's mistake.
pub(crate) fn policy(message: impl Display) -> Failure {
    failure(FailureKind::Policy, "policy", message)
}

/// What kept each mechanism from being used, each text once.
pub(crate) fn of_each<'a>(failures: impl IntoIterator<Item = (Mechanism, &'a Failure)>) -> String {
    let mut groups: Vec<(Vec<String>, &Failure)> = Vec::new();
    for (mechanism, failure) in failures {
        match groups.last_mut().filter(|(_, other)| *other == failure) {
            Some((names, _)) => names.push(mechanism.to_string()),
            None => groups.push((vec![mechanism.to_string()], failure)),
        }
    }
    let each = groups.into_iter().map(|(names, failure)| {
        let named = names.iter().find(|name| **name == failure.step);
        format!("{}: {}", names.join(", "), without_step(named.map_or("", String::as_str), failure))
    });
    each.collect::<Vec<_>>().join("; ")
}

/// The text of a failure after a mechanism's name, which often is that of the step too.
pub(crate) fn without_step(name: &str, failure: &Failure) -> String {
    let text = failure.to_string();
    let rest = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
    rest.unwrap_or(&text).to_owned()
}

/// Names the step and the operation of a failed call.
pub(crate) trait Context<T> {
    /// `operation` says what was done on what, for instance `open /dev/null`.
    fn context(self, step: &str, operation: impl Display) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, step: &str, operation: impl Display) -> Result<T> {
        self.map_err(|error| {
            let error = error.into();
            Failure {
                errno: error.raw_os_error(),
                ..failure(FailureKind::Host, step, format_args!("{operation}: {}", plain(&error)))
            }
        })
    }
}

/// Adds what a person can do about a failure.
pub(crate) trait Hint<T> {
    /// Adds `hint` unless the failure has one.
    fn hint(self, hint: &str) -> Result<T>;
}

impl<T> Hint<T> for Result<T> {
    fn hint(self, hint: &str) -> Result<T> {
        self.map_err(|failure| Failure { hint: failure.hint.or_else(|| Some(hint.to_owned())), ..failure })
    }
}

/// The text of an error without std's trailing "(os error 1)", which the errno field already says.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((plain, _)) => plain.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_failed_at_alike_is_told_once() {
        let [own, other] = ["namespaces", "view"].map(|step| failure(FailureKind::Host, step, "no"));
        let all =
            [(Mechanism::Namespaces, &own), (Mechanism::Bubblewrap, &own), (Mechanism::Landlock, &other)];
        assert_eq!(of_each(all), "namespaces, bubblewrap: no; landlock: view: no");
        assert_eq!(of_each([(Mechanism::Namespaces, &other)]), "namespaces: view: no");
    }
}
