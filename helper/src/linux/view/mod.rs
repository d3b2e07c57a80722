//! Step 4: what the jail will see, decided outside.

mod entry;
mod system;

use super::identity::Identity;
use super::workdir::WorkPath;
use crate::error::{Context, Result};
pub(crate) use entry::{Access, Entry};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
pub(crate) use system::{System, is_system};

const STEP: &str = "view";

/// The private home.
pub(crate) const HOME: &str = "/home/jail";

/// Everything that is shown of the host.
#[derive(Debug)]
pub(crate) struct View {
    /// What every jail sees.
    pub(crate) system: System,
    /// What this one sees beside or in place of it, parents before what lies in them.
    pub(crate) entries: Vec<Entry>,
}

impl View {
    /// Decides what is seen; mounts nothing yet.
    pub(crate) fn new(workdir: &WorkPath, grants: &[PathBuf]) -> Result<Self> {
        let mut view = View { system: System::of(Path::new("/"))?, entries: Vec::new() };
        for path in grants {
            view.grant(path)?;
        }
        if let WorkPath::Host { path, device, inode, access } = workdir {
            view.entries.push(Entry::new(path, true, *access, (*device, *inode)));
        }
        view.entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(view)
    }

    /// A link becomes a link of the jail's own: followed here, it could lead anywhere.
    fn grant(&mut self, path: &Path) -> Result<()> {
        let meta = path.symlink_metadata().context(STEP, format_args!("stat {path:?}"))?;
        if meta.is_symlink() {
            let says = std::fs::read_link(path).context(STEP, format_args!("read the link {path:?}"))?;
            self.system.links.push((path.to_path_buf(), says));
        } else {
            let identity = (meta.dev(), meta.ino());
            self.entries.push(Entry::new(path, meta.is_dir(), Access::ReadOnly, identity));
        }
        Ok(())
    }

    /// Opens what a root launcher shows while it still is root: the user that it becomes can neither traverse root's
    /// directories nor map the owner of a work dir.
    pub(crate) fn open_as_root(&mut self, identity: &Identity) -> Result<()> {
        self.entries.iter_mut().try_for_each(|entry| entry.open_as_root(identity))
    }
}
