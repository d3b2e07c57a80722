//! The command line.

use crate::exit_code::{DONE, Failure};
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Gives tasks to a model that acts through tools, in a sandbox and within bounds.
#[derive(Clone, Debug, Parser)]
#[command(name = "agentkit", version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// What there is to do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Gives a task to a model and shows what it does
    Run(RunArgs),
    /// Says what this host can enforce, what is missing and how to fix it
    Doctor(DoctorArgs),
    /// Shows a recorded run as it was
    Replay(ReplayArgs),
}

/// What the exit code of a run says.
pub(crate) const RUN_CODES: &str = "\
The answer goes to standard output, what happens to standard error. The tools are
python and shell, which run in a sandbox without network, calculator, remember, recall.

Exit codes:
  0   the model answered
  1   nothing was run, or the transcript or the answer could not be written
  2   a mistake on the command line or in the environment; nothing was run
  1x  a bound: 10 steps, 11 calls, 12 tokens, 13 time, 14 the same call again and again,
      15 errors in a row, 16 the model's context window
  2x  no answer: 20 none, 21 the model declined, 22 cut, 23 far too long
  30  the model could not be asked        40  you stopped it when you were asked
  130 Ctrl-C (129 hang-up, 143 SIGTERM); a second one ends it at once

Environment:
  OPENAI_BASE_URL, OPENAI_MODEL   the endpoint and the model, unless flags name them
  OPENAI_API_KEY                  the key (no flag); alone, of https://api.openai.com/v1
  NO_COLOR                        no colour on a terminal";

/// The command line of `run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = RUN_CODES)]
pub(crate) struct RunArgs {
    /// What the model is to do; `-` reads it from standard input
    #[arg(required_unless_present = "resume")]
    pub(crate) prompt: Option<String>,

    /// The model, at an OpenAI-compatible endpoint
    #[arg(long, value_name = "NAME", value_parser = named)]
    pub(crate) model: Option<String>,

    /// The endpoint, for instance http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL", value_parser = named)]
    pub(crate) base_url: Option<String>,

    /// For models that cannot call tools: reads calls from text
    #[arg(long)]
    pub(crate) text_tools: bool,

    /// For servers that cannot stream
    #[arg(long)]
    pub(crate) no_stream: bool,

    /// Standing instructions
    #[arg(long, value_name = "TEXT", conflicts_with = "resume")]
    pub(crate) system: Option<String>,

    /// Let code work in this directory, after asking you
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,

    /// Do not ask before code works in the directory
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Refuse what changes something, running code included
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Replies of the model
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) max_steps: Option<u64>,

    /// Tokens of the whole run
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) max_tokens: Option<u64>,

    /// Time of the whole run: 90s, 10m, 1h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) wall: Option<Duration>,

    /// Record the run in this new file
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(crate) transcript: Option<PathBuf>,

    /// Go on with the run recorded there, and record that too
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,

    /// Events as JSON lines on standard output, not the answer
    #[arg(long)]
    pub(crate) json: bool,
}

const DOCTOR_CODES: &str = "\
Exit codes:
  0  code of a model can be run here, confined; the endpoint answers, if it is asked
  1  it cannot, or the endpoint does not; the last lines say what to do
  2  a mistake on the command line";

/// The command line of `doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_help = DOCTOR_CODES)]
pub(crate) struct DoctorArgs {
    /// Also ask the endpoint which models it has
    #[arg(long)]
    pub(crate) endpoint: bool,

    /// The endpoint, in place of OPENAI_BASE_URL
    #[arg(long, value_name = "URL", value_parser = named)]
    pub(crate) base_url: Option<String>,

    /// The findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const REPLAY_CODES: &str = "\
Exit codes:
  0  the run was shown; a line at the end that was cut off is left out, with a warning
  1  the file cannot be read, or is no transcript
  2  a mistake on the command line";

/// The command line of `replay`.
#[derive(Clone, Debug, Args)]
#[command(after_help = REPLAY_CODES)]
pub(crate) struct ReplayArgs {
    /// The transcript of `agentkit run --transcript FILE`
    pub(crate) file: PathBuf,
}

/// The command that is asked for. Help and version are printed here, and end the program.
pub(crate) fn read() -> Result<Command, Failure> {
    match CommandLine::try_parse() {
        Ok(line) => Ok(line.command),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            match error.print() {
                Ok(()) => std::process::exit(i32::from(DONE)),
                Err(why) => Err(Failure::failed(format!("cannot print the help: {why}"))),
            }
        }
        Err(error) => Err(Failure::usage(mistake(&error))),
    }
}

/// What is wrong with a command line, and what to do about it.
fn mistake(error: &clap::Error) -> String {
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "say what to do: run, doctor, replay (see `agentkit --help`)".to_owned()
        }
        _ => in_one_line(&error.render().to_string()),
    }
}

/// The mistake and what to do about it, of a text of several paragraphs. It ends with the usage, but for a value that is
/// wrong: then the mistake says all there is.
fn in_one_line(text: &str) -> String {
    let (mistake, usage) =
        text.split_once("Usage: ").map_or((text, None), |(text, usage)| (text, Some(usage)));
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with("For more information");
    let lines = mistake.lines().map(str::trim).filter(is_said);
    let mistake: Vec<&str> = lines.map(|line| line.strip_prefix("error: ").unwrap_or(line)).collect();
    let mistake = mistake.join("; ").replace(":; ", ": ");
    let Some(usage) = usage else { return mistake };
    let is_name = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    let command: Vec<&str> = usage.split_whitespace().take_while(is_name).collect();
    format!("{mistake} (see `{} --help`)", command.join(" "))
}

fn named(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("must not be empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("must be a whole number".to_owned()),
    }
}

/// A number of seconds, or with `ms`, `s`, `m` or `h` behind it, as `agentkit-jail` has them.
fn time(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit))).unwrap_or((text, &1.0));
    let is_decimal = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = number.parse::<f64>().ok().filter(|_| is_decimal);
    seconds
        .and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "must be a time such as 90s, 10m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use proptest::prelude::*;

    fn parse(line: &str) -> Result<Command, String> {
        let parsed = CommandLine::try_parse_from(line.split_whitespace());
        parsed.map(|line| line.command).map_err(|error| mistake(&error))
    }

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn each_help_fits_a_screen() {
        for name in ["run", "doctor", "replay"] {
            let mut command = CommandLine::command();
            command.build();
            let help = command.find_subcommand_mut(name).expect("a command").render_help().to_string();
            assert!(help.lines().count() <= 50, "{help}");
            assert!(help.lines().all(|line| line.chars().count() <= 88), "{help}");
        }
    }

    #[test]
    fn a_mistake_is_one_line_that_says_what_to_do() {
        for (line, words) in [
            ("agentkit", "run, doctor, replay"),
            ("agentkit walk", "unrecognized subcommand 'walk'"),
            ("agentkit run", "not provided: <PROMPT> (see `agentkit run --help`)"),
            ("agentkit run x --max-step 3", "--max-steps"),
            ("agentkit run x --transcript a --resume b", "cannot be used with"),
            ("agentkit replay", "<FILE>"),
        ] {
            let message = parse(line).expect_err(line);
            assert!(message.contains(words) && message.contains(" --help`)"), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
        assert!(
            parse("agentkit run x --walls 3").expect_err("no such flag").contains("`agentkit run --help`")
        );
        for (line, wanted) in [
            ("agentkit run x --max-steps 0", "invalid value '0' for '--max-steps <N>': must be at least 1"),
            (
                "agentkit run x --wall 0",
                "invalid value '0' for '--wall <TIME>': must be a time such as 90s, 10m or 1h",
            ),
        ] {
            assert_eq!(parse(line).expect_err(line), wanted);
        }
    }

    #[test]
    fn times_have_units() {
        let seconds = |text| time(text).map(|time| time.as_secs_f64());
        assert_eq!(["10", "1.5m", "250ms", "2h"].map(seconds), [10.0, 90.0, 0.25, 7200.0].map(Ok));
        for wrong in
            ["", "s", "-1", "1e3", "inf", "nan", "1 s", "0", "0ms", "0.0000000001", ".", &"9".repeat(400)]
        {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_refused(text in ".{0,12}", number in 1_u32..1_000_000) {
            prop_assert!(time(&text).is_ok_and(|time| time > Duration::ZERO) || time(&text).is_err());
            prop_assert_eq!(time(&format!("{number}s")), Ok(Duration::from_secs(number.into())));
        }

        #[test]
        fn any_mistake_is_one_line(text in any::<String>()) {
            prop_assert!(in_one_line(&text).lines().count() <= 1);
        }
    }
}
