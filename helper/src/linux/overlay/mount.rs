//! Step 6, for the work dir alone. The host directory was opened once and is attached at a name of ours first, and the
//! layers are named by that: no character of its path can mean anything to overlayfs, and `mountinfo` does not tell it.

use super::{Layers, STEP};
use crate::error::{Context, Hint, Result, failure};
use crate::linux::mount_table::{MountTable, has_option};
use crate::linux::namespaces::root::{hidden, hidden_on_host};
use crate::linux::sys;
use agentkit_protocol::{Commit, FailureKind};
use nix::libc;
use nix::sys::stat::fstat;
use std::ffi::{CString, OsStr};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Where the lower layer is attached.
const STAGE: &str = "lower";

/// Makes an overlay of a detached mount of the host directory `path`; detached, too.
pub(crate) fn mount(lower: OwnedFd, path: &Path, commit: Commit) -> Result<(OwnedFd, Layers)> {
    let [stage, upper, scratch] = [STAGE, "upper", "overlay"].map(hidden);
    make(&stage, 0o700)?;
    sys::attach_mount(lower.as_fd(), open(&stage)?.as_fd()).context(STEP, "move_mount the lower layer")?;
    let attributes = mount_attributes(path, commit)?;
    make(&upper, mode_of(&lower)?)?;
    make(&scratch, 0o700)?;
    let (above, below) = (open(&upper)?, open(&scratch)?);
    must_keep_attributes(&below)?;
    let mount = assemble(&stage, &upper, &scratch, attributes)
        .context(STEP, format_args!("mount an overlay on the work dir {path:?}"))
        .map_err(explain)?;
    Ok((mount, Layers { upper: above, host: lower, path: path.to_path_buf() }))
}

fn assemble(lower: &Path, upper: &Path, scratch: &Path, attributes: u64) -> io::Result<OwnedFd> {
    let overlay = sys::open_filesystem(c"overlay")?;
    let layers = [(c"lowerdir", lower), (c"upperdir", upper), (c"workdir", scratch)];
    for (name, path) in layers.into_iter().chain([(c"source", Path::new("overlay"))]) {
        let path = CString::new(path.as_os_str().as_bytes())?;
        sys::set_option(overlay.as_fd(), name, Some(&path))?;
    }
    // What an unprivileged overlay may note; without it, it could not replace directories.
    sys::set_option(overlay.as_fd(), c"userxattr", None)?;
    sys::make_mount(overlay.as_fd(), attributes)
}

fn open(directory: &Path) -> Result<OwnedFd> {
    File::open(directory).map(OwnedFd::from).context(STEP, format_args!("open the directory {directory:?}"))
}

fn make(path: &Path, mode: u32) -> Result<()> {
    DirBuilder::new().mode(mode).create(path).context(STEP, format_args!("make the directory {path:?}"))
}

/// The root of the overlay has the mode of the upper layer's.
fn mode_of(host: &OwnedFd) -> Result<u32> {
    let stat = fstat(host).map_err(io::Error::from).context(STEP, "stat the work dir")?;
    Ok(stat.st_mode & 0o777)
}

/// What the kernel says of the mount that is the lower layer.
#[derive(Debug, PartialEq, Eq)]
enum Lower<'a> {
    /// Its options, comma-separated: the mount's own and its file system's.
    Alone { own: &'a [u8], system: &'a [u8] },
    /// Another mount lies in it, at this path.
    Holds(&'a [u8]),
}

/// Spaces are written otherwise there, and `stage` has none.
fn find_lower<'a>(mounts: &'a MountTable, stage: &Path) -> Option<Lower<'a>> {
    let mut found = None;
    for line in mounts.lines() {
        match line.point.strip_prefix(stage.as_os_str().as_bytes()) {
            Some(b"") => found = Some(Lower::Alone { own: line.options, system: line.system }),
            Some([b'/', below @ ..]) => return Some(Lower::Holds(below)),
            _ => {}
        }
    }
    found
}

/// What the host's mount forbids, the overlay has to forbid anew.
fn mount_attributes(path: &Path, commit: Commit) -> Result<u64> {
    // The jail's own, below the current directory.
    let mounts = MountTable::read("proc/self/mountinfo", STEP)?;
    let refuse =
        |message: std::fmt::Arguments, hint| Err(failure(FailureKind::Host, STEP, message)).hint(hint);
    match find_lower(&mounts, &hidden_on_host(STAGE)) {
        // An overlay shows what a mount in its lower layer covers. Without privileges over that mount the kernel
        // refuses, with them it does not.
        Some(Lower::Holds(below)) => refuse(
            format_args!("{:?} in the work dir {path:?} is a mount of its own", OsStr::from_bytes(below)),
            "an overlay is made of one mount: use a bind work dir",
        ),
        Some(Lower::Alone { own, system })
            if commit != Commit::Never && (has_option(own, "ro") || has_option(system, "ro")) =>
        {
            refuse(
                format_args!("the work dir {path:?} is mounted read-only, so nothing could be committed"),
                "ask for an overlay without a commit",
            )
        }
        Some(Lower::Alone { own, .. }) => {
            let noted = [("noexec", libc::MOUNT_ATTR_NOEXEC), ("nosymfollow", libc::MOUNT_ATTR_NOSYMFOLLOW)];
            let kept =
                noted.into_iter().filter(|(name, _)| has_option(own, name)).map(|(_, attribute)| attribute);
            Ok(kept.fold(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, |all, one| all | one))
        }
        None => {
            Err(io::Error::other("it is not there")).context(STEP, "the work dir in /proc/self/mountinfo")
        }
    }
}

/// Where the file system of the upper layer keeps no attributes, overlayfs goes on without and fails later, when a
/// directory takes the place of another.
fn must_keep_attributes(directory: &OwnedFd) -> Result<()> {
    sys::set_attribute(directory.as_fd(), c"user.agentkit", b"")
        .context(STEP, "set a user attribute in memory (tmpfs)")
        .hint("overlay work dirs need Linux 6.6, with CONFIG_TMPFS_XATTR: use a scratch or bind work dir")
}

/// The kernel's one errno for many reasons.
fn explain(failure: agentkit_protocol::Failure) -> agentkit_protocol::Failure {
    let hint = match failure.errno {
        Some(libc::ENODEV | libc::ENOSYS) => "this kernel has no overlayfs: use a scratch or bind work dir",
        Some(libc::EPERM) => {
            "overlays in user namespaces need Linux 5.11, and a host that does not forbid them, for instance by AppArmor"
        }
        _ => {
            "its file system cannot be the lower layer of an overlay, as one that is an overlay on an overlay \
             already: use a bind work dir or a directory on another file system"
        }
    };
    agentkit_protocol::Failure { hint: Some(hint.to_owned()), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_layer_is_found_and_what_it_holds() {
        let line =
            |point: &str| format!("36 35 98:0 / {point} rw,noexec master:1 - ext3 /dev/root rw,quota\n");
        let stage = Path::new("/usr/.stage");
        let others = ["/", "/usr", "/usr/.stage2", "/usr/.stage2/x", "/a/usr/.stage/b"].map(line).concat();
        assert_eq!(find_lower(&MountTable::from(others.clone()), stage), None);
        let alone = others + &line("/usr/.stage");
        let expected = Lower::Alone { own: b"rw,noexec", system: b"rw,quota" };
        assert_eq!(find_lower(&MountTable::from(alone.clone()), stage), Some(expected));
        let holds = MountTable::from(alone + &line(r"/usr/.stage/a\040b/c"));
        assert_eq!(find_lower(&holds, stage), Some(Lower::Holds(br"a\040b/c")));
        for junk in ["", "1 2\n\n 3", "1 2 3 4 /usr/.stage"] {
            assert_eq!(find_lower(&MountTable::from(junk.to_owned()), stage), None);
        }
    }
}
