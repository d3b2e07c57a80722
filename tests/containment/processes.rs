//! Attacks on processes of the host, on the jail's own init, and attempts to outlive the run.

use crate::attacks;
use crate::jail::run::Run;
use crate::jail::who::Who;
use crate::scene::{Attack, Scene, bites};
use crate::support::{PATIENCE, Stop, eventually, processes, sometimes_within, with_more_time};
use agentkit_protocol::EndedBy;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

attacks![
    kill_a_process_of_the_host,
    kill_a_process_of_the_host_by_pidfd,
    stop_a_process_of_the_host,
    slow_a_process_of_the_host_down,
    kill_everything_in_sight,
    slow_everything_of_the_same_user_down,
    see_the_processes_of_the_host,
    kill_the_init_of_the_jail,
    look_into_the_init_of_the_jail,
    outlive_the_run_as_a_daemon,
    outlive_the_run_holding_the_output,
    outlive_the_run_under_another_name,
    outlive_the_wall_clock,
    run_as_root_outside,
    forge_the_report,
];

/// A process of the launcher, to be attacked.
struct Victim(Child);

impl Victim {
    fn of(who: Who) -> Result<Victim, Stop> {
        let mut shell = who.shell()?;
        Ok(Victim(shell.args(["-c", "exec sleep 60"]).stdin(Stdio::null()).spawn()?))
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn is_dead(&mut self) -> Result<bool, Stop> {
        Ok(self.0.try_wait()?.is_some())
    }

    /// A field of proc_pid_stat(5) by its number there.
    fn stat(&self, field: usize) -> Result<String, Stop> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        let (_, rest) = text.rsplit_once(") ").unwrap_or_default();
        Ok(rest.split(' ').nth(field - 3).unwrap_or_default().to_owned())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Fails if the attack was successful.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The attack must do `harm` to a process of the launcher without a jail, and none in one.
fn harms(who: Who, payload: &str, harm: impl Fn(&mut Victim) -> Result<bool, Stop>) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let mut victim = Victim::of(who)?;
    let outside = scene.attack(payload).knows(victim.id()).bare()?;
    // A signal acts when its receiver next runs.
    let hit = eventually("the victim is hit", PATIENCE, || harm(&mut victim).unwrap_or(false));
    bites(hit.is_ok(), &outside)?;
    spares(&scene, payload, harm)
}

fn spares(
    scene: &Scene,
    payload: &str,
    harm: impl Fn(&mut Victim) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    let mut victim = Victim::of(scene.who)?;
    scene.attack(payload).knows(victim.id()).jailed()?.must_have_attempted()?;
    assert!(!harm(&mut victim)?);
    Ok(())
}

fn kill_a_process_of_the_host(who: Who) -> Result<(), Stop> {
    harms(who, "answer(attempt(os.kill, int(arguments[0]), signal.SIGKILL))", Victim::is_dead)
}

fn kill_a_process_of_the_host_by_pidfd(who: Who) -> Result<(), Stop> {
    let payload = "answer(attempt(lambda: call('pidfd_send_signal',\n\
                   \x20   call('pidfd_open', int(arguments[0]), 0), signal.SIGKILL, None, 0)))";
    harms(who, payload, Victim::is_dead)
}

fn stop_a_process_of_the_host(who: Who) -> Result<(), Stop> {
    harms(who, "answer(attempt(os.kill, int(arguments[0]), signal.SIGSTOP))", |victim| {
        Ok(victim.stat(3)? == "T")
    })
}

fn slow_a_process_of_the_host_down(who: Who) -> Result<(), Stop> {
    harms(who, "answer(attempt(os.setpriority, os.PRIO_PROCESS, int(arguments[0]), 19))", |victim| {
        Ok(victim.stat(19)? == "19")
    })
}

/// Not performed without a jail, where it would end the tests themselves; the single kill above shows that a jail is
/// what it takes.
fn kill_everything_in_sight(who: Who) -> Result<(), Stop> {
    let payload = "for pid in range(2, 70000):\n\
                   \x20   if pid != os.getpid(): attempt(os.kill, pid, signal.SIGKILL)\n\
                   answer(attempt(os.kill, -1, signal.SIGKILL))";
    spares(&Scene::new(who)?, payload, Victim::is_dead)
}

/// Not performed without a jail either: it would slow down whatever the user runs. A jail of a user has the user's own
/// id outside.
fn slow_everything_of_the_same_user_down(who: Who) -> Result<(), Stop> {
    spares(&Scene::new(who)?, "answer(attempt(os.setpriority, os.PRIO_USER, 0, 19))", |victim| {
        Ok(victim.stat(19)? == "19")
    })
}

fn see_the_processes_of_the_host(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = crate::jail::stage::unique("canary");
    let mut shell = who.shell()?;
    let _victim = Victim(shell.args(["-c", "read end", &secret]).stdin(Stdio::piped()).spawn()?);
    let attack = scene.attack(
        "for pid in os.listdir('/proc'):\n\
         \x20   if pid.isdigit(): attempt(lambda: print(open(f'/proc/{pid}/cmdline').read()))\n\
         answer('tried')",
    );
    let outside = attack.bare()?;
    bites(outside.gave_out(&secret), &outside)?;
    let inside = attack.jailed()?;
    inside.must_have_attempted()?;
    assert!(!inside.gave_out(&secret));
    Ok(())
}

/// The host's own init is no target for a control; that these signals kill is what every other test relies on.
fn kill_the_init_of_the_jail(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene.attack(
        "for number in range(1, 65): attempt(os.kill, 1, number)\n\
         answer('tried'); sys.exit(7)",
    );
    let inside = attack.jailed()?;
    assert_eq!((inside.answer()?, inside.ended()?.ended_by), ("tried".into(), EndedBy::Exit(7)));
    Ok(())
}

/// Init is a copy of the helper, and has the launcher's memory and descriptors. Without a jail the same look is taken
/// at a process that the attacker may look into: its own.
fn look_into_the_init_of_the_jail(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene.attack(
        "pid, files = arguments[0], ['mem', 'environ', 'maps', 'auxv', 'syscall', 'exe', 'stack']\n\
         for name in files: each(name, lambda: os.read(os.open(f'/proc/{pid}/{name}', os.O_RDONLY), 0))\n\
         for name in 'exe', 'cwd', 'root', 'ns/user', 'fd/0': each(name, lambda: os.readlink(f'/proc/{pid}/{name}'))\n\
         for name in 'cwd', 'root', 'fd', 'map_files': each(name + '/', lambda: os.listdir(f'/proc/{pid}/{name}'))\n\
         answer('tried')",
    );
    let done = |run: &Run| String::from_utf8_lossy(&run.stdout).matches(" = done").count();
    let outside = attack.forgets().knows("self");
    let run = outside.bare()?;
    // The stack is for root alone.
    bites(done(&run) >= 15, &run)?;
    let run = outside.forgets().knows("1").jailed()?;
    run.must_have_attempted()?;
    assert_eq!(done(&run), 0, "{run:?}");
    Ok(())
}

/// Twice forked, in a session of its own, deaf to everything but SIGKILL.
const DAEMON: &str = "if os.fork():\n    answer('started'); sys.exit(0)\n\
                      os.setsid()\n\
                      if os.fork(): os._exit(0)\n\
                      for number in range(1, 32):\n    attempt(lambda: signal.signal(number, signal.SIG_IGN))\n";

/// The attack must leave a process behind without a jail, and none in one, at the moment the end is reported.
fn outlives(attack: &Attack<'_>) -> Result<Run, Stop> {
    let mut running = attack.start_bare()?;
    running.child.wait()?;
    let left = !processes::with_marker(&attack.marker).is_empty();
    end_all(&attack.marker)?;
    bites(left, &running.finish()?)?;
    let inside = attack.jailed()?;
    inside.must_have_attempted()?;
    assert_eq!(inside.left, [] as [u32; 0]);
    Ok(inside)
}

/// Ends what an attack that was successful without a jail has left.
pub(crate) fn end_all(marker: &str) -> Result<(), Stop> {
    eventually("the daemons are gone", PATIENCE, || {
        let alive = processes::with_marker(marker);
        for pid in alive.iter().filter_map(|pid| i32::try_from(*pid).ok()) {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        alive.is_empty()
    })
}

fn outlive_the_run_as_a_daemon(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    outlives(&scene.attack(&format!("{DAEMON}for fd in range(4): attempt(os.close, fd)\ntime.sleep(60)")))
        .map(drop)
}

/// Whoever waits for the end of the output would wait for the daemon.
fn outlive_the_run_holding_the_output(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    sometimes_within(Duration::from_secs(30), || {
        outlives(&scene.attack(&format!("{DAEMON}time.sleep(60)")).output_by_pipe()).map(drop)
    })
}

/// A daemon that is nowhere mentioned: it becomes another program with another command line and no environment. It is
/// found by its pid namespace.
fn outlive_the_run_under_another_name(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let payload = format!(
        "write('namespace', os.readlink('/proc/self/ns/pid'))\n\
         {}write('ready')\nos.chdir('/')\nos.execve('/bin/sleep', ['kworker', '60'], {{}})",
        DAEMON.replace("answer('started'); sys.exit(0)", "hold(); answer('started'); sys.exit(0)")
    );
    let attack = scene.attack(&payload);
    let running = attack.start_jailed()?;
    scene.wait_until_ready()?;
    let namespace = fs::read_to_string(scene.path("work/namespace"))?;
    let seen = eventually("the daemon runs under its other name", PATIENCE, || {
        in_namespace(&namespace).iter().any(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"kworker"))
        })
    });
    scene.release()?;
    let inside = running.finish()?;
    // That it was really there is the control here: a namespace can be told apart from the host's only in a jail.
    seen?;
    inside.must_have_attempted()?;
    assert_eq!(in_namespace(&namespace), [] as [String; 0]);
    Ok(())
}

/// The processes of a pid namespace.
fn in_namespace(namespace: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let lives_in = |pid: &String| {
        fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|link| link.as_os_str() == namespace)
    };
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())).filter(lives_in).collect()
}

fn outlive_the_wall_clock(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    with_more_time(Duration::from_millis(400), |time| {
        let sleep = (time * 4).as_secs_f64();
        let payload = format!(
            "if os.fork() == 0: os.setsid()\n\
             signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
             answer('sleeping'); time.sleep({sleep}); write('survived')"
        );
        let wall = time.as_millis() as u64;
        let attack = scene.attack(&payload).policy(|policy| policy.limits.wall_ms = wall);
        let outside = attack.bare()?;
        bites(scene.path("work/survived").exists(), &outside)?;
        end_all(&attack.marker)?;
        scene.clear()?;
        let inside = attack.jailed()?;
        assert_eq!((inside.ended()?.ended_by, inside.status.code()), (EndedBy::WallClock, Some(124)));
        assert_eq!(inside.left, [] as [u32; 0]);
        assert!(!scene.path("work/survived").exists());
        Ok(inside.answer().is_ok_and(|answer| answer == "sleeping").then_some(()))
    })
}

/// Whatever uid the jail shows inside: outside it must not be root's.
fn run_as_root_outside(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene.attack("attempt(os.setuid, 0)\nanswer('tried'); hold()");
    let owners_while_it_runs = |running: crate::jail::launch::Running| -> Result<Vec<String>, Stop> {
        scene.wait_until_ready()?;
        let owners =
            processes::with_marker(&attack.marker).into_iter().map(uids_of).collect::<Result<_, _>>();
        scene.release()?;
        running.finish()?.must_have_attempted()?;
        owners
    };
    let outside = owners_while_it_runs(attack.start_bare()?)?;
    let is_root = |uids: &String| uids.split('\t').any(|uid| uid == "0");
    if who == Who::Root {
        assert!(outside.iter().any(is_root), "{outside:?}");
    }
    scene.clear()?;
    let inside = owners_while_it_runs(attack.start_jailed()?)?;
    assert!(!inside.is_empty() && !inside.iter().any(is_root), "{inside:?}");
    Ok(())
}

/// The four user ids of a process.
fn uids_of(pid: u32) -> Result<String, Stop> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:\t"));
    line.map(str::to_owned).ok_or_else(|| Stop::Fail(format!("no Uid in {status}")))
}

/// The report goes over a descriptor of the helper: one that the command must not have.
fn forge_the_report(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene.attack(
        "for fd in range(3, 1024): attempt(os.write, fd, b'{\"forged\": 1}\\n')\n\
         for fd in range(256): attempt(lambda: os.write(os.open(f'/proc/1/fd/{fd}', os.O_WRONLY), b'{\"forged\": 1}\\n'))\n\
         answer('tried')",
    );
    let forged = |run: &Run| run.report.iter().any(|line| line.contains("forged"));
    let outside = attack.bare()?;
    bites(forged(&outside), &outside)?;
    let inside = attack.jailed()?;
    inside.must_have_attempted()?;
    assert!(!forged(&inside), "{inside:?}");
    Ok(())
}
