//! Sends the report and chooses the exit code.

use crate::cli::Format;
use crate::{NAME, exit_code};
use agentkit_protocol::{
    Capabilities, Changes, Committed, Ended, EndedBy, Event, FailureKind, Level, Limit, Quarantined, frame,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// Where events go.
pub(crate) enum Reporter {
    /// Frames to a client.
    Client(File),
    /// Failures as one line on standard error and, where the caller wants it, every event as a line of JSON.
    Script(Option<File>),
}

impl Reporter {
    /// Frames to the socket `fd`.
    pub(crate) fn client(fd: OwnedFd) -> Self {
        Reporter::Client(File::from(fd))
    }

    /// Messages on standard error alone.
    pub(crate) fn stderr() -> Self {
        Reporter::Script(None)
    }

    /// Sends one event and returns the exit code that goes with it.
    ///
    /// A caller that does not listen any more gets no report; that changes nothing about the run.
    pub(crate) fn send(&mut self, event: &Event) -> i32 {
        drop(self.send_event(event));
        exit_code(event)
    }

    fn send_event(&mut self, event: &Event) -> io::Result<()> {
        match self {
            Reporter::Client(socket) => send_frame(socket, event),
            Reporter::Script(report) => {
                complaints(event).iter().for_each(|message| complain(message));
                report.as_mut().map_or(Ok(()), |report| send_line(report, event))
            }
        }
    }
}

fn send_frame(socket: &mut File, event: &Event) -> io::Result<()> {
    socket.write_all(&frame::encode(event).map_err(io::Error::other)?)
}

fn send_line(report: &mut File, event: &Event) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    report.write_all(&line)
}

/// What a person at a shell has to be told: why nothing ran, that we killed it, that its changes did not arrive, and
/// what is not where the command left it.
fn complaints(event: &Event) -> Vec<String> {
    match event {
        Event::Failed(failure) => vec![failure.to_string()],
        Event::Ended(ended) => {
            let moved = ended.quarantined.iter().map(|Quarantined { from, to }| {
                format!(
                    "moved aside, since programs outside could execute what it says: {from:?}, now {to:?}"
                )
            });
            let unchecked = ended.unchecked.iter().map(|what| format!("not looked at: {what}"));
            loss(ended).into_iter().chain(moved).chain(unchecked).collect()
        }
        Event::Started(_) | Event::Capabilities(_) => Vec::new(),
    }
}

fn loss(ended: &Ended) -> Option<String> {
    if let Some(Changes { commit: Committed::Failed(failure), .. }) = &ended.changes {
        return Some(failure.to_string());
    }
    let killed_for = match ended.ended_by {
        EndedBy::WallClock => Limit::Wall,
        EndedBy::Memory => Limit::Memory,
        EndedBy::Cpu => Limit::Cpu,
        EndedBy::Disk => Limit::Disk,
        EndedBy::Exit(_) | EndedBy::Signal(_) | EndedBy::Stopped(_) | EndedBy::Caller => return None,
    };
    let reached = ended.limits_reached.iter().find(|reached| reached.limit == killed_for);
    reached.map(|reached| reached.evidence.clone())
}

/// One line, whatever the policy put into the message.
fn complain(message: &str) {
    let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    drop(writeln!(io::stderr(), "{NAME}: {line}"));
}

fn exit_code(event: &Event) -> i32 {
    match event {
        Event::Capabilities(_) | Event::Started(_) => 0,
        Event::Ended(Ended { changes: Some(Changes { commit: Committed::Failed(_), .. }), .. }) => {
            exit_code::FAILED
        }
        Event::Ended(Ended { ended_by, .. }) => match ended_by {
            EndedBy::Exit(code) => *code,
            EndedBy::Signal(number) | EndedBy::Stopped(number) => exit_code::SIGNAL + number,
            EndedBy::WallClock => exit_code::WALL_CLOCK,
            // SIGKILL is what the tree died of.
            EndedBy::Memory | EndedBy::Cpu | EndedBy::Disk | EndedBy::Caller => exit_code::SIGNAL + 9,
        },
        Event::Failed(failure) => match failure.kind {
            FailureKind::Policy | FailureKind::Host | FailureKind::Required => exit_code::FAILED,
            FailureKind::NotExecutable => exit_code::NOT_EXECUTABLE,
            FailureKind::NotFound => exit_code::NOT_FOUND,
        },
    }
}

/// Prints the answer to `--probe`.
pub(crate) fn print_capabilities(capabilities: &Capabilities, format: Format) {
    let mut out = io::stdout();
    let printed = match format {
        Format::Table => out.write_all(table(capabilities).as_bytes()),
        Format::Json => serde_json::to_vec(capabilities)
            .map_err(io::Error::from)
            .and_then(|json| out.write_all(&json).and_then(|()| out.write_all(b"\n"))),
        Format::Frame => {
            crate::platform::client_reporter().send_event(&Event::Capabilities(capabilities.clone()))
        }
    };
    // Whoever asked has gone away; there is nobody left to tell.
    drop(printed);
}

fn table(capabilities: &Capabilities) -> String {
    let mut table = match (&capabilities.mechanism, &capabilities.failure) {
        (Some(mechanism), _) => format!("{:<22}{mechanism}\n", "mechanism"),
        (None, Some(failure)) => format!("{:<22}none works here: {failure}\n", "mechanism"),
        (None, None) => format!("{:<22}none works here\n", "mechanism"),
    };
    for (control, level) in &capabilities.controls {
        let level = match level {
            // The first line has said why.
            Level::None(_) if capabilities.mechanism.is_none() => "none".to_owned(),
            level => level.to_string(),
        };
        table.push_str(&format!("{:<22}{level}\n", control.name()));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(ended_by: EndedBy) -> Event {
        Event::Ended(Ended {
            ended_by,
            limits_reached: vec![],
            usage: Default::default(),
            attempts: vec![],
            changes: None,
            quarantined: vec![],
            unchecked: vec![],
        })
    }

    #[test]
    fn each_end_has_its_exit_code() {
        assert_eq!(exit_code(&ended(EndedBy::Exit(7))), 7);
        assert_eq!(exit_code(&ended(EndedBy::Exit(125))), 125);
        assert_eq!(exit_code(&ended(EndedBy::Signal(11))), 139);
        assert_eq!(exit_code(&ended(EndedBy::WallClock)), 124);
        for killed in [EndedBy::Caller, EndedBy::Memory, EndedBy::Cpu, EndedBy::Disk] {
            assert_eq!(exit_code(&ended(killed)), 137);
        }
        assert_eq!(exit_code(&ended(EndedBy::Stopped(15))), 143);
        let failure = crate::error::failure(FailureKind::Host, "overlay", "no space left");
        let changes = Changes { commit: Committed::Failed(failure), ..Changes::default() };
        let Event::Ended(ended) = ended(EndedBy::Exit(0)) else { unreachable!("it just ended") };
        assert_eq!(exit_code(&Event::Ended(Ended { changes: Some(changes), ..ended })), 125);
        let failed = |kind| Event::Failed(crate::error::failure(kind, "step", "x"));
        assert_eq!(exit_code(&failed(FailureKind::Policy)), 125);
        assert_eq!(exit_code(&failed(FailureKind::Host)), 125);
        assert_eq!(exit_code(&failed(FailureKind::Required)), 125);
        assert_eq!(exit_code(&failed(FailureKind::NotExecutable)), 126);
        assert_eq!(exit_code(&failed(FailureKind::NotFound)), 127);
    }
}
