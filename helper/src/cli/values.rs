//! What the flags' values mean.

use agentkit_protocol::{Access, Bytes, Commit, Control, Policy, Rule, WorkDir};
use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// One of the names that the policy has for it.
pub(super) fn known<T: DeserializeOwned>(name: &OsStr) -> Result<T, String> {
    let name: StrDeserializer<Error> = text(name)?.into_deserializer();
    T::deserialize(name).map_err(|error| error.to_string())
}

pub(super) fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| format!("{value:?} is not UTF-8"))
}

/// `DIR`, `DIR:bind`, `DIR:overlay` or `DIR:scratch`. A directory whose name ends like that is written with its mode.
pub(super) fn work_dir(policy: &mut Policy, value: &OsStr) -> Result<(), String> {
    let bytes = value.as_bytes();
    let mode = [":bind", ":overlay", ":scratch"].into_iter().find(|mode| bytes.ends_with(mode.as_bytes()));
    let place = bytes.strip_suffix(mode.unwrap_or_default().as_bytes()).unwrap_or(bytes);
    let path = absolute(OsStr::from_bytes(place))?;
    let is_missing = || Path::new(OsStr::from_bytes(&path.0)).symlink_metadata().is_err();
    let last = Path::new(OsStr::from_bytes(place)).file_name().unwrap_or_default();
    if mode.is_none() && last.as_bytes().contains(&b':') && is_missing() {
        return Err(format!(
            "{path:?} does not exist, and of modes there are only :bind, :overlay, :scratch"
        ));
    }
    policy.workdir = match mode {
        Some(":scratch") => WorkDir::ScratchAt(path),
        Some(":overlay") => WorkDir::Overlay { path, commit: Commit::default() },
        _ => WorkDir::Bind(path),
    };
    Ok(())
}

pub(super) fn commit(policy: &mut Policy, when: &OsStr) -> Result<(), String> {
    match &mut policy.workdir {
        WorkDir::Overlay { commit, .. } => known(when).map(|when| *commit = when),
        WorkDir::Bind(_) | WorkDir::Scratch | WorkDir::ScratchAt(_) => {
            Err("it needs --workdir DIR:overlay".to_owned())
        }
    }
}

/// A policy may name what is not there, and then shows nothing. Whoever types it has mistyped it.
pub(super) fn rule(policy: &mut Policy, path: &OsStr, access: Access) -> Result<(), String> {
    let path = absolute(path)?;
    let place = Path::new(OsStr::from_bytes(&path.0));
    // What is not there needs no hiding.
    if access != Access::Hide
        && place.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    {
        return Err(format!("{path:?} does not exist"));
    }
    policy.rules.push(Rule { path, access });
    Ok(())
}

/// What is on either side of the first `=`.
pub(super) fn around_equals(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut sides = bytes.splitn(2, |byte| *byte == b'=');
    Some((sides.next()?, sides.next()?))
}

/// `NAME=VALUE`, or `NAME` for the caller's own, which has to be there.
pub(super) fn variable(policy: &mut Policy, value: &OsStr) -> Result<(), String> {
    let bytes = value.as_bytes();
    let (name, value) = match around_equals(bytes) {
        Some((name, value)) => (name, value.to_vec()),
        None => {
            let callers = std::env::var_os(value).ok_or_else(|| format!("{value:?} is not set here"))?;
            (bytes, callers.as_bytes().to_vec())
        }
    };
    policy.env.insert(text(OsStr::from_bytes(name))?.to_owned(), Bytes(value));
    Ok(())
}

pub(super) fn controls(policy: &mut Policy, names: &OsStr) -> Result<(), String> {
    let controls = text(names)?.split(',').map(|name| known::<Control>(OsStr::new(name)));
    controls.collect::<Result<Vec<_>, _>>().map(|controls| policy.require.extend(controls))
}

/// The number of a descriptor that is not one of the command's streams.
pub(super) fn descriptor(number: &str) -> Result<i32, String> {
    match number.parse() {
        Ok(fd @ 3..) => Ok(fd),
        _ => Err(format!("{number:?} is not the number of an open descriptor from 3 up")),
    }
}

/// From the current directory on. `..` is resolved by the host, as a shell's `cd -P` does it: what comes before it may be
/// a link.
fn absolute(path: &OsStr) -> Result<Bytes, String> {
    let said = |error| format!("{path:?}: {error}");
    let whole = std::path::absolute(path).map_err(said)?;
    let climbs = whole.components().any(|part| part == Component::ParentDir);
    let whole = if climbs { whole.canonicalize().map_err(said)? } else { whole };
    Ok(Bytes::from(without_slash(&whole)))
}

/// A shell's completion leaves one behind directories.
fn without_slash(path: &Path) -> PathBuf {
    path.components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(set: impl FnOnce(&mut Policy) -> Result<(), String>) -> Result<Policy, String> {
        let mut policy = Policy::new(["true"]);
        set(&mut policy).map(|()| policy)
    }

    fn path(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    #[test]
    fn a_work_dir_has_a_mode() {
        let of =
            |value: &str| after(|policy| work_dir(policy, OsStr::new(value))).map(|policy| policy.workdir);
        assert_eq!(of("/srv/job/"), Ok(WorkDir::Bind(path("/srv/job"))));
        assert_eq!(of("/srv/a:bind"), Ok(WorkDir::Bind(path("/srv/a"))));
        assert_eq!(of("/srv/a:bind:bind"), Ok(WorkDir::Bind(path("/srv/a:bind"))));
        assert_eq!(of("/srv/a:b/c"), Ok(WorkDir::Bind(path("/srv/a:b/c"))));
        assert!(of("/srv/a:b").is_err_and(|why| why.contains(":scratch")));
        assert_eq!(of("/a:overlay"), Ok(WorkDir::Overlay { path: path("/a"), commit: Commit::Never }));
        let here = std::env::current_dir().unwrap();
        assert_eq!(of("."), Ok(WorkDir::Bind(Bytes::from(here.clone()))));
        assert_eq!(of(".."), Ok(WorkDir::Bind(Bytes::from(here.parent().unwrap().to_path_buf()))));
        assert!(of("").is_err() && of("/nonexistent/..").is_err());
        assert_eq!(of("/a:scratch"), Ok(WorkDir::ScratchAt(path("/a"))));
    }

    #[test]
    fn what_is_shown_has_to_be_there() {
        let of =
            |path: &str, access| after(|policy| rule(policy, OsStr::new(path), access)).map(|it| it.rules);
        let missing = "/nonexistent/data";
        for access in [Access::Ro, Access::Rw, Access::Tmpfs] {
            assert_eq!(of(missing, access), Err("\"/nonexistent/data\" does not exist".to_owned()));
            assert_eq!(of("/usr/", access), Ok(vec![Rule { path: path("/usr"), access }]));
        }
        // What must not be seen is not seen either way.
        assert!(of(missing, Access::Hide).is_ok());
    }

    #[test]
    fn a_commit_is_an_overlays() {
        let of = |dir: &str, when: &str| {
            after(|policy| {
                work_dir(policy, OsStr::new(dir))?;
                commit(policy, OsStr::new(when))
            })
        };
        let kept = WorkDir::Overlay { path: path("/a"), commit: Commit::OnSuccess };
        assert_eq!(of("/a:overlay", "on_success").unwrap().workdir, kept);
        assert!(of("/a", "always").is_err() && of("/a:overlay", "later").is_err());
    }

    #[test]
    fn a_variable_is_given_or_the_callers() {
        let of = |value: &[u8]| {
            after(|policy| variable(policy, OsStr::from_bytes(value))).map(|policy| policy.env)
        };
        assert_eq!(of(b"A=b=\xff").unwrap()["A"], Bytes(b"b=\xff".to_vec()));
        let callers = std::env::var_os("PATH").unwrap();
        assert_eq!(of(b"PATH").unwrap()["PATH"], Bytes(callers.as_bytes().to_vec()));
        assert!(of(b"AGENTKIT_IS_NOT_SET").is_err() && of(b"\xff=1").is_err());
    }

    #[test]
    fn controls_have_the_names_of_the_report() {
        let of =
            |value: &str| after(|policy| controls(policy, OsStr::new(value))).map(|policy| policy.require);
        let both = [Control::NetworkBlocked, Control::CpuLimited].into();
        assert_eq!(of("network_blocked,cpu_limited"), Ok(both));
        assert!(of("network").unwrap_err().contains("network_blocked"), "the error lists what there is");
        assert!(of("").is_err());
    }
}
