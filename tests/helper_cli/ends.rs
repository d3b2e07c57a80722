//! How a run is ended from outside, and what signals a caller leaves behind.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::jail::stage::{helper, unique};
use crate::support::outside::Snapshot;
use crate::support::{PATIENCE, Stop, eventually, processes, sometimes_within, user};
use crate::tests;
use agentkit_protocol::{Bytes, EndedBy, Event, Policy, Probe};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

tests![
    a_caller_that_ignores_sigchld,
    ignored_signals_are_not_inherited,
    a_signal_ends_the_command,
    a_command_ends_in_its_own_way,
    stop_signals_end_the_tree,
    a_second_signal_does_not_wait,
    a_signal_without_a_meaning_ends_the_tree,
    two_signals_at_once_are_one_request,
    a_signal_during_set_up_is_told_as_a_failure,
    a_helper_that_is_pid_1,
    an_orphan_that_dies_of_a_signal_without_a_name,
    sigkill_leaves_no_copier_of_input,
    sigkill_at_any_moment_leaves_nothing
];

fn a_caller_that_ignores_sigchld() -> Result<(), Stop> {
    let desk = Desk::new()?;
    // Nobody waits for the wall clock, nor for init to say more.
    sometimes_within(Duration::from_secs(5), || {
        let policy = json(&desk.policy("sh -c 'exit 3'; exit $(($? + 4))"))?;
        let run = desk.launch_after("trap '' CHLD", &policy)?;
        assert_eq!((run.status.code(), run.ended()?.ended_by), (Some(7), EndedBy::Exit(7)));
        Ok(())
    })
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

/// A helper under way, whose every process, inside the jail and outside, has a marker in its environment, but for init.
/// That holds the pipe that the helper was given, or the end of one whose copier does.
struct Tree {
    child: Child,
    marker: String,
    gone: mpsc::Receiver<()>,
}

impl Tree {
    fn start(policy: &Policy, stdout: Stdio) -> Result<Tree, Stop> {
        Tree::start_as(Command::new(helper()), policy, stdout)
    }

    fn start_as(mut command: Command, policy: &Policy, stdout: Stdio) -> Result<Tree, Stop> {
        let marker = unique("tree");
        let mut policy = policy.clone();
        policy.env.insert("MARKER".into(), Bytes::from(&marker));
        let mut child = command
            .env("MARKER", &marker)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()?;
        let (mut stdin, stderr) = (child.stdin.take(), child.stderr.take());
        if let Some(stdin) = &mut stdin {
            stdin.write_all(&json(&policy)?)?;
        }
        let (tell, gone) = mpsc::channel();
        std::thread::spawn(move || {
            // Ends when the last holder of the other end is dead, whatever it says before.
            let _ = stderr.map(|mut pipe| pipe.read_to_end(&mut Vec::new()));
            tell.send(())
        });
        Ok(Tree { child, marker, gone })
    }

    /// Starts a script that says when it is ready, and waits until it does.
    fn ready(desk: &Desk, script: &str) -> Result<Tree, Stop> {
        Tree::ready_as(Command::new(helper()), desk, script)
    }

    fn ready_as(command: Command, desk: &Desk, script: &str) -> Result<Tree, Stop> {
        let ready = unique("ready");
        let script = script.replace("READY", &format!(": > {ready}"));
        let tree = Tree::start_as(command, &desk.policy(&script), Stdio::null())?;
        let ready = desk.path("work").join(ready);
        eventually("the command runs", PATIENCE, || ready.exists())?;
        Ok(tree)
    }

    fn signal(&self, signal: Signal) -> Result<(), Stop> {
        send(self.child.id(), signal)
    }

    /// Fails unless every process of the tree is dead.
    fn must_be_gone(mut self) -> Result<Option<i32>, Stop> {
        let status = self.child.wait()?;
        self.gone.recv_timeout(PATIENCE).map_err(|_| Stop::Fail("something is alive".into()))?;
        // After a SIGKILL the rest dies of the helper's death, a moment later.
        eventually("nothing of the tree is left", PATIENCE, || {
            processes::with_marker(&self.marker).is_empty()
        })?;
        Ok(status.code())
    }
}

fn send(pid: u32, signal: Signal) -> Result<(), Stop> {
    kill(Pid::from_raw(i32::try_from(pid)?), signal).map_err(|error| Stop::Fail(format!("kill: {error}")))
}

const TREE: &str = "trap '' TERM INT HUP QUIT; (sleep 60 & setsid sleep 60 & sleep 60) & READY; sleep 60";
const STOP_SIGNALS: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

fn a_signal_ends_the_command() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for signal in STOP_SIGNALS {
        let tree = Tree::ready(&desk, "(setsid sleep 1000 &); READY; exec sleep 1000")?;
        tree.signal(signal)?;
        assert_eq!(tree.must_be_gone()?, Some(128 + signal as i32), "{signal}");
    }
    Ok(())
}

/// The second does not get to its trap before its child is dead: that has to get the signal too.
fn a_command_ends_in_its_own_way() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for script in [
        "trap 'echo x > ran; exit 5' TERM; READY; sleep 60 & wait",
        "trap 'echo x > ran; exit 5' TERM; sh -c 'READY; exec sleep 60'; exit 6",
    ] {
        let tree = Tree::ready(&desk, script)?;
        tree.signal(Signal::SIGTERM)?;
        assert_eq!((tree.must_be_gone()?, desk.ran()), (Some(5), true), "{script}");
    }
    Ok(())
}

fn stop_signals_end_the_tree() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let started = STOP_SIGNALS.map(|signal| (signal, Tree::ready(&desk, TREE)));
    let mut trees = Vec::new();
    for (signal, tree) in started {
        let tree = tree?;
        tree.signal(signal)?;
        trees.push((signal, tree));
    }
    for (signal, tree) in trees {
        assert_eq!(tree.must_be_gone()?, Some(128 + signal as i32), "{signal}");
    }
    Ok(())
}

fn a_second_signal_does_not_wait() -> Result<(), Stop> {
    let desk = Desk::new()?;
    // What the first alone would leave the command.
    sometimes_within(Duration::from_secs(2), || {
        let mut tree = Tree::ready(&desk, TREE)?;
        let mut failed = None;
        eventually("the helper ends", PATIENCE, || {
            failed = tree.signal(Signal::SIGINT).err();
            failed.is_some() || tree.child.try_wait().is_ok_and(|status| status.is_some())
        })?;
        assert!(failed.is_none());
        assert_eq!(tree.must_be_gone()?, Some(130));
        Ok(())
    })
}

/// Its default is to end the helper, which is to take everything with it and to report.
fn a_signal_without_a_meaning_ends_the_tree() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for signal in [Signal::SIGUSR1, Signal::SIGALRM, Signal::SIGVTALRM] {
        let tree = Tree::ready(&desk, TREE)?;
        tree.signal(signal)?;
        assert_eq!(tree.must_be_gone()?, Some(128 + signal as i32), "{signal}");
    }
    Ok(())
}

/// timeout(1) and others send one to the helper and one to its group.
fn two_signals_at_once_are_one_request() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let tree = Tree::ready(&desk, "trap 'exit 5' TERM; trap '' INT; READY; sleep 60 & wait")?;
    // Whatever comes between the two signals, it finds both.
    tree.signal(Signal::SIGSTOP)?;
    eventually("the helper stands still", PATIENCE, || is_stopped(tree.child.id()))?;
    tree.signal(Signal::SIGTERM)?;
    tree.signal(Signal::SIGINT)?;
    tree.signal(Signal::SIGCONT)?;
    assert_eq!(tree.must_be_gone()?, Some(5));
    Ok(())
}

/// Of every mechanism that this host has. Where the command was executed all the same, it has also started.
fn a_signal_during_set_up_is_told_as_a_failure() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let answer: Probe = serde_json::from_slice(&desk.call(&["--probe", "--json"], b"")?.stdout)?;
    let works = answer.each.iter().filter(|(_, found)| found.failure.is_none());
    for (mechanism, signal) in
        works.flat_map(|(it, _)| [Signal::SIGTERM, Signal::SIGUSR1].map(|signal| (it, signal)))
    {
        let report = desk.path("outputs/report");
        let mut helper = Command::new("sh")
            .args(["-c", "exec \"$0\" --mechanism \"$1\" --report-fd 3 -- sleep 60 3>\"$2\""])
            .args([helper().as_os_str(), mechanism.to_string().as_ref(), report.as_os_str()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // Before that one ends it before it can tell.
        eventually("it blocks signals", PATIENCE, || blocks(helper.id(), signal))?;
        send(helper.id(), signal)?;
        assert_eq!(helper.wait()?.code(), Some(128 + signal as i32), "{mechanism}: {signal}");
        let report = fs::read_to_string(&report)?;
        let events: Vec<Event> = report.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        assert!(
            matches!(&events[..], [Event::Failed(_)] | [Event::Started(_), Event::Ended(_)]),
            "{mechanism}: {signal}: {report}"
        );
    }
    Ok(())
}

fn blocks(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}

fn is_stopped(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

/// As the entry point of a container. The kernel keeps signals from a pid 1 that does nothing about them.
fn a_helper_that_is_pid_1() -> Result<(), Stop> {
    let desk = Desk::new()?;
    // Root of a user namespace in which nobody else exists could become nobody else.
    let user: &[_] = if user::current_uid() == Ok(0) { &[] } else { &["--user", "--map-root-user"] };
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut command = Command::new("unshare");
        command.args(user).args(["--pid", "--fork", "--mount-proc"]).arg(helper());
        let tree = Tree::ready_as(command, &desk, "(setsid sleep 60 &); READY; exec sleep 60")?;
        let below = processes::descendants(tree.child.id());
        let pid_1 = below.iter().find(|pid| processes::parent(**pid) == Some(tree.child.id()));
        send(*pid_1.ok_or_else(|| Stop::Fail("no helper below unshare".into()))?, signal)?;
        assert_eq!(tree.must_be_gone()?, Some(128 + signal as i32), "{signal}");
    }
    Ok(())
}

fn an_orphan_that_dies_of_a_signal_without_a_name() -> Result<(), Stop> {
    let desk = Desk::new()?;
    // It is pid 1's child before it dies, and dead before the fifo is closed.
    let script = "mkfifo end; (sh -c 'exec 8>end; until [ $(ps -o ppid= $$) = 1 ]; do :; done; kill -40 $$' &); \
                  cat end; exit 3";
    let script = script.replace("$(ps -o ppid= $$)", "$(sed -n 's/^PPid:.//p' /proc/$$/status)");
    let run = desk.launch(&desk.policy(&script))?;
    assert_eq!((run.status.code(), run.ended()?.ended_by), (Some(3), EndedBy::Exit(3)), "{run:?}");
    Ok(())
}

/// A copier that waits for input notices no end of the jail.
fn sigkill_leaves_no_copier_of_input() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let ready = desk.path("work/ready");
    fs::write(desk.path("policy"), json(&desk.policy("read line; echo x > ready; cat"))?)?;
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" --policy-fd 4 4<\"$1\""]).arg(helper()).arg(desk.path("policy"));
    let marker = unique("helper");
    let mut child = shell.env("MARKER", &marker).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().ok_or_else(|| Stop::Fail("no pipe".into()))?;
    stdin.write_all(b"line\n")?;
    eventually("the command has read", PATIENCE, || ready.exists())?;
    assert!(processes::with_marker(&marker).len() > 2, "no copier");
    send(child.id(), Signal::SIGKILL)?;
    child.wait()?;
    eventually("no copier is left", PATIENCE, || processes::with_marker(&marker).is_empty())?;
    drop(stdin);
    Ok(())
}

/// Set-up takes some milliseconds: the moments lie in it and after it.
fn sigkill_at_any_moment_leaves_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let before = Snapshot::take(&[desk.path("work").as_path()])?;
    let policy = desk.policy("(sleep 60 & setsid sleep 60 & sleep 60) & sleep 60");
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
    assert_eq!(before.added()?, [] as [String; 0]);
    Ok(())
}
