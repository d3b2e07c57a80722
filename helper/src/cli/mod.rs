//! The command line.

mod call;
mod flags;
mod profile;
mod units;
mod values;

use agentkit_protocol::{Bytes, Choice, Policy};
use call::Call;
use flags::{FLAGS, Flag, Set};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

const BEFORE_FLAGS: &str = "\
Run one command in a jail: agentkit-jail [FLAGS] [--] COMMAND [ARGUMENT...]

    agentkit-jail --wall 5s --memory 256M python3 - <script.py    # a script, with limits
    agentkit-jail --workdir . --ro . python3 script.py            # with the files here, to be read
    agentkit-jail --profile build --workdir . make                # a build of what is here
    agentkit-jail --ro ~/data grep -r word ~/data                 # one more directory, to be read
    agentkit-jail --report-fd 3 sh -c 'exit 3' 3>report.json      # what was in force, how it ended, limits that it met

Of your files the command sees those that --workdir, --ro and --rw name, under the paths that they have outside, and
of your variables those that --env names. Without --workdir it starts in an empty directory that is gone afterwards.
If root starts it, it is somebody without rights, who reads of what --ro shows only what everybody may.
Without a command and flags of a policy, the policy comes on standard input, as a frame or as the JSON that
--print-policy prints.

";
const AFTER_FLAGS: &str = "
Exit code: the command's own; 128+n if signal n killed it; 124 at the wall-clock limit; 125 if the jail failed or
refused and nothing ran, if it broke and all in it was killed, if a commit failed, or in place of 0 if output or
report could not be written; 126 if the command cannot be executed; 127 if it was not found.
HUP, INT, QUIT and TERM are passed on to the command, which has 2 seconds to end before everything is killed (128+n).
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Version,
    /// Of the first that works of these mechanisms, or of each.
    Probe(Format, Choice),
    /// Show the policy that a run would have.
    Print(Box<Policy>),
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
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A client at the other end of the socket on standard input.
    Client,
    /// A script: messages go to standard error.
    Script {
        /// Where the report goes, if it wants one.
        report_fd: Option<i32>,
        policy: PolicyFrom,
        /// Whether it asks for a terminal, which needs standard input.
        tty: bool,
    },
}

/// Where a script's policy is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PolicyFrom {
    Stdin,
    Descriptor(i32),
    /// Made by the command line.
    Flags(Box<Policy>),
}

/// A flag's place in the table, the flag, and its value.
type Given = (usize, &'static Flag, OsString);

/// Reads the arguments that follow the program's name.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command, String> {
    let (given, command) = split(arguments)?;
    let mut call = Call::default();
    let mut policy = Policy::new(command.iter().map(|argument| Bytes::from(argument.as_bytes())));
    let mut builds = None;
    for (_, flag, value) in &given {
        let done = match flag.set {
            Set::Policy(set) => {
                builds = Some(flag.name);
                set(&mut policy, value)
            }
            Set::Call(set) => values::text(value).and_then(|value| set(&mut call, value)),
        };
        done.map_err(|why| format!("{}: {why}", flag.name))?;
    }
    decide(&call, builds, policy)
}

/// What is asked for once all is read. `builds` is a flag that changed the policy, if one did.
fn decide(call: &Call, builds: Option<&str>, policy: Policy) -> Result<Command, String> {
    let has_command = !policy.argv.is_empty();
    let Call { tty, policy_fd, report_fd, .. } = *call;
    let of_script = report_fd.is_some() || policy_fd.is_some() || tty || call.print_policy;
    let of_policy = builds.is_some() || has_command;
    let of_mechanism = Policy { mechanism: policy.mechanism, ..Policy::new([] as [Bytes; 0]) };
    match call {
        Call { help: true, .. } => Ok(Command::Help),
        Call { version: true, .. } => Ok(Command::Version),
        Call { json: true, client, probe, .. } if *client || !probe => {
            Err("--json goes with --probe alone".to_owned())
        }
        Call { probe: true, client, json, .. } if !of_script && policy == of_mechanism => {
            let format = match (client, json) {
                (true, _) => Format::Frame,
                (_, true) => Format::Json,
                _ => Format::Table,
            };
            Ok(Command::Probe(format, policy.mechanism))
        }
        Call { probe: true, .. } => {
            Err("--probe goes with no command, and of the other flags with --mechanism, --json and --client"
                .to_owned())
        }
        Call { client: true, .. } if of_script || of_policy => {
            Err("--client goes with no command, and of the other flags with --probe".to_owned())
        }
        Call { client: true, .. } => Ok(Command::Run(Caller::Client)),
        _ => script(call, builds, policy),
    }
}

fn script(call: &Call, builds: Option<&str>, policy: Policy) -> Result<Command, String> {
    let Call { tty, policy_fd, report_fd, print_policy, .. } = *call;
    let has_command = !policy.argv.is_empty();
    let policy = match (policy_fd, builds) {
        (Some(_), _) if has_command => return Err("--policy-fd: the policy names the command".to_owned()),
        (Some(_), Some(flag)) => return Err(format!("{flag}: --policy-fd has the whole policy")),
        (Some(fd), None) => PolicyFrom::Descriptor(fd),
        (None, _) if has_command => PolicyFrom::Flags(Box::new(Policy { tty, ..policy })),
        (None, Some(flag)) => return Err(format!("{flag}: there is no command behind the flags")),
        (None, None) => PolicyFrom::Stdin,
    };
    match policy {
        PolicyFrom::Flags(policy) if print_policy => Ok(Command::Print(policy)),
        _ if print_policy => Err("--print-policy: there is no command behind the flags".to_owned()),
        PolicyFrom::Stdin if tty => {
            Err("--tty needs a command or --policy-fd: standard input has to be the terminal".to_owned())
        }
        PolicyFrom::Descriptor(_) if policy_fd == report_fd => {
            Err("--policy-fd and --report-fd name the same descriptor".to_owned())
        }
        policy => Ok(Command::Run(Caller::Script { report_fd, policy, tty })),
    }
}

/// The flags, by their place in the table and in that order, with their values; and the command, which begins with the
/// first argument that is no flag, or behind `--`.
fn split(arguments: &[OsString]) -> Result<(Vec<Given>, &[OsString]), String> {
    let mut given = Vec::new();
    let mut rest = arguments;
    let command = loop {
        let [argument, others @ ..] = rest else { break rest };
        let (name, value) = name_and_value(argument);
        match name {
            "--" if value.is_none() && others.is_empty() => {
                return Err("there is no command behind --".to_owned());
            }
            "--" if value.is_none() => break others,
            _ if !name.starts_with('-') || name == "-" => break rest,
            _ => {}
        }
        let mut flags = FLAGS.iter().enumerate();
        let (at, flag) = flags.find(|(_, flag)| flag.name == name).ok_or_else(|| unknown(argument))?;
        rest = others;
        let value = match (flag.value, value) {
            ("", None) => OsString::new(),
            ("", Some(_)) => return Err(format!("{name} takes no value")),
            (_, Some(value)) => value.to_owned(),
            (what, None) => {
                let [value, others @ ..] = rest else { return Err(format!("{name} needs a value: {what}")) };
                rest = others;
                value.clone()
            }
        };
        given.push((at, flag, value));
    };
    given.sort_by_key(|(at, ..)| *at);
    Ok((given, command))
}

/// `--name=value` in two; an argument that is no text is no flag.
fn name_and_value(argument: &OsStr) -> (&str, Option<&OsStr>) {
    let bytes = argument.as_bytes();
    let sides = values::around_equals(bytes).filter(|_| bytes.starts_with(b"--"));
    let name = match std::str::from_utf8(sides.map_or(bytes, |(name, _)| name)) {
        Ok("-h") => "--help",
        Ok("-V") => "--version",
        Ok(name) => name,
        Err(_) => "",
    };
    (name, sides.map(|(_, value)| OsStr::from_bytes(value)))
}

fn unknown(argument: &OsStr) -> String {
    format!("unknown flag {argument:?}; a command that begins with a dash goes behind --")
}

/// What `--help` prints.
pub(crate) fn help() -> String {
    let mut text = BEFORE_FLAGS.to_owned();
    for flag in FLAGS {
        let name = format!("{} {}", flag.name, flag.value);
        // Nothing is lost by writing to a string.
        let _ = writeln!(text, "  {name:<29} {}", flag.help);
    }
    text + AFTER_FLAGS
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentkit_protocol::{Access, GitNames, ProcFiles, WorkDir};
    use proptest::prelude::*;

    fn parse_all(arguments: &[&str]) -> Result<Command, String> {
        parse(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn policy(arguments: &[&str]) -> Policy {
        match parse_all(arguments) {
            Ok(Command::Run(Caller::Script { policy: PolicyFrom::Flags(policy), .. })) => *policy,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_a_command_the_policy_comes_from_elsewhere() {
        let script = |report_fd, policy, tty| Ok(Command::Run(Caller::Script { report_fd, policy, tty }));
        assert_eq!(parse_all(&[]), script(None, PolicyFrom::Stdin, false));
        assert_eq!(parse_all(&["--report-fd", "7"]), script(Some(7), PolicyFrom::Stdin, false));
        assert_eq!(parse_all(&["--policy-fd=7"]), script(None, PolicyFrom::Descriptor(7), false));
        assert_eq!(parse_all(&["--tty", "--policy-fd", "7"]), script(None, PolicyFrom::Descriptor(7), true));
        assert_eq!(parse_all(&["--client"]), Ok(Command::Run(Caller::Client)));
        let of = |format, choice| Ok(Command::Probe(format, choice));
        assert_eq!(parse_all(&["--probe", "--json"]), of(Format::Json, Choice::Auto));
        assert_eq!(parse_all(&["--probe", "--mechanism=rlimits"]), of(Format::Table, Choice::Rlimits));
        assert_eq!(parse_all(&["--probe", "--client"]), of(Format::Frame, Choice::Auto));
        let landlock = ["--client", "--mechanism", "landlock", "--probe"];
        assert_eq!(parse_all(&landlock), of(Format::Frame, Choice::Landlock));
    }

    #[test]
    fn a_command_begins_with_the_first_word_that_is_no_flag() {
        let argv = |arguments: &[&str]| policy(arguments).argv;
        let words = |words: &[&str]| words.iter().map(|word| Bytes::from(*word)).collect::<Vec<_>>();
        assert_eq!(argv(&["ls", "--wall", "1"]), words(&["ls", "--wall", "1"]));
        assert_eq!(argv(&["--wall", "1", "ls", "-l"]), words(&["ls", "-l"]));
        assert_eq!(argv(&["--", "--bind", "a"]), words(&["--bind", "a"]));
        assert_eq!(argv(&["--wall=1", "--", "--", "x"]), words(&["--", "x"]));
        assert!(parse_all(&["--bind", "a"]).is_err() && parse_all(&["-x"]).is_err());
        assert!(parse_all(&["--tty=yes", "true"]).is_err() && parse_all(&["--wall"]).is_err());
    }

    #[test]
    fn flags_make_a_policy() {
        let made = policy(&[
            "--ro",
            "/usr",
            "--wall",
            "1.5s",
            "--ro=/etc",
            "--profile",
            "workspace",
            "--git",
            "off",
            "--env",
            "A=1",
            "--memory",
            "64M",
            "--workdir",
            "/srv",
            "--require",
            "network_blocked",
            "--strict",
            "--tty",
            "true",
        ]);
        let rules: Vec<_> = made.rules.iter().map(|rule| (rule.path.clone(), rule.access)).collect();
        assert_eq!(rules, [(Bytes::from("/usr"), Access::Ro), (Bytes::from("/etc"), Access::Ro)]);
        assert_eq!((made.limits.wall_ms, made.limits.memory, made.proc), (1500, 64 << 20, ProcFiles::Full));
        assert_eq!((made.git, made.workdir), (GitNames::Off, WorkDir::Bind("/srv".into())));
        assert!(made.tty && made.require.len() == 2 && made.env["A"] == Bytes::from("1"));
        assert_eq!(policy(&["true"]), Policy::new(["true"]));
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
    fn contradictions_are_refused() {
        for arguments in [
            &["--json"][..],
            &["--client", "--report-fd", "5"],
            &["--client", "--policy-fd", "5", "--tty"],
            &["--client", "true"],
            &["--probe", "--policy-fd", "5"],
            &["--probe", "--wall", "5"],
            &["--probe", "--client", "--json"],
            &["--probe", "--client", "--wall", "5"],
            &["--policy-fd", "5", "--report-fd", "5"],
            &["--policy-fd", "5", "true"],
            &["--policy-fd", "5", "--wall", "1"],
            &["--tty"],
            &["--wall", "1"],
            &["--print-policy"],
            &["--commit", "always", "--workdir", "/srv", "true"],
        ] {
            assert!(parse_all(arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn the_help_fits_on_a_screen() {
        let help = help();
        assert!(help.lines().count() <= 50 && help.lines().all(|line| line.len() <= 120), "{help}");
    }

    proptest! {
        #[test]
        fn any_arguments_are_understood_or_refused(arguments in proptest::collection::vec("(--)?[a-z=/:-]{0,12}|[^\0]{0,4}", 0..6)) {
            let _ = parse(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        }
    }
}
