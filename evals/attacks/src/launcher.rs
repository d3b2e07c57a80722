//! How a command is confined: not at all, by the jail, or by any other launcher.

use crate::scene::Scene;
use agentkit_protocol::{Bytes, Limits, Policy, ProcFiles, WorkDir};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

/// Low ones, so that an attack on them is short.
fn for_attacks() -> Limits {
    Limits {
        wall_ms: 20_000,
        cpu_seconds: 2,
        memory: 256 << 20,
        disk: 64 << 20,
        processes: 32,
        ..Limits::default()
    }
}

/// Such as an agent's programs need.
fn for_work() -> Limits {
    Limits { wall_ms: 20_000, cpu_seconds: 20, memory: 1 << 30, disk: 256 << 20, ..Limits::default() }
}

/// Whom the attacks are performed by.
#[derive(Clone, Debug)]
pub enum Launcher {
    /// Nobody: the command itself.
    Bare,
    /// `agentkit-jail`, with the attack's directory as its work dir.
    Jail {
        /// The executable.
        helper: PathBuf,
        /// What it is asked for.
        limits: Limits,
    },
    /// Any other: a shell command line, in which `{dir}` stands for the attack's directory. The command is appended.
    Template(String),
}

impl Launcher {
    /// The jail, with low limits.
    pub fn jail_to_attack(helper: PathBuf) -> Self {
        Launcher::Jail { helper, limits: for_attacks() }
    }

    /// The jail, with limits for ordinary work.
    pub fn jail_to_work_in(helper: PathBuf) -> Self {
        Launcher::Jail { helper, limits: for_work() }
    }

    /// What runs the attacker with `argv`. `before` are shell commands of the caller.
    pub(crate) fn command(&self, scene: &Scene, before: &str, argv: &[OsString]) -> io::Result<Command> {
        let launch = match self {
            Launcher::Bare => r#"exec "$@""#.to_owned(),
            Launcher::Template(template) => {
                let directory = scene.granted();
                format!(r#"exec {} "$@""#, template.replace("{dir}", &quoted(directory.as_os_str())))
            }
            Launcher::Jail { helper, limits } => {
                let policy = scene.own().join("policy.json");
                std::fs::write(&policy, policy_of(scene, argv, limits)?)?;
                let [policy, helper] = [policy.as_os_str(), helper.as_os_str()].map(quoted);
                format!("exec {helper} --policy-fd 9 9<{policy}")
            }
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{before}\n{launch}"), "sh"]).args(argv).current_dir(scene.granted());
        Ok(command)
    }
}

fn policy_of(scene: &Scene, argv: &[OsString], limits: &Limits) -> io::Result<Vec<u8>> {
    let argv = argv.iter().map(|word| Bytes::from(word.as_bytes())).collect();
    let workdir = WorkDir::Bind(Bytes::from(scene.granted().as_os_str().as_bytes()));
    // The wider of its two views of /proc, which has more to attack and is what a workspace has.
    let proc = ProcFiles::Full;
    let policy = Policy { argv, workdir, proc, limits: limits.clone(), ..Policy::new(["attacker"]) };
    Ok(serde_json::to_vec(&policy)?)
}

/// As one word of a shell.
pub(crate) fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}
