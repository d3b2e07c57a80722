//! The rules of a policy: what they mean on this host, and what is refused by name.

use super::entry::{Access, Entry, Kind};
use super::{HOME, STEP, System};
use crate::error::{Context, Hint, Result, policy};
use crate::linux::resolve::{links_between, look, plain};
use crate::linux::workdir::{self, WorkPath, hands_over_the_host};
use agentkit_protocol as protocol;
use nix::libc;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the jail has its own and the host's would hand over devices, terminals or processes.
const OWN_KERNEL_FILES: [&str; 2] = ["/proc", "/dev"];

/// A rule whose path was resolved, once.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// As it was asked for.
    pub(super) asked: &'a Path,
    pub(super) entry: Entry,
    /// The links on the way from the caller's spelling: where, and what they say.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
}

/// What rules mean.
pub(crate) fn find_all<'a>(
    rules: &'a [(PathBuf, protocol::Access)],
    workdir: &WorkPath,
) -> Result<Vec<Found<'a>>> {
    let found = rules.iter().filter_map(|(path, access)| find(path, *access, workdir).transpose());
    let found: Vec<_> = found.collect::<Result<_>>()?;
    let written: Vec<&Path> = writable(&found).collect();
    if !written.is_empty() {
        refuse_way_out(workdir.on_host(), &workdir.links_followed()?, &written)?;
    }
    let written: Vec<&Path> = written.into_iter().chain(workdir.on_host()).collect();
    let shows = |rule: &&Found| matches!(rule.entry.access, Access::ReadOnly | Access::Writable);
    for rule in found.iter().filter(shows) {
        refuse_way_out(Some(&rule.entry.path), &rule.links, &written)?;
    }
    Ok(found)
}

/// Where a jail can write, or could in an earlier run, a link leads where it likes: nothing outside is shown for that.
fn refuse_way_out(real: Option<&Path>, links: &[(PathBuf, PathBuf)], written: &[&Path]) -> Result<()> {
    let Some(real) = real else { return Ok(()) };
    let is_way_out = |link: &Path| {
        written.iter().any(|place| *place != real && link.starts_with(place) && !real.starts_with(place))
    };
    match links.iter().find(|(link, _)| is_way_out(link)) {
        None => Ok(()),
        Some((link, _)) => Err(policy(format_args!(
            "the link {link:?} lies where the jail can write, or could in an earlier run, and leads out to {real:?}"
        )))
        .hint(&format!("if that is meant, name {real:?} itself")),
    }
}

/// The host's places that rules let the jail write.
pub(crate) fn writable<'a>(rules: &'a [Found]) -> impl Iterator<Item = &'a Path> {
    rules.iter().filter(|rule| rule.entry.access.is_writable()).map(|rule| rule.entry.path.as_path())
}

/// What a rule means; nothing if there is no such path, or nothing to do about it.
fn find<'a>(path: &'a Path, access: protocol::Access, workdir: &WorkPath) -> Result<Option<Found<'a>>> {
    refuse_kernel_files(path)?;
    let wanted = match access {
        protocol::Access::Ro => Access::ReadOnly,
        protocol::Access::Rw => Access::Writable,
        protocol::Access::Hide => Access::Hidden,
        protocol::Access::Tmpfs => Access::Private,
    };
    let Some(mut entry) = resolve(path, wanted)? else { return Ok(None) };
    refuse_kernel_files(&entry.path)?;
    if !is_of_use(&entry.path, path, access, workdir)? {
        return Ok(None);
    }
    if wanted == Access::Private && !entry.is_dir() {
        return Err(policy(format_args!("rules: {path:?} is no directory, so it cannot be a tmpfs")));
    }
    if workdir.on_host() == Some(&entry.path) {
        entry.access = Access::Readable;
    }
    let links = if entry.path == plain(path) { Vec::new() } else { links_between(path, &entry.path)? };
    Ok(Some(Found { asked: path, entry, links }))
}

/// The real path, and what is there.
fn resolve(path: &Path, access: Access) -> Result<Option<Entry>> {
    let found = match look(path) {
        Ok(found) => found,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => return Ok(None),
        Err(error) => {
            return Err(error)
                .context(STEP, format_args!("resolve the rule's path {path:?}"))
                .hint("the launcher must be able to reach it");
        }
    };
    let kind = if found.is_dir() { Kind::Directory } else { Kind::File };
    Ok(Some(Entry::new(&found.real, kind, access, found.identity())))
}

fn refuse_kernel_files(path: &Path) -> Result<()> {
    let inside = OWN_KERNEL_FILES.iter().any(|own| path.starts_with(own));
    if inside || path == Path::new("/") || !path.is_absolute() {
        return Err(policy(format_args!("rules: {path:?} would replace what the jail has of its own")))
            .hint("/, /proc and /dev cannot be in a rule; see the policy's `proc` for more of /proc");
    }
    Ok(())
}

/// Refuses what would hand over the host or cover what the jail needs.
fn is_of_use(real: &Path, path: &Path, access: protocol::Access, workdir: &WorkPath) -> Result<bool> {
    let refuse = |why: &str, hint: &str| Err(policy(format_args!("rules: {path:?} {why}"))).hint(hint);
    let scratch = workdir.is_scratch().then_some(workdir::SCRATCH);
    let mut private = ["/tmp", HOME].into_iter().chain(scratch).map(Path::new);
    if let Some(own) = private.find(|own| own.starts_with(real)) {
        return match access {
            // It is one already.
            protocol::Access::Tmpfs if own == real => Ok(false),
            // None of the host's is there.
            protocol::Access::Hide if own != real => Ok(false),
            _ => refuse(&format!("would cover the private {own:?}"), "name what lies below it"),
        };
    }
    if access == protocol::Access::Rw
        && let Some(why) = hands_over_the_host(real)
    {
        return refuse(&format!("would hand the host to the jail: {why}"), "name a directory of its own");
    }
    match access {
        protocol::Access::Ro if real == Path::new("/run") => {
            refuse("would hand over the host's sockets", "name what is needed below it")
        }
        _ if workdir.on_host() != Some(real) => Ok(true),
        protocol::Access::Ro if workdir.is_read_only() => Ok(true),
        protocol::Access::Rw if !workdir.is_read_only() => Ok(false),
        _ => refuse(
            "is the work dir",
            "give the rule to what lies below it; `ro` for the path of a `bind` as it is written there makes it read-only",
        ),
    }
}

/// See [`View::can_be_uncovered`](super::View::can_be_uncovered). Above an overlay nothing of the host is covered.
pub(super) fn can_be_uncovered(entries: &BTreeMap<PathBuf, Entry>, system: &System) -> bool {
    innermost(entries, &[]).into_iter().any(|(path, above)| {
        let in_system = || path.ancestors().any(|above| system.shows(above)).then_some(Access::ReadOnly);
        let around = above.map(|above| above.access).or_else(in_system);
        match entries[path].access {
            Access::Hidden | Access::Private => {
                matches!(around, Some(Access::ReadOnly | Access::Readable | Access::Writable))
            }
            Access::ReadOnly | Access::Readable => around == Some(Access::Writable),
            _ => false,
        }
    })
}

/// Adds what protects the protected: below a writable directory, a rule's path must not be moved away with one of its
/// parents, nor a link that leads to it be replaced. What is a mount of its own can be neither renamed nor removed.
pub(super) fn pin(entries: &mut BTreeMap<PathBuf, Entry>, links: &[PathBuf]) {
    let mut pins = Vec::new();
    for (path, top) in innermost(entries, links) {
        let is_link = !entries.contains_key(path);
        let Some(top) = top.filter(|top| top.access.is_writable()) else { continue };
        if is_link {
            pins.push(Entry::pin(path, Kind::Link));
        } else if !entries[path].access.is_protection() {
            continue;
        }
        let between = path.ancestors().skip(1).take_while(|above| **above != top.path);
        pins.extend(between.map(|above| Entry::pin(above, Kind::Directory)));
    }
    for pin in pins {
        entries.entry(pin.path.clone()).or_insert(pin);
    }
}

/// What is read-only inside something of the host that is shown anyway is sealed there: it keeps the owners that a root
/// launcher's directory is shown with, and needs no descriptor of its own.
pub(super) fn seal_in_place(entries: &mut BTreeMap<PathBuf, Entry>) {
    let shows = |above: &Entry| !matches!(above.access, Access::Hidden | Access::Private);
    let inside: Vec<PathBuf> = innermost(entries, &[])
        .into_iter()
        .filter(|(path, above)| above.is_some_and(shows) && entries[*path].access == Access::ReadOnly)
        .map(|(path, _)| path.to_path_buf())
        .collect();
    for path in inside {
        entries.entry(path).and_modify(|entry| entry.access = Access::Sealed);
    }
}

/// Every entry's path, and some more, each with the innermost entry above it.
fn innermost<'a>(
    entries: &'a BTreeMap<PathBuf, Entry>,
    more: &'a [PathBuf],
) -> Vec<(&'a Path, Option<&'a Entry>)> {
    let mut paths: Vec<&Path> = entries.keys().chain(more).map(PathBuf::as_path).collect();
    if !more.is_empty() {
        paths.sort();
        paths.dedup();
    }
    // In this order what holds a path is among the last ones that were not left again.
    let mut around: Vec<&Entry> = Vec::new();
    let mut found = Vec::with_capacity(paths.len());
    for path in paths {
        while around.pop_if(|above| !path.starts_with(&above.path)).is_some() {}
        found.push((path, around.last().copied()));
        around.extend(entries.get(path));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(list: &[(&str, Access)]) -> BTreeMap<PathBuf, Entry> {
        let entry = |(path, access): &(&str, Access)| {
            (PathBuf::from(path), Entry::new(Path::new(path), Kind::Directory, *access, (0, 0)))
        };
        list.iter().map(entry).collect()
    }

    fn pins(entries: &BTreeMap<PathBuf, Entry>) -> Vec<&str> {
        let pins = entries.values().filter(|entry| entry.access == Access::Pin);
        pins.map(|entry| entry.path.to_str().unwrap()).collect()
    }

    #[test]
    fn what_the_host_shows_can_be_uncovered() {
        let system = System { binds: vec![("/usr".into(), true)], ..System::default() };
        let found = |list: &[(&str, Access)]| can_be_uncovered(&entries(list), &system);
        for around in [Access::Writable, Access::ReadOnly, Access::Readable] {
            assert!(found(&[("/w", around), ("/w/a", Access::Hidden)]));
            assert!(found(&[("/w", around), ("/w/a", Access::Private)]));
            assert_eq!(found(&[("/w", around), ("/w/a/b", Access::ReadOnly)]), around == Access::Writable);
        }
        assert!(found(&[("/usr/share/a", Access::Hidden)]));
        for around in [Access::Hidden, Access::Private, Access::Overlaid(protocol::Commit::Never)] {
            assert!(
                !found(&[("/w", around), ("/w/a", Access::Hidden), ("/w/b", Access::ReadOnly)]),
                "{around:?}"
            );
        }
        assert!(!found(&[("/w", Access::Writable), ("/x", Access::ReadOnly), ("/y", Access::Hidden)]));
    }

    #[test]
    fn the_way_from_a_writable_directory_to_a_protected_one_is_pinned() {
        let mut tree = entries(&[
            ("/w", Access::Writable),
            ("/w/a/b/c", Access::ReadOnly),
            ("/w/a/d", Access::Hidden),
            ("/r/x", Access::ReadOnly),
        ]);
        pin(&mut tree, &[]);
        assert_eq!(pins(&tree), ["/w/a", "/w/a/b"]);
    }

    #[test]
    fn what_is_shown_anyway_is_sealed_in_place() {
        let mut tree = entries(&[
            ("/w", Access::Writable),
            ("/w/a", Access::ReadOnly),
            ("/w/h", Access::Hidden),
            ("/w/h/b", Access::ReadOnly),
            ("/w/h/b/c", Access::ReadOnly),
            ("/r", Access::ReadOnly),
        ]);
        seal_in_place(&mut tree);
        let sealed = tree.values().filter(|entry| entry.access == Access::Sealed);
        let sealed: Vec<_> = sealed.map(|entry| entry.path.to_str().unwrap()).collect();
        assert_eq!(sealed, ["/w/a", "/w/h/b/c"]);
    }

    #[test]
    fn what_lies_in_a_protected_directory_needs_no_pin() {
        let mut tree = entries(&[
            ("/w", Access::Writable),
            ("/w/a", Access::ReadOnly),
            ("/w/a/b/c", Access::Hidden),
            ("/w/e/f", Access::Writable),
        ]);
        pin(&mut tree, &["/w/d/link", "/w/a/link", "/link"].map(PathBuf::from));
        assert_eq!(pins(&tree), ["/w/d", "/w/d/link"]);
    }

    #[test]
    fn the_jails_own_files_are_in_no_rule() {
        let scratch = WorkPath::Scratch;
        for path in ["/", "/proc", "/proc/self", "/dev/null", "/dev/stdout", "/dev/shm"] {
            for access in [protocol::Access::Ro, protocol::Access::Rw, protocol::Access::Hide] {
                assert!(find(Path::new(path), access, &scratch).is_err(), "{path}");
            }
        }
        for path in ["/tmp", "/usr/bin", "/etc"] {
            assert!(find(Path::new(path), protocol::Access::Rw, &scratch).is_err(), "{path}");
        }
        assert!(find(Path::new("/tmp"), protocol::Access::Hide, &scratch).is_err());
        assert!(find(Path::new("/home"), protocol::Access::Ro, &scratch).is_err());
        assert!(find(Path::new("/home"), protocol::Access::Hide, &scratch).unwrap().is_none());
    }

    proptest! {
        /// The order in which entries are shown is that of their paths: whatever holds another comes before it.
        #[test]
        fn parents_come_first(paths in prop::collection::vec("(/[ab.-]{1,2}){1,4}", 1..9)) {
            let sorted: Vec<PathBuf> =
                paths.iter().map(PathBuf::from).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
            for (at, path) in sorted.iter().enumerate() {
                prop_assert!(!sorted[..at].iter().any(|before| before != path && before.starts_with(path)));
            }
        }
    }
}
