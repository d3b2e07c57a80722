//! Version managers that put a stand-in in front of each program: pyenv and its relatives, asdf, mise, and rustup. A
//! stand-in needs the whole manager to run, so what it would run is looked up here, and run instead.
//!
//! The choice is read from where the manager reads it, except for files near the work dir (`.python-version`,
//! `rust-toolchain.toml`, `.tool-versions`), which a jail may have written.

use super::Surroundings;
use super::prefix::LONGEST_SETTINGS;
use super::script::read_start;
use crate::linux::resolve::look;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What cargo keeps of the registry that is public. Others may be private, git's URLs hold passwords, and settings and
/// credentials lie above.
const PUBLIC_REGISTRY: [&str; 2] = ["index.crates.io-", "github.com-1ecc"];

/// A directory of stand-ins, and where the programs are that they stand for, in the order in which they are tried.
pub(super) enum StandIns {
    /// Of everything in it.
    Shims(Vec<PathBuf>),
    /// Of what rustup manages; cargo also installs other programs there.
    Rustup(Vec<PathBuf>),
}

impl Surroundings<'_> {
    /// Whether a real directory is one of stand-ins. `toolchain` is what the command line asks of rustup.
    pub(super) fn stand_ins(&self, dir: &Path, toolchain: Option<&OsStr>) -> Option<StandIns> {
        if self.walk(dir, "rustup").is_some() {
            return Some(StandIns::Rustup(self.toolchain(dir, toolchain).into_iter().collect()));
        }
        let root = dir.parent().filter(|_| dir.file_name() == Some(OsStr::new("shims")))?;
        if self.walk(root, "versions").is_some() {
            return Some(StandIns::Shims(self.versions(root)));
        }
        self.walk(root, "installs").map(|installs| StandIns::Shims(self.tools(&installs.real)))
    }

    /// What asdf and mise take everywhere where no file says otherwise.
    fn tools(&self, installs: &Path) -> Vec<PathBuf> {
        let Some(home) = (self.own)("HOME") else { return Vec::new() };
        let mut bins = Vec::new();
        for file in [".tool-versions", ".config/mise/config.toml"] {
            let settings = self.walk("/", Path::new(&home).join(file));
            let settings = settings.and_then(|walk| self.start_of(&walk.real)).unwrap_or_default();
            let tools = settings.split(|byte| *byte == b'\n').filter_map(tool_in);
            let bin = |(tool, version)| self.walk(installs, plain(tool)?.join(plain(version)?).join("bin"));
            bins.extend(tools.filter_map(bin).map(|walk| walk.real));
        }
        bins
    }

    /// The versions that pyenv's own variable chooses, or else its file; rbenv and nodenv work the same way.
    fn versions(&self, root: &Path) -> Vec<PathBuf> {
        let manager = root.file_name().unwrap_or_default().to_string_lossy();
        let variable = format!("{}_VERSION", manager.trim_start_matches('.').to_uppercase());
        let of_file = || self.walk(root, "version").and_then(|walk| self.start_of(&walk.real));
        let chosen = self.variable(&variable).or_else(of_file).unwrap_or_default();
        let names = chosen.split(|byte| b":\n".contains(byte)).map(<[u8]>::trim_ascii);
        names
            .filter_map(|name| Some(self.walk(root.join("versions"), plain(name)?.join("bin"))?.real))
            .collect()
    }

    /// Where the programs of the chosen toolchain are, for rustup's own directory.
    fn toolchain(&self, dir: &Path, asked: Option<&OsStr>) -> Option<PathBuf> {
        let home = (self.own)("RUSTUP_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(&(self.own)("HOME")?).join(".rustup")))?;
        let settings = || self.start_of(&self.walk("/", home.join("settings.toml"))?.real);
        let name = asked
            .map(|name| name.as_bytes().to_vec())
            .or_else(|| self.variable("RUSTUP_TOOLCHAIN"))
            .or_else(|| toolchain_in(&String::from_utf8(settings()?).ok()?, self.start.as_deref()))?;
        // Names are written with and without the platform.
        let platforms = ["", "-unknown-linux-gnu", "-unknown-linux-musl"].map(|end| match end {
            "" => String::new(),
            end => format!("-{}{end}", std::env::consts::ARCH),
        });
        let toolchains = home.join("toolchains");
        platforms.iter().find_map(|platform| {
            let name = [&name, platform.as_bytes()].concat();
            let bin = self.walk("/", toolchains.join(plain(&name)?).join("bin"))?.real;
            (bin != dir).then_some(bin)
        })
    }

    fn start_of(&self, file: &Path) -> Option<Vec<u8>> {
        self.seen(read_start(file, LONGEST_SETTINGS))
    }

    /// Whether a program in rustup's directory is rustup by another name, be it a link or a second name of the file.
    pub(super) fn is_rustup(&self, dir: &Path, name: &OsStr) -> bool {
        let file = |name: &OsStr| self.seen(look(&dir.join(name))).map(|sight| sight.identity());
        name != "rustup" && file(name).is_some_and(|same| file(OsStr::new("rustup")) == Some(same))
    }

    /// The first program of that name.
    pub(super) fn first(&self, dirs: &[PathBuf], name: &OsStr) -> Option<PathBuf> {
        dirs.iter().map(|dir| dir.join(name)).find(|path| self.program_at(path).is_some())
    }

    /// What builds without a network need of `cargo_home`.
    pub(super) fn public_registry(&self, cargo_home: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for part in ["cache", "index", "src"] {
            let Some(part) = self.walk(cargo_home, Path::new("registry").join(part)) else { continue };
            let names = self.names_in(&part.real).into_iter().filter(|name| {
                PUBLIC_REGISTRY.iter().any(|start| name.as_bytes().starts_with(start.as_bytes()))
            });
            found.extend(names.filter_map(|name| self.walk(&part.real, name)).map(|walk| walk.real));
        }
        found
    }
}

/// The name of one directory, and nothing that leads elsewhere.
fn plain(name: &[u8]) -> Option<&Path> {
    let is_plain = !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/');
    is_plain.then(|| Path::new(OsStr::from_bytes(name)))
}

/// The toolchain that rustup's `settings.toml` chooses for a directory: that of the nearest one with an override, or the
/// default.
pub(crate) fn toolchain_in(settings: &str, start: Option<&Path>) -> Option<Vec<u8>> {
    let mut section = "";
    let mut chosen: Option<(usize, &str)> = None;
    for line in settings.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let Some((key, value)) = line.rsplit_once('=') else { continue };
        let (key, value) = (unquoted(key), unquoted(value));
        // The default counts less than any directory.
        let nearness = match section {
            "" if key == "default_toolchain" => Some(0),
            "[overrides]" if start.is_some_and(|start| start.starts_with(key)) => Some(key.len()),
            _ => None,
        };
        chosen = chosen.max(nearness.map(|nearness| (nearness, value)));
    }
    chosen.map(|(_, name)| name.as_bytes().to_vec())
}

/// A tool and its first version, from a line of either form: `python 3.12.1 3.11.0` and `python = "3.12.1"`. Whatever
/// else a file says in such words only chooses among what is installed.
pub(crate) fn tool_in(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = line.split(|byte| b" \t\r=\"'".contains(byte)).filter(|word| !word.is_empty());
    Some((words.next()?, words.next()?))
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\''])
}

impl Surroundings<'_> {
    /// A variable that chooses among what is installed: the policy's, or else the launcher's.
    fn variable(&self, name: &str) -> Option<Vec<u8>> {
        self.asked(name).or_else(|| (self.own)(name)).map(OsStringExt::into_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETTINGS: &str = "version = \"12\"\ndefault_toolchain = \"stable-x\"\nprofile = \"default\"\n\n[overrides]\n\
                            \"/srv/a\" = \"nightly-x\"\n'/srv/a/b=c' = '1.89-x'\n";

    #[test]
    fn the_nearest_override_counts() {
        let chosen = |start: Option<&str>| {
            toolchain_in(SETTINGS, start.map(Path::new)).map(|it| String::from_utf8(it).unwrap())
        };
        for (start, expected) in [
            (None, "stable-x"),
            (Some("/srv"), "stable-x"),
            (Some("/srv/ab"), "stable-x"),
            (Some("/srv/a"), "nightly-x"),
            (Some("/srv/a/b=c/d"), "1.89-x"),
        ] {
            assert_eq!(chosen(start).as_deref(), Some(expected), "{start:?}");
        }
        assert_eq!(toolchain_in("[other]\ndefault_toolchain = \"x\"", None), None);
    }

    proptest! {
        #[test]
        fn any_settings_are_taken(settings in "[\\[\\]a-z/=\"'\n ]{0,200}") {
            let _ = toolchain_in(&settings, Some(Path::new("/a")));
        }

        #[test]
        fn any_line_is_taken(line in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some((tool, version)) = tool_in(&line) {
                prop_assert!(!tool.is_empty() && !version.is_empty());
            }
        }

        #[test]
        fn a_plain_name_leads_nowhere_else(name in proptest::collection::vec(any::<u8>(), 0..4)) {
            if let Some(name) = plain(&name) {
                prop_assert!(matches!(name.components().collect::<Vec<_>>()[..], [std::path::Component::Normal(_)]));
            }
        }
    }
}
