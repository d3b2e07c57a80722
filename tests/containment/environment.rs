//! Attacks on what the launcher carries with it: variables, arguments, descriptors, memory.

use crate::attacks;
use crate::jail::stage::unique;
use crate::jail::who::Who;
use crate::scene::{Attack, Scene, bites};
use crate::support::Stop;
use agentkit_protocol::Bytes;
use std::process::Command;

attacks![
    read_a_secret_variable,
    read_the_environment_of_every_process,
    read_the_memory_of_every_process,
    read_the_arguments_of_the_launcher,
    read_an_inherited_descriptor,
    list_the_descriptors,
    read_the_policy_again,
    learn_the_name_of_the_host,
];

/// The attack must give `secret` out without a jail, and not in one.
fn leaks(attack: &Attack<'_>, secret: &str) -> Result<(), Stop> {
    let outside = attack.bare()?;
    bites(outside.gave_out(secret), &outside)?;
    let inside = attack.jailed()?;
    inside.must_have_attempted()?;
    assert!(!inside.gave_out(secret), "{inside:?}");
    Ok(())
}

fn read_a_secret_variable(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = unique("canary");
    leaks(&scene.attack("print(os.environ); answer('tried')").env("API_KEY", &secret), &secret)
}

fn read_the_environment_of_every_process(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = unique("canary");
    let payload = "import re\n\
                   for pid in [*os.listdir('/proc'), '1', 'self', 'thread-self']:\n\
                   \x20   attempt(lambda: print(re.findall(rb'canary[-0-9]+', open(f'/proc/{pid}/environ', 'rb').read())))\n\
                   answer('tried')";
    leaks(&scene.attack(payload).env("API_KEY", &secret), &secret)
}

/// The helper had the variable in its memory, and init is a copy of it.
fn read_the_memory_of_every_process(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = unique("canary");
    let payload = "import re\n\
                   def search(pid):\n\
                   \x20   memory = open(f'/proc/{pid}/mem', 'rb', 0)\n\
                   \x20   for line in open(f'/proc/{pid}/maps'):\n\
                   \x20       begin, end = (int(at, 16) for at in line.split()[0].split('-'))\n\
                   \x20       if '[stack]' in line or '[heap]' in line:\n\
                   \x20           print(set(re.findall(rb'canary[-0-9]+', os.pread(memory.fileno(), end - begin, begin))))\n\
                   for pid in 1, os.getppid(), os.getpid(): attempt(search, pid)\n\
                   answer('tried')";
    leaks(&scene.attack(payload).env("API_KEY", &secret), &secret)
}

/// The helper and init, which is a copy of it, were called by another name.
fn read_the_arguments_of_the_launcher(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = unique("canary");
    let attack = scene.attack(
        "for pid in [*os.listdir('/proc'), '1', 'self']:\n\
         \x20   attempt(lambda: print(open(f'/proc/{pid}/cmdline').read()))\n\
         answer('tried')",
    );
    leaks(&attack.named(&secret), &secret)
}

/// The launcher forgot to close it on exec.
fn read_an_inherited_descriptor(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = scene.canary("home/key")?;
    let payload = "def read(fd):\n\
                   \x20   if stat.S_ISREG(os.fstat(fd).st_mode): print(os.pread(fd, 99, 0))\n\
                   for fd in range(3, 1024): attempt(read, fd)\n\
                   answer('tried')";
    let open_many = format!("exec 7<'{0}' 9<>'{0}'", scene.path("home/key").display());
    leaks(&scene.attack(payload).before(open_many), &secret)
}

/// Even the name of what is open tells something.
fn list_the_descriptors(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    scene.canary("home/key")?;
    let key = scene.path("home/key").to_string_lossy().into_owned();
    let payload = "for fd in os.listdir('/proc/self/fd'):\n\
                   \x20   attempt(lambda: print(os.readlink(f'/proc/self/fd/{fd}')))\n\
                   answer('tried')";
    leaks(&scene.attack(payload).before(format!("exec 7<'{key}'")), &key)
}

/// The policy came on the helper's standard input and may hold more than the command should know. Without a jail the
/// same words are on the payload's own.
fn read_the_policy_again(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = unique("canary");
    let attack = scene
        .attack("attempt(lambda: os.lseek(0, 0, 0)); print(sys.stdin.read()); answer('tried')")
        .before(format!("case \"$1\" in */agentkit-jail) ;; *) exec <<'END'\n{secret}\nEND\n;; esac"))
        .policy(|policy| drop(policy.files.insert("other".to_owned(), Bytes::from(&secret))));
    leaks(&attack, &secret)
}

fn learn_the_name_of_the_host(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let name = Command::new("uname").arg("-n").output()?.stdout;
    let name = String::from_utf8_lossy(&name).trim().to_owned();
    if name.is_empty() || name == "jail" {
        return Err(Stop::Skip(format!("this host is called {name:?}")));
    }
    leaks(
        &scene.attack("import socket\nprint(os.uname().nodename, socket.gethostname()); answer('tried')"),
        &name,
    )
}
