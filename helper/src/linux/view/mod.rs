//! Step 4: what the jail will see, decided outside.

pub(super) mod entry;
mod host_proc;
mod rules;
mod system;

use super::identity::Identity;
use super::mount_table::MountTable;
use super::owner_map::OwnerMaps;
use super::resolve::{judged, open_real};
use super::workdir::WorkPath;
use crate::error::{Context, Result, policy};
use agentkit_protocol::{Bytes, Net};
pub(crate) use entry::{Access, Entry, Kind, restrictions};
use nix::fcntl::readlinkat;
use nix::libc;
use nix::sys::stat::fstat;
pub(crate) use rules::{Found, find_all, writable};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
#[cfg(feature = "bubblewrap")]
pub(crate) use system::lexically;
pub(crate) use system::{System, is_system};

const STEP: &str = "view";

/// The private home.
pub(crate) const HOME: &str = "/home/jail";

/// Everything that is shown of the host.
#[derive(Debug)]
pub(crate) struct View {
    /// What every jail sees.
    pub(crate) system: System,
    /// What this one sees beside or in place of it, parents before what lies in them: the longest path decides.
    pub(crate) entries: Vec<Entry>,
    /// Links that make a caller's spellings lead where they lead outside, where nothing else stands.
    pub(crate) spellings: Vec<(PathBuf, PathBuf)>,
    /// The host directory to work in.
    pub(crate) workdir: Option<PathBuf>,
    /// Whether a rule covers something where host programs can put another file in its place: the kernel then takes away
    /// whatever a jail has mounted there.
    pub(crate) can_be_uncovered: bool,
}

impl View {
    /// One with these directories, and `/usr`.
    #[cfg(test)]
    pub(crate) fn of(list: &[(&str, Access)]) -> Self {
        let directory =
            |(path, access): &(&str, Access)| Entry::new(Path::new(path), Kind::Directory, *access, (0, 0));
        let system = System { binds: vec![("/usr".into(), true)], ..System::default() };
        let entries = list.iter().map(directory).collect();
        View { system, entries, spellings: Vec::new(), workdir: None, can_be_uncovered: false }
    }

    /// Decides what is seen; mounts nothing yet.
    pub(crate) fn new(workdir: &WorkPath, grants: &[PathBuf], rules: Vec<Found>, net: Net) -> Result<Self> {
        let mut system = System::of(Path::new("/"))?;
        if net == Net::Host {
            system.add_names_of_hosts(Path::new("/"))?;
        }
        let mut entries = BTreeMap::new();
        if !grants.is_empty() {
            let mounts = MountTable::of_this_process(STEP)?;
            grants.iter().try_for_each(|path| grant(&mut system, &mut entries, path, &mounts))?;
        }
        if let WorkPath::Host { path, identity, access, .. } = workdir {
            let entry = Entry::new(path, Kind::Directory, *access, *identity);
            entries.insert(path.clone(), entry);
        }
        let mut spellings = workdir.links()?;
        let protected_links = add_rules(&mut entries, &mut spellings, rules)?;
        let can_be_uncovered = rules::can_be_uncovered(&entries, &system);
        rules::pin(&mut entries, &protected_links);
        rules::seal_in_place(&mut entries);
        let workdir = workdir.on_host().map(Path::to_path_buf);
        Ok(View { system, entries: entries.into_values().collect(), spellings, workdir, can_be_uncovered })
    }

    /// Opens what a root launcher shows while it still is root: the user that it becomes can neither traverse root's
    /// directories nor map the owner of a writable one.
    pub(crate) fn open_as_root(&mut self, identity: &Identity, guarded: bool) -> Result<()> {
        let mut owners = OwnerMaps::new(identity);
        self.entries.iter_mut().try_for_each(|entry| entry.open_as_root(&mut owners, guarded))
    }

    /// How many descriptors that takes, all at the same time.
    pub(crate) fn descriptors(&self, guarded: bool) -> u64 {
        self.entries.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.descriptors(guarded)))
    }

    /// Hides these places, where processes of the host would show.
    pub(crate) fn hide_host_proc(&mut self, places: &[Bytes]) {
        places.iter().for_each(|place| host_proc::hide(self, Path::new(OsStr::from_bytes(&place.0))));
    }

    /// Whether an installation of a program is shown that this process's user can reach.
    #[cfg(any(feature = "bubblewrap", without_namespaces))]
    pub(crate) fn has_installations(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_installation && open_real(&entry.path).is_ok())
    }

    /// At most how many files and directories of the jail's own the entries need.
    pub(crate) fn names(&self) -> u64 {
        let paths = self.entries.iter().map(|entry| &entry.path);
        let paths = paths.chain(self.spellings.iter().map(|(path, _)| path));
        let stages = self.entries.iter().filter(|entry| entry.is_installation).map(|entry| &entry.path);
        let paths = paths.chain(stages);
        paths
            .map(|path| path.components().count() as u64)
            .fold(0, |sum, count| sum.saturating_add(count).saturating_add(1))
    }
}

/// A link becomes a link of the jail's own: followed here, it could lead anywhere.
fn grant(
    system: &mut System,
    entries: &mut BTreeMap<PathBuf, Entry>,
    path: &Path,
    mounts: &MountTable,
) -> Result<()> {
    let place = judged(path, open_real(path))?.context(STEP, format_args!("open {path:?}"))?;
    let stat = fstat(&place).map_err(io::Error::from).context(STEP, format_args!("stat {path:?}"))?;
    let kind = match stat.st_mode & libc::S_IFMT {
        libc::S_IFLNK => {
            let says = readlinkat(&place, "").map_err(io::Error::from);
            let says = says.context(STEP, format_args!("read the link {path:?}"))?;
            system.links.push((path.to_path_buf(), says.into()));
            return Ok(());
        }
        libc::S_IFDIR => Kind::Directory,
        _ => Kind::File,
    };
    let mut entry = Entry::new(path, kind, Access::ReadOnly, (stat.st_dev, stat.st_ino));
    entry.is_installation = kind == Kind::Directory;
    entry.is_one_mount = entry.is_installation && !mounts.has_below(path);
    entries.insert(path.to_path_buf(), entry);
    Ok(())
}

/// A rule replaces what was granted at the same path; two rules that meet there must agree. Returns the links that lead to
/// what is protected.
fn add_rules(
    entries: &mut BTreeMap<PathBuf, Entry>,
    spellings: &mut Vec<(PathBuf, PathBuf)>,
    rules: Vec<Found>,
) -> Result<Vec<PathBuf>> {
    let mut asked: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    let mut protected_links = Vec::new();
    for Found { asked: path, entry, links } in rules {
        if entry.access.is_protection() {
            protected_links.extend(links.iter().map(|(link, _)| link.clone()));
        }
        spellings.extend(links);
        if let Some(other) = asked.insert(entry.path.clone(), path)
            && entries.get(&entry.path).is_some_and(|before| before.access != entry.access)
        {
            return Err(policy(format_args!(
                "rules: {other:?} and {path:?} disagree about {:?}",
                entry.path
            )));
        }
        // What stood there when its path was first judged must still be what is shown.
        let access = entry.access;
        entries.entry(entry.path.clone()).and_modify(|known| known.access = access).or_insert(entry);
    }
    Ok(protected_links)
}
