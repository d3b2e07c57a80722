//! How commands are confined.

use crate::capabilities::probe;
use crate::command::{Command, bytes};
use crate::error::{Error, host, policy};
use crate::locate::Helper;
use crate::outcome::Outcome;
use agentkit_protocol::{
    Access, Bytes, Capabilities, Choice, Control, Failure, FailureKind, GitNames, Level, Limits, Net, Policy,
    ProcFiles, Rule, Watch, WorkDir,
};
use std::ffi::OsStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What [`SandboxBuilder::strict`] insists on.
const STRICT: [Control; 2] = [Control::NetworkBlocked, Control::FilesystemConfined];
const DEFAULT_OUTPUT_CAP: usize = 256 << 10;
const LEAST_OUTPUT_CAP: usize = 1 << 10;

/// A way to confine commands. Cheap to clone; every run is a jail of its own.
#[derive(Clone, Debug)]
pub struct Sandbox {
    host: Arc<Host>,
    /// The policy of every run, but for the command.
    template: Policy,
    output_cap: usize,
}

/// The helper, and what it answered when it was asked what it enforces.
#[derive(Debug)]
struct Host {
    helper: Helper,
    capabilities: OnceLock<Capabilities>,
}

impl Sandbox {
    /// A sandbox with the default limits, a scratch work dir and no requirements, to be changed.
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder {
            helper: Helper::default(),
            template: Policy::new([] as [Bytes; 0]),
            output_cap: DEFAULT_OUTPUT_CAP,
        }
    }

    /// What this host enforces, control by control. Asked once, by setting up a jail; later calls get the same answer,
    /// and so does every variation of this sandbox. Where no jail can be had, [`Capabilities::failure`] says why.
    pub fn capabilities(&self) -> &Capabilities {
        self.host.capabilities.get_or_init(|| probe(&self.host.helper, self.template.mechanism))
    }

    /// The wall-clock limit of every run that sets none of its own.
    pub fn wall(&self) -> Duration {
        Duration::from_millis(self.template.limits.wall_ms)
    }

    /// By a command that does nothing, since the probe makes no group.
    fn try_to_bound_memory(&self) -> Result<(), Error> {
        let limits = self.template.limits.clone();
        let policy =
            Policy { require: [Control::MemoryLimited].into(), limits, ..Policy::new([Bytes::from("true")]) };
        Command::new(&self.host.helper, policy, LEAST_OUTPUT_CAP).run().map(drop)
    }

    /// The same sandbox with other limits.
    pub fn with_limits(&self, limits: Limits) -> Sandbox {
        let template = Policy { limits, ..self.template.clone() };
        Sandbox { template, ..self.clone() }
    }

    /// The same sandbox with other attempts to watch for.
    pub fn with_watch(&self, watch: Watch) -> Sandbox {
        let template = Policy { watch, ..self.template.clone() };
        Sandbox { template, ..self.clone() }
    }

    /// The command `argv`, ready to run. A name without a slash is looked up in `PATH`.
    pub fn command<A: AsRef<OsStr>>(&self, argv: impl IntoIterator<Item = A>) -> Command<'_> {
        let argv = argv.into_iter().map(|argument| bytes(argument.as_ref())).collect();
        Command::new(&self.host.helper, Policy { argv, ..self.template.clone() }, self.output_cap)
    }

    /// `source` as a command, ready to run. Languages: `python` (as `python3 -B /tmp/main.py`) and `sh`.
    ///
    /// # Errors
    /// [`Error::Refused`] for any other language.
    pub fn code(&self, language: &str, source: impl Into<Vec<u8>>) -> Result<Command<'_>, Error> {
        match language {
            "python" => Ok(self.command(["python3", "-B", "/tmp/main.py"]).file("main.py", source)),
            "sh" => Ok(self.command(["sh", "/tmp/main.sh"]).file("main.sh", source)),
            _ => {
                Err(policy("language", format!("no interpreter for {language:?}"), "known: python, sh")
                    .into())
            }
        }
    }

    /// Runs `source` and waits for the end: [`Sandbox::code`] and [`Command::run`].
    pub fn run_code(&self, language: &str, source: impl Into<Vec<u8>>) -> Result<Outcome, Error> {
        self.code(language, source)?.run()
    }

    /// Runs `argv` and waits for the end: [`Sandbox::command`] and [`Command::run`].
    pub fn run<A: AsRef<OsStr>>(&self, argv: impl IntoIterator<Item = A>) -> Result<Outcome, Error> {
        self.command(argv).run()
    }
}

/// Makes a [`Sandbox`].
#[derive(Clone, Debug)]
#[must_use = "call build()"]
pub struct SandboxBuilder {
    helper: Helper,
    template: Policy,
    output_cap: usize,
}

impl SandboxBuilder {
    /// Which program confines the commands.
    pub fn helper(mut self, helper: Helper) -> Self {
        self.helper = helper;
        self
    }

    /// The bounds of every run.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.template.limits = limits;
        self
    }

    /// Where the commands work.
    pub fn workdir(mut self, workdir: WorkDir) -> Self {
        self.template.workdir = workdir;
        self
    }

    /// How one more host path is seen; see [`Policy::rules`].
    pub fn rule(mut self, path: impl AsRef<OsStr>, access: Access) -> Self {
        self.template.rules.push(Rule { path: bytes(path.as_ref()), access });
        self
    }

    /// How much of `/proc` the commands see.
    pub fn proc_files(mut self, proc: ProcFiles) -> Self {
        self.template.proc = proc;
        self
    }

    /// Which network the commands have: a loopback of their own unless told.
    pub fn net(mut self, net: Net) -> Self {
        self.template.net = net;
        self
    }

    /// Whether git's names are protected where the commands can write.
    pub fn git_names(mut self, git: GitNames) -> Self {
        self.template.git = git;
        self
    }

    /// Which mechanism may confine the commands: the best that the host gives, unless told. [`Choice::Rlimits`]
    /// confines no file, and is never taken untold.
    pub fn mechanism(mut self, choice: Choice) -> Self {
        self.template.mechanism = choice;
        self
    }

    /// Attempts whose traces are recorded: [`Ended::attempts`](crate::Ended::attempts).
    pub fn watch(mut self, watch: Watch) -> Self {
        self.template.watch = watch;
        self
    }

    /// A variable of every command's environment. Nothing of the caller's own environment is passed on.
    pub fn env(mut self, name: impl Into<String>, value: impl AsRef<OsStr>) -> Self {
        self.template.env.insert(name.into(), bytes(value.as_ref()));
        self
    }

    /// Whether to refuse where network and files are not fully confined: [`SandboxBuilder::require`] for these two.
    ///
    /// What is shown of the host can hold sockets of host programs, so with [`WorkDir::Bind`] or a rule `ro` or `rw` the
    /// network is only partly blocked, and every run is refused. `build` cannot know: it asks the host, for a run with a
    /// scratch work dir, and what a policy gives up is for the helper to judge, at each run. Through
    /// [`WorkDir::Overlay`] no socket can be reached.
    pub fn strict(self, strict: bool) -> Self {
        if strict { self.require(STRICT) } else { self }
    }

    /// Controls without which nothing may run, on top of those required before. [`SandboxBuilder::build`] refuses where
    /// one of them is less than full for a run with a scratch work dir and no rules, and the helper at every launch where
    /// one is for that run. [`Control::MemoryLimited`] is full in a control group, which is made for runs that require it.
    pub fn require(mut self, controls: impl IntoIterator<Item = Control>) -> Self {
        self.template.require.extend(controls);
        self
    }

    /// How many bytes are kept of each of the two output streams: 256 KiB unless told, never less than 1 KiB. A
    /// stream that is longer is kept as its first and its last half of that.
    pub fn output_cap(mut self, bytes: usize) -> Self {
        self.output_cap = bytes.max(LEAST_OUTPUT_CAP);
        self
    }

    /// The sandbox. The host is only asked what it enforces if something is required.
    ///
    /// # Errors
    /// [`Error::Refused`] with every required control that is less than full, and the reason.
    pub fn build(self) -> Result<Sandbox, Error> {
        let host = Arc::new(Host { helper: self.helper, capabilities: OnceLock::new() });
        let sandbox = Sandbox { host, template: self.template, output_cap: self.output_cap };
        let required = &sandbox.template.require;
        if required.is_empty() {
            return Ok(sandbox);
        }
        // A group that bounds memory is made for whoever requires it, so that only a launch can tell.
        let told = required.iter().copied().filter(|control| *control != Control::MemoryLimited);
        let capabilities = sandbox.capabilities();
        match capabilities.missing(told) {
            missing if !missing.is_empty() => {
                return Err(Error::Refused(requirement_not_met(&missing, capabilities)));
            }
            _ if required.contains(&Control::MemoryLimited) => sandbox.try_to_bound_memory()?,
            _ => {}
        }
        Ok(sandbox)
    }
}

/// Controls that are missing for the same reason share it: where no jail can be had, that is all of them.
fn requirement_not_met(missing: &[(Control, Level)], capabilities: &Capabilities) -> Failure {
    let groups = missing.chunk_by(|(_, one), (_, other)| one == other).map(|group| {
        let controls: Vec<&str> = group.iter().map(|(control, _)| control.name()).collect();
        format!("{}: {}", controls.join(", "), group[0].1)
    });
    // With a lesser mechanism, the reason is that of the better one.
    let better = capabilities.failure.iter().filter(|_| capabilities.mechanism.is_some());
    let reasons: Vec<_> = groups.chain(better.map(ToString::to_string)).collect();
    Failure { kind: FailureKind::Required, ..host("require", reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent() -> SandboxBuilder {
        Sandbox::builder().helper(Helper::Path("/nonexistent/agentkit-jail".into()))
    }

    #[test]
    fn handles_can_go_to_other_threads() {
        fn check<T: Send + Sync>() {}
        check::<Sandbox>();
        check::<SandboxBuilder>();
        check::<Command<'_>>();
        check::<Outcome>();
        check::<Error>();
        check::<crate::Cancel>();
    }

    #[test]
    fn a_missing_helper_is_an_answer_of_its_own() {
        let sandbox = absent().build().expect("nothing is required");
        let failure = sandbox.capabilities().failure.clone().expect("a reason");
        assert_eq!(failure.kind, FailureKind::Host);
        let text = failure.to_string();
        assert!(
            text.contains("/nonexistent/agentkit-jail: No such file") && text.contains("build or install"),
            "{text}"
        );
        assert!(matches!(sandbox.run(["true"]), Err(Error::Unavailable(same)) if same == failure));
    }

    #[test]
    fn strict_refuses_with_every_missing_control_and_its_reason() {
        let Err(Error::Refused(failure)) = absent().strict(true).build() else { panic!("not refused") };
        assert_eq!(failure.kind, FailureKind::Required);
        assert!(
            failure.message.starts_with("network_blocked, filesystem_confined: none: start the helper"),
            "{failure}"
        );
    }

    #[test]
    fn different_reasons_are_told_apart() {
        let levels = [Level::Full, Level::Polled("looks".to_owned()), Level::None("gone".to_owned())];
        let controls =
            [Control::NetworkBlocked, Control::CpuLimited, Control::DiskLimited].into_iter().zip(levels);
        let capabilities = Capabilities { mechanism: None, controls: controls.collect(), failure: None };
        let missing =
            capabilities.missing([Control::NetworkBlocked, Control::CpuLimited, Control::DiskLimited]);
        assert_eq!(
            requirement_not_met(&missing, &capabilities).message,
            "cpu_limited: polled: looks; disk_limited: none: gone"
        );
    }

    #[test]
    fn what_is_required_goes_to_the_helper_too() {
        let builder = absent().strict(true).require([Control::MemoryLimited]);
        assert_eq!(builder.template.require.len(), 3);
        assert!(absent().strict(false).template.require.is_empty());
    }

    #[test]
    fn variations_share_the_answer_of_the_host() {
        let sandbox = absent().build().expect("nothing is required");
        let limits = Limits { wall_ms: 7, ..Limits::default() };
        let other =
            sandbox.with_limits(limits.clone()).with_watch(Watch { tcp_ports: vec![80], ..Watch::default() });
        assert_eq!((&other.template.limits, &other.template.watch.tcp_ports), (&limits, &vec![80]));
        assert!(std::ptr::eq(sandbox.capabilities(), other.capabilities()));
    }

    #[test]
    fn an_unknown_language_is_refused_and_the_known_ones_named() {
        let Err(Error::Refused(failure)) = absent().build().expect("sandbox").run_code("cobol", "") else {
            panic!("not refused")
        };
        assert_eq!(failure.to_string(), "language: no interpreter for \"cobol\" (known: python, sh)");
    }
}
