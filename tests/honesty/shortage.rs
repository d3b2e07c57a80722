//! Hosts and launchers that have too little of something: descriptors, memory, processes, room. Whatever step of a launch
//! it is that misses it, either the run is the one that it would have been, or the code is 125 and the message says why.

use crate::jail::desk::{Desk, json};
use crate::jail::stage::helper;
use crate::support::outside::Snapshot;
use crate::support::{Stop, need::need};
use agentkit_protocol::{Bytes, Capabilities, Choice, Commit, Control, Event, Policy, Probe, WorkDir};
use serde::Deserialize;
use serde_json::json as object;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// Answers every call of one name and number of times with an errno, and all others as the kernel does.
const DRIVER: &str = include_str!("../support/shortage.py");
/// Set to anything: every single call of a launch fails once, and not only the first and the last of each name.
const ALL: &str = "AGENTKIT_SHORTAGE_ALL";

const EAGAIN: u32 = 11;
const ENOMEM: u32 = 12;
const EMFILE: u32 = 24;
const ENOSPC: u32 = 28;
const ENOBUFS: u32 = 105;

/// The calls of a launch, as strace(1) shows them, that can miss something, with what the manual says they then answer.
/// Left out are those that give something back (`close`, `munmap`, `wait4`) and those that need nothing.
const CALLS: [(u32, &str); 5] = [
    (
        EMFILE,
        "openat openat2 open_tree socket socketpair pipe2 dup dup2 dup3 fcntl signalfd4 inotify_init1 pidfd_open fsopen \
         landlock_create_ruleset",
    ),
    (
        ENOMEM,
        "mount move_mount mount_setattr umount2 pivot_root unshare setns prctl seccomp landlock_add_rule \
         landlock_restrict_self keyctl setgroups getdents64 newfstatat statx statfs fstatfs readlink readlinkat poll mmap \
         mprotect prlimit64 capget capset chdir sethostname madvise recvfrom recvmsg close_range ioctl setpgid setsid",
    ),
    (EAGAIN, "clone clone3 fork vfork setresuid setresgid"),
    (ENOSPC, "write mkdir mkdirat symlink symlinkat mknodat"),
    (ENOBUFS, "sendto sendmsg bind"),
];

/// What the command sees of its jail, in words that are the same each time.
const LOOK: &str = "while read line; do case $line in Uid*|Gid*|Groups*|Sig*|Cap*|NoNew*|Seccomp:*) echo $line; esac; done \
    < /proc/self/status; ulimit -c; export -p; umask; pwd; echo /* /etc/* /dev/* /tmp/* ./*; \
    for fd in /proc/self/fd/*; do echo $fd; done; \
    while read id up device root point flags rest; do echo $root $point $flags; done < /proc/self/mountinfo; echo x > ran";

/// How a launch came out.
#[derive(Debug, Deserialize)]
struct Outcome {
    /// The call that was to fail, or the limit.
    call: String,
    /// Which of them, or how much.
    #[expect(dead_code, reason = "for who reads why a test failed")]
    nth: u64,
    /// Whether that call came, and failed.
    failed: bool,
    hung: bool,
    code: i32,
    stdout: String,
    stderr: String,
    report: String,
}

impl Outcome {
    fn events(&self) -> Result<Vec<Event>, Stop> {
        Ok(self.report.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    fn claims(&self) -> Result<Option<Capabilities>, Stop> {
        Ok(self.events()?.into_iter().find_map(|event| match event {
            Event::Started(started) => Some(started.capabilities),
            _ => None,
        }))
    }

    /// Before the first line of the helper's own: what the C library's loader says, or does not get to.
    fn is_the_loaders(&self) -> bool {
        let is_said =
            ["loading shared libraries", "cannot allocate TLS"].iter().any(|it| self.stderr.contains(it));
        self.report.is_empty()
            && self.stdout.is_empty()
            && match self.code {
                127 => is_said,
                // As a signal, or as the shell says it.
                code => self.stderr.is_empty() && [-11, -9, 139, 137, 126].contains(&code),
            }
    }

    /// The C library ends a process that has no memory left to keep a thread's destructor in, and asks nobody. Nothing has
    /// been started by then.
    fn is_the_c_librarys(&self) -> Result<bool, Stop> {
        let is_ended = self.stderr.contains("Fatal glibc error") && [-6, 134].contains(&self.code);
        Ok(is_ended && self.stdout.is_empty() && self.claims()?.is_none())
    }

    /// Only the helper speaks, a line for each thing.
    fn is_refused(&self) -> bool {
        self.code == 125
            && self.stdout.is_empty()
            && !self.stderr.is_empty()
            && self
                .stderr
                .lines()
                .all(|line| line.starts_with("agentkit-jail: ") && line.split(": ").count() > 2)
    }

    /// The command had the same jail as ever, as far as it got and could say so, and whoever launched it knows how far.
    fn is_the_run(&self, whole: &Outcome) -> Result<bool, Stop> {
        let is_full = |claims: &Option<Capabilities>, control| {
            claims.as_ref().is_some_and(|claims| claims.level(control).is_full())
        };
        let (claims, usual) = (self.claims()?, whole.claims()?);
        let claims_more =
            Control::ALL.iter().any(|control| is_full(&claims, *control) && !is_full(&usual, *control));
        let says_less =
            ["output is lost", "the report could not be written", "the command may have run", "overlay: "]
                .iter()
                .any(|it| self.stderr.contains(it));
        let is_same = claims.is_some() && self.stdout == whole.stdout && self.code == whole.code;
        let is_part = says_less && whole.stdout.starts_with(&self.stdout) && self.code != 0;
        Ok(!claims_more && (is_same || is_part))
    }

    fn must_be_honest(&self, whole: &Outcome) -> Result<(), Stop> {
        assert!(!self.hung, "{self:?}");
        assert!(self.is_refused() || self.is_the_c_librarys()? || self.is_the_run(whole)?, "{self:?}");
        Ok(())
    }
}

fn policy(desk: &Desk) -> Policy {
    let workdir = WorkDir::Overlay { path: desk.path("work").into(), commit: Commit::Never };
    Policy { workdir, ..Policy::new(["sh", "-c", LOOK]) }
}

fn drive(request: &serde_json::Value) -> Result<Vec<Outcome>, Stop> {
    let mut driver = Command::new("python3");
    driver.args(["-c", DRIVER]).env("PATH", "/usr/bin:/bin").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut driver = driver.spawn()?;
    driver.stdin.take().map(|mut stdin| stdin.write_all(request.to_string().as_bytes())).transpose()?;
    let output = driver.wait_with_output()?;
    assert!(output.status.success(), "{output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// A launch with nothing failing, and those with something.
fn launches(
    desk: &Desk,
    errors: serde_json::Value,
    limits: serde_json::Value,
) -> Result<(Outcome, Vec<Outcome>), Stop> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Stop::Skip("needs the call numbers of x86_64".into()));
    }
    let mut outcomes = drive(&object!({
        "argv": [helper(), "--report-fd", "3"],
        "stdin": String::from_utf8_lossy(&json(&policy(desk))?),
        "directory": desk.path("work"),
        "name": "agentkit-jail",
        "errors": errors,
        "limits": limits,
        "all": std::env::var_os(ALL).is_some(),
    }))?
    .into_iter();
    let whole = outcomes.next().ok_or_else(|| Stop::Fail("nothing was driven".into()))?;
    assert!(
        whole.code == 0 && whole.stdout.contains("\nSeccomp: 2\n") && whole.claims()?.is_some(),
        "{whole:?}"
    );
    Ok((whole, outcomes.collect()))
}

/// Every name in [`CALLS`] that a launch has fails where it is made first, and where it is made last.
pub(crate) fn a_call_that_fails_for_lack_of_something() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let before = Snapshot::take(&[&desk.path("work")])?;
    let errors = CALLS
        .iter()
        .flat_map(|(errno, names)| names.split(' ').map(move |name| (name.to_owned(), object!(errno))));
    let (whole, failing) = launches(&desk, serde_json::Value::Object(errors.collect()), object!({}))?;
    for outcome in failing.iter().filter(|outcome| !outcome.is_the_loaders()) {
        outcome.must_be_honest(&whole)?;
    }
    // Timing decides whether the last of a name comes, and what a launch has no need to ask for is not asked: some 80 are.
    let failed = failing.iter().filter(|outcome| outcome.failed).count();
    let refused = failing.iter().filter(|outcome| outcome.is_refused()).count();
    assert!(failed > 60 && refused > 50, "{refused} of {failed} of {}", failing.len());
    assert_eq!(before.added()?, Vec::<String>::new());
    Ok(())
}

/// From less than the loader needs up to enough.
pub(crate) fn launchers_with_less_than_a_launch_needs() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let before = Snapshot::take(&[&desk.path("work")])?;
    let limits = object!({
        "RLIMIT_NOFILE": (3..32).chain([64, 128, 512]).collect::<Vec<u64>>(),
        "RLIMIT_AS": (4..24).map(|at| at << 19).collect::<Vec<u64>>(),
        "RLIMIT_DATA": (1..12).map(|at| at << 17).collect::<Vec<u64>>(),
        "RLIMIT_NPROC": (0..8).collect::<Vec<u64>>(),
        "RLIMIT_STACK": (3..9).map(|power| 8192 << power).collect::<Vec<u64>>(),
    });
    let (whole, outcomes) = launches(&desk, object!({}), limits)?;
    assert!(outcomes.iter().filter(|outcome| outcome.is_refused()).count() > 5, "{outcomes:?}");
    let small_stack = outcomes.iter().find(|outcome| outcome.call == "RLIMIT_STACK");
    assert!(
        small_stack.is_some_and(|it| it.is_refused() && it.stderr.contains("ulimit -s")),
        "{small_stack:?}"
    );
    for same_limit in outcomes.chunk_by(|one, next| one.call == next.call) {
        // With more than what brought the helper to its first line nothing is lost before that.
        let first = same_limit.iter().position(|outcome| !outcome.is_the_loaders()).unwrap_or_default();
        for outcome in &same_limit[first..] {
            outcome.must_be_honest(&whole)?;
        }
        // Nobody else's processes count where root becomes an id that is nobody's, and elsewhere there may be many.
        let enough = same_limit.last().filter(|outcome| outcome.call != "RLIMIT_NPROC");
        assert!(enough.is_none_or(|outcome| outcome.code == 0), "{enough:?}");
    }
    assert_eq!(before.added()?, Vec::<String>::new());
    Ok(())
}

/// With what `ulimit -n` allows, a run gets the mechanism that it would have had anyway or fails, and so does a probe.
pub(crate) fn few_descriptors_lead_to_no_lesser_mechanism() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy =
        json(&Policy { env: BTreeMap::from([path()]), ..Policy::new(["/bin/sh", "-c", "echo ran"]) })?;
    let best = |before: &[String]| -> Result<Capabilities, Stop> {
        Ok(serde_json::from_slice::<Probe>(&desk.call_under(before, &["--probe", "--json"], b"")?.stdout)?
            .best)
    };
    let usual = best(&[])?.mechanism;
    let (mut refused, mut ran) = (0, 0);
    for files in [7, 12, 18, 22, 23, 24, 25, 26, 28, 32, 48, 80] {
        // Root in a container has not the capability either that would raise it.
        let lower = format!("ulimit -n {files}; exec \"$@\"");
        let unable = need("root")
            .map_or(&[][..], |()| &["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"]);
        let before = [&["env", "PATH=/usr/bin:/bin"], unable, &["sh", "-c", &lower, "sh"]].concat();
        let before: Vec<_> = before.into_iter().map(str::to_owned).collect();
        let run = desk.call_under(&before, &[], &policy)?;
        let (said, told) = (String::from_utf8_lossy(&run.stderr).into_owned(), best(&before)?);
        if run.status.code() == Some(0) {
            // A lesser one would be told.
            assert_eq!((&run.stdout[..], &*said, told.mechanism), (&b"ran\n"[..], "", usual), "{files}");
            ran += 1;
        } else {
            assert_eq!(
                (run.status.code(), run.stdout.len(), told.mechanism),
                (Some(125), 0, None),
                "{files}: {run:?}"
            );
            let hint = told.failure.and_then(|failure| failure.hint).unwrap_or_default();
            assert!(said.contains("ulimit -n") && hint.contains("ulimit -n"), "{files}: {said}");
            assert!(!said.contains("may have run"), "{files}: {said}");
            refused += 1;
        }
    }
    assert!(refused > 3 && ran > 3, "{refused} {ran}");
    Ok(())
}

/// Where nothing of an installation in a home is shown for it.
fn path() -> (String, Bytes) {
    ("PATH".to_owned(), "/usr/bin:/bin".into())
}

/// What the helper writes into the jail's own files counts too.
pub(crate) fn a_launcher_that_may_write_no_file() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let before = ["prlimit", "--fsize=10", "--"].map(str::to_owned);
    let output =
        desk.call_under(&before, &[], &json(&Policy { mechanism: Choice::Namespaces, ..desk.tracer() })?)?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len(), desk.ran()), (Some(125), 0, false), "{output:?}");
    assert!(
        message.starts_with("agentkit-jail: mounts: ") && message.contains("File too large"),
        "{message}"
    );
    Ok(())
}

/// Neither room nor an inode is left to put anything into: what git would execute gets another name where it is.
pub(crate) fn a_work_dir_that_the_command_fills() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let fill = "mkdir -p new/.git/hooks; echo x > new/.git/hooks/post-checkout; at=0; \
                while mkdir $at; do at=$((at + 1)); done 2> /dev/null; exit 7";
    let show = "mount -t tmpfs -o size=64k,nr_inodes=20,mode=777 none . && cd \"$PWD\" && \"$@\"; code=$?; \
                ls -dA .git new/.git new/.agentkit-quarantined-*; exit $code";
    let own_user = if need("root").is_ok() { "" } else { "--user --map-root-user" };
    let script = format!("exec unshare {own_user} --mount sh -c '{show}' sh \"$@\"");
    let before = ["sh", "-c", &script, "sh"].map(str::to_owned);
    let output = desk.call_under(&before, &[], &json(&desk.policy(fill))?)?;
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*shown), (Some(7), "new/.agentkit-quarantined-0-git\n"), "{output:?}");
    assert!(said.contains("agentkit-jail: moved aside, "), "{said}");
    Ok(())
}
