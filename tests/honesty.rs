//! What `agentkit-jail` claims on hosts that cannot give it everything. Such hosts are imitated: by a filter that
//! forbids some system calls, by namespaces in which something is switched off.

#[path = "honesty/bubblewrap.rs"]
mod bubblewrap;
mod jail;
#[path = "honesty/landlock.rs"]
mod landlock;
#[path = "honesty/leftovers.rs"]
mod leftovers;
#[cfg(target_os = "linux")]
#[path = "honesty/matrix/mod.rs"]
mod matrix;
#[path = "honesty/rlimits.rs"]
mod rlimits;
#[path = "honesty/shortage.rs"]
mod shortage;
mod support;
#[path = "honesty/unanswered.rs"]
mod unanswered;

use agentkit_protocol::{
    Capabilities, Choice, Control, Event, Failure, FailureKind, Level, Mechanism, Policy, Probe, Watch,
    WorkDir,
};
use jail::desk::{Desk, json};
use jail::stage::{Stage, helper};
use libtest_mimic::Trial;
use std::os::unix::fs::PermissionsExt;
use std::process::{ExitCode, Output};
use std::sync::{PoisonError, RwLock};
use support::seccomp::{self, ENOSYS, EPERM};
use support::{Stop, need::need};

const EBUSY: u32 = 16;
const EINVAL: u32 = 22;
const ENOSPC: i32 = 28;

/// A test by its name.
type Named = (&'static str, fn() -> Result<(), Stop>);

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(request) = matrix::judge::asked() {
        return matrix::judge::main(&request);
    }
    let tests = || {
        let mut trials = vec![
            trial("no_part_can_be_left_out_of_this_build", no_part_can_be_left_out_of_this_build),
            trial("a_host_that_forbids_namespaces", a_host_that_forbids_namespaces),
            trial("a_host_that_lacks_clone3", a_host_that_lacks_clone3),
            trial(
                "nobody_waits_for_a_file_system_that_does_not_answer",
                unanswered::nobody_waits_for_a_file_system_that_does_not_answer,
            ),
            trial(
                "a_host_that_takes_privileges_from_namespaces",
                a_host_that_takes_privileges_from_namespaces,
            ),
            trial("a_host_that_lacks_one_call_of_many", a_host_that_lacks_one_call_of_many),
            trial("a_host_that_cannot_show_its_directories", a_host_that_cannot_show_its_directories),
            trial("a_host_that_listens_already", a_host_that_listens_already),
            trial("a_host_without_landlock", a_host_without_landlock),
            trial("a_host_whose_landlock_does_nothing", a_host_whose_landlock_does_nothing),
            trial("a_host_with_no_namespaces_left", a_host_with_no_namespaces_left),
            trial("a_launcher_whose_uid_is_not_what_it_seems", a_launcher_whose_uid_is_not_what_it_seems),
            trial("a_host_that_covers_a_part_of_proc", a_host_that_covers_a_part_of_proc),
            trial("a_caller_in_a_chroot", a_caller_in_a_chroot),
            trial("a_probe_claims_what_a_run_reads_back", a_probe_claims_what_a_run_reads_back),
            trial("a_probe_sees_what_path_leads_to", a_probe_sees_what_path_leads_to),
            trial("a_work_dir_of_the_host_is_no_full_limit", a_work_dir_of_the_host_is_no_full_limit),
            trial("a_requirement_that_is_not_full_is_refused", a_requirement_that_is_not_full_is_refused),
            trial("required_memory_is_the_kernels_or_refused", required_memory_is_the_kernels_or_refused),
            trial("requirements_that_are_full_are_met", requirements_that_are_full_are_met),
            trial(
                "a_call_that_fails_for_lack_of_something",
                shortage::a_call_that_fails_for_lack_of_something,
            ),
            trial(
                "launchers_with_less_than_a_launch_needs",
                shortage::launchers_with_less_than_a_launch_needs,
            ),
            trial(
                "few_descriptors_lead_to_no_lesser_mechanism",
                shortage::few_descriptors_lead_to_no_lesser_mechanism,
            ),
            trial("a_launcher_that_may_write_no_file", shortage::a_launcher_that_may_write_no_file),
            trial("a_work_dir_that_the_command_fills", shortage::a_work_dir_that_the_command_fills),
        ];
        trials
            .extend(bubblewrap::TESTS.iter().map(|(name, test)| trial(&format!("bubblewrap::{name}"), test)));
        trials.extend(landlock::TESTS.iter().map(|(name, test)| trial(&format!("landlock::{name}"), test)));
        trials.extend(rlimits::TESTS.iter().map(|(name, test)| trial(&format!("rlimits::{name}"), test)));
        trials.extend(landlock::STORMS.iter().map(|(name, test)| alone(&format!("landlock::{name}"), test)));
        #[cfg(target_os = "linux")]
        trials.extend(matrix::trials());
        #[cfg(not(target_os = "linux"))]
        trials.push(trial("matrix", || Err(Stop::Skip("the attacks are for Linux alone".into()))));
        support::run(trials)
    };
    Stage::run(tests)
}

/// Without a user namespace the kernel counts all processes of the user, also those of another test's storm of them.
static PROCESSES: RwLock<()> = RwLock::new(());

fn trial(name: &str, test: impl FnOnce() -> Result<(), Stop> + Send + 'static) -> Trial {
    support::trial(name, move || {
        let _shared = PROCESSES.read().unwrap_or_else(PoisonError::into_inner);
        test()
    })
}

fn alone(name: &str, test: impl FnOnce() -> Result<(), Stop> + Send + 'static) -> Trial {
    support::trial(name, move || {
        let _alone = PROCESSES.write().unwrap_or_else(PoisonError::into_inner);
        test()
    })
}

/// A host that cannot have namespaces must say so: nothing is claimed of them, the reason names a step and the errno, and
/// nothing runs under them. Returns step and message.
fn is_honest(before: &[String], errno: i32) -> Result<(String, String), Stop> {
    let desk = Desk::new()?;
    let probe = desk.call_under(before, &["--probe", "--json"], b"")?;
    let failure = no_namespaces(&probe)?;
    assert_eq!((failure.kind, failure.errno), (FailureKind::Host, Some(errno)), "{failure:?}");
    let table = desk.call_under(before, &["--probe"], b"")?;
    assert_eq!(table.status.code(), probe.status.code());
    let step = if failure.step == "namespaces" { String::new() } else { format!("{}: ", failure.step) };
    let says = format!("namespaces does not work here: {step}{}", failure.message);
    assert!(text(&table).contains(&says), "{}", text(&table));
    falls_back_in_the_open(&desk, before, &probe)?;
    let only = Policy { mechanism: Choice::Namespaces, ..desk.tracer() };
    let run = desk.call_under(before, &[], &json(&only)?)?;
    let message = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!((run.status.code(), run.stdout.len(), desk.ran()), (Some(125), 0, false), "{run:?}");
    // With a work dir a run may need the forbidden call earlier than a probe, in another step.
    let hint = failure.hint.clone().unwrap_or_default();
    assert!(message.starts_with("agentkit-jail: ") && message.contains(&hint), "{message}");
    Ok((failure.step, format!("{} {}", failure.message, failure.hint.unwrap_or_default())))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Nothing is claimed of namespaces, and another mechanism is only said to work if it does. Returns why they do not.
fn no_namespaces(probe: &Output) -> Result<Failure, Stop> {
    let answer: Probe = serde_json::from_slice(&probe.stdout)?;
    let expected = if answer.best.mechanism.is_some() { 0 } else { 125 };
    assert_eq!(probe.status.code(), Some(expected), "{probe:?}");
    let capabilities = &answer.each[&Mechanism::Namespaces];
    assert_eq!((capabilities.mechanism, capabilities.controls.len()), (None, Control::ALL.len()));
    assert!(capabilities.controls.values().all(|level| matches!(level, Level::None(_))), "{capabilities:?}");
    capabilities.failure.clone().ok_or_else(|| Stop::Fail("there is no reason".into()))
}

/// What takes over is told on standard error and in the report, and no requirement is met by it that it does not meet.
/// Where nothing can, nothing runs, and the reasons of all are given.
fn falls_back_in_the_open(desk: &Desk, before: &[String], probe: &Output) -> Result<(), Stop> {
    let answer: Probe = serde_json::from_slice(&probe.stdout)?;
    let scratch = Policy::new(["/bin/sh", "-c", "echo ran"]);
    // To a file, since some of these hosts give a program no thread that could write to a pipe.
    let report = desk.path("report");
    let reporting = ["sh", "-c", "exec 3>\"$0\"; exec \"$@\"", &report.to_string_lossy()].map(str::to_owned);
    let before = [&reporting[..], before].concat();
    let run = desk.call_under(&before, &["--report-fd", "3"], &json(&scratch)?)?;
    let events = std::fs::read_to_string(&report)?;
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.lines().count() == 1 && said.contains("namespaces"), "{said}");
    let strict = Policy { require: [Control::FilesystemConfined].into(), ..scratch.clone() };
    let refused = desk.call_under(&before, &["--report-fd", "3"], &json(&strict)?)?;
    let mechanism = answer.best.mechanism;
    if mechanism != Some(Mechanism::Bubblewrap) {
        assert!(refused.status.code() == Some(125) && !text(&refused).contains("ran\n"), "{refused:?}");
    }
    let Some(mechanism) = mechanism else {
        assert!(run.status.code() == Some(125) && said.contains("landlock: "), "{run:?}");
        return Ok(());
    };
    let says = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(says.contains("namespaces"), "{says}");
    let is_refused = refused.status.code() == Some(125);
    assert_eq!(is_refused, says.contains("filesystem_confined is required"), "{says}");
    assert!(run.status.success() && text(&run).contains("ran\n"), "{run:?}");
    let started = events.lines().find_map(|line| match serde_json::from_str(line) {
        Ok(Event::Started(started)) => Some(started),
        _ => None,
    });
    let started = started.ok_or_else(|| Stop::Fail(format!("no report: {run:?}")))?;
    assert!(started.mechanism == mechanism && mechanism != Mechanism::Namespaces, "{mechanism}");
    assert_eq!(started.capabilities, answer.each[&mechanism]);
    assert_eq!(started.passed_over[0].failure.kind, FailureKind::Host);
    Ok(())
}

/// Only a build for `tests/mutants` knows the variable.
fn no_part_can_be_left_out_of_this_build() -> Result<(), Stop> {
    let program = std::fs::read(helper())?;
    let known = |name: &[u8]| program.windows(name.len()).any(|window| window == name);
    assert!(known(b"agentkit-jail") && !known(b"AGENTKIT_JAIL_WITHOUT"));
    Ok(())
}

fn a_host_that_forbids_namespaces() -> Result<(), Stop> {
    let before = seccomp::preloader(&[("clone3", EPERM), ("clone", EPERM), ("unshare", EPERM)]);
    let (step, message) = is_honest(&before, 1)?;
    assert_eq!(step, "namespaces");
    assert!(message.contains("clone3") && message.contains("user.max_user_namespaces"), "{message}");
    Ok(())
}

/// As containers do, whose filters cannot look at its flags.
fn a_host_that_lacks_clone3() -> Result<(), Stop> {
    let (step, message) = is_honest(&seccomp::without_user_namespaces(), 38)?;
    assert!(step == "namespaces" && message.contains("clone3"), "{step}: {message}");
    Ok(())
}

/// The namespace is made, and the first thing that needs a privilege in it is refused, as by AppArmor on Ubuntu.
fn a_host_that_takes_privileges_from_namespaces() -> Result<(), Stop> {
    let (step, message) = is_honest(&seccomp::preloader(&[("mount", EPERM)]), 1)?;
    assert!(
        step == "mounts" && message.contains("mount") && message.contains("AppArmor"),
        "{step}: {message}"
    );
    Ok(())
}

/// With the report on standard output.
fn reporting() -> [String; 4] {
    ["sh", "-c", "exec \"$@\" 3>&1", "-"].map(str::to_owned)
}

/// It is a second wall, and where it is missing the report says so.
fn a_host_without_landlock() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let before = [&reporting()[..], &seccomp::preloader(&[("landlock_create_ruleset", ENOSYS)])].concat();
    let run = desk.call_under(&before, &["--report-fd", "3"], &json(&desk.tracer())?)?;
    assert!(run.status.success() && text(&run).contains(r#""landlock":false"#) && desk.ran(), "{run:?}");
    Ok(())
}

/// What is claimed was tried.
fn a_host_whose_landlock_does_nothing() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let run = desk.call_under(&reporting(), &["--report-fd", "3"], &json(&desk.tracer())?)?;
    if !text(&run).contains(r#""landlock":true"#) {
        return Err(Stop::Skip("this kernel has no Landlock".into()));
    }
    let desk = Desk::new()?;
    let says_done = seccomp::preloader(&[("landlock_restrict_self", 0)]);
    for mechanism in [Choice::Auto, Choice::Namespaces, Choice::Bubblewrap] {
        let run = desk.call_under(&says_done, &[], &json(&Policy { mechanism, ..desk.tracer() })?)?;
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!((run.status.code(), desk.ran()), (Some(125), false), "{run:?}");
        let tried = message.contains("landlock: ") && message.contains("could still be made");
        assert!(tried || mechanism == Choice::Bubblewrap && message.contains("bubblewrap: "), "{message}");
    }
    // What would take over tries it, too.
    let alone = Policy { mechanism: Choice::Landlock, ..Policy::new(["true"]) };
    let run = desk.call_under(&says_done, &[], &json(&alone)?)?;
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.code() == Some(125) && message.contains("filesystem_confined is none"), "{run:?}");
    Ok(())
}

/// Whichever it is, the answer names it.
fn a_host_that_lacks_one_call_of_many() -> Result<(), Stop> {
    for (call, errno) in
        [("pivot_root", EINVAL), ("mount_setattr", ENOSYS), ("umount2", EPERM), ("seccomp", EINVAL)]
    {
        let (step, message) = is_honest(&seccomp::preloader(&[(call, errno)]), errno.cast_signed())?;
        let named = format!("{step} {message}");
        assert!(named.contains(call), "{call}: {named}");
    }
    Ok(())
}

/// Calls that only host directories need.
fn a_host_that_cannot_show_its_directories() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for (call, errno) in [("open_tree", ENOSYS), ("move_mount", EPERM)] {
        let lacking = seccomp::preloader(&[(call, errno)]);
        assert_eq!(desk.call_under(&lacking, &["--probe"], b"")?.status.code(), Some(0), "{call}");
        let only = Policy { mechanism: Choice::Namespaces, ..desk.tracer() };
        let run = desk.call_under(&lacking, &[], &json(&only)?)?;
        assert_eq!((run.status.code(), run.stdout.len(), desk.ran()), (Some(125), 0, false), "{run:?}");
        assert!(String::from_utf8_lossy(&run.stderr).contains(call), "{run:?}");
    }
    Ok(())
}

fn words(script: &str) -> Vec<String> {
    ["sh", "-c", script, "sh"].map(str::to_owned).to_vec()
}

fn a_host_with_no_namespaces_left() -> Result<(), Stop> {
    let before = "exec unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; exec \"$@\"' sh \"$@\"";
    let desk = Desk::new()?;
    let probe = desk.call_under(&words(before), &["--probe", "--json"], b"")?;
    let failure = no_namespaces(&probe)?;
    // Root has lost its other uids in there, which it notices first.
    let expected = [("namespaces", Some(ENOSPC)), ("identity", None)];
    assert!(expected.contains(&(&failure.step, failure.errno)), "{failure:?}");
    let only = Policy { mechanism: Choice::Namespaces, ..desk.tracer() };
    let run = desk.call_under(&words(before), &[], &json(&only)?)?;
    assert_eq!((run.status.code(), desk.ran()), (Some(125), false));
    if failure.step == "namespaces" {
        falls_back_in_the_open(&desk, &words(before), &probe)?;
    }
    Ok(())
}

/// Numbers prove nothing in a user namespace of the launcher's own: 1000 can be root to the kernel, for whom the process
/// limit does not exist, and 0 an ordinary user.
fn a_launcher_whose_uid_is_not_what_it_seems() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let as_uid = |uid: u32| words(&format!("exec unshare --user --map-user={uid} --map-group={uid} \"$@\""));
    let root = need("root").is_ok();
    for uid in [0, 5, 1000] {
        let run = desk.call_under(&as_uid(uid), &[], &json(&desk.tracer())?)?;
        let expected = if root { (Some(125), false) } else { (Some(0), true) };
        assert_eq!((run.status.code(), desk.ran()), expected, "as {uid}: {run:?}");
    }
    Ok(())
}

fn a_host_that_covers_a_part_of_proc() -> Result<(), Stop> {
    need("root")?;
    for cover in ["mount --bind /dev/null /proc/cmdline", "mount -t tmpfs none /proc/sys"] {
        let before = format!("exec unshare --mount sh -c '{cover}; exec \"$@\"' sh \"$@\"");
        let (step, message) = is_honest(&words(&before), 1)?;
        assert!(
            step == "mounts" && message.contains("/proc") && message.contains("container"),
            "{step}: {message}"
        );
    }
    Ok(())
}

fn a_caller_in_a_chroot() -> Result<(), Stop> {
    need("root")?;
    let before = "exec unshare --mount sh -c 'mount --rbind / /mnt; exec chroot /mnt \"$@\"' sh \"$@\"";
    let (step, message) = is_honest(&words(before), 1)?;
    assert!(step == "namespaces" && message.contains("clone3"), "{step}: {message}");
    Ok(())
}

fn probe(desk: &Desk) -> Result<Capabilities, Stop> {
    Ok(serde_json::from_slice(&desk.call(&["--probe", "--json"], b"")?.stdout)?)
}

fn a_probe_claims_what_a_run_reads_back() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let started = desk.launch(&Policy::new(["true"]))?.started()?;
    assert_eq!(started.capabilities, probe(&desk)?);
    assert_eq!(started.helper.0, helper().as_os_str().as_encoded_bytes());
    let state = started.read_back;
    assert_eq!((state.no_new_privs, state.seccomp_mode, state.capabilities), (true, 2, 0));
    assert_eq!(state.own_namespaces, ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]);
    assert!(state.uid != 0 && state.outer_uid != 0, "{state:?}");
    Ok(())
}

/// An installation that root cannot show for want of a capability decides about the mechanism, and so a probe must try it.
fn a_probe_sees_what_path_leads_to() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    let closed = desk.path("closed");
    for part in ["bin", "lib/node_modules"] {
        std::fs::create_dir_all(closed.join(part))?;
    }
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700))?;
    let as_root = format!("exec 3>&1; PATH={}/bin:/usr/bin:/bin; exec \"$@\"", closed.display());
    let as_in_a_container =
        as_root.replace("exec \"$@", "exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"$@");
    for before in [as_root, as_in_a_container] {
        let before = ["sh", "-c", &before, "sh"].map(str::to_owned);
        let probe: Probe =
            serde_json::from_slice(&desk.call_under(&before, &["--probe", "--json"], b"")?.stdout)?;
        let run = desk.call_under(&before, &["--report-fd", "3", "true"], b"")?;
        let started = text(&run).lines().find_map(|line| match serde_json::from_str(line) {
            Ok(Event::Started(started)) => Some(started),
            _ => None,
        });
        let started = started.ok_or_else(|| Stop::Fail(format!("no report: {run:?}")))?;
        assert_eq!(Some(started.mechanism), probe.best.mechanism, "{run:?}");
        assert_eq!(started.capabilities, probe.each[&started.mechanism]);
    }
    Ok(())
}

/// The kernel allows one listener. Nobody is asked then, and what would be is refused.
fn a_host_that_listens_already() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mut around = ["sh", "-c", "exec \"$@\" 3>report", "sh"].map(str::to_owned).to_vec();
    around.extend(seccomp::preloader(&[("listener", EBUSY)]));
    let launch = |policy: &Policy| -> Result<(Output, Vec<Event>), Stop> {
        let output = desk.call_under(&around, &["--report-fd", "3"], &json(policy)?)?;
        let report = std::fs::read(desk.path("work/report"))?;
        let events = serde_json::Deserializer::from_slice(&report).into_iter();
        Ok((output, events.collect::<Result<_, _>>()?))
    };
    let script = "mkdir -p d && chmod 2755 d && echo group of a directory; : >f; chmod 2755 f && echo group; \
                  chmod 600 f && echo mode; touch f && echo times";
    for (mechanism, said) in [
        (Choice::Namespaces, "mode\ntimes\n"),
        (Choice::Bubblewrap, "mode\ntimes\n"),
        (Choice::Landlock, ""),
        (Choice::Rlimits, ""),
    ] {
        let bound = Policy { mechanism, ..desk.policy(script) };
        let (output, events) = launch(&bound)?;
        match &events[..] {
            [Event::Started(started), _] => assert!(started.read_back.attributes_refused, "{started:?}"),
            // A host without bubblewrap, for instance.
            [Event::Failed(failure)] if failure.step != "exec" => continue,
            other => panic!("{mechanism:?}: {other:?} {output:?}"),
        }
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{mechanism:?}: {output:?}");
    }
    let watched = Policy { watch: Watch { forks: true, ..Watch::default() }, ..desk.policy(script) };
    let (output, events) = launch(&watched)?;
    let [Event::Failed(failure)] = &events[..] else { panic!("{events:?} {output:?}") };
    assert!(failure.kind == FailureKind::Host && failure.to_string().contains("watch.forks"), "{failure}");
    Ok(())
}

fn a_work_dir_of_the_host_is_no_full_limit() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let level = |workdir: WorkDir| -> Result<Level, Stop> {
        let run = desk.launch(&Policy { workdir, ..desk.tracer() })?;
        Ok(run.started()?.capabilities.controls[&Control::DiskLimited].clone())
    };
    assert_eq!(level(WorkDir::Scratch)?, Level::Full);
    assert!(matches!(level(desk.tracer().workdir)?, Level::Polled(_)));
    Ok(())
}

fn a_requirement_that_is_not_full_is_refused() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for (control, level) in probe(&desk)?.controls {
        let Some(reason) = level.reason().filter(|_| control != Control::MemoryLimited) else { continue };
        let run = desk.launch(&Policy { require: [control].into(), ..desk.tracer() })?;
        let failure = run.failure()?;
        assert_eq!((run.status.code(), failure.kind, desk.ran()), (Some(125), FailureKind::Required, false));
        assert!(failure.message.contains(control.name()) && failure.message.contains(reason), "{failure}");
    }
    // Processor time at least is only polled.
    let run = desk.launch(&Policy { require: [Control::CpuLimited].into(), ..desk.tracer() })?;
    assert_eq!((run.failure()?.kind, desk.ran()), (FailureKind::Required, false));
    Ok(())
}

/// A cgroup is only made for who asks, and not everybody may make one.
fn required_memory_is_the_kernels_or_refused() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy = Policy { require: [Control::MemoryLimited].into(), ..desk.tracer() };
    let run = desk.launch(&policy)?;
    if desk.ran() {
        let started = run.started()?;
        assert!(started.capabilities.level(Control::MemoryLimited).is_full(), "{started:?}");
        assert_eq!(started.read_back.memory_group, Some(policy.limits.memory + policy.limits.disk));
    } else {
        let failure = run.failure()?;
        assert_eq!((failure.kind, &failure.step[..]), (FailureKind::Required, "cgroup"), "{failure}");
        assert!(failure.message.contains("memory_limited") && failure.hint.is_some(), "{failure}");
    }
    Ok(())
}

fn requirements_that_are_full_are_met() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let full =
        probe(&desk)?.controls.into_iter().filter(|(_, level)| level.is_full()).map(|(control, _)| control);
    let require: std::collections::BTreeSet<Control> = full.collect();
    assert!(require.contains(&Control::NetworkBlocked) && require.contains(&Control::FilesystemConfined));
    // The probe speaks of a scratch work dir; a host directory brings exceptions, which are refused by name.
    let bound = desk.launch(&Policy { require: require.clone(), ..desk.tracer() })?;
    assert_eq!((bound.failure()?.kind, desk.ran()), (FailureKind::Required, false));
    let scratch = Policy { require, ..Policy::new(["true"]) };
    assert_eq!(desk.launch(&scratch)?.status.code(), Some(0));
    let kept = [Control::FilesystemConfined, Control::SyscallsFiltered, Control::KilledAsATree].into();
    assert_eq!(desk.launch(&Policy { require: kept, ..desk.tracer() })?.status.code(), Some(0));
    assert!(desk.ran());
    Ok(())
}
