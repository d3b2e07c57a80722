//! Who launches a jail. Root is the more dangerous launcher, an ordinary user the more common one.

use crate::support::Stop;
use crate::support::need::need;
use crate::support::user::{self, UNPRIVILEGED_ID};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where a user finds programs who has none of root's.
const PLAIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The superuser; only if that is who runs the tests.
    Root,
    /// Somebody without privileges: who runs the tests, or an id that nobody has if that is root.
    User,
}

impl Who {
    /// Everybody that these tests can launch as.
    pub(crate) fn everybody() -> &'static [Who] {
        if is_root() { &[Who::Root, Who::User] } else { &[Who::User] }
    }

    /// For names of tests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Root => "as_root",
            Who::User => "as_user",
        }
    }

    /// A skip unless it is root: others cannot do `what` even without a jail.
    pub(crate) fn must_be_root(self, what: &str) -> Result<(), Stop> {
        match self {
            Who::Root => Ok(()),
            Who::User => Err(Stop::Skip(format!("does not bite: without a jail, too, only root can {what}"))),
        }
    }

    /// `/bin/sh` as this user, with nothing in its environment but where programs are.
    pub(crate) fn shell(self) -> Result<Command, Stop> {
        let shell = Path::new("/bin/sh");
        let mut command = if self.is_another() { user::unprivileged(shell)? } else { Command::new(shell) };
        let own_path = std::env::var_os("PATH").filter(|_| !self.is_another());
        command.env_clear().env("PATH", own_path.unwrap_or_else(|| PLAIN_PATH.into()));
        Ok(command)
    }

    /// Gives a file or directory that these tests made to this user.
    pub(crate) fn own(self, path: &Path) -> io::Result<()> {
        let id = self.is_another().then_some(UNPRIVILEGED_ID);
        std::os::unix::fs::lchown(path, id, id)
    }

    /// Python as this user finds it, links and version managers resolved.
    pub(crate) fn python(self) -> Result<&'static Path, Stop> {
        static FOUND: [OnceLock<Option<PathBuf>>; 2] = [OnceLock::new(), OnceLock::new()];
        let found = FOUND[self as usize].get_or_init(|| self.find_python());
        found
            .as_deref()
            .ok_or_else(|| Stop::Skip(format!("there is no Python for a launcher {}", self.name())))
    }

    /// A skip unless this user can make what a jail is made of.
    pub(crate) fn can_launch(self) -> Result<(), Stop> {
        if self.is_another() {
            user::may_become_another()?;
        }
        static MET: [OnceLock<bool>; 2] = [OnceLock::new(), OnceLock::new()];
        if !MET[self as usize].get_or_init(|| self.can_unshare()) {
            return Err(Stop::Skip(format!("user namespaces are refused to a launcher {}", self.name())));
        }
        static NEEDS: OnceLock<()> = OnceLock::new();
        if NEEDS.get().is_none() {
            need("userns")?;
            need("seccomp")?;
            need("python")?;
        }
        NEEDS.get_or_init(|| ());
        Ok(())
    }

    /// Whether the tests have to become somebody else for it.
    fn is_another(self) -> bool {
        self == Who::User && is_root()
    }

    fn can_unshare(self) -> bool {
        // Where it is the tests' own user, `need` asks and may insist.
        !self.is_another()
            || self.says("unshare --user --map-root-user echo yes").is_some_and(|it| it == "yes")
    }

    /// The system's own before others: it starts fastest, and some suites start it hundreds of times.
    fn find_python(self) -> Option<PathBuf> {
        let script = "exec python3 -c 'import ctypes, sys; print(sys.executable)'";
        self.says(&format!("PATH={PLAIN_PATH}:$PATH; {script}")).map(PathBuf::from)
    }

    fn says(self, script: &str) -> Option<String> {
        let output = self.shell().ok()?.args(["-c", script]).current_dir("/").output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

fn is_root() -> bool {
    static ROOT: OnceLock<bool> = OnceLock::new();
    *ROOT.get_or_init(|| user::current_uid() == Ok(0))
}
