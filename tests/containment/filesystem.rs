//! Attacks on files that were not granted: reading them, and changing them.

use crate::attacks;
use crate::jail::run::Run;
use crate::jail::who::Who;
use crate::scene::{Scene, bites};
use crate::support::Stop;
use std::fs;
use std::path::Path;

attacks![
    read_a_key_in_home,
    read_the_neighbour_of_the_work_dir,
    read_a_key_by_a_link_in_the_work_dir,
    read_a_key_by_a_hard_link,
    read_a_key_by_the_root_of_another_process,
    read_a_key_above_the_root,
    read_a_key_by_an_inherited_directory,
    read_a_key_by_its_file_handle,
    read_the_password_file,
    read_the_hosts_accounts,
    write_to_a_file_outside,
    append_by_a_link_in_the_work_dir,
    create_a_file_outside,
    move_a_file_out_of_the_work_dir,
    move_a_file_into_the_work_dir,
    delete_a_file_outside,
    change_the_mode_of_a_file_outside,
    change_the_times_of_a_file_outside,
    write_to_a_system_directory,
    replace_the_work_dir_by_a_link,
];

/// Reads whatever is known, and prints what it could read.
const READ: &str = "def read(path):\n    print(open(path).read())\nanswer(attempt(read, arguments[0]))";

/// The attack must give `canary` out without a jail, and not in one.
fn leaks(scene: &Scene, payload: &str, knows: &Path, canary: &str) -> Result<(), Stop> {
    let attack = scene.attack(payload).knows(knows);
    let outside = attack.bare()?;
    bites(outside.gave_out(canary), &outside)?;
    scene.clear()?;
    stays_in(&attack.jailed()?, canary)
}

fn stays_in(inside: &Run, canary: &str) -> Result<(), Stop> {
    inside.must_have_attempted()?;
    assert!(!inside.gave_out(canary), "{inside:?}");
    Ok(())
}

fn read_a_key_in_home(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let canary = scene.canary("home/key")?;
    leaks(&scene, READ, &scene.path("home/key"), &canary)
}

fn read_the_neighbour_of_the_work_dir(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let canary = scene.canary("neighbour/file")?;
    leaks(&scene, READ, Path::new("../neighbour/file"), &canary)
}

fn read_a_key_by_a_link_in_the_work_dir(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let canary = scene.canary("home/key")?;
    let payload = format!("os.symlink(arguments[0], 'link'); arguments[0] = 'link'\n{READ}");
    leaks(&scene, &payload, &scene.path("home/key"), &canary)
}

fn read_a_key_by_a_hard_link(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let canary = scene.canary("home/key")?;
    let payload = "def read(path):\n    os.link(path, 'link'); print(open('link').read())\n\
                   answer(attempt(read, arguments[0]))";
    leaks(&scene, payload, &scene.path("home/key"), &canary)
}

fn read_a_key_by_the_root_of_another_process(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let canary = scene.canary("home/key")?;
    let payload = "for pid in os.listdir('/proc'):\n\
                   \x20   if pid.isdigit():\n\
                   \x20       for root in 'root', 'cwd/../../../../..':\n\
                   \x20           attempt(lambda: print(open(f'/proc/{pid}/{root}{arguments[0]}').read()))\n\
                   answer('tried')";
    leaks(&scene, payload, &scene.path("home/key"), &canary)
}

/// What is mounted over the root is where the root's own `..` leads.
fn read_a_key_above_the_root(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let canary = scene.canary("home/key")?;
    let payload = "for above in '/..', '/../..', '/../proc/..', '/proc/self/root/..', '../../../../../..':\n\
                   \x20   attempt(lambda: print(open(above + arguments[0]).read()))\n\
                   roots = [line for line in open('/proc/self/mountinfo') if line.split()[4] == '/']\n\
                   print(len(roots), 'at the root')\n\
                   answer('tried')";
    let attack = scene.attack(payload).knows(scene.path("home/key"));
    let outside = attack.bare()?;
    bites(outside.gave_out(&canary), &outside)?;
    let inside = attack.jailed()?;
    stays_in(&inside, &canary)?;
    assert!(inside.gave_out("1 at the root"), "{inside:?}");
    Ok(())
}

fn read_a_key_by_an_inherited_directory(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let canary = scene.canary("home/key")?;
    let attack = scene
        .attack(
            "def read(fd, path):\n    print(os.read(os.open(path, os.O_RDONLY, dir_fd=fd), 99))\n\
             for fd in range(3, 256):\n    for path in 'key', '../home/key':\n        attempt(read, fd, path)\n\
             answer('tried')",
        )
        .before(format!("exec 7<'{}'", scene.path("home").display()));
    let outside = attack.bare()?;
    bites(outside.gave_out(&canary), &outside)?;
    stays_in(&attack.jailed()?, &canary)
}

/// A handle names a file by its number: no path is involved that could be hidden.
fn read_a_key_by_its_file_handle(who: Who) -> Result<(), Stop> {
    who.must_be_root("open files by their handles")?;
    let scene = Scene::new(who)?;
    let canary = scene.canary("home/key")?;
    let handle = scene
        .attack(
            "handle, mount = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128)), ctypes.c_int()\n\
             call('name_to_handle_at', HERE, arguments[0].encode(), handle, ctypes.byref(mount), 0)\n\
             answer(handle.raw.hex())",
        )
        .knows(scene.path("home/key"))
        .bare()?
        .answer()?;
    let payload = "def read(handle):\n\
                   \x20   fd = call('open_by_handle_at', os.open('.', os.O_RDONLY), bytes.fromhex(handle), 0)\n\
                   \x20   print(os.read(fd, 99))\n\
                   answer(attempt(read, arguments[0]))";
    leaks(&scene, payload, Path::new(&handle), &canary)
}

fn read_the_password_file(who: Who) -> Result<(), Stop> {
    who.must_be_root("read /etc/shadow")?;
    read_a_line_of(who, "/etc/shadow")
}

fn read_the_hosts_accounts(who: Who) -> Result<(), Stop> {
    read_a_line_of(who, "/etc/passwd")
}

/// The last line stands for the file: accounts that were added to a system come last.
fn read_a_line_of(who: Who, file: &str) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let text = fs::read_to_string(file)?;
    let line = text.lines().next_back().ok_or_else(|| Stop::Skip(format!("{file} is empty")))?;
    leaks(&scene, READ, Path::new(file), line)
}

/// The attack must change something in `neighbour` without a jail, and nothing in one. `look` describes what is there.
fn changes(
    who: Who,
    payload: &str,
    knows: &str,
    look: impl Fn(&Scene) -> Result<String, Stop>,
) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let prepare = || -> Result<String, Stop> {
        scene.clear()?;
        scene.canary("neighbour/file")?;
        scene.canary("work/own")?;
        look(&scene)
    };
    let attack = scene.attack(payload).knows(knows);
    let before = prepare()?;
    let outside = attack.bare()?;
    bites(look(&scene)? != before, &outside)?;
    let before = prepare()?;
    attack.jailed()?.must_have_attempted()?;
    assert_eq!(look(&scene)?, before);
    Ok(())
}

/// Names, modes, times and contents of the files in `neighbour`.
fn neighbour(scene: &Scene) -> Result<String, Stop> {
    let mut files = Vec::new();
    for entry in fs::read_dir(scene.path("neighbour"))? {
        let entry = entry?;
        let meta = entry.metadata()?;
        let (mode, time, content) = (meta.permissions(), meta.modified()?, fs::read(entry.path())?);
        files.push(format!("{:?} {mode:?} {time:?} {content:?}", entry.file_name()));
    }
    files.sort();
    Ok(files.join("\n"))
}

fn write_to_a_file_outside(who: Who) -> Result<(), Stop> {
    changes(who, "answer(attempt(write, arguments[0]))", "../neighbour/file", neighbour)
}

fn append_by_a_link_in_the_work_dir(who: Who) -> Result<(), Stop> {
    let payload = "os.symlink(arguments[0], 'link')\n\
                   answer(attempt(lambda: os.write(os.open('link', os.O_WRONLY | os.O_APPEND), b'x')))";
    changes(who, payload, "../neighbour/file", neighbour)
}

fn create_a_file_outside(who: Who) -> Result<(), Stop> {
    changes(who, "answer(attempt(write, arguments[0]))", "../neighbour/new", neighbour)
}

fn move_a_file_out_of_the_work_dir(who: Who) -> Result<(), Stop> {
    changes(who, "answer(attempt(os.rename, 'own', arguments[0]))", "../neighbour/file", neighbour)
}

fn move_a_file_into_the_work_dir(who: Who) -> Result<(), Stop> {
    changes(who, "answer(attempt(os.rename, arguments[0], 'mine'))", "../neighbour/file", neighbour)
}

fn delete_a_file_outside(who: Who) -> Result<(), Stop> {
    changes(who, "answer(attempt(os.unlink, arguments[0]))", "../neighbour/file", neighbour)
}

fn change_the_mode_of_a_file_outside(who: Who) -> Result<(), Stop> {
    changes(who, "answer(attempt(os.chmod, arguments[0], 0o777))", "../neighbour/file", neighbour)
}

fn change_the_times_of_a_file_outside(who: Who) -> Result<(), Stop> {
    changes(who, "answer(attempt(os.utime, arguments[0], (1, 1)))", "../neighbour/file", neighbour)
}

/// The work dir's own name lies in its parent, which was not granted.
fn replace_the_work_dir_by_a_link(who: Who) -> Result<(), Stop> {
    let payload = "def replace(path):\n    os.rename(path, path + '.old')\n    os.symlink('/', path)\n\
                   answer(attempt(replace, os.getcwd()))";
    let look = |scene: &Scene| -> Result<String, Stop> {
        let is_link = scene.path("work").symlink_metadata()?.is_symlink();
        if is_link {
            // Back to where it was, for the next performance.
            fs::remove_file(scene.path("work"))?;
            fs::rename(scene.path("work.old"), scene.path("work"))?;
        }
        Ok(is_link.to_string())
    };
    changes(who, payload, "", look)
}

fn write_to_a_system_directory(who: Who) -> Result<(), Stop> {
    who.must_be_root("write to /usr")?;
    let scene = Scene::new(who)?;
    let attack = scene.attack("answer(attempt(write, arguments[0]))");
    let planted = Planted(format!("/usr/{}", attack.marker));
    let attack = attack.knows(&planted.0);
    let outside = attack.bare()?;
    if outside.answer()? == "EROFS" {
        return Err(Stop::Skip("does not bite: /usr is read-only on this host".to_owned()));
    }
    bites(Path::new(&planted.0).exists(), &outside)?;
    fs::remove_file(&planted.0)?;
    attack.jailed()?.must_have_attempted()?;
    assert!(!Path::new(&planted.0).exists());
    Ok(())
}

/// A file that must not outlive the test, whatever happens.
struct Planted(String);

impl Drop for Planted {
    fn drop(&mut self) {
        // Usually it is gone, or was never there.
        let _ = fs::remove_file(&self.0);
    }
}
