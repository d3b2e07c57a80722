//! One process that launches again and again and ends each launch somehow. It runs as the launcher that it is about, and
//! judges only what nobody else can: how its own launches ended, and what it has itself in the end.

use crate::client;
use crate::own::Own;
use crate::random::Random;
use crate::strike::strike;
use crate::support::Stop;
use crate::work::{EXIT, Kind, Task, Work, ordinary};
use agentkit_client::{Cancel, EndedBy, Error, Outcome};
use agentkit_protocol::{Policy, frame};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const DRIVE: &str = "--drive";
const CALL: &str = "--call";
/// A launch takes some milliseconds, and more while others do the same: moments lie in it and after it.
const MOMENTS: Duration = Duration::from_millis(20);
/// How long whatever was told to end may take, on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How a launch ends, if it does not end by itself before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// By itself.
    Itself,
    /// The helper is killed.
    Helper,
    /// The helper is asked to stop.
    Term,
    /// Init is killed, as the kernel does that is out of memory.
    Init,
    /// A client is killed that holds the helper's lifeline.
    Caller,
    /// A client is told to end it.
    Cancel,
}

const ENDS: [End; 6] = [End::Itself, End::Helper, End::Term, End::Init, End::Caller, End::Cancel];

/// What a driver is told.
pub(crate) struct Choices {
    pub(crate) helper: PathBuf,
    /// Holds `work` and `granted`, to be bound, `bin` with the attacker, and `out`, for output.
    pub(crate) corner: PathBuf,
    pub(crate) launches: u64,
    pub(crate) seed: u64,
}

impl Choices {
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let numbers = [self.launches, self.seed].map(|number| number.to_string().into());
        [DRIVE.into(), self.helper.clone().into(), self.corner.clone().into()]
            .into_iter()
            .chain(numbers)
            .collect()
    }

    /// A file of this driver's own.
    fn file(&self, what: &str) -> PathBuf {
        self.corner.join(format!("out/{what}-{}", self.seed))
    }
}

/// How often each end came.
pub(crate) struct Tally;

impl Tally {
    /// Fails if a kind of end is missing in what a driver said, unless it made too few launches for that.
    pub(crate) fn must_cover_everything(said: &str, launches: u64) -> Result<(), Stop> {
        let missing: Vec<_> = ENDS.iter().filter(|end| !said.contains(&format!("{end:?}"))).collect();
        if missing.is_empty() || launches < 100 {
            return Ok(());
        }
        Err(Stop::Fail(format!("never ended by {missing:?}: {said}")))
    }
}

/// The driver or one of its callers, if that is what this process was started as.
pub(crate) fn as_another_process(arguments: &[OsString]) -> Option<ExitCode> {
    let outcome = match arguments {
        [mode, helper, corner, launches, seed] if mode == DRIVE => {
            let number = |text: &OsString| text.to_str().and_then(|text| text.parse().ok());
            let (launches, seed) = number(launches).zip(number(seed))?;
            drive(&Choices { helper: helper.into(), corner: corner.into(), launches, seed })
        }
        [mode, helper, policy] if mode == CALL => call(Path::new(helper), Path::new(policy)),
        _ => return None,
    };
    Some(outcome.map_or_else(
        |stop| {
            println!("{stop:?}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}

fn drive(choices: &Choices) -> Result<(), Stop> {
    let mut driver = Driver::new(choices)?;
    let mut tally: BTreeMap<(End, String), u64> = BTreeMap::new();
    // What is needed at all is there after a while, and then nothing is to be added to it.
    let mut warm = Own::now()?;
    for number in 0..choices.launches {
        if number == choices.launches / 4 {
            warm = Own::now()?;
        }
        let (end, how) = driver.launch().map_err(|stop| Stop::Fail(format!("launch {number}: {stop:?}")))?;
        *tally.entry((end, how)).or_default() += 1;
    }
    let grown = warm.must_be_all_there_is(PATIENCE)?;
    // A helper that was killed before its keeper was there has left a control group, which the next such launch removes.
    driver.launch_once(driver.work.kinds[0])?;
    let counted = tally.iter().map(|((end, how), count)| format!("{end:?} {how}: {count}"));
    let counted = counted.collect::<Vec<_>>().join(", ");
    println!("{:?}: {counted}; {grown} KiB more of memory", driver.work.kinds);
    Ok(())
}

struct Driver<'a> {
    choices: &'a Choices,
    random: Random,
    work: Work<'a>,
}

impl<'a> Driver<'a> {
    fn new(choices: &'a Choices) -> Result<Self, Stop> {
        let work = Work::new(choices, Vec::new());
        let mut driver = Driver { choices, random: Random::from(choices.seed), work };
        let mut kinds = Vec::new();
        for kind in [Kind::Group, Kind::Overlay] {
            if driver.launch_once(kind)?.code() == Some(EXIT) {
                kinds.push(kind);
            }
        }
        kinds.extend([Kind::Scratch, Kind::Bind]);
        driver.work.kinds = kinds;
        Ok(driver)
    }

    /// An ordinary command, to its own end.
    fn launch_once(&self, kind: Kind) -> Result<ExitStatus, Stop> {
        let policy = self.write(&ordinary(self.choices, kind, End::Itself))?;
        let mut command = Command::new(&self.choices.helper);
        command.stdin(File::open(policy)?).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status()?)
    }

    fn write(&self, policy: &Policy) -> Result<PathBuf, Stop> {
        let path = self.choices.file("policy");
        fs::write(&path, serde_json::to_vec(policy)?)?;
        Ok(path)
    }

    /// One launch, and how it ended.
    fn launch(&mut self) -> Result<(End, String), Stop> {
        let end = self.random.one_of(&ENDS);
        let moment = Duration::from_nanos(self.random.below(MOMENTS.as_nanos() as u64));
        let task = self.work.task(end, &mut self.random)?;
        let in_this_process = match end {
            End::Caller => false,
            End::Cancel => true,
            _ => task.policy.require.is_empty() && self.random.below(2) == 0,
        };
        let (begin, cancel) = (Instant::now(), Cancel::new());
        let how = std::thread::scope(|scope| {
            let (is_over, over) = mpsc::channel();
            if end != End::Itself {
                let cancel = cancel.clone();
                scope.spawn(move || strike(end, moment, &cancel, &over));
            }
            let how = match in_this_process {
                true => by_library(end, &task, client::run(&self.choices.helper, &task.policy, &cancel)),
                false => self.by_hand(end, &task),
            };
            drop(is_over);
            how
        })
        .map_err(|stop| Stop::Fail(format!("{end:?} at {moment:?} of {:?}: {stop:?}", task.attack)))?;
        if begin.elapsed() > PATIENCE {
            return Err(Stop::Fail(format!("{end:?} at {moment:?} took {:?}: {how}", begin.elapsed())));
        }
        Ok((end, how))
    }

    /// The helper alone, or a client in a process of its own.
    fn by_hand(&mut self, end: End, task: &Task) -> Result<String, Stop> {
        let policy = self.write(&task.policy)?;
        let mut command = match end {
            End::Caller => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(CALL).arg(&self.choices.helper).arg(policy).stdin(Stdio::null());
                command
            }
            _ => {
                let mut command = Command::new(&self.choices.helper);
                command.stdin(File::open(policy)?);
                command
            }
        };
        // Output to a file is copied by processes of the helper's own, output to nothing is not.
        let output = self.choices.file("output");
        let kept = self.random.below(2) == 0;
        command.stdout(if kept { File::create(&output)?.into() } else { Stdio::null() });
        let status = command.stderr(Stdio::null()).status()?;
        let tried = !kept || said(&fs::read(&output)?);
        judge(end, task, status, tried)
    }
}

/// Whether the attacker got as far as to try.
fn said(output: &[u8]) -> bool {
    output.starts_with(b"trying\n")
}

/// What became of a direct child, in a word.
fn judge(end: End, task: &Task, status: ExitStatus, tried: bool) -> Result<String, Stop> {
    const WALL_CLOCK: i32 = 124;
    let by_itself = match (task.attack, status.code()) {
        (None, code) => end == End::Itself && code == Some(EXIT),
        // A caller that has lived to see the end says only whether there was one.
        (Some(_), Some(code)) if end == End::Caller => code == 0,
        (Some(_), Some(WALL_CLOCK)) => true,
        (Some(_), Some(code)) => !(125..=127).contains(&code) && (tried || end != End::Itself),
        (Some(_), None) => false,
    };
    let struck = match (end, status.code(), status.signal()) {
        (End::Helper | End::Caller, None, Some(9)) => true,
        // A helper that did not get as far as to wait for it dies of it.
        (End::Term, Some(125 | 137 | 143), None) | (End::Term, None, Some(15)) => true,
        (End::Init, Some(125 | 137), None) => true,
        _ => false,
    };
    if by_itself || struck {
        Ok(status.to_string())
    } else {
        Err(Stop::Fail(format!("ended with {status}, tried: {tried}")))
    }
}

/// The same of a launch by the library.
fn by_library(end: End, task: &Task, became: Result<Outcome, Error>) -> Result<String, Stop> {
    let fine = match (&became, task.attack) {
        (Ok(outcome), None) => (end == End::Itself) == (outcome.exit_code() == Some(EXIT)),
        (Ok(outcome), Some(_)) => {
            let cut_off = outcome.ended.ended_by == EndedBy::WallClock;
            end != End::Itself || cut_off || said(outcome.stdout.bytes())
        }
        (Err(Error::Cancelled), _) => end == End::Cancel,
        (Err(Error::Unavailable(_)), _) => matches!(end, End::Helper | End::Term | End::Init),
        (Err(_), _) => false,
    };
    let how = match &became {
        Ok(outcome) => format!("{:?}", outcome.ended.ended_by),
        Err(error) => error.to_string().split(':').next().unwrap_or_default().to_owned(),
    };
    if fine { Ok(how) } else { Err(Stop::Fail(format!("{became:?}"))) }
}

/// A client that is killed, perhaps, while it waits.
fn call(helper: &Path, policy: &Path) -> Result<(), Stop> {
    let policy: Policy = serde_json::from_slice(&fs::read(policy)?)?;
    if !policy.require.is_empty() {
        return hold_the_line(helper, &policy);
    }
    client::run(helper, &policy, &Cancel::new())?;
    Ok(())
}

/// The library asks for what is required before it launches, and is told of no control group: that is made at the launch.
fn hold_the_line(helper: &Path, policy: &Policy) -> Result<(), Stop> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(helper);
    let mut child = command.arg("--client").stdin(OwnedFd::from(theirs)).spawn()?;
    drop(command);
    ours.write_all(&frame::encode(policy)?)?;
    ours.read_to_end(&mut Vec::new())?;
    child.wait()?;
    Ok(())
}
