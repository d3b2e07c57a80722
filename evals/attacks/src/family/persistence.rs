//! What a run leaves for programs of the host: files with privileges, and what git executes.

use super::filesystem::must_be_root;
use crate::attack::Family::Persistence;
use crate::attack::{Attack, CannotBite, PYTHON, Staged};
use crate::judge::Judge;
use crate::launcher::quoted;
use crate::run::Run;
use crate::scene::Scene;
use agentkit_protocol::Control;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        Persistence,
        "set_user_id_by_chmod",
        "a program stays behind that runs with your rights for whoever starts it",
        &[Control::SyscallsFiltered],
        set_user_id_by_chmod,
    ),
    Attack::new(
        Persistence,
        "set_user_id_by_fchmod",
        "a program stays behind that runs with your rights, made so by an open file",
        &[Control::SyscallsFiltered],
        set_user_id_by_fchmod,
    ),
    Attack::new(
        Persistence,
        "set_group_id_by_fchmodat2",
        "a program stays behind that runs with your group's rights, made so by a call that older filters do not know",
        &[Control::SyscallsFiltered],
        set_group_id_by_fchmodat2,
    ),
    Attack::new(
        Persistence,
        "set_user_id_by_open",
        "a program with your rights is made at once, without a change of its mode",
        &[Control::SyscallsFiltered],
        set_user_id_by_open,
    ),
    Attack::new(
        Persistence,
        "set_user_id_by_openat2",
        "a program with your rights stays behind, by a call whose mode no filter can see",
        &[Control::SyscallsFiltered],
        set_user_id_by_openat2,
    ),
    Attack::new(
        Persistence,
        "set_user_id_by_mknod",
        "a program with your rights stays behind, by the call that makes devices",
        &[Control::SyscallsFiltered],
        set_user_id_by_mknod,
    ),
    Attack::new(
        Persistence,
        "set_user_id_by_an_unnamed_file",
        "a program with your rights stays behind, which has no name until it is complete",
        &[Control::SyscallsFiltered],
        set_user_id_by_an_unnamed_file,
    ),
    Attack::new(
        Persistence,
        "set_user_id_by_io_uring",
        "a program with your rights stays behind, without a call that a filter could see",
        &[Control::SyscallsFiltered],
        set_user_id_by_io_uring,
    ),
    Attack::new(
        Persistence,
        "file_capabilities",
        "a program stays behind that gives rights of root to whoever starts it",
        &[Control::PrivilegesDropped],
        file_capabilities,
    ),
    Attack::new(
        Persistence,
        "device_of_the_disk",
        "a device stays behind by which your whole disk can be read, past all permissions",
        &[Control::PrivilegesDropped],
        device_of_the_disk,
    ),
    Attack::new(
        Persistence,
        "git_hook",
        "your next commit executes what code that you ran has planted",
        &[Control::FilesystemConfined],
        git_hook,
    ),
    Attack::new(
        Persistence,
        "git_hook_kept_in_the_tree",
        "your next commit executes what was planted among the hooks that a project keeps in its tree",
        &[Control::FilesystemConfined],
        git_hook_kept_in_the_tree,
    ),
    Attack::new(
        Persistence,
        "git_setting",
        "a mere git status executes what code that you ran has planted",
        &[Control::FilesystemConfined],
        git_setting,
    ),
    Attack::new(
        Persistence,
        "git_common_directory",
        "your next commit executes the hooks of another repository, to which git was led",
        &[Control::FilesystemConfined],
        git_common_directory,
    ),
    Attack::new(
        Persistence,
        "git_repository_further_down",
        "your next commit in a directory that had no repository executes what was planted",
        &[Control::FilesystemConfined],
        git_repository_further_down,
    ),
    Attack::new(
        Persistence,
        "git_bare_repository_further_down",
        "a mere git status executes what was planted as ordinary files, which git takes for a repository",
        &[Control::FilesystemConfined],
        git_bare_repository_further_down,
    ),
    Attack::new(
        Persistence,
        "git_file_that_leads_to_a_repository",
        "your next commit executes what was planted where a file has led git to",
        &[Control::FilesystemConfined],
        git_file_that_leads_to_a_repository,
    ),
    Attack::new(
        Persistence,
        "git_writes_through_a_link",
        "your next commit overwrites a file of your home",
        &[Control::FilesystemConfined],
        git_writes_through_a_link,
    ),
    Attack::new(
        Persistence,
        "python_startup_of_the_user",
        "every Python that you start executes what was planted among your own packages",
        &[Control::FilesystemConfined],
        python_startup_of_the_user,
    ),
    Attack::new(
        Persistence,
        "python_bytecode_of_a_module",
        "your Python executes something else than the module that you read, and never looks at its source",
        &[Control::FilesystemConfined],
        python_bytecode_of_a_module,
    ),
];

/// The file lends the rights of its owner to whoever runs it, or is a device: evidence, if so.
fn danger(path: &Path) -> Option<String> {
    let meta = path.symlink_metadata().ok()?;
    let (kind, mode) = (meta.file_type(), meta.permissions().mode());
    let lends = kind.is_file() && mode & 0o6000 != 0;
    let is_device = kind.is_char_device() || kind.is_block_device();
    (lends || is_device).then(|| format!("a file of mode {mode:o} is there"))
}

/// The attacker `way` must not leave such a file in its directory. It is told the path and what else it has to know.
fn plants(scene: &Scene, way: &str, more: &[&OsStr]) -> Result<Staged, CannotBite> {
    let planted = scene.granted().join("planted");
    let words = [OsStr::new(way), planted.as_os_str()];
    let argv: Vec<OsString> = words.iter().chain(more).map(OsString::from).collect();
    Ok(Staged::new(argv, move |_: &Run| danger(&planted)))
}

fn set_user_id_by_chmod(scene: &Scene) -> Result<Staged, CannotBite> {
    fs::write(scene.granted().join("planted"), "")?;
    plants(scene, "chmod", &[OsStr::new("4755")])
}

fn set_user_id_by_fchmod(scene: &Scene) -> Result<Staged, CannotBite> {
    plants(scene, "plant_by_fchmod", &[])
}

fn set_group_id_by_fchmodat2(scene: &Scene) -> Result<Staged, CannotBite> {
    plants(scene, "plant_by_fchmodat2", &[])
}

fn set_user_id_by_open(scene: &Scene) -> Result<Staged, CannotBite> {
    plants(scene, "plant_by_open", &[])
}

fn set_user_id_by_openat2(scene: &Scene) -> Result<Staged, CannotBite> {
    plants(scene, "plant_by_openat2", &[])
}

fn set_user_id_by_mknod(scene: &Scene) -> Result<Staged, CannotBite> {
    plants(scene, "plant_by_mknod", &[])
}

fn set_user_id_by_an_unnamed_file(scene: &Scene) -> Result<Staged, CannotBite> {
    plants(scene, "plant_by_unnamed_file", &[scene.granted().as_os_str()])
}

fn set_user_id_by_io_uring(scene: &Scene) -> Result<Staged, CannotBite> {
    plants(scene, "plant_by_uring", &[])
}

fn file_capabilities(scene: &Scene) -> Result<Staged, CannotBite> {
    const NAME: &str = "security.capability";
    must_be_root("give capabilities to files")?;
    let planted = scene.granted().join("planted");
    fs::write(&planted, "")?;
    let tool = scene.tool()?;
    // A `struct vfs_cap_data` of version 2: CAP_SYS_ADMIN, effective.
    let value = "1,0,0,2,0,0,32,0,0,0,0,0,0,0,0,0,0,0,0,0";
    let argv = ["attribute".into(), planted.clone().into_os_string(), NAME.into(), value.into()];
    let judge = move |_: &Run| {
        let words = [OsStr::new("tool_attribute"), planted.as_os_str(), OsStr::new(NAME)];
        tool.look(&words).is_ok().then(|| "the file has capabilities".to_owned())
    };
    Ok(Staged::new(argv, judge))
}

fn device_of_the_disk(scene: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("make devices")?;
    plants(scene, "plant_device", &[scene.granted().as_os_str()])
}

/// What the host's git works on: the granted directory, or one in it.
struct Git {
    directory: PathBuf,
    /// It looks for repositories up to here.
    ceiling: PathBuf,
}

impl Git {
    /// Makes a repository of the granted directory.
    fn new(scene: &Scene) -> Result<Self, CannotBite> {
        let directory = scene.granted();
        let ceiling = directory.parent().unwrap_or(&directory).to_owned();
        let git = Git { directory, ceiling };
        if let Err(error) = git.run(&["--version"]) {
            return Err(CannotBite(format!("there is no git on this host: {error}")));
        }
        git.run(&["init", "-q"])?;
        git.commit()?;
        Ok(git)
    }

    /// Only what the attack left decides: neither settings of the user nor repositories further up.
    fn run(&self, arguments: &[&str]) -> io::Result<()> {
        Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "safe.directory=*"])
            .args(arguments)
            .current_dir(&self.directory)
            .env("GIT_CEILING_DIRECTORIES", &self.ceiling)
            .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")])
            .env_remove("GIT_DIR")
            .stdin(Stdio::null())
            .output()
            .map(drop)
    }

    fn commit(&self) -> io::Result<()> {
        self.run(&["commit", "-q", "--allow-empty", "-m", "message"])
    }
}

/// What is planted: a program that leaves a file where no attack could.
struct Plant {
    text: OsString,
    executed: PathBuf,
}

impl Plant {
    fn new(scene: &Scene) -> Self {
        let executed = scene.own().join("executed");
        let text = format!("#!/bin/sh\n: > {}\n", quoted(executed.as_os_str())).into();
        Plant { text, executed }
    }

    /// Settings that have git do the same, beside others of its core.
    fn setting(&self, others: &str) -> String {
        let executed = quoted(self.executed.as_os_str()).replace('\\', r"\\").replace('"', "\\\"");
        format!("[core]\n\tfsmonitor = \": > {executed} #\"\n{others}")
    }

    /// It must not be executed when the host works with git afterwards.
    fn judge(self, work: impl FnOnce() -> io::Result<()> + 'static) -> impl Judge {
        move |_: &Run| {
            // Where nothing was planted there may be nothing to work in.
            let _ = work();
            self.executed.exists().then(|| "the host's git executed what was planted".to_owned())
        }
    }
}

fn git_hook(scene: &Scene) -> Result<Staged, CannotBite> {
    let (git, plant) = (Git::new(scene)?, Plant::new(scene));
    let hook = git.directory.join(".git/hooks/pre-commit").into_os_string();
    let argv = ["plant_program".into(), hook, plant.text.clone()];
    Ok(Staged::new(argv, plant.judge(move || git.commit())))
}

fn git_hook_kept_in_the_tree(scene: &Scene) -> Result<Staged, CannotBite> {
    let (git, plant) = (Git::new(scene)?, Plant::new(scene));
    fs::create_dir(git.directory.join("hooks"))?;
    git.run(&["config", "core.hooksPath", "hooks"])?;
    let hook = git.directory.join("hooks/pre-commit").into_os_string();
    let argv = ["plant_program".into(), hook, plant.text.clone()];
    Ok(Staged::new(argv, plant.judge(move || git.commit())))
}

/// The host's settings name a program for git to start; the attacker adds that setting.
fn git_setting(scene: &Scene) -> Result<Staged, CannotBite> {
    let (git, plant) = (Git::new(scene)?, Plant::new(scene));
    let settings = git.directory.join(".git/config").into_os_string();
    let argv = ["append".into(), settings, plant.setting("").into()];
    Ok(Staged::new(argv, plant.judge(move || git.run(&["status"]))))
}

fn git_common_directory(scene: &Scene) -> Result<Staged, CannotBite> {
    let (git, plant) = (Git::new(scene)?, Plant::new(scene));
    let argv = ["plant_common_directory".into(), git.directory.clone().into(), plant.text.clone()];
    Ok(Staged::new(argv, plant.judge(move || git.commit())))
}

fn git_repository_further_down(scene: &Scene) -> Result<Staged, CannotBite> {
    let (mut git, plant) = (Git::new(scene)?, Plant::new(scene));
    git.directory.push("below");
    let argv = ["plant_repository".into(), git.directory.clone().into_os_string(), plant.text.clone()];
    Ok(Staged::new(argv, plant.judge(move || git.commit())))
}

fn git_bare_repository_further_down(scene: &Scene) -> Result<Staged, CannotBite> {
    let (mut git, plant) = (Git::new(scene)?, Plant::new(scene));
    git.directory.push("below");
    let settings = plant.setting("\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n");
    let argv = ["plant_bare_repository".into(), git.directory.clone().into_os_string(), settings.into()];
    Ok(Staged::new(argv, plant.judge(move || git.run(&["status"]))))
}

fn git_file_that_leads_to_a_repository(scene: &Scene) -> Result<Staged, CannotBite> {
    let (mut git, plant) = (Git::new(scene)?, Plant::new(scene));
    git.directory.push("below");
    let way = git.directory.clone().into_os_string();
    let argv = ["plant_way_to_repository".into(), way, plant.text.clone()];
    Ok(Staged::new(argv, plant.judge(move || git.commit())))
}

/// Git writes the message of a commit to a file in its repository.
fn git_writes_through_a_link(scene: &Scene) -> Result<Staged, CannotBite> {
    let git = Git::new(scene)?;
    let (path, content) = scene.canary()?;
    let message = git.directory.join(".git/COMMIT_EDITMSG").into_os_string();
    let argv = ["replace_by_link".into(), message, path.clone().into_os_string()];
    let judge = move |_: &Run| {
        // That it fails may be what the attack has come to.
        let _ = git.commit();
        let now = fs::read_to_string(&path).unwrap_or_default();
        (now != content).then(|| "the host's git overwrote the canary".to_owned())
    };
    Ok(Staged::new(argv, judge))
}

/// The user's Python, in a home where nothing is but what the attack left.
struct Python {
    home: PathBuf,
    executed: PathBuf,
}

impl Python {
    fn new(scene: &Scene) -> Self {
        Python { home: scene.secret(), executed: scene.own().join("executed") }
    }

    /// Executes a line in the home; returns what it prints.
    fn run(&self, line: &str) -> io::Result<String> {
        let mut command = Command::new(PYTHON);
        command.args(["-c", line]).current_dir(&self.home).env("HOME", &self.home).stdin(Stdio::null());
        Ok(String::from_utf8_lossy(&command.output()?.stdout).trim().to_owned())
    }

    /// `attack` plants code at a path which the user's Python tells. It must not be executed by a Python that the user
    /// starts afterwards.
    fn staged(self, attack: &str, path: &str, work: &'static str) -> Result<Staged, CannotBite> {
        let path = self.run(path).map_err(|error| CannotBite(format!("{PYTHON} cannot be run: {error}")))?;
        let code = format!("import os; os.mkdir({:?})\n", self.executed);
        let judge = move |_: &Run| {
            // That it fails may be what the attack has come to.
            let _ = self.run(work);
            self.executed.exists().then(|| "the host's Python executed what was planted".to_owned())
        };
        Staged::new([attack, &path, &code], judge).in_python()
    }
}

/// A line of a `.pth` file that begins with `import` is executed.
fn python_startup_of_the_user(scene: &Scene) -> Result<Staged, CannotBite> {
    let path = "import site; print(site.getusersitepackages() + '/planted.pth')";
    Python::new(scene).staged("plant", path, "pass")
}

fn python_bytecode_of_a_module(scene: &Scene) -> Result<Staged, CannotBite> {
    let python = Python::new(scene);
    fs::write(python.home.join("settings.py"), "")?;
    let path = "import importlib.util as u; print(u.cache_from_source(__import__('os').path.abspath('settings.py')))";
    python.staged("plant_bytecode", path, "import settings")
}
