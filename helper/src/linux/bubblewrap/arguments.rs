//! The file view as arguments of bubblewrap, in order, each with its reason.

use super::names::{AS_INIT, OWN_PROGRAM, PRIVATE};
use super::{STEP, proc, refuse};
use crate::error::{Context, Hint, Result, failure};
use crate::linux::identity::INNER_ID;
use crate::linux::own_files::{DEVICE_LINKS, DEVICES, FORMATS, IDENTITY, SETTINGS, accounts};
use crate::linux::proc_files::of_descriptor;
use crate::linux::task::Task;
use crate::linux::view::{Access, Entry, HOME, View, lexically};
use crate::linux::workdir::SCRATCH;
use agentkit_protocol::{FailureKind, Net, ProcFiles, WorkDir};
use nix::fcntl::{OFlag, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, access};
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The host's, which a mount without devices makes a file that nobody can open.
const NOTHING: &str = "/dev/null";

/// More than that, in the file and on the command line together, bubblewrap does not take (its `MAX_ARGS`).
const MOST_WORDS: usize = 9000;

/// What bubblewrap is started with.
pub(super) struct Arguments {
    /// What the command line says. The rest is in a file: it may be longer than the kernel takes, and everybody on the host
    /// can read a command line.
    pub(super) words: Vec<CString>,
    /// What bubblewrap and init find by their numbers.
    pub(super) files: Vec<OwnedFd>,
    /// Where what of the host's the command may write will be mounted.
    pub(super) writable: Vec<PathBuf>,
}

impl Arguments {
    /// Those for one jail. `channel` is init's.
    pub(super) fn of(task: &Task, view: &View, channel: BorrowedFd) -> Result<Self> {
        let Options { text, mut files, writable, .. } = Options::of(task, view)?;
        let write = || -> io::Result<File> {
            let mut file = File::from(memfd_create(c"arguments", MFdFlags::MFD_CLOEXEC)?);
            file.write_all(&text)?;
            file.rewind()?;
            Ok(file)
        };
        let options = write().context(STEP, "write the arguments")?;
        let numbers = [&options.as_fd(), &channel].map(|file| file.as_raw_fd().to_string());
        let [options_number, channel_number] = &numbers;
        let words = ["bwrap", "--args", options_number, OWN_PROGRAM, AS_INIT, channel_number];
        let count = text.iter().filter(|byte| **byte == 0).count().saturating_add(words.len());
        if count > MOST_WORDS {
            let message = format_args!(
                "the mechanism {STEP} cannot show so much: bubblewrap takes {MOST_WORDS} arguments, and these are {count}"
            );
            return Err(failure(FailureKind::Host, STEP, message))
                .hint("use fewer rules, each for a directory that holds more");
        }
        files.push(options.into());
        let words = words.map(CString::new).into_iter().collect::<std::result::Result<_, _>>();
        let words = words.map_err(io::Error::from).context(STEP, "make an argument")?;
        Ok(Arguments { words, files, writable })
    }
}

/// Each with a zero byte after it.
#[derive(Default)]
struct Options {
    text: Vec<u8>,
    files: Vec<OwnedFd>,
    /// What stands in the jail's own root by now, with all that leads there. Bubblewrap makes nothing twice.
    made: BTreeSet<PathBuf>,
    /// Links to private directories, and where those are.
    private: Vec<(PathBuf, PathBuf)>,
    writable: Vec<PathBuf>,
}

impl Options {
    fn of(task: &Task, view: &View) -> Result<Self> {
        let mut all = Options::default();
        // No session of its own: whoever ends the launch ends its process group. The command gets one from init.
        all.add(["--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"])?;
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
        Ok(all)
    }

    fn add<W: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = W>) -> Result<()> {
        for word in words {
            let word = word.as_ref().as_bytes();
            if word.contains(&0) {
                return Err(io::Error::other("it has a zero byte")).context(STEP, "make an argument");
            }
            self.text.extend_from_slice(word);
            self.text.push(0);
        }
        Ok(())
    }

    /// Something of this jail's is at `path` from here on.
    fn mark(&mut self, path: &Path) {
        let unknown = path.ancestors().take_while(|above| !self.made.contains(*above));
        let unknown: Vec<_> = unknown.map(Path::to_path_buf).collect();
        self.made.extend(unknown);
    }

    /// Unless something is there.
    fn link(&mut self, path: &Path, says: &Path) -> Result<()> {
        if self.made.contains(path) {
            return Ok(());
        }
        self.mark(path);
        self.add([OsStr::new("--symlink"), says.as_os_str(), path.as_os_str()])
    }

    /// Where a path leads by way of a link to a private directory.
    fn real(&self, path: &Path) -> PathBuf {
        let leads = |(link, place): &(PathBuf, PathBuf)| path.strip_prefix(link).map(|rest| place.join(rest));
        self.private.iter().rev().find_map(|it| leads(it).ok()).unwrap_or_else(|| path.to_path_buf())
    }

    /// `how` is an option that takes a source and a place.
    fn bind(&mut self, how: &str, source: &Path, path: &Path) -> Result<()> {
        self.mark(path);
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
        // With the host's network, some of these are the host's.
        let accounts = accounts().map(|(path, text)| (Path::new(path), text));
        for (path, text) in accounts {
            if self.made.contains(path) {
                continue;
            }
            let (content, mut writer) = io::pipe().context(STEP, "pipe")?;
            writer.write_all(text.as_bytes()).context(STEP, format_args!("write {path:?}"))?;
            self.mark(path);
            self.add(["--perms", "0644", "--file", &content.as_raw_fd().to_string()])?;
            self.add([path])?;
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
        let settings = Path::new("/proc").join(SETTINGS);
        if files == ProcFiles::Full && settings.exists() {
            // The host's: bubblewrap binds nothing from inside. They tell of whoever looks, whichever mount they are in.
            self.bind("--ro-bind", &settings, &settings)?;
            let formats = Path::new("/proc").join(FORMATS);
            if formats.exists() {
                self.hide(&formats, true, "0555")?;
                self.add([OsStr::new("--remount-ro"), formats.as_os_str()])?;
            }
        }
        for entry in std::fs::read_dir("/proc").context(STEP, "list /proc")? {
            let entry = entry.context(STEP, "list /proc")?;
            // Not even looked at: processes end.
            if proc::is_shown(files, &entry.file_name()) {
                continue;
            }
            let (kind, path) = (entry.file_type().context(STEP, "list /proc")?, entry.path());
            // A link leads to what is shown of this, or into a part of the system that no jail sees.
            if kind.is_symlink() {
                continue;
            }
            self.hide(&path, kind.is_dir(), "0000")?;
            if kind.is_dir() {
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
            self.make_private_directory(Path::new(path), name, mode)?;
        }
        Ok(())
    }

    fn make_private_directory(&mut self, path: &Path, name: &str, mode: &str) -> Result<()> {
        let place = Path::new(PRIVATE).join(name);
        self.add([OsStr::new("--perms"), OsStr::new(mode), OsStr::new("--dir"), place.as_os_str()])?;
        self.link(path, &from(&self.real(path), &place))?;
        self.private.push((path.to_path_buf(), place));
        Ok(())
    }

    /// Parents come first, so that the longest path decides.
    fn show_entries(&mut self, view: &View) -> Result<()> {
        let mut seals = Vec::new();
        for (number, entry) in view.entries.iter().enumerate() {
            let path = &entry.path;
            let source = entry.stands_at().unwrap_or(path);
            match entry.access {
                Access::ReadOnly | Access::Readable => self.bind("--ro-bind", source, path)?,
                Access::Writable => {
                    self.writable.push(self.real(path));
                    self.bind("--bind", source, path)?;
                }
                Access::Private if self.made.contains(path) => return Err(refuse::tmpfs(path)),
                Access::Private => self.make_private_directory(path, &number.to_string(), "0755")?,
                Access::Hidden if !self.is_shown(view, path) => {}
                Access::Hidden => {
                    let holds = |other: &Entry| other.path != *path && other.path.starts_with(path);
                    let mode = if view.entries.iter().any(holds) { "0111" } else { "0000" };
                    self.hide(path, entry.is_dir(), mode)?;
                    seals.extend(entry.is_dir().then_some(path));
                }
                // In something that is read-only already. The others are refused before.
                Access::Sealed | Access::Overlaid(_) | Access::Pin => {}
            }
        }
        for path in seals {
            self.add([OsStr::new("--remount-ro"), path.as_os_str()])?;
        }
        let is_new = |path: &Path| !view.entries.iter().any(|entry| path.starts_with(&entry.path));
        for (path, says) in view.spellings.iter().filter(|(path, _)| is_new(path) && !is_system(view, path)) {
            let stands_elsewhere = says.is_relative() && self.real(path) != *path;
            let above = path.parent().unwrap_or(path);
            self.link(path, &if stands_elsewhere { lexically(&above.join(says)) } else { says.clone() })?;
        }
        Ok(())
    }

    /// Whether the host's files, or the jail's own, are there.
    fn is_shown(&self, view: &View, path: &Path) -> bool {
        let by_entry = |it: &Entry| it.path != path && it.access.has_source() && path.starts_with(&it.path);
        self.made.contains(path)
            || is_system(view, path)
            || view.entries.iter().any(by_entry)
            || self.private.iter().any(|(private, _)| path.starts_with(private))
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

    /// This program is init inside too: this very file, whatever stands by now where it was started from. Once the command
    /// runs, the link leads nowhere.
    fn show_own_program(&mut self) -> Result<()> {
        let own = open("/proc/self/exe", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(io::Error::from)
            .context(STEP, "open this program")?;
        access("/proc/self/exe", AccessFlags::X_OK)
            .map_err(io::Error::from)
            .context(STEP, "execute this program once more, inside")
            .hint("everybody must be allowed to execute it (chmod a+x): root becomes another user")?;
        self.link(Path::new(OWN_PROGRAM), Path::new(&of_descriptor(own.as_fd())))?;
        self.files.push(own);
        Ok(())
    }
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
