//! Attacks by way of an overlay work dir: on the layers themselves, on what a commit makes of them, and through what
//! the host has in the work dir.

use crate::attacks;
use crate::jail::who::Who;
use crate::scene::{Attack, Scene, bites};
use crate::support::{PATIENCE, Stop, eventually, processes};
use agentkit_protocol::{Bytes, Changes, Commit, Committed, WorkDir};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

attacks![
    changes_without_a_commit,
    layers_in_the_view,
    a_redirect_to_another_directory,
    attributes_that_hide_the_host,
    set_user_id_by_a_commit,
    a_commit_through_a_link,
    a_commit_through_a_link_of_the_host,
    a_socket_of_the_host_in_the_work_dir,
    a_fifo_of_the_host_in_the_work_dir,
    a_hard_link_out_of_the_work_dir,
    more_bytes_than_the_disk_limit,
    a_commit_gives_files_to_the_owner,
];

impl Attack<'_> {
    fn over(self, scene: &Scene, commit: Commit) -> Self {
        let path = Bytes::from(scene.path("work"));
        self.policy(|policy| policy.workdir = WorkDir::Overlay { path, commit })
    }

    /// Performs it in a jail to a commit that succeeds.
    fn committed(&self) -> Result<Changes, Stop> {
        let run = self.jailed()?;
        let changes = run.ended()?.changes.unwrap_or_default();
        if changes.commit == Committed::Yes {
            return Ok(changes);
        }
        Err(Stop::Fail(format!("not committed: {run:?} {:?}", changes.commit)))
    }
}

fn changes_without_a_commit(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = scene.canary("work/file")?;
    let read = || fs::read_to_string(scene.path("work/file"));
    let payload = "fd = os.open('file', os.O_RDWR)\n\
         os.write(fd, b'x' * 100)\n\
         os.utime('file', (1, 1)); os.chmod('file', 0o777)\n\
         write('made'); os.rename('made', 'file')\nanswer('done')";
    let attack = scene.attack(payload).over(&scene, Commit::Never);
    let outside = attack.bare()?;
    bites(read()? != secret, &outside)?;
    scene.clear()?;
    let secret = scene.canary("work/file")?;
    let before = scene.path("work/file").metadata()?;
    attack.jailed()?.must_have_attempted()?;
    let after = scene.path("work/file").metadata()?;
    assert_eq!(read()?, secret);
    assert_eq!(
        (after.mode(), after.mtime_nsec(), after.ino()),
        (before.mode(), before.mtime_nsec(), before.ino())
    );
    assert_eq!(fs::read_dir(scene.path("work"))?.count(), 1);
    Ok(())
}

/// Whoever could write the upper layer itself could make whiteouts and redirects. Nothing in the view has its file
/// system and a directory of its name.
fn layers_in_the_view(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let look = "write('needle-in-the-upper-layer')\n\
         found = 0\n\
         for top, directories, files in os.walk('/'):\n\
         \x20   if top == '/': directories[:] = [name for name in directories if name not in ('usr', 'proc')]\n\
         \x20   found += ('needle-in-the-upper-layer' in files) + ('upper' in directories and 'overlay' in directories)\n\
         answer(str(found))";
    let run = scene.attack(look).over(&scene, Commit::Never).jailed()?;
    assert_eq!(run.answer()?, "1", "only in the work dir: {run:?}");
    Ok(())
}

/// `user.overlay.redirect` says which lower directory a directory stands for.
fn a_redirect_to_another_directory(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    fs::create_dir(scene.path("work/private"))?;
    fs::write(scene.path("work/private/key"), "")?;
    let payload = "os.mkdir('d')\n\
         for name in ('user.overlay.redirect', 'user.overlay.metacopy', 'user.overlay.origin'):\n\
         \x20   print(attempt(os.setxattr, 'd', name, b'/private'))\n\
         answer(str(os.path.exists('d/key')))";
    let attack = scene.attack(payload).over(&scene, Commit::Always);
    let run = attack.jailed()?;
    assert_eq!(run.answer()?, "False");
    assert_eq!(fs::read_dir(scene.path("work/d"))?.count(), 0, "{run:?}");
    // Once more through a commit of what came out of the first.
    attack.forgets().jailed()?;
    assert!(scene.path("work/private/key").exists());
    Ok(())
}

/// Opaque directories and whiteouts by attribute: the commit would delete what the run was never allowed to see.
fn attributes_that_hide_the_host(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    fs::create_dir(scene.path("work/d"))?;
    who.own(&scene.path("work/d"))?;
    for name in ["work/d/kept", "work/kept"] {
        scene.canary(name)?;
    }
    let payload = "write('d/made')\n\
         for path in ('.', 'd', 'kept'):\n\
         \x20   for name in ('opaque', 'whiteout', 'redirect', 'metacopy', 'protattr'):\n\
         \x20       for value in (b'y', b'x', b''):\n\
         \x20           attempt(os.setxattr, path, 'user.overlay.' + name, value)\n\
         \x20           attempt(os.setxattr, path, 'trusted.overlay.' + name, value)\n\
         answer(attempt(lambda: call('mknodat', HERE, b'd/kept2', stat.S_IFCHR | 0o666, 0)))";
    let attack = scene.attack(payload).over(&scene, Commit::Always);
    attack.committed()?;
    assert!(scene.path("work/d/kept").exists() && scene.path("work/kept").exists());
    assert!(scene.path("work/d/made").exists() && !scene.path("work/d/kept2").exists());
    Ok(())
}

fn set_user_id_by_a_commit(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    // In the work dir from before, and copied up with its mode: another content under a lent identity.
    let old = scene.path("work/old");
    fs::write(&old, "old")?;
    who.own(&old)?;
    fs::set_permissions(&old, fs::Permissions::from_mode(0o6755))?;
    let payload = "fd = os.open('old', os.O_WRONLY); os.write(fd, b'new')\n\
         write('planted'); attempt(os.chmod, 'planted', 0o6755)\n\
         write('group'); os.chmod('group', 0o2755)\n\
         os.mkdir('d'); os.chmod('d', 0o3777)\n\
         answer(attempt(os.setxattr, 'planted', 'security.capability', struct.pack('<IIIII', 0x02000001, 1 << 21, 0, 0, 0)))";
    scene.attack(payload).over(&scene, Commit::Always).committed()?;
    for name in ["old", "planted", "group", "d"] {
        let mode = scene.path("work").join(name).metadata()?.mode();
        assert_eq!(mode & 0o7000, 0, "{name}: {mode:o}");
    }
    assert_eq!(fs::read(&old)?, b"new");
    Ok(())
}

/// A link above, and below what it says files that a commit would write if it followed.
fn a_commit_through_a_link(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = scene.canary("neighbour/file")?;
    fs::create_dir(scene.path("work/d"))?;
    fs::write(scene.path("work/d/file"), "x")?;
    who.own(&scene.path("work/d"))?;
    who.own(&scene.path("work/d/file"))?;
    let payload = "import shutil\n\
         write('d/file', 'evil'); write('d/new', 'evil')\n\
         os.rename('d/new', 'new')\n\
         shutil.rmtree('d'); os.symlink(arguments[0], 'd')\n\
         for number in range(300):\n\
         \x20   os.mkdir(f'e{number}'); write(f'e{number}/file', 'evil')\n\
         \x20   shutil.rmtree(f'e{number}'); os.symlink(arguments[0], f'e{number}')\n\
         answer('done')";
    let attack = scene.attack(payload).knows(scene.path("neighbour")).over(&scene, Commit::Always);
    attack.committed()?;
    assert!(scene.path("work/d").is_symlink() && scene.path("work/e7").is_symlink());
    // Now they are on the host, and the next run goes on below what they say.
    let payload = "import shutil\n\
         os.unlink('d'); os.mkdir('d'); write('d/file', 'evil'); write('d/planted', 'evil')\n\
         os.unlink('e7'); os.mkdir('e7'); os.rmdir('e7')\n\
         answer('done')";
    let attack = scene.attack(payload).over(&scene, Commit::Always);
    attack.committed()?;
    assert_eq!(fs::read_to_string(scene.path("neighbour/file"))?, secret);
    assert_eq!(fs::read_dir(scene.path("neighbour"))?.count(), 1);
    assert!(!scene.path("work/d").is_symlink() && scene.path("work/d/planted").exists());
    Ok(())
}

/// The host, or another jail, swaps a directory for a link while the run goes on.
fn a_commit_through_a_link_of_the_host(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = scene.canary("neighbour/file")?;
    for name in ["work/d", "work/d/d", "work/gone"] {
        fs::create_dir(scene.path(name))?;
        who.own(&scene.path(name))?;
    }
    fs::write(scene.path("work/gone/file"), "x")?;
    let payload = "import shutil\n\
         write('d/file', 'evil'); write('d/d/file', 'evil'); write('d/planted', 'evil')\n\
         shutil.rmtree('gone')\n\
         print('ready', flush=True); time.sleep(60)";
    let attack = scene.attack(payload).over(&scene, Commit::Always);
    let running = attack.start_jailed()?;
    let said = || fs::read_to_string(scene.path("outputs/out")).is_ok_and(|output| output.contains("ready"));
    eventually("the payload is ready", PATIENCE, said)?;
    for name in ["work/d", "work/gone"] {
        fs::remove_dir_all(scene.path(name))?;
        symlink(scene.path("neighbour"), scene.path(name))?;
        who.own(&scene.path(name))?;
    }
    for pid in processes::with_marker(&attack.marker) {
        // The command alone; its end is the run's.
        let _ = kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL);
    }
    let run = running.finish()?;
    assert!(run.ended()?.changes.is_some(), "{run:?}");
    assert_eq!(fs::read_to_string(scene.path("neighbour/file"))?, secret);
    assert_eq!(fs::read_dir(scene.path("neighbour"))?.count(), 1);
    Ok(())
}

fn a_socket_of_the_host_in_the_work_dir(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let path = scene.path("work/socket");
    let listener = UnixListener::bind(&path)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
    let payload = "import socket\n\
         stream = socket.socket(socket.AF_UNIX)\n\
         datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
         attempt(datagram.connect, 'socket')\n\
         answer(attempt(stream.connect, 'socket'))";
    let attack = scene.attack(payload).over(&scene, Commit::Never);
    let outside = attack.bare()?;
    bites(listener.accept().is_ok(), &outside)?;
    let run = attack.jailed()?;
    run.must_have_attempted()?;
    assert!(listener.accept().is_err(), "{run:?}");
    Ok(())
}

/// A FIFO in the lower layer is another one above.
fn a_fifo_of_the_host_in_the_work_dir(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let path = scene.path("work/fifo");
    nix::unistd::mkfifo(&path, Mode::from_bits_truncate(0o666))?;
    who.own(&path)?;
    let payload =
        "answer(attempt(lambda: os.write(os.open('fifo', os.O_WRONLY | os.O_NONBLOCK), b'canary')))";
    let attack = scene.attack(payload).over(&scene, Commit::Never);
    let mut reader = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&path)?;
    let outside = attack.bare()?;
    let mut read = || reader.read(&mut [0; 16]).is_ok_and(|length| length > 0);
    bites(read(), &outside)?;
    let run = attack.jailed()?;
    run.must_have_attempted()?;
    assert!(!read(), "{run:?}");
    Ok(())
}

/// A file with a name in the work dir and one outside: what the run writes to the first must not reach the second.
fn a_hard_link_out_of_the_work_dir(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let secret = scene.canary("neighbour/file")?;
    let link = || fs::hard_link(scene.path("neighbour/file"), scene.path("work/file"));
    link()?;
    let payload = "fd = os.open('file', os.O_WRONLY); os.write(fd, b'evil'); answer('done')";
    let attack = scene.attack(payload).over(&scene, Commit::Always);
    let outside = attack.bare()?;
    let read = || fs::read_to_string(scene.path("neighbour/file"));
    bites(read()? != secret, &outside)?;
    scene.clear()?;
    let secret = scene.canary("neighbour/file")?;
    link()?;
    attack.committed()?;
    assert_eq!(read()?, secret);
    assert!(fs::read_to_string(scene.path("work/file"))?.starts_with("evil"));
    Ok(())
}

/// All private directories and the overlay share one bound, in bytes and in files.
fn more_bytes_than_the_disk_limit(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let payload = "total = 0\n\
         for place in ('.', '/tmp', '/dev/shm', os.environ['HOME']):\n\
         \x20   fd = os.open(place + '/f', os.O_WRONLY | os.O_CREAT, 0o600)\n\
         \x20   try:\n\
         \x20       while total < 64 << 20: total += os.write(fd, b'x' * 65536)\n\
         \x20   except OSError: pass\n\
         answer(str(total))";
    let attack =
        scene.attack(payload).over(&scene, Commit::Never).policy(|policy| policy.limits.disk = 4 << 20);
    let run = attack.jailed()?;
    let total: u64 = run.answer()?.parse()?;
    assert!(total <= 4 << 20 && total > 2 << 20, "{total}");
    Ok(())
}

/// Nothing changes hands, and what a commit adds belongs to the owner of the work dir.
fn a_commit_gives_files_to_the_owner(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let work = scene.path("work");
    fs::write(scene.path("work/old"), "x")?;
    if who == Who::Root {
        std::os::unix::fs::chown(&work, Some(61_235), Some(61_236))?;
        std::os::unix::fs::chown(scene.path("work/old"), Some(61_235), Some(61_236))?;
    } else {
        who.own(&scene.path("work/old"))?;
    }
    // Nobody else can enter, the jail's own uid for one.
    fs::set_permissions(&work, fs::Permissions::from_mode(0o700))?;
    let owner = work.metadata()?;
    let payload =
        "write('made'); write('old'); os.mkdir('d'); write('d/made'); os.symlink('x', 'l'); answer('done')";
    scene.attack(payload).over(&scene, Commit::OnSuccess).committed()?;
    for name in ["", "made", "old", "d", "d/made", "l"] {
        let meta = work.join(name).symlink_metadata()?;
        assert_eq!((meta.uid(), meta.gid()), (owner.uid(), owner.gid()), "{name}");
    }
    Ok(())
}
