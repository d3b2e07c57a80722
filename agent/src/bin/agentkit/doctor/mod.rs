//! `agentkit doctor`: what this host can enforce, what is missing and how to fix it.

mod findings;
mod report;

use crate::cli::DoctorArgs;
use crate::exit_code::{DONE, FAILED, Failure};
use crate::paint::Paint;
use crate::plain;
use findings::Findings;
use std::io::{self, Write};

/// Runs the command and returns what to exit with.
pub(crate) fn run(args: &DoctorArgs) -> Result<u8, Failure> {
    let findings = Findings::look(args);
    let text = match args.json {
        true => plain::json(&report::json(&findings).to_string()) + "\n",
        false => report::text(&findings, Paint::on(&io::stdout())),
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|why| Failure::failed(format!("cannot write to standard output: {why}")))?;
    Ok(if findings.problems().is_empty() { DONE } else { FAILED })
}
