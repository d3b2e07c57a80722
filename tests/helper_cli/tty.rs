//! `tty`: the command has a terminal of its own, and the caller's stays out of reach, with it and without.

use super::judge::text;
use crate::jail::desk::{Desk, json, me};
use crate::jail::stage::{helper, unique};
use crate::support::{PATIENCE, Stop, eventually, processes, with_more_time};
use crate::tests;
use agentkit_protocol::{Policy, frame};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

tests![
    the_terminal_is_the_jails_own,
    the_size_is_known_and_followed,
    keys_have_their_meaning_inside,
    job_control_works,
    the_terminal_is_given_back,
    a_killed_helper_leaves_nothing_on_the_terminal,
    the_callers_terminal_is_out_of_reach,
    the_terminal_cannot_suspend_the_helper,
    background_processes_get_no_terminal,
    a_terminal_where_there_is_none,
    a_terminal_in_place_of_a_policy
];

/// A terminal, and a session that has it.
struct Screen {
    keyboard: File,
    /// Kept, so that the terminal stays when the session ends.
    terminal: OwnedFd,
    found: Termios,
    shown: String,
    marker: String,
    child: Child,
}

impl Screen {
    /// The helper, with a terminal for the command or without.
    fn open(desk: &Desk, policy: &Policy, flags: &str) -> Result<Screen, Stop> {
        fs::write(desk.path("policy"), json(policy)?)?;
        Screen::run(desk, &format!("exec \"$0\" --policy-fd 4 {flags} 4<\"$1\""))
    }

    /// A shell script in a session of its own. `$0` is the helper, `$1` the policy.
    fn run(desk: &Desk, script: &str) -> Result<Screen, Stop> {
        let size = Winsize { ws_row: 33, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None)?;
        let found = tcgetattr(&pty.slave)?;
        let marker = unique("screen");
        let stream = || -> Result<Stdio, Stop> { Ok(pty.slave.try_clone()?.into()) };
        let mut command = Command::new("setsid");
        command.args(["--ctty", "sh", "-c", script]).arg(helper()).arg(desk.path("policy"));
        command.env("TERM", "vt220").env("MARKER", &marker);
        let child = command.stdin(stream()?).stdout(stream()?).stderr(stream()?).spawn()?;
        drop(command);
        Ok(Screen {
            keyboard: pty.master.into(),
            found,
            terminal: pty.slave,
            shown: String::new(),
            marker,
            child,
        })
    }

    fn press(&mut self, keys: &str) -> Result<(), Stop> {
        Ok(self.keyboard.write_all(keys.as_bytes())?)
    }

    /// Reads the screen until it shows `what` after all that was expected before.
    fn expect(&mut self, what: &str) -> Result<(), Stop> {
        let deadline = Instant::now() + PATIENCE;
        while !self.shown.contains(what) {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut wait = [PollFd::new(self.keyboard.as_fd(), PollFlags::POLLIN)];
            if poll(&mut wait, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO))? == 0 {
                return Err(Stop::Fail(format!("no {what:?} in {:?}", self.shown)));
            }
            let mut bytes = [0; 4096];
            let length = self.keyboard.read(&mut bytes)?;
            self.shown.push_str(&text(&bytes[..length]));
        }
        let (_, rest) = self.shown.split_once(what).unwrap_or_default();
        self.shown = rest.to_owned();
        Ok(())
    }

    fn resize(&self, rows: u16, columns: u16) -> Result<(), Stop> {
        let mut stty = Command::new("stty");
        stty.args(["rows", &rows.to_string(), "cols", &columns.to_string()]);
        assert!(stty.stdin(self.terminal.try_clone()?).status()?.success());
        Ok(())
    }

    fn is_raw(&self) -> Result<bool, Stop> {
        let keys = LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG;
        Ok(!tcgetattr(&self.terminal)?.local_flags.intersects(keys))
    }

    fn signal(&self, signal: Signal) -> Result<(), Stop> {
        Ok(kill(Pid::from_raw(i32::try_from(self.child.id())?), signal)?)
    }

    /// How the helper ended, when nothing of it is left; the terminal must be as it was.
    fn close(self) -> Result<Option<i32>, Stop> {
        let found = self.found.clone();
        let (code, now) = self.end()?;
        assert_eq!(now, found);
        Ok(code)
    }

    /// The same with the terminal's state.
    fn end(mut self) -> Result<(Option<i32>, Termios), Stop> {
        eventually("the helper ends", PATIENCE, || {
            self.child.try_wait().is_ok_and(|status| status.is_some())
        })?;
        eventually("nothing is left", PATIENCE, || processes::with_marker(&self.marker).is_empty())?;
        Ok((self.child.wait()?.code(), tcgetattr(&self.terminal)?))
    }
}

impl Drop for Screen {
    /// A test that failed must not leave a helper behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn the_terminal_is_the_jails_own() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script = "tty; test -t 0 && test -t 1 && test -t 2 && echo all three; echo $TERM; ls /dev/pts; \
                  echo tty > /dev/tty; exit 7";
    let mut screen = Screen::open(&desk, &desk.policy(script), "--tty")?;
    for line in ["/dev/pts/0\r\n", "all three\r\n", "vt220\r\n", "0  ptmx\r\n", "tty\r\n"] {
        screen.expect(line)?;
    }
    assert_eq!(screen.close()?, Some(7));
    let asked = Policy { tty: true, ..desk.policy("tty") };
    let mut screen = Screen::open(&desk, &asked, "")?;
    screen.expect("/dev/pts/0\r\n")?;
    assert_eq!(screen.close()?, Some(0));
    Ok(())
}

fn the_size_is_known_and_followed() -> Result<(), Stop> {
    let desk = Desk::new()?;
    // Rows and columns come one after the other.
    let script = "trap 'stty size' WINCH; trap 'exit 0' INT; stty size; sleep 60 & while :; do wait; done";
    let mut screen = Screen::open(&desk, &desk.policy(script), "--tty")?;
    screen.expect("33 77\r\n")?;
    screen.resize(50, 132)?;
    screen.expect("50 132\r\n")?;
    screen.press("\x03")?;
    assert_eq!(screen.close()?, Some(0));
    Ok(())
}

fn keys_have_their_meaning_inside() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script = "trap 'echo interrupted; exit 5' INT; echo ready; read line; echo \"<$line>\"; cat; echo over; \
                  sleep 60 & wait";
    let mut screen = Screen::open(&desk, &desk.policy(script), "--tty")?;
    screen.expect("ready\r\n")?;
    assert!(screen.is_raw()?);
    // The jail's own terminal echoes and edits.
    screen.press("wrong\x15right\n")?;
    screen.expect("right\r\n")?;
    screen.expect("<right>\r\n")?;
    screen.press("\x04")?;
    screen.expect("over\r\n")?;
    screen.press("\x03")?;
    screen.expect("interrupted\r\n")?;
    assert_eq!(screen.close()?, Some(5));
    Ok(())
}

fn job_control_works() -> Result<(), Stop> {
    let desk = Desk::new()?;
    if !fs::exists("/bin/bash")? {
        return Err(Stop::Skip("there is no bash".into()));
    }
    let bash = Policy { argv: ["bash", "--norc", "-i"].map(Into::into).to_vec(), ..desk.policy("") };
    let mut screen = Screen::open(&desk, &bash, "--tty")?;
    screen.press("PS1='$''> '; sleep 77\n")?;
    screen.expect("sleep 77\r\n")?;
    // Only once it is in the foreground is there anything to suspend.
    eventually("sleep runs", PATIENCE, || !processes::with_marker("sleep\u{0}77").is_empty())?;
    screen.press("\x1a")?;
    screen.expect("Stopped")?;
    screen.expect("$> ")?;
    screen.press("jobs; fg\n")?;
    screen.expect("Stopped")?;
    screen.expect("sleep 77\r\n")?;
    // bash says so before it gives the terminal away, and would take the key for itself.
    eventually("sleep has the terminal", PATIENCE, || in_foreground("sleep\u{0}77"))?;
    screen.press("\x03")?;
    screen.expect("$> ")?;
    screen.press("exit 9\n")?;
    assert_eq!(screen.close()?, Some(9));
    Ok(())
}

/// Whether the process runs and its group has the terminal, see proc_pid_stat(5).
fn in_foreground(marker: &str) -> bool {
    processes::with_marker(marker).into_iter().any(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        matches!(fields[..], [state, _, group, _, _, foreground, ..] if state != "T" && group == foreground)
    })
}

fn the_terminal_is_given_back() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let hostile = "stty raw -echo; echo ready; trap '' TERM HUP INT; sleep 60 & wait; sleep 60";
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGALRM, 142)] {
        let mut screen = Screen::open(&desk, &desk.policy(hostile), "--tty")?;
        screen.expect("ready")?;
        assert!(screen.is_raw()?);
        screen.signal(signal)?;
        assert_eq!(screen.close()?, Some(code));
    }
    let mut policy = desk.policy("echo ready; sleep 60");
    policy.limits.wall_ms = 300;
    assert_eq!(Screen::open(&desk, &policy, "--tty")?.close()?, Some(124));
    let missing = Policy { argv: vec!["/no/such/command".into()], ..policy };
    assert_eq!(Screen::open(&desk, &missing, "--tty")?.close()?, Some(127));
    Ok(())
}

/// SIGKILL leaves no time to give the terminal back; a copier that went on reading would eat what is typed next.
fn a_killed_helper_leaves_nothing_on_the_terminal() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut screen = Screen::open(&desk, &desk.policy("echo ready; sleep 60"), "--tty")?;
    screen.expect("ready\r\n")?;
    screen.signal(Signal::SIGKILL)?;
    assert_eq!(screen.end()?.0, None);
    Ok(())
}

/// Everything by which a process can act on a terminal or on those who share it.
const ATTACK: &str = r"
import ctypes, errno, fcntl, os, signal, struct, termios
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try:
        result = act()
        print(name, 'done' if not result else errno.errorcode[result], flush=True)
    except OSError as error:
        print(name, errno.errorcode[error.errno], flush=True)
def ioctl(fd, request, argument):
    return ctypes.get_errno() if libc.ioctl(fd, ctypes.c_ulong(request), argument) else 0
key = ctypes.create_string_buffer(b'\n')
for name in ['0', '1', '2', '/dev/tty', '/proc/self/fd/0', '/proc/self/fd/1', '/dev/console', '/dev/tty0']:
    try:
        fd = int(name) if name.isdigit() else os.open(name, os.O_RDWR | os.O_NOCTTY)
    except OSError as error:
        print(name, errno.errorcode[error.errno], flush=True)
        continue
    for request in [0x5412, 0x541c, 0x15412, 0x100005412, 0xffffffff00005412]:
        attempt(f'{name} {request:#x}', lambda: ioctl(fd, request, key))
    attempt(f'{name} tcsetpgrp', lambda: os.tcsetpgrp(fd, os.getpid()))
    attempt(f'{name} tiocsctty', lambda: ioctl(fd, 0x540e, 1))
    attempt(f'{name} winsize', lambda: ioctl(fd, 0x5414, struct.pack('HHHH', 1, 1, 0, 0)))
    attempt(f'{name} tcsetattr', lambda: ioctl(fd, 0x5402, ctypes.create_string_buffer(64)))
for group in [0, -1]:
    # Those that the attacker itself outlives.
    for number in [signal.SIGCONT, signal.SIGWINCH]:
        attempt(f'kill {group} {number}', lambda: os.kill(group, number))
attempt('stop parent', lambda: os.kill(os.getppid(), signal.SIGSTOP))
attempt('kill parent', lambda: os.kill(os.getppid(), signal.SIGKILL))
print('attacks over', flush=True)
attempt('kill all', lambda: os.kill(-1, signal.SIGKILL))
os.kill(0, signal.SIGKILL)
";

/// Nothing is done to the terminal: no key arrives, its state, size and foreground stay, and nobody outside is signalled.
fn the_callers_terminal_is_out_of_reach() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let python = me().python()?.to_string_lossy().into_owned();
    let policy = Policy { argv: vec![python.into(), "-c".into(), ATTACK.into()], ..desk.policy("") };
    fs::write(desk.path("policy"), json(&policy)?)?;
    for flags in ["", "--tty"] {
        // The shell outside is in the group that would be signalled, and would read what is typed.
        let script = format!(
            "trap 'echo SIGNALLED' HUP INT TERM CONT WINCH; \"$0\" --policy-fd 4 {flags} 4<\"$1\"; \
             echo \"code $?\"; stty size; read line; echo \"<$line>\""
        );
        let mut screen = Screen::run(&desk, &script)?;
        screen.expect("attacks over")?;
        screen.expect("code 137\r\n")?;
        assert!(!screen.shown.contains("SIGNALLED"), "{:?}", screen.shown);
        screen.expect("33 77\r\n")?;
        screen.press("typed\n")?;
        screen.expect("<typed>\r\n")?;
        assert_eq!(screen.close()?, Some(0));
    }
    Ok(())
}

/// Suspended, it would not look at the clock.
fn the_terminal_cannot_suspend_the_helper() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut policy = desk.policy("echo ready; cat; sleep 1000");
    with_more_time(Duration::from_secs(2), |time| {
        policy.limits.wall_ms = time.as_millis() as u64;
        let mut screen = Screen::open(&desk, &policy, "")?;
        let is_asked = screen.expect("ready\r\n").is_ok() && screen.child.try_wait()?.is_none();
        if is_asked {
            screen.press("\x1a")?;
        }
        assert_eq!(screen.close()?, Some(124));
        Ok(is_asked.then_some(()))
    })
}

/// In the background it gets an end of input in place of the terminal's, and no terminal of its own.
fn background_processes_get_no_terminal() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::write(desk.path("policy"), json(&desk.policy("cat; echo \"<$(cat)>\""))?)?;
    let script = "set -m; \"$0\" --policy-fd 4 4<\"$1\" & wait $!; echo \"code $?\"; \
                  \"$0\" --tty --policy-fd 4 4<\"$1\" & wait $!; echo \"code $?\"";
    // Only bash takes standard input from the terminal for a job in the background.
    if !fs::exists("/bin/bash")? {
        return Err(Stop::Skip("there is no bash".into()));
    }
    let mut screen = Screen::run(&desk, &format!("exec bash -c '{script}' \"$0\" \"$1\""))?;
    screen.expect("<>\r\n")?;
    screen.expect("code 0\r\n")?;
    screen.expect("background")?;
    screen.expect("code 125\r\n")?;
    assert_eq!(screen.close()?, Some(0));
    Ok(())
}

/// To wait for a policy to be typed looks like a hang.
fn a_terminal_in_place_of_a_policy() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    fs::write(desk.path("policy"), "")?;
    let mut screen = Screen::run(&desk, "\"$0\"; echo \"code $?\"")?;
    screen.expect("no policy on standard input, which is a terminal (see agentkit-jail --help)\r\n")?;
    screen.expect("code 125\r\n")?;
    assert_eq!(screen.close()?, Some(0));
    Ok(())
}

fn a_terminal_where_there_is_none() -> Result<(), Stop> {
    let desk = Desk::anywhere()?;
    let asked = json(&Policy { tty: true, ..desk.tracer() })?;
    fs::write(desk.path("policy"), &asked)?;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "\"$0\" --tty --policy-fd 4 4<\"$1\" </dev/null"])
        .arg(helper())
        .arg(desk.path("policy"));
    for (output, says) in [(shell.output()?, "no terminal"), (desk.call(&[], &asked)?, "standard input")] {
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(text(&output.stderr).contains(says) && !desk.ran(), "{output:?}");
    }
    let (ours, theirs) = UnixStream::pair()?;
    (&ours).write_all(&frame::encode(&Policy { tty: true, ..desk.tracer() })?)?;
    let mut client = Command::new(helper());
    let status = client.arg("--client").stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).status()?;
    assert!(status.code() == Some(125) && !desk.ran());
    Ok(())
}
