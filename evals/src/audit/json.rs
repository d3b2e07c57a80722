//! Findings for programs.

use super::Audited;
use serde::Serialize;
use std::io;

/// Changes when a field changes its meaning.
const VERSION: u16 = 1;

/// One attack on one launcher.
#[derive(Serialize)]
struct Row<'a> {
    launcher: &'a str,
    attack: &'a str,
    family: agentkit_attacks::Family,
    /// What it would mean if it succeeded.
    means: &'a str,
    /// The controls that should stop it.
    controls: &'a [agentkit_client::Control],
    /// `contained`, `escaped`, `cannot_bite` or `error`, each with what was seen or said.
    verdict: &'a agentkit_attacks::Verdict,
}

/// As one object.
pub(super) fn report(audited: &[Audited]) -> io::Result<String> {
    let rows = audited.iter().flat_map(|one| {
        one.findings.iter().map(|finding| Row {
            launcher: &one.launcher,
            attack: finding.attack.name,
            family: finding.attack.family,
            means: finding.attack.means,
            controls: finding.attack.controls,
            verdict: &finding.verdict,
        })
    });
    let report = serde_json::json!({ "version": VERSION, "findings": rows.collect::<Vec<_>>() });
    Ok(format!("{report:#}\n"))
}
