//! Paths and the links on them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows in one path, see path_resolution(7).
const MOST_LINKS: usize = 40;

/// An absolute path without empty parts or a slash at its end.
pub(crate) fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// The links that resolving an absolute path goes through, by their real places, and what they say.
pub(crate) fn links_on(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut links = Vec::new();
    let mut resolved = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(path).collect();
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&name);
        let Ok(says) = std::fs::read_link(&next) else {
            resolved = next;
            continue;
        };
        if links.len() == MOST_LINKS {
            break;
        }
        if says.is_absolute() {
            resolved = PathBuf::from("/");
        }
        for name in names(&says).collect::<Vec<_>>().into_iter().rev() {
            ahead.push_front(name);
        }
        links.push((next, says));
    }
    links
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir_all;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_found_at_its_real_place() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        create_dir_all(root.join("a/b/c")).unwrap();
        symlink("b", root.join("a/first")).unwrap();
        symlink(root.join("a/first/../first"), root.join("second")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let found = links_on(&root.join("second/c/nothing"));
        let first = (root.join("a/first"), PathBuf::from("b"));
        assert_eq!(found, [(root.join("second"), root.join("a/first/../first")), first.clone(), first]);
        assert_eq!(links_on(&root.join("a/b/c")), []);
        assert_eq!(links_on(&root.join("loop/x")).len(), MOST_LINKS);
    }
}
