//! Files outside the granted directory.

use crate::attack::Family::Filesystem;
use crate::attack::{Attack, CannotBite, Staged};
use crate::judge::Judge;
use crate::launcher::quoted;
use crate::run::Run;
use crate::scene::Scene;
use agentkit_protocol::Control;
use nix::unistd::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        Filesystem,
        "read_a_key",
        "code that you run reads the keys in your home",
        &[Control::FilesystemConfined],
        read_a_key,
    ),
    Attack::new(
        Filesystem,
        "read_another_work_dir",
        "code that you run for one task reads the files of another",
        &[Control::FilesystemConfined],
        read_another_work_dir,
    ),
    Attack::new(
        Filesystem,
        "read_the_password_hashes",
        "code that you run reads the hashes of every password, to guess them elsewhere",
        &[Control::FilesystemConfined],
        read_the_password_hashes,
    ),
    Attack::new(
        Filesystem,
        "read_by_a_symbolic_link",
        "a link in the work dir is enough to read your keys",
        &[Control::FilesystemConfined],
        read_by_a_symbolic_link,
    ),
    Attack::new(
        Filesystem,
        "read_by_a_hard_link",
        "code that you run makes your keys files of its own work dir",
        &[Control::FilesystemConfined],
        read_by_a_hard_link,
    ),
    Attack::new(
        Filesystem,
        "read_by_its_own_root",
        "the way over /proc leads around what is hidden",
        &[Control::FilesystemConfined],
        read_by_its_own_root,
    ),
    Attack::new(
        Filesystem,
        "read_by_the_root_of_another_process",
        "code that you run sees your files as your other programs see them",
        &[Control::ProcessesIsolated, Control::FilesystemConfined],
        read_by_the_root_of_another_process,
    ),
    Attack::new(
        Filesystem,
        "read_by_an_inherited_directory",
        "a directory that your program happens to hold open leads out of the sandbox",
        &[Control::EnvironmentScrubbed],
        read_by_an_inherited_directory,
    ),
    Attack::new(
        Filesystem,
        "read_by_a_file_handle",
        "a file is opened by its number on the disk, and no hidden path hides it",
        &[Control::PrivilegesDropped, Control::SyscallsFiltered],
        read_by_a_file_handle,
    ),
    Attack::new(
        Filesystem,
        "read_by_io_uring",
        "files are opened without a call that a filter could see",
        &[Control::FilesystemConfined, Control::SyscallsFiltered],
        read_by_io_uring,
    ),
    Attack::new(
        Filesystem,
        "read_above_the_root",
        "a sandbox that only changes the root is left by the way up",
        &[Control::FilesystemConfined],
        read_above_the_root,
    ),
    Attack::new(
        Filesystem,
        "append_to_a_file",
        "code that you run changes files in your home, such as what your shell executes",
        &[Control::FilesystemConfined],
        append_to_a_file,
    ),
    Attack::new(
        Filesystem,
        "append_by_a_symbolic_link",
        "a link in the work dir is enough to change your files",
        &[Control::FilesystemConfined],
        append_by_a_symbolic_link,
    ),
    Attack::new(
        Filesystem,
        "append_by_a_hard_link",
        "code that you run changes your files by names in its own work dir",
        &[Control::FilesystemConfined],
        append_by_a_hard_link,
    ),
    Attack::new(
        Filesystem,
        "append_by_its_input",
        "a file that is handed in to be read is changed by whoever reads it",
        &[Control::FilesystemConfined],
        append_by_its_input,
    ),
    Attack::new(
        Filesystem,
        "append_by_an_inherited_descriptor",
        "a file that your program happens to hold open for reading is changed",
        &[Control::EnvironmentScrubbed],
        append_by_an_inherited_descriptor,
    ),
    Attack::new(
        Filesystem,
        "empty_a_file",
        "code that you run destroys what you wrote",
        &[Control::FilesystemConfined],
        empty_a_file,
    ),
    Attack::new(
        Filesystem,
        "create_a_file",
        "code that you run places files where your programs find and execute them",
        &[Control::FilesystemConfined],
        create_a_file,
    ),
    Attack::new(
        Filesystem,
        "move_a_file_out",
        "code that you run puts its own file in the place of one of yours",
        &[Control::FilesystemConfined],
        move_a_file_out,
    ),
    Attack::new(
        Filesystem,
        "move_a_file_in",
        "code that you run takes your files away",
        &[Control::FilesystemConfined],
        move_a_file_in,
    ),
    Attack::new(
        Filesystem,
        "hard_link_a_file_out",
        "code that you run keeps a file within your home that it goes on changing",
        &[Control::FilesystemConfined],
        hard_link_a_file_out,
    ),
    Attack::new(
        Filesystem,
        "delete_a_file",
        "code that you run deletes your files",
        &[Control::FilesystemConfined],
        delete_a_file,
    ),
    Attack::new(
        Filesystem,
        "change_a_mode",
        "code that you run opens your files to every other account",
        &[Control::FilesystemConfined],
        change_a_mode,
    ),
    Attack::new(
        Filesystem,
        "change_times",
        "code that you run makes backups and builds overlook what changed",
        &[Control::FilesystemConfined],
        change_times,
    ),
    Attack::new(
        Filesystem,
        "set_an_attribute",
        "code that you run marks your files, and what reads the marks believes them",
        &[Control::FilesystemConfined],
        set_an_attribute,
    ),
    Attack::new(
        Filesystem,
        "write_by_a_mapping",
        "files are changed without a call that writes",
        &[Control::FilesystemConfined],
        write_by_a_mapping,
    ),
    Attack::new(
        Filesystem,
        "write_by_io_uring",
        "files are changed without a call that a filter could see",
        &[Control::FilesystemConfined, Control::SyscallsFiltered],
        write_by_io_uring,
    ),
    Attack::new(
        Filesystem,
        "write_by_a_bind_mount",
        "what was shown read-only is made writable again in a nested namespace",
        &[Control::FilesystemConfined, Control::SyscallsFiltered],
        write_by_a_bind_mount,
    ),
    Attack::new(
        Filesystem,
        "write_by_a_detached_mount",
        "what was shown read-only is made writable again by calls that older filters do not know",
        &[Control::FilesystemConfined, Control::SyscallsFiltered],
        write_by_a_detached_mount,
    ),
    Attack::new(
        Filesystem,
        "mount_over_a_file",
        "every program of your machine reads something else than your file",
        &[Control::PrivilegesDropped, Control::FilesystemConfined],
        mount_over_a_file,
    ),
    Attack::new(
        Filesystem,
        "write_to_a_system_directory",
        "code that you run changes the programs of your machine",
        &[Control::FilesystemConfined, Control::PrivilegesDropped],
        write_to_a_system_directory,
    ),
    Attack::new(
        Filesystem,
        "leave_a_file_in_tmp",
        "code that you run places files where other programs keep theirs",
        &[Control::FilesystemConfined],
        leave_a_file_in_tmp,
    ),
    Attack::new(
        Filesystem,
        "leave_a_file_in_shared_memory",
        "code that you run fills and changes the memory that other programs share",
        &[Control::FilesystemConfined],
        leave_a_file_in_shared_memory,
    ),
    Attack::new(
        Filesystem,
        "replace_the_directory_by_a_link",
        "the next program that works in the directory works on your home",
        &[Control::FilesystemConfined],
        replace_the_directory_by_a_link,
    ),
    Attack::new(
        Filesystem,
        "python_read_below_an_inherited_directory",
        "a script leaves the sandbox by a directory that your program happens to hold open",
        &[Control::EnvironmentScrubbed],
        python_read_below_an_inherited_directory,
    ),
    Attack::new(
        Filesystem,
        "python_leave_shared_memory",
        "a script leaves memory behind that no process has, in spite of what Python does against it",
        &[Control::FilesystemConfined],
        python_leave_shared_memory,
    ),
    Attack::new(
        Filesystem,
        "python_change_shared_memory",
        "a script changes what your other programs compute on together",
        &[Control::FilesystemConfined],
        python_change_shared_memory,
    ),
    Attack::new(
        Filesystem,
        "python_environment_that_names_its_base",
        "a virtual environment in the work dir names one of your directories as its Python, and is shown it",
        &[Control::FilesystemConfined],
        python_environment_that_names_its_base,
    ),
    Attack::new(
        Filesystem,
        "python_environment_that_links_to_its_base",
        "a virtual environment in the work dir has its library by a link to one of your directories, and is shown it",
        &[Control::FilesystemConfined],
        python_environment_that_links_to_its_base,
    ),
];

/// An attack that cannot succeed without root's rights proves nothing to anybody else.
pub(super) fn must_be_root(what: &str) -> Result<(), CannotBite> {
    let refuse = || CannotBite(format!("only root can {what}"));
    geteuid().is_root().then_some(()).ok_or_else(refuse)
}

/// Whether a text that is nowhere else came out.
fn came_out(canary: String) -> impl Judge {
    move |run: &Run| run.contains(&canary).then(|| "the canary came out".to_owned())
}

/// The attacker `way`, told the path of a canary and what else it has to know, must not give it out.
fn reads(scene: &Scene, way: &str, more: &[&OsStr]) -> Result<Staged, CannotBite> {
    let (path, content) = scene.canary()?;
    let words = [OsStr::new(way), path.as_os_str()];
    Ok(Staged::new(words.iter().chain(more), came_out(content)))
}

fn read_a_key(scene: &Scene) -> Result<Staged, CannotBite> {
    reads(scene, "read", &[])
}

fn read_another_work_dir(scene: &Scene) -> Result<Staged, CannotBite> {
    let (_, content) = scene.canary()?;
    let neighbour = scene.granted().with_file_name("granted-to-another");
    fs::create_dir(&neighbour)?;
    let path = neighbour.join("file");
    fs::write(&path, &content)?;
    Ok(Staged::new(["read".into(), path.into_os_string()], came_out(content)))
}

fn read_the_password_hashes(_: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("read the hashes of passwords")?;
    // All of it: single lines are the same everywhere, and a sandbox may show a file of its own.
    let text = fs::read_to_string("/etc/shadow")?;
    if text.trim().is_empty() {
        return Err(CannotBite("there are no hashes of passwords here".to_owned()));
    }
    let judge = move |run: &Run| run.contains(&text).then(|| "the file came out".to_owned());
    Ok(Staged::new(["read", "/etc/shadow"], judge))
}

fn read_by_a_symbolic_link(scene: &Scene) -> Result<Staged, CannotBite> {
    reads(scene, "read_by_symbolic_link", &[scene.granted().join("link").as_os_str()])
}

fn read_by_a_hard_link(scene: &Scene) -> Result<Staged, CannotBite> {
    reads(scene, "read_by_hard_link", &[scene.granted().join("link").as_os_str()])
}

fn read_by_its_own_root(scene: &Scene) -> Result<Staged, CannotBite> {
    let (path, content) = scene.canary()?;
    let mut around = OsString::from("/proc/self/root");
    around.push(path);
    Ok(Staged::new(["read".into(), around], came_out(content)))
}

/// There always is another process of the same user: the one that performs the attack.
fn read_by_the_root_of_another_process(scene: &Scene) -> Result<Staged, CannotBite> {
    reads(scene, "read_by_processes", &[])
}

fn read_by_an_inherited_directory(scene: &Scene) -> Result<Staged, CannotBite> {
    let (_, content) = scene.canary()?;
    let staged = Staged::new(["read_by_descriptors", "key"], came_out(content));
    Ok(staged.before(format!("exec 7<{}", quoted(scene.secret().as_os_str()))))
}

/// The host tells the handle, since inside there may be no path to get it from: handles can be guessed.
fn read_by_a_file_handle(scene: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("open files by their handles")?;
    let (path, content) = scene.canary()?;
    let handle = scene.tool()?.look(&[OsStr::new("tool_handle"), path.as_os_str()])?;
    let argv = ["read_by_handle".into(), scene.granted().into_os_string(), handle.into()];
    Ok(Staged::new(argv, came_out(content)))
}

fn read_by_io_uring(scene: &Scene) -> Result<Staged, CannotBite> {
    reads(scene, "read_by_uring", &[])
}

fn read_above_the_root(scene: &Scene) -> Result<Staged, CannotBite> {
    reads(scene, "read_above_the_root", &[scene.granted().join("root").as_os_str()])
}

/// Names, modes, numbers of links, dates and contents of what lies in the user's directory.
fn picture(directory: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let meta = path.symlink_metadata()?;
        let content = fs::read(&path).unwrap_or_default();
        let dates = (meta.mtime(), meta.mtime_nsec());
        files.push(format!("{path:?} {:o} {} {dates:?} {content:?}", meta.mode(), meta.nlink()));
    }
    files.sort();
    Ok(files)
}

/// The attacker must not change anything in the user's directory, where a canary is now.
fn changes(scene: &Scene, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Staged, CannotBite> {
    scene.canary()?;
    let secret = scene.secret();
    let before = picture(&secret)?;
    let judge = move |_: &Run| match picture(&secret) {
        Ok(now) if now == before => None,
        Ok(_) => Some("what lies outside was changed".to_owned()),
        Err(error) => Some(format!("what lies outside cannot be read any more: {error}")),
    };
    Ok(Staged::new(argv, judge))
}

/// The path of the canary, for attackers who are told it.
fn key(scene: &Scene) -> OsString {
    scene.secret().join("key").into_os_string()
}

/// A file that the attacker may change.
fn own_file(scene: &Scene) -> io::Result<OsString> {
    let path = scene.granted().join("own");
    fs::write(&path, "the attacker's")?;
    Ok(path.into_os_string())
}

fn link(scene: &Scene) -> OsString {
    scene.granted().join("link").into_os_string()
}

fn append_to_a_file(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["append".into(), key(scene), "x".into()])
}

fn append_by_a_symbolic_link(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["append_by_symbolic_link".into(), key(scene), link(scene), "x".into()])
}

fn append_by_a_hard_link(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["append_by_hard_link".into(), key(scene), link(scene), "x".into()])
}

fn append_by_its_input(scene: &Scene) -> Result<Staged, CannotBite> {
    let staged = changes(scene, ["append", "/proc/self/fd/0", "x"])?;
    Ok(staged.before(format!("exec <{}", quoted(&key(scene)))))
}

fn append_by_an_inherited_descriptor(scene: &Scene) -> Result<Staged, CannotBite> {
    // Only that one: the others may be files of whoever performs the attack.
    let staged = changes(scene, ["append", "/proc/self/fd/7", "x"])?;
    Ok(staged.before(format!("exec 7<{}", quoted(&key(scene)))))
}

fn empty_a_file(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["write".into(), key(scene), "".into()])
}

fn create_a_file(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["write".into(), scene.secret().join("new").into_os_string(), "x".into()])
}

fn move_a_file_out(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["rename".into(), own_file(scene)?, key(scene)])
}

fn move_a_file_in(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["rename".into(), key(scene), scene.granted().join("mine").into_os_string()])
}

fn hard_link_a_file_out(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["hard_link".into(), own_file(scene)?, scene.secret().join("new").into_os_string()])
}

fn delete_a_file(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["remove".into(), key(scene)])
}

fn change_a_mode(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["chmod".into(), key(scene), "777".into()])
}

fn change_times(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["age".into(), key(scene)])
}

fn set_an_attribute(scene: &Scene) -> Result<Staged, CannotBite> {
    let (path, _) = scene.canary()?;
    let tool = scene.tool()?;
    let argv = ["attribute".into(), path.clone().into_os_string(), "user.mark".into(), "1".into()];
    let judge = move |_: &Run| {
        let words = [OsStr::new("tool_attribute"), path.as_os_str(), OsStr::new("user.mark")];
        tool.look(&words).is_ok().then(|| "the file has the attribute".to_owned())
    };
    Ok(Staged::new(argv, judge))
}

fn write_by_a_mapping(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["write_by_mapping".into(), key(scene), own_file(scene)?])
}

fn write_by_io_uring(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["write_by_uring".into(), key(scene)])
}

fn write_by_a_bind_mount(scene: &Scene) -> Result<Staged, CannotBite> {
    let words = [scene.secret(), scene.granted().join("mounted")].map(PathBuf::into_os_string);
    changes(scene, ["write_by_bind_mount".into()].into_iter().chain(words).chain(["key".into()]))
}

fn write_by_a_detached_mount(scene: &Scene) -> Result<Staged, CannotBite> {
    changes(scene, ["write_by_detached_mount".into(), scene.secret().into_os_string(), "key".into()])
}

/// What an attacker may have mounted there for everybody. It is unmounted when this is dropped.
struct MountPoint(PathBuf);

impl Drop for MountPoint {
    fn drop(&mut self) {
        // Usually nothing is mounted: that was the attack.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn mount_over_a_file(scene: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("mount for everybody")?;
    let (path, content) = scene.canary()?;
    let argv = ["mount_over".into(), own_file(scene)?, path.clone().into_os_string()];
    let place = MountPoint(path);
    let judge = move |_: &Run| {
        let now = fs::read_to_string(&place.0).unwrap_or_default();
        (now != content).then(|| "the host reads another file".to_owned())
    };
    Ok(Staged::new(argv, judge))
}

/// A file that only the attacker can have made. It is gone when this is dropped.
struct Planted(PathBuf);

impl Drop for Planted {
    fn drop(&mut self) {
        // Usually it was never there: that was the attack.
        let _ = fs::remove_file(&self.0);
    }
}

impl Planted {
    fn judge(self) -> impl Judge {
        move |_: &Run| self.0.exists().then(|| format!("{} is there", self.0.display()))
    }
}

/// The attacker must not leave a file of a name that nobody else uses in a directory of everybody.
fn leaves_a_file(scene: &Scene, directory: &str) -> Result<Staged, CannotBite> {
    let planted = Planted(Path::new(directory).join(scene.marker()));
    let argv = ["write".into(), planted.0.clone().into_os_string(), "x".into()];
    Ok(Staged::new(argv, planted.judge()))
}

fn write_to_a_system_directory(scene: &Scene) -> Result<Staged, CannotBite> {
    must_be_root("write to the directories of the system")?;
    leaves_a_file(scene, "/usr")
}

fn leave_a_file_in_tmp(scene: &Scene) -> Result<Staged, CannotBite> {
    leaves_a_file(scene, "/tmp")
}

fn leave_a_file_in_shared_memory(scene: &Scene) -> Result<Staged, CannotBite> {
    leaves_a_file(scene, "/dev/shm")
}

fn replace_the_directory_by_a_link(scene: &Scene) -> Result<Staged, CannotBite> {
    let granted = scene.granted();
    let argv = ["replace_by_link".into(), granted.clone().into(), scene.secret().into_os_string()];
    let judge = move |_: &Run| granted.is_symlink().then(|| "the granted directory is a link".to_owned());
    Ok(Staged::new(argv, judge))
}

fn python_read_below_an_inherited_directory(scene: &Scene) -> Result<Staged, CannotBite> {
    let (_, content) = scene.canary()?;
    let staged = Staged::new(["read_below_descriptors", "key"], came_out(content));
    staged.before(format!("exec 7<{}", quoted(scene.secret().as_os_str()))).in_python()
}

/// Where the C library keeps memory that has a name.
const SHARED_MEMORY: &str = "/dev/shm";

fn python_leave_shared_memory(scene: &Scene) -> Result<Staged, CannotBite> {
    let planted = Planted(Path::new(SHARED_MEMORY).join(scene.marker()));
    let argv = ["leave_shared_memory".as_ref(), scene.marker()];
    Staged::new(argv, planted.judge()).in_python()
}

fn python_change_shared_memory(scene: &Scene) -> Result<Staged, CannotBite> {
    const CONTENT: &str = "shared by programs of the user";
    let memory = Planted(Path::new(SHARED_MEMORY).join(scene.marker()));
    fs::write(&memory.0, CONTENT)?;
    let argv = ["change_shared_memory".as_ref(), scene.marker()];
    let judge = move |_: &Run| {
        let now = fs::read_to_string(&memory.0).unwrap_or_default();
        (now != CONTENT).then(|| "the memory was changed".to_owned())
    };
    Staged::new(argv, judge).in_python()
}

/// What an earlier run has left in the granted directory: a virtual environment that this one is started from. What looks
/// like its Python is the native attacker, which needs no library. Launchers look for an interpreter's home by the names
/// of files, and what the environment says is its home looks like one by those. Returns the environment and that home.
fn planted_environment(scene: &Scene) -> io::Result<(PathBuf, PathBuf)> {
    let (environment, home) = (scene.granted().join("venv"), scene.secret());
    for directory in [environment.join("bin"), home.join("bin"), home.join("lib/python3")] {
        fs::create_dir_all(directory)?;
    }
    fs::copy(scene.native(), environment.join("bin/python"))?;
    fs::copy(scene.native(), home.join("bin/python"))?;
    fs::write(home.join("lib/python3/os.py"), "")?;
    Ok((environment, home))
}

/// A key among what such a home has to show.
fn key_in_library(home: &Path, scene: &Scene) -> io::Result<String> {
    let (key, content) = scene.canary()?;
    fs::rename(key, home.join("lib/key"))?;
    Ok(content)
}

fn python_environment_that_names_its_base(scene: &Scene) -> Result<Staged, CannotBite> {
    let (environment, home) = planted_environment(scene)?;
    let content = key_in_library(&home, scene)?;
    let settings = format!("home = {}\nversion = 3\n", home.join("bin").display());
    fs::write(environment.join("pyvenv.cfg"), settings)?;
    let argv = ["read".into(), home.join("lib/key")];
    Ok(Staged::new(argv, came_out(content)).by_copy(environment.join("bin/python")))
}

fn python_environment_that_links_to_its_base(scene: &Scene) -> Result<Staged, CannotBite> {
    let (environment, home) = planted_environment(scene)?;
    let content = key_in_library(&home, scene)?;
    symlink(home.join("lib"), environment.join("lib"))?;
    // Only for a launcher that asks for it: this one names what is there anyway.
    fs::write(environment.join("pyvenv.cfg"), "home = /usr/bin\n")?;
    let argv = ["read".into(), environment.join("lib/key")];
    Ok(Staged::new(argv, came_out(content)).by_copy(environment.join("bin/python")))
}
