//! Overlay work dirs: what is reported is what was done, the host sees nothing of it without a commit, and with one
//! exactly what the same commands do without a jail.

use super::judge::text;
use crate::jail::desk::{Desk, json, me};
use crate::jail::run::Run;
use crate::jail::stage::helper;
use crate::jail::who::Who;
use crate::support::seccomp::{ENOSYS, EPERM, preloader};
use crate::support::{Stop, with_more_time};
use crate::tests;
use agentkit_protocol::{
    Access, Bytes, Change, ChangeKind, Changes, Commit, Committed, EndedBy, EntryKind, GitNames, KeptBack,
    Policy, Rule, WorkDir,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

tests![
    nothing_reaches_the_host_without_a_commit,
    a_stopped_run_is_not_committed,
    a_commit_is_what_the_commands_do_without_a_jail,
    random_commands_are_committed_as_they_run_without_a_jail,
    files_opened_for_writing_are_no_changes,
    commits_follow_the_policy,
    a_commit_keeps_times_and_takes_no_special_bits,
    sparse_files_are_committed_sparse,
    directories_deeper_than_a_path,
    unusual_names_under_an_overlay,
    links_are_committed_as_they_are,
    what_is_no_file_stays_out,
    names_that_git_acts_on_stay_out,
    what_git_settings_and_links_lead_to_stays_out,
    a_repository_that_is_moved_stays,
    closed_directories_are_committed,
    the_list_of_changes_is_bounded,
    a_full_overlay_says_so,
    mounts_show_no_path_of_the_host,
    a_commit_that_fails_says_where,
    a_commit_without_room_leaves_the_host_as_it_was,
    hard_links_are_committed_as_such,
    mounts_below_the_work_dir_are_refused_by_name,
    an_overlay_keeps_the_flags_of_the_mount,
    a_commit_to_a_read_only_mount_is_refused,
    an_overlay_on_an_overlay_on_an_overlay_is_refused,
    a_host_without_overlays_refuses_by_name,
    rules_hold_above_an_overlay
];

/// Everything below a directory: kind, mode, owner, and content or target or, for a file, its time.
type Tree = BTreeMap<PathBuf, String>;

fn tree(root: &Path, with_times: bool) -> Result<Tree, Stop> {
    let mut tree = Tree::new();
    let mut ahead = vec![root.to_path_buf()];
    while let Some(path) = ahead.pop() {
        let meta = path.symlink_metadata()?;
        let mut line = format!("{:o} {}:{} ", meta.mode(), meta.uid(), meta.gid());
        if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                ahead.push(entry?.path());
            }
        } else if meta.is_symlink() {
            line += &fs::read_link(&path)?.to_string_lossy();
        } else if meta.is_file() {
            line += &format!("{:?}", Bytes::from(fs::read(&path)?));
            if with_times {
                line += &format!(" {}.{}", meta.mtime(), meta.mtime_nsec());
            }
        }
        tree.insert(path.strip_prefix(root)?.to_path_buf(), line);
    }
    Ok(tree)
}

fn overlay(path: &Path, commit: Commit, script: &str) -> Policy {
    let mut policy = Policy::new(["sh", "-c", script]);
    policy.workdir = WorkDir::Overlay { path: Bytes::from(path.to_path_buf()), commit };
    // Many files take a busy host long.
    policy.limits.wall_ms = 60_000;
    policy
}

fn changes(run: &Run) -> Result<Changes, Stop> {
    run.ended()?.changes.ok_or_else(|| Stop::Fail(format!("no changes were reported: {run:?}")))
}

/// Runs the script over the work dir.
fn run(desk: &Desk, commit: Commit, script: &str) -> Result<(Run, Changes), Stop> {
    let run = desk.launch(&overlay(&desk.path("work"), commit, script))?;
    let changes = changes(&run)?;
    Ok((run, changes))
}

/// The same, to a successful commit.
fn commit(desk: &Desk, script: &str) -> Result<Vec<Change>, Stop> {
    let (run, changes) = run(desk, Commit::Always, script)?;
    assert_eq!((run.status.code(), &changes.commit), (Some(0), &Committed::Yes), "{run:?}");
    Ok(changes.list)
}

/// Runs the script without a jail.
fn bare(directory: &Path, script: &str) -> Result<(), Stop> {
    let output =
        Command::new("sh").args(["-c", &format!("umask 022; {script}")]).current_dir(directory).output()?;
    assert!(output.status.success(), "{script}: {output:?}");
    Ok(())
}

/// Path, kind of change and kind of entry.
fn summary(changes: &[Change]) -> Vec<(String, ChangeKind, EntryKind)> {
    changes.iter().map(|change| (text(&change.path.0), change.kind, change.entry)).collect()
}

/// Some of each kind.
const BEFORE: &str = "mkdir -p d/sub d/other e; echo a > a; echo b > b; echo c > d/c; echo s > d/sub/s; \
    echo o > d/other/o; ln -s a l; ln -s d ld; echo e > e/e; chmod 640 b";

/// A change of each kind.
const CHANGES: &str = "echo new > n; echo more >> a; rm b; rm -r d/sub; mkdir d/sub; echo t > d/sub/t; \
    cp -r d/other moved; rm -r d/other; rm d/c; mkdir d/c; echo x > d/c/x; rm -r e; echo file > e; \
    rm l; ln -s /etc/passwd l; rm ld; mkdir ld; mkdir -p x/y/z; chmod 700 d; mv n n2";

fn nothing_reaches_the_host_without_a_commit() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(&work, BEFORE)?;
    let before = tree(&work, true)?;
    let (run, changes) = run(&desk, Commit::Never, &format!("{CHANGES}; cat n2 a d/sub/t; ls d"))?;
    assert_eq!((run.status.code(), &changes.commit), (Some(0), &Committed::No), "{run:?}");
    assert_eq!(text(&run.stdout), "new\na\nmore\nt\nc\nsub\n");
    assert!(changes.list.iter().all(|change| !change.committed && change.kept_back.is_none()));
    assert_eq!(tree(&work, true)?, before);
    use ChangeKind::{Created, Deleted, Modified, Replaced};
    use EntryKind::{Directory, File, Link};
    let expected = [
        ("a", Modified, File),
        ("b", Deleted, File),
        ("d", Modified, Directory),
        ("d/c", Replaced, Directory),
        ("d/c/x", Created, File),
        ("d/other", Deleted, Directory),
        ("d/sub/s", Deleted, File),
        ("d/sub/t", Created, File),
        ("e", Replaced, File),
        ("l", Modified, Link),
        ("ld", Replaced, Directory),
        ("moved", Created, Directory),
        ("moved/o", Created, File),
        ("n2", Created, File),
        ("x", Created, Directory),
        ("x/y", Created, Directory),
        ("x/y/z", Created, Directory),
    ];
    assert_eq!(summary(&changes.list), expected.map(|(path, kind, entry)| (path.to_owned(), kind, entry)));
    assert_eq!((changes.total, changes.kept_back), (expected.len() as u64, 0));
    Ok(())
}

/// Neither a helper that is killed nor one that is told to stop commits, whatever the policy says.
fn a_stopped_run_is_not_committed() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(&work, BEFORE)?;
    let before = tree(&work, true)?;
    let policy = json(&overlay(&work, Commit::Always, &format!("{CHANGES}; echo ready; sleep 60")))?;
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let mut child = Command::new(helper()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        child.stdin.take().map(|mut stdin| stdin.write_all(&policy)).transpose()?;
        let mut stdout =
            child.stdout.take().map(BufReader::new).ok_or_else(|| io::Error::other("no pipe"))?;
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        assert_eq!(line, "ready\n");
        kill(Pid::from_raw(i32::try_from(child.id())?), signal)?;
        // Until nobody is left who could write.
        stdout.read_to_string(&mut line)?;
        child.wait()?;
        assert_eq!(tree(&work, true)?, before, "{signal}");
    }
    Ok(())
}

fn a_commit_is_what_the_commands_do_without_a_jail() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let (work, twin) = (desk.path("work"), desk.path("twin"));
    fs::create_dir(&twin)?;
    for directory in [&work, &twin] {
        bare(directory, BEFORE)?;
    }
    bare(&twin, CHANGES)?;
    let changes = commit(&desk, CHANGES)?;
    assert!(changes.iter().all(|change| change.committed), "{changes:?}");
    assert_eq!(tree(&work, false)?, tree(&twin, false)?);
    // There is nothing left to do.
    assert_eq!(commit(&desk, "true")?, []);
    Ok(())
}

/// One of many scripts, all of them harmless wherever they run.
fn random_script(next: &mut impl FnMut() -> u64) -> String {
    let mut script = String::new();
    for _ in 0..12 {
        let mut path = || {
            let depth = next() % 3 + 1;
            (0..depth).map(|_| ["a", "b", "c"][next() as usize % 3]).collect::<Vec<_>>().join("/")
        };
        let (one, other) = (path(), path());
        script += &match next() % 9 {
            0 | 1 => format!("mkdir -p {one}"),
            2 | 3 => format!("echo {} > {one}", next()),
            4 => format!("rm -rf {one}"),
            5 => format!("mv -T {one} {other}"),
            6 => format!("ln -sfn {} {one}", next() % 7),
            7 => format!("chmod {} {one}", ["700", "755", "750"][next() as usize % 3]),
            _ => format!("rm -rf {one}; mkdir -p {one}"),
        };
        script += "\n";
    }
    format!("exec 2> /dev/null\n{script}true")
}

fn random_commands_are_committed_as_they_run_without_a_jail() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let (work, twin) = (desk.path("work"), desk.path("twin"));
    let seed = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(std::process::id());
    let mut state = seed;
    let mut next = || {
        // xorshift64, Marsaglia 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 8
    };
    for round in 0..40 {
        let (before, after) = (random_script(&mut next), random_script(&mut next));
        for directory in [&work, &twin] {
            fs::remove_dir_all(directory).or_else(|_| fs::create_dir_all(directory))?;
            fs::create_dir_all(directory)?;
            bare(directory, &before)?;
        }
        let then = tree(&work, true)?;
        bare(&twin, &after)?;
        let changes = commit(&desk, &after)?;
        let what = format!("seed {seed}, round {round}:\n{before}\n---\n{after}\n{changes:?}");
        assert_eq!(tree(&work, false)?, tree(&twin, false)?, "{what}");
        assert_eq!(reported(&changes), happened(&then, &tree(&work, true)?), "{what}");
    }
    Ok(())
}

fn reported(changes: &[Change]) -> BTreeMap<PathBuf, ChangeKind> {
    changes.iter().map(|change| (PathBuf::from(OsStr::from_bytes(&change.path.0)), change.kind)).collect()
}

/// The difference of two trees, found in another way.
fn happened(then: &Tree, now: &Tree) -> BTreeMap<PathBuf, ChangeKind> {
    let format = |line: &str| u32::from_str_radix(line.split(' ').next().unwrap_or(""), 8).unwrap_or(0) >> 12;
    let mut changes = BTreeMap::new();
    for (path, line) in now {
        match then.get(path) {
            None => changes.insert(path.clone(), ChangeKind::Created),
            Some(old) if format(old) != format(line) => changes.insert(path.clone(), ChangeKind::Replaced),
            Some(old) if old != line => changes.insert(path.clone(), ChangeKind::Modified),
            Some(_) => None,
        };
    }
    let is_directory = |path: &Path| now.get(path).is_some_and(|line| format(line) == 0o4);
    for path in then.keys().filter(|path| !now.contains_key(*path)) {
        // What went with its directory is not said again.
        if path.parent().is_some_and(is_directory) {
            changes.insert(path.clone(), ChangeKind::Deleted);
        }
    }
    changes
}

fn files_opened_for_writing_are_no_changes() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(&work, "echo a > a; mkdir d; echo b > d/b")?;
    let before = tree(&work, true)?;
    assert_eq!(commit(&desk, "exec 5<>a 6<>d/b; chmod 755 d; cat <&5 > /dev/null; true >> a")?, []);
    assert_eq!(tree(&work, true)?, before);
    // The same size and time do not hide a change.
    let forge = "cp -p a /tmp/a; printf x | dd of=a conv=notrunc 2> /dev/null; touch -r /tmp/a a";
    let changes = commit(&desk, forge)?;
    assert_eq!(summary(&changes), [("a".to_owned(), ChangeKind::Modified, EntryKind::File)]);
    assert_eq!(fs::read(work.join("a"))?, b"x\n");
    Ok(())
}

fn commits_follow_the_policy() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let made = || fs::remove_file(desk.path("work/made")).is_ok();
    let cases = [
        (Commit::Never, "echo x > made", false),
        (Commit::OnSuccess, "echo x > made", true),
        (Commit::OnSuccess, "echo x > made; exit 1", false),
        (Commit::OnSuccess, "echo x > made; kill -9 $$", false),
        (Commit::Always, "echo x > made; exit 1", true),
        (Commit::Always, "echo x > made; kill -9 $$", true),
    ];
    for (commit, script, expected) in cases {
        let (_, changes) = run(&desk, commit, script)?;
        let said = if expected { Committed::Yes } else { Committed::No };
        assert_eq!((made(), changes.commit), (expected, said), "{commit:?} {script}");
        assert_eq!((changes.total, changes.list[0].committed), (1, expected));
    }
    for (commit, expected) in [(Commit::OnSuccess, false), (Commit::Always, true)] {
        let mut policy = overlay(&desk.path("work"), commit, "echo x > made; exec sleep 1000");
        let is_made = with_more_time(Duration::from_millis(300), |time| {
            policy.limits.wall_ms = time.as_millis() as u64;
            let run = desk.launch(&policy)?;
            assert_eq!(run.ended()?.ended_by, EndedBy::WallClock, "{commit:?}");
            // Not before it has come to that is there anything to commit.
            Ok((changes(&run)?.total > 0).then(&made))
        })?;
        assert_eq!(is_made, expected, "{commit:?}");
    }
    Ok(())
}

fn a_commit_keeps_times_and_takes_no_special_bits() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(&work, "echo old > old; chmod 4755 old; mkdir shared; chmod 2775 shared")?;
    let script = "touch -d @1000000000.5 dated; chmod 755 dated; mkdir sticky; chmod 1777 sticky; \
        echo new > shared/new; chmod 2755 shared; echo more >> old";
    run(&desk, Commit::Always, script)?;
    let meta = |name: &str| work.join(name).metadata();
    let dated = meta("dated")?;
    assert_eq!((dated.mtime(), dated.mtime_nsec(), dated.mode()), (1_000_000_000, 500_000_000, 0o100_755));
    assert_eq!(meta("sticky")?.mode() & 0o7777, 0o777);
    assert_eq!(meta("old")?.mode() & 0o7000, 0, "a changed file lends nothing");
    assert_eq!(meta("shared")?.mode() & 0o7000, 0o2000, "the host's own bit stays");
    Ok(())
}

fn sparse_files_are_committed_sparse() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script = "truncate -s 4G big; printf end | dd of=big bs=1 seek=3000000000 conv=notrunc 2> /dev/null";
    let mut policy = overlay(&desk.path("work"), Commit::Always, script);
    policy.limits.file_size = 8 << 30;
    assert_eq!(desk.launch(&policy)?.status.code(), Some(0));
    let big = desk.path("work/big").metadata()?;
    assert_eq!(big.len(), 4 << 30);
    assert!(big.blocks() < 1024, "{} blocks", big.blocks());
    let mut end = [0; 4];
    let file = fs::File::open(desk.path("work/big"))?;
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut end, 3_000_000_000)?;
    assert_eq!(&end, b"end\0");
    Ok(())
}

/// A file at the bottom of nested directories.
fn deep(desk: &Desk, commit: Commit, depth: usize, name: &str) -> Result<Changes, Stop> {
    let python = format!(
        "import os\nfor _ in range({depth}): os.mkdir('{name}'); os.chdir('{name}')\nopen('bottom', 'w').close()"
    );
    let mut policy = overlay(&desk.path("work"), commit, "");
    policy.argv = ["python3", "-IBc", &python].map(Bytes::from).to_vec();
    policy.limits.disk = 256 << 20;
    changes(&desk.launch(&policy)?)
}

/// All three ways: compared, made by a commit, and removed by one.
fn directories_deeper_than_a_path() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let compared = deep(&desk, Commit::Never, 20_000, "d")?;
    assert_eq!((compared.commit, compared.total), (Committed::No, 20_001));
    // On a disk, and far beyond PATH_MAX by long names: many directories take a disk long.
    let name = "d".repeat(200);
    let made = deep(&desk, Commit::Always, 200, &name)?;
    assert_eq!((made.commit, made.total), (Committed::Yes, 201));
    let look = format!("import os\nfor _ in range(200): os.chdir('{name}')\nprint(os.listdir())");
    let seen = Command::new("python3").args(["-IBc", &look]).current_dir(desk.path("work")).output()?;
    assert_eq!(text(&seen.stdout), "['bottom']\n", "{seen:?}");
    let removed = commit(&desk, "rm -r d*")?;
    assert_eq!(summary(&removed), [(name, ChangeKind::Deleted, EntryKind::Directory)]);
    assert_eq!(fs::read_dir(desk.path("work"))?.count(), 0);
    Ok(())
}

fn unusual_names_under_an_overlay() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let names = [&b"a b"[..], b"a\nb", b"a:b,c\\d", b"x\xff\xfe", b"-rf", b"lowerdir=", b"*", &[b'n'; 255]];
    for name in names {
        let work = desk.path("work").join(OsStr::from_bytes(name));
        fs::create_dir(&work)?;
        fs::write(work.join("old"), "old")?;
        let policy = overlay(
            &work,
            Commit::Always,
            "cat old; pwd; rm old; for n in \"$@\"; do mkdir -- \"$n\"; echo x > \"./$n/f\"; done",
        );
        let arguments = [&b"sh"[..]].into_iter().chain(names).map(Bytes::from);
        let argv = policy.argv.iter().cloned().chain(arguments).collect();
        let run = desk.launch(&Policy { argv, ..policy })?;
        assert_eq!(run.stdout, [b"old", work.as_os_str().as_bytes(), b"\n"].concat(), "{run:?}");
        let changes = changes(&run)?;
        assert_eq!((&changes.commit, changes.total), (&Committed::Yes, 1 + 2 * names.len() as u64));
        for inner in names {
            assert_eq!(fs::read(work.join(OsStr::from_bytes(inner)).join("f"))?, b"x\n", "{inner:?}");
            assert!(changes.list.iter().any(|change| change.path.0 == inner), "{inner:?}");
        }
        assert!(!work.join("old").exists());
    }
    Ok(())
}

/// A commit never goes through a link: not one that the run made, and not one that it replaced.
fn links_are_committed_as_they_are() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let outside = desk.path("outside");
    fs::create_dir(&outside)?;
    fs::write(outside.join("file"), "outside")?;
    bare(&desk.path("work"), "mkdir d; echo in > d/file; ln -s ../outside out; ln -s ../outside/file f")?;
    let script = format!(
        "rm -r d; ln -s {0} d; rm out f; mkdir out; echo in > out/file; echo in > f; ln -s /etc/shadow s; \
         ln -s s loop; ln -sfn loop s2; ln -s 'a\nb' odd",
        outside.display()
    );
    let changes = commit(&desk, &script)?;
    assert!(changes.iter().all(|change| change.committed), "{changes:?}");
    let says = |name: &str| fs::read_link(desk.path("work").join(name)).ok();
    assert_eq!(says("d"), Some(outside.clone()));
    assert_eq!((says("s"), says("odd")), (Some("/etc/shadow".into()), Some("a\nb".into())));
    assert_eq!((says("out"), says("f")), (None, None));
    assert_eq!(fs::read(desk.path("work/out/file"))?, b"in\n");
    assert_eq!(tree(&outside, false)?.len(), 2);
    assert_eq!(fs::read(outside.join("file"))?, b"outside");
    // What is a link to a directory on the host is deleted as a link, and nothing below it.
    commit(&desk, "rm d; mkdir d; rm -r d")?;
    assert!(outside.join("file").exists() && says("d").is_none());
    Ok(())
}

fn what_is_no_file_stays_out() -> Result<(), Stop> {
    let desk = Desk::new()?;
    bare(&desk.path("work"), "echo kept > kept; mkfifo old")?;
    let changes =
        commit(&desk, "mkfifo pipe; rm kept; mkfifo kept; mkdir d; mkfifo d/pipe; rm old; echo x > old")?;
    let special = |path: &str| {
        changes
            .iter()
            .find(|change| change.path.0 == path.as_bytes())
            .map(|change| (change.kept_back, change.committed))
    };
    for name in ["pipe", "kept", "d/pipe"] {
        assert_eq!(special(name), Some((Some(KeptBack::Special), false)), "{changes:?}");
    }
    assert_eq!(fs::read(desk.path("work/kept"))?, b"kept\n");
    assert!(!desk.path("work/pipe").exists() && fs::read_dir(desk.path("work/d"))?.count() == 0);
    assert_eq!(fs::read(desk.path("work/old"))?, b"x\n");
    Ok(())
}

fn names_that_git_acts_on_stay_out() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(
        &work,
        "mkdir -p .git/hooks .git/objects .git/refs sub/.git; echo c > .git/config; echo h > .git/hooks/h; \
        echo ref: refs/heads/main > .git/HEAD; echo c > sub/.git/config; \
        mkdir -p bare.git/objects bare.git/refs; echo ref: x > bare.git/HEAD; echo c > bare.git/config",
    )?;
    let before = tree(&work, true)?;
    let script = "echo evil >> .git/config; echo evil > .git/hooks/post-checkout; rm .git/hooks/h; \
        echo evil > .git/config.worktree; echo evil > .git/commondir; rm -r sub; \
        mkdir -p new/.git/hooks; echo evil > new/.git/hooks/x; echo gitdir: /tmp/evil > .GIT; \
        mkdir plain plain/objects plain/refs; echo ref: x > plain/HEAD; echo evil > plain/config; \
        echo evil >> bare.git/config; mkdir bare.git/hooks";
    let changes = commit(&desk, script)?;
    let kept = |path: &str| {
        changes.iter().any(|change| {
            change.path.0 == path.as_bytes() && change.kept_back == Some(KeptBack::HostExecuted)
        })
    };
    for path in [
        ".git/config",
        ".git/hooks",
        ".git/config.worktree",
        ".git/commondir",
        "sub",
        "new/.git",
        ".GIT",
        "plain/HEAD",
        "bare.git/config",
        "bare.git/hooks",
    ] {
        assert!(kept(path), "{path}: {changes:?}");
    }
    let after = tree(&work, true)?;
    let stays = |path: &&PathBuf| {
        path.starts_with(".git") || path.starts_with("bare.git") || path.starts_with("sub/.git")
    };
    for path in before.keys().filter(stays) {
        assert_eq!(after.get(path), before.get(path), "{path:?}");
    }
    assert!(!after.keys().any(|path| path.ends_with("post-checkout") || path.starts_with("new/.git")));
    // A commit in the jail arrives on the host, and so does the rest where nobody wants protection.
    commit(
        &desk,
        "echo x > .git/objects/x; mkdir -p .git/refs/heads; echo y > .git/refs/heads/main; echo z > .git/HEAD",
    )?;
    assert_eq!(fs::read(work.join(".git/refs/heads/main"))?, b"y\n");
    let policy = overlay(&work, Commit::Always, script);
    desk.launch(&Policy { git: GitNames::Off, ..policy })?;
    assert_eq!(fs::read(work.join(".git/config"))?, b"c\nevil\n");
    Ok(())
}

fn what_git_settings_and_links_lead_to_stays_out() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    let settings = "[core]\\n\\thooksPath = cfg/hooks\\n[include]\\n\\tpath = ../inc\\n";
    let before = format!(
        "mkdir -p .git cfg/hooks hk t/u data/objects data/refs deep/1/2/3/4/5/6/7/8/9/.git; \
         printf '{settings}' > .git/config; echo i > inc; echo h > cfg/hooks/h; echo c > cfg/other; \
         ln -s ../hk .git/hooks; ln -s ../t/u/hooks .git/remotes; echo u > t/u/file; \
         echo ref: x > data/HEAD; echo c > data/config; \
         printf '[core]\\nhooksPath = .husky' > deep/1/2/3/4/5/6/7/8/9/.git/config"
    );
    let reset = || -> Result<Tree, Stop> {
        fs::remove_dir_all(&work)?;
        fs::create_dir(&work)?;
        bare(&work, &before)?;
        tree(&work, true)
    };
    // What is done, what of it stays out, and what becomes of the rest.
    let cases = [
        ("echo evil > cfg/hooks/x; echo evil > hk/x", "cfg/hooks hk", ""),
        ("echo evil > inc", "inc", ""),
        ("rm inc; mkdir inc", "inc", ""),
        ("rm -r cfg; echo x > made", "cfg", "-cfg/other +made"),
        (
            "mv cfg c2; mkdir -p cfg/hooks; echo evil > cfg/hooks/x",
            "cfg/hooks",
            "-cfg/other +c2 +c2/hooks +c2/hooks/h +c2/other",
        ),
        ("mv cfg c2; ln -s c2 cfg", "cfg", "+c2 +c2/hooks +c2/hooks/h +c2/other"),
        ("rm -r cfg; echo x > cfg", "cfg", ""),
        ("mkdir t/u/hooks; echo evil > t/u/hooks/x; echo x > t/u/y", "t/u/hooks", "+t/u/y"),
        ("mkdir t/u/Hooks", "t/u/Hooks", ""),
        ("rm -r t; ln -s hk t", "t", ""),
        ("rm -r t", "", "-t -t/u -t/u/file"),
        ("rm -r data", "data", ""),
        ("mv data d2; ln -s d2 data", "d2/HEAD data", "+d2 +d2/config +d2/objects +d2/refs"),
        ("mkdir deep/1/2/3/4/5/6/7/8/9/.husky", "deep/1/2/3/4/5/6/7/8/9/.husky", ""),
        ("mkdir .husky; echo x > .husky/pre-commit", "", "+.husky +.husky/pre-commit"),
    ];
    for (script, kept, differs) in cases {
        let before = reset()?;
        let changes = commit(&desk, script)?;
        let said: Vec<String> = changes
            .iter()
            .filter(|change| change.kept_back == Some(KeptBack::HostExecuted))
            .map(|change| text(&change.path.0))
            .collect();
        let after = tree(&work, true)?;
        let gone = before
            .keys()
            .filter(|path| !after.contains_key(*path))
            .map(|path| format!("-{}", path.display()));
        let made = after
            .keys()
            .filter(|path| !before.contains_key(*path))
            .map(|path| format!("+{}", path.display()));
        let now: Vec<String> = gone.chain(made).collect();
        assert_eq!(
            (said.join(" "), now.join(" ")),
            (kept.to_owned(), differs.to_owned()),
            "{script}: {changes:?}"
        );
        for (path, line) in before.iter().filter(|(path, _)| after.contains_key(*path)) {
            assert_eq!(after.get(path), Some(line), "{script}: {path:?}");
        }
        reset()?;
        let policy = overlay(&work, Commit::Always, script);
        let run = desk.launch(&Policy { git: GitNames::Off, ..policy })?;
        let list = self::changes(&run)?.list;
        assert!(!list.is_empty() && list.iter().all(|change| change.committed), "{script}: {list:?}");
    }
    Ok(())
}

/// A commit does not take over its `HEAD` under another name, so the host keeps it under the old one.
fn a_repository_that_is_moved_stays() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(
        &work,
        "for r in a in/b c in/d e; do git init -q --bare -b main $r.git; done; echo x > in/f; echo x > f",
    )?;
    let before = tree(&work, true)?;
    let script = "mv a.git a2.git; mkdir in2; mv in/b.git in2; mkdir c2.git; mv c.git/* c2.git; \
        mv in other; echo x > in; mv f e.git/f; rm e.git/HEAD; mv e.git/f e.git/HEAD";
    let changes = commit(&desk, script)?;
    let after = tree(&work, true)?;
    let head = |name: &str| after.get(&Path::new(name).join("HEAD"));
    for name in ["a.git", "in/b.git", "in/d.git", "c.git"] {
        let head_before = before.get(&Path::new(name).join("HEAD"));
        assert!(head_before.is_some() && head(name) == head_before, "{name}: {changes:?}");
    }
    for name in ["a.git", "in", "c.git/HEAD", "a2.git/HEAD", "c2.git/HEAD"] {
        let is_kept = |change: &Change| {
            change.path.0 == name.as_bytes() && change.kept_back == Some(KeptBack::HostExecuted)
        };
        assert!(changes.iter().any(is_kept), "{name}: {changes:?}");
    }
    assert!(head("a2.git").is_none() && after.contains_key(Path::new("a2.git/objects")));
    assert!(head("e.git").is_some_and(|head| head.contains("x")), "git replaces it itself");
    Ok(())
}

fn closed_directories_are_committed() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(&work, "mkdir -p ro/in gone/in; echo x > ro/f; echo x > gone/in/f; chmod 555 ro gone gone/in")?;
    let script = "mkdir -p a/b; echo x > a/b/f; chmod 000 a/b/f a/b a; chmod 755 ro; echo y > ro/g; chmod 500 ro; \
        chmod -R u+w gone; rm -r gone; chmod 000 .";
    let changes = commit(&desk, script)?;
    assert_eq!(changes[0].path, Bytes::from("."));
    let mode = |name: &str| work.join(name).metadata().map(|meta| meta.mode() & 0o7777);
    assert_eq!(work.metadata()?.mode() & 0o7777, 0);
    fs::set_permissions(&work, fs::Permissions::from_mode(0o755))?;
    assert_eq!((mode("a")?, mode("ro")?, mode("ro/g")?), (0, 0o500, 0o644));
    fs::set_permissions(work.join("a"), fs::Permissions::from_mode(0o700))?;
    assert_eq!(mode("a/b")?, 0);
    fs::set_permissions(work.join("a/b"), fs::Permissions::from_mode(0o700))?;
    assert_eq!(mode("a/b/f")?, 0);
    assert!(!work.join("gone").exists());
    fs::set_permissions(work.join("ro"), fs::Permissions::from_mode(0o700))?;
    Ok(())
}

fn the_list_of_changes_is_bounded() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let python = "for n in range(6000): open('f%d' % n, 'w').close()";
    let mut policy = overlay(&desk.path("work"), Commit::Always, "");
    policy.argv = ["python3", "-IBc", python].map(Bytes::from).to_vec();
    let changes = changes(&desk.launch(&policy)?)?;
    assert_eq!((changes.list.len(), changes.total, changes.commit), (4096, 6000, Committed::Yes));
    assert_eq!(fs::read_dir(desk.path("work"))?.count(), 6000);
    Ok(())
}

fn a_full_overlay_says_so() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::write(desk.path("work/big"), vec![b'x'; 3 << 20])?;
    let mut policy = overlay(
        &desk.path("work"),
        Commit::Never,
        "cat big > /dev/null && echo readable; echo y >> big || echo full; cat /dev/zero > more || echo full",
    );
    policy.limits.disk = 2 << 20;
    let run = desk.launch(&policy)?;
    assert_eq!(text(&run.stdout), "readable\nfull\nfull\n", "{run:?}");
    assert_eq!(desk.path("work/big").metadata()?.len(), 3 << 20);
    Ok(())
}

fn mounts_show_no_path_of_the_host() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let (run, _) = run(&desk, Commit::Never, "grep overlay /proc/self/mountinfo; ls -a /")?;
    let output = text(&run.stdout);
    let work = desk.path("work");
    assert_eq!(output.matches(&*work.to_string_lossy()).count(), 1, "only where it is mounted: {output}");
    assert!(output.contains("nosuid,nodev") && !output.contains("\n.s"), "{output}");
    Ok(())
}

/// A launcher that may not write large files, while its command may.
fn a_commit_that_fails_says_where() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(&work, "echo a > a; mkdir m; echo old > m/large")?;
    let script = "echo b > a; head -c 9000 /dev/zero > m/large; echo x > m/small; mkdir n; echo z > z; rm -r m/large/x; true";
    let policy = overlay(&work, Commit::OnSuccess, script);
    let run = desk.launch_after("ulimit -S -f 8", &json(&policy)?)?;
    let changes = changes(&run)?;
    let Committed::Failed(failure) = &changes.commit else { return Err(Stop::Fail(format!("{run:?}"))) };
    assert!(failure.message.contains("\"m/large\"") && failure.message.contains("too large"), "{failure}");
    assert_eq!((run.status.code(), run.ended()?.ended_by), (Some(125), EndedBy::Exit(0)));
    assert!(text(&run.stderr).contains("m/large"), "{run:?}");
    let committed: Vec<_> =
        changes.list.iter().map(|change| (text(&change.path.0), change.committed)).collect();
    let expected = [("a", false), ("m/large", false), ("m/small", false), ("n", false), ("z", false)];
    assert_eq!(committed, expected.map(|(path, committed)| (path.to_owned(), committed)));
    assert_eq!(
        (fs::read(work.join("a"))?, fs::read(work.join("m/large"))?),
        (b"a\n".to_vec(), b"old\n".to_vec())
    );
    assert_eq!(tree(&work, false)?.len(), 4, "nothing else, and nothing half-written");
    Ok(())
}

/// Calls the helper where some mounts were made that nobody else sees.
fn call_with_mounts(desk: &Desk, mounts: &str, policy: &Policy) -> Result<Output, Stop> {
    let unshare: &[&str] = match me() {
        Who::Root => &["unshare", "--mount"],
        Who::User => &["unshare", "--user", "--map-current-user", "--keep-caps", "--mount"],
    };
    let script = format!("{mounts} && exec \"$@\" || exit 99");
    let words = unshare.iter().copied().chain(["sh", "-c", &script, "sh"]).map(str::to_owned);
    let output = desk.call_under(&words.collect::<Vec<_>>(), &[], &json(policy)?)?;
    if output.status.code() == Some(99) {
        return Err(Stop::Skip(format!("the mounts cannot be made here: {}", text(&output.stderr))));
    }
    Ok(output)
}

/// Everything that is new finds its room before anything goes, and what was moved is new.
fn a_commit_without_room_leaves_the_host_as_it_was() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let (then, after) = (desk.path("then"), desk.path("after"));
    let before = "mkdir -p a z/ro; head -c 5000000 /dev/urandom > a/precious; echo b > b; echo z > z/z; \
        echo ro > z/ro/f; chmod 500 z/ro; ln -s b l; cp -a . ../then";
    let mounts = format!(
        "mount -t tmpfs -o size=8m,mode=755 none \"$PWD\" && cd \"$PWD\" && ({before}) && \
         {{ \"$@\"; code=$?; cp -a . ../after; exit $code; }}"
    );
    for script in [
        "mv a m; head -c 4000000 /dev/zero > a0",
        "mv a m; echo new > b; rm z/z",
        "mv a/precious b",
        "chmod 700 z/ro; rm -r z; mv a/precious z",
        "rm l; mv a l; echo a > a; chmod 700 z/ro; echo more >> z/ro/f",
    ] {
        let output = call_with_mounts(&desk, &mounts, &overlay(&desk.path("work"), Commit::Always, script))?;
        let message = text(&output.stderr);
        assert!(
            output.status.code() == Some(125) && message.contains("No space left"),
            "{script}: {message}"
        );
        assert_eq!(tree(&after, true)?, tree(&then, true)?, "{script}");
        for copy in [&then, &after] {
            fs::set_permissions(copy.join("z/ro"), fs::Permissions::from_mode(0o700))?;
            fs::remove_dir_all(copy)?;
        }
    }
    Ok(())
}

/// One file of many names is one file on the host, too: the disk limit is one for what a commit writes.
fn hard_links_are_committed_as_such() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(&work, "mkdir old; head -c 500000 /dev/urandom > old/kept; echo x > old/f; cp old/kept copy")?;
    let kept = work.join("old/kept").metadata()?.ino();
    let script = "head -c 1000000 /dev/zero | tr '\\0' x > first; mkdir -p d/e; rm old/f; ln first old/f; chmod 640 first; \
        for n in $(seq 40); do ln first l$n; ln first d/e/l$n; done; ln old/kept again; echo 1 > one; ln one d/one; rm one";
    let changes = commit(&desk, script)?;
    assert!(changes.iter().all(|change| change.committed), "{changes:?}");
    let first = work.join("first").metadata()?;
    assert_eq!((first.nlink(), first.len(), first.mode() & 0o777), (82, 1_000_000, 0o640));
    for name in ["l1", "l40", "d/e/l1", "old/f"] {
        assert_eq!(work.join(name).metadata()?.ino(), first.ino(), "{name}");
    }
    assert_eq!(fs::read(work.join("again"))?, fs::read(work.join("copy"))?);
    assert_eq!(
        (work.join("old/kept").metadata()?.ino(), fs::read(work.join("d/one"))?),
        (kept, b"1\n".to_vec())
    );
    assert_eq!(tree(&work, false)?.keys().filter(|path| path.starts_with(".agentkit")).count(), 0);
    assert_eq!(fs::read_dir(&work)?.count(), 45);
    // One name gets another content, the others keep theirs.
    commit(&desk, "echo other > l1; ln l2 l41")?;
    assert_eq!(
        (fs::read(work.join("l1"))?, fs::read(work.join("l40"))?.len()),
        (b"other\n".to_vec(), 1_000_000)
    );
    Ok(())
}

/// An overlay would show what the mount covers.
fn mounts_below_the_work_dir_are_refused_by_name() -> Result<(), Stop> {
    let desk = Desk::new()?;
    bare(&desk.path("work"), "mkdir -p 'a/b c'; echo covered > 'a/b c/covered'")?;
    let policy = overlay(&desk.path("work"), Commit::Never, "cat 'a/b c/covered'");
    let output = call_with_mounts(&desk, "mount -t tmpfs none 'a/b c'", &policy)?;
    let message = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(125), String::new()), "{message}");
    assert!(message.contains("is a mount of its own") && message.contains("a/b"), "{message}");
    Ok(())
}

fn an_overlay_keeps_the_flags_of_the_mount() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let script = "./run; echo $?; cat link; cp run made; ./made; echo $?";
    let policy = overlay(&desk.path("work"), Commit::Never, script);
    let fill = "echo 'echo it runs' > \"$PWD/run\"; chmod 755 \"$PWD/run\"; ln -s run \"$PWD/link\"";
    let mounted = |options: &str| {
        let mounts = format!("mount -t tmpfs -o {options} none \"$PWD\" && cd \"$PWD\" && {fill}");
        call_with_mounts(&desk, &mounts, &policy).map(|output| text(&output.stdout))
    };
    assert_eq!(mounted("mode=755")?, "it runs\n0\necho it runs\nit runs\n0\n");
    assert_eq!(mounted("mode=755,noexec")?, "126\necho it runs\n126\n");
    assert_eq!(mounted("mode=755,nosymfollow")?, "it runs\n0\nit runs\n0\n");
    Ok(())
}

fn a_commit_to_a_read_only_mount_is_refused() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let mounts = "mount --bind \"$PWD\" \"$PWD\" && mount -o remount,bind,ro \"$PWD\" && cd \"$PWD\"";
    let call = |commit| {
        call_with_mounts(&desk, mounts, &overlay(&desk.path("work"), commit, "echo x > made; cat made"))
    };
    let refused = call(Commit::OnSuccess)?;
    assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(125), String::new()));
    assert!(text(&refused.stderr).contains("read-only"), "{refused:?}");
    let discarded = call(Commit::Never)?;
    assert_eq!(
        (discarded.status.code(), text(&discarded.stdout)),
        (Some(0), "x\n".to_owned()),
        "{discarded:?}"
    );
    Ok(())
}

fn an_overlay_on_an_overlay_on_an_overlay_is_refused() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let layer = |name: &str| {
        format!(
            "mkdir {name} {name}/u {name}/w {name}/m && \
             mount -t overlay none -o lowerdir=$L,upperdir={name}/u,workdir={name}/w,userxattr {name}/m && L=$PWD/{name}/m"
        )
    };
    let mounts = |layers: &[&str]| {
        let layers: Vec<String> = layers.iter().map(|name| layer(name)).collect();
        format!(
            "W=$PWD; mount -t tmpfs none {0} && cd {0} && mkdir l && L=$PWD/l && {1} && cd \"$W\" && \
             mount --bind $L \"$W\" && cd \"$W\"",
            desk.path("outputs").display(),
            layers.join(" && ")
        )
    };
    let policy = overlay(&desk.path("work"), Commit::Never, "echo ran > x; cat x");
    let refused = call_with_mounts(&desk, &mounts(&["one", "two"]), &policy)?;
    assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(125), String::new()), "{refused:?}");
    assert!(text(&refused.stderr).contains("overlay"), "{refused:?}");
    if me() == Who::User {
        // For root the owner of an overlay's files cannot be mapped.
        let works = call_with_mounts(&desk, &mounts(&["one"]), &policy)?;
        assert_eq!(text(&works.stdout), "ran\n", "{works:?}");
    }
    Ok(())
}

/// It never becomes a work dir that is bound.
fn a_host_without_overlays_refuses_by_name() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let policy = json(&overlay(&desk.path("work"), Commit::Always, "echo x > made"))?;
    for (call, errno) in [("fsopen", EPERM), ("fsopen", ENOSYS), ("fsconfig", EPERM), ("fsmount", EPERM)] {
        let output = desk.call_under(&preloader(&[(call, errno)]), &[], &policy)?;
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{call}: {message}");
        assert!(
            message.contains("mount an overlay on the work dir") && message.contains('('),
            "{call}: {message}"
        );
        assert!(!desk.path("work/made").exists());
    }
    Ok(())
}

/// And what they put there is no change.
fn rules_hold_above_an_overlay() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    bare(
        &work,
        "mkdir ro rw hidden tmp; for d in ro rw hidden tmp; do echo $d > $d/f; done; echo secret > key",
    )?;
    let script = "cat key hidden/f; cat ro/f rw/f; ls -A tmp; echo x > ro/f; echo x > ro/g; echo x > hidden/g; \
        echo changed > rw/f; echo x > tmp/x; mv hidden h; rm -rf tmp; echo made > made";
    let rule = |name: &str, access| Rule { path: Bytes::from(work.join(name)), access };
    let rules = vec![
        rule("ro", Access::Ro),
        rule("rw", Access::Rw),
        rule("hidden", Access::Hide),
        rule("key", Access::Hide),
        rule("tmp", Access::Tmpfs),
        rule("absent", Access::Hide),
    ];
    let before = tree(&work, true)?;
    let run = desk.launch(&Policy { rules, ..overlay(&work, Commit::Always, script) })?;
    assert_eq!(text(&run.stdout), "ro\nrw\n", "{run:?}");
    let list = changes(&run)?.list;
    assert_eq!(summary(&list), [("made".to_owned(), ChangeKind::Created, EntryKind::File)], "{run:?}");
    let mut after = tree(&work, true)?;
    // What may be written past the overlay has no commit to wait for.
    assert_eq!(fs::read(work.join("rw/f"))?, b"changed\n");
    after.insert("rw/f".into(), before[Path::new("rw/f")].clone());
    assert!(after.remove(Path::new("made")).is_some());
    assert_eq!(after, before);
    Ok(())
}
