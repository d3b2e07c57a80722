//! Attacks on what everybody shares: processes, memory, disk, processor, time. Counted from outside.

use crate::attacks;
use crate::jail::launch::Running;
use crate::jail::run::Run;
use crate::jail::who::Who;
use crate::scene::{Attack, Scene, bites};
use crate::support::{PATIENCE, Stop, eventually, processes, with_more_time};
use agentkit_protocol::{Access, Bytes, Control, Ended, EndedBy, Limit, Limits, Rule};
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

attacks![
    fork_bomb,
    fork_bomb_without_an_end,
    thread_bomb,
    memory_hog,
    memory_hog_of_many_processes,
    memory_hog_of_many_processes_at_once,
    memory_hog_behind_a_flood_of_questions,
    memory_hog_whose_first_thread_is_gone,
    memory_hog_under_a_name_that_is_no_text,
    memory_in_shared_mappings_that_nobody_holds,
    memory_in_shared_mappings_in_disguise,
    memory_that_only_the_kernel_sees,
    memory_in_page_tables,
    memory_in_page_tables_that_grow_without_a_fault,
    memory_in_datagrams_of_closed_sockets,
    memory_in_a_program_that_nobody_can_read,
    memory_in_queues_of_sockets,
    memory_in_queues_of_closed_sockets,
    memory_in_connections_that_nobody_accepts,
    memory_in_a_file_of_the_private_directories,
    one_large_file,
    many_files,
    disk_hog,
    disk_hog_that_reserves,
    disk_hog_of_files_without_a_name,
    disk_hog_of_a_thread_with_its_own_descriptors,
    disk_hog_that_nobody_may_look_into,
    disk_hog_that_has_ended,
    disk_hog_behind_a_closed_door,
    disk_hog_that_is_never_where_it_was,
    many_descriptors,
    descriptors_on_their_way,
    processor_hog_that_ignores_the_signal,
    processor_hog_of_children_that_nobody_waits_for,
    processor_hog_of_those_who_waited,
    a_large_parent_that_spawns,
    sleeper,
    sleeper_that_is_stopped,
    sleeper_whose_supervisor_is_held_up,
    raise_the_limits,
];

const TASKS: u64 = 16;

/// Threads of the processes of an attack, as the host counts them.
fn tasks(marker: &str) -> usize {
    let count = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    processes::with_marker(marker).iter().map(count).sum()
}

/// The attack must have more tasks than the limit without a jail, and never more in one; init, which the marker does not
/// find, is one of them.
fn multiplies(who: Who, payload: &str) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene.attack(payload).policy(|policy| policy.limits.processes = TASKS);
    let peak = |running: Running| -> Result<(usize, Run), Stop> {
        scene.wait_until_ready()?;
        // The attack is at its peak and holds it, for the supervisor to see too.
        let peak = (0..20).map(|_| tasks(&attack.marker)).max().unwrap_or(0);
        scene.release()?;
        Ok((peak, running.finish()?))
    };
    let (most, outside) = peak(attack.start_bare()?)?;
    bites(most > 2 * TASKS as usize, &outside)?;
    scene.clear()?;
    let (most, inside) = peak(attack.start_jailed()?)?;
    inside.must_have_attempted()?;
    assert!((2..TASKS as usize).contains(&most), "{most} tasks");
    let ended = inside.ended()?;
    // The supervisor takes samples, and may have been kept from it.
    let reported = ended.limits_reached.iter().any(|reached| reached.limit == Limit::Processes);
    let seen = ended.usage.peak_processes;
    assert!(seen < TASKS || (seen == TASKS && reported), "{ended:?}");
    Ok(())
}

fn fork_bomb(who: Who) -> Result<(), Stop> {
    multiplies(
        who,
        "def fork():\n\
         \x20   if os.fork() == 0: os.close(end); os.read(parked, 1); os._exit(0)\n\
         parked, end = os.pipe()\n\
         said = [attempt(fork) for _ in range(60)]\n\
         hold(); answer(said[-1])",
    )
}

fn thread_bomb(who: Who) -> Result<(), Stop> {
    multiplies(
        who,
        "import threading\n\
         parked = threading.Lock(); parked.acquire()\n\
         def start():\n\
         \x20   try: threading.Thread(target=parked.acquire, daemon=True).start()\n\
         \x20   except RuntimeError: pass\n\
         for _ in range(60): start()\n\
         hold(); answer('tried'); os._exit(0)",
    )
}

/// Every process goes on forking. Without a jail it would never end: `fork_bomb` is its bounded form.
fn fork_bomb_without_an_end(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    with_more_time(Duration::from_millis(500), |time| {
        scene.clear()?;
        let attack = scene.attack("answer('forking')\nwhile True: attempt(os.fork)").policy(|policy| {
            let wall_ms = time.as_millis() as u64;
            policy.limits = Limits { processes: TASKS, wall_ms, ..Limits::default() };
        });
        let mut running = attack.start_jailed()?;
        let mut most = 0;
        eventually("it has ended", PATIENCE + time, || {
            most = most.max(tasks(&attack.marker));
            running.child.try_wait().is_ok_and(|status| status.is_some())
        })?;
        let inside = running.finish()?;
        assert_eq!(inside.ended()?.ended_by, EndedBy::WallClock, "{inside:?}");
        assert!(most < TASKS as usize, "{most} tasks");
        assert_eq!(inside.left, [] as [u32; 0]);
        Ok((most >= TASKS as usize / 2 && inside.answer()? == "forking").then_some(()))
    })
}

/// The attack must come to the point where it leaves `survived` without a jail, and not in one.
fn survives(scene: &Scene, attack: &Attack<'_>) -> Result<Run, Stop> {
    let outside = attack.bare()?;
    bites(scene.path("work/survived").exists(), &outside)?;
    scene.clear()?;
    let inside = attack.jailed()?;
    assert!(!scene.path("work/survived").exists(), "{inside:?}");
    assert_eq!(inside.left, [] as [u32; 0]);
    Ok(inside)
}

const MEMORY: u64 = 64 << 20;

/// The attack must come to the point where it leaves `survived` without a jail. In one it must be stopped before, and
/// `in_time`: if others have the processors just then, it may be over before anybody looks, and is tried again with pauses
/// that are longer.
fn is_caught(
    scene: &Scene,
    payload: &str,
    limits: &Limits,
    in_time: impl Fn(&Ended) -> bool,
) -> Result<Ended, Stop> {
    let attack = |before: &str| {
        let attack = scene.attack(&format!("{before}{payload}\nwrite('survived')"));
        attack.policy(|policy| policy.limits = Limits { wall_ms: policy.limits.wall_ms, ..limits.clone() })
    };
    let outside = attack("").bare()?;
    bites(scene.path("work/survived").exists(), &outside)?;
    with_more_time(Duration::from_secs(1), |pace| {
        scene.clear()?;
        let pace = pace.as_secs();
        let slower = format!("pause = time.sleep; time.sleep = lambda time: pause({pace} * time)\n");
        let inside = attack(&slower).jailed()?;
        assert_eq!(inside.left, [] as [u32; 0]);
        let ended = inside.ended()?;
        Ok((!scene.path("work/survived").exists() && in_time(&ended)).then_some(ended))
    })
}

/// `payload` must have held four times the limit if it comes to its end.
fn hoards(who: Who, payload: &str) -> Result<(), Stop> {
    hoards_up_to(who, payload, 4 * MEMORY)
}

/// The same where nothing slows it down, or what was seen is an estimate.
fn hoards_unseen(who: Who, payload: &str) -> Result<(), Stop> {
    hoards_up_to(who, payload, u64::MAX)
}

fn hoards_up_to(who: Who, payload: &str, most: u64) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let limits = Limits { memory: MEMORY, disk: 1 << 30, ..Limits::default() };
    let ended = is_caught(&scene, payload, &limits, |ended| ended.usage.peak_memory < most)?;
    assert_eq!(ended.ended_by, EndedBy::Memory, "{ended:?}");
    Ok(())
}

fn memory_hog(who: Who) -> Result<(), Stop> {
    hoards(who, "held = []\nfor _ in range(64):\n    held.append(b'x' * (4 << 20)); time.sleep(0.003)")
}

fn memory_hog_of_many_processes(who: Who) -> Result<(), Stop> {
    let by_steps = "held = []\n\
                    \x20       for _ in range(8): held.append(b'x' * (4 << 20)); time.sleep(0.03)";
    hoards(who, &by_eight_processes(by_steps))
}

/// All of it can be there before anybody looks a second time.
fn memory_hog_of_many_processes_at_once(who: Who) -> Result<(), Stop> {
    hoards_unseen(who, &by_eight_processes("held = b'x' * (32 << 20)"))
}

fn by_eight_processes(hold: &str) -> String {
    format!(
        "for _ in range(8):\n\
         \x20   if os.fork() == 0:\n\
         \x20       {hold}\n\
         \x20       time.sleep(0.5); os._exit(0)\n\
         for _ in range(8): os.wait()"
    )
}

/// Every such change of a mode is asked about, and the one who answers is the one who looks.
fn memory_hog_behind_a_flood_of_questions(who: Who) -> Result<(), Stop> {
    hoards(
        who,
        "os.mkdir('d')\n\
         for _ in range(8):\n\
         \x20   if os.fork() == 0:\n\
         \x20       for _ in range(20000): os.chmod('d', 0o2755)\n\
         \x20       os._exit(0)\n\
         held = []\n\
         for _ in range(64):\n\
         \x20   held.append(b'x' * (4 << 20)); time.sleep(0.003)",
    )
}

/// The kernel describes a process by its first thread, and one that has ended shows no memory.
fn memory_hog_whose_first_thread_is_gone(who: Who) -> Result<(), Stop> {
    hoards(
        who,
        "import threading\n\
         def hog():\n\
         \x20   held = []\n\
         \x20   for _ in range(64): held.append(b'x' * (4 << 20)); time.sleep(0.003)\n\
         \x20   write('survived'); os._exit(0)\n\
         threading.Thread(target=hog).start()\n\
         call('exit', 0)",
    )
}

/// The kernel prints a process's name as it is, in the middle of what the supervisor reads.
fn memory_hog_under_a_name_that_is_no_text(who: Who) -> Result<(), Stop> {
    hoards(
        who,
        "with open('/proc/self/comm', 'wb') as name: name.write(b'\\xff) R 1 1')\n\
         held = []\n\
         for _ in range(64):\n\
         \x20   held.append(b'x' * (4 << 20)); time.sleep(0.003)",
    )
}

/// Given back to the kernel but still there: such pages belong to no process's resident memory.
fn memory_in_shared_mappings_that_nobody_holds(who: Who) -> Result<(), Stop> {
    hoards(
        who,
        "import mmap\n\
         held = []\n\
         for _ in range(64):\n\
         \x20   held.append(mmap.mmap(-1, 4 << 20)); held[-1].write(b'x' * (4 << 20))\n\
         \x20   held[-1].madvise(mmap.MADV_DONTNEED); time.sleep(0.003)",
    )
}

/// The same by way of `/dev/zero`, under names that the payload chooses, and with all but one page unmapped later.
fn memory_in_shared_mappings_in_disguise(who: Who) -> Result<(), Stop> {
    hoards(
        who,
        "import mmap\n\
         libc.mmap.restype = ctypes.c_void_p; zero = os.open('/dev/zero', os.O_RDWR); size = 64 << 20\n\
         libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t\n\
         libc.prctl.argtypes = ctypes.c_int, *[ctypes.c_ulong] * 3, ctypes.c_char_p\n\
         for _ in range(4):\n\
         \x20   at = libc.mmap(None, ctypes.c_size_t(size), 3, mmap.MAP_SHARED, zero, ctypes.c_long(0))\n\
         \x20   libc.prctl(0x53564d41, 0, at, size, b'harmless')\n\
         \x20   ctypes.memset(at, 1, size); time.sleep(0.05); libc.munmap(at + 4096, size - 4096)\n\
         time.sleep(0.3)",
    )
}

/// So fast, and with so little left mapped, that no look from outside can see it. The kernel's own limit can.
fn memory_that_only_the_kernel_sees(who: Who) -> Result<(), Stop> {
    who.must_be_root("make a memory cgroup without a delegated one")?;
    let scene = Scene::new(who)?;
    let payload = "import mmap\n\
                   libc.mmap.restype = ctypes.c_void_p; libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t\n\
                   size = 1 << 20; flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS\n\
                   for _ in range(320):\n\
                   \x20   at = libc.mmap(None, ctypes.c_size_t(size), 3, flags, -1, ctypes.c_long(0))\n\
                   \x20   ctypes.memset(at, 1, size); libc.munmap(at + 4096, size - 4096)\n\
                   write('survived')";
    let attack = scene.attack(payload).policy(|policy| {
        (policy.limits.memory, policy.limits.disk) = (MEMORY, 1 << 20);
        policy.require = [Control::MemoryLimited].into();
    });
    let before = groups_left();
    let run = survives(&scene, &attack)?;
    if let Some(refused) = run.failure().ok().filter(|failure| failure.step == "cgroup") {
        return Err(Stop::Skip(format!("there are no memory cgroups here: {refused}")));
    }
    let started = run.started()?;
    assert!(started.capabilities.level(Control::MemoryLimited).is_full(), "{started:?}");
    let ended = run.ended()?;
    assert_eq!(ended.ended_by, EndedBy::Memory, "{ended:?}");
    let evidence = ended.limits_reached.iter().map(|reached| &reached.evidence[..]);
    assert!(evidence.clone().any(|evidence| evidence.contains("kernel killed")), "{ended:?}");
    // Others may have been here, and been killed.
    let left: Vec<_> = groups_left().into_iter().filter(|group| !before.contains(group)).collect();
    assert_eq!(left, [] as [std::path::PathBuf; 0]);
    Ok(())
}

/// Groups of jails that nobody holds any more; tests run at the same time, and have their own.
fn groups_left() -> Vec<std::path::PathBuf> {
    let mut left = Vec::new();
    let mut directories = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let ours = entry.file_name().as_encoded_bytes().starts_with(b"agentkit-jail-");
                let held = || fs::File::open(entry.path()).is_ok_and(|group| group.try_lock().is_err());
                if ours && !held() { left.push(entry.path()) } else { directories.push(entry.path()) }
            }
        }
    }
    left
}

/// To read a page that was never written costs nothing but a place in the page tables: here 65,536 of them, of a page each.
fn memory_in_page_tables(who: Who) -> Result<(), Stop> {
    hoards(
        who,
        "import mmap\n\
         libc.mmap.restype = ctypes.c_void_p; libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int\n\
         size = 128 << 30; flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000\n\
         at = libc.mmap(None, ctypes.c_size_t(size), 1, flags, -1, ctypes.c_long(0))\n\
         libc.madvise(at, size, 15)\n\
         for page in range(at, at + size, 2 << 20):\n\
         \x20   ctypes.c_ubyte.from_address(page).value\n\
         \x20   if page >> 21 & 1023 == 0: time.sleep(0.01)",
    )
}

/// Pages behind the end of a file need a place in the page tables before the kernel finds that they are not there, which
/// is no fault then: here 65,536 places, of a page each.
fn memory_in_page_tables_that_grow_without_a_fault(who: Who) -> Result<(), Stop> {
    hoards(
        who,
        "import mmap\n\
         libc.mmap.restype = ctypes.c_void_p; libc.write.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t\n\
         file = os.open('empty', os.O_RDWR | os.O_CREAT); end = os.pipe()[1]; size = 64 << 40\n\
         at = libc.mmap(None, ctypes.c_size_t(size), 1, mmap.MAP_PRIVATE | 0x4000, file, ctypes.c_long(0))\n\
         time.sleep(0.1)\n\
         for page in range(at, at + size, 1 << 30):\n\
         \x20   assert libc.write(end, page, 1) == -1\n\
         \x20   if page >> 30 & 511 == 0: time.sleep(0.01)",
    )
}

/// Of datagrams the kernel tells only how long the first one is. Here that is nothing, and all senders are gone.
fn memory_in_datagrams_of_closed_sockets(who: Who) -> Result<(), Stop> {
    hoards_unseen(
        who,
        "import socket\n\
         make = lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); held = []; sent = 0; size = 200000\n\
         while sent < 4 * (64 << 20):\n\
         \x20   held.append(make()); name = b'\\0%d-%d' % (os.getpid(), len(held)); held[-1].bind(name)\n\
         \x20   for many in [0] + [size] * 9:\n\
         \x20       with make() as sender: sender.sendto(bytes(many), name); sent += many\n\
         \x20   time.sleep(0.003)\n\
         time.sleep(0.2)",
    )
}

/// The kernel shows the mappings of a process to nobody who cannot read its program: here root's, for all others.
fn memory_in_a_program_that_nobody_can_read(who: Who) -> Result<(), Stop> {
    if Who::everybody().len() < 2 {
        return Err(Stop::Skip("only root can make a program that its user cannot read".to_owned()));
    }
    let scene = Scene::new(who)?;
    let program = scene.path("closed-python");
    fs::copy(who.python()?, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o711))?;
    let hoard = "import mmap, time\n\
                 held = []\n\
                 for _ in range(64):\n    \
                     held.append(mmap.mmap(-1, 4 << 20)); held[-1].write(b'x' * (4 << 20))\n    \
                     held[-1].madvise(mmap.MADV_DONTNEED); time.sleep(0.003)\n\
                 open('survived', 'w')";
    let payload =
        format!("os.execve(arguments[0], ['python', '-c', {hoard:?}], {{'PYTHONHOME': sys.base_prefix}})");
    let attack = scene.attack(&payload).knows(&program).policy(|policy| {
        policy.limits.memory = MEMORY;
        policy.rules = vec![Rule { path: Bytes::from(program.clone()), access: Access::Ro }];
    });
    assert_eq!(survives(&scene, &attack)?.ended()?.ended_by, EndedBy::Memory);
    Ok(())
}

/// What was sent and not read is in no process. Each of eight processes has more than its share.
const SEND: &str = "import socket\n\
                    def fill(end, size=60000):\n\
                    \x20   end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20); end.setblocking(False); sent = 0\n\
                    \x20   try:\n\
                    \x20       while sent < 1 << 20: sent += end.send(bytes(size))\n\
                    \x20   except BlockingIOError: pass\n\
                    \x20   return sent\n";

fn memory_in_queues_of_sockets(who: Who) -> Result<(), Stop> {
    let both =
        "held.append(socket.socketpair()); sent += fill(held[-1][0]) + fill(held[-1][1]); time.sleep(0.01)";
    hoards_in_queues(who, both)
}

/// Nobody is charged for what a closed socket has sent.
fn memory_in_queues_of_closed_sockets(who: Who) -> Result<(), Stop> {
    let closed = "one, other = socket.socketpair(); held.append(other); sent += fill(one); one.close(); time.sleep(0.003)";
    hoards_in_queues(who, closed)
}

/// `fill` is what each of the processes does until it has sent its share.
fn hoards_in_queues(who: Who, fill: &str) -> Result<(), Stop> {
    let payload = format!(
        "{SEND}for _ in range(8):\n\
         \x20   if os.fork() == 0:\n\
         \x20       held = []; sent = 0\n\
         \x20       while sent < 36 << 20:\n\
         \x20           {fill}\n\
         \x20       time.sleep(0.5); os._exit(0)\n\
         for _ in range(8): assert os.wait()[1] == 0"
    );
    hoards_unseen(who, &payload)
}

/// Connections that nobody accepts, over the jail's own loopback.
fn memory_in_connections_that_nobody_accepts(who: Who) -> Result<(), Stop> {
    hoards(
        who,
        &format!(
            "{SEND}server = socket.create_server(('127.0.0.1', 0), backlog=250)\n\
             held = []; sent = 0\n\
             while sent < 240 << 20:\n\
             \x20   held.append(socket.create_connection(server.getsockname())); now = fill(held[-1]); sent += now\n\
             \x20   assert now and len(held) < 250\n\
             time.sleep(0.5)"
        ),
    )
}

/// What the payload's `fill` leaves of each private directory, or of stand-ins without a jail, is bounded together.
const FILL: &str = "private = ['/tmp', '/dev/shm', os.environ['HOME']] if os.environ.get('USER') == 'jail' else ['.'] * 3\n\
                    for at, directory in enumerate(private): attempt(fill, f'{directory}/filled-{at}')\n\
                    hold(); answer('filled')";
const DISK: u64 = 4 << 20;

/// Begins the attack in a jail, asks the kernel about each private directory, and lets it go on to its end.
fn private_directories(
    scene: &Scene,
    attack: &Attack<'_>,
    mut check: impl FnMut(nix::sys::statvfs::Statvfs),
) -> Result<(), Stop> {
    scene.clear()?;
    let running = attack.start_jailed()?;
    scene.wait_until_ready()?;
    let inside = processes::with_marker(&attack.marker);
    let looked = ["tmp", "dev/shm", "home/jail"].map(|directory| {
        statvfs(&std::path::PathBuf::from(format!("/proc/{}/root/{directory}", inside.first().unwrap_or(&0))))
    });
    scene.release()?;
    running.finish()?.must_have_attempted()?;
    for found in looked {
        check(found?);
    }
    Ok(())
}

fn memory_in_a_file_of_the_private_directories(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let payload = format!(
        "def fill(path):\n    with open(path, 'wb', 0) as file:\n        for _ in range(16): file.write(bytes(1 << 20))\n{FILL}"
    );
    let attack = scene.attack(&payload).policy(|policy| policy.limits.disk = DISK);
    let running = attack.start_bare()?;
    scene.wait_until_ready()?;
    scene.release()?;
    let outside = running.finish()?;
    let size = |at| scene.path(&format!("work/filled-{at}")).metadata().map(|meta| meta.len()).unwrap_or(0);
    bites((0..3).map(size).sum::<u64>() > 4 * DISK, &outside)?;
    private_directories(&scene, &attack, |found| {
        let size = u128::from(found.blocks()) * u128::from(found.fragment_size());
        assert!(size <= u128::from(DISK), "{found:?}");
        assert_eq!(found.blocks_free(), 0, "the attack did not fill it: {found:?}");
    })
}

/// A file without content costs memory too.
fn many_files(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let payload =
        format!("def fill(path):\n    for at in range(1500): write(f'{{path}}-{{at}}', '')\n{FILL}");
    let attack = scene.attack(&payload).policy(|policy| policy.limits.disk = DISK);
    let running = attack.start_bare()?;
    scene.wait_until_ready()?;
    scene.release()?;
    let outside = running.finish()?;
    bites(fs::read_dir(scene.path("work"))?.count() > 4000, &outside)?;
    private_directories(&scene, &attack, |found| {
        assert!(found.files() <= 1024, "{found:?}");
        assert_eq!(found.files_free(), 0, "the attack did not fill it: {found:?}");
    })
}

fn one_large_file(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let payload = "def fill():\n    with open('large', 'wb', 0) as file:\n        for _ in range(64): file.write(bytes(65536))\n\
                   def reserve(): os.posix_fallocate(os.open('reserved', os.O_CREAT | os.O_WRONLY), 0, 4 << 20)\n\
                   attempt(reserve); answer(attempt(fill))";
    let attack = scene.attack(payload).policy(|policy| policy.limits.file_size = 1 << 20);
    let size = |name: &str| scene.path(name).metadata().map(|meta| meta.len()).unwrap_or(0);
    let outside = attack.bare()?;
    bites(size("work/large") == 4 << 20 && size("work/reserved") == 4 << 20, &outside)?;
    scene.clear()?;
    attack.jailed()?.must_have_attempted()?;
    assert_eq!(size("work/large"), 1 << 20);
    assert_eq!(size("work/reserved"), 0);
    Ok(())
}

/// The work dir is the host's, whose file system has no limit for a run. `payload` leaves or holds four times what is
/// allowed, and each file is within its own limit.
fn fills(who: Who, payload: &str) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let limits = Limits { disk: 16 << 20, ..Limits::default() };
    let ended = is_caught(&scene, payload, &limits, |_| true)?;
    assert_eq!(ended.ended_by, EndedBy::Disk, "{ended:?}");
    assert!(ended.limits_reached.iter().any(|reached| reached.limit == Limit::Disk), "{ended:?}");
    assert!(ended.usage.written > 16 << 20, "{ended:?}");
    Ok(())
}

fn disk_hog(who: Who) -> Result<(), Stop> {
    fills(who, "for at in range(64): write(f'part-{at}', 'x' * (1 << 20)); time.sleep(0.01)")
}

/// Space is taken without a byte being written, deep down.
fn disk_hog_that_reserves(who: Who) -> Result<(), Stop> {
    fills(
        who,
        "top = os.getcwd()\n\
         for at in range(64):\n\
         \x20   os.mkdir('deeper'); os.chdir('deeper')\n\
         \x20   os.posix_fallocate(os.open('part', os.O_CREAT | os.O_WRONLY), 0, 1 << 20); time.sleep(0.01)\n\
         os.chdir(top)",
    )
}

fn disk_hog_of_files_without_a_name(who: Who) -> Result<(), Stop> {
    fills(
        who,
        "for at in range(64):\n\
         \x20   os.posix_fallocate(os.open('part', os.O_CREAT | os.O_WRONLY), 0, 1 << 20); os.unlink('part'); time.sleep(0.01)\n\
         time.sleep(0.2)",
    )
}

/// By close_range(2), which makes a copy of them for the thread: the process's own list shows nothing.
fn disk_hog_of_a_thread_with_its_own_descriptors(who: Who) -> Result<(), Stop> {
    fills(
        who,
        "import threading\n\
         def hog():\n\
         \x20   call_number(436, 1 << 20, 1 << 20, 2)\n\
         \x20   for at in range(64):\n\
         \x20       os.posix_fallocate(os.open('part', os.O_CREAT | os.O_WRONLY), 0, 1 << 20); os.unlink('part'); time.sleep(0.01)\n\
         \x20   time.sleep(0.2)\n\
         thread = threading.Thread(target=hog); thread.start(); thread.join()",
    )
}

/// By PR_SET_DUMPABLE, after which its list of descriptors is closed to its own user too.
fn disk_hog_that_nobody_may_look_into(who: Who) -> Result<(), Stop> {
    fills(
        who,
        "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n\
         for at in range(64):\n\
         \x20   os.posix_fallocate(os.open('part', os.O_CREAT | os.O_WRONLY), 0, 1 << 20); os.unlink('part'); time.sleep(0.01)\n\
         time.sleep(0.2)",
    )
}

/// Too fast for any look: all that can be done is to say so.
fn disk_hog_that_has_ended(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let payload = "for at in range(4): os.posix_fallocate(os.open(f'part-{at}', os.O_CREAT | os.O_WRONLY), 0, 8 << 20)\n\
                   os._exit(0)";
    let attack = scene.attack(payload).policy(|policy| policy.limits.disk = 16 << 20);
    let outside = attack.bare()?;
    bites(scene.path("work/part-3").exists(), &outside)?;
    scene.clear()?;
    let ended = attack.jailed()?.ended()?;
    assert!(ended.limits_reached.iter().any(|reached| reached.limit == Limit::Disk), "{ended:?}");
    Ok(())
}

/// The count must not open the door: between two calls the command could put something else in its place, and have that
/// opened. Nor may it pass over what it cannot count. What is held meanwhile is on its way in a socket, again and again: what
/// others give back at the same time hides what is taken.
fn disk_hog_behind_a_closed_door(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let payload = "import array, socket\n\
        os.mkdir('closed'); os.chmod('closed', 0)\n\
        changed = lambda: os.stat('closed').st_ctime_ns\n\
        before, deadline = changed(), time.monotonic() + 4\n\
        ours, theirs = socket.socketpair()\n\
        while changed() == before and time.monotonic() < deadline:\n\
        \x20   held = os.open('held', os.O_CREAT | os.O_RDWR); os.unlink('held')\n\
        \x20   socket.send_fds(ours, [b'x'], [held])\n\
        \x20   os.posix_fallocate(held, 0, 64 << 20); os.close(held); time.sleep(0.1)\n\
        \x20   os.close(socket.recv_fds(theirs, 1, 1)[1][0])\n\
        if changed() != before: write('opened')\n\
        os.chmod('closed', 0o700); write('survived')";
    let attack = scene.attack(payload).policy(|policy| policy.limits.disk = 16 << 20);
    let ended = survives(&scene, &attack)?.ended()?;
    // So that the scene can be taken away by an ordinary user, too.
    fs::set_permissions(scene.path("work/closed"), fs::Permissions::from_mode(0o700))?;
    assert_eq!(ended.ended_by, EndedBy::Disk, "{ended:?}");
    assert!(!scene.path("work/opened").exists(), "{ended:?}");
    Ok(())
}

/// Its directory has another name by the time a count comes to it.
fn disk_hog_that_is_never_where_it_was(who: Who) -> Result<(), Stop> {
    fills(
        who,
        "for at in range(3000): os.close(os.open(f'empty-{at}', os.O_CREAT | os.O_WRONLY))\n\
         os.mkdir('one'); place = os.open('one', os.O_RDONLY)\n\
         child = os.fork()\n\
         while child == 0: os.rename('one', 'two'); os.rename('two', 'one')\n\
         for at in range(64): os.posix_fallocate(os.open(f'part-{at}', os.O_CREAT | os.O_WRONLY, dir_fd=place), 0, 1 << 20); time.sleep(0.01)\n\
         time.sleep(2)\n\
         os.kill(child, 9); os.waitpid(child, 0)",
    )
}

fn many_descriptors(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let payload = "held = []\nfor _ in range(300): attempt(lambda: held.append(os.open('/dev/null', 0)))\n\
                   os.close(held.pop()); hold(); answer('tried')";
    let attack = scene.attack(payload).policy(|policy| policy.limits.open_files = 64);
    let most = |running: Running| -> Result<(usize, Run), Stop> {
        scene.wait_until_ready()?;
        let open = |pid| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let most = processes::with_marker(&attack.marker).into_iter().map(open).max();
        scene.release()?;
        Ok((most.unwrap_or(0), running.finish()?))
    };
    let (open, outside) = most(attack.start_bare()?)?;
    bites(open > 200, &outside)?;
    scene.clear()?;
    let (open, inside) = most(attack.start_jailed()?)?;
    inside.must_have_attempted()?;
    // All of them, or one less while nothing else is open.
    assert!((63..=64).contains(&open), "{open}");
    Ok(())
}

/// The kernel counts them for all of a user's processes, and a jail sends some while it starts: one must not keep others
/// from starting.
fn descriptors_on_their_way(who: Who) -> Result<(), Stop> {
    let (scene, others) = (Scene::new(who)?, Scene::new(who)?);
    let payload = "import array, socket\nheld = []\n\
                   def send():\n    held.append(socket.socketpair())\n    \
                       rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 250))\n    \
                       held[-1][0].sendmsg([b'x'], [rights])\n\
                   for _ in range(4): attempt(send)\n\
                   hold(); answer('tried')";
    let running = scene.attack(payload).start_jailed()?;
    scene.wait_until_ready()?;
    others.attack("answer('started')").jailed()?.must_have_attempted()?;
    scene.release()?;
    running.finish()?.must_have_attempted()
}

/// The limit of one second has a signal first, and then a kill.
fn processor_hog_that_ignores_the_signal(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene
        .attack(
            "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n\
             while time.process_time() < 2.3: pass\n\
             write('survived')",
        )
        .policy(|policy| policy.limits.cpu_seconds = 1);
    let ended = survives(&scene, &attack)?.ended()?;
    assert_eq!(ended.ended_by, EndedBy::Cpu, "{ended:?}");
    assert!((1_000_000..2_000_000).contains(&ended.usage.cpu_us), "{ended:?}");
    Ok(())
}

/// No process uses much, and none is in the sum of its parent's children.
fn processor_hog_of_children_that_nobody_waits_for(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene
        .attack(
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
             for _ in range(30):\n\
             \x20   child = os.fork()\n\
             \x20   if child == 0:\n\
             \x20       while time.process_time() < 0.1: pass\n\
             \x20       os._exit(0)\n\
             \x20   attempt(os.waitpid, child, 0)\n\
             write('survived')",
        )
        .policy(|policy| policy.limits.cpu_seconds = 1);
    let ended = survives(&scene, &attack)?.ended()?;
    assert_eq!(ended.ended_by, EndedBy::Cpu, "{ended:?}");
    assert!(ended.limits_reached.iter().any(|reached| reached.limit == Limit::Cpu), "{ended:?}");
    Ok(())
}

/// Workers are too short to be seen, and who waited for them takes their time along.
fn processor_hog_of_those_who_waited(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene
        .attack(
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
             for _ in range(12):\n\
             \x20   child = os.fork()\n\
             \x20   if child == 0:\n\
             \x20       signal.signal(signal.SIGCHLD, signal.SIG_DFL)\n\
             \x20       for _ in range(50):\n\
             \x20           if os.fork() == 0:\n\
             \x20               while time.process_time() < 0.006: pass\n\
             \x20               os._exit(0)\n\
             \x20           os.wait()\n\
             \x20       os._exit(0)\n\
             \x20   attempt(os.waitpid, child, 0)\n\
             write('survived')",
        )
        .policy(|policy| policy.limits.cpu_seconds = 1);
    let ended = survives(&scene, &attack)?.ended()?;
    assert_eq!(ended.ended_by, EndedBy::Cpu, "{ended:?}");
    Ok(())
}

/// No attack: who starts programs shows its memory twice until each of them runs. Only a kill for it would be wrong, and
/// so would be to overlook what is really there twice.
fn a_large_parent_that_spawns(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let spawns = "held = bytearray(b'x') * (80 << 20)\n\
                  for _ in range(200): os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)\n\
                  answer('spawned')";
    let honest = scene.attack(spawns).policy(|policy| policy.limits.memory = 2 * MEMORY);
    assert_eq!(honest.jailed()?.ended()?.ended_by, EndedBy::Exit(0));
    // The child of fork(2) has memory of its own, if CLONE_VFORK makes its parent wait or not.
    let doubles = "held = bytearray(b'x') * (80 << 20)\n\
                   if call('clone', 0x4000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:\n\
                   \x20   held[::4096] = bytes(len(held) // 4096); time.sleep(1); os._exit(0)\n\
                   os.wait(); write('survived')";
    let attack = scene.attack(doubles).policy(|policy| policy.limits.memory = 2 * MEMORY);
    assert_eq!(survives(&scene, &attack)?.ended()?.ended_by, EndedBy::Memory);
    Ok(())
}

fn sleeper(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack =
        scene.attack("time.sleep(0.8); write('survived')").policy(|policy| policy.limits.wall_ms = 300);
    let ended = survives(&scene, &attack)?.ended()?;
    assert_eq!(ended.ended_by, EndedBy::WallClock);
    assert!(ended.limits_reached.iter().any(|reached| reached.limit == Limit::Wall), "{ended:?}");
    Ok(())
}

/// Stopped, it takes part in nothing, and still the run has to end. A stopped process leaves no trace to be judged by:
/// the control is that without a jail it is there for ever.
fn sleeper_that_is_stopped(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let attack = scene.attack("answer('stopping'); os.kill(os.getpid(), signal.SIGSTOP); write('survived')");
    let mut running = attack.start_bare()?;
    let stopped = eventually("it is stopped", PATIENCE, || {
        processes::with_marker(&attack.marker).iter().any(|pid| {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
        })
    });
    running.child.kill()?;
    crate::processes::end_all(&attack.marker)?;
    bites(stopped.is_ok(), &running.finish()?)?;
    let mut attack = attack;
    with_more_time(Duration::from_millis(300), |time| {
        attack.policy.limits.wall_ms = time.as_millis() as u64;
        let inside = attack.jailed()?;
        assert_eq!((inside.ended()?.ended_by, inside.left.len()), (EndedBy::WallClock, 0));
        Ok(inside.answer().is_ok_and(|answer| answer == "stopping").then_some(()))
    })
}

/// A jail can make its supervisor wait, by keeping the mappings that it looks at locked, for instance. Here it waits for
/// ever, and the command has to end all the same.
fn sleeper_whose_supervisor_is_held_up(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let mut attack = scene.attack("write('ready'); time.sleep(1000)");
    with_more_time(Duration::from_millis(300), |time| {
        scene.clear()?;
        attack.policy.limits.wall_ms = time.as_millis() as u64;
        let mut running = attack.start_jailed()?;
        // Of what is started here it is the only child.
        let starter = running.child.id();
        let children = || fs::read_to_string(format!("/proc/{starter}/task/{starter}/children"));
        let is_over = |running: &mut Running| running.child.try_wait().is_ok_and(|status| status.is_some());
        eventually("the payload is ready", PATIENCE, || {
            scene.path("work/ready").exists() || is_over(&mut running)
        })?;
        let Ok(supervisor) = children()?.trim().parse() else { return Ok(None) };
        let supervisor = Pid::from_raw(supervisor);
        kill(supervisor, Signal::SIGSTOP)?;
        let was_alive = !processes::with_marker(&attack.marker).is_empty();
        let ended =
            eventually("it has ended", PATIENCE, || processes::with_marker(&attack.marker).is_empty());
        kill(supervisor, Signal::SIGCONT)?;
        assert_eq!((running.finish()?.ended()?.ended_by, ended.is_ok()), (EndedBy::WallClock, true));
        Ok(was_alive.then_some(()))
    })
}

/// Only the lower of two limits can be raised by everybody; without a jail the upper one is out of the way.
fn raise_the_limits(who: Who) -> Result<(), Stop> {
    let scene = Scene::new(who)?;
    let payload = "import resource\n\
                   for name, value in ('NPROC', -1), ('FSIZE', -1), ('CORE', -1), ('NOFILE', 2000):\n\
                   \x20   try: resource.setrlimit(getattr(resource, 'RLIMIT_' + name), (value, value))\n\
                   \x20   except (OSError, ValueError): pass\n\
                   hold(); answer('tried')";
    let attack = scene.attack(payload).before("ulimit -S -n 200".to_owned());
    let limits = |running: Running| -> Result<(String, Run), Stop> {
        scene.wait_until_ready()?;
        let payload = processes::with_marker(&attack.marker).into_iter().max().unwrap_or(0);
        let limits = fs::read_to_string(format!("/proc/{payload}/limits"));
        scene.release()?;
        Ok((limits?, running.finish()?))
    };
    let (table, outside) = limits(attack.start_bare()?)?;
    bites(lower(&table, "Max open files") == "2000", &outside)?;
    scene.clear()?;
    let (table, inside) = limits(attack.start_jailed()?)?;
    inside.must_have_attempted()?;
    let expected = Limits::default();
    // The supervisor outside counts too.
    assert_eq!(lower(&table, "Max processes"), (expected.processes - 1).to_string());
    assert_eq!(lower(&table, "Max file size"), expected.file_size.to_string());
    assert_eq!(lower(&table, "Max open files"), expected.open_files.to_string());
    assert_eq!(lower(&table, "Max core file size"), "1");
    Ok(())
}

/// The lower limit of a line of `/proc/PID/limits`.
fn lower(table: &str, name: &str) -> String {
    let values = table.lines().find_map(|line| line.strip_prefix(name));
    values.and_then(|values| values.split_whitespace().next()).unwrap_or_default().to_owned()
}
