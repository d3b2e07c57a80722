//! Step 6: the file view, each mount with its reason. Runs in the new mount namespace, as pid 1.

use super::decoys;
use super::detached::{clone, open_inside};
use super::installations;
use super::kernel_files;
use super::root::{Root, front};
use crate::error::{Context, Hint, Result};
use crate::linux::git::Guards;
use crate::linux::overlay::{self, Layers};
use crate::linux::own_files::{DEVICE_LINKS, DEVICES, accounts};
use crate::linux::resolve::judged;
use crate::linux::sys;
use crate::linux::view::{self, Access, Entry, System, View};
use crate::linux::workdir;
use crate::validate::Plan;
use agentkit_protocol::WorkDir;
use nix::fcntl::{AT_FDCWD, OFlag, open};
use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::pivot_root;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

const STEP: &str = "mounts";

/// Stands for whatever terminal the opener's session has; in a jail it is at most the jail's own.
const OWN_TERMINAL: &str = "/dev/tty";

/// A view that is not yet the root.
pub(crate) struct Begun {
    root: Root,
    proc: OwnedFd,
    private: OwnedFd,
}

/// What the supervisor needs from inside: the jail's own `/proc`, a handle on the file system of the private
/// directories, the layers of an overlay work dir, and the listeners on watched paths.
pub(crate) struct Mounted {
    pub(crate) proc: OwnedFd,
    pub(crate) private: OwnedFd,
    pub(crate) overlay: Option<Layers>,
    pub(crate) watched: Vec<OwnedFd>,
    /// Whether the host's work dir cannot be written, as the kernel says.
    pub(crate) workdir_read_only: bool,
    /// Whether an installation is shown with its sockets and pipes.
    pub(crate) installations_as_on_host: bool,
}

/// Builds what is the same in every jail. What is sealed is complete by then; what is writable comes after.
pub(crate) fn begin(view: &View, plan: &Plan) -> Result<Begun> {
    let hosts_proc = kernel_files::of_host()?;
    let mut root = Root::new(plan.limits.disk, view.names())?;
    show_system(&mut root, &view.system)?;
    for (path, text) in accounts() {
        root.file(Path::new(path), text.as_bytes())?;
    }
    seal(libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV)?;
    show_devices(&mut root, plan.tty)?;
    // Devices too: writing to one is no write to its file system, and its mode and times stay what they are.
    seal(libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID)?;
    if plan.tty {
        make_terminals(&mut root)?;
    }
    let proc = kernel_files::show(&mut root, plan.proc, hosts_proc.as_ref())?;
    let private = make_private_directories(&mut root, plan)?;
    Ok(Begun { root, proc, private })
}

/// What there is without a view of the jail's own: the launcher's.
pub(crate) fn launchers() -> Result<Mounted> {
    if kernel_files::is_own() {
        mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>)
            .map_err(io::Error::from)
            .context(STEP, "mount /proc")?;
    }
    let open = |path: &str| {
        open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(io::Error::from)
            .context(STEP, format_args!("open {path}"))
    };
    let (proc, private) = (open("/proc")?, open("/tmp")?);
    Ok(Mounted {
        proc,
        private,
        overlay: None,
        watched: Vec::new(),
        workdir_read_only: false,
        installations_as_on_host: true,
    })
}

/// Adds what this one sees beside it, and makes the whole the root.
pub(crate) fn finish(begun: Begun, view: &mut View, plan: &Plan, guards: &Guards) -> Result<Mounted> {
    let Begun { mut root, proc, private } = begun;
    let Shown { overlay, installations_as_on_host } = show_entries(&mut root, &mut view.entries)?;
    for (path, says) in &view.spellings {
        if root.owns(path) {
            root.link(path, says)?;
        }
    }
    let workdir_read_only = view.workdir.as_deref().map_or(Ok(false), is_read_only)?;
    guards.cover()?;
    let watched = decoys::show(&mut root, &plan.watched_paths)?;
    switch_root()?;
    Ok(Mounted { proc, private, overlay, watched, workdir_read_only, installations_as_on_host })
}

fn show_system(root: &mut Root, system: &System) -> Result<()> {
    for (path, says) in &system.links {
        root.link(path, says)?;
    }
    for (path, is_dir) in &system.binds {
        match bind(path, path, root, *is_dir) {
            // What the host does not have is left out.
            Err(failure) if matches!(failure.errno, Some(libc::ENOENT | libc::ENOTDIR)) => {
                root.remove(path, *is_dir)?;
            }
            result => result?,
        }
    }
    Ok(())
}

/// Binds `source` at `path`, and whatever is mounted in it: the kernel refuses to uncover what that covers.
fn bind(source: &Path, path: &Path, root: &mut Root, is_dir: bool) -> Result<()> {
    root.target(path, is_dir)?;
    mount(Some(source), front(path), None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .map_err(io::Error::from)
        .context(STEP, format_args!("bind {source:?} at {path:?}"))?;
    root.covered_by_host(path);
    Ok(())
}

/// Restricts everything that is mounted by now, in one call.
fn seal(attributes: u64) -> Result<()> {
    sys::restrict_mount(AT_FDCWD, attributes).context(STEP, "mount_setattr the new root")
}

fn show_devices(root: &mut Root, terminal: bool) -> Result<()> {
    for (path, says) in DEVICE_LINKS {
        root.link(Path::new(path), Path::new(says))?;
    }
    let devices = DEVICES.into_iter().chain(terminal.then_some(OWN_TERMINAL));
    devices.map(Path::new).try_for_each(|path| bind(path, path, root, false))
}

/// Terminals of the jail's own, of which the command gets the first; none of the host's is among them.
fn make_terminals(root: &mut Root) -> Result<()> {
    let path = Path::new("/dev/pts");
    let options = "newinstance,ptmxmode=0666,mode=0620,max=16";
    root.directory(path, 0o755)?;
    root.link(Path::new("/dev/ptmx"), Path::new("pts/ptmx"))?;
    mount(
        Some("devpts"),
        front(path),
        Some("devpts"),
        MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC,
        Some(options),
    )
    .map_err(io::Error::from)
    .context(STEP, format_args!("mount devpts ({options})"))?;
    root.covered_by_host(path);
    Ok(())
}

/// Everything that the command can write outside its work dir.
fn make_private_directories(root: &mut Root, plan: &Plan) -> Result<OwnedFd> {
    make_private_directory(root, Path::new("/tmp"), 0o1777)?;
    make_private_directory(root, Path::new("/dev/shm"), 0o1777)?;
    make_private_directory(root, Path::new(view::HOME), 0o700)?;
    if matches!(plan.workdir, WorkDir::Scratch) {
        make_private_directory(root, Path::new(workdir::SCRATCH), 0o755)?;
    }
    for (name, content) in &plan.files {
        root.file(&Path::new("/tmp").join(name), content)
            .hint("limits.disk bounds the policy's files too")?;
    }
    open("tmp", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .context(STEP, "open /tmp")
}

/// A writable directory of the jail's own.
fn make_private_directory(root: &mut Root, path: &Path, mode: u32) -> Result<()> {
    root.directory(path, mode)?;
    let back = root.back(path);
    bind(&back, path, root, true)?;
    root.covered_by_own(path, back, true);
    Ok(())
}

/// What has been shown so far.
#[derive(Default)]
struct Shown {
    /// The layers of the work dir, if it is an overlay.
    overlay: Option<Layers>,
    installations_as_on_host: bool,
}

/// Parents come first, so that the longest path decides.
fn show_entries(root: &mut Root, mut entries: &mut [Entry]) -> Result<Shown> {
    let mut shown = Shown::default();
    while let Some((entry, rest)) = entries.split_first_mut() {
        let is_empty = !rest.first().is_some_and(|next| next.path.starts_with(&entry.path));
        // Each has another number of entries behind it.
        show(root, entry, is_empty, rest.len(), &mut shown)?;
        entries = rest;
    }
    Ok(shown)
}

fn show(root: &mut Root, entry: &mut Entry, is_empty: bool, number: usize, shown: &mut Shown) -> Result<()> {
    let (path, is_dir) = (entry.path.clone(), entry.is_dir());
    // Nothing of the host is there, and nobody can make anything there.
    if entry.access == Access::Hidden && root.owns(&path) && !root.is_private(&path) && !root.has(&path) {
        return Ok(());
    }
    root.target(&path, is_dir)?;
    let target = match open_inside(&path) {
        // The jail's user has fewer privileges than this process: what is closed to us needs no protection from it.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) && !entry.access.is_writable() => {
            return Ok(());
        }
        result => judged(&path, result)?.context(STEP, format_args!("open {path:?} in the jail"))?,
    };
    let attach = |mount: OwnedFd| {
        let attached = judged(&path, sys::attach_mount(mount.as_fd(), target.as_fd()))?;
        attached.context(STEP, format_args!("move_mount to {path:?}"))
    };
    match entry.access {
        Access::ReadOnly if entry.is_installation => {
            let (mount, is_cut_off) = match entry.is_one_mount {
                true => installations::show(root, entry.mount()?, number)?,
                // The overlay would show what lies below the others.
                false => (entry.mount()?, false),
            };
            shown.installations_as_on_host |= !is_cut_off;
            attach(mount)?;
        }
        Access::ReadOnly | Access::Readable | Access::Writable => attach(entry.mount()?)?,
        Access::Overlaid(commit) => {
            let (mount, both) = overlay::mount(entry.mount()?, &path, commit)?;
            attach(mount)?;
            shown.overlay = Some(both);
        }
        Access::Sealed => attach(restricted(clone(target.as_fd(), Path::new(""))?, true)?)?,
        Access::Pin => attach(clone(target.as_fd(), Path::new(""))?)?,
        Access::Hidden if is_empty => attach(clone(AT_FDCWD, root.nothing(is_dir)?)?)?,
        Access::Hidden => return show_own(root, &path, 0o111, attach),
        Access::Private => return show_own(root, &path, 0o755, attach),
    }
    // Nothing lies in a file.
    if is_dir {
        root.covered_by_host(&path);
    }
    Ok(())
}

/// A directory of the jail's own at any place: writable for the command if it can be listed.
fn show_own(
    root: &mut Root,
    path: &Path,
    mode: u32,
    attach: impl FnOnce(OwnedFd) -> Result<()>,
) -> Result<()> {
    let writable = mode & 0o200 != 0;
    let back = root.directory_apart(mode)?;
    attach(restricted(clone(AT_FDCWD, &back)?, !writable)?)?;
    root.covered_by_own(path, back, writable);
    Ok(())
}

fn restricted(mount: OwnedFd, read_only: bool) -> Result<OwnedFd> {
    sys::restrict_mount(mount.as_fd(), view::restrictions(read_only))
        .context(STEP, "mount_setattr a detached mount")?;
    Ok(mount)
}

fn is_read_only(workdir: &Path) -> Result<bool> {
    let found = statvfs(front(workdir)).map_err(io::Error::from).context(STEP, "statvfs the work dir")?;
    Ok(found.flags().contains(FsFlags::ST_RDONLY))
}

/// Makes the new root the root, and drops the host's tree with everything that served to build the new one.
fn switch_root() -> Result<()> {
    pivot_root(".", ".")
        .map_err(io::Error::from)
        .context(STEP, "pivot_root")
        .hint("pivot_root needs a root that is a mount: not a chroot and not an initial ramdisk")?;
    umount2(".", MntFlags::MNT_DETACH).map_err(io::Error::from).context(STEP, "umount2 the host's tree")
}
