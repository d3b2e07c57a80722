//! Findings for programs.

use super::{Audited, table::word};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

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
    let report = json!({
        "version": VERSION,
        "agentkit": env!("CARGO_PKG_VERSION"),
        "host": host()?,
        "launchers": audited.iter().map(counts).collect::<Vec<_>>(),
        "findings": rows.collect::<Vec<_>>(),
    });
    Ok(format!("{report:#}\n"))
}

/// What else decides what an attack finds: the same launcher holds on one kernel and not on another, or as a user only.
fn host() -> io::Result<Value> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let uid = fs::metadata("/proc/self")?.uid();
    Ok(json!({ "kernel": kernel.trim_end(), "machine": std::env::consts::ARCH, "uid": uid }))
}

fn counts(one: &Audited) -> Value {
    let count = |wanted: &str| one.findings.iter().filter(|finding| word(&finding.verdict) == wanted).count();
    json!({
        "launcher": one.launcher,
        "contained": count("contained"),
        "escaped": count("ESCAPED"),
        "cannot_bite": count("cannot bite"),
        "error": count("error"),
    })
}
