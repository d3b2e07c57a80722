//! The host's mounts, as the kernel lists them; see proc_pid_mountinfo(5).

use crate::error::{Context, Result};
use nix::mount::{MsFlags, mount};
#[cfg(feature = "bubblewrap")]
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Most hosts' tables fit: growing would cost a call.
const USUAL_SIZE: usize = 16 << 10;

/// In a mount namespace of this process's own, as one with a user namespace of its own has it anyway: nothing that is
/// mounted here shows outside.
pub(crate) fn keep_apart() -> Result<()> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(io::Error::from)
        .context("mounts", "make every mount private")
}

/// The text of the table.
pub(crate) struct MountTable(pub(super) Vec<u8>);

#[cfg(test)]
impl From<String> for MountTable {
    fn from(text: String) -> Self {
        MountTable(text.into_bytes())
    }
}

/// One line, with paths as they are written there: see [`plain`].
#[derive(Clone, Copy)]
#[cfg_attr(
    not(feature = "bubblewrap"),
    expect(dead_code, reason = "only bubblewrap's mounts are told apart")
)]
pub(crate) struct Line<'a> {
    id: &'a [u8],
    parent: &'a [u8],
    /// Which file system.
    device: &'a [u8],
    /// Which part of it.
    pub(crate) root: &'a [u8],
    pub(crate) point: &'a [u8],
    /// The mount's own options.
    pub(crate) options: &'a [u8],
    /// Whether mounts in it are copied to or from others; see mount_namespaces(7).
    spreads: bool,
    pub(crate) kind: &'a [u8],
    /// The file system's options.
    pub(crate) system: &'a [u8],
}

impl<'a> Line<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut field = || fields.next();
        let (id, parent, device, root, point, options) =
            (field()?, field()?, field()?, field()?, field()?, field()?);
        let mut spreads = false;
        loop {
            match field()? {
                b"-" => break,
                tag => spreads |= tag.starts_with(b"shared:") || tag.starts_with(b"master:"),
            }
        }
        let (kind, _source, system) = (field()?, field()?, field()?);
        Some(Line { id, parent, device, root, point, options, spreads, kind, system })
    }
}

/// What needs no device, and still nobody but this kernel to answer.
const WITHOUT_DEVICE: [&[u8]; 8] =
    [b"bcachefs", b"btrfs", b"devtmpfs", b"overlay", b"ramfs", b"rootfs", b"tmpfs", b"zfs"];

impl Line<'_> {
    /// Whether no server and no process has to answer for it, as for a sshfs or NFS, which may be dead.
    pub(crate) fn is_the_kernels_own(&self) -> bool {
        match self.device.starts_with(b"0:") {
            true => WITHOUT_DEVICE.contains(&self.kind),
            false => !self.kind.starts_with(b"fuse"),
        }
    }
}

/// Whether one of comma-separated options is this one.
pub(crate) fn has_option(options: &[u8], name: &str) -> bool {
    options.split(|byte| *byte == b',').any(|option| option == name.as_bytes())
}

impl MountTable {
    /// Not read without need: the kernel takes as long as for three mounts.
    pub(crate) fn of_this_process(step: &'static str) -> Result<Self> {
        MountTable::read("/proc/self/mountinfo", step)
    }

    /// The same from a `/proc` that is mounted elsewhere.
    pub(crate) fn read(path: &str, step: &'static str) -> Result<Self> {
        File::open(path).and_then(MountTable::of).context(step, "read /proc/self/mountinfo")
    }

    /// The same from a file that is open.
    pub(crate) fn of(file: File) -> io::Result<Self> {
        let mut table = Vec::with_capacity(USUAL_SIZE);
        // `take` spares the calls that ask for a size that such a file does not have.
        file.take(u64::MAX).read_to_end(&mut table)?;
        Ok(MountTable(table))
    }

    /// Where a file system of processes is mounted, whole or in part.
    pub(crate) fn of_processes(&self) -> impl Iterator<Item = PathBuf> {
        self.lines().filter(|line| line.kind == b"proc").map(|line| plain(line.point))
    }

    /// Whether something is mounted below a directory.
    pub(crate) fn has_below(&self, path: &Path) -> bool {
        self.lines().map(|line| plain(line.point)).any(|point| point != path && point.starts_with(path))
    }

    /// Whether `/proc` hides processes from whoever may not trace them; see proc(5).
    pub(crate) fn hide_processes(&self) -> bool {
        let last = self.lines().rfind(|line| line.point == b"/proc");
        let mut options = last.map_or(&b""[..], |line| line.system).split(|byte| *byte == b',');
        options
            .any(|option| option.starts_with(b"hidepid=") && !matches!(option, b"hidepid=off" | b"hidepid=0"))
    }

    /// Whether what is mounted in one of them arrives in copies, or the other way round.
    #[cfg(feature = "bubblewrap")]
    pub(crate) fn spreads(&self) -> bool {
        self.lines().any(|line| line.spreads)
    }

    /// Where what no other mount covers is mounted, and with which of its own options; see mount(8).
    #[cfg(feature = "bubblewrap")]
    pub(crate) fn uncovered(&self) -> Vec<(PathBuf, Vec<&[u8]>)> {
        let mut mounts: Vec<_> =
            self.lines().map(|line| (line.id, line.parent, plain(line.point), line.options)).collect();
        let parents: HashMap<_, _> = mounts.iter().map(|(own, parent, ..)| (*own, *parent)).collect();
        let placed = mounts.iter().filter(|(own, parent, ..)| own != parent);
        let placed: HashSet<_> = placed.map(|(_, parent, point, _)| (*parent, point.clone())).collect();
        // By one that is mounted on the same, on what leads there.
        let is_out_of_sight = |parent: &[u8], point: &Path| {
            point.ancestors().skip(1).any(|above| placed.contains(&(parent, above.to_path_buf())))
        };
        let covered: HashSet<_> = mounts
            .iter()
            .filter(|(_, parent, point, _)| is_out_of_sight(parent, point))
            .map(|(own, ..)| *own)
            .collect();
        // What is mounted on a covered one is out of sight with it.
        let holders = |own| {
            std::iter::successors(Some(own), |at| parents.get(at).copied().filter(|up| up != at))
                .take(parents.len())
        };
        mounts.retain(|(own, _, point, _)| {
            let lies_below_another = placed.contains(&(*own, point.clone()));
            !lies_below_another && !holders(*own).any(|holder| covered.contains(holder))
        });
        mounts
            .into_iter()
            .map(|(.., point, options)| (point, options.split(|byte| *byte == b',').collect()))
            .collect()
    }

    /// By which other paths these places, or parts of them, can be reached: bind mounts.
    pub(crate) fn other_names(&self, places: &[PathBuf]) -> Vec<PathBuf> {
        let mounts: Vec<_> =
            self.lines().map(|line| (line.device, plain(line.root), plain(line.point))).collect();
        // What is mounted in a place belongs to it.
        let inside = |place: &PathBuf| {
            let below = mounts.iter().filter(|(.., point)| point.starts_with(place) && point != place);
            below.map(|(device, root, _)| (*device, root.clone())).collect::<Vec<_>>()
        };
        let holder = |place: &PathBuf| {
            let around = mounts.iter().filter(|(.., point)| place.starts_with(point));
            let (device, root, point) = around.max_by_key(|(.., point)| point.components().count())?;
            Some((*device, joined(root, place.strip_prefix(point).ok()?)))
        };
        let spots: Vec<_> =
            places.iter().flat_map(|place| holder(place).into_iter().chain(inside(place))).collect();
        let mut names = Vec::new();
        for (device, spot) in &spots {
            for (_, root, point) in mounts.iter().filter(|(other, ..)| other == device) {
                if let Ok(rest) = spot.strip_prefix(root) {
                    names.push(joined(point, rest));
                } else if root.starts_with(spot) {
                    names.push(point.clone());
                }
            }
        }
        names.retain(|name| !places.iter().any(|place| name.starts_with(place)));
        names
    }

    /// What is no line of such a table is passed over.
    pub(crate) fn lines(&self) -> impl DoubleEndedIterator<Item = Line<'_>> {
        self.0.split(|byte| *byte == b'\n').filter_map(Line::of)
    }
}

/// Without a slash at the end.
fn joined(path: &Path, rest: &Path) -> PathBuf {
    path.components().chain(rest.components()).collect()
}

/// A path without the octal numbers that stand for blanks and backslashes.
pub(crate) fn plain(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let number = octal(after).filter(|_| *first == b'\\');
        let (byte, after) = number.unwrap_or((*first, after));
        path.push(byte);
        rest = after;
    }
    PathBuf::from(OsString::from_vec(path))
}

/// The number in three digits, and what follows them.
fn octal(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, after) = bytes.split_at_checked(3)?;
    Some((u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn every_mount_of_processes_is_found() {
        let table = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                      27 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      30 27 0:21 /sys /srv/a\\040b\\134\\012c ro shared:1 master:2 - proc none rw\n\
                      31 27 0:22 / /srv/x\xff rw - proc - rw\n\
                      32 27 0:22 / /srv/proc rw - tmpfs proc rw\nbroken -\n";
        let found: Vec<_> = MountTable(table.to_vec()).of_processes().collect();
        let paths: Vec<_> = found.iter().map(|path| path.as_os_str().as_bytes()).collect();
        assert_eq!(paths, [&b"/proc"[..], b"/srv/a b\\\nc", b"/srv/x\xff"]);
    }

    #[test]
    fn a_proc_that_hides_processes_is_known() {
        let hides = |options: &str| {
            let table = format!(
                "22 27 0:21 / /proc rw - proc proc rw\n23 22 0:22 / /proc rw - proc proc {options}\n"
            );
            MountTable(table.into()).hide_processes()
        };
        assert!(
            hides("rw,hidepid=invisible") && hides("rw,gid=4,hidepid=1") && hides("hidepid=ptraceable,rw")
        );
        assert!(
            !hides("rw") && !hides("rw,hidepid=0") && !hides("rw,hidepid=off") && !hides("rw,subset=pid")
        );
    }

    #[test]
    #[cfg(feature = "bubblewrap")]
    fn what_tells_others_of_its_mounts_is_known() {
        let spreads = |fields: &str| {
            MountTable(format!("27 1 254:0 / /shared:1 rw {fields}- ext4 /dev/vda rw\n").into()).spreads()
        };
        assert!(spreads("shared:1 ") && spreads("master:2 ") && spreads("unbindable shared:1 "));
        assert!(!spreads("") && !spreads("unbindable "));
    }

    #[test]
    #[cfg(feature = "bubblewrap")]
    fn what_another_mount_covers_is_out_of_sight() {
        let table = b"1 1 0:1 / / ro,nosuid - tmpfs t rw\n\
                      2 1 0:2 / /a rw - tmpfs t rw\n\
                      3 2 0:3 / /a/in rw - tmpfs t rw\n\
                      4 3 0:4 / /a/in/deep rw - tmpfs t rw\n\
                      5 2 0:5 / /a/in rw - tmpfs t rw\n\
                      6 1 0:6 / /b/c rw - tmpfs t rw\n\
                      7 6 0:6 / /b/c/d rw - tmpfs t rw\n\
                      8 1 0:7 / /b rw - tmpfs t rw\n\
                      9 8 0:7 / /b/c rw - tmpfs t rw\n\
                      10 9 0:7 / /b/c ro - tmpfs t rw\n";
        let table = MountTable(table.to_vec());
        let seen: Vec<_> = table.uncovered();
        let points: Vec<_> =
            seen.iter().map(|(point, options)| (point.to_str().unwrap(), options[0])).collect();
        assert_eq!(
            points,
            [
                ("/", &b"ro"[..]),
                ("/a", b"rw"),
                ("/a/in", b"rw"),
                ("/a/in/deep", b"rw"),
                ("/a/in", b"rw"),
                ("/b", b"rw"),
                ("/b/c", b"ro")
            ]
        );
        assert_eq!(seen[0].1, [&b"ro"[..], b"nosuid"]);
    }

    #[test]
    fn bind_mounts_of_a_place_are_its_other_names() {
        let table = b"27 1 8:1 / / rw - ext4 /dev/vda rw\n\
                      28 27 8:1 /srv/w /mnt/whole rw - ext4 /dev/vda rw\n\
                      29 27 8:1 /srv/w/sub /mnt/part rw - ext4 /dev/vda rw\n\
                      30 27 8:1 /srv /mnt/above rw - ext4 /dev/vda rw\n\
                      31 27 8:1 /srv/wide /mnt/other rw - ext4 /dev/vda rw\n\
                      32 27 8:2 /srv/w /mnt/another rw - ext4 /dev/vdb rw\n\
                      33 27 0:40 / /srv/w/memory rw - tmpfs none rw\n\
                      34 27 0:40 /x /mnt/memory rw - tmpfs none rw\n";
        let names = |place: &str| MountTable(table.to_vec()).other_names(&[PathBuf::from(place)]);
        let paths = ["/mnt/whole", "/mnt/part", "/mnt/above/w", "/mnt/memory"].map(PathBuf::from);
        assert_eq!(names("/srv/w"), paths);
        // The other way round.
        assert_eq!(
            names("/mnt/part"),
            ["/srv/w/sub", "/mnt/whole/sub", "/mnt/above/w/sub"].map(PathBuf::from)
        );
        assert_eq!(names("/opt"), Vec::<PathBuf>::new());
    }

    proptest! {
        #[test]
        fn any_table_is_taken(table in "([0-9:]{0,3}[ /\\\\a0-9-]{0,40}\n?){0,4}") {
            let table = MountTable(table.into_bytes());
            table.other_names(&[PathBuf::from("/a"), PathBuf::from("/")]);
            table.of_processes().for_each(drop);
            #[cfg(feature = "bubblewrap")]
            drop(table.uncovered());
        }
    }
}
