//! Policy to plan: everything that can be judged without touching the host. Later steps only take a [`Plan`].

use crate::error::{Result, policy};
use agentkit_protocol::{
    Access, Bytes, Choice, Control, GitNames, Limits, Net, Policy, ProcFiles, Rule, VERSION, Watch, WorkDir,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Values above this cannot be told from "unlimited" in the kernel's signed types.
const LARGEST_LIMIT: u64 = 1 << 62;
/// A longer wall clock is a mistake in the unit.
const LONGEST_WALL_MS: u64 = 30 * 24 * 3600 * 1000;

/// Each takes a mount and two of the user's watches.
const MOST_WATCHED_PATHS: usize = 16;

/// A policy that does not contradict itself, in the types that the launch needs.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<(String, Bytes)>,
    pub(crate) workdir: WorkDir,
    /// A rule makes a bound work dir read-only.
    pub(crate) workdir_read_only: bool,
    pub(crate) rules: Vec<(PathBuf, Access)>,
    #[cfg_attr(
        not(any(with_namespaces, all(target_os = "linux", feature = "landlock"))),
        expect(dead_code, reason = "elsewhere there is no /proc, or it is the host's in any case")
    )]
    pub(crate) proc: ProcFiles,
    pub(crate) net: Net,
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) git: GitNames,
    pub(crate) limits: Limits,
    pub(crate) watched_paths: Vec<PathBuf>,
    pub(crate) watched_ports: Vec<u16>,
    pub(crate) watch_forks: bool,
    pub(crate) tty: bool,
    pub(crate) require: BTreeSet<Control>,
    pub(crate) mechanism: Choice,
}

impl Plan {
    /// Whether the command changes something of the host while it runs.
    pub(crate) fn writes_host_files(&self) -> bool {
        let by_rule = self.rules.iter().any(|(_, access)| *access == Access::Rw);
        by_rule || matches!(self.workdir, WorkDir::Bind(_))
    }
}

/// Checks a policy.
pub(crate) fn plan(asked: Policy) -> Result<Plan> {
    if asked.version != VERSION {
        return Err(policy(format_args!(
            "version {} is not supported (this is version {VERSION})",
            asked.version
        )));
    }
    let rules = rules(asked.rules, &asked.workdir)?;
    Ok(Plan {
        argv: argv(asked.argv)?,
        env: asked.env.into_iter().map(variable).collect::<Result<_>>()?,
        workdir_read_only: is_read_only(&asked.workdir, &rules),
        workdir: asked.workdir,
        rules,
        proc: asked.proc,
        net: asked.net,
        files: asked.files.into_iter().map(file).collect::<Result<_>>()?,
        git: asked.git,
        limits: limits(asked.limits)?,
        watched_paths: watched_paths(&asked.watch)?,
        watched_ports: watched_ports(&asked.watch, asked.net)?,
        watch_forks: asked.watch.forks,
        tty: asked.tty,
        require: asked.require,
        mechanism: asked.mechanism,
    })
}

fn argv(argv: Vec<Bytes>) -> Result<Vec<CString>> {
    if argv.first().is_none_or(|program| program.0.is_empty()) {
        return Err(policy("argv names no command"));
    }
    argv.into_iter()
        .enumerate()
        .map(|(at, bytes)| {
            CString::new(bytes.0).map_err(|_| policy(format_args!("argv[{at}] holds a zero byte")))
        })
        .collect()
}

fn variable((name, value): (String, Bytes)) -> Result<(String, Bytes)> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(policy(format_args!("env has a name that cannot be one: {name:?}")));
    }
    if value.0.contains(&0) {
        return Err(policy(format_args!("env {name:?} holds a zero byte")));
    }
    Ok((name, value))
}

fn file((name, content): (String, Bytes)) -> Result<(PathBuf, Vec<u8>)> {
    let plain = matches!(Path::new(&name).components().collect::<Vec<_>>().as_slice(), [Component::Normal(only)] if **only == *name);
    if !plain || name.contains('\0') || name.len() > 255 {
        return Err(policy(format_args!("files has a name that is not a plain file name: {name:?}")));
    }
    Ok((PathBuf::from(name), content.0))
}

/// Each path once. Whether two paths are two names of one place, only the host can tell.
fn rules(rules: Vec<Rule>, workdir: &WorkDir) -> Result<Vec<(PathBuf, Access)>> {
    let mut known: BTreeMap<PathBuf, Access> = BTreeMap::new();
    let scratch = match workdir {
        WorkDir::ScratchAt(path) => Some(Rule { path: path.clone(), access: Access::Tmpfs }),
        WorkDir::Scratch | WorkDir::Bind(_) | WorkDir::Overlay { .. } => None,
    };
    for Rule { path, access } in rules.into_iter().chain(scratch) {
        let plain = PathBuf::from(OsStr::from_bytes(&path.0));
        if !is_plain_absolute(&plain) {
            return Err(policy(format_args!("rules: {path:?} is not an absolute path without `.` and `..`")));
        }
        if known.insert(plain, access).is_some_and(|before| before != access) {
            return Err(policy(format_args!("rules: {path:?} is there twice, with different accesses")));
        }
    }
    Ok(known.into_iter().collect())
}

/// By a rule with its own spelling: whether another path leads to it, only the host can tell.
fn is_read_only(workdir: &WorkDir, rules: &[(PathBuf, Access)]) -> bool {
    let WorkDir::Bind(path) = workdir else { return false };
    let path = Path::new(OsStr::from_bytes(&path.0));
    rules.iter().any(|(other, access)| *access == Access::Ro && other == path)
}

impl Plan {
    /// Whether the command can write the host's files in the work dir.
    pub(crate) fn writes_to_bound_workdir(&self) -> bool {
        matches!(self.workdir, WorkDir::Bind(_)) && !self.workdir_read_only
    }
}

fn limits(limits: Limits) -> Result<Limits> {
    let Limits { wall_ms, cpu_seconds, memory, disk, file_size, processes, open_files, output } = limits;
    let bounds = [
        ("wall_ms", wall_ms, 1, LONGEST_WALL_MS),
        ("cpu_seconds", cpu_seconds, 1, LARGEST_LIMIT),
        ("memory", memory, 1 << 20, LARGEST_LIMIT / 4),
        ("disk", disk, 1 << 16, LARGEST_LIMIT),
        ("file_size", file_size, 1, LARGEST_LIMIT),
        // The jail's supervisor and init, and the command.
        ("processes", processes, 3, 1 << 22),
        // The three streams, the dynamic loader's library, and one to work with.
        ("open_files", open_files, 5, 1 << 20),
        ("output", output.unwrap_or(0), 0, LARGEST_LIMIT),
    ];
    for (name, value, least, most) in bounds {
        if value < least || value > most {
            return Err(policy(format_args!("limits.{name} is {value}; it can be {least} to {most}")));
        }
    }
    Ok(limits)
}

fn watched_paths(watch: &Watch) -> Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for bytes in &watch.paths {
        let path = PathBuf::from(OsStr::from_bytes(&bytes.0));
        if !is_plain_absolute(&path) || path.components().count() < 3 {
            return Err(policy(format_args!(
                "watch.paths: {bytes:?} is not an absolute path of at least two names without `.` and `..`"
            )));
        }
        if paths.iter().any(|other| other.starts_with(&path) || path.starts_with(other)) {
            return Err(policy(format_args!("watch.paths: {bytes:?} overlaps with another one")));
        }
        paths.push(path);
    }
    if paths.len() > MOST_WATCHED_PATHS {
        return Err(policy(format_args!(
            "watch.paths has {} paths; it can have {MOST_WATCHED_PATHS}",
            paths.len()
        )));
    }
    Ok(paths)
}

fn watched_ports(watch: &Watch, net: Net) -> Result<Vec<u16>> {
    if net != Net::Loopback && !watch.tcp_ports.is_empty() {
        return Err(policy("watch.tcp_ports are ports of the jail's own loopback, which net: loopback has"));
    }
    let unique: BTreeSet<u16> = watch.tcp_ports.iter().copied().collect();
    if unique.contains(&0) || unique.len() != watch.tcp_ports.len() || unique.len() > 16 {
        return Err(policy("watch.tcp_ports takes at most 16 different ports, none of them 0"));
    }
    Ok(watch.tcp_ports.clone())
}

fn is_plain_absolute(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && components.all(|component| matches!(component, Component::Normal(_)))
        && !path.as_os_str().as_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Policy)) -> String {
        let mut asked = Policy::new(["true"]);
        change(&mut asked);
        plan(asked).expect_err("must be refused").message
    }

    #[test]
    fn the_default_policy_is_a_plan() {
        let plan = plan(Policy::new(["true", "x y"])).unwrap();
        assert_eq!(plan.argv, [c"true".to_owned(), c"x y".to_owned()]);
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        assert!(refusal(|p| p.version = 2).contains("version 2"));
        assert!(refusal(|p| p.argv.clear()).contains("argv"));
        assert!(refusal(|p| p.argv[0] = Bytes::default()).contains("argv"));
        assert!(refusal(|p| p.argv[0] = Bytes::from("a\0b")).contains("argv[0]"));
        assert!(refusal(|p| drop(p.env.insert("A=B".into(), Bytes::default()))).contains("A=B"));
        assert!(refusal(|p| drop(p.env.insert("A".into(), Bytes::from("\0")))).contains("zero byte"));
        for name in ["", ".", "..", "a/b", "/a", "a/", "a\0"] {
            assert!(
                refusal(|p| drop(p.files.insert(name.into(), Bytes::default()))).contains("files"),
                "{name:?}"
            );
        }
    }

    #[test]
    fn every_limit_has_bounds() {
        assert!(refusal(|p| p.limits.wall_ms = 0).contains("wall_ms"));
        assert!(refusal(|p| p.limits.wall_ms = u64::MAX).contains("wall_ms"));
        assert!(refusal(|p| p.limits.cpu_seconds = 0).contains("cpu_seconds"));
        assert!(refusal(|p| p.limits.memory = 0).contains("memory"));
        assert!(refusal(|p| p.limits.disk = u64::MAX).contains("disk"));
        assert!(refusal(|p| p.limits.file_size = 0).contains("file_size"));
        assert!(refusal(|p| p.limits.processes = 2).contains("processes"));
        assert!(refusal(|p| p.limits.open_files = u64::MAX).contains("open_files"));
    }

    #[test]
    fn rules_are_plain_and_agree() {
        let rule = |path: &str, access| Rule { path: Bytes::from(path), access };
        for path in ["relative/x", "", "/a/../b", "/a\0"] {
            assert!(refusal(|p| p.rules = vec![rule(path, Access::Ro)]).contains("rules"), "{path:?}");
        }
        let twice = vec![rule("/a/b", Access::Ro), rule("/a", Access::Hide), rule("/a//b/", Access::Rw)];
        assert!(refusal(|p| p.rules = twice).contains("twice"));
        let mut asked = Policy::new(["true"]);
        asked.rules = vec![rule("/a/b", Access::Ro), rule("/a", Access::Hide), rule("/a/b", Access::Ro)];
        let all = [("/a", Access::Hide), ("/a/b", Access::Ro)].map(|(path, access)| (path.into(), access));
        assert_eq!(plan(asked).unwrap().rules, all);
    }

    #[test]
    fn a_rule_with_the_spelling_of_the_work_dir_makes_it_read_only() {
        let reads = |workdir, path: &str, access| {
            let mut asked = Policy::new(["true"]);
            (asked.workdir, asked.rules) = (workdir, vec![Rule { path: Bytes::from(path), access }]);
            plan(asked).unwrap().workdir_read_only
        };
        let bind = |path: &str| WorkDir::Bind(Bytes::from(path));
        assert!(reads(bind("/a/b"), "/a/b", Access::Ro) && reads(bind("/a/b/"), "/a//b", Access::Ro));
        assert!(!reads(bind("/a/b"), "/a/b", Access::Rw) && !reads(bind("/a/b"), "/a", Access::Ro));
        assert!(!reads(WorkDir::Scratch, "/work", Access::Ro));
    }

    #[test]
    fn watched_paths_are_plain_and_apart() {
        for path in ["relative/x", "/top", "/a/../b", "/a/b\0c"] {
            assert!(refusal(|p| p.watch.paths = vec![Bytes::from(path)]).contains("watch.paths"), "{path:?}");
        }
        assert!(
            refusal(|p| p.watch.paths = vec![Bytes::from("/a/b"), Bytes::from("/a/b/c")])
                .contains("overlaps")
        );
        let many = |count| (0..count).map(|at| Bytes::from(format!("/a/{at}"))).collect();
        assert!(refusal(|p| p.watch.paths = many(17)).contains("watch.paths has 17 paths; it can have 16"));
        let mut asked = Policy::new(["true"]);
        asked.watch.paths = many(16);
        assert_eq!(plan(asked).unwrap().watched_paths.len(), MOST_WATCHED_PATHS);
        assert!(refusal(|p| p.watch.tcp_ports = vec![80, 80]).contains("tcp_ports"));
        assert!(refusal(|p| p.watch.tcp_ports = vec![0]).contains("tcp_ports"));
    }
}
