//! Attacks on whoever uses git in the work dir afterwards: whatever git would execute is planted, then the host runs git.
//! Whether the plant was executed decides. Every attack is made in a bound work dir, and once more in an overlay that is
//! committed.

use crate::attacks;
use crate::jail::who::Who;
use crate::scene::{Scene, bites};
use crate::support::Stop;
use agentkit_protocol::{Access, Bytes, Commit, Committed, Rule, WorkDir};
use std::fs;
use std::os::unix::fs::PermissionsExt;

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
    modules_behind_a_link,
    modules_behind_a_link_where_nobody_searches,
    the_way_to_a_repository_replaced,
    another_common_directory_in_a_repository_nobody_can_list,
    a_repository_nobody_could_list_before,
    a_new_repository_that_nobody_can_look_at,
    hooks_elsewhere_in_a_directory_nobody_can_list,
    how_a_cherry_pick_goes_on,
    a_file_written_through_a_link,
    a_file_written_through_a_link_further_down,
    hooks_of_a_worktree_whose_repository_is_elsewhere,
    hooks_of_a_repository_further_up,
    hooks_named_by_a_setting_from_elsewhere,
    hooks_named_by_a_way_out_and_in,
    hooks_elsewhere_of_a_repository_out_of_sight,
    a_worktree_in_a_bare_repository_led_astray,
    a_new_repository_in_a_worktree_in_a_bare_repository,
    an_index_that_names_a_hook,
    a_new_repository_after_one_that_cannot_be_disarmed,
    a_new_repository_in_a_directory_of_another_owner,
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

/// A repository within the repository.
const SUBMODULE: &str = "mkdir .git/modules; git init -q --separate-git-dir .git/modules/s s";

const MODULES_BY_A_LINK: &str = "mv .git/modules .git/m; cp -r .git/m .git/objects/m; hook .git/objects/m/s;\n\
     ln -s objects/m .git/modules";

/// The work dir as a bare repository that has a worktree in itself.
const BARE: &str = "mv .git/* .; rmdir .git; git config core.bare true; git worktree add -q w";

fn in_worktree(below: &str) -> String {
    format!("cd w/{below} && {COMMIT}")
}

fn modules_behind_a_link(who: Who) -> Result<(), Stop> {
    executes(who, SUBMODULE, MODULES_BY_A_LINK, &format!("cd s && {COMMIT}"))
}

/// Nothing there is held in its place.
fn modules_behind_a_link_where_nobody_searches(who: Who) -> Result<(), Stop> {
    executes(
        who,
        &format!("mkdir node_modules; cd node_modules; git init -q .; {SUBMODULE}"),
        &format!("cd node_modules; {MODULES_BY_A_LINK}"),
        &format!("cd node_modules/s && {COMMIT}"),
    )
}

fn the_way_to_a_repository_replaced(who: Who) -> Result<(), Stop> {
    let before = "mkdir store; git init -q --separate-git-dir store/r w";
    let attack = "mkdir store/r/objects/s; cp -r .git store/r/objects/s/r; hook store/r/objects/s/r; mv store store2;\n\
                  ln -s store2/r/objects/s store";
    executes(who, before, attack, &format!("cd w && {COMMIT}"))
}

fn another_common_directory_in_a_repository_nobody_can_list(who: Who) -> Result<(), Stop> {
    let attack = "cp -r .git common; hook common; echo ../common > .git/commondir; chmod 0300 .git";
    executes(who, "", attack, COMMIT)
}

fn a_repository_nobody_could_list_before(who: Who) -> Result<(), Stop> {
    let before = "git init -q p; mkdir p/tools; git -C p config core.hooksPath tools; chmod 0300 p";
    executes(who, before, "chmod 0755 p; evil p/tools/pre-commit", &format!("cd p && {COMMIT}"))
}

/// What is in it can be listed, but that is all, until the next run opens it.
fn a_new_repository_that_nobody_can_look_at(who: Who) -> Result<(), Stop> {
    let attack = "repository a; hook a/.git; chmod 0600 a";
    executes(who, "", attack, &format!("chmod 0700 a; cd a && {COMMIT}"))
}

fn hooks_elsewhere_in_a_directory_nobody_can_list(who: Who) -> Result<(), Stop> {
    executes(who, HOOKS, "mv tools t2; hook tools; chmod 0300 tools/hooks tools", COMMIT)
}

fn how_a_cherry_pick_goes_on(who: Who) -> Result<(), Stop> {
    let before = "echo a > f; git add f; git commit -qm f; git checkout -q -b b; echo b > f; git commit -qam b1;\n\
                  echo g > g; git add g; git commit -qm b2; git checkout -q main; echo m > f; git commit -qam m";
    let attack = "! git cherry-pick main..b 2>&1; echo ok > f; git add f; mkdir git-merge-x; evil evil;\n\
                  printf '[options]\\n\\tstrategy = x/../evil\\n' > .git/sequencer/opts";
    executes(who, before, attack, "git -c core.editor=true cherry-pick --continue")
}

/// Whatever git then writes to it: here it only has to be there.
fn a_file_written_through_a_link(who: Who) -> Result<(), Stop> {
    executes(who, "", "rm -f .git/COMMIT_EDITMSG; ln -s \"$executed\" .git/COMMIT_EDITMSG", COMMIT)
}

fn a_file_written_through_a_link_further_down(who: Who) -> Result<(), Stop> {
    executes(who, "", "rm .git/logs/HEAD; ln -s \"$executed\" .git/logs/HEAD", COMMIT)
}

fn hooks_of_a_worktree_whose_repository_is_elsewhere(who: Who) -> Result<(), Stop> {
    let before = "rm -rf .git ../neighbour/main; git init -q ../neighbour/main; cd ../neighbour/main;\n\
                  git commit -qm first --allow-empty; git config core.hooksPath hooks; git worktree add -q ../../work";
    executes(who, before, "hook .", COMMIT)
}

fn hooks_of_a_repository_further_up(who: Who) -> Result<(), Stop> {
    let before = "rm -rf .git; git init -q ..; git -C .. config core.hooksPath work/hooks";
    executes(who, before, "hook .", &format!("cd .. && {COMMIT}"))
}

fn hooks_named_by_a_setting_from_elsewhere(who: Who) -> Result<(), Stop> {
    let before = "printf '[core]\\nhooksPath = hooks\\n' > ../neighbour/settings;\n\
                  git config include.path ../../neighbour/settings";
    executes(who, before, "hook .", COMMIT)
}

fn hooks_named_by_a_way_out_and_in(who: Who) -> Result<(), Stop> {
    executes(who, "git config core.hooksPath ../work/hooks", "hook .", COMMIT)
}

fn hooks_elsewhere_of_a_repository_out_of_sight(who: Who) -> Result<(), Stop> {
    let deep = "a/b/c/d/e/f/g/h/i/j/k";
    let before = format!("git init -q {deep}; mkdir {deep}/tools; git -C {deep} config core.hooksPath tools");
    executes(who, &before, &format!("evil {deep}/tools/pre-commit"), &format!("cd {deep} && {COMMIT}"))
}

fn a_worktree_in_a_bare_repository_led_astray(who: Who) -> Result<(), Stop> {
    executes(
        who,
        BARE,
        "mkdir x; cp -r objects refs HEAD x; hook x; mv w/.git y; echo gitdir: ../x > w/.git",
        &in_worktree(""),
    )
}

fn a_new_repository_in_a_worktree_in_a_bare_repository(who: Who) -> Result<(), Stop> {
    executes(who, BARE, "repository w/a; hook w/a/.git", &in_worktree("a"))
}

fn an_index_that_names_a_hook(who: Who) -> Result<(), Stop> {
    let attack = "evil e; git update-index --add --cacheinfo \"100755,$(git hash-object -w e),Xgit/hooks/post-checkout\";\n\
                  LC_ALL=C sed -i s,Xgit/,.git/, .git/index";
    executes(who, "", attack, "git checkout-index -a; git checkout -q -b other")
}

fn a_new_repository_after_one_that_cannot_be_disarmed(who: Who) -> Result<(), Stop> {
    let attack = "for n in git HEAD; do mkdir -p .git/worktrees/$n; touch .git/worktrees/$n/HEAD .git/worktrees/$n/HEAD.quarantined; done;\n\
                  repository a; hook a/.git";
    executes(who, "", attack, &format!("cd a && {COMMIT}"))
}

/// Whose it is root asks for by a rule, and the way to the work dir shows nothing of others.
fn a_new_repository_in_a_directory_of_another_owner(who: Who) -> Result<(), Stop> {
    who.must_be_root("give a directory to somebody else")?;
    let scene = Scene::new(who)?;
    let other = scene.path("work/other");
    fs::create_dir(&other)?;
    fs::set_permissions(&other, fs::Permissions::from_mode(0o700))?;
    std::os::unix::fs::lchown(&other, Some(12345), Some(12345))?;
    let payload = "import subprocess\nanswer(str(subprocess.call(['git', 'init', '-q', 'other'])))";
    let attack = scene.attack(payload).policy(|policy| {
        let rule = Rule { path: Bytes::from(other.clone()), access: Access::Rw };
        policy.rules.push(rule);
        policy.limits.processes = 200;
    });
    let run = attack.jailed()?;
    if run.answer()? != "0" {
        return Err(Stop::Skip("there is no git".to_owned()));
    }
    assert!(!other.join(".git").exists(), "{run:?}");
    assert!(run.ended()?.unchecked.is_empty(), "{run:?}");
    Ok(())
}
