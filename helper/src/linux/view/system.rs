//! The part of the host that every jail sees, read-only.

use super::STEP;
use crate::error::{Context, Result};
use std::fs::DirEntry;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Readable for everyone on every system, and without secrets. Where one is a link on the host (a merged `/usr`), the
/// link is made anew.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// The parts of `/etc` that programs need to start: links of `/usr` that lead there, the loader's cache, certificates,
/// names and types. No accounts, no host names, no keys.
const ETC: [&str; 7] =
    ["alternatives", "ld.so.cache", "localtime", "mime.types", "protocols", "services", "timezone"];
/// The same, by the start of a name that goes on with a version: `python3.13`, `java-21-openjdk`.
const ETC_VERSIONED: [&str; 2] = ["python3", "java-"];
/// The same, from directories that hold secrets too: the directory, the path in it, and whether that is a directory.
const ETC_NESTED: [(&str, &str, bool); 4] = [
    ("ssl", "certs", true),
    ("ssl", "openssl.cnf", false),
    ("pki", "tls/certs", true),
    // Where the links among the certificates lead on Fedora and its kin.
    ("pki", "ca-trust/extracted", true),
];

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

    /// Whether this is the top of something that is shown.
    pub(super) fn shows(&self, path: &Path) -> bool {
        self.binds.iter().any(|(top, _)| top == path)
    }

    /// One call tells a link, something else and nothing apart.
    fn add_directory(&mut self, root: &Path, path: PathBuf) -> Result<()> {
        match std::fs::read_link(outside(root, &path)) {
            Ok(says) => self.links.push((path, says)),
            // Not a link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.binds.push((path, true)),
            Err(error) if is_absence(&error) => {}
            Err(error) => return Err(error).context(STEP, format_args!("look at {path:?}")),
        }
        Ok(())
    }

    fn add_configuration(&mut self, root: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(outside(root, Path::new("/etc")))? {
            let entry = entry?;
            let name = entry.file_name();
            if is_wanted(name.as_bytes()) {
                self.add_entry(&entry)?;
            }
            for (_, below, is_dir) in ETC_NESTED.iter().filter(|(directory, ..)| name == *directory) {
                self.binds.push((Path::new("/etc").join(&name).join(below), *is_dir));
            }
        }
        Ok(())
    }

    /// A link into a system directory is made anew, since programs read from it (the time zone's name). Any other would
    /// lead to what the jail does not see, so that what it leads to is shown in its place.
    fn add_entry(&mut self, entry: &DirEntry) -> io::Result<()> {
        let path = Path::new("/etc").join(entry.file_name());
        let kind = entry.file_type()?;
        if !kind.is_symlink() {
            self.binds.push((path, kind.is_dir()));
            return Ok(());
        }
        let says = std::fs::read_link(entry.path())?;
        if is_system(&lexically(&Path::new("/etc").join(&says))) {
            self.links.push((path, says));
            return Ok(());
        }
        match entry.path().metadata() {
            Ok(meta) => self.binds.push((path, meta.is_dir())),
            Err(error) if is_absence(&error) => self.links.push((path, says)),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn is_wanted(name: &[u8]) -> bool {
    ETC.iter().any(|wanted| wanted.as_bytes() == name)
        || ETC_VERSIONED.iter().any(|start| name.starts_with(start.as_bytes()))
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
fn lexically(path: &Path) -> PathBuf {
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
        let found = system(&["etc/ssh", "etc/java-17-openjdk"], &files, &[]);
        let wanted = [
            ("/etc/java-17-openjdk", true),
            ("/etc/ld.so.cache", false),
            ("/etc/python3.11", true),
            ("/etc/ssl/certs", true),
            ("/etc/ssl/openssl.cnf", false),
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
