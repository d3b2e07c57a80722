"""Runs a program again and again, each time with one system call failing, the nth of its name in all of its processes,
or with less of something than it needs.

Reads a JSON object from standard input: `argv`, the program's `stdin` (text), `directory`, `name` (what the processes
are called whose calls count), `errors` (for each call the number of an errno) and `limits` (values of some limits of
setrlimit(2)). The program runs once with nothing failing, then with the first and the last of each call that it made,
or with `all` each, and then once for each value. Prints a JSON object a line: which call or limit it was, how the
program ended, and what it wrote to standard output, standard error and descriptor 3.

The calls are held by a filter of seccomp(2) and answered from here, see seccomp_unotify(2). Numbers are those of x86_64.
"""
import ctypes, fcntl, json, os, resource, select, struct, sys, time

NUMBERS = dict(
    write=1, newfstatat=262, poll=7, mmap=9, mprotect=10, ioctl=16, madvise=28, dup=32, dup2=33, socket=41,
    sendto=44, recvfrom=45, sendmsg=46, recvmsg=47, bind=49, socketpair=53, clone=56, fork=57, vfork=58, fcntl=72,
    chdir=80, fchdir=81, mkdir=83, symlink=88, readlink=89, setpgid=109, setsid=112, setgroups=116, setresuid=117,
    setresgid=119, capget=125, capset=126, statfs=137, fstatfs=138, pivot_root=155, prctl=157, mount=165, umount2=166,
    sethostname=170, getdents64=217, keyctl=250, openat=257, mkdirat=258, mknodat=259, symlinkat=266, readlinkat=267,
    unshare=272, signalfd4=289, eventfd2=290, dup3=292, pipe2=293, inotify_init1=294, prlimit64=302, setns=308,
    seccomp=317, memfd_create=319, statx=332, pidfd_send_signal=424, open_tree=428, move_mount=429, fsopen=430,
    fsconfig=431, fsmount=432, pidfd_open=434, clone3=435, close_range=436, openat2=437, mount_setattr=442,
    landlock_create_ruleset=444, landlock_add_rule=445, landlock_restrict_self=446)
SECCOMP, PIDFD_GETFD = 317, 438
SET_FILTER, NEW_LISTENER, NO_NEW_PRIVS = 1, 8, 38
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
LOAD, EQUAL, RETURN, ALLOW, NOTIFY = 0x20, 0x15, 0x06, 0x7FFF0000, 0x7FC00000
SECONDS = 20

asked = json.load(sys.stdin)
names = {number: name for name, number in NUMBERS.items()}
libc = ctypes.CDLL(None, use_errno=True)


def load_filter(held):
    program = [(LOAD, 0, 0, 0)]
    for name in held:
        program += [(EQUAL, 0, 1, NUMBERS[name]), (RETURN, 0, 0, NOTIFY)]
    program.append((RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    return libc.syscall(SECCOMP, SET_FILTER, NEW_LISTENER, ctypes.byref(head))


def start(streams, held, limit):
    """The process, stopped at the door, and the descriptor by which its calls are answered."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(asked["directory"])
        os.close(ready[0]), os.close(go[1])
        for target, source in enumerate(streams):
            os.dup2(source, target, inheritable=True)
        listener = load_filter(held)
        # These two calls are not among those that are held.
        os.writev(ready[1], [struct.pack("i", listener)])
        os.read(go[0], 1)
        if limit:
            resource.setrlimit(getattr(resource, limit[0]), (limit[1], limit[1]))
        os.execv(asked["argv"][0], asked["argv"])
    os.close(ready[1]), os.close(go[0])
    pidfd = os.pidfd_open(child)
    listener = libc.syscall(PIDFD_GETFD, pidfd, struct.unpack("i", os.read(ready[0], 4))[0], 0)
    os.close(ready[0])
    os.write(go[1], b"x"), os.close(go[1])
    return child, pidfd, listener


def counts(pid):
    try:
        with open("/proc/%d/comm" % pid) as comm:
            return comm.read().strip() == asked["name"]
    except OSError:
        return False


def answer(listener, seen, case):
    """Answers one call. True if it was the one that has to fail."""
    call = bytearray(80)
    try:
        fcntl.ioctl(listener, RECEIVE, call)
    except OSError:
        return False  # Whoever made it was killed meanwhile.
    identity, pid, _, number = struct.unpack_from("QIIi", call)
    name, fails = names[number], False
    if counts(pid):
        seen[name] = seen.get(name, 0) + 1
        fails = case == [name, seen[name]]
    error = -asked["errors"][name] if fails else 0
    try:
        fcntl.ioctl(listener, SEND, bytearray(struct.pack("QqiI", identity, 0, error, 0 if fails else CONTINUE)))
    except OSError:
        pass
    return fails


def run(call, nth, held=(), limit=None):
    streams = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr", "report")]
    os.write(streams[0], asked["stdin"].encode())
    os.lseek(streams[0], 0, os.SEEK_SET)
    child, pidfd, listener = start(streams, held, limit)
    seen, failed, left, deadline = {}, False, True, time.monotonic() + SECONDS
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while left and time.monotonic() < deadline:
        for _, event in poll.poll(1000):
            if event & select.POLLIN:
                failed |= answer(listener, seen, [call, nth])
            else:
                left = False  # Nobody is left whose calls could be held.
    if left:
        os.kill(child, 9)
    _, status = os.waitpid(child, 0)
    texts = []
    for stream in streams:
        os.lseek(stream, 0, os.SEEK_SET)
        texts.append(os.read(stream, 1 << 20).decode(errors="replace"))
        os.close(stream)
    os.close(pidfd), os.close(listener)
    print(json.dumps(dict(call=call, nth=nth, failed=failed, hung=left, code=os.waitstatus_to_exitcode(status),
                          stdout=texts[1], stderr=texts[2], report=texts[3])), flush=True)
    return seen


for call, times in run("", 0, asked["errors"]).items():
    for nth in range(1, times + 1) if asked["all"] else sorted({1, times}):
        run(call, nth, [call])
for limit, values in asked["limits"].items():
    for value in values:
        run(limit, value, limit=(limit, value))
