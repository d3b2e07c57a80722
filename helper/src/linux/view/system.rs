//! The part of the host that every jail sees, read-only.

use super::STEP;
use crate::error::{Context, Result};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Readable for everyone on every system, and without secrets. Where one is a link on the host (a merged `/usr`), the
/// link is made anew.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// The parts of `/etc` that programs need to start: links of `/usr` that lead there, the loader's cache, certificates,
/// names and types. No accounts, no host names, no keys. With whether it is a directory.
const ETC: [(&str, bool); 8] = [
    ("alternatives", true),
    ("ld.so.cache", false),
    ("localtime", false),
    ("mime.types", false),
    ("protocols", false),
    ("python3", true),
    ("services", false),
    ("timezone", false),
];
/// The same, from directories that hold secrets too: the directory, the path in it, and whether that is a directory.
const ETC_NESTED: [(&str, &str, bool); 4] = [
    ("ssl", "certs", true),
    ("ssl", "openssl.cnf", false),
    ("pki", "tls/certs", true),
    // Where the links among the certificates lead on Fedora and its kin.
    ("pki", "ca-trust/extracted", true),
];
/// See resolv.conf(5) and its kin.
const NAMES_OF_HOSTS: [&str; 5] = ["gai.conf", "host.conf", "hosts", "nsswitch.conf", "resolv.conf"];
/// Java's are named after what lies here.
const JAVA: &str = "/usr/lib/jvm";
/// Python's after what this leads to: `python3.13`.
const PYTHON: &str = "/usr/bin/python3";

/// Whether a path lies in a system directory and so needs no grant.
pub(crate) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// What is bound and linked, by absolute paths that are the same outside and inside.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct System {
    /// Links that are made anew: where, and what they say.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// What is bound, and whether it is a directory. One that does not exist is left out: to find that out by binding
    /// costs nothing.
    pub(crate) binds: Vec<(PathBuf, bool)>,
}

impl System {
    /// That of the system whose root is `root`.
    pub(crate) fn of(root: &Path) -> Result<Self> {
        let mut system = System::default();
        for path in SYSTEM.map(PathBuf::from) {
            system.add_directory(root, path)?;
        }
        system.add_configuration(root).context(STEP, "look through /etc")?;
        Ok(system)
    }

    /// How a program on the host's network finds out addresses.
    pub(super) fn add_names_of_hosts(&mut self, root: &Path) -> Result<()> {
        NAMES_OF_HOSTS
            .iter()
            .try_for_each(|name| self.add_entry(root, Path::new("/etc").join(name), false))
            .context(STEP, "look through /etc")
    }

    /// Whether this is the top of something that is shown.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        self.binds.iter().any(|(top, _)| top == path)
    }

    /// One call tells a link, something else and nothing apart.
    fn add_directory(&mut self, root: &Path, path: PathBuf) -> Result<()> {
        match look(&outside(root, &path)).context(STEP, format_args!("look at {path:?}"))? {
            Some(Found::Link(says)) => self.links.push((path, says)),
            Some(Found::Other) => self.binds.push((path, true)),
            None => {}
        }
        Ok(())
    }

    /// Name by name: a host's `/etc` is long, and to list it would take as long as ten mounts.
    fn add_configuration(&mut self, root: &Path) -> io::Result<()> {
        for (name, is_dir) in ETC {
            self.add_entry(root, Path::new("/etc").join(name), is_dir)?;
        }
        for name in versioned(root)? {
            self.add_entry(root, Path::new("/etc").join(name), true)?;
        }
        for directory in ["ssl", "pki"] {
            let path = Path::new("/etc").join(directory);
            if look(&outside(root, &path))?.is_some() {
                let nested = ETC_NESTED.iter().filter(|(above, ..)| *above == directory);
                self.binds.extend(nested.map(|(_, below, is_dir)| (path.join(below), *is_dir)));
            }
        }
        Ok(())
    }

    /// A link into a system directory is made anew, since programs read from it (the time zone's name). Any other would
    /// lead to what the jail does not see, so that what it leads to is shown in its place.
    fn add_entry(&mut self, root: &Path, path: PathBuf, is_dir: bool) -> io::Result<()> {
        let place = outside(root, &path);
        let says = match look(&place)? {
            Some(Found::Link(says)) => says,
            Some(Found::Other) => {
                self.binds.push((path, is_dir));
                return Ok(());
            }
            None => return Ok(()),
        };
        if is_system(&lexically(&Path::new("/etc").join(&says))) {
            self.links.push((path, says));
            return Ok(());
        }
        match place.metadata() {
            Ok(meta) => self.binds.push((path, meta.is_dir())),
            Err(error) if is_absence(&error) => self.links.push((path, says)),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// What of `/etc` is named after a version, if it is there.
fn versioned(root: &Path) -> io::Result<BTreeSet<OsString>> {
    let python = match std::fs::read_link(outside(root, Path::new(PYTHON))) {
        Ok(says) => Some(says),
        // Not there, or no link.
        Err(error) if is_absence(&error) || error.raw_os_error() == Some(libc::EINVAL) => None,
        Err(error) => return Err(error),
    };
    let mut names: BTreeSet<_> =
        python.iter().filter_map(|says| says.file_name()).map(OsStr::to_owned).collect();
    let found = match std::fs::read_dir(outside(root, Path::new(JAVA))) {
        Err(error) if is_absence(&error) => return Ok(names),
        found => found?,
    };
    for entry in found {
        let name = entry?.file_name();
        // `java-17-openjdk-amd64` has its settings in `java-17-openjdk`.
        let front = name.as_bytes().rsplitn(2, |byte| *byte == b'-').nth(1);
        if let Some(front) = front.filter(|_| name.as_bytes().starts_with(b"java-")) {
            names.insert(OsStr::from_bytes(front).to_owned());
            names.insert(name);
        }
    }
    Ok(names)
}

enum Found {
    /// And what it says.
    Link(PathBuf),
    Other,
}

/// What is there, in one call.
fn look(path: &Path) -> io::Result<Option<Found>> {
    match std::fs::read_link(path) {
        Ok(says) => Ok(Some(Found::Link(says))),
        // Not a link.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(Some(Found::Other)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a host does not have is left out of the view.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// An absolute path below another root.
fn outside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// An absolute path without `.` and `..`, by its text alone.
pub(crate) fn lexically(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    fn system(directories: &[&str], files: &[&str], links: &[(&str, &str)]) -> System {
        let root = tempfile::tempdir().unwrap();
        create_dir_all(root.path().join("etc")).unwrap();
        for path in directories {
            create_dir_all(root.path().join(path)).unwrap();
        }
        for path in files {
            create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
            write(root.path().join(path), "").unwrap();
        }
        for (path, says) in links {
            symlink(says, root.path().join(path)).unwrap();
        }
        let mut system = System::of(root.path()).unwrap();
        system.links.sort();
        system.binds.sort();
        system
    }

    fn links(pairs: &[(&str, &str)]) -> Vec<(PathBuf, PathBuf)> {
        pairs.iter().map(|(path, says)| (PathBuf::from(path), PathBuf::from(says))).collect()
    }

    fn binds(pairs: &[(&str, bool)]) -> Vec<(PathBuf, bool)> {
        pairs.iter().map(|(path, is_dir)| (PathBuf::from(path), *is_dir)).collect()
    }

    #[test]
    fn a_merged_usr_is_one_mount_and_links() {
        let found = system(&["usr/bin", "usr/lib"], &[], &[("bin", "usr/bin"), ("lib", "usr/lib")]);
        assert_eq!(found.links, links(&[("/bin", "usr/bin"), ("/lib", "usr/lib")]));
        assert_eq!(found.binds, binds(&[("/usr", true)]), "and there need be no /lib64");
    }

    #[test]
    fn a_split_usr_is_several_mounts() {
        let found = system(&["usr/bin", "bin", "sbin", "lib", "lib64"], &[], &[]);
        let all = ["/bin", "/lib", "/lib64", "/sbin", "/usr"].map(|path| (path, true));
        assert_eq!((found.links, found.binds), (links(&[]), binds(&all)));
    }

    #[test]
    fn only_harmless_configuration_is_shown() {
        let files =
            ["etc/passwd", "etc/shadow", "etc/ld.so.cache", "etc/ssl/private/key", "etc/python3.11/x"];
        let directories = [
            "etc/ssh",
            "etc/java-17-openjdk",
            "etc/python3.9",
            "usr/bin",
            "usr/lib/jvm/java-17-openjdk-amd64",
        ];
        let found = system(&directories, &files, &[("usr/bin/python3", "python3.11")]);
        let wanted = [
            ("/etc/java-17-openjdk", true),
            ("/etc/ld.so.cache", false),
            ("/etc/python3.11", true),
            ("/etc/ssl/certs", true),
            ("/etc/ssl/openssl.cnf", false),
            ("/usr", true),
        ];
        assert_eq!((found.links, found.binds), (links(&[]), binds(&wanted)));
    }

    #[test]
    fn a_link_out_of_the_view_is_replaced_by_what_it_leads_to() {
        let zone = "var/zones/Tokyo";
        for into_the_view in ["/usr/share/zoneinfo/Asia/Tokyo", "../usr/share/zoneinfo/Asia/Tokyo"] {
            let found = system(&[], &[zone], &[("etc/localtime", into_the_view)]);
            assert_eq!((found.links, found.binds), (links(&[("/etc/localtime", into_the_view)]), binds(&[])));
        }
        let found = system(&[], &[zone], &[("etc/localtime", "../var/zones/Tokyo")]);
        assert_eq!((found.links, found.binds), (links(&[]), binds(&[("/etc/localtime", false)])));
        let found = system(&[], &[], &[("etc/localtime", "../var/nowhere")]);
        assert_eq!(found.links, links(&[("/etc/localtime", "../var/nowhere")]), "it dangles outside, too");
    }
}
