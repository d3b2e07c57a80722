//! Attacks on what a policy's rules protect, most of it inside a work dir that can be written.

use crate::attacks;
use crate::jail::who::Who;
use crate::scene::{Attack, Scene, bites};
use crate::support::Stop;
use agentkit_protocol::{Access, Bytes, ProcFiles, Rule};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

attacks![
    read_a_hidden_file,
    read_a_file_in_a_hidden_directory,
    uncover_a_hidden_directory,
    write_to_a_hidden_directory,
    write_to_a_read_only_directory,
    replace_a_read_only_directory_by_its_parent,
    replace_a_link_to_a_read_only_directory,
    write_to_a_private_directory,
    change_the_kernels_settings,
    read_what_is_closed_to_others,
];

const READ: &str = "def read(path):\n    print(open(path).read())\nanswer(attempt(read, arguments[0]))";

fn ruled<'a>(attack: Attack<'a>, path: &Path, access: Access) -> Attack<'a> {
    attack.policy(|policy| policy.rules.push(Rule { path: Bytes::from(path.to_path_buf()), access }))
}

/// `work/a/b/file` and its content, of the launcher's.
fn nested(scene: &Scene) -> Result<String, Stop> {
    for below in ["work/a", "work/a/b"] {
        fs::create_dir(scene.path(below))?;
        scene.who.own(&scene.path(below))?;
    }
    scene.canary("work/a/b/file")
}

/// Everything below `work/a`, by name and content.
fn look(scene: &Scene) -> Result<Vec<String>, Stop> {
    let mut found = Vec::new();
    let mut ahead = vec![scene.path("work")];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let meta = path.symlink_metadata()?;
            if meta.is_dir() {
                ahead.push(path.clone());
            }
            let content = if meta.is_file() { fs::read(&path)? } else { Vec::new() };
            let link = fs::read_link(&path).unwrap_or_default();
            found.push(format!("{path:?} {:?} {link:?} {content:?}", meta.file_type()));
        }
    }
    found.sort();
    Ok(found)
}

/// The attack must give the canary out without a jail, and not in one with this rule.
fn leaks(who: Who, payload: &str, rule: &str) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let canary = nested(&scene)?;
    let attack = ruled(scene.attack(payload).knows("a/b/file"), &scene.path(rule), Access::Hide);
    let outside = attack.bare()?;
    bites(outside.gave_out(&canary), &outside)?;
    scene.clear()?;
    let canary = nested(&scene)?;
    let inside = attack.jailed()?;
    inside.must_have_attempted()?;
    assert!(!inside.gave_out(&canary), "{inside:?}");
    Ok(())
}

fn read_a_hidden_file(who: Who) -> Result<(), Stop> {
    leaks(who, READ, "work/a/b/file")
}

fn read_a_file_in_a_hidden_directory(who: Who) -> Result<(), Stop> {
    leaks(who, READ, "work/a/b")
}

/// By every way to what a mount covers: another name, a copy of the tree, the mount itself.
fn uncover_a_hidden_directory(who: Who) -> Result<(), Stop> {
    let payload = "def read(path):\n    print(open(path).read())\n\
                   attempt(os.chmod, 'a/b', 0o777)\n\
                   attempt(call, 'umount2', b'a/b', 2)\n\
                   attempt(os.rename, 'a/b', 'c'); attempt(read, 'c/file')\n\
                   attempt(os.rename, 'a', 'd'); attempt(read, 'd/b/file')\n\
                   attempt(os.link, 'a/b/file', 'e'); attempt(read, 'e')\n\
                   attempt(read, '/proc/self/cwd/a/b/../b/file')\n\
                   answer(attempt(read, arguments[0]))";
    leaks(who, payload, "work/a/b")
}

/// The attack must change what lies in the work dir without a jail, and nothing of it in one with this rule.
fn changes(who: Who, payload: &str, rule: &str, access: Access) -> Result<String, Stop> {
    let scene = Scene::new(who)?;
    let prepare = || -> Result<Vec<String>, Stop> {
        scene.clear()?;
        nested(&scene)?;
        symlink("a/b", scene.path("work/link"))?;
        who.own(&scene.path("work/link"))?;
        look(&scene)
    };
    let attack = ruled(scene.attack(payload).knows("a/b/file"), &scene.path(rule), access);
    let before = prepare()?;
    let outside = attack.bare()?;
    bites(look(&scene)? != before, &outside)?;
    let before = prepare()?;
    let inside = attack.jailed()?;
    inside.must_have_attempted()?;
    assert_eq!(look(&scene)?, before, "{inside:?}");
    inside.answer()
}

fn write_to_a_hidden_directory(who: Who) -> Result<(), Stop> {
    let payload = "attempt(write, 'a/b/file'); answer(attempt(write, 'a/b/new'))";
    let answer = changes(who, payload, "work/a/b", Access::Hide)?;
    assert!(["EACCES", "EROFS"].contains(&&*answer), "what is written seems to stay: {answer}");
    Ok(())
}

fn write_to_a_read_only_directory(who: Who) -> Result<(), Stop> {
    let payload = "attempt(os.chmod, arguments[0], 0o777); attempt(os.utime, arguments[0], (1, 1))\n\
                   attempt(os.unlink, arguments[0]); answer(attempt(write, 'a/b/new'))";
    assert_eq!(changes(who, payload, "work/a/b", Access::Ro)?, "EROFS");
    Ok(())
}

fn replace_a_read_only_directory_by_its_parent(who: Who) -> Result<(), Stop> {
    let payload = "def replace():\n    os.rename('a', 'moved'); os.makedirs('a/b'); write('a/b/file')\n\
                   answer(attempt(replace))";
    assert_eq!(changes(who, payload, "work/a/b", Access::Ro)?, "EBUSY");
    Ok(())
}

fn replace_a_link_to_a_read_only_directory(who: Who) -> Result<(), Stop> {
    let payload = "attempt(os.rename, 'link', 'moved')\n\
                   def replace():\n    os.unlink('link'); os.mkdir('link'); write('link/file')\n\
                   answer(attempt(replace))";
    assert_eq!(changes(who, payload, "work/link", Access::Ro)?, "EBUSY");
    Ok(())
}

fn write_to_a_private_directory(who: Who) -> Result<(), Stop> {
    let payload = "attempt(os.unlink, arguments[0]); answer(attempt(write, 'a/b/new'))";
    assert_eq!(changes(who, payload, "work/a/b", Access::Tmpfs)?, "done");
    Ok(())
}

/// Opening is enough: whoever could open them could write.
fn change_the_kernels_settings(who: Who) -> Result<(), Stop> {
    who.must_be_root("open the kernel's settings")?;
    let scene = Scene::new(who)?;
    let payload = "found = []\n\
                   for directory, _, names in os.walk('/proc/sys'):\n\
                   \x20   for name in names:\n\
                   \x20       path = os.path.join(directory, name)\n\
                   \x20       if attempt(lambda: os.close(os.open(path, os.O_WRONLY))) == 'done': found.append(path)\n\
                   assert os.path.exists('/proc/sys/kernel/core_pattern')\n\
                   answer(' '.join(found) or 'none')";
    let attack = scene.attack(payload).policy(|policy| policy.proc = ProcFiles::Full);
    let outside = attack.bare()?;
    bites(outside.answer()? != "none", &outside)?;
    assert_eq!(attack.jailed()?.answer()?, "none");
    Ok(())
}

/// A root launcher's work dir is shown with its owner as the jail's user; what is read-only in it must not fall out.
fn read_what_is_closed_to_others(who: Who) -> Result<(), Stop> {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new(who)?;
    let canary = nested(&scene)?;
    fs::set_permissions(scene.path("work/a/b/file"), fs::Permissions::from_mode(0o600))?;
    fs::set_permissions(scene.path("work/a/b"), fs::Permissions::from_mode(0o700))?;
    let attack = ruled(scene.attack(READ).knows("a/b/file"), &scene.path("work/a/b"), Access::Ro);
    let inside = attack.jailed()?;
    assert!(inside.gave_out(&canary), "{inside:?}");
    Ok(())
}
