//! Who measures: a process of this test on the imitated host itself, to which that is what hosts are. It asks the helper what
//! it claims, launches by each mechanism, and attacks each jail that comes of it.

use super::attacks::{Found, PART, SLOW, STORM, attack, is_wanted};
use crate::support::outside::Snapshot;
use crate::support::{Stop, temp_dir};
use agentkit_attacks::{Launcher, runs_anything};
use agentkit_protocol::{Capabilities, Choice, Event, Failure, Mechanism, Probe, Started};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

/// As the first argument of this test program: measure, and print what was found.
pub(crate) const JUDGE: &str = "--measure-this-host";

/// What a jail is attacked under: low limits, and the wider view of `/proc`, which has more to attack.
const LIMITS: &str = "--proc full --wall 20s --cpu 2s --memory 256M --disk 64M --output 1M";
/// For attacks on what is limited.
const FEW: &str = "--processes 32";
/// For all others: without namespaces the processes count that the user starts elsewhere meanwhile, and no attack is to fail for
/// that.
const MANY: &str = "--processes 600";
/// How the attacker gets in, best first: not every mechanism has all of these on every host.
const WAYS_IN: [&str; 3] = [SENT, "--ro {dir}", "--workdir {dir}"];
/// By the standard input. The jail has nothing of the host's then, but what each has.
const SENT: &str = "";
const TAKE_IN: &str =
    r#"<{dir}/attacker -- sh -c 'cat >attacker && chmod 755 attacker && shift && exec ./attacker "$@"' -"#;
/// What only comes out if something ran.
const RAN: &str = "ran";

/// What this process is asked to measure, if that is what it is for.
pub(crate) fn asked() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? == JUDGE { arguments.next() } else { None }
}

/// What a process of this kind is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// To measure this host; it prints a [`Measured`].
    Measure,
    /// To perform one attack by a launcher, beside others; it prints a [`Found`].
    Attack { name: String, template: String },
}

/// Who asks what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) task: Task,
    /// This program.
    pub(crate) own: PathBuf,
    pub(crate) helper: PathBuf,
    /// Where to work.
    pub(crate) base: PathBuf,
    /// Words before each launch of the helper.
    pub(crate) launcher: Vec<String>,
    /// Whether the report comes by a file, since no thread can be had that could wait for a reader.
    pub(crate) no_threads: bool,
    /// Whether to find out that attacks by many processes bite, which disturbs others.
    pub(crate) storms: bool,
}

/// What a host is like.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) kernel: String,
    pub(crate) probe: Probe,
    /// With the choice left to the jail.
    pub(crate) auto: Launch,
    pub(crate) each: BTreeMap<Mechanism, Cell>,
    /// Attacks without a jail.
    pub(crate) bare: Vec<Found>,
}

/// One mechanism here.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) launch: Launch,
    /// If that was a jail.
    pub(crate) attacked: Option<Attacked>,
}

/// What attacks on a jail found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Attacked {
    /// What was claimed of it.
    pub(crate) claims: Capabilities,
    pub(crate) found: Vec<Found>,
}

/// One launch and what came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
    pub(crate) started: Option<Started>,
    pub(crate) failure: Option<Failure>,
    pub(crate) ran: bool,
    /// What is on the host now and was not before.
    pub(crate) left: Vec<String>,
}

/// The `main` of this process.
pub(crate) fn main(request: &str) -> ExitCode {
    match answer(request) {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(stop) => {
            eprintln!("{stop:?}");
            ExitCode::FAILURE
        }
    }
}

fn answer(request: &str) -> Result<String, Stop> {
    let request: Request = serde_json::from_str(request)?;
    Ok(match &request.task {
        Task::Measure => serde_json::to_string(&measure(&request)?)?,
        Task::Attack { name, template } => {
            serde_json::to_string(&attack(name, &Launcher::Template(template.clone()), &request.base)?)?
        }
    })
}

fn measure(request: &Request) -> Result<Measured, Stop> {
    let probe = probe(request)?;
    let auto = launch(request, &choose(Choice::Auto))?;
    let mut each = BTreeMap::new();
    for mechanism in probe.each.keys() {
        let launch = launch(request, &choose((*mechanism).into()))?;
        let attacked = launch.started.is_some().then(|| attack_jail(request, *mechanism)).transpose()?;
        each.insert(*mechanism, Cell { launch, attacked });
    }
    let bare = bare(request, &each)?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    Ok(Measured { kernel, probe, auto, each, bare })
}

/// The same attacks as on the jails, where those are launched from.
fn bare(request: &Request, each: &BTreeMap<Mechanism, Cell>) -> Result<Vec<Found>, Stop> {
    let jails = || each.values().filter_map(|cell| cell.attacked.as_ref());
    let is_tried = |name: &str| jails().any(|jail| jail.found.iter().any(|found| found.attack == name));
    let part = PART.iter().filter(|name| is_tried(name) && (request.storms || **name != STORM));
    let place = match &request.launcher[..] {
        [] => Launcher::Bare,
        words => Launcher::Template(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    };
    part.map(|name| attack(name, &place, &request.base)).collect()
}

fn probe(request: &Request) -> Result<Probe, Stop> {
    let output = command(request).args(["--probe", "--json"]).stdin(Stdio::null()).output()?;
    serde_json::from_slice(&output.stdout).map_err(|why| Stop::Fail(format!("no probe ({why}): {output:?}")))
}

fn command(request: &Request) -> Command {
    let mut words = request.launcher.iter().map(PathBuf::from).chain([request.helper.clone()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(&request.base);
    command
}

fn choose(choice: Choice) -> Vec<String> {
    ["--mechanism", choice.name()].map(str::to_owned).to_vec()
}

/// Launches a command that leaves a trace, with the report on standard output and its own output in a file.
fn launch(request: &Request, flags: &[String]) -> Result<Launch, Stop> {
    let own = temp_dir()?;
    let before = Snapshot::take(&[&request.base, &std::env::temp_dir()])?;
    let [out, report] = ["out", "report"].map(|name| own.path().join(name));
    let streams =
        if request.no_threads { r#"exec 3>"$1" >"$0"; shift"# } else { r#"exec 3>&1 >"$0"; shift"# };
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{streams}; exec \"$@\"")]).args([&out, &report]);
    shell.args(&request.launcher).arg(&request.helper).args(["--report-fd", "3"]).args(flags);
    let script = format!("echo {RAN} # {}", request.base.display());
    let output =
        shell.args(["--", "sh", "-c", &script]).current_dir(&request.base).stdin(Stdio::null()).output()?;
    let (mut started, mut failure) = (None, None);
    let events = if request.no_threads { std::fs::read(&report)? } else { output.stdout };
    for line in String::from_utf8_lossy(&events).lines() {
        match serde_json::from_str(line)? {
            Event::Started(event) => started = Some(event),
            Event::Failed(event) => failure = Some(event),
            _ => {}
        }
    }
    Ok(Launch {
        code: output.status.code(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
        started,
        failure,
        ran: std::fs::read_to_string(&out)?.contains(RAN),
        left: before.added()?,
    })
}

/// By the first way in that the mechanism has.
fn attack_jail(request: &Request, mechanism: Mechanism) -> Result<Attacked, Stop> {
    let mut refused = Vec::new();
    for way in WAYS_IN {
        let [few, many] = [FEW, MANY].map(|limit| jail(request, mechanism, limit, way));
        match runs_anything(&Launcher::Template(many.clone()), &request.base) {
            Ok(()) => {
                let claims = claims(request, mechanism, way)?;
                let found = attack_in_all_ways(request, &few, &many, &claims)?;
                return Ok(Attacked { claims, found });
            }
            Err(why) => refused.push(why),
        }
    }
    Err(Stop::Fail(format!("{mechanism} has no way in: {}", refused.join("; "))))
}

/// What takes seconds goes on meanwhile, each in a process of its own.
fn attack_in_all_ways(
    request: &Request,
    few: &str,
    many: &str,
    claims: &Capabilities,
) -> Result<Vec<Found>, Stop> {
    let part = PART.into_iter().filter(|name| is_wanted(name, claims));
    let (slow, quick): (Vec<_>, Vec<_>) = part.partition(|name| SLOW.contains(name));
    let beside = |name: &&str| {
        let task = Task::Attack { name: (*name).to_owned(), template: few.to_owned() };
        let task = serde_json::to_string(&Request { task, ..request.clone() })?;
        let mut own = Command::new(&request.own);
        Ok(own.args([JUDGE, &task]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
    };
    let beside: Vec<Child> = slow.iter().map(beside).collect::<Result<_, Stop>>()?;
    let jail = Launcher::Template(many.to_owned());
    let mut found: Vec<Found> =
        quick.iter().map(|name| attack(name, &jail, &request.base)).collect::<Result<_, Stop>>()?;
    for child in beside {
        let output = child.wait_with_output()?;
        found.push(serde_json::from_slice(&output.stdout)?);
    }
    Ok(found)
}

/// As one word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn jail(request: &Request, mechanism: Mechanism, processes: &str, way: &str) -> String {
    let helper = request.helper.to_string_lossy();
    let words = request.launcher.iter().map(String::as_str).chain([&*helper]).map(quoted);
    let words: Vec<String> = words.collect();
    let jail = format!("{} --mechanism {mechanism} {LIMITS} {processes}", words.join(" "));
    if way == SENT { format!("{jail} {TAKE_IN}") } else { format!("{jail} {way} --") }
}

/// Of a jail such as this one.
fn claims(request: &Request, mechanism: Mechanism, way: &str) -> Result<Capabilities, Stop> {
    let directory = tempfile::tempdir_in(&request.base)?;
    let way = way.replace("{dir}", &directory.path().to_string_lossy());
    let flags = [LIMITS, FEW]
        .into_iter()
        .flat_map(|flags| flags.split(' '))
        .chain(way.split_whitespace())
        .map(str::to_owned);
    let launch = launch(request, &[choose(mechanism.into()), flags.collect()].concat())?;
    match launch.started {
        Some(started) => Ok(started.capabilities),
        None => Err(Stop::Fail(format!("{mechanism} ran an attacker, and now: {launch:?}"))),
    }
}
