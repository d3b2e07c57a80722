//! Many launches, most of them attacks, ended at random moments in every way there is, and then a look at the host:
//! nothing may be left.
//!
//! `AGENTKIT_SOAK_LAUNCHES` sets how many (2,000), `AGENTKIT_SOAK_SEED` repeats the choices of an earlier run, which
//! prints its seed. The moments are those of the machine and come out differently each time.

#[path = "../jail/mod.rs"]
mod jail;
#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod client;
mod drive;
mod host;
mod own;
mod random;
mod strike;
mod work;

use agentkit_protocol::{Control, Policy};
use drive::{Choices, Tally};
use host::Host;
use jail::desk::{self, Desk};
use jail::stage::{self, Stage};
use jail::who::Who;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};
use std::sync::Mutex;
use support::{Stop, trial};

const LAUNCHES: &str = "AGENTKIT_SOAK_LAUNCHES";
const SEED: &str = "AGENTKIT_SOAK_SEED";
/// Held by the one that runs.
static ALONE: Mutex<()> = Mutex::new(());
/// Processes that launch at the same time, one launch each.
const DRIVERS: u64 = 4;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(end) = drive::as_another_process(&arguments) {
        return end;
    }
    Stage::run(|| {
        let everybody = Who::everybody();
        let soak = |who: &Who| {
            let who = *who;
            trial(&format!("random_ends_leave_nothing::{}", who.name()), move || {
                random_ends_leave_nothing(who, everybody.len() as u64)
            })
        };
        let others = [
            trial("control_groups_at_once", control_groups_at_once),
            trial("what_is_more_is_seen", own::what_is_more_is_seen),
            trial("what_is_left_is_seen", || {
                let _alone = ALONE.lock();
                host::what_is_left_is_seen()
            }),
        ];
        support::run(everybody.iter().map(soak).chain(others).collect())
    })
}

fn random_ends_leave_nothing(who: Who, share: u64) -> Result<(), Stop> {
    // What is new on the host is taken for one's own, descriptors included.
    let _alone = ALONE.lock();
    who.can_launch()?;
    let seed = number(SEED, std::time::UNIX_EPOCH.elapsed()?.as_nanos() as u64)?;
    let launches = number(LAUNCHES, 2_000)? / share / DRIVERS;
    eprintln!("{} x {launches} launches {}, {SEED}={seed}", DRIVERS, who.name());

    let (root, name) = (stage::open_directory()?, host::unused_name());
    let (helper, driver) = (root.path().join(&name), root.path().join("drive"));
    fs::copy(stage::helper(), &helper)?;
    fs::copy(std::env::current_exe()?, &driver)?;
    let corner = root.path().join("corner");
    make_corner(who, &corner)?;
    let before = Host::look(&name)?;
    let kept = listing(&corner.join("work"))?;

    let drivers = (0..DRIVERS).map(|number| {
        let choices = Choices {
            helper: helper.clone(),
            corner: corner.clone(),
            launches,
            seed: seed.wrapping_add(number),
        };
        start(who, &driver, &choices)
    });
    let drivers: Vec<Child> = drivers.collect::<Result<_, Stop>>()?;
    // All of them, whatever becomes of one.
    let outputs: Vec<_> = drivers.into_iter().map(Child::wait_with_output).collect();
    for output in outputs {
        let output = output?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        eprint!("{said}");
        assert!(output.status.success(), "{SEED}={seed}: {}: {said}", output.status);
        Tally::must_cover_everything(&said, launches)?;
    }

    before.nothing_is_new(&name)?;
    assert_eq!(listing(&corner.join("work"))?, kept);
    work::nothing_privileged(&corner.join("granted"))?;
    Ok(())
}

/// Each launch clears away the groups that nobody holds, and must not take those for such that are just being made.
fn control_groups_at_once() -> Result<(), Stop> {
    let _alone = ALONE.lock();
    let desk = Desk::new()?;
    let policy = Policy { require: [Control::MemoryLimited].into(), ..Policy::new(["true"]) };
    let policy = desk::json(&policy)?;
    let first = desk.call(&[], &policy)?;
    if !first.status.success() {
        return Err(Stop::Skip(String::from_utf8_lossy(&first.stderr).into_owned()));
    }
    let launch = || {
        (0..30).map(|_| desk.call(&[], &policy)).find(|run| !matches!(run, Ok(run) if run.status.success()))
    };
    let failed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(launch)).collect();
        threads.into_iter().find_map(|thread| thread.join().ok().flatten())
    });
    assert!(failed.is_none(), "{failed:?}");
    Ok(())
}

fn number(variable: &str, default: u64) -> Result<u64, Stop> {
    match std::env::var(variable) {
        Ok(text) => text.parse().map_err(|_| Stop::Fail(format!("{variable}={text} is not a number"))),
        Err(_) => Ok(default),
    }
}

/// What the launcher owns: a work dir with a repository, whose names are protected, and directories for what attacks
/// leave and for output. Beside them the attacker.
fn make_corner(who: Who, corner: &Path) -> Result<(), Stop> {
    for name in [
        "",
        "out",
        "granted",
        "bin",
        "work",
        "work/below",
        "work/.git",
        "work/.git/hooks",
        "work/.git/refs",
        "work/.git/objects",
    ] {
        fs::create_dir(corner.join(name))?;
        who.own(&corner.join(name))?;
    }
    for name in ["below/file", ".git/config", ".git/HEAD", ".git/hooks/pre-commit"] {
        let file = corner.join("work").join(name);
        fs::write(&file, "as it was")?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640))?;
        who.own(&file)?;
    }
    support::write_program(&corner.join("bin/attacker"), attacks::attacker()?)
}

/// Everything below, with what tells a changed file.
fn listing(directory: &Path) -> Result<Vec<String>, Stop> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let meta = path.symlink_metadata()?;
        let (mode, owner, changed) =
            (meta.mode(), (meta.uid(), meta.gid()), (meta.mtime(), meta.mtime_nsec()));
        found.push(format!("{path:?} {mode:o} {owner:?} {changed:?}"));
        if meta.is_dir() {
            found.extend(listing(&path)?);
        }
    }
    found.sort();
    Ok(found)
}

/// The driver as the launcher it is about, in that launcher's own environment.
fn start(who: Who, driver: &Path, choices: &Choices) -> Result<Child, Stop> {
    let mut command = who.shell()?;
    command.args(["-c", "exec \"$@\"", "sh"]).arg(driver).args(choices.arguments()).current_dir("/");
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?)
}
