//! Work dirs in unusual places.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::jail::launch::Launch;
use crate::jail::stage;
use crate::jail::who::Who;
use crate::support::Stop;
use crate::support::need::need;
use crate::tests;
use agentkit_protocol::{
    Access, Attempt, Bytes, Commit, Control, FailureKind, GitNames, Policy, Rule, WorkDir,
};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

tests![
    a_work_dir_whose_owner_cannot_be_mapped,
    a_deleted_current_directory,
    unusual_names_of_work_dirs,
    an_empty_one_in_the_place_of_another,
    a_work_dir_behind_a_link,
    a_relative_work_dir,
    a_work_dir_that_is_none,
    work_dirs_that_are_the_host,
    a_neighbour_swaps_the_work_dir_for_a_link,
    the_group_bit_of_directories_can_be_set,
    a_directory_that_others_have_closed
];

fn a_deleted_current_directory() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let leave = "mkdir gone; cd gone; rmdir ../gone";
    let relative = Policy { workdir: WorkDir::Bind(Bytes::from(".")), ..desk.tracer() };
    let run = desk.launch_after(leave, &json(&relative)?)?;
    let failure = run.failure()?;
    assert_eq!((run.status.code(), &failure.step[..]), (Some(125), "work dir"));
    assert_eq!(failure.kind, FailureKind::Policy);
    assert!(!desk.ran());
    // Whoever does not need it is not disturbed.
    assert_eq!(desk.launch_after(leave, &json(&desk.tracer())?)?.status.code(), Some(0));
    assert!(desk.ran());
    Ok(())
}

/// On files, too, where the host will never see them.
fn the_group_bit_of_directories_can_be_set() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = || Bytes::from(desk.path("work"));
    let script = "set -e; cd \"$0\"; mkdir -p a/b; cd a; touch f; ln -s b l; chmod 2775 b; test -g b; chmod g-s b; chmod 2750 l;\n\
        test -g b; test \"$(stat -c %a b)\" = 2750; chmod 2000 b; test \"$(stat -c %a b)\" = 2000; chmod 2711 b;\n\
        cd b; chmod 3777 . ../../a; test \"$(stat -c %a ../../a)\" = 3777; test \"$(stat -c %a .)\" = 3777; cd ..;\n\
        exec 9< b; chmod 2755 /proc/self/fd/9 2> /dev/null || chmod 2755 b; test \"$(stat -c %a b)\" = 2755;\n\
        for no in none f/x; do ! chmod 2755 $no 2> message; grep -q 'cannot access\\|cannot operate\\|No such\\|not permitted' message; done;\n\
        chmod 2755 f 2> message && echo file || grep -o 'Operation not permitted' message";
    let policy = |workdir: WorkDir, place: &str| {
        let argv = ["sh", "-c", script, place].map(Bytes::from).to_vec();
        Policy { workdir, argv, ..desk.policy(script) }
    };
    let overlay = WorkDir::Overlay { path: work(), commit: Commit::Never };
    let mut with_rule = policy(WorkDir::Scratch, &desk.path("work").display().to_string());
    with_rule.rules = vec![Rule { path: work(), access: Access::Rw }];
    let mut watched = policy(WorkDir::Bind(work()), ".");
    watched.watch.forks = true;
    let refused = "Operation not permitted\n";
    for (policy, said) in [
        (policy(WorkDir::Scratch, "."), "file\n"),
        (policy(overlay, "."), "file\n"),
        (policy(WorkDir::Bind(work()), "."), refused),
        (with_rule, refused),
        (watched, refused),
    ] {
        let run = desk.launch(&policy)?;
        assert_eq!((run.status.code(), &text(&run.stdout)[..]), (Some(0), said), "{run:?}");
        let forks =
            run.ended()?.attempts.iter().any(|attempt| matches!(attempt, Attempt::Forks { count: 9.., .. }));
        assert_eq!(forks, policy.watch.forks, "{run:?}");
        fs::remove_dir_all(desk.path("work"))?;
        fs::create_dir(desk.path("work"))?;
    }
    Ok(())
}

fn unusual_names_of_work_dirs() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for name in [
        &b"a b"[..],
        b"a\nb",
        b"x\xff\xfe",
        b"'\"$(id)`\\",
        b"-rf",
        "\u{fc}\u{1f600}".as_bytes(),
        &[b'n'; 255],
    ] {
        let path = desk.path("work").join(OsStr::from_bytes(name));
        fs::create_dir(&path)?;
        let policy = Policy {
            workdir: WorkDir::Bind(Bytes::from(path.clone())),
            ..Policy::new(["sh", "-c", "pwd; echo x > 'f g'"])
        };
        let run = desk.launch(&policy)?;
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        assert_eq!(run.stdout, [path.as_os_str().as_bytes(), b"\n"].concat());
        assert_eq!(fs::read(path.join("f g"))?, b"x\n");
    }
    Ok(())
}

fn an_empty_one_in_the_place_of_another() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let work = desk.path("work");
    fs::write(work.join("own"), "the user's")?;
    symlink("work", desk.path("link"))?;
    let script = "pwd -P; ls -A; echo new >own && cat own";
    let said = format!("{}\nnew\n", work.display());
    for name in ["work", "link"] {
        let workdir = WorkDir::ScratchAt(Bytes::from(desk.path(name)));
        let run = desk.launch(&Policy { workdir, ..Policy::new(["sh", "-c", script]) })?;
        assert_eq!((run.status.code(), text(&run.stdout)), (Some(0), said.clone()), "{run:?}");
        let levels = run.started()?.capabilities;
        assert!([Control::DiskLimited, Control::NetworkBlocked].iter().all(|it| levels.level(*it).is_full()));
    }
    let flags = ["--workdir", &format!("{}:scratch", work.display()), "sh", "-c", script];
    assert_eq!(text(&desk.call(&flags, b"")?.stdout), said);
    assert_eq!(fs::read_to_string(work.join("own"))?, "the user's");
    assert_eq!(fs::read_dir(&work)?.count(), 1);
    for no in ["absent", "work/own"] {
        let workdir = WorkDir::ScratchAt(Bytes::from(desk.path(no)));
        let failure = desk.launch(&Policy { workdir, ..desk.tracer() })?.failure()?;
        assert_eq!(failure.kind, FailureKind::Policy, "{no}: {failure}");
    }
    assert!(!desk.ran());
    Ok(())
}

fn a_work_dir_behind_a_link() -> Result<(), Stop> {
    let desk = Desk::new()?;
    symlink(desk.path("work"), desk.path("link"))?;
    symlink("link", desk.path("second"))?;
    for link in ["link", "second"] {
        let workdir = WorkDir::Bind(Bytes::from(desk.path(link)));
        assert_eq!(desk.launch(&Policy { workdir, ..desk.tracer() })?.status.code(), Some(0));
        assert!(desk.ran(), "{link}");
    }
    Ok(())
}

fn a_relative_work_dir() -> Result<(), Stop> {
    let desk = Desk::new()?;
    for name in [".", "../work", "./../work/."] {
        let workdir = WorkDir::Bind(Bytes::from(name));
        assert_eq!(desk.launch(&Policy { workdir, ..desk.tracer() })?.status.code(), Some(0));
        assert!(desk.ran(), "{name}");
    }
    Ok(())
}

/// The caller's mistake, not the host's.
fn a_work_dir_that_is_none() -> Result<(), Stop> {
    let desk = Desk::new()?;
    fs::write(desk.path("file"), "")?;
    symlink("loop", desk.path("loop"))?;
    for path in ["missing", "file", "file/below", "loop"].map(|name| desk.path(name)) {
        let policy = Policy { workdir: WorkDir::Bind(Bytes::from(path.clone())), ..desk.tracer() };
        let run = desk.launch(&policy)?;
        assert_eq!((run.status.code(), run.failure()?.kind), (Some(125), FailureKind::Policy), "{path:?}");
    }
    Ok(())
}

/// By whatever name: on most hosts `/bin` is a link, and `/var/run` is one.
fn work_dirs_that_are_the_host() -> Result<(), Stop> {
    let desk = Desk::new()?;
    let link = desk.path("work/link");
    symlink("/usr", &link)?;
    let names = [
        "/",
        "/bin",
        "/sbin",
        "/lib",
        "/usr",
        "/usr/bin",
        "/usr/lib",
        "/usr/local/bin",
        "/usr/local/lib/python3",
        "/usr/share",
        "/opt",
        "/etc",
        "/var",
        "/var/lib",
        "/var/spool/cron",
        "/var/cache",
        "/var/tmp",
        "/var/run",
        "/proc/self",
    ];
    let linked = [link.clone(), link.join("bin"), link.join("../etc")];
    for path in names.into_iter().map(PathBuf::from).chain(linked).filter(|path| path.is_dir()) {
        let policy = Policy { workdir: WorkDir::Bind(Bytes::from(path.clone())), ..Policy::new(["true"]) };
        let run = desk.launch(&policy)?;
        assert_eq!((run.status.code(), run.failure()?.kind), (Some(125), FailureKind::Policy), "{path:?}");
    }
    Ok(())
}

/// A jail that can write where the next one's work dir lies exchanged that for a link to `/etc`, between the look at it
/// and the mount, and the next one had the host's `/etc` to write.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    let _ = renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE);
}

/// The jail runs on Linux alone so far.
#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) {}

fn a_neighbour_swaps_the_work_dir_for_a_link() -> Result<(), Stop> {
    for who in Who::everybody() {
        who.can_launch()?;
        let root = stage::open_directory()?;
        let [shared, work, link, outputs] =
            ["shared", "shared/work", "shared/link", "outputs"].map(|name| root.path().join(name));
        for directory in [&shared, &work, &outputs] {
            fs::create_dir(directory)?;
            who.own(directory)?;
        }
        symlink("/etc", &link)?;
        let script = "test -e passwd && echo host || echo own";
        let workdir = WorkDir::Bind(Bytes::from(work.clone()));
        let policy = json(&Policy { workdir, git: GitNames::Off, ..Policy::new(["sh", "-c", script]) })?;
        let launch = Launch::plain(*who, outputs, root.path().to_path_buf());
        let over = AtomicBool::new(false);
        let swap = || {
            while !over.load(Ordering::Relaxed) {
                exchange(&work, &link);
            }
        };
        let judge = || -> Result<(), Stop> {
            for _ in 0..40 {
                let run = launch.jail(&policy)?.finish()?;
                let is_own = text(&run.stdout) == "own\n";
                let is_refused = run.failure().is_ok_and(|failure| failure.kind == FailureKind::Policy);
                assert!(is_own || is_refused, "{who:?}: {run:?}");
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            scope.spawn(swap);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(judge));
            over.store(true, Ordering::Relaxed);
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
    }
    Ok(())
}

/// The jail of a root launcher cannot enter it, nor can whoever looks for git's names afterwards: nothing to report.
fn a_directory_that_others_have_closed() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    let closed = desk.path("work/closed");
    fs::create_dir(&closed)?;
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    std::os::unix::fs::chown(&closed, Some(61236), Some(61236))?;
    let run = desk.launch(&Policy {
        ..desk.policy("ls closed || echo denied; git init -q x 2>/dev/null; echo x > new")
    })?;
    assert_eq!((text(&run.stdout), run.ended()?.unchecked), ("denied\n".into(), vec![]), "{run:?}");
    Ok(())
}

/// As on the root of most containers. Nothing is copied and nothing changes hands: it says what to do instead.
fn a_work_dir_whose_owner_cannot_be_mapped() -> Result<(), Stop> {
    need("root")?;
    let desk = Desk::new()?;
    let work = desk.path("work").display().to_string();
    let plain = "mount -t ramfs none .";
    let layered = "mount -t tmpfs none .; cd .; mkdir l u w; mount -t overlay -o lowerdir=l,upperdir=u,workdir=w none .";
    for mount in [plain, layered] {
        let script = format!(
            "set -e; cd \"$0\"; {mount}; cd \"$0\"; chown 61235 .; set +e; \"$@\"; code=$?; stat -c %u .; ls -A; exit $code"
        );
        let before = ["unshare", "-m", "sh", "-c", &script, &work].map(str::to_owned);
        let run = desk.call_under(&before, &[], &json(&desk.tracer())?)?;
        assert_eq!((run.status.code(), text(&run.stdout)), (Some(125), "61235\n".to_owned()), "{run:?}");
        assert!(text(&run.stderr).contains("cannot map ids"), "{run:?}");
    }
    Ok(())
}
