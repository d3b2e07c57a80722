//! What overlayfs notes about a file of the upper layer, in attributes that start with `user.overlay.` (`userxattr`,
//! see the kernel's Documentation/filesystems/overlayfs.rst).

use crate::linux::sys;
use std::io;
use std::os::fd::BorrowedFd;

const OURS: &[u8] = b"user.overlay.";
/// An attribute that the run set itself under a name of overlayfs comes out as this plus its name.
const ESCAPED: &[u8] = b"user.overlay.overlay.";
/// Notes that change nothing about what a directory shows.
const HARMLESS: [&[u8]; 6] = [b"impure", b"nlink", b"origin", b"protattr", b"upper", b"uuid"];

/// Whether the directory or file hides what is below it. Fails on notes that this overlay cannot have made, as it
/// neither redirects nor copies metadata alone: what they hide would be misread.
pub(super) fn is_opaque(fd: BorrowedFd) -> io::Result<bool> {
    let mut opaque = false;
    for name in sys::list_attributes(fd)?.split(|&byte| byte == 0) {
        let Some(note) = name.strip_prefix(OURS) else { continue };
        if name.starts_with(ESCAPED) || HARMLESS.contains(&note) {
            continue;
        }
        if note != b"opaque" || !sys::attribute_is(fd, c"user.overlay.opaque", b"y")? {
            return Err(io::Error::other(format!("unexpected attribute \"{}\"", name.escape_ascii())));
        }
        opaque = true;
    }
    Ok(opaque)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn only_what_overlayfs_notes_here_is_understood() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let answer = |name: &std::ffi::CStr, value: &[u8]| {
            let path = directory.path().join(name.to_str().unwrap());
            std::fs::create_dir(&path).unwrap();
            let fd = File::open(&path).unwrap();
            sys::set_attribute(fd.as_fd(), name, value).map(|()| is_opaque(fd.as_fd()).ok())
        };
        let Ok(opaque) = answer(c"user.overlay.opaque", b"y") else { return };
        assert_eq!(opaque, Some(true));
        let cases: [(&std::ffi::CStr, &[u8], Option<bool>); 6] = [
            (c"user.mine", b"y", Some(false)),
            (c"user.overlay.impure", b"y", Some(false)),
            (c"user.overlay.overlay.opaque", b"y", Some(false)),
            (c"user.overlay.redirect", b"/etc", None),
            (c"user.overlay.metacopy", b"", None),
            (c"user.overlay.whiteout", b"y", None),
        ];
        for (name, value, expected) in cases {
            assert_eq!(answer(name, value).unwrap(), expected, "{name:?}");
        }
    }
}
