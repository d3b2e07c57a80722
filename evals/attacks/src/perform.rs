//! Performs one attack.

use crate::attack::{Attacker, PYTHON, Staged};
use crate::judge::Evidence;
use crate::launcher::Launcher;
use crate::processes;
use crate::run::Run;
use crate::scene::Scene;
use crate::under_way::{end_group, spawn};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// A launcher that takes longer is ended. No attack goes on for that long, not even where others have the processors.
const LONGEST: Duration = Duration::from_secs(120);
/// What was killed may take so long to be dead, on a busy host.
const GRACE: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(3);
/// So much of an output is read.
const MOST_OUTPUT: u64 = 1 << 20;

/// Performs an attack; returns the run and the evidence of its success, if it succeeded.
pub(crate) fn perform(
    launcher: &Launcher,
    scene: &Scene,
    mut staged: Staged,
) -> io::Result<(Run, Option<Evidence>)> {
    let mut argv = match staged.attacker {
        Attacker::Native => vec![scene.native().into()],
        Attacker::Python => vec![PYTHON.into(), scene.script().into()],
        Attacker::NativeAs(copy) => vec![copy.into()],
    };
    argv.push(scene.marker().to_owned());
    argv.extend(staged.argv);
    let mut command = launcher.command(scene, &staged.before, &argv);
    if staged.leads_a_session {
        command = in_a_session(&command, scene);
    } else {
        // Signals to a group of its own reach whatever the launcher left behind; a session has one anyway.
        command.process_group(0);
    }
    let run = finish(command, scene, || staged.judge.watch())?;
    let evidence = staged.judge.judge(&run);
    Ok((run, evidence))
}

/// Runs a launcher to its end and ends what it left behind. `look` is called every few milliseconds meanwhile.
pub(crate) fn finish(mut command: Command, scene: &Scene, look: impl FnMut()) -> io::Result<Run> {
    let output = |name: &str| scene.output(name);
    command.stdin(File::open("/dev/null")?);
    command.stdout(File::create(output("out"))?).stderr(File::create(output("err"))?);
    let (mut child, _noted) = spawn(&mut command, Some(scene.marker()))?;
    let ended = wait(&mut child, look);
    // Before any is ended: the end of one may be that of the others, as with the init of a namespace.
    let (left, left_running_it) = left_over(scene);
    // Whatever outlived the launcher is ours to end.
    end_group(child.id(), &[&left[..], &left_running_it].concat());
    let status = ended?;
    let [stdout, stderr] = [read(&output("out"))?, read(&output("err"))?];
    Ok(Run { status, stdout, stderr, left, left_running_it })
}

/// What is alive a moment later: with the marker of the attack, and running its program. A launcher may have killed what it
/// leaves, and not waited for it to be dead.
fn left_over(scene: &Scene) -> (Vec<u32>, Vec<u32>) {
    let end = Instant::now();
    loop {
        let (left, running) = (processes::of(scene.marker()), processes::running(&scene.native()));
        if (left.is_empty() && running.is_empty()) || end.elapsed() > GRACE {
            return (left, running);
        }
        std::thread::sleep(PAUSE);
    }
}

/// setsid(1) becomes the command, since it leads no group here.
fn in_a_session(command: &Command, scene: &Scene) -> Command {
    let mut leader = Command::new("setsid");
    leader.arg(command.get_program()).args(command.get_args()).current_dir(scene.granted());
    leader
}

fn wait(child: &mut Child, mut look: impl FnMut()) -> io::Result<ExitStatus> {
    let begin = Instant::now();
    loop {
        look();
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begin.elapsed() > LONGEST {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!("the launcher did not end within {LONGEST:?}")));
        }
        std::thread::sleep(PAUSE);
    }
}

fn read(path: &std::path::Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
    Ok(bytes)
}
