//! What is launched: ordinary commands and attacks, with each kind of work dir that the launcher can have.

use crate::attacks::{ENOUGH, UNJUDGED};
use crate::drive::{Choices, End, PATIENCE};
use crate::random::Random;
use crate::support::Stop;
use agentkit_protocol::{Access, Bytes, Commit, Control, Limits, Policy, ProcFiles, Rule, WorkDir};
use std::fs;
use std::path::{Path, PathBuf};

/// What an ordinary command exits with that ends by itself.
pub(crate) const EXIT: i32 = 7;

/// What one launch runs.
pub(crate) struct Task {
    /// The attacker's words, if it is an attack.
    pub(crate) attack: Option<&'static [&'static str]>,
    pub(crate) policy: Policy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In a control group, which not every launcher may make.
    Group,
    /// Not every host has overlays.
    Overlay,
    Scratch,
    Bind,
}

/// Makes the tasks of one driver.
pub(crate) struct Work<'a> {
    choices: &'a Choices,
    pub(crate) kinds: Vec<Kind>,
    /// Each attack gets its turn.
    turn: usize,
}

impl<'a> Work<'a> {
    pub(crate) fn new(choices: &'a Choices, kinds: Vec<Kind>) -> Self {
        Work { choices, kinds, turn: choices.seed as usize % UNJUDGED.len() }
    }

    /// The next one, to end in this way.
    pub(crate) fn task(&mut self, end: End, random: &mut Random) -> Result<Task, Stop> {
        // Only the library cancels, and it makes no control groups.
        let kinds = self.kinds.iter().copied().filter(|kind| (end, *kind) != (End::Cancel, Kind::Group));
        let kind = random.one_of(&kinds.collect::<Vec<_>>());
        if random.below(4) == 0 {
            return Ok(Task { attack: None, policy: ordinary(self.choices, kind, end) });
        }
        self.turn += 1;
        let words = UNJUDGED[self.turn % UNJUDGED.len()];
        let mut policy = self.attack(words, kind)?;
        match (end, random.below(2)) {
            // What holds on is cut off, and daemons that hold on are left over when the command has ended.
            (End::Itself, 0) => policy.limits.wall_ms = 10 + random.below(50),
            (End::Itself, _) => {
                let name = ENOUGH.trim_start_matches("/tmp/");
                policy.files.insert(name.to_owned(), Bytes::from(""));
            }
            _ => {}
        }
        Ok(Task { attack: Some(words), policy })
    }

    fn attack(&self, words: &[&str], kind: Kind) -> Result<Policy, Stop> {
        let programs = self.choices.corner.join("bin");
        let attacker = Bytes::from(programs.join("attacker"));
        let argv =
            [attacker, marker(self.choices)].into_iter().chain(words.iter().map(|&it| Bytes::from(it)));
        let mut policy = Policy { argv: argv.collect(), ..self.empty(kind)? };
        policy.rules.push(Rule { path: Bytes::from(programs), access: Access::Ro });
        // The wider view, which has more to attack.
        policy.proc = ProcFiles::Full;
        policy.limits = low();
        Ok(policy)
    }

    /// A work dir of its own for each attack that may write to the host.
    fn empty(&self, kind: Kind) -> Result<Policy, Stop> {
        let workdir = match kind {
            Kind::Overlay => {
                WorkDir::Overlay { path: Bytes::from(work(self.choices)), commit: Commit::Never }
            }
            Kind::Bind => {
                let directory = granted(self.choices).join(self.turn.to_string());
                fs::create_dir_all(&directory)?;
                WorkDir::Bind(Bytes::from(directory))
            }
            Kind::Group | Kind::Scratch => WorkDir::Scratch,
        };
        Ok(of_kind(self.choices, kind, workdir))
    }
}

/// A command that needs no work dir, but has one.
pub(crate) fn ordinary(choices: &Choices, kind: Kind, end: End) -> Policy {
    let script = match end {
        End::Itself => format!("exit {EXIT}"),
        _ => "(sleep 90 & setsid sleep 90 & sleep 90) & sleep 90".to_owned(),
    };
    let workdir = match kind {
        Kind::Overlay => WorkDir::Overlay { path: Bytes::from(work(choices)), commit: Commit::Always },
        Kind::Bind => WorkDir::Bind(Bytes::from(work(choices))),
        Kind::Group | Kind::Scratch => WorkDir::Scratch,
    };
    let mut policy = of_kind(choices, kind, workdir);
    policy.argv = ["sh", "-c", &script].map(Bytes::from).to_vec();
    policy.limits.wall_ms = 2 * PATIENCE.as_millis() as u64;
    policy
}

fn of_kind(choices: &Choices, kind: Kind, workdir: WorkDir) -> Policy {
    let mut policy = Policy { workdir, ..Policy::new([] as [Bytes; 0]) };
    policy.env.insert("MARKER".to_owned(), marker(choices));
    policy.require.extend((kind == Kind::Group).then_some(Control::MemoryLimited));
    policy
}

/// So low that an attack on them is short.
fn low() -> Limits {
    Limits {
        wall_ms: 250,
        cpu_seconds: 1,
        memory: 48 << 20,
        disk: 4 << 20,
        processes: 24,
        ..Limits::default()
    }
}

/// The processes of a jail have it among their arguments or in their environment.
fn marker(choices: &Choices) -> Bytes {
    Bytes::from(choices.helper.file_name().unwrap_or_default().as_encoded_bytes())
}

fn work(choices: &Choices) -> PathBuf {
    choices.corner.join("work")
}

/// Holds what attacks may change of the host.
fn granted(choices: &Choices) -> PathBuf {
    choices.corner.join(format!("granted/{}", choices.seed))
}

/// Fails if there is something below that lends rights to others, or is a device: a bound work dir keeps what a command
/// writes, but not that.
pub(crate) fn nothing_privileged(directory: &Path) -> Result<(), Stop> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    for entry in fs::read_dir(directory)? {
        let (path, meta) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        let (kind, mode) = (meta.file_type(), meta.permissions().mode());
        if mode & 0o6000 != 0 || kind.is_block_device() || kind.is_char_device() {
            return Err(Stop::Fail(format!("{path:?} of mode {mode:o} was left")));
        }
        if meta.is_dir() {
            nothing_privileged(&path)?;
        }
    }
    Ok(())
}
