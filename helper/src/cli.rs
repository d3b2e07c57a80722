//! The command line.

use crate::exit_code;
use std::ffi::{OsStr, OsString};
use std::io::Write;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Run one command in a jail. The policy comes on standard input, as JSON or as an agentkit frame:

    agentkit-jail <<< '{\"version\": 1, \"argv\": [\"python3\", \"-c\", \"print(1)\"]}'

  --policy-fd N   read the policy from descriptor N; standard input is then the command's:
                      agentkit-jail --policy-fd 4 4<policy.json <data
  --tty           with --policy-fd, on a terminal: the command gets a terminal of its own, of the same size
  --report-fd N   write the report to descriptor N, one JSON object per line
  --probe         try the complete set-up and print what this host enforces
  --json          with --probe: print it as JSON
  --client        standard input is a client's socket: frames both ways; when it closes, the jail dies
  --help, --version

Exit code: the command's own; 128+n if signal n killed it; 124 at the wall-clock limit; 125 if the jail failed or
refused and nothing ran, if it broke and everything in it was killed, if a commit failed, or in place of 0 if the
command's output or the report could not be written (a reader that went away is no failure); 126 if the command cannot be executed; 127 if it was not found.

HUP, INT, QUIT and TERM are passed on to the command, which has 2 seconds to end in its own way before everything is
killed (128+n); a second signal kills at once. A terminal cannot suspend the helper: it would not watch any more.
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
    /// A script: messages go to standard error.
    Script {
        /// Where the report goes, if it wants one.
        report_fd: Option<i32>,
        /// Where the policy is, if not on standard input.
        policy_fd: Option<i32>,
        /// Whether it asks for a terminal, which needs `policy_fd`.
        tty: bool,
    },
}

/// Reads the arguments that follow the program's name.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command, String> {
    let (mut client, mut probe, mut json, mut tty) = (false, false, false, false);
    let (mut report_fd, mut policy_fd) = (None, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("--help" | "-h") => return Ok(Command::Help),
            Some("--version" | "-V") => return Ok(Command::Version),
            Some("--client") => client = true,
            Some("--probe") => probe = true,
            Some("--json") => json = true,
            Some("--tty") => tty = true,
            Some("--report-fd") => report_fd = Some(descriptor("--report-fd", rest.next())?),
            Some("--policy-fd") => policy_fd = Some(descriptor("--policy-fd", rest.next())?),
            _ => {
                return Err(format!("unknown argument {argument:?}; the command goes into the policy"));
            }
        }
    }
    let of_script = report_fd.is_some() || policy_fd.is_some() || tty;
    match (probe, client, json) {
        (_, _, true) if client || !probe => Err("--json goes with --probe alone".to_owned()),
        (true, ..) | (_, true, _) if of_script => {
            Err("--report-fd, --policy-fd and --tty go with neither --client nor --probe".to_owned())
        }
        (true, false, false) => Ok(Command::Probe(Format::Table)),
        (true, _, true) => Ok(Command::Probe(Format::Json)),
        (true, true, false) => Ok(Command::Probe(Format::Frame)),
        (false, true, _) => Ok(Command::Run(Caller::Client)),
        (false, false, _) if tty && policy_fd.is_none() => {
            Err("--tty needs --policy-fd: standard input has to be the terminal".to_owned())
        }
        (false, false, _) if policy_fd.is_some() && policy_fd == report_fd => {
            Err("--policy-fd and --report-fd name the same descriptor".to_owned())
        }
        (false, false, _) => Ok(Command::Run(Caller::Script { report_fd, policy_fd, tty })),
    }
}

fn descriptor(flag: &str, value: Option<&OsString>) -> Result<i32, String> {
    let number = value.and_then(|value| value.to_str()).and_then(|text| text.parse().ok());
    match number {
        Some(fd @ 3..) => Ok(fd),
        _ => Err(format!(
            "{flag} needs the number of an open descriptor from 3 up, not {:?}",
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
        let script =
            |report_fd, policy_fd, tty| Ok(Command::Run(Caller::Script { report_fd, policy_fd, tty }));
        assert_eq!(parse_all(&[]), script(None, None, false));
        assert_eq!(parse_all(&["--report-fd", "7"]), script(Some(7), None, false));
        assert_eq!(parse_all(&["--policy-fd", "7"]), script(None, Some(7), false));
        assert_eq!(parse_all(&["--tty", "--policy-fd", "7"]), script(None, Some(7), true));
        assert_eq!(parse_all(&["--client"]), Ok(Command::Run(Caller::Client)));
    }

    #[test]
    fn report_and_policy_are_not_on_the_streams_of_the_command() {
        for flag in ["--report-fd", "--policy-fd"] {
            for fd in ["0", "1", "2", "-1", "x", ""] {
                assert!(parse_all(&[flag, fd]).is_err(), "{flag} {fd}");
            }
            assert!(parse_all(&[flag]).is_err());
        }
    }

    #[test]
    fn contradictions_and_unknown_flags_are_refused() {
        for arguments in [
            &["--json"][..],
            &["--client", "--report-fd", "5"],
            &["--client", "--policy-fd", "5"],
            &["--client", "--policy-fd", "5", "--tty"],
            &["--probe", "--policy-fd", "5"],
            &["--probe", "--client", "--json"],
            &["--policy-fd", "5", "--report-fd", "5"],
            &["--tty"],
            &["-x"],
        ] {
            assert!(parse_all(arguments).is_err(), "{arguments:?}");
        }
    }
}
