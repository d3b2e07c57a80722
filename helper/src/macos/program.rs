//! Which file the command is.

use super::profile::{Access, Grant};
use super::view::View;
use crate::error::{Result, failure};
use crate::validate::Plan;
use agentkit_protocol::FailureKind;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

const STEP: &str = "program";
/// As for the kernel, see `MAXSYMLINKS` of sys/param.h.
const MOST_LINKS: usize = 32;
/// In place of a search path that leads nowhere in the jail.
const SEARCH_PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// The file that `argv[0]` names: in the launcher's `PATH`, or from the work dir.
pub(super) fn find(plan: &Plan, view: &View) -> Result<PathBuf> {
    let name =
        plan.argv.first().map(|name| Path::new(OsStr::from_bytes(name.to_bytes()))).unwrap_or(Path::new(""));
    if name.as_os_str().as_bytes().contains(&b'/') {
        return Ok(view.workdir.join(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| SEARCH_PATH.into());
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(is_program)
        .ok_or_else(|| {
            failure(FailureKind::NotFound, STEP, format_args!("{name:?} is not in PATH, {path:?}"))
        })
}

/// Grants the one file that the caller named, if nothing else does. Not where a jail could have written on the way to
/// it: a link there would choose what becomes visible.
pub(super) fn grant(program: &Path, view: &mut View) {
    let writable = view.grants.iter().filter(|(_, grant)| grant.access == Access::Writable);
    let writable = writable.filter_map(|(path, _)| identity(path)).collect();
    let Some(real) = resolve(program, &writable) else { return };
    if view.access(&real).is_none() && real.is_file() {
        view.spellings.insert(program.to_owned());
        view.grants.insert(real, Grant { access: Access::Readable, is_directory: false });
    }
}

/// The directories of the launcher's `PATH` that the jail sees.
pub(super) fn search_path(view: &View) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let shown = |directory: &PathBuf| {
        directory.canonicalize().is_ok_and(|real| view.access(&real) == Some(Access::Readable))
    };
    let directories = std::env::split_paths(&path).filter(|path| path.is_absolute()).filter(shown);
    match std::env::join_paths(directories) {
        Ok(path) if !path.is_empty() => path,
        _ => SEARCH_PATH.into(),
    }
}

/// Device and inode: two spellings of a name can be the same name on a Mac.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Follows every link, unless the way leads through one of `avoided`.
fn resolve(path: &Path, avoided: &BTreeSet<Identity>) -> Option<PathBuf> {
    let parts =
        |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    let (mut at, mut left, mut links) = (PathBuf::from("/"), parts(path), 0_usize);
    while let Some(part) = left.pop() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::Normal(name)) => {
                let next = at.join(name);
                if avoided.contains(&identity(&next)?) {
                    return None;
                }
                match fs::read_link(&next) {
                    Ok(target) => {
                        links = links.saturating_add(1);
                        left.extend(parts(&target));
                    }
                    Err(_) => at = next,
                }
            }
            _ => {}
        }
        if links > MOST_LINKS {
            return None;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_leads_out_of_where_a_jail_can_write() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        for directory in ["jail", "host"] {
            fs::create_dir(base.join(directory)).unwrap();
        }
        fs::write(base.join("host/tool"), "").unwrap();
        symlink(base.join("host"), base.join("jail/link")).unwrap();
        symlink("jail/link/tool", base.join("through")).unwrap();
        symlink("host/../host/tool", base.join("straight")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let avoided = BTreeSet::from([identity(&base.join("jail")).unwrap()]);
        let resolved = |name: &str| resolve(&base.join(name), &avoided);
        for name in ["host/tool", "straight"] {
            assert_eq!(resolved(name), Some(base.join("host/tool")), "{name}");
        }
        for name in ["jail/link/tool", "through", "host/../jail/link/tool", "loop", "missing"] {
            assert_eq!(resolved(name), None, "{name}");
        }
        assert_eq!(resolve(&base.join("through"), &BTreeSet::new()), Some(base.join("host/tool")));
    }
}
