//! How a policy is read, and what is done with it.

/// The flags that say nothing about the policy.
#[derive(Default)]
pub(super) struct Call {
    pub(super) tty: bool,
    pub(super) policy_fd: Option<i32>,
    pub(super) report_fd: Option<i32>,
    pub(super) print_policy: bool,
    pub(super) probe: bool,
    pub(super) json: bool,
    pub(super) client: bool,
    pub(super) help: bool,
    pub(super) version: bool,
}
