//! Installations outside the system directories: how one is known, and which parts of it programs need.

use super::Surroundings;
use super::script::read_start;
use crate::linux::view::is_system;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longer than any honest `pyvenv.cfg` or settings file.
pub(super) const LONGEST_SETTINGS: u64 = 1 << 16;
/// Granted if they exist. What else lies beside them may be anything: `pip.conf` and `.condarc` with passwords, or a
/// whole project that somebody made a virtual environment of.
const PARTS: [&str; 12] = [
    "bin",
    "conda-meta",
    "include",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "man",
    "pyvenv.cfg",
    "sbin",
    "share",
    "ssl",
];
/// Needed by nobody and no secret: beside these, too, one mount does for the whole.
const HARMLESS: [&str; 7] =
    [".gitignore", ".lock", "BUILD", "CACHEDIR.TAG", "CHANGELOG.md", "LICENSE", "README.md"];

impl Surroundings<'_> {
    /// What to grant for a real directory of programs: the parts of the installation that it is the `bin` of, and of the
    /// one that a virtual environment was made from. None if it is not known as one.
    pub(super) fn installation(&self, bin: &Path) -> Option<Vec<PathBuf>> {
        let prefix = self.prefix_of(bin)?;
        let names = self.names_in(prefix);
        if self.has(prefix, &names, "pyvenv.cfg", "") {
            return Some(parts(prefix, &names).into_iter().chain(self.base_of(prefix)).collect());
        }
        self.is_installation(prefix, &names).then(|| parts(prefix, &names))
    }

    /// Granting a prefix must not grant a home, or what a jail can write lies in. `~/.local` belongs to many programs.
    fn prefix_of<'a>(&self, bin: &'a Path) -> Option<&'a Path> {
        let prefix = bin.parent().filter(|_| bin.file_name() == Some(OsStr::new("bin")))?;
        let above = prefix.parent()?;
        let homes = ["/home", "/var/home"].map(Path::new);
        let is_a_home = prefix == Path::new("/root") || homes.contains(&prefix) || homes.contains(&above);
        let home = (self.own)("HOME").map(PathBuf::from);
        let real_home = home.as_ref().and_then(|home| self.seen(home.canonicalize()));
        let holds = |path: &PathBuf| path.starts_with(prefix);
        let is_shared = prefix.file_name() == Some(OsStr::new(".local"));
        let too_wide =
            is_a_home || is_shared || self.writable.iter().chain(&home).chain(&real_home).any(holds);
        (!too_wide && !is_system(prefix)).then_some(prefix)
    }

    /// The signs are those by which conda, rustc and Python themselves know their prefix; for Node.js and Ruby it is
    /// where packages are installed to.
    fn is_installation(&self, prefix: &Path, names: &[OsString]) -> bool {
        self.has(prefix, names, "conda-meta", "history")
            || ["lib", "lib64"].iter().any(|library| {
                // It may be a link, but not to where a jail can write.
                names.iter().any(|name| name == library)
                    && self.walk(prefix, library).is_some_and(|walk| self.is_library(&walk.real))
            })
    }

    fn is_library(&self, library: &Path) -> bool {
        let names = self.names_in(library);
        let is_python = |name: &&OsString| {
            [&b"python"[..], b"pypy"].iter().any(|start| name.as_bytes().starts_with(start))
        };
        ["rustlib", "node_modules", "ruby"].iter().any(|sign| self.has(library, &names, sign, ""))
            || names
                .iter()
                .filter(is_python)
                .any(|name| self.walk(library, Path::new(name).join("os.py")).is_some())
    }

    /// Nothing of a directory that cannot be read.
    pub(super) fn names_in(&self, directory: &Path) -> Vec<OsString> {
        let entries = self.seen(std::fs::read_dir(directory)).into_iter().flatten();
        entries.filter_map(|entry| Some(self.seen(entry)?.file_name())).collect()
    }

    /// Whether a directory with these names in it has one of them, and something below that.
    fn has(&self, directory: &Path, names: &[OsString], name: &str, below: &str) -> bool {
        names.iter().any(|other| other == name) && self.walk(directory, Path::new(name).join(below)).is_some()
    }

    /// The installation that a virtual environment was made from: `home` in `pyvenv.cfg` is its `bin`
    /// (<https://docs.python.org/3/library/venv.html>). Links usually lead there too, copies do not. Python follows `home`
    /// as it is written, so the links in it are needed too.
    fn base_of(&self, venv: &Path) -> Vec<PathBuf> {
        let base = || {
            let config = self.walk(venv, "pyvenv.cfg")?.real;
            let config = self.seen(read_start(&config, LONGEST_SETTINGS))?;
            let home = Path::new(OsStr::from_bytes(home_in(&config)?)).to_owned();
            let home = self.walk("/", home)?;
            let prefix = self.prefix_of(&home.real)?;
            let names = self.names_in(prefix);
            let parts = self.is_installation(prefix, &names).then(|| parts(prefix, &names))?;
            Some(parts.into_iter().chain(home.links).collect())
        };
        base().unwrap_or_default()
    }
}

/// The value of `home` in a `pyvenv.cfg`, an absolute path.
pub(crate) fn home_in(config: &[u8]) -> Option<&[u8]> {
    config.split(|byte| *byte == b'\n').find_map(|line| {
        let mut sides = line.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
        let (name, value) = (sides.next()?, sides.next()?);
        (name == b"home" && value.starts_with(b"/")).then_some(value)
    })
}

/// The whole prefix where nothing else is in it, for that is one mount.
fn parts(prefix: &Path, names: &[OsString]) -> Vec<PathBuf> {
    // rustup has shell completions in a toolchain's `etc`, others have settings there.
    let is_rustups = prefix.parent().and_then(Path::file_name) == Some(OsStr::new("toolchains"));
    let is_part = |name: &OsStr| PARTS.iter().any(|part| name == *part);
    let is_harmless =
        |name: &OsStr| HARMLESS.iter().any(|harmless| name == *harmless) || (is_rustups && name == "etc");
    if names.iter().all(|name| is_part(name) || is_harmless(name)) {
        return vec![prefix.to_path_buf()];
    }
    names.iter().filter(|name| is_part(name)).map(|name| prefix.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn home_is_an_absolute_path() {
        assert_eq!(home_in(b"version = 3\n home =  /a b/bin \r\n"), Some(&b"/a b/bin"[..]));
        for hostile in ["home = ../../..", "home =", "home", "= /x", "homes = /x", ""] {
            assert_eq!(home_in(hostile.as_bytes()), None, "{hostile}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(home) = home_in(&bytes) {
                prop_assert!(home.starts_with(b"/") && !home.contains(&b'\n'));
            }
        }
    }
}
