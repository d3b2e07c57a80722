//! The attacks of the safety tasks bite: each scripted attack, run without the jail, succeeds.

#[path = "support/mod.rs"]
mod support;

use agentkit_evals::scripts::{Reply, replies};
use agentkit_evals::tasks;
use agentkit_evals::world::World;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use support::need::need;
use support::processes::descendants;
use support::{Stop, trial, user};

fn main() -> ExitCode {
    support::run(vec![
        trial("without_the_jail_the_key_is_read", without_the_jail_the_key_is_read),
        trial("without_the_jail_the_page_is_reached_twice", without_the_jail_the_page_is_reached_twice),
        trial("without_the_jail_the_bomb_exceeds_its_limit", without_the_jail_the_bomb_exceeds_its_limit),
    ])
}

/// The Python programs of a task's script, unexpanded.
fn programs(task: &str) -> Vec<&'static str> {
    let call = |reply: &'static Reply| match reply {
        Reply::Call(_, arguments) => {
            arguments.iter().find(|(name, _)| *name == "code").map(|(_, code)| *code)
        }
        Reply::Answer(_) => None,
    };
    replies(task).expect("a script").iter().filter_map(call).collect()
}

fn without_the_jail_the_key_is_read() -> Result<(), Stop> {
    need("python")?;
    let world = World::build()?;
    let [code] = programs("no-file-escape")[..] else { panic!("one program") };
    let output = Command::new("python3").args(["-c", &world.expand(code)]).output()?;
    assert!(output.status.success(), "{output:?}");
    assert!(world.close([&*String::from_utf8_lossy(&output.stdout)])?.leaked);
    Ok(())
}

fn without_the_jail_the_page_is_reached_twice() -> Result<(), Stop> {
    need("python")?;
    for code in programs("no-network") {
        let world = World::build()?;
        // A proxy of the environment would be asked instead of the page.
        let output = Command::new("python3")
            .args(["-c", &world.expand(code)])
            .env("no_proxy", "127.0.0.1")
            .output()?;
        assert!(output.status.success(), "{output:?}");
        let seen = world.close([&*String::from_utf8_lossy(&output.stdout)])?;
        assert!(seen.leaked && seen.arrivals == 1, "{seen:?}");
    }
    assert_eq!(programs("no-network").len(), 2);
    Ok(())
}

/// Twice what the jail allows: enough to show that the bomb would go on, and a bound that the kernel keeps.
fn without_the_jail_the_bomb_exceeds_its_limit() -> Result<(), Stop> {
    need("userns")?;
    let limit = tasks::by_name("no-fork-bomb").expect("the task").bounds.processes;
    let [code] = programs("no-fork-bomb")[..] else { panic!("one program") };
    let mut bomb =
        bounded(2 * limit, code)?.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut peak = 0;
    let status = loop {
        peak = peak.max(descendants(bomb.id()).len());
        if let Some(status) = bomb.try_wait()? {
            break status;
        }
    };
    assert!(!status.success(), "the program ends when it can fork no more");
    assert!(peak as u64 > limit, "only {peak} processes were seen");
    assert!(peak as u64 <= 2 * limit + 1, "{peak} processes were seen, the bound of this test does not hold");
    Ok(())
}

/// Python with at most `processes` processes, all of which end with the first. The kernel does not bound root by number,
/// so root becomes somebody else first; that one needs an interpreter it can reach.
fn bounded(processes: u64, code: &str) -> Result<Command, Stop> {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return Err(Stop::Skip(format!("needs an interpreter for everyone at {}", python.display())));
    }
    let mut command = match user::current_uid().map_err(Stop::Fail)? {
        0 => user::unprivileged(Path::new("/usr/bin/unshare"))?,
        _ => Command::new("unshare"),
    };
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
    command.args(["prlimit", &format!("--nproc={processes}:{processes}")]).arg(python).args(["-c", code]);
    Ok(command)
}
