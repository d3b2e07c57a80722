//! Step 6: the file view, each mount with its reason. Runs in the new mount namespace, as pid 1.

use super::identity::INNER_ID;
use super::view::{self, Excerpt, View, below_root};
use super::watch;
use super::workdir;
use crate::error::{Context, Hint, Result, policy};
use crate::validate::Plan;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{chdir, pivot_root};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;

const STEP: &str = "mounts";

/// Where the host's tree is while the new root grows: any directory that certainly exists, and not `/proc`, which has
/// to stay visible until the new one is mounted.
const NEW_ROOT: &str = "/usr";
/// Holds all private directories, so that one size bounds them together. Gone before the command starts.
const SCRATCH_POOL: &str = ".scratch";
/// Holds a host directory while its entries are taken from it.
const STAGE: &str = ".stage";
const PRIVATE: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

const DEVICE_LINKS: [(&str, &str); 4] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
];

/// What the supervisor needs from inside: the jail's own `/proc`, a handle on the file system of the private
/// directories, and a listener for each watched path.
pub(crate) struct Mounted {
    pub(crate) proc: OwnedFd,
    pub(crate) private: OwnedFd,
    pub(crate) watched: Vec<OwnedFd>,
}

/// Builds the view and makes it the root.
pub(crate) fn build(view: &View, plan: &Plan) -> Result<Mounted> {
    detach_from_host()?;
    new_root()?;
    links(view)?;
    for bind in &view.binds {
        make_target(&bind.path, bind.is_dir)?;
        bind.attach(&below_root(&bind.path))?;
    }
    for excerpt in &view.excerpts {
        show_entries(excerpt)?;
    }
    accounts()?;
    device_links()?;
    let proc = process_files()?;
    let private = private_directories(plan)?;
    if let Some(workdir) = &view.workdir {
        make_target(&workdir.path, true)?;
        workdir.attach(&below_root(&workdir.path))?;
    }
    let watched = watched_paths(view, plan)?;
    put_away(SCRATCH_POOL)?;
    switch_root()?;
    Ok(Mounted { proc, private, watched })
}

/// Nothing mounted here may show up outside, nor the other way round.
fn detach_from_host() -> Result<()> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(io::Error::from)
        .context(STEP, "make every mount private")
        .hint("the distribution may allow user namespaces but no mounts in them, for instance by AppArmor")
}

/// An empty root; it only ever holds names, so its size is a bound on mistakes.
fn new_root() -> Result<()> {
    tmpfs(NEW_ROOT, "mode=0755,size=1m,nr_inodes=4096")?;
    chdir(NEW_ROOT).map_err(io::Error::from).context(STEP, "enter the new root")
}

fn tmpfs(target: &str, options: &str) -> Result<()> {
    mount(Some("tmpfs"), target, Some("tmpfs"), PRIVATE, Some(options))
        .map_err(io::Error::from)
        .context(STEP, format_args!("mount tmpfs on {target} ({options})"))
}

fn links(view: &View) -> Result<()> {
    for (path, says) in &view.links {
        let path = below_root(path);
        make_parent(&path)?;
        symlink(says, &path).context(STEP, format_args!("link {path:?}"))?;
    }
    Ok(())
}

/// Shows some entries of a host directory. They take over its mount's attributes, read-only among them.
fn show_entries(excerpt: &Excerpt) -> Result<()> {
    let whole = &excerpt.whole;
    make_directory(&below_root(&whole.path), 0o755)?;
    make_directory(Path::new(STAGE), 0o700)?;
    whole.attach(Path::new(STAGE))?;
    for (name, is_dir) in &excerpt.entries {
        let target = whole.path.join(name);
        make_target(&target, *is_dir)?;
        bind(&Path::new(STAGE).join(name), &below_root(&target))?;
    }
    put_away(STAGE)
}

fn bind(source: &Path, target: &Path) -> Result<()> {
    mount(Some(source), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(io::Error::from)
        .context(STEP, format_args!("bind {source:?} to {target:?}"))
}

/// Programs want to know who they are; the host's accounts are nobody's business.
fn accounts() -> Result<()> {
    let passwd =
        format!("jail:x:{INNER_ID}:{INNER_ID}::{}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", view::HOME);
    let group = format!("jail:x:{INNER_ID}:\nnogroup:x:65534:\n");
    let hosts = "127.0.0.1 localhost jail\n::1 localhost\n";
    write_new(Path::new("etc/passwd"), passwd.as_bytes())?;
    write_new(Path::new("etc/group"), group.as_bytes())?;
    write_new(Path::new("etc/hosts"), hosts.as_bytes())?;
    write_new(Path::new("etc/nsswitch.conf"), b"passwd: files\ngroup: files\nhosts: files\n")
}

fn device_links() -> Result<()> {
    for (path, says) in DEVICE_LINKS {
        symlink(says, path).context(STEP, format_args!("link {path}"))?;
    }
    Ok(())
}

/// Processes of the jail alone, and nothing of the kernel's settings (`subset=pid`, Linux 5.8).
fn process_files() -> Result<OwnedFd> {
    make_directory(Path::new("proc"), 0o555)?;
    mount(Some("proc"), "proc", Some("proc"), PRIVATE | MsFlags::MS_NOEXEC, Some("subset=pid"))
        .map_err(io::Error::from)
        .context(STEP, "mount /proc")
        .hint("the kernel refuses a fresh /proc where the launcher's own is partly covered, as in most containers")?;
    open("proc", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .context(STEP, "open /proc")
}

/// Everything that the command can write outside its work dir, under one size and one number of files.
fn private_directories(plan: &Plan) -> Result<OwnedFd> {
    make_directory(Path::new(SCRATCH_POOL), 0o700)?;
    // A file costs the kernel about a kilobyte that no size limit counts.
    let files = (plan.limits.disk >> 12).clamp(1024, 1 << 20);
    tmpfs(SCRATCH_POOL, &format!("mode=0755,size={},nr_inodes={files}", plan.limits.disk))?;
    private_directory("tmp", Path::new("/tmp"), 0o1777)?;
    private_directory("shm", Path::new("/dev/shm"), 0o1777)?;
    private_directory("home", Path::new(view::HOME), 0o700)?;
    private_directory("work", Path::new(workdir::SCRATCH), 0o755)?;
    for (name, content) in &plan.files {
        write_new(&Path::new("tmp").join(name), content).hint("limits.disk bounds the policy's files too")?;
    }
    open("tmp", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)
        .context(STEP, "open /tmp")
}

/// A directory of the pool, shown at `target`.
fn private_directory(name: &str, target: &Path, mode: u32) -> Result<()> {
    let source = Path::new(SCRATCH_POOL).join(name);
    make_directory(&source, mode)?;
    make_target(target, true)?;
    bind(&source, &below_root(target))
}

/// At a watched path stands an empty directory: to open it is an attempt, and there is nothing in it to read.
fn watched_paths(view: &View, plan: &Plan) -> Result<Vec<OwnedFd>> {
    let workdir = view.workdir.as_ref().map(|workdir| workdir.path.as_path());
    plan.watched_paths
        .iter()
        .map(|path| {
            let target = below_root(path);
            let in_workdir =
                workdir.is_some_and(|workdir| path.starts_with(workdir) || workdir.starts_with(path));
            if in_workdir || target.symlink_metadata().is_ok() {
                return Err(policy(format_args!(
                    "watch.paths: {path:?} lies in what the jail can see anyway"
                )));
            }
            make_directory(&target, 0o755)?;
            watch::listen_for_opening(&target)
        })
        .collect()
}

/// Takes away a mount that served its purpose; what was bound from it stays.
fn put_away(directory: &str) -> Result<()> {
    umount2(directory, MntFlags::MNT_DETACH)
        .map_err(io::Error::from)
        .and_then(|()| std::fs::remove_dir(directory))
        .context(STEP, format_args!("put {directory} away"))
}

/// Makes the new root the root, drops the host's tree, and seals what is left.
fn switch_root() -> Result<()> {
    pivot_root(".", ".")
        .map_err(io::Error::from)
        .context(STEP, "pivot_root")
        .hint("pivot_root needs a root that is a mount: not a chroot and not an initial ramdisk")?;
    umount2(".", MntFlags::MNT_DETACH).map_err(io::Error::from).context(STEP, "detach the host's tree")?;
    chdir("/").map_err(io::Error::from).context(STEP, "enter /")?;
    let sealed = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | PRIVATE;
    mount(None::<&str>, "/", None::<&str>, sealed, None::<&str>)
        .map_err(io::Error::from)
        .context(STEP, "make the root read-only")
}

/// Makes what a mount needs to be attached to, unless the view already has it.
fn make_target(path: &Path, is_dir: bool) -> Result<()> {
    let target = below_root(path);
    if is_dir {
        return make_directory(&target, 0o755);
    }
    make_parent(&target)?;
    if target.symlink_metadata().is_ok() { Ok(()) } else { make_file(&target) }
}

fn make_parent(path: &Path) -> Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => make_directory(parent, 0o755),
        None => Ok(()),
    }
}

fn make_directory(path: &Path, mode: u32) -> Result<()> {
    // Parents get the mode too; all of them are the jail's own and empty.
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .context(STEP, format_args!("make the directory {path:?}"))
}

fn make_file(path: &Path) -> Result<()> {
    mknod(path, SFlag::S_IFREG, Mode::from_bits_truncate(0o444), 0)
        .map_err(io::Error::from)
        .context(STEP, format_args!("make the file {path:?}"))
}

fn write_new(path: &Path, content: &[u8]) -> Result<()> {
    let open =
        || -> io::Result<File> { OpenOptions::new().write(true).create_new(true).mode(0o644).open(path) };
    open().and_then(|mut file| file.write_all(content)).context(STEP, format_args!("write {path:?}"))
}
