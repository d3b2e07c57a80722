//! The command line.

use crate::exit_code;
use std::ffi::{OsStr, OsString};
use std::io::Write;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Run one command in a jail. The policy comes on standard input, as JSON or as an agentkit frame:

    agentkit-jail <<< '{\"version\": 1, \"argv\": [\"python3\", \"-c\", \"print(1)\"]}'

  --report-fd N   write the report to descriptor N, one JSON object per line
  --probe         try the complete set-up and print what this host enforces
  --json          with --probe: print it as JSON
  --client        standard input is a client's socket: frames both ways; when it closes, the jail dies
  --help, --version

Exit code: the command's own; 128+n if signal n killed it; 124 at the wall-clock limit; 125 if the jail failed or
refused and nothing ran; 126 if the command cannot be executed; 127 if it was not found.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Version,
    Probe(Format),
    Run(Caller),
}

/// How capabilities are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A table for people.
    Table,
    /// A JSON object.
    Json,
    /// A frame on standard input, which is a client's socket.
    Frame,
}

/// Who reads the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A client at the other end of the socket on standard input.
    Client,
    /// A script: messages go to standard error, and the report to this descriptor if it wants one.
    Script { report_fd: Option<i32> },
}

/// Reads the arguments that follow the program's name.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command, String> {
    let (mut client, mut probe, mut json, mut report_fd) = (false, false, false, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("--help" | "-h") => return Ok(Command::Help),
            Some("--version" | "-V") => return Ok(Command::Version),
            Some("--client") => client = true,
            Some("--probe") => probe = true,
            Some("--json") => json = true,
            Some("--report-fd") => report_fd = Some(descriptor(rest.next())?),
            _ => {
                return Err(format!(
                    "unknown argument {argument:?}; the command goes into the policy on standard input"
                ));
            }
        }
    }
    match (probe, client, json, report_fd) {
        (true, false, false, None) => Ok(Command::Probe(Format::Table)),
        (true, false, true, None) => Ok(Command::Probe(Format::Json)),
        (true, true, false, None) => Ok(Command::Probe(Format::Frame)),
        (false, true, false, None) => Ok(Command::Run(Caller::Client)),
        (false, false, false, report_fd) => Ok(Command::Run(Caller::Script { report_fd })),
        (_, _, _, Some(_)) => Err("--report-fd goes with neither --client nor --probe".to_owned()),
        (_, _, true, None) => Err("--json goes with --probe alone".to_owned()),
    }
}

fn descriptor(value: Option<&OsString>) -> Result<i32, String> {
    let number = value.and_then(|value| value.to_str()).and_then(|text| text.parse().ok());
    match number {
        Some(fd @ 3..) => Ok(fd),
        _ => Err(format!(
            "--report-fd needs the number of an open descriptor from 3 up, not {:?}",
            value.map_or(OsStr::new(""), |value| value)
        )),
    }
}

/// Prints to standard output; a reader that went away is no reason to panic.
pub(crate) fn print(text: &str) -> i32 {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => exit_code::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_all(arguments: &[&str]) -> Result<Command, String> {
        parse(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn no_argument_runs_the_policy_on_stdin() {
        assert_eq!(parse_all(&[]), Ok(Command::Run(Caller::Script { report_fd: None })));
        assert_eq!(parse_all(&["--report-fd", "7"]), Ok(Command::Run(Caller::Script { report_fd: Some(7) })));
        assert_eq!(parse_all(&["--client"]), Ok(Command::Run(Caller::Client)));
    }

    #[test]
    fn the_report_cannot_go_to_the_streams_of_the_command() {
        for fd in ["0", "1", "2", "-1", "x", ""] {
            assert!(parse_all(&["--report-fd", fd]).is_err(), "{fd}");
        }
        assert!(parse_all(&["--report-fd"]).is_err());
    }

    #[test]
    fn contradictions_and_unknown_flags_are_refused() {
        for arguments in
            [&["--json"][..], &["--client", "--report-fd", "5"], &["--probe", "--client", "--json"], &["-x"]]
        {
            assert!(parse_all(arguments).is_err(), "{arguments:?}");
        }
    }
}
