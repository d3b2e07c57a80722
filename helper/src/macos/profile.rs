//! The text of the profile: what every jail has, then what this policy grants.
//!
//! Nothing here asks the host. Paths come resolved, and the text is the same on every system, so that all of them test it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// `profiles/seatbelt.sb` without its comments.
const COMMON: &str = include_str!(concat!(env!("OUT_DIR"), "/seatbelt.sb"));
const METADATA: &str = "file-read-metadata file-test-existence";
const READ: &str = "file-read* file-test-existence file-map-executable process-exec";
/// Not owners, and least of all `file-write-setugid`, the operation of set-user-id bits.
const WRITE: &str = "file-write-create file-write-data file-write-flags file-write-mode file-write-times \
                     file-write-unlink file-write-xattr";
/// A file that is granted can be changed, not replaced: the rule is about this one.
const WRITE_FILE: &str = "file-write-data file-write-mode file-write-times file-write-xattr";

/// Names in a repository by which git of the host is made to execute something.
const GIT_NAMES: [&str; 10] = [
    "branches",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "hooks",
    "rebase-apply",
    "rebase-merge",
    "remotes",
    "sequencer",
];
/// Directories of a repository that hold others.
const GIT_HOLDERS: [&str; 2] = ["modules", "worktrees"];

/// What can be done at a path and, in a directory, below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Hidden,
    Readable,
    Writable,
}

/// One path that is granted or hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) access: Access,
    /// Whether what is below it is meant too.
    pub(crate) is_directory: bool,
}

/// Everything that a profile depends on.
pub(crate) struct Profile<'a> {
    /// By resolved path. The longest one that holds a path decides about it.
    pub(crate) grants: &'a BTreeMap<PathBuf, Grant>,
    /// Other names by which granted paths are known: the links on their way can be followed.
    pub(crate) spellings: &'a BTreeSet<PathBuf>,
    /// Where sockets with a name can be made and connected to.
    pub(crate) private: &'a Path,
    /// Whether names that git acts on are kept as they are, but for the private directory.
    pub(crate) protects_git: bool,
    /// Whether the host's network is shared.
    pub(crate) shares_network: bool,
    /// A service that does not exist. Who may look it up is in this jail, and the supervisor can ask that.
    pub(crate) mark: &'a str,
}

/// A path that no profile can name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unsayable {
    path: PathBuf,
    why: &'static str,
}

impl fmt::Display for Unsayable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} cannot be said in a profile: it {}", self.path, self.why)
    }
}

impl Profile<'_> {
    /// The text for `sandbox_init`.
    pub(crate) fn text(&self) -> Result<String, Unsayable> {
        let mut text = COMMON.to_owned();
        let mut rule = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        rule(self.metadata()?);
        for region in self.regions(|access| access != Access::Hidden) {
            rule(format!("(allow {READ} {})", region.filter()?));
        }
        for region in self.regions(|access| access == Access::Writable) {
            rule(self.writing(&region)?);
        }
        // Made of letters, digits, dots and dashes.
        rule(format!("(allow mach-lookup (global-name \"{}\"))", self.mark));
        let private = quoted(self.private)?;
        rule("(allow system-socket (socket-domain AF_UNIX))".to_owned());
        rule(format!("(allow network-bind network-inbound (local unix-socket (subpath {private})))"));
        rule(format!("(allow network-outbound (remote unix-socket (subpath {private})))"));
        if self.shares_network {
            rule("(allow network*)".to_owned());
            rule("(allow system-socket)".to_owned());
            // What resolves names and checks certificates.
            rule(
                "(allow mach-lookup (global-name \"com.apple.SystemConfiguration.DNSConfiguration\") (global-name \
                 \"com.apple.SystemConfiguration.configd\") (global-name \"com.apple.trustd.agent\"))"
                    .to_owned(),
            );
        }
        Ok(text)
    }

    /// The way to everything that is granted can be looked at, step by step, and not listed.
    fn metadata(&self) -> Result<String, Unsayable> {
        let shown =
            self.grants.iter().filter(|(_, grant)| grant.access != Access::Hidden).map(|(path, _)| path);
        let all: BTreeSet<&Path> = shown.chain(self.spellings).flat_map(|path| path.ancestors()).collect();
        let literals: Vec<String> = all
            .into_iter()
            .map(|path| Ok(format!("(literal {})", quoted(path)?)))
            .collect::<Result<_, _>>()?;
        Ok(format!("(allow {METADATA} {})", literals.join(" ")))
    }

    /// What is granted in one piece, and what is not in it.
    fn regions(&self, belongs: impl Fn(Access) -> bool) -> Vec<Region<'_>> {
        let mut regions: BTreeMap<&Path, Region> = BTreeMap::new();
        for (path, grant) in self.grants {
            let root = self.root(path, &belongs);
            match (belongs(grant.access), root) {
                (true, None) => {
                    regions
                        .insert(path, Region { path, is_directory: grant.is_directory, holes: Vec::new() });
                }
                // Parents come before what is in them, so the region is there.
                (false, Some(root)) => {
                    if let Some(region) = regions.get_mut(root) {
                        region.holes.push(path);
                    }
                }
                (true, Some(_)) | (false, None) => {}
            }
        }
        regions.into_values().collect()
    }

    /// Where the region begins in which `path` lies, if it lies in one.
    fn root(&self, path: &Path, belongs: impl Fn(Access) -> bool) -> Option<&Path> {
        let above = path.ancestors().skip(1).filter_map(|above| self.grants.get_key_value(above));
        above.take_while(|(_, grant)| belongs(grant.access)).last().map(|(root, _)| root.as_path())
    }

    fn writing(&self, region: &Region) -> Result<String, Unsayable> {
        if !region.is_directory {
            return Ok(format!("(allow {WRITE_FILE} {})", region.filter()?));
        }
        // A directory that is moved takes what is in it to another path, about which another rule decides.
        let guards: BTreeSet<&Path> = region
            .holes
            .iter()
            .flat_map(|hole| hole.ancestors().skip(1).take_while(|above| above.starts_with(region.path)))
            .chain([region.path])
            .collect();
        let mut filter = format!("(require-all {}", region.filter()?);
        for guard in guards {
            filter.push_str(&format!(" (require-not (literal {}))", quoted(guard)?));
        }
        if self.protects_git && !region.path.starts_with(self.private) {
            filter.push_str(&git_filter());
        }
        Ok(format!("(allow {WRITE} {filter}))"))
    }
}

/// See [`Profile::regions`].
struct Region<'a> {
    path: &'a Path,
    is_directory: bool,
    holes: Vec<&'a Path>,
}

impl Region<'_> {
    fn filter(&self) -> Result<String, Unsayable> {
        let kind = if self.is_directory { "subpath" } else { "literal" };
        let root = format!("({kind} {})", quoted(self.path)?);
        if self.holes.is_empty() {
            return Ok(root);
        }
        let holes = self.holes.iter().map(|hole| Ok(format!(" (require-not (subpath {}))", quoted(hole)?)));
        Ok(format!("(require-all {root}{})", holes.collect::<Result<String, _>>()?))
    }
}

/// In every repository below, those that do not exist yet as well: nobody looks for them afterwards. The name `.git` is
/// taken as a whole, or a directory could be made elsewhere and get it. Without a `HEAD`, nothing is a bare repository.
fn git_filter() -> String {
    let git = any_case(".git");
    let any_of = |names: &[&str]| names.iter().map(|name| any_case(name)).collect::<Vec<_>>().join("|");
    let (names, holders, head) = (any_of(&GIT_NAMES), any_of(&GIT_HOLDERS), any_case("HEAD"));
    [
        format!(" (require-not (regex #\"/{git}$\"))"),
        format!(" (require-not (regex #\"/{git}/({names})(/|$)\"))"),
        format!(" (require-not (regex #\"/{git}/({holders})/(.*/)?({names})(/|$)\"))"),
        format!(" (require-not (require-all (regex #\"/{head}$\") (require-not (regex #\"/{git}/\"))))"),
    ]
    .concat()
}

/// Most volumes of a Mac do not tell capital letters from small ones.
fn any_case(name: &str) -> String {
    let both = |letter: char| match letter {
        letter if letter.is_ascii_alphabetic() => {
            format!("[{}{}]", letter.to_ascii_lowercase(), letter.to_ascii_uppercase())
        }
        letter => format!("[{letter}]"),
    };
    name.chars().map(both).collect()
}

/// A string of the language. It knows `\` and `"`; of everything else that could mean something there is none.
fn quoted(path: &Path) -> Result<String, Unsayable> {
    let refused = |why| Unsayable { path: path.to_owned(), why };
    let text = path.to_str().ok_or_else(|| refused("is not UTF-8"))?;
    if !text.starts_with('/') {
        return Err(refused("is not absolute"));
    }
    if text.chars().any(char::is_control) {
        return Err(refused("has a control character"));
    }
    // Apple's own profiles have such variables in their paths.
    if text.contains("${") {
        return Err(refused("has `${`, which could be read as a variable"));
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
