//! What was promised and required, against what is claimed.

use crate::error::{Result, failure};
use crate::validate::Plan;
use agentkit_protocol::{Capabilities, Control, FailureKind, Level, Net};

const STEP: &str = "capabilities";

/// Stops a launch that would deliver less than the mechanism promises whenever it works at all, or than the policy
/// requires.
pub(crate) fn check(capabilities: &Capabilities, promised: &[Control], plan: &Plan) -> Result<()> {
    let mut broken = capabilities.missing(promised.iter().copied());
    // A stated exception is no broken promise.
    broken.retain(|(_, level)| matches!(level, Level::None(_)));
    broken.retain(|(control, _)| *control != Control::NetworkBlocked || plan.net != Net::Host);
    if !broken.is_empty() && !cfg!(feature = "mutants") {
        return Err(failure(
            FailureKind::Host,
            STEP,
            format_args!("set-up succeeded, but {}", list("is", &broken)),
        ));
    }
    let missing = capabilities.missing(plan.require.iter().copied());
    if !missing.is_empty() {
        return Err(failure(FailureKind::Required, STEP, list("is required, but here it is", &missing)));
    }
    Ok(())
}

fn list(is: &str, controls: &[(Control, Level)]) -> String {
    let each: Vec<String> =
        controls.iter().map(|(control, level)| format!("{control} {is} {level}")).collect();
    each.join("; ")
}
