//! Git in a work dir: what goes on working, what is put aside, and what is not touched.

use super::judge::text;
use crate::jail::desk::{Desk, json};
use crate::jail::run::Run;
use crate::jail::stage::helper;
use crate::support::Stop;
use crate::tests;
use agentkit_protocol::{Access, Bytes, EndedBy, GitNames, Policy, Rule, WorkDir};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

tests![
    work_goes_on_in_a_repository,
    a_run_that_writes_nothing_changes_nothing,
    what_was_closed_before_stays_and_what_a_run_closes_does_not,
    new_repositories_are_put_aside_whole,
    the_place_for_them_cannot_be_taken,
    what_was_put_aside_stays_there,
    names_may_be_left_unprotected,
    a_linked_worktree_keeps_what_it_says,
    a_linked_worktree_commits_where_it_may_write,
    nothing_keeps_the_search_from_its_end,
    many_are_put_aside_and_not_all_are_listed
];

const SETTINGS: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null HOME=/nonexistent\n\
     git() { command git -c user.name=n -c user.email=e@example.org -c init.defaultBranch=main \"$@\"; }\n";

/// A desk whose work dir is a repository with one commit.
fn desk() -> Result<Desk, Stop> {
    let desk = Desk::new()?;
    host(&desk, "echo 1 > f && git init -q . && git add f && git commit -qm first")?;
    Ok(desk)
}

/// What the host does in the work dir, and what that prints.
fn host(desk: &Desk, script: &str) -> Result<String, Stop> {
    let mut shell = Command::new("sh");
    let script = format!("set -e\n{SETTINGS}{script}");
    let output = shell.args(["-c", &script]).current_dir(desk.path("work")).output()?;
    if Command::new("git").arg("--version").output().is_err() {
        return Err(Stop::Skip("there is no git".to_owned()));
    }
    assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    Ok(text(&output.stdout))
}

fn policy(desk: &Desk, script: &str) -> Policy {
    desk.policy(&format!("set -e\n{SETTINGS}{script}"))
}

fn jailed(desk: &Desk, script: &str) -> Result<Run, Stop> {
    let run = desk.launch(&policy(desk, script))?;
    assert_eq!(run.ended()?.ended_by, EndedBy::Exit(0), "{run:?}");
    Ok(run)
}

/// What was put aside: where it was, below the work dir, and where it is.
fn quarantined(desk: &Desk, run: &Run) -> Result<Vec<(String, PathBuf)>, Stop> {
    let ended = run.ended()?;
    assert_eq!(ended.unchecked, [] as [String; 0]);
    let work = desk.path("work");
    let path = |bytes: &Bytes| PathBuf::from(std::ffi::OsStr::from_bytes(&bytes.0));
    let pair = |it: &agentkit_protocol::Quarantined| {
        let from = path(&it.from).strip_prefix(&work).unwrap_or(Path::new("elsewhere")).to_path_buf();
        (from.to_string_lossy().into_owned(), path(&it.to))
    };
    Ok(ended.quarantined.iter().map(pair).collect())
}

fn work_goes_on_in_a_repository() -> Result<(), Stop> {
    let desk = desk()?;
    let run = jailed(
        &desk,
        "echo 2 > f; git add f; git commit -qm second; git checkout -qb topic; echo 3 > g; git add g\n\
         git commit -qm third; git checkout -q main; git merge -q topic; git tag t; git stash list; git gc -q\n\
         git worktree add -q ../work/w; cd w; echo 4 > h; git add h; git commit -qm fourth; cd ..\n\
         git init -q new; cd new; echo 5 > i; git add i; git commit -qm fifth; git log --oneline | wc -l; cd ..\n\
         ! git config a.b c 2>/dev/null; ! echo x 2>/dev/null > .git/hooks/x; ! mv .git g 2>/dev/null; git status --short",
    )?;
    assert_eq!(text(&run.stdout), "1\n?? new/\n?? w/\n", "{run:?}");
    let mut from: Vec<_> = quarantined(&desk, &run)?.into_iter().map(|(from, _)| from).collect();
    from.sort();
    assert_eq!(from, [".git/worktrees/w", "new/.git", "w/.git"]);
    assert_eq!(
        host(&desk, "git fsck --full 2>/dev/null; git log --oneline main | wc -l; cat .git/HEAD")?,
        "3\nref: refs/heads/main\n"
    );
    Ok(())
}

/// Neither does one whose launcher is killed.
fn a_run_that_writes_nothing_changes_nothing() -> Result<(), Stop> {
    let desk = desk()?;
    host(
        &desk,
        "rm -r .git/hooks; mkdir shared; ln -s ../shared .git/hooks; git init -q a/b; git init -q --bare a/c",
    )?;
    let before = listing(&desk)?;
    let run = jailed(&desk, "GIT_OPTIONAL_LOCKS=0 git status >/dev/null; cat .git/config >/dev/null")?;
    assert!(quarantined(&desk, &run)?.is_empty());
    assert!(listing(&desk)? == before, "{}", listing(&desk)?);
    let mut child = Command::new(helper()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&json(&policy(&desk, "echo up; exec sleep 600"))?)?;
    }
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_exact(&mut [0; 3])?;
        child.kill()?;
        // Until the last one that could write is gone.
        stdout.read_to_end(&mut Vec::new())?;
    }
    child.wait()?;
    assert!(listing(&desk)? == before, "{}", listing(&desk)?);
    Ok(())
}

/// To look into it changes its mode for a moment, and thereby when it was last changed.
fn what_was_closed_before_stays_and_what_a_run_closes_does_not() -> Result<(), Stop> {
    let desk = desk()?;
    host(
        &desk,
        "mkdir -p a .git/rebase-merge .git/sequencer; git init -q a/b; git init -q --bare c; rm -rf a/b/.git/hooks
        echo x > .git/rebase-merge/x; mkdir a/b/.git/hooks shared; git -C c config core.hooksPath ../shared
        chmod 0 shared c/hooks c a/b/.git/hooks a/b/.git .git/rebase-merge .git/sequencer; chmod 111 .git/hooks",
    )?;
    let run = jailed(&desk, "echo")?;
    assert_eq!(quarantined(&desk, &run)?, []);
    let modes =
        "stat -c %a shared c .git/hooks .git/rebase-merge .git/sequencer a/b/.git; chmod 700 c a/b/.git
        stat -c %a c/hooks a/b/.git/hooks; chmod 0 c";
    assert_eq!(host(&desk, modes)?, "0\n0\n111\n0\n0\n0\n0\n0\n");

    let run = jailed(
        &desk,
        "cd .git; chmod 700 rebase-merge; echo y > rebase-merge/x; chmod 0 rebase-merge
        chmod 700 sequencer; chmod 0 sequencer; mkdir rebase-apply; echo x > rebase-apply/x; chmod 0 rebase-apply",
    )?;
    let mut from: Vec<_> = quarantined(&desk, &run)?.into_iter().map(|(from, _)| from).collect();
    from.sort();
    // So that the desk can be cleared.
    host(&desk, "chmod -R u+rwx .")?;
    assert_eq!(from, [".git/rebase-apply", ".git/rebase-merge", ".git/sequencer"]);
    Ok(())
}

/// Everything in the work dir: names, modes, owners, times of content and content.
fn listing(desk: &Desk) -> Result<String, Stop> {
    host(desk, "find . -printf '%p %m %u %g %s %T@ %l\\n' | sort; find . -type f -exec sha256sum {} + | sort")
}

fn new_repositories_are_put_aside_whole() -> Result<(), Stop> {
    let desk = desk()?;
    let run = jailed(
        &desk,
        "git init -q n; echo x > n/f; git -C n add f; git -C n commit -qm x; git init -q --bare b",
    )?;
    let moved = quarantined(&desk, &run)?;
    let find = |name: &str| moved.iter().find(|(from, _)| from == name).map(|(_, to)| to.clone());
    let (new, bare) = (find("n/.git").unwrap_or_default(), find("b/HEAD").unwrap_or_default());
    assert_eq!(moved.len(), 2, "{moved:?}");
    assert!(new.starts_with(desk.path("work/.agentkit-quarantine")), "{new:?}");
    // The origin is not lost with the report.
    let listed = fs::read_to_string(desk.path("work/.agentkit-quarantine/README"))?;
    for (from, to) in &moved {
        let line = format!("{from:?} -> {:?}\n", to.strip_prefix(desk.path("work")).unwrap_or(to));
        assert!(listed.contains(&line), "{listed}");
    }
    // Nothing is lost: moved back, both are what they were.
    let back = format!(
        "mv '{0}' n/.git; mv n/.git/HEAD.quarantined n/.git/HEAD; mv '{1}' b/HEAD; git -C n log --oneline | wc -l; git -C b rev-parse --is-bare-repository; stat -c %a .agentkit-quarantine",
        new.display(),
        bare.display()
    );
    assert_eq!(host(&desk, &back)?, "1\ntrue\n700\n");
    // And a person is told without asking for a report.
    let said = desk.call(&[], &json(&policy(&desk, "git init -q m"))?)?;
    assert!(text(&said.stderr).contains("m/.git"), "{said:?}");
    Ok(())
}

fn the_place_for_them_cannot_be_taken() -> Result<(), Stop> {
    let desk = desk()?;
    fs::create_dir(desk.path("outside"))?;
    symlink(desk.path("outside"), desk.path("work/way"))?;
    for (taken, place) in [
        ("cp -P way .agentkit-quarantine", ".agentkit-quarantine-1"),
        ("echo x > .agentkit-quarantine", ".agentkit-quarantine-1"),
        ("mkdir -m 777 .agentkit-quarantine; echo x > .agentkit-quarantine/0-git", ".agentkit-quarantine-1"),
        ("chmod 0 .", ".agentkit-quarantine"),
    ] {
        let run = jailed(&desk, &format!("git init -q n; {taken}"))?;
        let moved = quarantined(&desk, &run)?;
        assert_eq!(moved.len(), 1, "{taken}: {moved:?}");
        assert!(moved[0].1.starts_with(desk.path("work").join(place)), "{taken}: {moved:?}");
        fs::set_permissions(desk.path("work"), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        assert_eq!(fs::read_dir(desk.path("outside"))?.count(), 0);
        host(&desk, "rm -rf .agentkit-quarantine* n")?;
    }
    Ok(())
}

fn what_was_put_aside_stays_there() -> Result<(), Stop> {
    let desk = desk()?;
    jailed(&desk, "git init -q n")?;
    let attempts = "cd .agentkit-quarantine; ! python3 -c 'import os; os.rename(\"0-git\", \"../n/.git\")'; ! touch x; ! rm -r 0-git; cd ..; ! mv .agentkit-quarantine q; ! ls n/.git";
    let run = jailed(&desk, &format!("exec 2>/dev/null; {attempts}"))?;
    assert!(quarantined(&desk, &run)?.is_empty());
    assert!(desk.path("work/.agentkit-quarantine/0-git/HEAD.quarantined").exists());
    let again = jailed(&desk, "git init -q n")?;
    assert_eq!(quarantined(&desk, &again)?[0].1, desk.path("work/.agentkit-quarantine-1/0-git"));
    Ok(())
}

fn names_may_be_left_unprotected() -> Result<(), Stop> {
    let desk = desk()?;
    let off = Policy {
        git: GitNames::Off,
        ..policy(&desk, "git config a.b c; git init -q n; echo x > .git/hooks/x")
    };
    let run = desk.launch(&off)?;
    assert_eq!(run.ended()?.ended_by, EndedBy::Exit(0), "{run:?}");
    assert!(quarantined(&desk, &run)?.is_empty());
    assert_eq!(
        host(&desk, "git config a.b; cat .git/hooks/x; git -C n rev-parse --git-dir")?,
        "c\nx\n.git\n"
    );
    Ok(())
}

/// The repository itself lies outside of it.
fn a_linked_worktree_keeps_what_it_says() -> Result<(), Stop> {
    let desk = desk()?;
    host(&desk, "git worktree add -q ../linked")?;
    let script = "! echo gitdir: evil > .git; ! rm .git; ! mv .git g; echo 2 > f";
    let workdir = WorkDir::Bind(Bytes::from(desk.path("linked")));
    let run = desk.launch(&Policy { workdir, ..policy(&desk, &format!("exec 2>/dev/null; {script}")) })?;
    assert_eq!(run.ended()?.ended_by, EndedBy::Exit(0), "{run:?}");
    assert!(run.ended()?.quarantined.is_empty());
    assert_eq!(host(&desk, "git -C ../linked status --short")?, " M f\n");
    Ok(())
}

/// The repository is granted by a rule of its own, and guarded like the work dir.
fn a_linked_worktree_commits_where_it_may_write() -> Result<(), Stop> {
    let desk = desk()?;
    host(&desk, "git worktree add -q ../linked")?;
    let repository = desk.path("work/.git");
    let script = format!(
        "echo 2 > f; git commit -qam second; git log --oneline | wc -l; cd '{}'; exec 2>/dev/null\n\
         ! echo x > hooks/pre-commit; ! echo x >> config; ! rm worktrees/linked/commondir; ! mv hooks h; echo .. > commondir",
        repository.display()
    );
    let run = desk.launch(&Policy {
        workdir: WorkDir::Bind(Bytes::from(desk.path("linked"))),
        rules: vec![Rule { path: Bytes::from(repository), access: Access::Rw }],
        ..policy(&desk, &script)
    })?;
    assert_eq!((run.ended()?.ended_by, text(&run.stdout)), (EndedBy::Exit(0), "2\n".to_owned()), "{run:?}");
    let moved: Vec<_> = quarantined(&desk, &run)?.into_iter().map(|(from, _)| from).collect();
    assert_eq!(moved, [".git/commondir"]);
    assert_eq!(host(&desk, "git log --oneline linked | wc -l; git -C ../linked status --short")?, "2\n");
    Ok(())
}

fn nothing_keeps_the_search_from_its_end() -> Result<(), Stop> {
    let desk = desk()?;
    let deep = "import os\nfor _ in range(5000): os.mkdir('d'); os.chdir('d')\nos.mkdir('.git')";
    let script = format!(
        "mkfifo HEAD p; ln -s . loop; ln -s /dev/zero z; mkdir s; mkfifo s/.git; mkdir t; mkdir t/.git; chmod 0 t; python3 -c \"{deep}\""
    );
    let run = desk.launch(&policy(&desk, &script))?;
    assert_eq!(run.ended()?.ended_by, EndedBy::Exit(0), "{run:?}");
    let mut from: Vec<_> = quarantined(&desk, &run)?.into_iter().map(|(from, _)| from).collect();
    from.sort_by_key(|from| (from.len(), from.clone()));
    assert_eq!(from[..2], ["s/.git", "t/.git"]);
    assert!(from.len() == 3 && from[2].starts_with("d/d/d/d/"), "{}", from.len());
    assert_eq!(host(&desk, "stat -c %a t")?, "0\n");
    // Too deep, and too closed for an ordinary user, for the means of a temporary directory.
    host(&desk, "rm -rf d; chmod 700 t")?;
    Ok(())
}

fn many_are_put_aside_and_not_all_are_listed() -> Result<(), Stop> {
    let desk = desk()?;
    let run = jailed(&desk, "i=0; while [ $i -lt 400 ]; do mkdir -p n$i/.git; i=$((i+1)); done")?;
    let ended = run.ended()?;
    assert_eq!((ended.quarantined.len(), ended.unchecked.len()), (256, 1), "{:?}", ended.unchecked);
    assert_eq!(
        host(
            &desk,
            "ls -d n*/.git 2>/dev/null | wc -l; ls .agentkit-quarantine | wc -l; grep -ce '->' .agentkit-quarantine/README"
        )?,
        "0\n401\n400\n"
    );
    Ok(())
}
