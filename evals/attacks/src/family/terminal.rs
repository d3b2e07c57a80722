//! The caller's terminal.

use crate::attack::{Attack, CannotBite, Family, Staged};
use crate::judge::{Evidence, Seen};
use crate::launcher::quoted;
use crate::run::Run;
use crate::scene::Scene;
use agentkit_protocol::Control;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::{OpenptyResult, openpty};
use nix::unistd::{read, tcgetpgrp, ttyname, write};
use std::fs;
use std::path::PathBuf;

/// Who has no session of the caller's has no terminal of it; and typing is refused to all.
const CONTROLS: &[Control] = &[Control::ProcessesIsolated, Control::SyscallsFiltered];

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        Family::Terminal,
        "type_into_the_terminal",
        "code that you run types commands into your shell",
        CONTROLS,
        |scene| types(scene, "type_input", Given::AsInput),
    ),
    Attack::new(
        Family::Terminal,
        "type_into_a_terminal_not_given",
        "code that you run types commands into a shell that it was not given",
        CONTROLS,
        |scene| types(scene, "type_own", Given::Not),
    ),
    Attack::new(
        Family::Terminal,
        "take_the_foreground",
        "what you type, to interrupt for instance, goes to code that you run",
        CONTROLS,
        foreground,
    ),
    Attack::new(
        Family::Terminal,
        "listen_to_the_terminal",
        "code that you run reads what you type, such as passwords",
        CONTROLS,
        listen,
    ),
    Attack::new(
        Family::Terminal,
        "python_type_into_the_terminal",
        "a script types commands into your shell, with nothing but Python's own library",
        CONTROLS,
        |scene| types(scene, "type_input", Given::AsInput)?.in_python(),
    ),
];

/// Whether the terminal is the launcher's input too, or only that of its session.
enum Given {
    AsInput,
    Not,
}

/// A terminal of the caller of a launcher.
struct Terminal {
    pair: OpenptyResult,
    path: PathBuf,
}

impl Terminal {
    fn new() -> Result<Self, CannotBite> {
        let prepare = || -> nix::Result<Terminal> {
            let pair = openpty(None, None)?;
            // Nobody waits for what is not typed.
            fcntl(&pair.slave, FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK))?;
            let path = ttyname(&pair.slave)?;
            Ok(Terminal { pair, path })
        };
        prepare().map_err(|error| CannotBite(format!("there is no terminal to be had: {error}")))
    }

    /// Shell commands of the leader of a session, which make it the session's.
    fn taken(&self, given: &Given) -> String {
        let path = quoted(self.path.as_os_str());
        match given {
            Given::AsInput => format!("exec 0<>{path}"),
            Given::Not => format!("exec 8<>{path} 8<&-"),
        }
    }

    /// A line of its input, as the caller would read it.
    fn line(&self) -> Option<String> {
        let mut line = [0; 256];
        let length = read(&self.pair.slave, &mut line).ok()?;
        Some(String::from_utf8_lossy(&line[..length]).into_owned())
    }
}

fn types(scene: &Scene, attack: &str, given: Given) -> Result<Staged, CannotBite> {
    let terminal = Terminal::new()?;
    let before = terminal.taken(&given);
    let text = format!("echo {}", scene.marker().display());
    let argv = [attack.into(), scene.enough().into_os_string(), text.clone().into()];
    let look = move || -> Option<Evidence> {
        let typed = terminal.line()?;
        typed.contains(&text).then(|| "a command was typed into the caller's terminal".to_owned())
    };
    Ok(Staged::new(argv, Seen::new(scene, look)).before(before).leads_a_session())
}

fn foreground(scene: &Scene) -> Result<Staged, CannotBite> {
    let terminal = Terminal::new()?;
    let leader = scene.own().join("leader");
    let before = format!("echo $$ >{}\n{}", quoted(leader.as_os_str()), terminal.taken(&Given::AsInput));
    let look = move || -> Option<Evidence> {
        let leader: i32 = fs::read_to_string(&leader).ok()?.trim().parse().ok()?;
        // None has it before the leader opens it.
        let group = tcgetpgrp(&terminal.pair.master).ok()?.as_raw();
        (group > 0 && group != leader).then(|| "another process group has the terminal".to_owned())
    };
    let argv = ["foreground".into(), scene.enough().into_os_string()];
    Ok(Staged::new(argv, Seen::new(scene, look)).before(before).leads_a_session())
}

/// The line is typed before anybody could read it.
fn listen(scene: &Scene) -> Result<Staged, CannotBite> {
    let terminal = Terminal::new()?;
    let before = terminal.taken(&Given::Not);
    let (_, secret) = scene.canary()?;
    write(&terminal.pair.master, format!("{secret}\n").as_bytes())
        .map_err(|error| CannotBite(format!("nothing can be typed: {error}")))?;
    let judge = move |run: &Run| {
        // The terminal has to be there until then.
        let _ = &terminal;
        run.contains(&secret).then(|| "what was typed came out".to_owned())
    };
    Ok(Staged::new(["listen_to_input"], judge).before(before).leads_a_session())
}
