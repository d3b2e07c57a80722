//! Sends the report and chooses the exit code.

use crate::error::of_each;
use crate::patient::Patient;
use crate::{NAME, exit_code};
use agentkit_protocol::{
    Capabilities, Changes, Committed, Ended, EndedBy, Event, Failure, FailureKind, Limit, Probe, Quarantined,
    Started, frame,
};
use nix::sys::signal::{SigSet, Signal};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

/// Where events go.
pub(crate) enum Reporter {
    /// Frames to a client. It hears what comes until it hangs up: it is bounded itself, and the first frame always fits.
    Client(File),
    /// Failures as one line on standard error and, where the caller wants it, every event as a line of JSON.
    Script(Script),
}

/// See [`Reporter::Script`].
pub(crate) struct Script {
    /// Where the lines go, until one could not be written: what follows half a line is none.
    report: Option<Report>,
    /// Why one could not.
    lost: Option<io::Error>,
    /// What is to be said of the start once there is an end: nobody is to wait for a reader while the command runs.
    notice: Option<String>,
}

enum Report {
    /// Not looked at yet.
    Callers(File),
    /// A file is written at once.
    File(File),
    /// All else may have a reader that does not read.
    Other(Patient),
}

impl Reporter {
    /// Frames to the socket `fd`.
    pub(crate) fn client(fd: OwnedFd) -> Self {
        Reporter::Client(File::from(fd))
    }

    /// Messages on standard error and, if there is a `report`, lines to it.
    pub(crate) fn script(report: Option<File>) -> Self {
        Reporter::Script(Script { report: report.map(Report::Callers), lost: None, notice: None })
    }

    /// Messages on standard error alone.
    pub(crate) fn stderr() -> Self {
        Reporter::script(None)
    }

    /// Sends one event and returns the exit code that goes with it. While the command runs, it waits for nobody.
    ///
    /// A caller that does not listen any more gets no report; that changes nothing about the run.
    pub(crate) fn send(&mut self, event: &Event) -> i32 {
        match self {
            Reporter::Client(socket) => {
                drop(send_frame(socket, event));
                exit_code(event)
            }
            Reporter::Script(script) => script.send(event),
        }
    }
}

impl Script {
    fn send(&mut self, event: &Event) -> i32 {
        let sent = self.send_line(event);
        self.note(sent);
        let code = exit_code(event);
        if let Event::Started(started) = event {
            self.notice = lesser_mechanism(started);
            return code;
        }
        if let Some(Report::Other(patient)) = &mut self.report {
            let finished = patient.finish();
            self.note(finished);
        }
        let mut messages = complaints(event);
        messages.extend(self.notice.take());
        messages.extend(self.lost.iter().map(|error| format!("the report could not be written: {error}")));
        complain(&messages);
        if code == 0 && self.lost.is_some() { exit_code::FAILED } else { code }
    }

    fn send_line(&mut self, event: &Event) -> io::Result<()> {
        let Some(report) = self.report.take() else { return Ok(()) };
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        let mut report = match report {
            Report::Callers(file) if file.metadata()?.is_file() => Report::File(file),
            Report::Callers(file) => match (file.try_clone().and_then(Patient::start), event) {
                (Ok(patient), _) => Report::Other(patient),
                // Where no thread can be had nothing runs, and the one line that says so fits into a pipe.
                (Err(_), Event::Failed(_)) => Report::File(file),
                (Err(error), _) => return Err(error),
            },
            known => known,
        };
        match &mut report {
            Report::Callers(file) | Report::File(file) => file.write_all(&line)?,
            Report::Other(patient) => patient.write(line),
        }
        self.report = Some(report);
        Ok(())
    }

    /// After an error there is no report any more.
    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.report = None;
            self.lost = unless_reader_is_gone(error).err();
        }
    }
}

/// That the jail was not the best there is must not pass unnoticed. What to do about it takes more than a line.
fn lesser_mechanism(started: &Started) -> Option<String> {
    let failures = started.passed_over.iter();
    let failures: Vec<_> =
        failures.map(|it| (it.mechanism, Failure { hint: None, ..it.failure.clone() })).collect();
    let each = of_each(failures.iter().map(|(mechanism, failure)| (*mechanism, failure)));
    let used = started.mechanism;
    (!failures.is_empty()).then(|| {
        format!("ran under {used}, which confines less, since this host refused {each}; --probe says what to do about it")
    })
}

/// Whoever does not read any more misses nothing.
fn unless_reader_is_gone(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
        _ => Err(error),
    }
}

fn send_frame(socket: &mut File, event: &Event) -> io::Result<()> {
    socket.write_all(&frame::encode(event).map_err(io::Error::other)?)
}

/// What a person at a shell has to be told: why nothing ran, that a limit ended it, that its changes or its output did
/// not arrive, and what is not where the command left it.
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
            let unwritten = ended.unwritten.iter().map(|what| format!("output is lost: {what}"));
            let cut = ended.limits_reached.iter().filter(|reached| reached.limit == Limit::Output);
            let cut = cut.map(|reached| format!("output is cut: {}", reached.evidence));
            loss(ended).into_iter().chain(moved).chain(unchecked).chain(unwritten).chain(cut).collect()
        }
        Event::Started(_) | Event::Capabilities(_) => Vec::new(),
    }
}

fn loss(ended: &Ended) -> Option<String> {
    if let Some(Changes { commit: Committed::Failed(failure), .. }) = &ended.changes {
        return Some(failure.to_string());
    }
    let tells = |limit| match limit {
        // The command met them, and if all went well it can do with that.
        Limit::Disk | Limit::Processes => ended.ended_by != EndedBy::Exit(0),
        Limit::Output => false,
        Limit::Wall | Limit::Memory | Limit::Cpu | Limit::FileSize => true,
    };
    let reached = ended.limits_reached.iter().find(|reached| tells(reached.limit))?;
    Some(format!("{} (see {})", reached.evidence, flag_of(reached.limit)))
}

/// By which a person sets it.
fn flag_of(limit: Limit) -> &'static str {
    match limit {
        Limit::Wall => "--wall",
        Limit::Cpu => "--cpu",
        Limit::Memory => "--memory",
        Limit::Disk => "--disk",
        Limit::FileSize => "--file-size",
        Limit::Processes => "--processes",
        Limit::Output => "--output",
    }
}

/// One line each, whatever the policy put into the message. Nothing runs any more, and nobody waits long.
fn complain(messages: &[String]) {
    if messages.is_empty() {
        return;
    }
    let plain = |message: &String| message.replace(char::is_control, " ");
    let text: String = messages.iter().map(|message| format!("{NAME}: {}\n", plain(message))).collect();
    let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    match stderr.and_then(Patient::start) {
        Ok(mut patient) => {
            patient.write(text.into_bytes());
            drop(patient.finish());
        }
        // Where no thread can be had, a person wants to know it all the more.
        Err(_) => drop(io::stderr().write_all(text.as_bytes())),
    }
}

fn exit_code(event: &Event) -> i32 {
    match event {
        Event::Capabilities(_) | Event::Started(_) => 0,
        Event::Ended(Ended { changes: Some(Changes { commit: Committed::Failed(_), .. }), .. }) => {
            exit_code::FAILED
        }
        Event::Ended(Ended { ended_by, unwritten, .. }) => match ended_by {
            EndedBy::Exit(0) if !unwritten.is_empty() => exit_code::FAILED,
            EndedBy::Exit(code) => *code,
            EndedBy::Signal(number) | EndedBy::Stopped(number) => exit_code::SIGNAL.saturating_add(*number),
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

/// Prints an answer to standard output and returns this exit code; a reader that went away is no failure.
pub(crate) fn print(text: &str, code: i32) -> i32 {
    // A file that may not grow is to be an error like any other. Nothing runs after this that could miss the signal.
    let blocked = SigSet::from(Signal::SIGXFSZ).thread_block().map_err(io::Error::from);
    let written =
        blocked.and_then(|()| io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()));
    match written.or_else(unless_reader_is_gone) {
        Err(error) => {
            complain(&[format!("the answer could not be written: {error}")]);
            exit_code::FAILED
        }
        Ok(()) => code,
    }
}

/// Prints the answer to `--probe`.
pub(crate) fn print_capabilities(probe: &Probe, text: fn(&Probe) -> String) -> i32 {
    print(&text(probe), code_of(&probe.best))
}

/// Sends it to a client.
pub(crate) fn send_capabilities(capabilities: Capabilities) -> i32 {
    match crate::platform::client_reporter() {
        Ok(mut reporter) => {
            let code = code_of(&capabilities);
            reporter.send(&Event::Capabilities(capabilities));
            code
        }
        Err(failure) => Reporter::stderr().send(&Event::Failed(failure)),
    }
}

fn code_of(capabilities: &Capabilities) -> i32 {
    if capabilities.mechanism.is_some() { 0 } else { exit_code::FAILED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentkit_protocol::LimitReached;

    fn ended(ended_by: EndedBy) -> Event {
        Event::Ended(Ended {
            ended_by,
            limits_reached: vec![],
            usage: Default::default(),
            attempts: vec![],
            changes: None,
            quarantined: vec![],
            unchecked: vec![],
            unwritten: vec![],
        })
    }

    fn with(change: impl FnOnce(&mut Ended), ended_by: EndedBy) -> Event {
        let Event::Ended(mut ended) = ended(ended_by) else { unreachable!("it just ended") };
        change(&mut ended);
        Event::Ended(ended)
    }

    #[test]
    fn lost_output_is_told_and_no_success() {
        let lost = |ended_by| with(|ended| ended.unwritten = vec!["standard output: why".into()], ended_by);
        assert_eq!(complaints(&lost(EndedBy::Exit(0))), ["output is lost: standard output: why"]);
        assert_eq!([0, 3, 125].map(|code| exit_code(&lost(EndedBy::Exit(code)))), [125, 3, 125]);
        assert_eq!(exit_code(&lost(EndedBy::Signal(13))), 141);
    }

    #[test]
    fn a_limit_is_told_if_it_was_the_end() {
        let told = |limit, ended_by| {
            let reached = LimitReached { limit, evidence: "evidence".to_owned() };
            !complaints(&with(|ended| ended.limits_reached = vec![reached], ended_by)).is_empty()
        };
        assert!(told(Limit::Wall, EndedBy::WallClock) && told(Limit::Disk, EndedBy::Disk));
        assert!(told(Limit::Cpu, EndedBy::Signal(24)) && told(Limit::FileSize, EndedBy::Exit(153)));
        // Those a command can do with, if all went well.
        assert!(told(Limit::Disk, EndedBy::Exit(1)) && told(Limit::Processes, EndedBy::Exit(2)));
        assert!(!told(Limit::Disk, EndedBy::Exit(0)) && !told(Limit::Processes, EndedBy::Exit(0)));
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
        assert_eq!(exit_code(&with(|ended| ended.changes = Some(changes), EndedBy::Exit(0))), 125);
        let failed = |kind| Event::Failed(crate::error::failure(kind, "step", "x"));
        assert_eq!(exit_code(&failed(FailureKind::Policy)), 125);
        assert_eq!(exit_code(&failed(FailureKind::Host)), 125);
        assert_eq!(exit_code(&failed(FailureKind::Required)), 125);
        assert_eq!(exit_code(&failed(FailureKind::NotExecutable)), 126);
        assert_eq!(exit_code(&failed(FailureKind::NotFound)), 127);
    }
}
