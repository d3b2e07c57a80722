//! Where else than in itself a repository has something executed from, because a setting or a link says so.

use super::config::{self, Settings};
use super::inside::{Inside, reach};
use super::names::COVERED;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A larger file of settings is not read.
const LARGEST: u64 = 1 << 20;
/// As deep as git follows files that include files.
const DEEPEST: usize = 10;

impl Inside<'_> {
    /// The paths below the directory that matter to a repository at the absolute path `git`. Its hooks run in `tree`.
    pub(super) fn executed_by(
        self,
        git: &Path,
        tree: &Path,
        deadline: Instant,
    ) -> io::Result<BTreeSet<PathBuf>> {
        let mut found = Found { inside: self, git, paths: BTreeSet::new() };
        let common = self.common(git)?;
        for directory in [git, &common] {
            for name in COVERED {
                let path = directory.join(text(name.to_bytes()));
                if self.read_link(&path)?.is_some() {
                    found.add(&path, tree)?;
                }
            }
        }
        let settings = found.settings(&common, tree, deadline)?;
        let mut trees = Vec::new();
        for tree in &settings.trees {
            trees.extend(self.follow(&git.join(text(tree)))?.target);
        }
        for hooks in &settings.hooks {
            let hooks = expand(text(hooks));
            // One common tool keeps generated hooks in `_`, and beside it the scripts that they execute.
            let hooks =
                if hooks.ends_with("_") { hooks.parent().unwrap_or(&hooks).to_path_buf() } else { hooks };
            for tree in trees.iter().map(PathBuf::as_path).chain([tree]) {
                found.add(&tree.join(&hooks), tree)?;
            }
        }
        Ok(found.paths)
    }

    /// What a `.git` file leads to.
    pub(super) fn led_to(self, file: &Path) -> io::Result<Option<PathBuf>> {
        let text_of = self.read(file)?;
        let says = text_of.as_deref().and_then(|says| says.strip_prefix(b"gitdir:"));
        let (Some(says), Some(here)) = (says, file.parent()) else { return Ok(None) };
        self.follow(&here.join(text(says.trim_ascii()))).map(|followed| followed.target)
    }

    /// Whether a repository calls files by the longer kind of hash.
    pub(super) fn has_long_hashes(self, git: &Path) -> io::Result<bool> {
        let settings = self.read(&self.common(git)?.join("config"))?;
        Ok(settings.is_some_and(|settings| config::read(&settings).sha256))
    }

    /// The repository whose settings count in `git`: itself unless it is a worktree's part.
    fn common(self, git: &Path) -> io::Result<PathBuf> {
        let Some(says) = self.read(&git.join("commondir"))? else { return Ok(git.to_path_buf()) };
        let followed = self.follow(&git.join(text(says.trim_ascii())))?;
        Ok(followed.target.unwrap_or_else(|| git.to_path_buf()))
    }

    /// `None` if it is no file or cannot be read.
    fn read(self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let Some(real) = self.follow(path)?.target else { return Ok(None) };
        // Not waiting for the writer of a FIFO.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let open = || -> io::Result<File> {
            match self.below(&real) {
                Some(below) => {
                    let (trail, name) = reach(self.root, below)?;
                    Ok(File::from(openat(trail.here(), name.as_c_str(), flags, Mode::empty())?))
                }
                None => File::options().read(true).custom_flags(flags.bits()).open(&real),
            }
        };
        let Ok(file) = open() else { return Ok(None) };
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(LARGEST).read_to_end(&mut text)?;
        Ok(Some(text))
    }
}

struct Found<'a> {
    inside: Inside<'a>,
    git: &'a Path,
    paths: BTreeSet<PathBuf>,
}

impl Found<'_> {
    /// What a repository's files of settings say, and those that they include.
    fn settings(&mut self, common: &Path, tree: &Path, deadline: Instant) -> io::Result<Settings> {
        let mut all = Settings::default();
        let mut files = VecDeque::from([(common.join("config"), 0), (self.git.join("config.worktree"), 0)]);
        let mut seen = HashSet::new();
        while let Some((file, depth)) = files.pop_front()
            && Instant::now() < deadline
        {
            let Some(text_of) = self.inside.read(&file)? else { continue };
            let Settings { hooks, included, trees, .. } = config::read(&text_of);
            all.hooks.extend(hooks);
            all.trees.extend(trees);
            for path in included.iter().map(|path| expand(text(path))) {
                let path = file.parent().unwrap_or(Path::new("/")).join(path);
                self.add(&path, tree)?;
                if depth < DEEPEST && seen.insert(path.clone()) {
                    files.push_back((path, depth.saturating_add(1)));
                }
            }
        }
        Ok(all)
    }

    /// Adds the links of a path and what it leads to.
    fn add(&mut self, path: &Path, tree: &Path) -> io::Result<()> {
        let followed = self.inside.follow(path)?;
        self.paths.extend(followed.links);
        let Some(target) = followed.target else { return Ok(()) };
        // The whole working tree as a place for hooks cannot be taken from the command.
        let is_whole = self.git.starts_with(&target) || tree.starts_with(&target);
        let below = self.inside.below(&target).filter(|below| !is_whole && !below.as_os_str().is_empty());
        self.paths.extend(below.map(Path::to_path_buf));
        Ok(())
    }
}

fn text(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// `~` as git expands it; another user's home is left alone.
fn expand(path: &OsStr) -> PathBuf {
    match (path.as_bytes().strip_prefix(b"~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => {
            let rest =
                rest.iter().position(|byte| *byte != b'/').and_then(|at| rest.get(at..)).unwrap_or_default();
            Path::new(&home).join(text(rest))
        }
        _ => PathBuf::from(path),
    }
}
