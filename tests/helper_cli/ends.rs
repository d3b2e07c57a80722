//! How a run is ended from outside, and what signals a caller leaves behind.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::jail::stage::{helper, unique};
use crate::support::outside::Snapshot;
use crate::support::{Stop, eventually, processes};
use crate::tests;
use agentkit_protocol::{Bytes, EndedBy, Policy};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

tests![
    a_caller_that_ignores_sigchld,
    ignored_signals_are_not_inherited,
    stop_signals_end_the_tree,
    sigkill_at_any_moment_leaves_nothing
];

fn a_caller_that_ignores_sigchld() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let begin = Instant::now();
    let run = desk.launch_after("trap '' CHLD", &json(&desk.policy("sh -c 'exit 3'; exit $(($? + 4))"))?)?;
    assert_eq!((run.status.code(), run.ended()?.ended_by), (Some(7), EndedBy::Exit(7)));
    assert!(begin.elapsed() < Duration::from_secs(10));
    Ok(())
}

fn ignored_signals_are_not_inherited() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy = desk.policy("grep -E '^Sig(Ign|Blk)' /proc/self/status");
    let run = desk.launch_after("trap '' CHLD TERM INT HUP PIPE USR1 QUIT", &json(&policy)?)?;
    let masks = text(&run.stdout);
    let mut masks = masks.lines().filter_map(|line| line.split_once('\t'));
    let mut mask = || masks.next().and_then(|(_, mask)| u64::from_str_radix(mask, 16).ok());
    // Signals 32 and 33 are the C library's own, which lets nobody change them.
    assert_eq!((mask(), mask().map(|ignored| ignored & !(0b11 << 31))), (Some(0), Some(0)));
    Ok(())
}

/// A helper under way, whose every process holds the pipe that it gave away.
struct Tree {
    child: Child,
    gone: mpsc::Receiver<()>,
}

impl Tree {
    fn start(policy: &Policy, stdout: Stdio) -> Result<Tree, Stop> {
        let mut command = Command::new(helper());
        let mut child = command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped()).spawn()?;
        let (mut stdin, stderr) = (child.stdin.take(), child.stderr.take());
        if let Some(stdin) = &mut stdin {
            stdin.write_all(&json(policy)?)?;
        }
        let (tell, gone) = mpsc::channel();
        std::thread::spawn(move || {
            // Ends when the last holder of the other end is dead, whatever it says before.
            let _ = stderr.map(|mut pipe| pipe.read_to_end(&mut Vec::new()));
            tell.send(())
        });
        Ok(Tree { child, gone })
    }

    fn signal(&self, signal: Signal) -> Result<(), Stop> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?);
        kill(pid, signal).map_err(|error| Stop::Fail(format!("kill: {error}")))
    }

    /// Fails unless every process of the tree is dead.
    fn must_be_gone(mut self) -> Result<Option<i32>, Stop> {
        let status = self.child.wait()?;
        self.gone
            .recv_timeout(Duration::from_secs(10))
            .map_err(|_| Stop::Fail("something is alive".into()))?;
        Ok(status.code())
    }
}

const TREE: &str = "trap '' TERM INT HUP QUIT; (sleep 60 & setsid sleep 60 & sleep 60) & : > ready; sleep 60";

fn stop_signals_end_the_tree() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let tree = Tree::start(&desk.policy(TREE), Stdio::null())?;
        eventually("the command runs", Duration::from_secs(10), || desk.path("work/ready").exists())?;
        tree.signal(signal)?;
        assert_eq!(tree.must_be_gone()?, Some(137), "{signal}");
        fs::remove_file(desk.path("work/ready"))?;
    }
    Ok(())
}

/// Set-up takes some milliseconds: the moments lie in it and after it.
fn sigkill_at_any_moment_leaves_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let before = Snapshot::take(&[desk.path("work").as_path()])?;
    let marker = unique("tree");
    let mut policy = desk.policy("(sleep 60 & setsid sleep 60 & sleep 60) & sleep 60");
    policy.argv.push(Bytes::from(&marker));
    for moment in 0..30 {
        // Output to a file takes a process more, output to nothing does not.
        let stdout = match moment % 2 {
            0 => Stdio::null(),
            _ => fs::File::create(desk.path("outputs/out"))?.into(),
        };
        let tree = Tree::start(&policy, stdout)?;
        std::thread::sleep(Duration::from_micros(moment * 900));
        tree.signal(Signal::SIGKILL)?;
        assert_eq!(tree.must_be_gone()?, None);
    }
    // Nobody waits for a tree whose supervisor was killed: the kernel takes it down in its own time.
    eventually("all are dead", Duration::from_secs(10), || processes::with_marker(&marker).is_empty())?;
    assert_eq!(before.added()?, [] as [String; 0]);
    Ok(())
}
