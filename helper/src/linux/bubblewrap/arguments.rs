//! The file view as arguments of bubblewrap, in order, each with its reason.

use super::init::{AS_INIT, OWN_PROGRAM};
use super::{STEP, handover};
use crate::error::{Context, Result};
use crate::linux::identity::INNER_ID;
use crate::linux::proc_files::{IDENTITY, SETTINGS, SHOWN};
use crate::linux::task::Task;
use crate::linux::view::{Access, Entry, HOME, View};
use crate::linux::workdir::SCRATCH;
use agentkit_protocol::{Net, ProcFiles, WorkDir};
use std::ffi::{CString, OsStr};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Everything private, so that one size bounds it together: what is not a part of it is a link into it.
pub(super) const PRIVATE: &str = "/private";
/// The host's, which a mount without devices makes a file that nobody can open.
const NOTHING: &str = "/dev/null";
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/random", "urandom"),
];
/// Links of a `/proc` with the kernel's files to what each process has of its own.
const OF_PROCESSES: [&str; 4] = ["mounts", "net", "self", "thread-self"];

/// What bubblewrap is started with.
pub(super) struct Arguments {
    pub(super) words: Vec<CString>,
    /// What it reads contents from, by their numbers.
    pub(super) files: Vec<OwnedFd>,
}

impl Arguments {
    /// Those for one jail. `channel` is init's.
    pub(super) fn of(task: &Task, view: &View, channel: BorrowedFd) -> Result<Self> {
        let mut all = Arguments { words: Vec::new(), files: Vec::new() };
        all.add(["bwrap", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"])?;
        all.add([
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ])?;
        if task.plan.net != Net::Host {
            all.add(["--unshare-net"])?;
        }
        let id = INNER_ID.to_string();
        all.add(["--uid", &id, "--gid", &id, "--hostname", "jail", "--chdir", "/"])?;
        all.show_system(view)?;
        all.show_proc(task.plan.proc)?;
        all.make_private(task)?;
        all.show_entries(view)?;
        all.show_own_program()?;
        all.add(["--remount-ro", "/"])?;
        all.add([OWN_PROGRAM, AS_INIT, &channel.as_raw_fd().to_string()])?;
        Ok(all)
    }

    fn add<W: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = W>) -> Result<()> {
        for word in words {
            let word = CString::new(word.as_ref().as_bytes());
            self.words.push(word.map_err(io::Error::from).context(STEP, "make an argument")?);
        }
        Ok(())
    }

    fn link(&mut self, path: &Path, says: &Path) -> Result<()> {
        self.add([OsStr::new("--symlink"), says.as_os_str(), path.as_os_str()])
    }

    /// `how` is an option that takes a source and a place.
    fn bind(&mut self, how: &str, source: &Path, path: &Path) -> Result<()> {
        self.add([OsStr::new(how), source.as_os_str(), path.as_os_str()])
    }

    /// What is the same in every jail.
    fn show_system(&mut self, view: &View) -> Result<()> {
        for (path, says) in &view.system.links {
            self.link(path, says)?;
        }
        for (path, _) in &view.system.binds {
            self.bind("--ro-bind-try", path, path)?;
        }
        for (path, text) in handover::accounts() {
            let (content, mut writer) = io::pipe().context(STEP, "pipe")?;
            writer.write_all(text.as_bytes()).context(STEP, format_args!("write {path}"))?;
            self.add(["--perms", "0644", "--file", &content.as_raw_fd().to_string(), path])?;
            self.files.push(content.into());
        }
        for path in DEVICES.map(Path::new) {
            self.bind("--dev-bind", path, path)?;
        }
        DEVICE_LINKS.into_iter().try_for_each(|(path, says)| self.link(Path::new(path), Path::new(says)))
    }

    /// Bubblewrap mounts one with all of the kernel's files; what a policy does not show of them is covered.
    fn show_proc(&mut self, files: ProcFiles) -> Result<()> {
        self.add(["--proc", "/proc"])?;
        for entry in std::fs::read_dir("/proc").context(STEP, "list /proc")? {
            let entry = entry.context(STEP, "list /proc")?;
            let (name, path) = (entry.file_name(), entry.path());
            let is_process = name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
            let is_shown = match files {
                ProcFiles::Full => name == SETTINGS || SHOWN.iter().any(|shown| name == *shown),
                ProcFiles::Processes => OF_PROCESSES.iter().any(|shown| name == *shown),
            };
            if is_process || is_shown {
                continue;
            }
            self.hide(&path, entry.file_type().context(STEP, "list /proc")?.is_dir(), "0000")?;
            if path.is_dir() {
                self.add([OsStr::new("--remount-ro"), path.as_os_str()])?;
            }
        }
        let identity = Path::new("/proc").join(IDENTITY);
        if files == ProcFiles::Full && identity.exists() {
            self.hide(&identity, false, "0000")?;
        }
        Ok(())
    }

    /// Everything that the command can write outside its work dir.
    fn make_private(&mut self, task: &Task) -> Result<()> {
        let size = task.plan.limits.disk.to_string();
        self.add(["--perms", "0755", "--size", &size, "--tmpfs", PRIVATE])?;
        let scratch = matches!(task.plan.workdir, WorkDir::Scratch).then_some((SCRATCH, "work", "0755"));
        let always = [("/tmp", "tmp", "1777"), ("/dev/shm", "shm", "1777"), (HOME, "home", "0700")];
        for (path, name, mode) in always.into_iter().chain(scratch) {
            let (path, place) = (Path::new(path), Path::new(PRIVATE).join(name));
            self.add([OsStr::new("--perms"), OsStr::new(mode), OsStr::new("--dir"), place.as_os_str()])?;
            self.link(path, &from(path, &place))?;
        }
        Ok(())
    }

    /// Parents come first, so that the longest path decides.
    fn show_entries(&mut self, view: &View) -> Result<()> {
        let mut seals = Vec::new();
        for entry in &view.entries {
            let path = &entry.path;
            let source = entry.stands_at().unwrap_or(path);
            match entry.access {
                Access::ReadOnly | Access::Readable => self.bind("--ro-bind", source, path)?,
                Access::Writable => self.bind("--bind", source, path)?,
                Access::Private => self.hide(path, true, "0755")?,
                Access::Hidden if !is_shown(view, path) => {}
                Access::Hidden => {
                    let holds = |other: &Entry| other.path != *path && other.path.starts_with(path);
                    let mode = if view.entries.iter().any(holds) { "0111" } else { "0000" };
                    self.hide(path, entry.is_dir(), mode)?;
                    seals.extend(entry.is_dir().then_some(path));
                }
                // Refused before.
                Access::Overlaid(_) | Access::Sealed | Access::Pin => {}
            }
        }
        for path in seals {
            self.add([OsStr::new("--remount-ro"), path.as_os_str()])?;
        }
        let is_new = |path: &Path| !view.entries.iter().any(|entry| path.starts_with(&entry.path));
        for (path, says) in view.spellings.iter().filter(|(path, _)| is_new(path) && !is_system(view, path)) {
            self.link(path, says)?;
        }
        Ok(())
    }

    /// Something empty, of its own.
    fn hide(&mut self, path: &Path, is_dir: bool, mode: &str) -> Result<()> {
        if !is_dir {
            return self.bind("--ro-bind", Path::new(NOTHING), path);
        }
        // Of one page, since it would not be bounded with the rest.
        self.add(["--perms", mode, "--size", "4096", "--tmpfs"])?;
        self.add([path])
    }

    /// This program is init inside too. It is all that the command sees of the host that no policy names.
    fn show_own_program(&mut self) -> Result<()> {
        let own = std::env::current_exe().context(STEP, "find this program")?;
        self.bind("--ro-bind", &own, Path::new(OWN_PROGRAM))
    }
}

/// Whether the host's files, or private ones, are there.
fn is_shown(view: &View, path: &Path) -> bool {
    let by_entry =
        view.entries.iter().any(|it| it.path != path && it.access.has_source() && path.starts_with(&it.path));
    by_entry
        || is_system(view, path)
        || ["/tmp", "/dev/shm", HOME].iter().any(|private| path.starts_with(private))
}

fn is_system(view: &View, path: &Path) -> bool {
    path.ancestors().any(|above| view.system.shows(above))
}

/// What a link at `path` has to say to lead to `place`: without the root, since bubblewrap follows it in another one.
fn from(path: &Path, place: &Path) -> PathBuf {
    let ups = path.components().skip(2).map(|_| "..");
    ups.collect::<PathBuf>().join(place.strip_prefix("/").unwrap_or(place))
}

#[cfg(test)]
mod tests {
    use super::from;
    use std::path::Path;

    #[test]
    fn links_lead_from_where_they_are() {
        let says = |path: &str| from(Path::new(path), Path::new("/private/x"));
        assert_eq!(
            [says("/tmp"), says("/dev/shm"), says("/a/b/c")],
            ["private/x", "../private/x", "../../private/x"].map(Path::new)
        );
    }
}
