//! Puts the findings in words, or in JSON.

use super::findings::Findings;
use crate::paint::{Paint, Tone};
use crate::plain::one_line;
use agentkit_client::{Capabilities, Control, Level};
use serde_json::{Value, json};
use std::fmt::Write;

/// Characters of a line. What a server or a kernel says may be longer.
const MAX_LINE: usize = 2000;
/// Models that are named.
const MAX_MODELS: usize = 20;

/// For people.
pub(super) fn text(findings: &Findings, paint: Paint) -> String {
    let mut out =
        format!("agentkit {} on {}\n\n", env!("CARGO_PKG_VERSION"), one_line(&findings.system, MAX_LINE));
    sandbox(findings, paint, &mut out);
    python(findings, paint, &mut out);
    endpoint(findings, paint, &mut out);
    let problems = findings.problems();
    if problems.is_empty() {
        let _ = writeln!(out, "\n{}: code of a model runs confined here", paint.tone(Tone::Good, "ready"));
    }
    for problem in problems {
        let _ =
            writeln!(out, "\n{}: {}", paint.tone(Tone::Bad, "problem"), one_line(&problem.what, MAX_LINE));
        let _ = writeln!(out, "  what to do: {}", one_line(&problem.fix, MAX_LINE));
    }
    out
}

fn sandbox(findings: &Findings, paint: Paint, out: &mut String) {
    match &findings.capabilities {
        Ok(Capabilities { mechanism: Some(mechanism), failure: None, controls }) => {
            let _ = writeln!(out, "sandbox   {mechanism}");
            for control in Control::ALL {
                let level =
                    controls.get(&control).cloned().unwrap_or_else(|| Level::None("not reported".to_owned()));
                let tone = match level {
                    Level::Full => Tone::Good,
                    Level::Polled(_) | Level::Partial(_) => Tone::Doubtful,
                    Level::None(_) => Tone::Bad,
                };
                let level = paint.tone(tone, &one_line(&level.to_string(), MAX_LINE));
                let _ = writeln!(out, "  {:<22}{level}", control.name());
            }
        }
        _ => {
            let _ = writeln!(out, "sandbox   {}", paint.tone(Tone::Bad, "none"));
        }
    }
}

fn python(findings: &Findings, paint: Paint, out: &mut String) {
    let found = match &findings.python {
        None => paint.tone(Tone::Faint, "not looked for without a sandbox"),
        Some(Ok(version)) => format!("{} in the sandbox", one_line(version, MAX_LINE)),
        Some(Err(_)) => paint.tone(Tone::Bad, "cannot be used in the sandbox"),
    };
    let _ = writeln!(out, "python    {found}");
}

fn endpoint(findings: &Findings, paint: Paint, out: &mut String) {
    let endpoint = &findings.endpoint;
    let place = match endpoint.is_configured {
        true => one_line(&endpoint.describe(), MAX_LINE),
        false => paint.tone(Tone::Doubtful, "not configured: set OPENAI_BASE_URL, or OPENAI_API_KEY"),
    };
    let _ = writeln!(out, "endpoint  {place}");
    let model = match &findings.model {
        Some(name) => one_line(name, MAX_LINE),
        None => "none in OPENAI_MODEL: each run has to name one".to_owned(),
    };
    let _ = writeln!(out, "model     {model}");
    let answer = match &findings.models {
        None => paint.tone(Tone::Faint, "the endpoint was not asked (--endpoint does)"),
        Some(Err(_)) => paint.tone(Tone::Bad, "the endpoint does not answer as it should"),
        Some(Ok(models)) => {
            let mut names: Vec<&str> = models.iter().take(MAX_MODELS).map(String::as_str).collect();
            let left = models.len() - names.len();
            let more = if left > 0 { format!("and {left} more") } else { String::new() };
            names.extend(Some(more.as_str()).filter(|more| !more.is_empty()));
            format!("the endpoint has {}", one_line(&names.join(", "), MAX_LINE))
        }
    };
    let _ = writeln!(out, "          {answer}");
}

/// For programs.
pub(super) fn json(findings: &Findings) -> Value {
    let problems = findings.problems();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "system": findings.system,
        "ready": problems.is_empty(),
        "sandbox": findings.capabilities.as_ref().ok(),
        "python": findings.python.as_ref().and_then(|python| python.as_ref().ok()),
        "endpoint": {
            "configured": findings.endpoint.is_configured,
            "base_url": findings.endpoint.shown(),
            "has_key": findings.endpoint.has_key,
            "model": findings.model,
            "models": findings.models.as_ref().and_then(|models| models.as_ref().ok()),
        },
        "problems": problems.iter().map(|problem| json!({"what": problem.what, "fix": problem.fix})).collect::<Vec<_>>(),
    })
}
