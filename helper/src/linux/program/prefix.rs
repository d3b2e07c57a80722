//! Installations outside the system directories: how one is known, and which parts of it programs need.

use super::Surroundings;
use super::script::read_start;
use crate::linux::view::is_system;
use std::ffi::OsStr;
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
        if self.has(prefix, "pyvenv.cfg") {
            return Some(parts(prefix).into_iter().chain(self.base_of(prefix)).collect());
        }
        self.is_installation(prefix).then(|| parts(prefix))
    }

    /// Granting a prefix must not grant a home, or what a jail can write lies in.
    fn prefix_of<'a>(&self, bin: &'a Path) -> Option<&'a Path> {
        let prefix = bin.parent().filter(|_| bin.file_name() == Some(OsStr::new("bin")))?;
        let is_a_home = prefix == Path::new("/root")
            || [Path::new("/home"), Path::new("/Users")]
                .iter()
                .any(|homes| prefix == *homes || prefix.parent() == Some(homes));
        let home = (self.own)("HOME").map(PathBuf::from);
        let real_home = home.as_ref().and_then(|home| home.canonicalize().ok());
        let holds = |path: &PathBuf| path.starts_with(prefix);
        let too_wide = is_a_home || self.writable.iter().chain(&home).chain(&real_home).any(holds);
        (!too_wide && !is_system(prefix)).then_some(prefix)
    }

    /// The signs are those by which conda, rustc and Python themselves know their prefix; for Node.js it is where npm
    /// installs to.
    fn is_installation(&self, prefix: &Path) -> bool {
        ["conda-meta/history", "lib/rustlib", "lib/node_modules"].iter().any(|sign| self.has(prefix, sign))
            || ["lib", "lib64"].iter().any(|library| self.has_python(prefix, library))
    }

    fn has_python(&self, prefix: &Path, library: &str) -> bool {
        let Ok(entries) = std::fs::read_dir(prefix.join(library)) else { return false };
        entries.filter_map(std::result::Result::ok).any(|entry| {
            let name = entry.file_name();
            let is_python = [&b"python"[..], b"pypy"].iter().any(|start| name.as_bytes().starts_with(start));
            is_python && self.has(prefix, Path::new(library).join(name).join("os.py"))
        })
    }

    fn has(&self, prefix: &Path, below: impl AsRef<Path>) -> bool {
        self.walk(prefix, below).is_some()
    }

    /// The installation that a virtual environment was made from: `home` in `pyvenv.cfg` is its `bin`
    /// (<https://docs.python.org/3/library/venv.html>). Links usually lead there too, copies do not. Python follows `home`
    /// as it is written, so the links in it are needed too.
    fn base_of(&self, venv: &Path) -> Vec<PathBuf> {
        let base = || {
            let config = self.walk(venv, "pyvenv.cfg")?.real;
            let config = read_start(&config, LONGEST_SETTINGS)?;
            let home = Path::new(OsStr::from_bytes(home_in(&config)?)).to_owned();
            let home = self.walk("/", home).filter(|walk| walk.real.is_absolute())?;
            let prefix = self.prefix_of(&home.real).filter(|prefix| self.is_installation(prefix))?;
            Some(parts(prefix).into_iter().chain(home.links).collect())
        };
        base().unwrap_or_default()
    }
}

/// The value of `home` in a `pyvenv.cfg`, an absolute path.
fn home_in(config: &[u8]) -> Option<&[u8]> {
    config.split(|byte| *byte == b'\n').find_map(|line| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let value = line[at + 1..].trim_ascii();
        (line[..at].trim_ascii() == b"home" && value.starts_with(b"/")).then_some(value)
    })
}

/// The whole prefix where nothing else is in it, for that is one mount.
fn parts(prefix: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(prefix) else { return Vec::new() };
    let names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    // Desktops keep their keyrings in `~/.local/share`, rustup has shell completions in a toolchain's `etc`.
    let lies_in = |parent: &str| prefix.parent().and_then(Path::file_name) == Some(OsStr::new(parent));
    let is_local = prefix.file_name() == Some(OsStr::new(".local"));
    let is_part = |name: &OsStr| PARTS.iter().any(|part| name == *part) && !(is_local && name == "share");
    let is_harmless = |name: &OsStr| {
        HARMLESS.iter().any(|harmless| name == *harmless) || (name == "etc" && lies_in("toolchains"))
    };
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
