//! What the launcher did not mean to tell.

use crate::attack::Family::Leakage;
use crate::attack::{Attack, CannotBite, Staged};
use crate::judge::Evidence;
use crate::launcher::quoted;
use crate::run::Run;
use crate::scene::{Scene, Tool};
use crate::victim::Victim;
use agentkit_protocol::Control;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        Leakage,
        "read_a_secret_variable",
        "code that you run gets the keys in your environment, such as those of your model's provider",
        &[Control::EnvironmentScrubbed],
        read_a_secret_variable,
    ),
    Attack::new(
        Leakage,
        "read_the_environment_of_a_launcher",
        "code that you run finds your keys in the environment of what launched it",
        &[Control::EnvironmentScrubbed, Control::ProcessesIsolated],
        read_the_environment_of_a_launcher,
    ),
    Attack::new(
        Leakage,
        "read_the_environment_of_a_process",
        "code that you run finds keys in the environments of your other programs",
        &[Control::ProcessesIsolated],
        read_the_environment_of_a_process,
    ),
    Attack::new(
        Leakage,
        "read_the_arguments_of_a_process",
        "code that you run reads what your other programs were called with, passwords too",
        &[Control::ProcessesIsolated],
        read_the_arguments_of_a_process,
    ),
    Attack::new(
        Leakage,
        "read_an_inherited_file",
        "code that you run reads a file that whatever called the launcher had open",
        &[Control::EnvironmentScrubbed],
        read_an_inherited_file,
    ),
    Attack::new(
        Leakage,
        "open_below_an_inherited_directory",
        "code that you run opens your files by a directory that whatever called the launcher had open",
        &[Control::EnvironmentScrubbed],
        open_below_an_inherited_directory,
    ),
    Attack::new(
        Leakage,
        "write_to_an_inherited_file",
        "code that you run changes a file that whatever called the launcher had open",
        &[Control::EnvironmentScrubbed],
        write_to_an_inherited_file,
    ),
    Attack::new(
        Leakage,
        "name_an_inherited_file",
        "code that you run learns what you work on from the names of open files",
        &[Control::EnvironmentScrubbed],
        name_an_inherited_file,
    ),
    Attack::new(
        Leakage,
        "write_to_the_standard_input",
        "code that you run changes the file that it was only given to read",
        &[Control::FilesystemConfined],
        write_to_the_standard_input,
    ),
    Attack::new(
        Leakage,
        "read_back_the_standard_error",
        "code that you run reads the log that it was only given to append to",
        &[Control::FilesystemConfined],
        read_back_the_standard_error,
    ),
    Attack::new(
        Leakage,
        "learn_the_host_name",
        "code that you run learns whose machine it is on",
        &[Control::EnvironmentScrubbed],
        learn_the_host_name,
    ),
    Attack::new(
        Leakage,
        "learn_the_machine_id",
        "code that you run recognises your machine again, whatever else changes",
        &[Control::FilesystemConfined],
        learn_the_machine_id,
    ),
    Attack::new(
        Leakage,
        "learn_the_boot_id",
        "code that you run sees that two of its runs, for two people perhaps, share a machine",
        &[Control::FilesystemConfined],
        learn_the_boot_id,
    ),
    Attack::new(
        Leakage,
        "learn_the_boot_options",
        "code that you run learns how your machine starts: its disks, and which defences are off",
        &[Control::FilesystemConfined],
        learn_the_boot_options,
    ),
    Attack::new(
        Leakage,
        "read_the_kernel_log",
        "code that you run reads of your devices, your crashes and the addresses that exploits need",
        &[Control::SyscallsFiltered, Control::PrivilegesDropped],
        read_the_kernel_log,
    ),
    Attack::new(
        Leakage,
        "read_kernel_addresses",
        "code that you run learns the kernel's addresses, which an exploit needs",
        &[Control::FilesystemConfined, Control::PrivilegesDropped],
        read_kernel_addresses,
    ),
    Attack::new(
        Leakage,
        "learn_the_mounts",
        "code that you run learns the disks and shares of your machine, and where they are",
        &[Control::FilesystemConfined],
        learn_the_mounts,
    ),
    Attack::new(
        Leakage,
        "read_a_key_of_the_keyring",
        "code that you run reads what your session keeps in the kernel, such as keys of file systems",
        &[Control::SyscallsFiltered],
        read_a_key_of_the_keyring,
    ),
    Attack::new(
        Leakage,
        "find_a_key_of_the_keyring",
        "code that you run finds by its name what your session keeps in the kernel, and may use it",
        &[Control::SyscallsFiltered],
        find_a_key_of_the_keyring,
    ),
    Attack::new(
        Leakage,
        "read_a_message_queue",
        "code that you run takes the messages that your programs send each other through the kernel",
        &[Control::ProcessesIsolated, Control::SyscallsFiltered],
        read_a_message_queue,
    ),
    Attack::new(
        Leakage,
        "python_environments_of_its_ancestors",
        "a script finds your keys in the environment of what launched it, or of what launched that",
        &[Control::EnvironmentScrubbed, Control::ProcessesIsolated],
        |scene| secret_variable(scene, "environments_of_ancestors")?.in_python(),
    ),
    Attack::new(
        Leakage,
        "python_follow_its_variables",
        "a script is led to your own modules by the variables that tell your Python where they are",
        &[Control::EnvironmentScrubbed, Control::FilesystemConfined],
        python_follow_its_variables,
    ),
];

type Stage = Result<Staged, CannotBite>;

fn read_a_secret_variable(scene: &Scene) -> Stage {
    secret_variable(scene, "environment")
}

/// Without a sandbox the attacker became the launcher, so its own environment is that.
fn read_the_environment_of_a_launcher(scene: &Scene) -> Stage {
    secret_variable(scene, "environments")
}

fn secret_variable(scene: &Scene, attack: &str) -> Stage {
    let secret = secret(scene);
    Ok(leaks([attack], &secret).before(format!("export API_KEY={}", quoted(secret.as_ref()))))
}

fn read_the_environment_of_a_process(scene: &Scene) -> Stage {
    let secret = secret(scene);
    let victim = Victim::new(Command::new("sleep").arg("60").env("API_KEY", &secret))?;
    Ok(leaks_while(["environments"], &secret, victim))
}

fn read_the_arguments_of_a_process(scene: &Scene) -> Stage {
    let secret = secret(scene);
    let victim = Victim::new(Command::new("sleep").arg0(&secret).arg("60"))?;
    Ok(leaks_while(["command_lines"], &secret, victim))
}

fn read_an_inherited_file(scene: &Scene) -> Stage {
    let (path, content) = scene.canary()?;
    Ok(leaks(["read_descriptors"], &content).before(format!("exec 7<{}", quoted(path.as_os_str()))))
}

fn open_below_an_inherited_directory(scene: &Scene) -> Stage {
    let (path, content) = scene.canary()?;
    let name = path.file_name().unwrap_or_default();
    let before = format!("exec 7<{}", quoted(scene.secret().as_os_str()));
    Ok(leaks(["open_below_descriptors".as_ref(), name], &content).before(before))
}

fn write_to_an_inherited_file(scene: &Scene) -> Stage {
    changes(scene, ["write_descriptor", "7"], |path| format!("exec 7>>{path}"))
}

fn name_an_inherited_file(scene: &Scene) -> Stage {
    let (path, _) = scene.canary()?;
    let name = path.to_string_lossy().into_owned();
    Ok(leaks(["name_descriptors"], &name).before(format!("exec 7<{}", quoted(path.as_os_str()))))
}

fn write_to_the_standard_input(scene: &Scene) -> Stage {
    changes(scene, ["reopen_for_writing"], |path| format!("exec <{path}"))
}

fn read_back_the_standard_error(scene: &Scene) -> Stage {
    let (path, content) = scene.canary()?;
    Ok(leaks(["reopen_for_reading"], &content).before(format!("exec 2>>{}", quoted(path.as_os_str()))))
}

fn learn_the_host_name(_: &Scene) -> Stage {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let name = name.trim();
    if name.is_empty() || name == "localhost" {
        return Err(CannotBite(format!("this host is called {name:?}, like any other")));
    }
    Ok(leaks(["tell_host_name"], &format!("<{name}>")))
}

fn learn_the_machine_id(_: &Scene) -> Stage {
    telling_file("/etc/machine-id")
}

fn learn_the_boot_id(_: &Scene) -> Stage {
    telling_file("/proc/sys/kernel/random/boot_id")
}

fn learn_the_boot_options(_: &Scene) -> Stage {
    telling_file("/proc/cmdline")
}

/// The content of a file that is another on each machine.
fn telling_file(file: &str) -> Stage {
    let content = fs::read_to_string(file).unwrap_or_default();
    // A short one would be found anywhere.
    match content.trim() {
        text if text.len() < 16 => Err(CannotBite(format!("{file} tells nothing on this host"))),
        text => Ok(leaks(["read", file], text)),
    }
}

fn read_the_kernel_log(_: &Scene) -> Stage {
    let records = kernel_log().map_err(|error| {
        CannotBite(format!("the kernel's log is shown to privileged users only: {error}"))
    })?;
    let message = |record: &String| Some(record.lines().next()?.split_once(';')?.1.to_owned());
    let last = records.iter().rev().filter_map(message).find(|message| message.len() > 20);
    let last = last.ok_or_else(|| CannotBite("the kernel's log is empty".to_owned()))?;
    Ok(leaks(["tell_kernel_log"], &last))
}

/// The records that are there now.
fn kernel_log() -> io::Result<Vec<String>> {
    let nonblock = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let mut log = OpenOptions::new().read(true).custom_flags(nonblock).open("/dev/kmsg")?;
    let mut buffer = [0; 8192];
    let mut records = Vec::new();
    while let Ok(length) = log.read(&mut buffer) {
        records.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    Ok(records)
}

fn read_kernel_addresses(_: &Scene) -> Stage {
    let mut text = String::new();
    fs::File::open("/proc/kallsyms")?.take(4096).read_to_string(&mut text)?;
    let is_told = |line: &&str| line.bytes().take_while(|byte| *byte != b' ').any(|digit| digit != b'0');
    match text.lines().find(is_told) {
        Some(line) => Ok(leaks(["kernel_symbols"], line)),
        None => Err(CannotBite("this host tells this user no addresses of the kernel".to_owned())),
    }
}

/// What came out has to be the host's mount, not one that the sandbox has made at the same place: that is on another
/// device.
fn learn_the_mounts(scene: &Scene) -> Stage {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mut mounts =
        mounts.lines().filter_map(|line| line.split(' ').skip(2).take(3).collect::<Vec<_>>().try_into().ok());
    match mounts.find(|[_, _, point]: &[&str; 3]| tells_of_the_host(Path::new(point), scene)) {
        Some([device, root, point]) => Ok(leaks(["mounts"], &format!(" {device} {root} {point} "))),
        None => Err(CannotBite("this host mounts nothing that is not mounted everywhere".to_owned())),
    }
}

/// Not one that a sandbox has of its own, or has to show.
fn tells_of_the_host(point: &Path, scene: &Scene) -> bool {
    const USUAL: [&str; 10] =
        ["/proc", "/sys", "/dev", "/tmp", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc"];
    !USUAL.iter().any(|usual| point.starts_with(usual)) && !scene.granted().starts_with(point)
}

fn read_a_key_of_the_keyring(scene: &Scene) -> Stage {
    let (key, secret) = (Kept::key(scene)?, secret(scene));
    Ok(leaks_while(["read_key".to_owned(), key.number.clone()], &secret, key))
}

fn find_a_key_of_the_keyring(scene: &Scene) -> Stage {
    let key = Kept::key(scene)?;
    let name = scene.marker().to_string_lossy();
    Ok(leaks_while(["find_key", &name], &secret(scene), key))
}

fn read_a_message_queue(scene: &Scene) -> Stage {
    let (queue, secret) = (Kept::queue(scene)?, secret(scene));
    Ok(leaks_while(["receive_message".to_owned(), queue.number.clone()], &secret, queue))
}

/// What the kernel keeps for the user until this is dropped. The library makes no system calls of its own, so the attacker's
/// program does it.
struct Kept {
    number: String,
    tool: Tool,
    /// The tool's word for taking it away.
    remove: &'static str,
}

impl Kept {
    /// A key in the user's keyring, which expires after a minute.
    fn key(scene: &Scene) -> Result<Self, CannotBite> {
        let secret = secret(scene);
        let keep = ["keep_key".as_ref(), scene.marker(), secret.as_ref()];
        Kept::new(scene, &keep, "remove_key", "no key can be kept on this host")
    }

    /// A System V queue with a message.
    fn queue(scene: &Scene) -> Result<Self, CannotBite> {
        let secret = secret(scene);
        Kept::new(
            scene,
            &["keep_message".as_ref(), secret.as_ref()],
            "remove_message",
            "no queue can be made on this host",
        )
    }

    fn new(scene: &Scene, keep: &[&OsStr], remove: &'static str, or: &str) -> Result<Self, CannotBite> {
        let tool = scene.tool()?;
        let number = tool.look(keep).map_err(|why| CannotBite(format!("{or}: {why}")))?;
        Ok(Kept { number, tool, remove })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The attack may have done so, and a key expires.
        let _ = self.tool.look(&[self.remove.as_ref(), self.number.as_ref()]);
    }
}

/// What is nowhere but where the attack looks for it.
fn secret(scene: &Scene) -> String {
    format!("secret of {}", scene.marker().display())
}

/// It succeeded if the secret came out.
fn leaks(argv: impl IntoIterator<Item = impl Into<OsString>>, secret: &str) -> Staged {
    leaks_while(argv, secret, ())
}

/// The same; what is `kept` goes when it is judged.
fn leaks_while(
    argv: impl IntoIterator<Item = impl Into<OsString>>,
    secret: &str,
    kept: impl Sized + 'static,
) -> Staged {
    let secret = secret.to_owned();
    let came_out = move |run: &Run| {
        drop(kept);
        run.contains(&secret).then(|| "the secret came out".to_owned())
    };
    Staged::new(argv, came_out)
}

/// It succeeded if a file of the user is another than before. `before` makes shell commands from its quoted path.
fn changes<const N: usize>(scene: &Scene, argv: [&str; N], before: impl FnOnce(&str) -> String) -> Stage {
    let (path, content) = scene.canary()?;
    let before = before(&quoted(path.as_os_str()));
    let changed = move |_: &Run| -> Option<Evidence> {
        let now = fs::read_to_string(&path).unwrap_or_default();
        (now != content).then(|| "the file was changed".to_owned())
    };
    Ok(Staged::new(argv, changed).before(before))
}

/// A module of the user, and what Python is told to begin with when somebody types; either will do.
fn python_follow_its_variables(scene: &Scene) -> Stage {
    const MODULE: &str = "settings_of_the_user";
    let (startup, content) = scene.canary()?;
    fs::write(scene.secret().join(MODULE).with_extension("py"), format!("KEY = {content:?}\n"))?;
    let [path, startup] = [scene.secret(), startup].map(|path| quoted(path.as_os_str()));
    let before = format!("export PYTHONPATH={path} PYTHONSTARTUP={startup}");
    leaks(["follow_variables", MODULE], &content).before(before).in_python()
}
