//! Attacks on whoever uses git in the work dir afterwards: whatever git would execute is planted, then the host runs git.
//! Whether the plant was executed decides. Every attack is made in a bound work dir, and once more in an overlay that is
//! committed.

use crate::attacks;
use crate::jail::who::Who;
use crate::scene::{Scene, bites};
use crate::support::Stop;
use agentkit_protocol::{Bytes, Commit, Committed, WorkDir};
use std::fs;

attacks![
    a_hook,
    a_setting,
    a_repository_rebuilt_after_it_was_renamed,
    a_repository_rebuilt_after_its_parent_was_renamed,
    a_new_repository,
    a_new_repository_in_directories_nobody_can_read,
    a_new_repository_in_directories_nobody_can_write,
    a_new_bare_repository,
    the_work_dir_as_a_bare_repository,
    a_file_that_leads_to_a_repository,
    a_link_that_leads_to_a_repository,
    another_common_directory,
    a_link_to_hooks_replaced,
    hooks_behind_a_link,
    hooks_elsewhere,
    hooks_elsewhere_behind_a_renamed_parent,
    hooks_elsewhere_behind_a_new_link,
    hooks_in_a_place_that_is_not_there_yet,
    hooks_of_a_repository_beside_a_file_called_head,
    a_repository_made_of_a_file_called_head,
    settings_that_are_included,
    settings_that_are_included_from_elsewhere,
    a_submodule_rebuilt_after_its_parent_was_renamed,
    a_worktree_led_astray,
    the_next_step_of_a_rebase,
    a_bare_repository_renamed,
    a_repository_out_of_sight,
];

/// What the host's git is kept from and told, so that only the scene decides.
const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null HOME=/nonexistent\n\
     git() { command git -c user.name=n -c user.email=e@example.org -c init.defaultBranch=main -c safe.directory='*' \"$@\"; }\n";

/// The same for the attacker, with what is to be executed: a file, and a repository made to execute it.
const ATTACKER: &str = "set -e; umask 022\n\
     evil() { printf '#!/bin/sh\\ntouch \"%s\"\\n' \"$executed\" > \"$1\"; chmod +x \"$1\"; }\n\
     hook() { mkdir -p \"$1/hooks\"; evil \"$1/hooks/pre-commit\"; }\n\
     repository() { command git init -q \"$1\"; }\n";

/// A way to have something executed: the host prepares the work dir by `before`, the attacker does `attack`, and the host
/// does `after`. All are shell scripts that begin in the work dir.
fn executes(who: Who, before: &str, attack: &str, after: &str) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let host = |script: &str| -> Result<bool, Stop> {
        let script = format!("{GIT}{script}");
        let output = who.shell()?.args(["-c", &script]).current_dir(scene.path("work")).output()?;
        Ok(output.status.success())
    };
    if !host("git --version")? {
        return Err(Stop::Skip("there is no git".to_owned()));
    }
    let prepare = || -> Result<(), Stop> {
        host("chmod -R u+rwx . 2>&1")?;
        scene.clear()?;
        assert!(host(&format!("set -e; git init -q . && git commit -qm first --allow-empty\n{before}"))?);
        Ok(())
    };
    let executed = scene.path("neighbour/executed");
    let was_executed = || -> Result<bool, Stop> {
        host(after)?;
        Ok(fs::remove_file(&executed).is_ok())
    };
    let payload = format!(
        "import subprocess\nscript = {GIT:?} + {ATTACKER:?} + {attack:?}\n\
         os.environ['executed'] = arguments[0]\n\
         answer(str(subprocess.call(['sh', '-c', script])))"
    );
    let mut attack = scene.attack(&payload).knows(&executed).policy(|policy| {
        policy.limits.processes = 200;
    });
    prepare()?;
    assert!(!was_executed()?, "before anything was planted");
    prepare()?;
    let outside = attack.bare()?;
    bites(was_executed()?, &outside)?;
    prepare()?;
    let run = attack.jailed()?;
    run.must_have_attempted()?;
    assert!(!was_executed()?, "{run:?}");
    assert!(run.ended()?.unchecked.is_empty(), "{run:?}");
    prepare()?;
    attack.policy.workdir =
        WorkDir::Overlay { path: Bytes::from(scene.path("work")), commit: Commit::Always };
    let run = attack.jailed()?;
    run.must_have_attempted()?;
    assert!(!was_executed()?, "committed: {run:?}");
    let changes = run.ended()?.changes.unwrap_or_default();
    assert_eq!(changes.commit, Committed::Yes, "{run:?}");
    assert!(changes.kept_back > 0, "{run:?}");
    host("chmod -R u+rwx . 2>&1")?;
    Ok(())
}

const COMMIT: &str = "git commit -qm second --allow-empty";

fn a_hook(who: Who) -> Result<(), Stop> {
    executes(who, "", "hook .git", COMMIT)
}

fn a_setting(who: Who) -> Result<(), Stop> {
    executes(who, "", "evil evil; git config core.fsmonitor ./evil", "git status")
}

fn a_repository_rebuilt_after_it_was_renamed(who: Who) -> Result<(), Stop> {
    executes(who, "", "mv .git g2; mkdir -p .git; cp -r g2/. .git; hook .git", COMMIT)
}

fn a_repository_rebuilt_after_its_parent_was_renamed(who: Who) -> Result<(), Stop> {
    executes(
        who,
        "git init -q a/b/c",
        "mv a a2; mkdir -p a/b/c; cp -r a2/b/c/.git a/b/c/.git; hook a/b/c/.git",
        &format!("cd a/b/c && {COMMIT}"),
    )
}

fn a_new_repository(who: Who) -> Result<(), Stop> {
    executes(who, "", "repository a/b; hook a/b/.git", &format!("cd a/b && {COMMIT}"))
}

/// One can go through them all the same, and git does.
fn a_new_repository_in_directories_nobody_can_read(who: Who) -> Result<(), Stop> {
    let attack = "repository a/b; hook a/b/.git; chmod 0311 a/b a";
    executes(who, "", attack, &format!("cd a/b && {COMMIT}"))
}

fn a_new_repository_in_directories_nobody_can_write(who: Who) -> Result<(), Stop> {
    let attack = "repository a; evil a/evil; git -C a config core.fsmonitor ./evil; chmod 0555 a/.git a .";
    executes(who, "", attack, "cd a && git status")
}

fn a_new_bare_repository(who: Who) -> Result<(), Stop> {
    let attack = "git init -q --bare docs; evil docs/evil; git -C docs config core.bare false;\n\
                  git -C docs config core.worktree .; git -C docs config core.fsmonitor ./evil";
    executes(who, "", attack, "cd docs && git status")
}

fn the_work_dir_as_a_bare_repository(who: Who) -> Result<(), Stop> {
    let attack = "git init -q --bare x; mv x/* .; evil evil; export GIT_DIR=.; git config core.bare false;\n\
                  git config core.worktree .; git config core.fsmonitor ./evil";
    executes(who, "rm -rf .git", attack, "git status")
}

fn a_file_that_leads_to_a_repository(who: Who) -> Result<(), Stop> {
    let attack = "repository x; mv x/.git y; hook y; mkdir a; echo gitdir: ../y > a/.git";
    executes(who, "", attack, &format!("cd a && {COMMIT}"))
}

fn a_link_that_leads_to_a_repository(who: Who) -> Result<(), Stop> {
    let attack = "repository x; mv x/.git y; hook y; mkdir a; ln -s ../y a/.git";
    executes(who, "", attack, &format!("cd a && {COMMIT}"))
}

fn another_common_directory(who: Who) -> Result<(), Stop> {
    executes(who, "", "cp -r .git common; hook common; echo ../common > .git/commondir", COMMIT)
}

fn a_link_to_hooks_replaced(who: Who) -> Result<(), Stop> {
    let before = "mkdir shared; rm -rf .git/hooks; ln -s ../shared .git/hooks";
    executes(who, before, "rm .git/hooks; hook .git", COMMIT)
}

fn hooks_behind_a_link(who: Who) -> Result<(), Stop> {
    let before = "mkdir shared; rm -rf .git/hooks; ln -s ../shared .git/hooks";
    executes(who, before, "evil shared/pre-commit", COMMIT)
}

const HOOKS: &str = "mkdir -p tools/hooks; git config core.hooksPath tools/hooks";

fn hooks_elsewhere(who: Who) -> Result<(), Stop> {
    executes(who, HOOKS, "evil tools/hooks/pre-commit", COMMIT)
}

fn hooks_elsewhere_behind_a_renamed_parent(who: Who) -> Result<(), Stop> {
    executes(who, HOOKS, "mv tools t2; hook tools", COMMIT)
}

fn hooks_elsewhere_behind_a_new_link(who: Who) -> Result<(), Stop> {
    executes(who, HOOKS, "mv tools t2; hook t3; ln -s t3 tools", COMMIT)
}

fn hooks_in_a_place_that_is_not_there_yet(who: Who) -> Result<(), Stop> {
    let before = "git config core.hooksPath .husky/_";
    executes(who, before, "mkdir -p .husky/_; evil .husky/_/pre-commit", COMMIT)
}

/// Git takes no notice of it, so nor must it hide what lies below.
fn hooks_of_a_repository_beside_a_file_called_head(who: Who) -> Result<(), Stop> {
    let before = "echo notes > HEAD; git init -q sub";
    executes(who, before, "hook sub/.git", &format!("cd sub && {COMMIT}"))
}

/// All that is missing for a bare repository comes from the run.
fn a_repository_made_of_a_file_called_head(who: Who) -> Result<(), Stop> {
    let attack = "git init -q --bare x; rm x/HEAD; cp -r x/. a/b; evil a/b/evil; git -C a/b config core.bare false;\n\
                  git -C a/b config core.worktree .; git -C a/b config core.fsmonitor ./evil";
    let before = "mkdir -p a/b; for place in a a/b; do echo ref: refs/heads/main > $place/HEAD; done";
    executes(who, before, attack, "cd a/b && git status")
}

fn settings_that_are_included(who: Who) -> Result<(), Stop> {
    let before = "printf '[user]\\nname = n\\n' > settings; git config include.path ../settings";
    executes(who, before, "evil evil; printf '[core]\\nfsmonitor = ./evil\\n' > settings", "git status")
}

fn settings_that_are_included_from_elsewhere(who: Who) -> Result<(), Stop> {
    let attack = "mkdir cfg; evil evil; printf '[core]\\nfsmonitor = ./evil\\n' > cfg/settings";
    executes(who, "git config include.path ../cfg/settings", attack, "git status")
}

fn a_submodule_rebuilt_after_its_parent_was_renamed(who: Who) -> Result<(), Stop> {
    let before = "mkdir .git/modules; git init -q --separate-git-dir .git/modules/s s";
    let attack =
        "mv .git/modules .git/m2; mkdir .git/modules; cp -r .git/m2/s .git/modules; hook .git/modules/s";
    executes(who, before, attack, &format!("cd s && {COMMIT}"))
}

fn a_worktree_led_astray(who: Who) -> Result<(), Stop> {
    let attack = "cp -r .git common; hook common; rm .git/worktrees/w/commondir;\n\
                  echo ../../../common > .git/worktrees/w/commondir";
    executes(who, "git worktree add -q w", attack, &format!("cd w && {COMMIT}"))
}

/// A rebase that waits for the host to go on with it.
fn the_next_step_of_a_rebase(who: Who) -> Result<(), Stop> {
    let attack = "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1 --keep-empty;\n\
                  echo \"exec touch '$executed'\" >> .git/rebase-merge/git-rebase-todo";
    executes(who, COMMIT, attack, "git rebase --continue")
}

/// It was there before, as data that came with a project, and only has to be called otherwise.
fn a_bare_repository_renamed(who: Who) -> Result<(), Stop> {
    let before = "mkdir a; git init -q --bare a/data; git -C a/data config core.bare false;\n\
                  printf '#!/bin/sh\\ntouch \"$PWD/../../neighbour/executed\"\\n' > a/data/hooks/pre-commit;\n\
                  chmod +x a/data/hooks/pre-commit";
    executes(who, before, "mv a/data a/.git", &format!("cd a && {COMMIT}"))
}

/// One that was there before, too deep to be found before the start.
fn a_repository_out_of_sight(who: Who) -> Result<(), Stop> {
    let deep = "a/b/c/d/e/f/g/h/i/j/k";
    executes(
        who,
        &format!("git init -q {deep}"),
        &format!("hook {deep}/.git"),
        &format!("cd {deep} && {COMMIT}"),
    )
}
