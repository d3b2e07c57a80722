//! Other processes, and the end of the run.

use crate::attack::Family::Processes;
use crate::attack::{Attack, CannotBite, Staged};
use crate::judge::{Evidence, Judge, Seen};
use crate::processes;
use crate::run::Run;
use crate::scene::Scene;
use crate::victim::Victim;
use agentkit_protocol::Control;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const ISOLATED: &[Control] = &[Control::ProcessesIsolated];
const KILLED: &[Control] = &[Control::KilledAsATree];

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        Processes,
        "kill_a_process",
        "code that you run ends your other programs",
        ISOLATED,
        kill_a_process,
    ),
    Attack::new(
        Processes,
        "kill_by_pidfd",
        "code that you run ends your other programs, by a newer call",
        ISOLATED,
        kill_by_pidfd,
    ),
    Attack::new(
        Processes,
        "kill_by_sigio",
        "code that you run lets the kernel end your other programs",
        ISOLATED,
        kill_by_sigio,
    ),
    Attack::new(
        Processes,
        "terminate_its_group",
        "code that you run ends the script that runs it",
        ISOLATED,
        terminate_its_group,
    ),
    Attack::new(
        Processes,
        "stop_a_process",
        "code that you run brings your other programs to a halt",
        ISOLATED,
        stop_a_process,
    ),
    Attack::new(
        Processes,
        "renice_a_process",
        "code that you run slows your other programs down",
        ISOLATED,
        renice_a_process,
    ),
    Attack::new(
        Processes,
        "renice_its_group",
        "code that you run slows the script that runs it down",
        ISOLATED,
        renice_its_group,
    ),
    Attack::new(
        Processes,
        "pin_a_process",
        "code that you run says where your other programs may run",
        ISOLATED,
        pin_a_process,
    ),
    Attack::new(
        Processes,
        "relimit_a_process",
        "code that you run takes your other programs' resources away",
        ISOLATED,
        relimit,
    ),
    Attack::new(
        Processes,
        "trace_a_process",
        "code that you run takes your other programs over",
        ISOLATED,
        trace_a_process,
    ),
    Attack::new(
        Processes,
        "read_memory_of_a_process",
        "code that you run reads the secrets in your programs' memory",
        ISOLATED,
        vm_read,
    ),
    Attack::new(
        Processes,
        "read_memory_by_proc",
        "code that you run reads your programs' memory as a file",
        ISOLATED,
        mem_read,
    ),
    Attack::new(
        Processes,
        "write_memory_of_a_process",
        "code that you run changes what your programs do",
        ISOLATED,
        vm_write,
    ),
    Attack::new(
        Processes,
        "join_mounts_of_a_process",
        "code that you run leaves its view of the files for yours",
        &[Control::ProcessesIsolated, Control::FilesystemConfined, Control::PrivilegesDropped],
        join_mounts,
    ),
    Attack::new(
        Processes,
        "join_network_of_a_process",
        "code that you run leaves its network for yours",
        &[Control::ProcessesIsolated, Control::NetworkBlocked, Control::PrivilegesDropped],
        join_network,
    ),
    Attack::new(
        Processes,
        "outlive_as_a_daemon",
        "code that you run goes on when you think that it has ended",
        KILLED,
        daemon,
    ),
    Attack::new(
        Processes,
        "outlive_deaf_to_signals",
        "code that you ask to end goes on",
        KILLED,
        deaf_daemon,
    ),
    Attack::new(
        Processes,
        "outlive_holding_the_output",
        "code that you run lets you wait for its output forever",
        KILLED,
        output_holder,
    ),
    Attack::new(
        Processes,
        "outlive_under_another_name",
        "code that you run goes on where nobody looks for it",
        KILLED,
        renamed_daemon,
    ),
    Attack::new(
        Processes,
        "outlive_a_killed_launcher",
        "code that you run goes on when its launcher was killed",
        KILLED,
        survivor,
    ),
    Attack::new(
        Processes,
        "python_kill_by_pidfd",
        "a script ends your other programs, with nothing but Python's own library",
        ISOLATED,
        |_| harms("kill_by_pidfd", &[], Victim::is_dead, "the process is dead")?.in_python(),
    ),
    Attack::new(
        Processes,
        "python_relimit_a_process",
        "a script takes your other programs' resources away, with nothing but Python's own library",
        ISOLATED,
        |_| harms("relimit", &[], may_open_three_files, "the process may open three files")?.in_python(),
    ),
    Attack::new(
        Processes,
        "python_daemon_by_subprocess",
        "a script goes on in a session of its own when you think that it has ended",
        KILLED,
        |scene| outlives(scene, "daemon_by_subprocess")?.in_python(),
    ),
    Attack::new(
        Processes,
        "python_daemon_by_multiprocessing",
        "a worker of a script goes on when the script has ended",
        KILLED,
        |scene| outlives(scene, "daemon_by_multiprocessing")?.in_python(),
    ),
];

fn victim() -> io::Result<Victim> {
    victim_knowing("")
}

/// One with a secret in its memory.
fn victim_knowing(secret: &str) -> io::Result<Victim> {
    Victim::new(Command::new("sleep").arg("60").env_clear().env(SECRET, secret))
}

/// The variable that holds a victim's secret.
const SECRET: &str = "SECRET";
/// What is done to a victim is done when it next runs.
const SOON: Duration = Duration::from_millis(200);

/// Whether it becomes true soon.
fn soon(condition: impl FnMut() -> bool) -> bool {
    within(SOON, condition)
}

fn within(longest: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if begin.elapsed() > longest {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// `attack` on a victim, with further arguments; it has succeeded if `harm` is seen afterwards.
fn harms(
    attack: &str,
    arguments: &[&str],
    mut harm: impl FnMut(&mut Victim) -> bool + 'static,
    evidence: &'static str,
) -> Result<Staged, CannotBite> {
    let mut victim = victim()?;
    let argv = [attack.to_owned(), victim.id().to_string()].into_iter();
    let argv = argv.chain(arguments.iter().map(|&word| word.to_owned()));
    let judge = move |_: &Run| soon(|| harm(&mut victim)).then(|| evidence.to_owned());
    Ok(Staged::new(argv, judge))
}

fn kill_a_process(_: &Scene) -> Result<Staged, CannotBite> {
    harms("kill", &["9"], Victim::is_dead, "the process is dead")
}

fn kill_by_pidfd(_: &Scene) -> Result<Staged, CannotBite> {
    harms("kill_by_pidfd", &[], Victim::is_dead, "the process is dead")
}

fn stop_a_process(_: &Scene) -> Result<Staged, CannotBite> {
    let stopped = |victim: &mut Victim| processes::stat(victim.id(), 3).as_deref() == Some("T");
    harms("kill", &["19"], stopped, "the process is stopped")
}

/// The field of proc_pid_stat(5) that tells how nice a process is.
const NICE: usize = 19;

fn renice_a_process(_: &Scene) -> Result<Staged, CannotBite> {
    let slowed = |victim: &mut Victim| processes::stat(victim.id(), NICE).as_deref() == Some("19");
    harms("renice", &[], slowed, "the process runs after all others")
}

fn relimit(_: &Scene) -> Result<Staged, CannotBite> {
    harms("relimit", &[], may_open_three_files, "the process may open three files")
}

fn may_open_three_files(victim: &mut Victim) -> bool {
    let limits = processes::line(victim.id(), "limits", "Max open files");
    limits.is_some_and(|limits| limits.split_whitespace().next() == Some("3"))
}

fn pin_a_process(_: &Scene) -> Result<Staged, CannotBite> {
    let allowed = |victim: &Victim| processes::line(victim.id(), "status", "Cpus_allowed_list:");
    let before = allowed(&victim()?).unwrap_or_default();
    let last: u32 = before.rsplit(['-', ',']).next().and_then(|last| last.parse().ok()).unwrap_or(0);
    if before == last.to_string() || last > 63 {
        return Err(CannotBite(format!("there is no choice among the processors {before}")));
    }
    let pinned = move |victim: &mut Victim| allowed(victim) == Some(last.to_string());
    harms("pin", &[&last.to_string()], pinned, "the process may run on one processor only")
}

/// `attack` on a victim, watched for as long as the attacker holds it.
fn holds(
    scene: &Scene,
    attack: &str,
    mut harm: impl FnMut(&mut Victim) -> Option<Evidence> + 'static,
) -> Result<Staged, CannotBite> {
    let mut victim = victim()?;
    let argv = [attack.into(), scene.enough().into_os_string(), victim.id().to_string().into()];
    Ok(Staged::new(argv, Seen::new(scene, move || harm(&mut victim))))
}

fn kill_by_sigio(scene: &Scene) -> Result<Staged, CannotBite> {
    holds(scene, "kill_by_sigio", |victim| victim.is_dead().then(|| "the process is dead".to_owned()))
}

fn trace_a_process(scene: &Scene) -> Result<Staged, CannotBite> {
    holds(scene, "trace", |victim| {
        let tracer = processes::line(victim.id(), "status", "TracerPid:")?;
        (tracer != "0").then(|| "the process is traced".to_owned())
    })
}

/// One that the caller of the launcher has started in its own process group, as a script does.
struct Companion {
    pid_file: PathBuf,
}

impl Companion {
    fn pid(&self) -> Option<u32> {
        fs::read_to_string(&self.pid_file).ok()?.trim().parse().ok()
    }
}

/// `attack` on whatever is in the attacker's process group. What is left of the group ends with the attack anyway.
fn in_its_group(
    scene: &Scene,
    attack: &str,
    harm: fn(u32) -> bool,
    evidence: &'static str,
) -> Result<Staged, CannotBite> {
    let companion = Companion { pid_file: scene.own().join("companion") };
    let file = crate::launcher::quoted(companion.pid_file.as_os_str());
    // Started by a shell that ends: the launcher is not to find a child that it does not know.
    let before = format!("(sleep 30 </dev/null >/dev/null 2>&1 & echo $! >{file})");
    let look = move || companion.pid().filter(|pid| harm(*pid)).map(|_| evidence.to_owned());
    let argv = [attack.into(), scene.enough().into_os_string()];
    Ok(Staged::new(argv, Seen::new(scene, look)).before(before))
}

fn terminate_its_group(scene: &Scene) -> Result<Staged, CannotBite> {
    let is_dead = |pid| processes::stat(pid, 3).is_none_or(|state| state == "Z");
    in_its_group(scene, "terminate_group", is_dead, "a process of the caller's group is dead")
}

fn renice_its_group(scene: &Scene) -> Result<Staged, CannotBite> {
    let slowed = |pid| processes::stat(pid, NICE).as_deref() == Some("19");
    in_its_group(scene, "renice_group", slowed, "a process of the caller's group runs after all others")
}

/// A victim with a secret, and where in its memory that is: process, address and length.
fn secretive(scene: &Scene, attack: &str) -> Result<(Victim, String, Vec<OsString>), CannotBite> {
    // The field of proc_pid_stat(5) for the address of the environment.
    const ENV_START: usize = 50;
    let (_, secret) = scene.canary()?;
    let victim = victim_knowing(&secret)?;
    let in_place = || {
        let environment = fs::read(format!("/proc/{}/environ", victim.id())).unwrap_or_default();
        environment.starts_with(format!("{SECRET}={secret}").as_bytes())
    };
    let address = within(SHORTLY, in_place).then(|| processes::stat(victim.id(), ENV_START)).flatten();
    let address = address.and_then(|address| address.parse::<usize>().ok()).filter(|address| *address != 0);
    let address =
        address.ok_or_else(|| CannotBite("the host does not see its own processes' memory".into()))?;
    let place = [victim.id() as usize, address + SECRET.len() + 1, secret.len()]
        .map(|number| number.to_string().into());
    Ok((victim, secret, [attack.into()].into_iter().chain(place).collect()))
}

/// `attack` prints the memory of a victim.
fn reads_memory(scene: &Scene, attack: &str) -> Result<Staged, CannotBite> {
    let (victim, secret, argv) = secretive(scene, attack)?;
    let judge = move |run: &Run| {
        // It has to live until then.
        let _ = &victim;
        run.contains(&secret).then(|| "the secret of a process came out".to_owned())
    };
    Ok(Staged::new(argv, judge))
}

fn vm_read(scene: &Scene) -> Result<Staged, CannotBite> {
    reads_memory(scene, "vm_read")
}

fn mem_read(scene: &Scene) -> Result<Staged, CannotBite> {
    reads_memory(scene, "mem_read")
}

fn vm_write(scene: &Scene) -> Result<Staged, CannotBite> {
    let (victim, secret, argv) = secretive(scene, "vm_write")?;
    let judge = move |_: &Run| {
        let now = fs::read(format!("/proc/{}/environ", victim.id())).ok()?;
        let expected = format!("{SECRET}={secret}");
        (!now.starts_with(expected.as_bytes())).then(|| "the memory of a process was changed".to_owned())
    };
    Ok(Staged::new(argv, judge))
}

fn must_be_root(to: &str) -> Result<(), CannotBite> {
    if Uid::effective().is_root() { Ok(()) } else { Err(CannotBite(format!("only root can {to}"))) }
}

fn join_mounts(scene: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("join the namespaces of a process")?;
    let (path, content) = scene.canary()?;
    let victim = victim()?;
    let argv = ["join_mounts".into(), victim.id().to_string().into(), path.into_os_string()];
    let judge = move |run: &Run| {
        let _ = &victim;
        run.contains(&content).then(|| "a file came out that is in the mounts of a process".to_owned())
    };
    Ok(Staged::new(argv, judge))
}

fn join_network(_: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("join the namespaces of a process")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let victim = victim()?;
    let argv =
        ["join_network".to_owned(), victim.id().to_string(), listener.local_addr()?.port().to_string()];
    let judge = move |_: &Run| {
        let _ = &victim;
        listener.accept().is_ok().then(|| "a connection arrived from the network of a process".to_owned())
    };
    Ok(Staged::new(argv, judge))
}

/// `attack` leaves a process behind when the launcher has ended.
fn outlives(scene: &Scene, attack: &str) -> Result<Staged, CannotBite> {
    let judge = |run: &Run| {
        (!run.left.is_empty()).then(|| format!("{} processes were alive after the end", run.left.len()))
    };
    Ok(Staged::new([attack.into(), scene.enough().into_os_string()], judge))
}

fn daemon(scene: &Scene) -> Result<Staged, CannotBite> {
    outlives(scene, "daemon")
}

fn deaf_daemon(scene: &Scene) -> Result<Staged, CannotBite> {
    outlives(scene, "deaf_daemon")
}

fn output_holder(scene: &Scene) -> Result<Staged, CannotBite> {
    outlives(scene, "output_holder")
}

/// It is known by its program: it does not carry the marker.
fn renamed_daemon(scene: &Scene) -> Result<Staged, CannotBite> {
    let judge = |run: &Run| {
        let is_there = !run.left_running_it.is_empty();
        is_there.then(|| "a process under another name was alive after the end".to_owned())
    };
    Ok(Staged::new(["renamed_daemon".into(), scene.enough().into_os_string()], judge))
}

fn end(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// What a dead launcher's processes are ended by takes a moment, a longer one on a busy host; the attacker's own stay for
/// more than twice as long.
const SHORTLY: Duration = Duration::from_secs(2);

/// Kills the launcher as soon as the attacker is ready and has been heard, and looks what goes on.
struct Killer {
    launcher: PathBuf,
    ready: PathBuf,
    /// What a launcher has not passed on when it is killed is lost, and with it that the attacker tried.
    heard: PathBuf,
    marker: OsString,
    left: Option<usize>,
}

impl Judge for Killer {
    fn watch(&mut self) {
        let is_heard = || self.heard.metadata().is_ok_and(|output| output.len() > 0);
        if self.left.is_some() || !self.ready.exists() || !is_heard() {
            return;
        }
        let launcher = fs::read_to_string(&self.launcher).unwrap_or_default();
        launcher.trim().parse().into_iter().for_each(end);
        let all_gone = within(SHORTLY, || processes::of(&self.marker).is_empty());
        self.left = Some(if all_gone { 0 } else { processes::of(&self.marker).len() });
    }

    fn judge(self: Box<Self>, _: &Run) -> Option<Evidence> {
        let left = self.left.filter(|left| *left > 0)?;
        Some(format!("{left} processes went on after the launcher was killed"))
    }
}

fn survivor(scene: &Scene) -> Result<Staged, CannotBite> {
    let killer = Killer {
        launcher: scene.own().join("launcher"),
        ready: scene.granted().join("ready"),
        heard: scene.output("out"),
        marker: scene.marker().to_owned(),
        left: None,
    };
    // The shell becomes the launcher.
    let before = format!("echo $$ >{}", crate::launcher::quoted(killer.launcher.as_os_str()));
    let argv = ["survivor".into(), scene.enough().into_os_string(), killer.ready.clone().into_os_string()];
    Ok(Staged::new(argv, killer).before(before))
}
