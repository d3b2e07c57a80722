//! Attacks that leave something in the work dir that bites later, on the host: privileged files and devices. With them,
//! whose the ordinary files are.

use crate::attacks;
use crate::jail::who::Who;
use crate::scene::{Scene, bites};
use crate::support::{Stop, write_program};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

attacks![
    set_user_id_by_chmod,
    set_group_id_by_chmod,
    set_group_id_by_chmod_through_a_link,
    set_group_id_by_fchmod,
    set_group_id_by_fchmodat,
    set_group_id_by_fchmodat2,
    set_group_id_by_a_descriptor_without_access,
    set_group_id_by_the_path_of_a_descriptor,
    set_group_id_on_a_file_swapped_with_a_directory,
    set_group_id_on_a_descriptor_swapped_with_a_directory,
    set_group_id_on_a_directory_outside_the_view,
    set_group_id_on_a_directory_that_is_read_only,
    set_user_id_by_fchmod,
    set_user_id_by_fchmodat,
    set_user_id_by_fchmodat2,
    set_user_id_by_fchmod_with_garbage_in_the_high_half,
    set_user_id_by_open,
    set_user_id_by_openat,
    set_group_id_by_openat,
    set_user_id_by_creat,
    set_user_id_by_mknod,
    set_user_id_by_a_file_without_a_name,
    set_user_id_by_openat2,
    set_user_id_by_copying_a_program_with_its_mode,
    character_device,
    block_device_of_the_disk,
    file_capabilities,
    privilege_by_a_set_user_id_program,
    files_of_another_owner,
];

/// The file has privileges that its owner lends to whoever runs it, or is a device.
fn is_dangerous(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| {
        let kind = meta.file_type();
        let lends = kind.is_file() && meta.permissions().mode() & 0o6000 != 0;
        lends || kind.is_char_device() || kind.is_block_device()
    })
}

/// `attempt` must plant a dangerous file `planted` without a jail, and none in one.
fn plants(who: Who, attempt: &str) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene.attack(&format!("fd = os.open('planted', os.O_RDWR | os.O_CREAT)\n{attempt}"));
    let outside = attack.bare()?;
    match &outside.answer()?[..] {
        "absent" => return Err(Stop::Skip("this architecture has no such call".to_owned())),
        "ENOSYS" | "EOPNOTSUPP" => return Err(Stop::Skip("this kernel has no such call".to_owned())),
        _ => bites(is_dangerous(&scene.path("work/planted")), &outside)?,
    }
    scene.clear()?;
    attack.jailed()?.must_have_attempted()?;
    for entry in fs::read_dir(scene.path("work"))? {
        let path = entry?.path();
        assert!(!is_dangerous(&path), "{path:?}");
    }
    Ok(())
}

/// The same for a call that only acts on a file that is not there yet.
fn plants_anew(who: Who, attempt: &str) -> Result<(), Stop> {
    plants(who, &format!("os.umask(0); os.unlink('planted')\nanswer(attempt(lambda: {attempt}))"))
}

fn plants_by(who: Who, attempt: &str) -> Result<(), Stop> {
    plants(who, &format!("answer(attempt(lambda: {attempt}))"))
}

fn set_user_id_by_chmod(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('chmod', b'planted', 0o4755)")
}

fn set_group_id_by_chmod(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('chmod', b'planted', 0o2755)")
}

fn set_group_id_by_chmod_through_a_link(who: Who) -> Result<(), Stop> {
    plants(
        who,
        "os.symlink('planted', 'link')\nanswer(attempt(lambda: call('fchmodat', HERE, b'link', 0o2755)))",
    )
}

fn set_group_id_by_fchmod(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('fchmod', fd, HIGH | 0o2755)")
}

fn set_group_id_by_fchmodat(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('fchmodat', os.open('.', os.O_RDONLY), b'planted', 0o2755)")
}

fn set_group_id_by_fchmodat2(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('fchmodat2', fd, b'', 0o2755, 0x1000)")
}

fn set_group_id_by_a_descriptor_without_access(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('fchmodat2', os.open('planted', os.O_PATH), b'', 0o2755, 0x1000)")
}

fn set_group_id_by_the_path_of_a_descriptor(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('fchmodat', HERE, f'/proc/self/fd/{fd}'.encode(), 0o2755)")
}

/// Performs `swap` and `change` at the same time, again and again.
fn plants_in_a_race(who: Who, swap: &str, change: &str) -> Result<(), Stop> {
    plants(
        who,
        &format!(
            "import threading\n\
             os.mkdir('directory'); pair = [fd, os.open('directory', os.O_RDONLY)]; both = os.dup(fd)\n\
             def exchange(a, b): call('renameat2', HERE, a, HERE, b, 2)\n\
             done = False; sys.setswitchinterval(1e-5)\n\
             def swaps():\n\
             \x20   number = 0\n\
             \x20   while not done: {swap}; number += 1\n\
             thread = threading.Thread(target=swaps); thread.start()\n\
             outcomes = set(); end = time.monotonic() + 2\n\
             while time.monotonic() < end and not os.fstat(fd).st_mode & stat.S_ISGID:\n\
             \x20   outcomes.add(attempt(lambda: {change}))\n\
             done = True; thread.join()\n\
             if os.path.isdir('planted'): exchange(b'planted', b'directory')\n\
             print(outcomes); answer('raced')"
        ),
    )
}

fn set_group_id_on_a_file_swapped_with_a_directory(who: Who) -> Result<(), Stop> {
    plants_in_a_race(who, "exchange(b'planted', b'directory')", "call('fchmodat', HERE, b'planted', 0o2755)")
}

fn set_group_id_on_a_descriptor_swapped_with_a_directory(who: Who) -> Result<(), Stop> {
    plants_in_a_race(who, "os.dup2(pair[number % 2], both)", "call('fchmod', both, 0o2755)")
}

/// By every way that leads out of a root: absolute, up, and through links.
fn set_group_id_on_a_directory_outside_the_view(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let mode = || -> Result<u32, Stop> { Ok(scene.path("neighbour").metadata()?.mode() & 0o7777) };
    let before = mode()?;
    let payload = "outside = arguments[0]\n\
         os.symlink(outside, 'absolute'); os.symlink('../neighbour', 'relative')\n\
         here = os.open('.', os.O_RDONLY)\n\
         ways = (outside, '/..' + outside, '../neighbour', 'absolute', 'relative/.', '/proc/1/root' + outside, '/proc/1/cwd')\n\
         for way in ways:\n\
         \x20   for at in (HERE, here, 99):\n\
         \x20       print(way, attempt(lambda: call('fchmodat', at, way.encode(), 0o2777)))\n\
         answer('tried')";
    let attack = scene.attack(payload).knows(scene.path("neighbour"));
    let outside = attack.bare()?;
    bites(mode()? != before, &outside)?;
    scene.clear()?;
    fs::set_permissions(scene.path("neighbour"), fs::Permissions::from_mode(before))?;
    let run = attack.jailed()?;
    run.must_have_attempted()?;
    assert_eq!(mode()?, before, "{run:?}");
    Ok(())
}

fn set_group_id_on_a_directory_that_is_read_only(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let path = scene.path("work/fixed");
    let make = || -> Result<(), Stop> {
        fs::create_dir(&path)?;
        Ok(who.own(&path)?)
    };
    make()?;
    let mode = || -> Result<u32, Stop> { Ok(path.metadata()?.mode() & 0o7777) };
    let before = mode()?;
    let payload = "answer(attempt(lambda: call('fchmod', os.open('fixed', os.O_RDONLY), 0o2777)))";
    let rule = agentkit_protocol::Rule {
        path: agentkit_protocol::Bytes::from(path.clone()),
        access: agentkit_protocol::Access::Ro,
    };
    let attack = scene.attack(payload).policy(|policy| policy.rules = vec![rule]);
    let outside = attack.bare()?;
    bites(mode()? != before, &outside)?;
    scene.clear()?;
    make()?;
    assert_eq!(attack.jailed()?.answer()?, "EROFS");
    assert_eq!(mode()?, before);
    Ok(())
}

fn set_user_id_by_fchmod(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('fchmod', fd, 0o4755)")
}

fn set_user_id_by_fchmodat(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('fchmodat', HERE, b'planted', 0o4755)")
}

fn set_user_id_by_fchmodat2(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('fchmodat2', HERE, b'planted', 0o6755, 0)")
}

fn set_user_id_by_fchmod_with_garbage_in_the_high_half(who: Who) -> Result<(), Stop> {
    plants_by(who, "call('fchmod', HIGH | fd, HIGH | 0o4755)")
}

fn set_user_id_by_open(who: Who) -> Result<(), Stop> {
    plants_anew(who, "call('open', b'planted', HIGH | os.O_CREAT | os.O_WRONLY, HIGH | 0o4755)")
}

fn set_user_id_by_openat(who: Who) -> Result<(), Stop> {
    plants_anew(who, "call('openat', HERE, b'planted', os.O_CREAT | os.O_WRONLY, 0o4755)")
}

fn set_group_id_by_openat(who: Who) -> Result<(), Stop> {
    plants_anew(who, "call('openat', HERE, b'planted', HIGH | os.O_CREAT | os.O_WRONLY, HIGH | 0o2755)")
}

fn set_user_id_by_creat(who: Who) -> Result<(), Stop> {
    plants_anew(who, "call('creat', b'planted', 0o4755)")
}

fn set_user_id_by_mknod(who: Who) -> Result<(), Stop> {
    plants_anew(who, "call('mknodat', HERE, b'planted', stat.S_IFREG | 0o4755, 0)")
}

fn set_user_id_by_a_file_without_a_name(who: Who) -> Result<(), Stop> {
    plants(
        who,
        "def plant():\n\
         \x20   os.umask(0); os.unlink('planted')\n\
         \x20   fd = call('openat', HERE, b'.', os.O_TMPFILE | os.O_WRONLY, 0o4755)\n\
         \x20   call('linkat', HERE, f'/proc/self/fd/{fd}'.encode(), HERE, b'planted', 0x400)\n\
         answer(attempt(plant))",
    )
}

fn set_user_id_by_openat2(who: Who) -> Result<(), Stop> {
    plants_anew(
        who,
        "call('openat2', HERE, b'planted', struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)",
    )
}

/// The mode comes from a file that the jail can read, as when a directory is copied or unpacked.
fn set_user_id_by_copying_a_program_with_its_mode(who: Who) -> Result<(), Stop> {
    plants(
        who,
        "import shutil, subprocess\n\
         program = next((p for p in ('/usr/bin/su', '/usr/bin/passwd', '/usr/bin/mount') if os.path.exists(p)\n\
         \x20               and os.stat(p).st_mode & stat.S_ISUID), None)\n\
         if program is None: answer('absent'); sys.exit()\n\
         subprocess.run(['cp', '-p', program, 'by-cp'], stderr=subprocess.DEVNULL)\n\
         answer(attempt(shutil.copy, program, 'planted'))",
    )
}

/// The device 0:0 needs no privilege and means a deleted file to overlayfs.
fn character_device(who: Who) -> Result<(), Stop> {
    plants_anew(who, "call('mknodat', HERE, b'planted', HIGH | stat.S_IFCHR | 0o666, 0)")
}

fn block_device_of_the_disk(who: Who) -> Result<(), Stop> {
    who.must_be_root("make devices")?;
    plants_anew(who, "os.mknod('planted', stat.S_IFBLK | 0o600, os.stat('.').st_dev)")
}

fn file_capabilities(who: Who) -> Result<(), Stop> {
    who.must_be_root("give capabilities to files")?;
    let scene = Scene::new(who)?;
    let attack = scene.attack(
        "write('planted')\n\
         capability = struct.pack('<IIIII', 0x02000001, 1 << 21, 0, 0, 0)\n\
         answer(attempt(os.setxattr, 'planted', 'security.capability', capability))",
    );
    let has_any = || {
        let look = "answer(attempt(os.getxattr, 'planted', 'security.capability'))";
        scene.attack(look).bare()?.answer().map(|answer| answer == "done")
    };
    let outside = attack.bare()?;
    bites(has_any()?, &outside)?;
    scene.clear()?;
    attack.jailed()?.must_have_attempted()?;
    assert!(!has_any()?);
    Ok(())
}

/// Runs a set-user-id program that the host has put into the work dir. Only root can put it there.
fn privilege_by_a_set_user_id_program(who: Who) -> Result<(), Stop> {
    if who == Who::Root || !Who::everybody().contains(&Who::Root) {
        return Err(Stop::Skip("takes root to prepare it and a user to attack".to_owned()));
    }
    let scene = Scene::new(who)?;
    let attack = scene.attack("import subprocess\nanswer(str(subprocess.call(['./touch', 'made'])))");
    let prepare = || -> Result<(), Stop> {
        scene.clear()?;
        write_program(&scene.path("work/touch"), &fs::read("/usr/bin/touch")?)?;
        Ok(fs::set_permissions(scene.path("work/touch"), fs::Permissions::from_mode(0o4755))?)
    };
    prepare()?;
    let outside = attack.bare()?;
    bites(scene.path("work/made").metadata()?.uid() == 0, &outside)?;
    prepare()?;
    attack.jailed()?.must_have_attempted()?;
    assert_eq!(scene.path("work/made").metadata()?.uid(), scene.path("home").metadata()?.uid());
    Ok(())
}

/// Not an attack but the other half of the same promise: nothing in a work dir changes hands, and what a jail adds
/// belongs to the owner of the directory. The owner is somebody else than root, so that the launcher's own id is none.
fn files_of_another_owner(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let work = scene.path("work");
    if who == Who::Root {
        std::os::unix::fs::chown(&work, Some(61_235), Some(61_236))?;
    }
    let before = work.metadata()?;
    let attack =
        scene.attack("write('made'); os.mkdir('directory'); write('directory/made'); answer('done')");
    let run = attack.jailed()?;
    run.must_have_attempted()?;
    assert_ne!(run.started()?.read_back.outer_uid, 0);
    for name in ["work", "work/made", "work/directory", "work/directory/made"] {
        let meta = scene.path(name).metadata()?;
        assert_eq!((meta.uid(), meta.gid()), (before.uid(), before.gid()), "{name}");
    }
    Ok(())
}
