//! The host's side of one attack: a directory that the launcher grants, and one that it does not.

use crate::unjudged::attacker;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The attacker in Python.
static SCRIPT: &str = include_str!("../payload/attacker.py");

/// Everything that one attack needs on the host; gone when it is dropped.
pub(crate) struct Scene {
    directory: TempDir,
}

impl Scene {
    /// Makes it in `base`, best a home: what sandboxes have to hide is there.
    pub(crate) fn new(base: &Path) -> io::Result<Self> {
        let scene =
            Scene { directory: tempfile::Builder::new().prefix(".agentkit-audit-").tempdir_in(base)? };
        for part in ["granted", "secret", "own"] {
            fs::create_dir(scene.path(part))?;
        }
        write_program(&scene.native(), attacker()?)?;
        fs::write(scene.script(), SCRIPT)?;
        Ok(scene)
    }

    fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(below)
    }

    /// The attack's directory, the `{dir}` of a launcher: all that it may change.
    pub(crate) fn granted(&self) -> PathBuf {
        self.path("granted")
    }

    /// The attacker as a program.
    pub(crate) fn native(&self) -> PathBuf {
        self.granted().join("attacker")
    }

    /// The attacker as a script of Python's.
    pub(crate) fn script(&self) -> PathBuf {
        self.granted().join("attacker.py")
    }

    /// The user's, which no launcher should show.
    pub(crate) fn secret(&self) -> PathBuf {
        self.path("secret")
    }

    /// For outputs and policies of the audit itself.
    pub(crate) fn own(&self) -> PathBuf {
        self.path("own")
    }

    /// Where an output stream of a launcher goes.
    pub(crate) fn output(&self, stream: &str) -> PathBuf {
        self.own().join(stream)
    }

    /// A file that tells an attacker that its judge has seen what there was to see.
    pub(crate) fn enough(&self) -> PathBuf {
        self.granted().join("enough")
    }

    /// A text that is nowhere else: it also marks the processes of this attack.
    pub(crate) fn marker(&self) -> &OsStr {
        self.directory.path().file_name().unwrap_or_default()
    }

    /// A file of the user with a content that nobody can guess; returns path and content.
    pub(crate) fn canary(&self) -> io::Result<(PathBuf, String)> {
        let path = self.secret().join("key");
        let content = format!("canary of {}", self.marker().display());
        fs::write(&path, &content)?;
        Ok((path, content))
    }

    /// The attacker as a tool of the host, for calls that std does not have. It lies where no attack aims.
    pub(crate) fn tool(&self) -> io::Result<Tool> {
        let program = self.own().join("tool");
        write_program(&program, attacker()?)?;
        Ok(Tool(program))
    }
}

/// Makes a program. Another process writes it: what another thread starts meanwhile would inherit our descriptor, and what
/// somebody has open for writing cannot be executed.
fn write_program(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut writer = Command::new("cp").arg("/dev/stdin").arg(path).stdin(Stdio::piped()).spawn()?;
    let written = writer.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(content));
    let status = writer.wait()?;
    written?;
    if !status.success() {
        return Err(io::Error::other(format!("{} is not written: cp ended with {status}", path.display())));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// See [`Scene::tool`].
pub(crate) struct Tool(PathBuf);

impl Tool {
    /// What it prints of something that it looks up, or why it cannot.
    pub(crate) fn look(&self, words: &[&OsStr]) -> io::Result<String> {
        let output = Command::new(&self.0).arg("tool").args(words).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match text.lines().collect::<Vec<_>>()[..] {
            ["trying", ref found @ .., "tried: done"] => Ok(found.join("\n")),
            _ => Err(io::Error::other(text)),
        }
    }
}
