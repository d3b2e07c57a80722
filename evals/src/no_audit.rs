//! `agentkit-evals audit` where there are no attacks.

use crate::cli::AuditArgs;
use std::io::Write;

#[derive(Debug, thiserror::Error)]
#[error("the attacks are on Linux sandboxes, and need Linux to be performed")]
pub(crate) struct AuditError;

pub(crate) fn run(_: &AuditArgs, _: &mut impl Write) -> Result<u8, AuditError> {
    Err(AuditError)
}
