//! Where an attack takes place, and its two performances: without a jail, where it has to succeed, and in one.

use crate::jail::launch::{Launch, Running};
use crate::jail::run::Run;
use crate::jail::stage;
use crate::jail::who::Who;
use crate::support::{PATIENCE, Stop, eventually};
use agentkit_protocol::{Bytes, Policy, WorkDir};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PRELUDE: &str = include_str!("payload.py");

/// A launcher's corner of the host: `work` is what the jail is given, `home` and `neighbour` are what it is not.
pub(crate) struct Scene {
    pub(crate) who: Who,
    root: TempDir,
}

impl Scene {
    /// Sets it up, on a host that can have jails.
    pub(crate) fn new(who: Who) -> Result<Scene, Stop> {
        who.can_launch()?;
        let scene = Scene { who, root: stage::open_directory()? };
        who.own(scene.root.path())?;
        for name in ["work", "home", "neighbour", "outputs"] {
            fs::create_dir(scene.path(name))?;
            who.own(&scene.path(name))?;
        }
        Ok(scene)
    }

    /// Something in the corner, by its path below it.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// A file of the launcher's that all may read and write, and its unique content.
    pub(crate) fn canary(&self, below: &str) -> Result<String, Stop> {
        let content = stage::unique("canary");
        fs::write(self.path(below), &content)?;
        fs::set_permissions(self.path(below), fs::Permissions::from_mode(0o666))?;
        self.who.own(&self.path(below))?;
        Ok(content)
    }

    /// An attack: Python that follows `payload.py`.
    pub(crate) fn attack(&self, payload: &str) -> Attack<'_> {
        let marker = stage::unique("attack");
        let mut policy = Policy {
            workdir: WorkDir::Bind(Bytes::from(self.path("work"))),
            files: [("payload.py".to_owned(), Bytes::from(format!("{PRELUDE}{payload}")))].into(),
            ..Policy::new([] as [Bytes; 0])
        };
        // Also where others have the processors, or take room on the same disk.
        policy.limits.wall_ms = 60_000;
        policy.limits.disk = stage::ROOM_FOR_ALL;
        Attack {
            scene: self,
            arguments: Vec::new(),
            before: String::new(),
            env: Vec::new(),
            name: None,
            by_pipe: false,
            marker,
            policy,
        }
    }

    /// An empty work dir again.
    pub(crate) fn clear(&self) -> Result<(), Stop> {
        fs::remove_dir_all(self.path("work"))?;
        fs::create_dir(self.path("work"))?;
        Ok(self.who.own(&self.path("work"))?)
    }

    /// Waits until a payload holds, in the middle of its attack.
    pub(crate) fn wait_until_ready(&self) -> Result<(), Stop> {
        eventually("the payload is ready", PATIENCE, || self.path("work/ready").exists())
    }

    /// Lets a payload that holds go on to its end.
    pub(crate) fn release(&self) -> Result<(), Stop> {
        fs::write(self.path("work/release"), "")?;
        Ok(())
    }
}

/// An attack about to be performed.
pub(crate) struct Attack<'a> {
    scene: &'a Scene,
    arguments: Vec<OsString>,
    before: String,
    env: Vec<(String, OsString)>,
    name: Option<String>,
    by_pipe: bool,
    pub(crate) marker: String,
    /// What the jail is asked for, but for the command.
    pub(crate) policy: Policy,
}

impl Attack<'_> {
    /// Something that the attacker knows, in `arguments`.
    pub(crate) fn knows(mut self, value: impl Into<OsString>) -> Self {
        self.arguments.push(value.into());
        self
    }

    /// Nothing, for an attack that is performed again with other knowledge.
    pub(crate) fn forgets(mut self) -> Self {
        self.arguments.clear();
        self
    }

    /// Shell commands of the launcher.
    pub(crate) fn before(mut self, script: String) -> Self {
        self.before = script;
        self
    }

    /// A variable of the launcher.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Its output comes by a pipe, which whoever holds it keeps open.
    pub(crate) fn output_by_pipe(mut self) -> Self {
        self.by_pipe = true;
        self
    }

    /// Another first argument of the helper, or of the payload without a jail.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// A change of the policy.
    pub(crate) fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    /// Performs it without a jail.
    pub(crate) fn bare(&self) -> Result<Run, Stop> {
        self.start_bare()?.finish()
    }

    /// Performs it in a jail.
    pub(crate) fn jailed(&self) -> Result<Run, Stop> {
        self.start_jailed()?.finish()
    }

    /// Begins to perform it without a jail.
    pub(crate) fn start_bare(&self) -> Result<Running, Stop> {
        let payload = self.scene.path("payload.py");
        fs::write(&payload, &self.policy.files["payload.py"].0)?;
        self.launch().bare(&self.argv(&payload)?)
    }

    /// Begins to perform it in a jail.
    pub(crate) fn start_jailed(&self) -> Result<Running, Stop> {
        let argv = self.argv(Path::new("/tmp/payload.py"))?;
        let argv = argv.into_iter().map(|word| Bytes::from(word.as_encoded_bytes())).collect();
        self.launch().jail(&serde_json::to_vec(&Policy { argv, ..self.policy.clone() })?)
    }

    fn argv(&self, payload: &Path) -> Result<Vec<OsString>, Stop> {
        let python = self.scene.who.python()?;
        let head = [python.into(), "-IB".into(), payload.into(), OsString::from(&self.marker)];
        Ok(head.into_iter().chain(self.arguments.iter().cloned()).collect())
    }

    fn launch(&self) -> Launch<'_> {
        Launch {
            who: self.scene.who,
            outputs: self.scene.path("outputs"),
            directory: self.scene.path("work"),
            before: &self.before,
            name: self.name.as_deref(),
            by_pipe: self.by_pipe,
            env: [("HOME".to_owned(), self.scene.path("home").into())]
                .into_iter()
                .chain(self.env.clone())
                .collect(),
            marker: &self.marker,
        }
    }
}

/// Fails unless the attack succeeded where nothing stops it: an attack that cannot succeed proves nothing about a jail.
pub(crate) fn bites(succeeded: bool, run: &Run) -> Result<(), Stop> {
    if succeeded { Ok(()) } else { Err(Stop::Fail(format!("the attack fails without a jail, too: {run:?}"))) }
}
