//! How a command is confined: not at all, by the jail, or by any other launcher.

use crate::scene::Scene;
use agentkit_protocol::Choice;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

/// Low limits, so that an attack on them is short. Of its two views of `/proc` the wider one, which has more to attack and
/// is what a workspace has.
const TO_ATTACK: &str =
    "--proc full --wall 20s --cpu 2s --memory 256M --disk 64M --processes 32 --output 1M --workdir {dir} --";
/// As an agent works.
const TO_WORK_IN: &str = "--profile workspace --workdir {dir} --";

/// Whom the attacks are performed by.
#[derive(Clone, Debug)]
pub enum Launcher {
    /// Nobody: the command itself.
    Bare,
    /// A shell command line, in which `{dir}` stands for the attack's directory. The command is appended.
    Template(String),
}

impl Launcher {
    /// `agentkit-jail`, with low limits.
    pub fn jail_to_attack(helper: &Path, mechanism: Choice) -> Self {
        Self::jail(helper, mechanism, TO_ATTACK)
    }

    /// The same, with the profile for ordinary work.
    pub fn jail_to_work_in(helper: &Path, mechanism: Choice) -> Self {
        Self::jail(helper, mechanism, TO_WORK_IN)
    }

    fn jail(helper: &Path, mechanism: Choice, flags: &str) -> Self {
        Launcher::Template(format!("{} --mechanism {} {flags}", quoted(helper.as_os_str()), mechanism.name()))
    }

    /// What runs the attacker with `argv`. `before` are shell commands of the caller.
    pub(crate) fn command(&self, scene: &Scene, before: &str, argv: &[OsString]) -> Command {
        let launch = match self {
            Launcher::Bare => r#"exec "$@""#.to_owned(),
            Launcher::Template(template) => {
                let directory = scene.granted();
                format!(r#"exec {} "$@""#, template.replace("{dir}", &quoted(directory.as_os_str())))
            }
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{before}\n{launch}"), "sh"]).args(argv).current_dir(scene.granted());
        command
    }
}

/// As one word of a shell.
pub(crate) fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}
