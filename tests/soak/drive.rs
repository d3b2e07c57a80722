//! One process that launches again and again and ends each launch somehow. It runs as the launcher that it is about, and
//! judges only what nobody else can: how its own children ended, and how many descriptors it has.

use crate::support::Stop;
use agentkit_protocol::{Bytes, Commit, Control, Policy, WorkDir, frame};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const DRIVE: &str = "--drive";
const CALL: &str = "--call";
/// What a command that ends by itself exits with.
const EXIT: i32 = 7;
/// A launch takes some milliseconds: moments lie in it and after it.
const MOMENTS: Duration = Duration::from_millis(15);
/// How long whatever was told to end may take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a launch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
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
}

const ENDS: [End; 5] = [End::Itself, End::Helper, End::Term, End::Init, End::Caller];

/// What a driver is told.
pub(crate) struct Choices {
    pub(crate) helper: PathBuf,
    /// Holds `work`, to be bound, and `out`, for output.
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
    let kinds: Vec<_> = driver.policies.iter().map(|policies| policies.name).collect();
    let before = fs::read_dir("/proc/self/fd")?.count();
    let mut tally: BTreeMap<(End, String), u64> = BTreeMap::new();
    for number in 0..choices.launches {
        let (end, how) = driver.launch().map_err(|stop| Stop::Fail(format!("launch {number}: {stop:?}")))?;
        *tally.entry((end, how)).or_default() += 1;
    }
    // A helper that was killed before its keeper was there has left a control group, which the next such launch removes.
    driver.policies.truncate(1);
    driver.launch_once()?;
    let after = fs::read_dir("/proc/self/fd")?.count();
    if before != after {
        return Err(Stop::Fail(format!("{before} descriptors before and {after} after")));
    }
    let counted = tally.iter().map(|((end, how), count)| format!("{end:?} {how}: {count}"));
    println!("{}: {}", kinds.join(", "), counted.collect::<Vec<_>>().join(", "));
    Ok(())
}

struct Driver<'a> {
    choices: &'a Choices,
    random: Random,
    policies: Vec<Policies>,
}

/// A policy for a command that exits at once, and for one that would stay, as JSON and as a frame.
struct Policies {
    name: &'static str,
    exits: PathBuf,
    stays: PathBuf,
    stays_frame: PathBuf,
}

impl<'a> Driver<'a> {
    fn new(choices: &'a Choices) -> Result<Self, Stop> {
        let work = Bytes::from(choices.corner.join("work"));
        let plain = |workdir: WorkDir| Policy { workdir, ..Policy::new([] as [Bytes; 0]) };
        let group = Policy { require: [Control::MemoryLimited].into(), ..plain(WorkDir::Scratch) };
        let overlay = plain(WorkDir::Overlay { path: work.clone(), commit: Commit::Always });
        let mut driver = Driver { choices, random: Random::from(choices.seed), policies: Vec::new() };
        // Not every launcher may make control groups, and not every host has overlays.
        for (name, policy) in [("group", group), ("overlay", overlay)] {
            driver.policies.push(policies(choices, name, &policy)?);
            if driver.launch_once()?.code() != Some(EXIT) {
                driver.policies.pop();
            }
        }
        driver.policies.push(policies(choices, "scratch", &plain(WorkDir::Scratch))?);
        driver.policies.push(policies(choices, "bind", &plain(WorkDir::Bind(work)))?);
        Ok(driver)
    }

    /// With the policies that were added last, to its own end.
    fn launch_once(&self) -> Result<ExitStatus, Stop> {
        let mut command = Command::new(&self.choices.helper);
        let policy = self.policies.last().map(|policies| File::open(&policies.exits)).transpose()?;
        command
            .stdin(policy.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(command.status()?)
    }

    /// One launch, and how it ended.
    fn launch(&mut self) -> Result<(End, String), Stop> {
        let end = ENDS[self.random.below(ENDS.len() as u64) as usize];
        let policies = &self.policies[self.random.below(self.policies.len() as u64) as usize];
        let moment = Duration::from_nanos(self.random.below(MOMENTS.as_nanos() as u64));
        let mut command = match end {
            End::Caller => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(CALL).arg(&self.choices.helper).arg(&policies.stays_frame).stdin(Stdio::null());
                command
            }
            _ => {
                let policy = if end == End::Itself { &policies.exits } else { &policies.stays };
                let mut command = Command::new(&self.choices.helper);
                command.stdin(File::open(policy)?);
                command
            }
        };
        // Output to a file is copied by processes of the helper's own, output to nothing is not.
        let output = match self.random.below(2) {
            0 => Stdio::null(),
            _ => File::create(self.choices.corner.join(format!("out/{}", self.choices.seed)))?.into(),
        };
        let begin = Instant::now();
        let mut child = command.stdout(output).stderr(Stdio::null()).spawn()?;
        let status = finish(end, moment, &mut child)?;
        if begin.elapsed() > PATIENCE {
            return Err(Stop::Fail(format!("{end:?} at {moment:?} took {:?}: {status}", begin.elapsed())));
        }
        Ok((end, judge(end, status)?))
    }
}

fn finish(end: End, moment: Duration, child: &mut Child) -> Result<ExitStatus, Stop> {
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    let tell = |signal| {
        spin(moment);
        kill(pid, signal)
    };
    match end {
        End::Itself => Ok(()),
        End::Helper | End::Caller => tell(Signal::SIGKILL),
        End::Term => tell(Signal::SIGTERM),
        End::Init => {
            let init = wait_for_init(child)?;
            spin(moment / 2);
            // It may have died by itself, of a set-up that failed.
            init.map_or(Ok(()), |init| kill(init, Signal::SIGKILL).or(Ok(())))
        }
    }?;
    Ok(child.wait()?)
}

/// The moment is what is chosen: nothing is waited for.
fn spin(moment: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < moment {
        std::hint::spin_loop();
    }
}

/// The helper's child with a process id of its own inside. None if the helper is over before that is seen.
fn wait_for_init(helper: &mut Child) -> Result<Option<Pid>, Stop> {
    let pid = helper.id();
    loop {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let mut children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        if let Some(init) = children.find(|pid| is_init(*pid)) {
            return Ok(Some(Pid::from_raw(init)));
        }
        if helper.try_wait()?.is_some() {
            return Ok(None);
        }
    }
}

fn is_init(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("1"))
}

/// What became of a direct child, in a word.
fn judge(end: End, status: ExitStatus) -> Result<String, Stop> {
    let ended = match (end, status.code(), status.signal()) {
        (End::Itself, Some(EXIT), None) => true,
        (End::Helper | End::Caller, None, Some(9)) => true,
        // A helper that did not get as far as to wait for it dies of it.
        (End::Term, Some(125 | 137 | 143), None) | (End::Term, None, Some(15)) => true,
        (End::Init, Some(125 | 137), None) => true,
        _ => false,
    };
    if ended { Ok(status.to_string()) } else { Err(Stop::Fail(format!("{end:?} ended with {status}"))) }
}

/// A client that holds the lifeline and does nothing else.
fn call(helper: &Path, policy: &Path) -> Result<(), Stop> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(helper);
    let mut child = command.arg("--client").stdin(OwnedFd::from(theirs)).spawn()?;
    drop(command);
    ours.write_all(&fs::read(policy)?)?;
    ours.read_to_end(&mut Vec::new())?;
    child.wait()?;
    Ok(())
}

fn policies(choices: &Choices, name: &'static str, base: &Policy) -> Result<Policies, Stop> {
    let marker = choices.helper.file_name().unwrap_or_default().as_encoded_bytes();
    let policy = |script: &str| {
        let mut policy = base.clone();
        policy.argv = ["sh", "-c", script].map(Bytes::from).to_vec();
        policy.env.insert("MARKER".to_owned(), Bytes::from(marker));
        policy.limits.wall_ms = 2 * PATIENCE.as_millis() as u64;
        policy
    };
    let stays = policy("(sleep 90 & setsid sleep 90 & sleep 90) & sleep 90");
    let write = |kind: &str, bytes: Vec<u8>| {
        let path = choices.corner.join(format!("{name}-{kind}-{}", choices.seed));
        fs::write(&path, bytes).map(|()| path)
    };
    Ok(Policies {
        name,
        exits: write("exits", serde_json::to_vec(&policy(&format!("exit {EXIT}")))?)?,
        stays: write("stays", serde_json::to_vec(&stays)?)?,
        stays_frame: write("frame", frame::encode(&stays)?)?,
    })
}

/// Marsaglia's xorshift with his multiplier: choices that can be repeated, and nothing more.
struct Random(u64);

impl Random {
    /// Neighbouring seeds lead far apart.
    fn from(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).max(1))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}
