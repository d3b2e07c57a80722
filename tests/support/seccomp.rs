//! Imitates a host whose kernel policy forbids some system calls, as container runtimes do.

/// Errno of an operation that is not permitted.
pub(crate) const EPERM: u32 = 1;
/// Errno of a system call that the kernel does not have.
pub(crate) const ENOSYS: u32 = 38;

/// Loads the filter and becomes the given command, which inherits it. `clone` is matched only with a flag that asks for
/// a namespace, since every fork uses it, and `ioctl` only where it configures an interface of the network (SIOCSIFFLAGS);
/// `listener` is `seccomp` with the flag that asks for one (SECCOMP_FILTER_FLAG_NEW_LISTENER).
/// Needs Python with ctypes; x86_64 and aarch64.
const PRELOADER: &str = r#"
import ctypes, os, struct, sys
ARCHES = {
    "x86_64": (0xC000003E, dict(ioctl=16, clone=56, ptrace=101, pivot_root=155, prctl=157, mount=165, umount2=166, unshare=272,
                                seccomp=317)),
    "aarch64": (0xC00000B7, dict(ioctl=29, clone=220, ptrace=117, pivot_root=41, prctl=167, mount=40, umount2=39, unshare=97,
                                 seccomp=277)),
}
BOTH = dict(setns=dict(x86_64=308, aarch64=268), open_tree=428, move_mount=429, fsopen=430, fsconfig=431, fsmount=432,
            pidfd_open=434, clone3=435, close_range=436, openat2=437, mount_setattr=442, landlock_create_ruleset=444,
            landlock_restrict_self=446)
machine = os.uname().machine
arch, numbers = ARCHES[machine]
for name, number in BOTH.items():
    numbers[name] = number[machine] if isinstance(number, dict) else number
LOAD, EQUAL, ANY_BIT, RETURN, ALLOW = 0x20, 0x15, 0x45, 0x06, 0x7FFF0000
# Where in the arguments to look, and for what.
ONLY_WITH = dict(clone=(16, ANY_BIT, 0x7E020080), ioctl=(24, EQUAL, 0x8914), listener=(24, ANY_BIT, 8))
numbers["listener"] = numbers["seccomp"]
program = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, arch), (RETURN, 0, 0, ALLOW)]
for rule in sys.argv[1].split(","):
    name, errno = rule.split("=")
    answer = (RETURN, 0, 0, 0x00050000 | int(errno))
    program.append((LOAD, 0, 0, 0))
    if name in ONLY_WITH:
        place, test, value = ONLY_WITH[name]
        program += [(EQUAL, 0, 3, numbers[name]), (LOAD, 0, 0, place), (test, 0, 1, value), answer]
    else:
        program += [(EQUAL, 0, 1, numbers[name]), answer]
program.append((RETURN, 0, 0, ALLOW))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in ((38, 1, 0, 0, 0), (22, 2, ctypes.c_void_p(ctypes.addressof(head)), 0, 0)):
    if libc.prctl(*arguments) != 0:
        sys.exit("prctl %d: %s" % (arguments[0], os.strerror(ctypes.get_errno())))
os.execvp(sys.argv[2], sys.argv[2:])
"#;

/// The words to put before a command so that it runs where each named system call fails with its errno.
pub(crate) fn preloader(forbidden: &[(&str, u32)]) -> Vec<String> {
    let rules: Vec<String> = forbidden.iter().map(|(name, errno)| format!("{name}={errno}")).collect();
    vec!["python3".into(), "-c".into(), PRELOADER.into(), rules.join(",")]
}

/// [`preloader`] for a host that forbids user namespaces. `clone3` is absent rather than refused, because a filter
/// cannot look at its flags and the C library falls back to `clone` only when it is absent: containers do the same.
pub(crate) fn without_user_namespaces() -> Vec<String> {
    preloader(&[("unshare", EPERM), ("clone", EPERM), ("clone3", ENOSYS)])
}
